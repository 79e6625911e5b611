//! How the clients read an answer, as far as it was documented or measured.

use serde_json::{Map, Value};
use windlass_hooks::{Client, HookOutput};

/// What a client takes an answer for.
#[derive(Clone, Debug, PartialEq)]
pub enum Taken {
    /// The tool is not used.
    Refused,
    /// The tool is not used and the agent stops.
    Halted,
    /// A person is asked.
    Asked,
    /// The session pauses.
    Deferred,
    /// The tool is used without asking, with this input if there is one.
    Allowed(Option<Value>),
    /// No decision: the client does what it would do without a hook, mostly use the tool.
    Nothing,
}

/// Events of Claude Code that exit code 2 blocks.
const CLAUDE_BLOCKING: [&str; 14] = [
    "PreToolUse",
    "UserPromptSubmit",
    "UserPromptExpansion",
    "Stop",
    "SubagentStop",
    "TeammateIdle",
    "TaskCreated",
    "TaskCompleted",
    "ConfigChange",
    "PostToolBatch",
    "PreCompact",
    "Elicitation",
    "ElicitationResult",
    "WorktreeCreate",
];

pub fn taken(client: Client, event: &str, output: &HookOutput) -> Taken {
    match client {
        Client::Claude => claude(event, output),
        Client::Codex => codex(event, output),
        Client::Gemini => gemini(output),
        Client::OpenCode => opencode(output),
    }
}

fn object(text: &str) -> Option<Map<String, Value>> {
    match serde_json::from_str(text) {
        Ok(Value::Object(map)) => Some(map),
        Ok(_) | Err(_) => None,
    }
}

fn text<'a>(value: Option<&'a Value>, key: &str) -> Option<&'a str> {
    value.and_then(|value| value.get(key)).and_then(Value::as_str)
}

fn claude(event: &str, output: &HookOutput) -> Taken {
    let answer = output.stdout.trim_start().starts_with('{').then(|| object(&output.stdout));
    let answer = answer.flatten().unwrap_or_default();
    let stops = answer.get("continue") == Some(&Value::Bool(false));
    match output.exit_code {
        2 if CLAUDE_BLOCKING.contains(&event) => {
            if stops {
                Taken::Halted
            } else {
                Taken::Refused
            }
        }
        0 => {
            let specific = answer.get("hookSpecificOutput");
            if specific.is_some() && text(specific, "hookEventName") != Some(event) {
                return Taken::Nothing;
            }
            let input = specific.and_then(|specific| specific.get("updatedInput")).cloned();
            let decision = specific.and_then(|specific| specific.get("decision"));
            let found = if event == "PermissionRequest" {
                text(decision, "behavior")
            } else {
                text(specific, "permissionDecision")
            };
            match found {
                Some("deny") if stops => Taken::Halted,
                Some("deny") => Taken::Refused,
                Some("ask") => Taken::Asked,
                Some("defer") => Taken::Deferred,
                Some("allow") => Taken::Allowed(
                    input.or_else(|| decision.and_then(|d| d.get("updatedInput")).cloned()),
                ),
                Some(_) | None => Taken::Nothing,
            }
        }
        _ => Taken::Nothing,
    }
}

/// An answer with anything that it does not know is no answer.
fn codex(event: &str, output: &HookOutput) -> Taken {
    match output.exit_code {
        2 if !output.stderr.trim().is_empty() => return Taken::Refused,
        0 => {}
        _ => return Taken::Nothing,
    }
    let Some(answer) = object(&output.stdout) else { return Taken::Nothing };
    let known = ["systemMessage", "suppressOutput", "decision", "reason", "hookSpecificOutput"];
    if answer.keys().any(|key| !known.contains(&key.as_str())) {
        return Taken::Nothing;
    }
    let specific = answer.get("hookSpecificOutput");
    let known: &[&str] = match event {
        "PreToolUse" => &[
            "hookEventName",
            "permissionDecision",
            "permissionDecisionReason",
            "updatedInput",
            "additionalContext",
        ],
        "PermissionRequest" => &["hookEventName", "decision"],
        _ => &["hookEventName", "additionalContext"],
    };
    let fields = specific.and_then(Value::as_object).cloned().unwrap_or_default();
    if fields.keys().any(|key| !known.contains(&key.as_str())) {
        return Taken::Nothing;
    }
    let input = fields.get("updatedInput").cloned();
    let reason = text(specific, "permissionDecisionReason").is_some_and(|r| !r.trim().is_empty());
    match (text(specific, "permissionDecision"), input) {
        (Some("deny"), None) if reason => Taken::Refused,
        (Some("allow"), Some(input)) => Taken::Allowed(Some(input)),
        (Some(_), _) | (None, Some(_)) => Taken::Nothing,
        (None, None) => match fields.get("decision").map(ToString::to_string).as_deref() {
            Some(r#"{"behavior":"allow"}"#) => Taken::Allowed(None),
            Some(_) | None => Taken::Nothing,
        },
    }
}

/// It reads standard error where standard output is empty, and takes either for an answer if it is JSON.
fn gemini(output: &HookOutput) -> Taken {
    let trimmed =
        |text: &str| text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}').to_owned();
    let stdout = trimmed(&output.stdout);
    let read = if stdout.is_empty() { trimmed(&output.stderr) } else { stdout };
    if read.is_empty() {
        return Taken::Nothing;
    }
    let Ok(mut answer) = serde_json::from_str::<Value>(&read) else {
        return if output.exit_code == 2 { Taken::Refused } else { Taken::Nothing };
    };
    if let Some(Ok(inner)) = answer.as_str().map(serde_json::from_str) {
        answer = inner;
    }
    if answer.get("continue") == Some(&Value::Bool(false)) {
        return Taken::Halted;
    }
    let input = answer.pointer("/hookSpecificOutput/tool_input").cloned();
    match text(Some(&answer), "decision") {
        Some("deny" | "block") => Taken::Refused,
        Some("ask") => Taken::Asked,
        Some("allow") => Taken::Allowed(input),
        Some(_) | None => Taken::Nothing,
    }
}

/// Our plugin: everything but a clear permission is a refusal.
fn opencode(output: &HookOutput) -> Taken {
    let answer = object(&output.stdout).unwrap_or_default();
    if output.exit_code == 0 && answer.get("decision").and_then(Value::as_str) == Some("allow") {
        return Taken::Allowed(answer.get("input").cloned());
    }
    Taken::Refused
}
