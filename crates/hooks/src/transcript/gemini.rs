//! Transcripts of Gemini CLI.
//!
//! It writes a use when it is over: one that was interrupted by the end of the client is not there.

use serde_json::Value;

use super::lines::Lines;
use super::{
    TRANSCRIPT_BYTES_MAX, Tokens, TokensByMessage, Transcript, TranscriptUse, UseOutcome, Uses,
    name, object, path, text,
};

/// How an error begins if the tool did not run.
const REFUSALS: [&str; 5] = [
    "Tool execution blocked: ",
    "Tool execution denied by policy",
    "Path not in workspace: ",
    "params must ",
    "params/",
];

pub(super) fn read(bytes: &[u8]) -> Transcript {
    let mut reader = Reader::default();
    // Earlier versions kept a session as one object over many lines.
    if bytes.len() <= TRANSCRIPT_BYTES_MAX
        && let Ok(whole @ Value::Object(_)) = serde_json::from_slice(bytes)
    {
        reader.record(&whole);
        return reader.finish(false);
    }
    let mut lines = Lines::with(&["\"sessionId\"", "\"toolCalls\"", "\"tokens\""], bytes);
    while let Some(line) = lines.next() {
        reader.record(&line);
    }
    reader.finish(lines.is_incomplete)
}

#[derive(Default)]
struct Reader {
    transcript: Transcript,
    uses: Uses,
    tokens: TokensByMessage,
    has_head: bool,
    subagent: bool,
}

impl Reader {
    fn record(&mut self, record: &Value) {
        if let Some(session) = text(record, "sessionId")
            && !self.has_head
        {
            self.has_head = true;
            self.subagent = text(record, "kind") == Some("subagent");
            // A subagent's own id, which no hook event has.
            self.transcript.session = name(Some(session).filter(|_| !self.subagent));
            let folder = record.pointer("/directories/0").and_then(Value::as_str);
            self.transcript.cwd = path(folder);
        }
        for list in [record.get("messages"), record.pointer("/$set/messages")] {
            for message in list.and_then(Value::as_array).into_iter().flatten() {
                self.message(message);
            }
        }
        self.message(record);
    }

    /// A message is written again when something is added to it.
    fn message(&mut self, message: &Value) {
        let tokens = Tokens::of(message.get("tokens"), &["input"], &["output", "thoughts"]);
        self.tokens.add(text(message, "id"), tokens);
        let calls = message.get("toolCalls").and_then(Value::as_array);
        for call in calls.into_iter().flatten() {
            let (Some(id), Some(tool)) = (text(call, "id"), text(call, "name")) else {
                self.uses.is_incomplete = true;
                continue;
            };
            let tool_use = TranscriptUse {
                id: None,
                tool: tool.to_owned(),
                input: object(call.get("args")),
                outcome: outcome(call, tool),
                subagent: self.subagent,
            };
            match self.uses.get_mut(id) {
                Some(known) => *known = tool_use,
                None => self.uses.add(id, tool_use),
            }
        }
    }

    fn finish(self, is_incomplete: bool) -> Transcript {
        let Self { mut transcript, uses, tokens, .. } = self;
        transcript.tokens = tokens.sum();
        transcript.is_incomplete = is_incomplete || uses.is_incomplete;
        transcript.uses = uses.list;
        transcript
    }
}

fn outcome(call: &Value, tool: &str) -> UseOutcome {
    match text(call, "status") {
        Some("success") => UseOutcome::Ran,
        Some("error") => failure(call, tool),
        Some("cancelled") => match error(call) {
            Some(said) if said.contains("User denied execution") => UseOutcome::Refused,
            Some(_) | None => UseOutcome::MayHaveRun,
        },
        Some(_) | None => UseOutcome::Unknown,
    }
}

/// What an error says. The client has no sign for errors of its own but the words and how they are shown: it shows an
/// error of its own word for word, and that of a tool mostly shorter.
fn failure(call: &Value, tool: &str) -> UseOutcome {
    let said = error(call).unwrap_or_default();
    let is_own = text(call, "resultDisplay") == Some(said);
    if !is_own {
        UseOutcome::Ran
    } else if REFUSALS.iter().any(|refusal| said.starts_with(refusal))
        || said.starts_with(&format!("Tool \"{tool}\" not found"))
    {
        UseOutcome::Refused
    } else {
        UseOutcome::MayHaveRun
    }
}

fn error(call: &Value) -> Option<&str> {
    call.pointer("/result/0/functionResponse/response/error").and_then(Value::as_str)
}
