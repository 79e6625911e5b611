//! Sessions of OpenCode, from the rows of its database.
//!
//! It writes a use before its plugins are asked, and again whenever something becomes of it. The input is the one that a
//! plugin has changed.

use serde_json::Value;

use super::{Transcript, TranscriptUse, UseOutcome, Uses, name, object, path, text};

/// How errors begin that say that a tool was not started: our plugin's, and the client's own.
const REFUSALS: [&str; 4] = [
    "windlass: ",
    "The user has specified a rule which prevents you from using this specific tool call",
    "The user rejected permission to use this specific tool call",
    "The user dismissed this question",
];
/// What the client says of a use that it broke off.
const ABORTED: &str = "Tool execution aborted";
/// What the client adds to what the tool has told.
const INTERRUPTED: &str = "interrupted";
/// The tool in whose place the client puts one that it does not have.
const INVALID: &str = "invalid";

/// Reads a session of OpenCode, part by part.
pub struct OpenCodeReader {
    transcript: Transcript,
    uses: Uses,
    subagent: bool,
}

impl OpenCodeReader {
    /// Begins with a session, which works in a folder. That of a subagent has a session of its own, as in hook events.
    #[must_use]
    pub fn new(session: &str, folder: &str, subagent: bool) -> Self {
        let (session, cwd) = (name(Some(session)), path(Some(folder)));
        let transcript = Transcript { session, cwd, ..Transcript::default() };
        Self { transcript, uses: Uses::default(), subagent }
    }

    /// Reads one part: the text of the column `data`.
    pub fn part(&mut self, data: &str) {
        let Ok(part @ Value::Object(_)) = serde_json::from_str(data) else {
            self.skip();
            return;
        };
        if text(&part, "type") != Some("tool") {
            return;
        }
        let (Some(id), Some(tool)) = (text(&part, "callID"), text(&part, "tool")) else {
            self.skip();
            return;
        };
        let state = part.get("state").unwrap_or(&Value::Null);
        let tool_use = TranscriptUse {
            id: Some(id.to_owned()),
            tool: tool.to_owned(),
            input: object(state.get("input")),
            outcome: outcome(state, tool),
            subagent: self.subagent,
        };
        self.uses.add(id, tool_use);
    }

    /// A part could not be read.
    pub const fn skip(&mut self) {
        self.uses.is_incomplete = true;
    }

    /// What the session shows.
    #[must_use]
    pub fn finish(self) -> Transcript {
        let Self { mut transcript, uses, .. } = self;
        transcript.is_incomplete = uses.is_incomplete;
        transcript.uses = uses.list;
        transcript
    }
}

fn outcome(state: &Value, tool: &str) -> UseOutcome {
    match text(state, "status") {
        Some("completed") if tool == INVALID => UseOutcome::Refused,
        Some("completed") => UseOutcome::Ran,
        Some("error") => failure(state, tool),
        Some("running") if has_begun(state) => UseOutcome::Ran,
        // Plugins may be asked at this moment, or it runs.
        Some(_) | None => UseOutcome::Unknown,
    }
}

/// Whether a tool has told something of itself, which it does not do before it is started.
fn has_begun(state: &Value) -> bool {
    let told = state.get("metadata").and_then(Value::as_object);
    told.is_some_and(|told| told.keys().any(|key| key != INTERRUPTED))
}

/// What an error says. The client has no sign for a use that was refused but the words; a refusal by another plugin
/// looks like a tool that failed.
fn failure(state: &Value, tool: &str) -> UseOutcome {
    let said = text(state, "error").unwrap_or_default();
    let is_interrupted = state.pointer("/metadata/interrupted") == Some(&Value::Bool(true));
    let unfit = format!("The {tool} tool was called with invalid arguments");
    if has_begun(state) {
        UseOutcome::Ran
    } else if is_interrupted || said == ABORTED {
        UseOutcome::MayHaveRun
    } else if REFUSALS.iter().any(|refusal| said.starts_with(refusal)) || said.starts_with(&unfit) {
        UseOutcome::Refused
    } else {
        UseOutcome::Ran
    }
}
