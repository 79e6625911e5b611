//! Answers to the plugin in OpenCode: always one JSON object, and exit code 0 only with `allow`.

use serde_json::json;

use super::{Answer, HookOutput, printed, text};

pub(super) fn render(answer: &Answer) -> HookOutput {
    match answer {
        Answer::Proceed | Answer::Allow { input: None, .. } => {
            printed(&json!({ "decision": "allow" }))
        }
        Answer::Allow { input: Some(input), .. } => {
            printed(&json!({ "decision": "allow", "input": input }))
        }
        Answer::Deny { reason }
        | Answer::Ask { reason, .. }
        | Answer::Defer { reason }
        | Answer::Halt { reason } => refusal(reason),
        Answer::Tell { text } => {
            printed(&json!({ "decision": "allow", "reason": text::message(text) }))
        }
    }
}

/// The refusal, which the plugin turns into an error.
pub(super) fn refusal(reason: &str) -> HookOutput {
    let stderr = text::reason(reason);
    let stdout = json!({ "decision": "deny", "reason": stderr }).to_string();
    HookOutput { exit_code: 2, stdout, stderr }
}
