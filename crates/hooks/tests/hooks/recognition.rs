//! The client is told by the event, or the event is refused.

use serde_json::{Value, json};
use windlass_hooks::{Client, EventError, HookEvent};

use crate::fixtures::{all, claude, codex, gemini, merged, opencode};

fn found(event: &Value) -> Result<Client, EventError> {
    HookEvent::parse(event.to_string().as_bytes(), None).map(|event| event.client)
}

fn is_unclear(event: &Value) -> bool {
    matches!(found(event), Err(EventError::ClientUnclear { .. }))
}

#[test]
fn every_documented_event_shows_its_client() {
    for (client, event) in all() {
        if (client, event["hook_event_name"].as_str()) == (Client::Codex, Some("SessionStart")) {
            assert!(is_unclear(&event));
        } else {
            assert_eq!(found(&event), Ok(client), "{event}");
        }
    }
}

#[test]
fn an_event_that_several_clients_may_have_sent_is_refused() {
    let used = json!({ "tool_name": "Bash", "tool_input": {} });
    for field in ["turn_id", "model"] {
        let event = merged(codex("PreToolUse", used.clone()), json!({ field: null }));
        assert!(is_unclear(&event), "{event}");
        let event = merged(claude("PreToolUse", used.clone()), json!({ field: "x" }));
        assert!(is_unclear(&event), "{event}");
    }
    let mut event = claude("PreToolUse", used.clone());
    event["transcript_path"] = Value::Null;
    assert!(is_unclear(&event));
    for field in ["turn_id", "model", "permission_mode", "prompt_id"] {
        assert!(is_unclear(&gemini("SessionStart", json!({ field: "x" }))), "{field}");
    }
    assert!(is_unclear(&gemini("BeforeTool", merged(used.clone(), json!({ "client": "claude" })))));
    assert!(is_unclear(&codex("PreToolUse", merged(used.clone(), json!({ "client": "claude" })))));
    assert!(is_unclear(&opencode("PreToolUse", used)));
    let unknown = json!({ "hook_event_name": "Tomorrow", "session_id": "s", "cwd": "/w" });
    assert!(is_unclear(&unknown));
    let both = json!({ "timestamp": "t", "turn_id": "t", "model": "m" });
    assert!(is_unclear(&merged(unknown, both)));
}

#[test]
fn unknown_events_go_by_their_fields() {
    assert_eq!(found(&gemini("Tomorrow", json!({}))), Ok(Client::Gemini));
    assert_eq!(found(&codex("Tomorrow", json!({}))), Ok(Client::Codex));
    assert_eq!(found(&opencode("tomorrow", json!({}))), Ok(Client::OpenCode));
}

#[test]
fn a_given_client_that_the_event_contradicts_is_refused() {
    let refused = |event: &Value, given| {
        let read = HookEvent::parse(event.to_string().as_bytes(), Some(given));
        matches!(read, Err(EventError::OtherClient { .. }))
    };
    for (client, event) in all() {
        let name = event["hook_event_name"].as_str().unwrap().to_owned();
        for given in Client::ALL.into_iter().filter(|given| *given != client) {
            let session = matches!(name.as_str(), "SessionStart" | "SessionEnd" | "Notification");
            let shared = given == Client::Codex
                && matches!(
                    name.as_str(),
                    "PreToolUse"
                        | "PermissionRequest"
                        | "PostToolUse"
                        | "PreCompact"
                        | "PostCompact"
                        | "UserPromptSubmit"
                        | "SubagentStart"
                        | "SubagentStop"
                        | "Stop"
                );
            // Only these may as well be another client's.
            if !session && !shared {
                assert!(refused(&event, given), "{given:?} {event}");
            }
        }
    }
    let event = claude("SessionStart", json!({ "client": "opencode" }));
    assert!(refused(&event, Client::Claude));
    assert!(refused(&claude("SessionStart", json!({})), Client::OpenCode));
}

#[test]
fn a_given_client_decides_where_nothing_contradicts_it() {
    let event = codex("SessionStart", json!({ "turn_id": null })).to_string();
    for client in [Client::Claude, Client::Codex, Client::Gemini] {
        assert_eq!(HookEvent::parse(event.as_bytes(), Some(client)).unwrap().client, client);
    }
}
