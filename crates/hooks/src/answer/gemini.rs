//! Answers to Gemini CLI.
//!
//! It ignores the form of Claude Code, and waits for ever after `ask` if nobody is there.

use serde_json::json;

use super::{Answer, HookOutput, NO_INPUT, halt, printed, refusal, silence, told};

/// Events with a place for a text to the agent.
const CONTEXT: [&str; 3] = ["SessionStart", "BeforeAgent", "AfterTool"];

pub(super) fn render(event_name: &str, answer: &Answer) -> HookOutput {
    match (event_name, answer) {
        ("BeforeTool", Answer::Allow { input: None, skip_prompt: true }) => {
            printed(&json!({ "decision": "allow" }))
        }
        ("BeforeTool", Answer::Allow { input: Some(input), .. }) => printed(&json!({
            "decision": "allow",
            "hookSpecificOutput": { "hookEventName": event_name, "tool_input": input },
        })),
        (_, Answer::Proceed | Answer::Allow { input: None, .. }) => silence(),
        (_, Answer::Allow { input: Some(_), .. }) => refusal(NO_INPUT),
        (_, Answer::Deny { reason } | Answer::Ask { reason, .. } | Answer::Defer { reason }) => {
            refusal(reason)
        }
        (_, Answer::Halt { reason }) => halt(reason),
        (_, Answer::Tell { text }) => told(event_name, text, &CONTEXT),
    }
}
