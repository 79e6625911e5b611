//! An event of every kind that the clients document.

use serde_json::{Map, Value, json};
use windlass_hooks::{Client, ToolUse};

/// An event of Claude Code with these fields besides the common ones.
pub fn claude(name: &str, fields: Value) -> Value {
    let base = json!({
        "session_id": "s-1", "transcript_path": "/h/.claude/projects/-w/s-1.jsonl", "cwd": "/w",
        "hook_event_name": name, "prompt_id": "p-1", "permission_mode": "default",
    });
    merged(base, fields)
}

/// An event of Codex with these fields besides the common ones.
pub fn codex(name: &str, fields: Value) -> Value {
    let base = json!({
        "session_id": "s-2", "turn_id": "t-1", "transcript_path": null, "cwd": "/w",
        "hook_event_name": name, "model": "gpt-6", "permission_mode": "default",
    });
    merged(base, fields)
}

/// An event of Gemini CLI with these fields besides the common ones.
pub fn gemini(name: &str, fields: Value) -> Value {
    let base = json!({
        "session_id": "s-3", "transcript_path": "/h/.gemini/tmp/x.json", "cwd": "/w",
        "hook_event_name": name, "timestamp": "2026-11-17T12:00:00.000Z",
    });
    merged(base, fields)
}

/// An event of our plugin in OpenCode with these fields besides the common ones.
pub fn opencode(name: &str, fields: Value) -> Value {
    let base = json!({
        "client": "opencode", "session_id": "ses_4", "cwd": "/w", "hook_event_name": name,
    });
    merged(base, fields)
}

/// The two objects in one; a field that is null in the second is taken out.
pub fn merged(base: Value, fields: Value) -> Value {
    let (Value::Object(mut base), Value::Object(fields)) = (base, fields) else {
        return Value::Null;
    };
    for (key, value) in fields {
        if value.is_null() {
            base.remove(&key);
        } else {
            base.insert(key, value);
        }
    }
    Value::Object(base)
}

/// A use of a tool.
pub fn tool(name: &str, input: Value) -> ToolUse {
    ToolUse { id: None, name: name.to_owned(), input, mcp_server: None }
}

/// All documented events.
pub fn all() -> Vec<(Client, Value)> {
    let claude = claude_events().into_iter().map(|(name, f)| (Client::Claude, claude(name, f)));
    let codex = codex_events().into_iter().map(|(name, f)| (Client::Codex, codex(name, f)));
    let gemini = gemini_events().into_iter().map(|(name, f)| (Client::Gemini, gemini(name, f)));
    let opencode =
        opencode_events().into_iter().map(|(name, f)| (Client::OpenCode, opencode(name, f)));
    claude.chain(codex).chain(gemini).chain(opencode).collect()
}

fn bash(more: Value) -> Value {
    let base = json!({
        "tool_name": "Bash", "tool_input": { "command": "ls" }, "tool_use_id": "toolu_1",
    });
    merged(base, more)
}

fn none() -> Value {
    Value::Object(Map::new())
}

