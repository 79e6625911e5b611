//! Sessions of a coding agent, as its hooks tell of them.

use serde_json::{Value, json};

use crate::harness::{Outcome, finish};
use crate::world::Repo;

/// Sends an event of Claude Code's hooks.
pub fn hook(repo: &Repo, session: &str, name: &str, more: &Value) -> Outcome {
    let mut event = json!({
        "permission_mode": "default", "transcript_path": "/nowhere/t", "session_id": session,
        "cwd": repo.root(), "hook_event_name": name,
    });
    event.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    finish(repo.place.command(&["hook", "--client", "claude"]), event.to_string().as_bytes())
}

/// A session with a prompt and three calls: one that is done, one that is denied, one that is asked about.
pub fn session(repo: &Repo, id: &str) {
    hook(repo, id, "UserPromptSubmit", &json!({ "prompt": "build <it> and push" })).exit(0);
    let bash = |id: &str, line: &str| json!({ "tool_name": "Bash", "tool_input": { "command": line }, "tool_use_id": id });
    hook(repo, id, "PreToolUse", &bash("t1", "echo one")).exit(0);
    let mut done = bash("t1", "echo one");
    done["tool_response"] = json!({ "stdout": "done" });
    hook(repo, id, "PostToolUse", &done).exit(0);
    drop(hook(repo, id, "PreToolUse", &bash("t2", "sudo ls")));
    drop(hook(repo, id, "PreToolUse", &bash("t3", "git push origin main")));
}
