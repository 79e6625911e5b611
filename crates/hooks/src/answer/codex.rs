//! Answers to Codex.
//!
//! It runs the tool if an answer has a field that it does not know, `continue`, or the decision `ask` or `defer`.

use serde_json::json;

use super::{Answer, HookOutput, NO_INPUT, printed, refusal, silence, told};

/// Events with a place for a text to the agent.
const CONTEXT: [&str; 5] =
    ["SessionStart", "UserPromptSubmit", "SubagentStart", "PreToolUse", "PostToolUse"];

pub(super) fn render(event_name: &str, answer: &Answer) -> HookOutput {
    match (event_name, answer) {
        ("PermissionRequest", Answer::Allow { input: None, skip_prompt: true }) => {
            printed(&json!({
                "hookSpecificOutput": {
                    "decision": { "behavior": "allow" },
                    "hookEventName": event_name,
                },
            }))
        }
        ("PreToolUse", Answer::Allow { input: Some(input), .. }) => printed(&json!({
            "hookSpecificOutput": {
                "hookEventName": event_name,
                "permissionDecision": "allow",
                "updatedInput": input,
            },
        })),
        // It knows the decision `allow` only with an input.
        (_, Answer::Proceed | Answer::Allow { input: None, .. }) => silence(),
        (_, Answer::Allow { input: Some(_), .. }) => refusal(NO_INPUT),
        (
            _,
            Answer::Deny { reason }
            | Answer::Ask { reason, .. }
            | Answer::Defer { reason }
            | Answer::Halt { reason },
        ) => refusal(reason),
        (_, Answer::Tell { text }) => told(event_name, text, &CONTEXT),
    }
}
