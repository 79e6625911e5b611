//! Phase 6: seven steps in order, up to the first that fails.

use serde_json::{Value, json};
use windlass_kernel::State;
use windlass_kernel::run::{Event, Run};

use crate::executor::world::{World, answer, but, detail, one, outcome};

/// What phase 6 has answered at last.
fn verified(world: &World, run: &Run) -> Value {
    let events = world.events(run.head.trace_id);
    let done = events.iter().rev().find_map(|event| match event {
        Event::PhaseDone { phase, done, .. } if phase == "p6" => Some(done.answer.clone()),
        _ => None,
    });
    done.expect("phase 6 was done")
}

#[test]
fn each_failure_stops_verification_at_its_step() {
    for (intent, request, output, step, verdict, steps) in [
        (
            "planning",
            "a roadmap",
            but("planning", "/intent", json!("chat")),
            "intent_alignment",
            "HALT",
            1,
        ),
        (
            "planning",
            "a roadmap",
            but("planning", "/intent", Value::Null),
            "intent_alignment",
            "ASK_USER",
            1,
        ),
        (
            "planning",
            "a roadmap",
            but("planning", "/questions", json!(["which?"])),
            "intent_alignment",
            "ASK_USER",
            1,
        ),
        (
            "planning",
            "a roadmap",
            but("planning", "/questions", Value::Null),
            "intent_alignment",
            "ASK_USER",
            1,
        ),
        (
            "planning",
            "a roadmap",
            but("planning", "/memory", json!([1])),
            "structural_integrity",
            "INTERVENTION_REQUIRED",
            5,
        ),
        (
            "planning",
            "a roadmap",
            but("planning", "/claims/paths", json!(["src/none.rs"])),
            "hallucination",
            "INTERVENTION_REQUIRED",
            6,
        ),
        (
            "planning",
            "a roadmap",
            but("planning", "/claims", Value::Null),
            "hallucination",
            "ASK_USER",
            6,
        ),
        (
            "planning",
            "a roadmap",
            but("planning", "/claims/citations", json!(["https://example.org"])),
            "hallucination",
            "ASK_USER",
            6,
        ),
        (
            "planning",
            "a roadmap",
            but("planning", "/claims/citations", json!(["src/a.rs:9"])),
            "hallucination",
            "INTERVENTION_REQUIRED",
            6,
        ),
        (
            "architecture",
            "system design",
            but("architecture", "/claims/symbols", json!(["src/a.rs#fir"])),
            "hallucination",
            "HALT",
            6,
        ),
        (
            "architecture",
            "system design",
            but("architecture", "/claims/paths", json!(["../a"])),
            "hallucination",
            "HALT",
            6,
        ),
        (
            "architecture",
            "system design",
            but("architecture", "/memory", Value::Null),
            "output_contract",
            "INTERVENTION_REQUIRED",
            7,
        ),
    ] {
        let world = World::settled();
        let run = world.run(request, one(output.clone(), &[]));
        let found = verified(&world, &run);
        assert_eq!(found["failed_step"], step, "{intent} {output}");
        assert_eq!(found["verdict"], verdict, "{intent} {output}");
        assert_eq!(found["steps"].as_array().unwrap().len(), steps, "{intent} {output}");
        match verdict {
            "HALT" => assert_eq!(outcome(&run), "BLOCKED HALT"),
            "ASK_USER" => assert_eq!(outcome(&run), "ESCALATION_REQUESTED ASK_USER"),
            _ => assert_eq!(run.head.state, Some(State::Checkpoint), "a person is asked to edit"),
        }
    }
}

#[test]
fn what_exists_may_be_claimed() {
    let world = World::settled();
    let mut output = answer("architecture");
    output["claims"] = json!({
        "paths": ["src", "src/a.rs", "src/"],
        "symbols": ["src/a.rs#first"],
        "citations": ["src/a.rs:1", "src/a.rs"],
    });
    let run = world.run("system design", one(output, &[]));
    assert_eq!(outcome(&run), "PASS pass", "{}", detail(&run));
}

#[test]
fn of_several_failures_the_first_in_order_decides() {
    let world = World::settled();
    let mut output = but("planning", "/intent", json!("chat"));
    output["claims"] = json!({ "paths": ["src/none.rs"], "symbols": [], "citations": [] });
    let run = world.run("a roadmap", one(output, &[]));
    assert_eq!(verified(&world, &run)["failed_step"], "intent_alignment");
    assert_eq!(outcome(&run), "BLOCKED HALT");
}

#[test]
fn nothing_is_saved_sealed_as_passed_or_ended_well_without_a_pass() {
    let world = World::settled();
    let mut output = but("architecture", "/intent", json!("chat"));
    output["memory"] = json!({ "rule": "x" });
    let run = world.run("system design", one(output, &[]));
    assert_eq!(outcome(&run), "BLOCKED HALT");
    let events = world.events(run.head.trace_id);
    let later = |event: &Event| matches!(event, Event::PhaseStarted { phase, .. } if ["p8", "p9", "p10"].contains(&phase.as_str()));
    assert!(!events.iter().any(later));
    assert!(world.read(".windlass/memory/demo.jsonl").is_none());
}
