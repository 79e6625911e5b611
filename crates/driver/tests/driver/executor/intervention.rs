//! Phase 7: one intervention of a person, on the output alone.

use serde_json::{Value, json};
use windlass_engine::EngineError;
use windlass_kernel::run::{Event, NoteKind, Run, VoteDecision};
use windlass_kernel::{Code, State};
use windlass_testkit::engine::Votes as _;

use crate::executor::faults::Fault;
use crate::executor::world::{World, answer, but, detail, one, outcome, phases};

/// A task that waits for a person, since its output lacks `memory`.
fn waiting(world: &World) -> Run {
    let run = world.run("system design", one(but("architecture", "/memory", Value::Null), &[]));
    assert_eq!(run.head.state, Some(State::Checkpoint), "{:?}", run.ended);
    run
}

fn edit(world: &World, run: &Run, change: impl FnOnce(&mut Value)) {
    let path = format!(".windlass/edits/{}.json", run.started.as_ref().unwrap().run_id);
    let mut output: Value = serde_json::from_str(&world.read(&path).unwrap()).unwrap();
    change(&mut output);
    world.write(&path, &output.to_string());
}

fn decide(world: &World, run: &Run, decision: VoteDecision) -> Result<Run, EngineError> {
    let process = world.process(Fault::None);
    let trace_id = run.head.trace_id;
    let answered = process.engine.vote(trace_id, decision, "ada", "looked at it", None, &[])?;
    if answered.run.ended.is_some() {
        return Ok(answered.run);
    }
    process.engine.resume(trace_id)
}

#[test]
fn an_edited_output_is_verified_once_more_and_passes() {
    let world = World::settled();
    let run = waiting(&world);
    edit(&world, &run, |output| output["memory"] = json!({ "store": "one file" }));
    let run = decide(&world, &run, VoteDecision::Approved).unwrap();
    assert_eq!(outcome(&run), "PASS pass", "{}", detail(&run));
    let events = world.events(run.head.trace_id);
    let done = phases(&events);
    assert_eq!(done[6..], ["p6/1", "p7/1", "p6/2", "p8/1", "p9/1", "p10/1"]);
    assert_eq!(run.invocations, 1, "no model works again");
    assert!(world.read(".windlass/memory/demo.jsonl").unwrap().contains("one file"));
}

#[test]
fn a_second_failure_halts_whatever_it_is() {
    for change in [
        (|_: &mut Value| {}) as fn(&mut Value),
        |output| output["questions"] = json!(["and now?"]),
        |output| output["intent"] = json!("chat"),
    ] {
        let world = World::settled();
        let run = waiting(&world);
        edit(&world, &run, change);
        let run = decide(&world, &run, VoteDecision::Approved).unwrap();
        assert_eq!(outcome(&run), "BLOCKED HALT");
        let done = phases(&world.events(run.head.trace_id));
        assert_eq!(done[6..], ["p6/1", "p7/1", "p6/2"]);
    }
}

#[test]
fn a_rejection_halts_and_is_sealed() {
    let world = World::settled();
    let run = waiting(&world);
    let run = decide(&world, &run, VoteDecision::Rejected).unwrap();
    assert_eq!(outcome(&run), "BLOCKED HALT");
    sealed(&world, &run, "HALT");
}

#[test]
fn an_edit_of_anything_else_halts() {
    let world = World::settled();
    let run = waiting(&world);
    world.write("src/a.rs", "fn other() {}\n");
    edit(&world, &run, |output| output["memory"] = json!({}));
    let run = decide(&world, &run, VoteDecision::Approved).unwrap();
    assert_eq!(outcome(&run), "BLOCKED HALT");
    assert!(detail(&run).contains("`src/a.rs` was edited"), "{}", detail(&run));
}

#[test]
fn an_output_that_cannot_be_read_back_halts() {
    for text in ["{", "[]", "{\"a\":1,\"a\":2}"] {
        let world = World::settled();
        let run = waiting(&world);
        let name = &run.started.as_ref().unwrap().run_id;
        world.write(&format!(".windlass/edits/{name}.json"), text);
        let run = decide(&world, &run, VoteDecision::Approved).unwrap();
        assert_eq!(outcome(&run), "BLOCKED HALT", "{text}");
    }
}

#[test]
fn the_sandbox_is_on_while_a_person_edits_and_no_counter_moves() {
    let world = World::settled();
    let line = "echo 'fn more() {}' >> src/a.rs";
    let output = but("refactor", "/memory", Value::Null);
    let run = world.run("refactor the parser", one(output, &[line]));
    assert_eq!(run.head.state, Some(State::Checkpoint));
    let notes = world.notes(run.head.trace_id, NoteKind::Sandbox);
    assert!(notes.iter().any(|note| note["sandbox"] == "DISABLED"));
    let last = notes.last().unwrap();
    assert_eq!(last["event"], "failure");
    assert!(last["sandbox"]["ENABLED"]["reasons"].as_array().unwrap().contains(&json!("failure")));
    // What the model changed outside the sandbox stays what it was allowed to be.
    edit(&world, &run, |output| output["memory"] = json!({}));
    let run = decide(&world, &run, VoteDecision::Approved).unwrap();
    assert_eq!(outcome(&run), "PASS pass", "{}", detail(&run));
    let notes = world.notes(run.head.trace_id, NoteKind::Telemetry);
    let counted: Vec<&Value> = notes.iter().filter_map(|note| note.get("usage")).collect();
    assert_eq!(counted.last().unwrap()["calls"], 1);
}

#[test]
fn no_other_task_begins_while_one_waits() {
    let world = World::settled();
    let waits = waiting(&world);
    let run = world.run("greetings", one(answer("chat"), &[]));
    assert_eq!(outcome(&run), "BLOCKED HALT");
    assert!(detail(&run).contains(&waits.started.unwrap().run_id), "{}", detail(&run));
    assert_eq!(run.invocations, 0);
}

#[test]
fn an_intervention_that_lapses_ends_sealed() {
    let mut world = World::settled();
    world.plan.hold.expires_ms = Some(1);
    let run = waiting(&world);
    let error = decide(&world, &run, VoteDecision::Approved).unwrap_err();
    assert_eq!(error.code(), Code::HoldExpired);
    let run = world.last();
    sealed(&world, &run, "HALT");
}

fn sealed(world: &World, run: &Run, came_to: &str) {
    let events = world.events(run.head.trace_id);
    let [.., Event::Noted { what: NoteKind::Telemetry, body }, Event::Ended { .. }] = &events[..]
    else {
        panic!("the seal is not the last but one")
    };
    assert_eq!(body["kind"], "closed");
    assert_eq!(body["outcome"], came_to);
}
