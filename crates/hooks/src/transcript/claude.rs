//! Transcripts of Claude Code.

use serde_json::Value;

use super::lines::Lines;
use super::{
    Tokens, TokensByMessage, Transcript, TranscriptUse, UseOutcome, Uses, name, object, path, text,
};

/// How a result begins if the client did not hand the call to the tool.
const ERROR: &str = "<tool_use_error>";

/// The fields that count what the model read.
const INPUT: [&str; 3] = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];

pub(super) fn read(bytes: &[u8]) -> Transcript {
    let mut transcript = Transcript::default();
    let mut uses = Uses::default();
    let mut tokens = TokensByMessage::default();
    let words = ["\"cwd\"", "\"tool_use\"", "\"tool_result\"", "\"usage\""];
    let mut lines = Lines::with(&words, bytes);
    while let Some(line) = lines.next() {
        tokens.add(
            line.pointer("/message/id").and_then(Value::as_str),
            Tokens::of(line.pointer("/message/usage"), &INPUT, &["output_tokens"]),
        );
        if transcript.session.is_none() {
            transcript.session = name(text(&line, "sessionId"));
        }
        if transcript.cwd.is_none() {
            transcript.cwd = path(text(&line, "cwd"));
        }
        let Some(Value::Array(blocks)) = line.pointer("/message/content") else { continue };
        match text(&line, "type") {
            Some("assistant") => {
                for block in blocks {
                    add(&mut uses, &line, block);
                }
            }
            Some("user") => {
                let results = || blocks.iter().filter(|b| text(b, "type") == Some("tool_result"));
                let is_alone = results().count() == 1;
                for result in results() {
                    let Some(id) = text(result, "tool_use_id") else { continue };
                    if let Some(tool_use) = uses.get_mut(id) {
                        tool_use.outcome = outcome(is_alone.then_some(&line), result);
                    }
                }
            }
            Some(_) | None => {}
        }
    }
    transcript.is_incomplete = lines.is_incomplete || uses.is_incomplete;
    transcript.uses = uses.list;
    transcript.tokens = tokens.sum();
    transcript
}

fn add(uses: &mut Uses, line: &Value, block: &Value) {
    let ("tool_use", Some(id), Some(tool)) =
        (text(block, "type").unwrap_or_default(), text(block, "id"), text(block, "name"))
    else {
        return;
    };
    let is_sidechain = line.get("isSidechain").and_then(Value::as_bool).unwrap_or_default();
    let tool_use = TranscriptUse {
        id: Some(id.to_owned()),
        tool: tool.to_owned(),
        input: object(block.get("input")),
        outcome: UseOutcome::Unknown,
        subagent: is_sidechain || text(line, "agentId").is_some(),
    };
    uses.add(id, tool_use);
}

/// What a result says; `line` has more about it if it is the only one there.
fn outcome(line: Option<&Value>, result: &Value) -> UseOutcome {
    let line = line.unwrap_or(&Value::Null);
    // Present on every call that came to the question whether it may run, whatever its output looks like.
    match line.pointer("/permissionDecision/decision").and_then(Value::as_str) {
        Some("accept") => return UseOutcome::Ran,
        Some("reject") => return UseOutcome::Refused,
        Some(_) | None => {}
    }
    match text(line, "toolDenialKind") {
        Some("permission-rule") => return UseOutcome::Refused,
        // An interrupted call has the same words whether it ran already or waited for permission.
        Some(_) => return UseOutcome::MayHaveRun,
        None => {}
    }
    let is_error = result.get("is_error").and_then(Value::as_bool).unwrap_or_default();
    let said = text(result, "content").and_then(|content| content.strip_prefix(ERROR));
    match said.filter(|_| is_error) {
        // These may come after the tool was called.
        Some(said) if said.starts_with("Error calling tool") => UseOutcome::Ran,
        Some(said) if said.starts_with("Cancelled") || said.contains("discarded") => {
            UseOutcome::MayHaveRun
        }
        // The client's own record of its error lacks the tag; that of a tool that printed the tag has it.
        Some(_) if !text(line, "toolUseResult").is_some_and(|own| own.contains(ERROR)) => {
            UseOutcome::Refused
        }
        Some(_) | None => UseOutcome::Ran,
    }
}
