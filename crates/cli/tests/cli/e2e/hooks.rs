//! `windlass hook`: events of coding agents, judged and recorded.

use serde_json::{Value, json};

use crate::harness::{Outcome, Place, text_of};

const HOOK: [&str; 3] = ["hook", "--client", "claude"];

/// An event of Claude Code.
fn event(place: &Place, name: &str, more: &Value) -> Value {
    let mut event = json!({
        "session_id": "5e551011-0000-4000-8000-000000000001",
        "transcript_path": "/nowhere/transcript.jsonl",
        "cwd": place.work(),
        "hook_event_name": name,
        "permission_mode": "default",
    });
    let fields = event.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    event
}

fn send(place: &Place, name: &str, more: &Value) -> Outcome {
    place.feed(&HOOK, event(place, name, more).to_string().as_bytes())
}

/// Asks to use a tool.
fn before(place: &Place, id: &str, tool: &str, input: &Value) -> Outcome {
    send(place, "PreToolUse", &json!({ "tool_name": tool, "tool_input": input, "tool_use_id": id }))
}

/// Reports that a tool was used.
fn after(place: &Place, id: &str, tool: &str, input: &Value) -> Outcome {
    let response = json!({ "stdout": "done", "stderr": "", "interrupted": false });
    let fields = json!({
        "tool_name": tool, "tool_input": input, "tool_use_id": id, "tool_response": response,
        "duration_ms": 7,
    });
    send(place, "PostToolUse", &fields)
}

/// A refusal as every client understands it.
#[track_caller]
fn refused(outcome: &Outcome) -> String {
    assert_eq!(outcome.code, Some(2), "{outcome}");
    assert_eq!(outcome.text(), "", "{outcome}");
    assert!(outcome.stderr.starts_with("refused: "), "{outcome}");
    outcome.stderr.clone()
}

/// The calls of the sessions with their states, oldest first.
fn calls(place: &Place) -> Vec<(String, String)> {
    let all = place.run(&["call", "list", "--json"]).exit(0).json();
    let all = all.as_array().unwrap().iter().rev();
    all.map(|call| (text_of(call, "trace_id"), text_of(call, "current_state"))).collect()
}

#[test]
fn a_use_of_a_tool_is_one_call_from_its_question_to_its_report() {
    let place = Place::with_project();
    let input = json!({ "command": "git status", "description": "look" });
    let allowed = before(&place, "toolu_1", "Bash", &input).exit(0);
    assert_eq!(allowed.stderr, "");
    let answer = &allowed.json()["hookSpecificOutput"];
    assert_eq!(answer["permissionDecision"], "allow");
    assert_eq!(answer["updatedInput"]["description"], "look");
    let [(id, state)] = &calls(&place)[..] else { panic!("one call") };
    assert_eq!(state, "EXECUTING");
    after(&place, "toolu_1", "Bash", &input).exit(0);
    assert_eq!(calls(&place), [(id.clone(), "COMPLETED".to_owned())]);
    let shown = place.run(&["trace", "log", id, "--artifacts"]).exit(0);
    for part in [r#""by": "report""#, r#""client": "claude""#, r#""workspace": "client""#] {
        assert!(shown.text().contains(part), "{part} in {shown}");
    }
    // The same id again is not the same permission again.
    refused(&before(&place, "toolu_1", "Bash", &input));
    place.run(&["verify"]).exit(0);
}

#[test]
fn what_policy_denies_or_nobody_knows_is_refused_and_recorded() {
    let place = Place::with_project();
    let secret = json!({ "command": "cat ~/.ssh/id_rsa" });
    refused(&before(&place, "toolu_1", "Bash", &secret));
    let outside = json!({ "file_path": "/etc/passwd", "content": "x" });
    refused(&before(&place, "toolu_2", "Write", &outside));
    let reason = refused(&before(&place, "toolu_3", "Teleport", &json!({})));
    assert!(reason.contains("Teleport"), "{reason}");
    let states: Vec<String> = calls(&place).into_iter().map(|(_, state)| state).collect();
    assert_eq!(states.iter().filter(|state| *state == "DENIED").count(), states.len());
    assert!(states.len() >= 2, "{states:?}");
    place.run(&["verify"]).exit(0);
}

#[test]
fn a_question_is_answered_by_a_person_and_holds_for_one_call() {
    let place = Place::with_project();
    let input = json!({ "command": "env" });
    let reason = refused(&before(&place, "toolu_1", "Bash", &input));
    let [(id, state)] = &calls(&place)[..] else { panic!("one call") };
    assert_eq!(state, "PENDING");
    assert!(reason.contains(&format!("windlass call approve {id}")), "{reason}");
    // Asking again is the same question.
    refused(&before(&place, "toolu_2", "Bash", &input));
    assert_eq!(calls(&place).len(), 1);
    let voice = ["--by", "ada", "--reason", "looked at it"];
    place.run(&[&["call", "approve", id][..], &voice].concat()).exit(0).says("AUTHORIZED");
    assert_eq!(calls(&place)[0].1, "AUTHORIZED");
    before(&place, "toolu_3", "Bash", &input).exit(0);
    after(&place, "toolu_3", "Bash", &input).exit(0);
    assert_eq!(calls(&place)[0].1, "COMPLETED");
    refused(&before(&place, "toolu_4", "Bash", &input));
    assert_eq!(calls(&place).len(), 2);
    place.run(&["verify"]).exit(0);
}

