//! Answers to Claude Code.

use serde_json::{Value, json};

use super::{Answer, HookOutput, NO_INPUT, halt, printed, refusal, silence, text, told};

/// Events with a place for a text to the agent.
const CONTEXT: [&str; 6] = [
    "SessionStart",
    "UserPromptSubmit",
    "SubagentStart",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
];

pub(super) fn render(event_name: &str, answer: &Answer) -> HookOutput {
    match event_name {
        "PreToolUse" => before_tool(answer),
        "PermissionRequest" => permission(answer),
        _ => other(event_name, answer),
    }
}

fn before_tool(answer: &Answer) -> HookOutput {
    let event_name = "PreToolUse";
    match answer {
        Answer::Allow { input: None, skip_prompt: false } => silence(),
        Answer::Allow { input: None, skip_prompt: true } => printed(&json!({
            "hookSpecificOutput": { "hookEventName": event_name, "permissionDecision": "allow" },
        })),
        Answer::Allow { input: Some(input), skip_prompt: true | false } => printed(&json!({
            "hookSpecificOutput": {
                "hookEventName": event_name,
                "permissionDecision": "allow",
                "updatedInput": input,
            },
        })),
        Answer::Ask { reason, input } => undecided("ask", reason, input.as_ref()),
        Answer::Defer { reason } => undecided("defer", reason, None),
        Answer::Proceed | Answer::Deny { .. } | Answer::Halt { .. } | Answer::Tell { .. } => {
            other(event_name, answer)
        }
    }
}

fn undecided(decision: &str, reason: &str, input: Option<&Value>) -> HookOutput {
    let mut specific = json!({
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": text::question(reason),
    });
    if let (Some(input), Some(fields)) = (input, specific.as_object_mut()) {
        fields.insert("updatedInput".to_owned(), input.clone());
    }
    printed(&json!({ "hookSpecificOutput": specific }))
}

/// Exit code 2 refuses nothing here: the decision does. Silence lets the prompt appear that is about to.
fn permission(answer: &Answer) -> HookOutput {
    let decision =
        |decision: Value| json!({ "decision": decision, "hookEventName": "PermissionRequest" });
    let deny = |reason: &str| {
        printed(&json!({
            "hookSpecificOutput":
                decision(json!({ "behavior": "deny", "message": text::reason(reason) })),
        }))
    };
    match answer {
        Answer::Proceed
        | Answer::Allow { input: None, skip_prompt: false }
        | Answer::Ask { .. } => silence(),
        Answer::Allow { input: None, skip_prompt: true } => printed(&json!({
            "hookSpecificOutput": decision(json!({ "behavior": "allow" })),
        })),
        Answer::Allow { input: Some(input), skip_prompt: true } => printed(&json!({
            "hookSpecificOutput": decision(json!({ "behavior": "allow", "updatedInput": input })),
        })),
        Answer::Allow { input: Some(_), skip_prompt: false } => deny(NO_INPUT),
        Answer::Deny { reason } | Answer::Defer { reason } => deny(reason),
        Answer::Halt { reason } => {
            let reason = text::reason(reason);
            let deny = json!({ "behavior": "deny", "interrupt": true, "message": reason });
            printed(&json!({
                "continue": false,
                "hookSpecificOutput": decision(deny),
                "stopReason": reason,
            }))
        }
        Answer::Tell { text } => told("PermissionRequest", text, &CONTEXT),
    }
}

fn other(event_name: &str, answer: &Answer) -> HookOutput {
    match answer {
        Answer::Proceed | Answer::Allow { input: None, .. } => silence(),
        Answer::Allow { input: Some(_), .. } => refusal(NO_INPUT),
        Answer::Deny { reason } | Answer::Ask { reason, .. } | Answer::Defer { reason } => {
            refusal(reason)
        }
        Answer::Halt { reason } => halt(reason),
        Answer::Tell { text } => told(event_name, text, &CONTEXT),
    }
}
