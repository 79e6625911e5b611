//! Capability profiles: calls, retries and tokens of a task, over all of its calls.

use serde_json::{Value, json};
use windlass_kernel::run::Run;
use windlass_kernel::run::plan::{Effect, RunOutcome};

use crate::executor::world::{World, answer, but, detail, one, outcome};

fn change(world: &mut World, file: &str, from: &str, to: &str) {
    let bytes = world.files.get_mut(file).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(text.contains(from), "{from}");
    *bytes = text.replace(from, to).into_bytes();
}

fn halted(run: &Run, what: &str) {
    assert_eq!(outcome(run), "BLOCKED HALT");
    let reason = detail(run);
    assert!(reason.contains("DRIVER_CAPABILITY_EXCEEDED") && reason.contains(what), "{reason}");
}

#[test]
fn a_call_that_would_take_too_many_tokens_is_not_made() {
    let mut world = World::settled();
    change(&mut world, "driver/profiles.toml", "max_tokens = 32000", "max_tokens = 2");
    let run = world.run("a roadmap", one(answer("planning"), &[]));
    halted(&run, "allows 2");
    assert_eq!(run.invocations, 0);
}

#[test]
fn a_call_that_took_too_many_tokens_halts() {
    let world = World::settled();
    let mut answers = one(answer("planning"), &[]);
    answers["phases"]["p5"][0]["usage"]["output_tokens"] = json!(40_000);
    let run = world.run("a roadmap", answers);
    halted(&run, "tokens");
}

#[test]
fn tokens_that_nobody_counted_are_asked_for() {
    let world = World::settled();
    let mut answers = one(answer("planning"), &[]);
    answers["phases"]["p5"][0]["usage"]["unaccounted"] = json!(true);
    let run = world.run("a roadmap", answers);
    assert_eq!(outcome(&run), "ESCALATION_REQUESTED ASK_USER");
    assert!(detail(&run).contains("used is not known"), "{}", detail(&run));
}

/// A loop that does phase 5 again when its output is not good, with outputs that never are.
fn again(world: &mut World) -> Value {
    let p6 = world.plan.phases.iter_mut().find(|phase| phase.id == "p6").unwrap();
    let stop = Effect::Stop { outcome: RunOutcome::Blocked, reason: "given up".to_owned() };
    let redo = Effect::Redo { max: 9, phase: "p5".to_owned(), then: Box::new(stop) };
    let gate = p6.gate.as_mut().unwrap();
    gate.verdicts.insert("INTERVENTION_REQUIRED".to_owned(), redo);
    // No phase may be left that nothing leads to.
    let takes: Vec<Value> = (0..9)
        .map(|number| {
            let output = but("planning", "/claims/paths", json!([format!("none-{number}")]));
            json!({ "answer": output, "usage": { "input_tokens": 1 } })
        })
        .collect();
    json!({ "phases": { "p5": takes } })
}

#[test]
fn a_loop_that_states_retries_gets_as_many_as_the_profile_allows() {
    let mut world = World::settled();
    let answers = again(&mut world);
    let run = world.run("a roadmap", answers);
    halted(&run, "retries");
    assert_eq!(run.invocations, 2, "one call and one retry");
}

#[test]
fn the_calls_of_a_task_are_counted_over_all_of_its_tries() {
    let mut world = World::settled();
    let answers = again(&mut world);
    change(&mut world, "driver/profiles.toml", "max_retries = 1", "max_retries = 9");
    let run = world.run("a roadmap", answers);
    halted(&run, "calls");
    assert_eq!(run.invocations, 4);
}

#[test]
fn a_fallback_is_counted_against_the_profile_of_the_model_it_stands_for() {
    let mut world = World::settled();
    // `architect` has the smaller profile, its fallback `executor` another one.
    world.available = Some(["claude-opus-5-5".to_owned()].into());
    let mut answers = one(answer("domain"), &[]);
    answers["phases"]["p5"][0]["usage"]["output_tokens"] = json!(33_000);
    let run = world.run("schema design", answers);
    halted(&run, "profile `gemini_mid` allows 32000");
}

#[test]
fn the_shipped_loop_tries_nothing_again() {
    let world = World::settled();
    let answers = json!({ "phases": { "p5": [
        { "fail": { "class": "timeout", "reason": "no answer came" } },
        { "answer": answer("planning") },
    ] } });
    let run = world.run("a roadmap", answers);
    assert_eq!(outcome(&run), "BLOCKED HALT");
    assert_eq!(run.invocations, 1);
}
