//! Events are read as what they are, and refused if a field cannot be right.

use serde_json::{Value, json};
use windlass_hooks::{
    Client, EVENT_BYTES_MAX, EventError, EventKind, HookEvent, Subagent, ToolUse,
};

use crate::fixtures::{all, claude, codex, gemini, merged, opencode, tool};

fn parse(event: &Value, client: Client) -> Result<HookEvent, EventError> {
    HookEvent::parse(event.to_string().as_bytes(), Some(client))
}

/// The kind of every documented event, in a word.
fn word(kind: &EventKind) -> &'static str {
    match kind {
        EventKind::SessionStarted { .. } => "started",
        EventKind::SessionEnded { .. } => "ended",
        EventKind::Prompted { .. } => "prompted",
        EventKind::BeforeTool(_) => "before",
        EventKind::AfterTool { .. } => "after",
        EventKind::PermissionRequested(_) => "permission",
        EventKind::SubagentStarted => "subagent started",
        EventKind::SubagentStopped { .. } => "subagent stopped",
        EventKind::Stopped { .. } => "stopped",
        EventKind::SettingsChanged { .. } => "settings",
        EventKind::Other { .. } => "other",
    }
}

#[test]
fn every_documented_event_has_its_kind() {
    let mut others = 0;
    for (client, event) in all() {
        let read = parse(&event, client).unwrap();
        let name = read.name.as_str();
        let expected = match name {
            "SessionStart" | "session.created" => "started",
            "SessionEnd" | "session.deleted" => "ended",
            "UserPromptSubmit" | "BeforeAgent" | "chat.message" => "prompted",
            "PreToolUse" | "BeforeTool" | "tool.execute.before" => "before",
            "PostToolUse" | "PostToolUseFailure" | "AfterTool" | "tool.execute.after" => "after",
            "PermissionRequest" => "permission",
            "SubagentStart" => "subagent started",
            "SubagentStop" => "subagent stopped",
            "Stop" | "AfterAgent" => "stopped",
            "ConfigChange" => "settings",
            _ => {
                others += 1;
                assert_eq!(read.kind, EventKind::Other { name: name.to_owned() });
                "other"
            }
        };
        assert_eq!(word(&read.kind), expected, "{client:?} {name}");
        assert_eq!((read.client, event["hook_event_name"].as_str()), (client, Some(name)));
    }
    assert_eq!((all().len(), others), (60, 29));
}

#[test]
fn a_tool_use_of_claude_is_read_whole() {
    let event = claude(
        "PreToolUse",
        json!({
            "tool_name": "mcp__github__search", "tool_input": { "q": "x" }, "tool_use_id": "u",
            "mcp_server": { "name": "github", "source": "project" }, "agent_id": "a",
            "agent_type": "Explore", "a_field_of_tomorrow": [1],
        }),
    );
    let tool_use = ToolUse {
        id: Some("u".to_owned()),
        mcp_server: Some("github".to_owned()),
        ..tool("mcp__github__search", json!({ "q": "x" }))
    };
    let expected = HookEvent {
        client: Client::Claude,
        name: "PreToolUse".to_owned(),
        session: "s-1".to_owned(),
        cwd: "/w".to_owned(),
        transcript: Some("/h/.claude/projects/-w/s-1.jsonl".to_owned()),
        subagent: Some(Subagent { id: "a".to_owned(), kind: Some("Explore".to_owned()) }),
        model: None,
        permission_mode: Some("default".to_owned()),
        kind: EventKind::BeforeTool(tool_use),
    };
    assert_eq!(parse(&event, Client::Claude), Ok(expected));
}

