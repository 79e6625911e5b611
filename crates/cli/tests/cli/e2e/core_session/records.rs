//! Each event of a session is on record, whether anything was decided about it or not.

use serde_json::{Value, json};

use super::{Core, audited};

/// The names of the events that are notes of the session, and what they say.
fn noted(core: &Core) -> Vec<(String, Value)> {
    let shown = core.place.run(&["session", "show", core.id, "--json"]).exit(0).json();
    let notes = shown["notes"].as_array().unwrap_or_else(|| panic!("{shown}")).clone();
    let event = |note: &Value| {
        Some((note["note"]["event"].as_str()?.to_owned(), note["note"]["details"].clone()))
    };
    notes.iter().filter_map(event).collect()
}

fn count(core: &Core, name: &str) -> usize {
    noted(core).iter().filter(|(event, _)| event == name).count()
}

#[test]
fn events_that_nothing_is_decided_about_are_recorded() {
    let core = Core::new();
    core.prompt("add a file").exit(0);
    let tool = json!({ "tool_name": "Bash", "tool_input": { "command": "cat old.txt" } });
    for (name, more) in [
        ("Notification", json!({ "message": "m", "notification_type": "idle" })),
        ("PreCompact", json!({ "trigger": "auto" })),
        ("PermissionRequest", tool),
    ] {
        assert_eq!(count(&core, name), 0);
        // The client goes on as if there were no hook.
        let answer = core.send(name, &more).exit(0);
        assert_eq!((answer.text(), answer.stderr.as_str()), ("", ""), "{name}");
        assert_eq!(count(&core, name), 1, "{name}");
    }
    // A tool that does nothing outside of the client, a judge that may not start, an answer that counts for nothing.
    let todo = json!({ "todos": [] });
    core.before("t", "TodoWrite", &todo).exit(0);
    core.send(
        "PostToolUse",
        &json!({ "tool_name": "TodoWrite", "tool_input": todo, "tool_use_id": "t", "tool_response": {} }),
    )
    .exit(0);
    core.start_judge("c", "critic").exit(2);
    core.report("c9", &json!({ "subagent_type": "critic", "prompt": "p" }), "{}").exit(0);
    let found = noted(&core);
    for (name, key, value) in [
        ("PreToolUse", "tool", "TodoWrite"),
        ("PostToolUse", "tool", "TodoWrite"),
        ("PreToolUse", "judge", "critic"),
        ("PostToolUse", "judge", "critic"),
    ] {
        let is_it = |(event, details): &&(String, Value)| event == name && details[key] == value;
        assert_eq!(found.iter().filter(is_it).count(), 1, "{name} {value}: {found:?}");
    }
    core.place.run(&["verify"]).exit(0);
}

#[test]
fn events_of_a_blocked_and_of_a_stopped_session_are_recorded() {
    let core = Core::new();
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    core.write("w1").exit(0);
    core.judge_says("a", "custodiet", &audited("BLOCK")).exit(2);
    let report = |tool: &str, id: &str, input: &Value| {
        let event = json!({ "tool_name": tool, "tool_use_id": id, "tool_response": {}, "tool_input": input });
        core.send("PostToolUse", &event).exit(2);
    };
    let path = core.place.work().join("new.txt");
    report("Write", "w1", &json!({ "file_path": path, "content": "new\n" }));
    report("TodoWrite", "t1", &json!({ "todos": [] }));
    assert_eq!(count(&core, "PostToolUse"), 2);
    core.before("t2", "TodoWrite", &json!({ "todos": [] })).exit(2);
    assert_eq!(count(&core, "PreToolUse"), 1);
    core.send("Notification", &json!({ "message": "m", "notification_type": "idle" })).exit(2);
    assert_eq!(count(&core, "Notification"), 1);
    let read = json!({ "tool_name": "Bash", "tool_input": { "command": "cat old.txt" } });
    for (name, more) in [
        ("SubagentStart", json!({ "agent_id": "x", "agent_type": "general-purpose" })),
        ("ConfigChange", json!({ "source": "user_settings" })),
        ("PreCompact", json!({ "trigger": "auto" })),
    ] {
        assert!(core.send(name, &more).exit(2).stderr.contains("BLOCKED"), "{name}");
        assert_eq!(count(&core, name), 1, "{name}");
    }
    // There exit code 2 would refuse nothing.
    let asked = core.send("PermissionRequest", &read).exit(0).json();
    let decision = &asked["hookSpecificOutput"]["decision"];
    assert_eq!(decision["behavior"], "deny", "{asked}");
    assert!(decision["message"].as_str().unwrap().contains("BLOCKED"), "{asked}");
    assert_eq!(count(&core, "PermissionRequest"), 1);
    core.place.run(&["session", "clear-block", core.id, "--reason", "seen"]).exit(0);
    core.place.run(&["stop", "--reason", "enough"]).exit(0);
    core.prompt("go on");
    core.bash("r1", "cat old.txt");
    let stopped = noted(&core).into_iter().filter(|(_, details)| details["stopped"] == true);
    let names: Vec<String> = stopped.map(|(name, _)| name).collect();
    assert_eq!(names, ["UserPromptSubmit", "PreToolUse"]);
    core.place.run(&["verify"]).exit(0);
}

#[test]
fn the_hooks_are_installed_for_every_event_of_a_session() {
    let core = Core::new();
    let settings: Value = serde_json::from_str(&core.place.read(".claude/settings.json")).unwrap();
    let names: Vec<&str> =
        settings["hooks"].as_object().unwrap().keys().map(String::as_str).collect();
    for name in [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PermissionRequest",
        "PostToolUse",
        "PostToolUseFailure",
        "SubagentStart",
        "SubagentStop",
        "ConfigChange",
        "PreCompact",
        "Notification",
        "Stop",
        "SessionEnd",
    ] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert_eq!(names.len(), 13, "{names:?}");
}

#[test]
fn an_event_that_belongs_to_no_session_is_noted() {
    let core = Core::new();
    core.prompt("add a file").exit(0);
    let log = core.place.state_root().join("refused-events.jsonl");
    assert!(!log.exists());
    let secret = "a very private wish";
    let nobody = json!({
        "cwd": core.place.work(), "hook_event_name": "UserPromptSubmit", "prompt": secret,
    });
    let send = |bytes: &[u8]| core.place.feed(&["hook", "--client", "claude"], bytes);
    assert!(send(nobody.to_string().as_bytes()).exit(2).stderr.contains("session_id"));
    send(b"{ this is no event").exit(2);
    // One that cannot be handled for another reason: what it says is not known to any session either.
    std::fs::write(core.place.state().join("session-loop"), "garbage\n").unwrap();
    core.bash("r1", "cat old.txt").exit(2);
    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[0]["event"], "UserPromptSubmit");
    assert_eq!(lines[0]["session"], Value::Null);
    assert_eq!(lines[0]["folder"], core.place.work().to_str().unwrap());
    assert!(lines[0]["reason"].as_str().unwrap().contains("session_id"), "{text}");
    assert_eq!(lines[1]["event"], Value::Null);
    assert_eq!((&lines[2]["event"], &lines[2]["session"]), (&json!("PreToolUse"), &json!(core.id)));
    assert!(lines.iter().all(|line| line["at"].is_string() && line["client"] == "claude"));
    assert!(!text.contains(secret), "{text}");
}