#[test]
fn nothing_makes_a_call_of_a_session_again() {
    let place = Place::with_project();
    let input = json!({ "command": "touch made" });
    before(&place, "toolu_1", "Bash", &input).exit(0);
    let id = calls(&place)[0].0.clone();
    place.run(&["recover"]);
    let runs = place.run(&["status", "--json"]).exit(0).json();
    let run = text_of(&runs[0], "run_id");
    assert_eq!(runs[0]["loop"], "session");
    place.run(&["resume", &run]).fails_with(2, "REQUEST_INVALID");
    let voice = ["--by", "ada", "--reason", "looked at it"];
    for word in [&["approve"][..], &["settle", "--not-run"]] {
        let outcome = place.run(&[&["call", word[0], &id][..], &word[1..], &voice].concat());
        assert_ne!(outcome.code, Some(0), "{outcome}");
    }
    assert_eq!(calls(&place)[0].1, "EXECUTING");
    assert!(!place.work().join("made").exists());
}

#[test]
fn a_session_is_a_run_with_its_prompts_and_its_end() {
    let place = Place::with_project();
    send(&place, "SessionStart", &json!({ "source": "startup", "model": "m" })).exit(0);
    send(&place, "UserPromptSubmit", &json!({ "prompt": "tidy up" })).exit(0);
    let runs = place.run(&["status", "--json"]).exit(0).json();
    assert_eq!(runs.as_array().unwrap().len(), 1, "{runs}");
    place.run(&["status"]).exit(0).says("open").says("a session of claude");
    let id = text_of(&runs[0], "trace_id");
    place.run(&["trace", "log", &id, "--artifacts"]).exit(0).says("tidy up");
    send(&place, "SessionEnd", &json!({ "reason": "logout" })).exit(0);
    let runs = place.run(&["status", "--json"]).exit(0).json();
    assert_eq!(runs[0]["outcome"], "PASS");
    // A session that goes on later is a run of its own.
    before(&place, "toolu_1", "Bash", &json!({ "command": "git status" })).exit(0);
    let runs = place.run(&["status", "--json"]).exit(0).json();
    assert_eq!(runs.as_array().unwrap().len(), 2, "{runs}");
    place.run(&["verify"]).exit(0);
}

#[test]
fn what_was_made_without_asking_is_told() {
    let place = Place::with_project();
    let outcome = after(&place, "toolu_9", "Bash", &json!({ "command": "git status" })).exit(0);
    assert!(outcome.text().contains("UNGUARDED"), "{outcome}");
    let runs = place.run(&["status", "--json"]).exit(0).json();
    let id = text_of(&runs[0], "trace_id");
    place.run(&["trace", "log", &id, "--artifacts"]).exit(0).says("unguarded");
}

#[test]
fn whatever_cannot_be_read_or_recorded_is_refused() {
    let place = Place::with_project();
    for bytes in [&b"{"[..], b"[]", b"null", b"{}", b"\xff\xfe", b" "] {
        refused(&place.feed(&HOOK, bytes));
    }
    let input = json!({ "command": "git status" });
    let event = |place: &Place| {
        event(
            place,
            "PreToolUse",
            &json!({ "tool_name": "Bash", "tool_input": input, "tool_use_id": "t" }),
        )
        .to_string()
    };
    let wrong = place.feed(&["hook", "--client", "nobody"], event(&place).as_bytes());
    assert_eq!(wrong.code, Some(2), "{wrong}");
    place.write_untrusted(".windlass/policy/more.toml", "");
    refused(&place.feed(&HOOK, event(&place).as_bytes()));
    std::fs::remove_file(place.work().join(".windlass/policy/more.toml")).unwrap();
    place.feed(&HOOK, event(&place).as_bytes()).exit(0);
    std::fs::write(place.database(), "not a database").unwrap();
    refused(&place.feed(&HOOK, event(&place).replace("\"t\"", "\"u\"").as_bytes()));
    let nowhere = Place::new();
    refused(&nowhere.feed(&HOOK, event(&nowhere).as_bytes()));
}

#[test]
fn fifty_hooks_of_one_session_at_once_lose_nothing() {
    let place = Place::with_project();
    std::thread::scope(|scope| {
        for number in 0..50 {
            let place = &place;
            scope.spawn(move || {
                let id = format!("toolu_{number}");
                let input = json!({ "command": format!("echo {number}") });
                before(place, &id, "Bash", &input).exit(0);
                after(place, &id, "Bash", &input).exit(0);
            });
        }
    });
    let all = place.run(&["call", "list", "--json", "--limit", "100"]).exit(0).json();
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), 50);
    assert!(all.iter().all(|call| call["current_state"] == "COMPLETED"), "{all:?}");
    let runs = place.run(&["status", "--json"]).exit(0).json();
    assert_eq!(runs.as_array().unwrap().len(), 1, "{runs}");
    place.run(&["verify"]).exit(0);
}

#[test]
fn an_agent_may_stop_whatever_fails() {
    // Refused, it would go on: Codex for ever.
    let place = Place::with_project();
    before(&place, "toolu_1", "Bash", &json!({ "command": "git status" })).exit(0);
    std::fs::write(place.database(), "this is not a journal").unwrap();
    refused(&before(&place, "toolu_2", "Bash", &json!({ "command": "git status" })));
    for name in ["Stop", "SubagentStop"] {
        let fields = json!({ "stop_hook_active": false, "agent_id": "a", "agent_type": "b",
            "agent_transcript_path": "/nowhere/agent.jsonl" });
        let outcome = send(&place, name, &fields).exit(1).warns("[STORE_CORRUPT]");
        assert_eq!(outcome.text(), "", "{outcome}");
    }
}