fn claude_events() -> Vec<(&'static str, Value)> {
    let switch = json!({
        "from_model": "a", "to_model": "b", "requested_model": null, "source": "command",
        "context_tokens": 1, "prompt_cache_warm": false, "cache_ttl": "5m",
        "estimated_cache_write_usd": 0.1, "pricing": "default",
    });
    let task = json!({ "task_id": "1", "task_subject": "s" });
    let answer = json!({ "mcp_server_name": "m", "message": "?", "action": "accept" });
    vec![
        ("PreToolUse", bash(none())),
        ("PostToolUse", bash(json!({ "tool_response": { "stdout": "x" }, "duration_ms": 12.5 }))),
        ("PostToolUseFailure", bash(json!({ "error": "exit 1", "is_interrupt": true }))),
        ("PostToolBatch", json!({ "tool_calls": [bash(none())] })),
        ("Notification", json!({ "message": "m", "notification_type": "idle_prompt" })),
        ("UserPromptSubmit", json!({ "prompt": "do it", "source": "user" })),
        (
            "UserPromptExpansion",
            json!({
                "expansion_type": "slash_command", "command_name": "x", "command_args": "",
                "prompt": "/x",
            }),
        ),
        ("SessionStart", json!({ "source": "startup", "model": "opus" })),
        ("SessionEnd", json!({ "reason": "other" })),
        ("Stop", json!({ "stop_hook_active": false, "last_assistant_message": "done" })),
        ("StopFailure", json!({ "error": "rate_limit" })),
        ("SubagentStart", json!({ "agent_id": "a-1", "agent_type": "Explore" })),
        (
            "SubagentStop",
            json!({
                "agent_id": "a-1", "agent_type": "Explore", "stop_hook_active": false,
                "agent_transcript_path": "/h/a-1.jsonl",
            }),
        ),
        ("PreCompact", json!({ "trigger": "auto", "custom_instructions": null })),
        ("PostCompact", json!({ "trigger": "auto", "compact_summary": "s" })),
        ("PreModelSwitch", switch.clone()),
        ("PostModelSwitch", switch),
        ("PermissionRequest", bash(json!({ "tool_use_id": null }))),
        ("PermissionDenied", bash(json!({ "reason": "rule" }))),
        ("Setup", json!({ "trigger": "init" })),
        ("TeammateIdle", json!({ "teammate_name": "t", "team_name": "u" })),
        ("TaskCreated", task.clone()),
        ("TaskCompleted", task),
        ("Elicitation", json!({ "mcp_server_name": "m", "message": "?" })),
        ("ElicitationResult", answer),
        (
            "ConfigChange",
            json!({ "source": "local_settings", "file_path": "/w/.claude/settings.local.json" }),
        ),
        ("WorktreeCreate", json!({ "name": "w" })),
        ("WorktreeRemove", json!({ "worktree_path": "/w2" })),
        (
            "InstructionsLoaded",
            json!({
                "file_path": "/w/CLAUDE.md", "memory_type": "Project", "load_reason": "include",
            }),
        ),
        ("CwdChanged", json!({ "old_cwd": "/w", "new_cwd": "/w/a" })),
        ("FileChanged", json!({ "file_path": "/w/a", "event": "change" })),
        ("DirectoryAdded", json!({ "directory": "/x", "source": "slash_command" })),
        (
            "MessageDisplay",
            json!({ "turn_id": "t", "message_id": "m", "index": 0, "final": true, "delta": "x" }),
        ),
    ]
}

fn codex_events() -> Vec<(&'static str, Value)> {
    let agent = json!({ "agent_id": "a-2", "agent_type": "worker" });
    vec![
        ("PreToolUse", bash(none())),
        ("PermissionRequest", bash(json!({ "tool_use_id": null }))),
        ("PostToolUse", bash(json!({ "tool_response": "x" }))),
        ("PreCompact", json!({ "trigger": "auto" })),
        ("PostCompact", json!({ "trigger": "auto" })),
        ("SessionStart", json!({ "source": "startup", "turn_id": null })),
        ("SessionEnd", json!({ "reason": "exit", "turn_id": null })),
        ("UserPromptSubmit", json!({ "prompt": "do it" })),
        ("SubagentStart", agent.clone()),
        ("SubagentStop", agent),
        ("Stop", json!({ "stop_hook_active": false, "last_assistant_message": "done" })),
    ]
}

fn gemini_events() -> Vec<(&'static str, Value)> {
    let used = json!({ "tool_name": "run_shell_command", "tool_input": { "command": "ls" } });
    let response =
        json!({ "llmContent": "x", "returnDisplay": "x", "error": { "message": "exit 1" } });
    let after = merged(used.clone(), json!({ "tool_response": response }));
    vec![
        ("SessionStart", json!({ "source": "startup" })),
        ("SessionEnd", json!({ "reason": "exit" })),
        ("BeforeAgent", json!({ "prompt": "do it" })),
        (
            "AfterAgent",
            json!({ "prompt": "do it", "prompt_response": "done", "stop_hook_active": false }),
        ),
        ("BeforeModel", json!({ "llm_request": {} })),
        ("AfterModel", json!({ "llm_request": {}, "llm_response": {} })),
        ("BeforeToolSelection", json!({ "llm_request": {} })),
        ("BeforeTool", used),
        ("AfterTool", after),
        ("PreCompress", json!({ "trigger": "auto" })),
        ("Notification", json!({ "message": "m", "notification_type": "ToolPermission" })),
    ]
}

fn opencode_events() -> Vec<(&'static str, Value)> {
    let used = json!({
        "tool_name": "bash", "tool_input": { "command": "ls" }, "tool_use_id": "call_1",
    });
    vec![
        ("tool.execute.before", used.clone()),
        ("tool.execute.after", merged(used, json!({ "tool_response": { "output": "x" } }))),
        ("session.created", none()),
        ("session.deleted", none()),
        ("chat.message", json!({ "prompt": "do it" })),
    ]
}