#[test]
fn results_and_failures_are_read() {
    let used = json!({ "tool_name": "x", "tool_input": {}, "tool_use_id": "u" });
    let after = |event: Value, client| match parse(&event, client).unwrap().kind {
        EventKind::AfterTool { result, failure, interrupted, duration_ms, .. } => {
            (result, failure, interrupted, duration_ms)
        }
        kind => unreachable!("{kind:?}"),
    };
    let event = claude(
        "PostToolUse",
        merged(used.clone(), json!({ "tool_response": [1], "duration_ms": 12.9 })),
    );
    assert_eq!(after(event, Client::Claude), (json!([1]), None, false, Some(12)));
    let event = claude(
        "PostToolUseFailure",
        merged(used.clone(), json!({ "error": "no", "is_interrupt": true, "duration_ms": 3 })),
    );
    let failed = |text: &str| Some(text.to_owned());
    assert_eq!(after(event, Client::Claude), (Value::Null, failed("no"), true, Some(3)));
    let event = codex("PostToolUse", merged(used.clone(), json!({ "tool_response": "x" })));
    assert_eq!(after(event, Client::Codex), (json!("x"), None, false, None));
    for (error, text) in [
        (json!("no"), Some("no")),
        (json!({ "message": "no", "type": "t" }), Some("no")),
        (json!({ "type": "t" }), Some(r#"{"type":"t"}"#)),
        (Value::Null, None),
    ] {
        let response = json!({ "llmContent": "x", "error": error });
        let fields = merged(used.clone(), json!({ "tool_response": response }));
        let found = after(gemini("AfterTool", fields), Client::Gemini);
        assert_eq!(found, (response, text.map(str::to_owned), false, None));
    }
    let event = opencode("tool.execute.after", merged(used, json!({ "error": "no" })));
    assert_eq!(after(event, Client::OpenCode), (Value::Null, failed("no"), false, None));
}

#[test]
fn other_kinds_carry_their_fields() {
    let kind = |event: Value, client| parse(&event, client).unwrap().kind;
    let event = gemini("AfterAgent", json!({ "prompt": "p", "prompt_response": "r" }));
    let stopped = EventKind::Stopped { last_message: Some("r".to_owned()) };
    assert_eq!(kind(event, Client::Gemini), stopped);
    let event = claude("ConfigChange", json!({ "source": "skills" }));
    let changed = EventKind::SettingsChanged { source: "skills".to_owned(), file: None };
    assert_eq!(kind(event, Client::Claude), changed);
    let event = opencode("chat.message", json!({ "prompt": "" }));
    assert_eq!(
        kind(event, Client::OpenCode),
        EventKind::Prompted { text: String::new(), source: None }
    );
    let event = codex("SessionStart", json!({ "source": "resume" }));
    let started = EventKind::SessionStarted { source: Some("resume".to_owned()) };
    assert_eq!(kind(event, Client::Codex), started);
    let event = gemini(
        "BeforeTool",
        json!({
            "tool_name": "search", "tool_input": {},
            "mcp_context": { "server_name": "web", "tool_name": "search" },
        }),
    );
    let used = ToolUse { mcp_server: Some("web".to_owned()), ..tool("search", json!({})) };
    assert_eq!(kind(event, Client::Gemini), EventKind::BeforeTool(used));
}

#[test]
fn fields_that_cannot_be_right_are_refused() {
    let event = claude("PreToolUse", json!({ "tool_name": "Bash", "tool_input": {} }));
    assert!(parse(&event, Client::Claude).is_ok());
    let long = |bytes: usize| json!("x".repeat(bytes));
    let wrong = [
        ("session_id", vec![json!(""), json!(1), json!("a\nb"), long(257)]),
        ("cwd", vec![json!(""), json!("w"), json!("/a\0"), json!([]), long(4097)]),
        ("hook_event_name", vec![json!(""), json!(7), long(257)]),
        ("tool_name", vec![json!(""), json!({}), json!("a\u{7f}"), long(257)]),
        ("tool_input", vec![json!("ls"), json!([]), json!(1)]),
        ("tool_use_id", vec![json!(""), json!(1), long(257)]),
        ("transcript_path", vec![json!(""), json!(1), long(4097)]),
        ("agent_id", vec![json!(""), json!(1)]),
        ("mcp_server", vec![json!("m"), json!({}), json!({ "name": "" })]),
        ("permission_mode", vec![json!(1)]),
        ("model", vec![json!([])]),
    ];
    for (field, values) in wrong {
        for value in values {
            let event = merged(event.clone(), json!({ field: value }));
            let error = parse(&event, Client::Claude).unwrap_err();
            let named =
                matches!(&error, EventError::Invalid { field: named, .. } if *named == field);
            assert!(named, "{field} {error}");
        }
    }
    for field in ["session_id", "cwd", "hook_event_name", "tool_name", "tool_input"] {
        let event = merged(event.clone(), json!({ field: null }));
        assert_eq!(parse(&event, Client::Claude), Err(EventError::Missing { field }));
    }
    let event = merged(event, json!({ "session_id": "x".repeat(256) }));
    assert!(parse(&event, Client::Claude).is_ok());
}

#[test]
fn what_is_not_one_strict_object_is_refused() {
    let malformed = |text: &str| {
        let error = HookEvent::parse(text.as_bytes(), Some(Client::Claude)).unwrap_err();
        assert!(matches!(error, EventError::Malformed { .. }), "{text} {error}");
        error.to_string()
    };
    for text in
        ["", " ", "{", "{} {}", "{\"a\":1,}", "\u{feff}{}", "{'a':1}", "nul", "{\"a\":1e999}"]
    {
        malformed(text);
    }
    for text in ["{\"a\":1,\"a\":1}", "{\"x\":{\"a\":1,\"\\u0061\":2}}"] {
        assert!(malformed(text).contains("duplicate key `a`"));
    }
    malformed("{\"a\":\"\\ud800\"}");
    malformed(&format!("{{\"a\":{}", "[".repeat(100_000)));
    for text in ["[]", "null", "1", "\"{}\"", "true"] {
        let error = HookEvent::parse(text.as_bytes(), None);
        assert_eq!(error, Err(EventError::NotAnObject), "{text}");
    }
    let long = vec![b' '; EVENT_BYTES_MAX + 1];
    let error = HookEvent::parse(&long, None);
    assert_eq!(error, Err(EventError::TooLong { bytes_max: EVENT_BYTES_MAX }));
    assert!(HookEvent::parse(b"{\"a\":\"\xff\"}", None).is_err());
}

#[test]
fn a_long_event_is_read() {
    let command = "x".repeat(2 << 20);
    let input = json!({ "command": command });
    let event = claude("PreToolUse", json!({ "tool_name": "Bash", "tool_input": input }));
    let read = parse(&event, Client::Claude).unwrap();
    assert_eq!(read.kind, EventKind::BeforeTool(tool("Bash", input)));
}

#[test]
fn an_unknown_event_is_other_unless_it_is_about_a_tool_or_a_prompt() {
    for client in Client::ALL {
        let event = json!({
            "hook_event_name": "Tomorrow", "session_id": "s", "cwd": "/w", "x": 1,
        });
        let kind = EventKind::Other { name: "Tomorrow".to_owned() };
        assert_eq!(parse(&event, client).unwrap().kind, kind);
        for field in ["tool_name", "tool_input", "prompt"] {
            let event = merged(event.clone(), json!({ field: "x" }));
            let name = "Tomorrow".to_owned();
            let expected = EventError::UnknownQuestion { name, field };
            assert_eq!(parse(&event, client), Err(expected));
        }
    }
}
