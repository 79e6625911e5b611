//! The events of a session of Claude Code 2.1.325 as it sent them: reading, a shell, a subagent in the background, writing, a
//! failure, an unknown tool, a stop, and the same session resumed and compacted.

use serde_json::Value;

use super::Core;
use crate::harness::{Outcome, finish};

const STREAM: &str = include_str!("claude-2.1.325.jsonl");

/// What each is answered. Without a plan nothing may be written; the client of then did, which is told.
const DECISIONS: [&str; 35] = [
    "SessionStart: told",
    "UserPromptSubmit: told",
    "PreToolUse Read: nothing",
    "PostToolUse Read: nothing",
    "PostToolBatch: nothing",
    "PreToolUse Bash: allow",
    "PostToolUse Bash: nothing",
    "PostToolBatch: nothing",
    "PreToolUse Agent: nothing",
    "PostToolUse Agent: nothing",
    "SubagentStart: nothing",
    "PostToolBatch: nothing",
    "PreToolUse Read: nothing",
    "PreToolUse Write: refused",
    "PostToolUse Read: nothing",
    "PostToolUse Write: told",
    "PostToolBatch: nothing",
    "PostToolBatch: nothing",
    "SubagentStop: nothing",
    "PreToolUse Edit: refused",
    "PostToolUse Edit: told",
    "PostToolBatch: nothing",
    "UserPromptSubmit: nothing",
    "PreToolUse Bash: allow",
    "PostToolUseFailure Bash: nothing",
    "PostToolBatch: nothing",
    "PostToolBatch: nothing",
    "Stop: refused",
    "SessionEnd: nothing",
    "SessionStart: told",
    "PreCompact: nothing",
    "SubagentStop: nothing",
    "SubagentStop: nothing",
    "SessionStart: told",
    "SessionEnd: nothing",
];

/// Sends the events to the hook, in their order, and returns their names with the answers.
fn replay(core: &Core) -> Vec<(String, Outcome)> {
    let work = core.place.work();
    let home = core.place.home();
    let text = STREAM.replace("WORK", work.to_str().unwrap()).replace("SESSION", core.id);
    let text = text.replace("HOME", home.to_str().unwrap());
    let sent = text.lines().map(|line| {
        let event: Value = serde_json::from_str(line).unwrap();
        let name = event["hook_event_name"].as_str().unwrap();
        let tool = event["tool_name"].as_str().unwrap_or_default();
        let hook = core.place.command(&["hook", "--client", "claude"]);
        (format!("{name} {tool}").trim().to_owned(), finish(hook, line.as_bytes()))
    });
    sent.collect()
}

/// What a client is told: nothing, something, or a refusal.
fn decision(outcome: &Outcome) -> &'static str {
    match (outcome.code, outcome.text().trim()) {
        (Some(0), "") => "nothing",
        (Some(0), text) => {
            let answer: Value = serde_json::from_str(text).unwrap();
            let decided = &answer["hookSpecificOutput"]["permissionDecision"];
            match decided.as_str() {
                Some("allow") => "allow",
                Some("deny") => "deny",
                Some(other) => panic!("{other}"),
                None => "told",
            }
        }
        (Some(2), _) => "refused",
        other => panic!("{other:?}: {}", outcome.stderr),
    }
}

#[test]
fn every_event_of_a_recorded_session_is_decided() {
    let core = Core::new();
    let answers = replay(&core);
    let decided: Vec<String> =
        answers.iter().map(|(name, answer)| format!("{name}: {}", decision(answer))).collect();
    assert_eq!(decided, DECISIONS);
    core.place.run(&["verify"]).exit(0);
}
