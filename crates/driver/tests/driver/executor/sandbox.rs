//! The sandbox in action: what it refuses, when it is left, what puts it on again.

use serde_json::{Value, json};
use windlass_kernel::State;
use windlass_kernel::run::{Event, NoteKind};

use crate::executor::world::{World, answer, detail, one, outcome};

/// Answers whose shell lines are expected to be refused.
fn refused(intent: &str, lines: &[&str]) -> Value {
    let mut answers = one(answer(intent), lines);
    for call in answers["phases"]["p5"][0]["calls"].as_array_mut().unwrap() {
        call["expect"] = json!("DENIED");
    }
    answers
}

#[test]
fn while_it_is_on_every_change_is_refused_and_the_attempt_is_on_record() {
    let world = World::settled();
    let lines =
        ["echo x > notes.txt", "touch notes.txt", "rm src/a.rs", "echo x > ai.project.json"];
    let run = world.run("a roadmap", refused("planning", &lines));
    assert_eq!(outcome(&run), "PASS pass", "{}", detail(&run));
    assert!(world.read("notes.txt").is_none());
    assert!(world.read("src/a.rs").is_some());
    let events = world.events(run.head.trace_id);
    let calls = events.iter().find_map(|event| match event {
        Event::PhaseDone { phase, done, .. } if phase == "p5" => Some(done.calls.clone()),
        _ => None,
    });
    let calls = calls.unwrap();
    assert_eq!(calls.len(), lines.len());
    assert!(calls.iter().all(|call| call.state == State::Denied));
    let tables = world.shared.tables();
    let body = tables.entries[&calls[0].trace_id].last().unwrap().body.clone().unwrap();
    let body = String::from_utf8(body).unwrap();
    assert!(body.contains("POLICY_DENIED") && body.contains("the sandbox is on"), "{body}");
}

#[test]
fn a_refused_change_that_the_executor_counted_on_halts_the_task() {
    let world = World::settled();
    let run = world.run("a roadmap", one(answer("planning"), &["echo x > notes.txt"]));
    assert_eq!(outcome(&run), "BLOCKED HALT");
    assert!(detail(&run).contains("the sandbox is on"), "{}", detail(&run));
}

#[test]
fn reading_is_not_confined() {
    let world = World::settled();
    let mut answers = one(answer("planning"), &["cat src/a.rs"]);
    answers["phases"]["p5"][0]["calls"][0]["tool"] = json!("shell/read");
    assert_eq!(outcome(&world.run("a roadmap", answers)), "PASS pass");
}

#[test]
fn inside_it_the_context_file_is_the_one_thing_to_write_and_only_to_make_it() {
    let world = World::empty();
    let lines = [
        "echo '{\"a\":1}' > other.json",
        "echo '{}' > ai.project.json; touch evil",
        "echo '{}' | tee ai.project.json",
        "echo '{}' > ai.project.json && echo x > evil",
        "echo $(touch evil) > ai.project.json",
        "echo '{}' > sub/../ai.project.json",
        "cp /etc/hostname ai.project.json",
    ];
    let mut answers = refused("generate_context", &lines);
    let calls = answers["phases"]["p5"][0]["calls"].as_array_mut().unwrap();
    let write = "printf '%s' '{\"project\":\"x\"}' > ai.project.json";
    calls.push(json!({ "tool": "shell/run", "args": { "line": write } }));
    let run = world.run("initialize project", answers);
    assert_eq!(outcome(&run), "PASS pass", "{}", detail(&run));
    assert_eq!(world.read("ai.project.json").unwrap(), "{\"project\":\"x\"}");
    assert!(world.read("evil").is_none() && world.read("other.json").is_none());
    let notes = world.notes(run.head.trace_id, NoteKind::Sandbox);
    assert!(notes.iter().all(|note| note["sandbox"] != "DISABLED"), "it was never left");
}

#[cfg(unix)]
#[test]
fn a_context_file_that_leads_elsewhere_is_not_written_through() {
    let world = World::empty();
    world.write("target.txt", "old");
    std::os::unix::fs::symlink("target.txt", world.root().join("ai.project.json")).unwrap();
    let line = "echo '{\"a\":1}' > ai.project.json";
    let error = world.try_run("initialize project", one(answer("generate_context"), &[line]));
    // Looking at the context file refuses it before anything is done.
    assert!(error.is_err() || outcome(&error.unwrap()) == "BLOCKED HALT");
    assert_eq!(world.read("target.txt").unwrap(), "old");
}

#[test]
fn a_context_that_was_made_invalid_does_not_pass() {
    let world = World::empty();
    let line = "echo nothing > ai.project.json";
    let run = world.run("initialize project", one(answer("generate_context"), &[line]));
    assert_eq!(run.head.state, Some(State::Checkpoint), "a person is asked to edit it");
}

#[test]
fn it_is_left_for_work_on_code_and_on_again_at_the_end() {
    let world = World::settled();
    let line = "echo 'fn more() {}' >> src/a.rs";
    let run = world.run("implement the cache", one(answer("code_generation"), &[line]));
    assert_eq!(outcome(&run), "PASS pass", "{}", detail(&run));
    assert!(world.read("src/a.rs").unwrap().contains("more"));
    let notes = world.notes(run.head.trace_id, NoteKind::Sandbox);
    let event = |note: &Value| {
        let name = note["event"].as_str().map(str::to_owned);
        let name = name
            .unwrap_or_else(|| note["event"].as_object().unwrap().keys().next().unwrap().clone());
        format!("{name} {}", if note["sandbox"] == "DISABLED" { "off" } else { "on" })
    };
    assert_eq!(
        notes.iter().map(event).collect::<Vec<_>>(),
        [
            "task_boundary on",
            "intent_changed on",
            "context_validated on",
            "exit_requested off",
            "task_boundary on"
        ]
    );
}

#[test]
fn the_first_task_of_a_project_does_not_leave_it() {
    let world = World::empty();
    world.write("ai.project.json", r#"{"project":"demo"}"#);
    let task = || {
        let line = "echo x > new.txt";
        world.run("implement the cache", one(answer("code_generation"), &[line]))
    };
    let run = task();
    assert_eq!(outcome(&run), "BLOCKED HALT");
    assert!(detail(&run).contains("first run"), "{}", detail(&run));
    assert!(world.read("new.txt").is_none());
    assert_eq!(outcome(&task()), "PASS pass", "the second one does");
}

#[test]
fn a_context_file_that_changes_under_a_task_halts_it_with_the_sandbox_on() {
    let world = World::settled();
    let line = "echo '{\"project\":\"other\"}' > ai.project.json";
    let run = world.run("implement the cache", one(answer("code_generation"), &[line]));
    assert_eq!(outcome(&run), "BLOCKED HALT");
    assert!(detail(&run).contains("DRIVER_SANDBOX_INCONSISTENT"), "{}", detail(&run));
    let notes = world.notes(run.head.trace_id, NoteKind::Sandbox);
    let changed = notes.iter().find(|note| note["event"] == "context_changed").unwrap();
    assert!(changed["sandbox"]["ENABLED"].is_object());
}

#[test]
fn a_failure_puts_it_on_and_it_stays_on_to_the_end() {
    let world = World::settled();
    let answers = json!({ "phases": { "p5": [{
        "fail": { "class": "timeout", "reason": "no answer came" },
    }] } });
    let run = world.run("implement the cache", answers);
    assert_eq!(outcome(&run), "BLOCKED HALT");
    let notes = world.notes(run.head.trace_id, NoteKind::Sandbox);
    let left = notes.iter().position(|note| note["sandbox"] == "DISABLED").unwrap();
    assert_eq!(notes[left + 1]["event"], "failure");
    assert!(notes[left + 1..].iter().all(|note| note["sandbox"] != "DISABLED"));
}

#[test]
fn a_call_that_a_person_would_have_to_allow_is_refused() {
    let world = World::settled();
    let answers = refused("code_generation", &["git push origin main"]);
    let run = world.run("implement the cache", answers);
    assert_eq!(outcome(&run), "PASS pass", "{}", detail(&run));
    assert_eq!(run.holds, 0, "the task does not wait");
}
