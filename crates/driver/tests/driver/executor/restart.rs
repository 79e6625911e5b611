//! Death and return: a task that was interrupted is TERMINATED, sealed, and never goes on.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use windlass_journal::verify_store;
use windlass_kernel::Code;
use windlass_kernel::run::{Event, Run};
use windlass_testkit::eventually;

use crate::executor::faults::Fault;
use crate::executor::telemetry::check;
use crate::executor::world::{World, answer, detail, one, outcome};

fn task() -> (Value, Value) {
    let mut output = answer("refactor");
    output["memory"] = json!({ "a": "b" });
    (json!({ "task": "refactor the parser" }), one(output, &["echo 'fn more() {}' >> src/a.rs"]))
}

/// What is the same in every life: all but how long things took.
fn timeless(events: &[Event]) -> Vec<Value> {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(object) => {
                object.remove("duration_ms");
                // A call's entries say how long it took.
                object.remove("entry_digest");
                object.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let plain = |event: &Event| {
        let mut value = serde_json::to_value(event).unwrap();
        strip(&mut value);
        value
    };
    events.iter().map(plain).collect()
}

fn whole(world: &World) {
    let process = world.process(Fault::None);
    let report = verify_store(process.store.as_ref(), &mut |_| {}).unwrap();
    assert_eq!(report.broken, 0, "{:?}", report.problems);
}

#[test]
fn killed_at_every_append_a_task_is_terminated_and_tells_the_same_story_up_to_there() {
    let calm = World::settled();
    let process = calm.process(Fault::None);
    let (work, answers) = task();
    let run = process.start(&calm, work, answers).unwrap();
    assert_eq!(outcome(&run), "PASS pass", "{}", detail(&run));
    let appends = process.faults.appends.load(Ordering::SeqCst);
    assert!(appends > 40, "{appends}");
    let expected = timeless(&calm.events(run.head.trace_id));
    let trace_id = run.head.trace_id;
    for at in 1..=appends {
        // What an append that nobody hears of leaves is what the next one finds before it.
        let faults = if at % 7 == 0 || at == appends {
            vec![Fault::Before(at), Fault::After(at)]
        } else {
            vec![Fault::Before(at)]
        };
        for fault in faults {
            let world = World::settled();
            let process = world.process(fault);
            let (work, answers) = task();
            let result = process.start(&world, work, answers);
            assert!(result.is_err(), "{fault:?}");
            drop(process);
            if !world.shared.tables().entries.contains_key(&trace_id) {
                continue;
            }
            let left = timeless(&world.events(trace_id));
            assert!(left[..] == expected[..left.len()], "{fault:?}: another story");
            let next = world.process(Fault::None);
            let recovered = next.engine.recover().unwrap();
            let run = next.engine.read(trace_id).unwrap();
            if recovered.is_empty() {
                assert_eq!(outcome(&run), "PASS pass", "it had ended: {fault:?}");
                continue;
            }
            assert_eq!(outcome(&run), "BLOCKED TERMINATED", "{fault:?}");
            let events = world.events(trace_id);
            assert!(timeless(&events[..left.len()]) == left, "{fault:?}: it was rewritten");
            check(&world, &run, "HALT");
            assert!(next.engine.recover().unwrap().is_empty(), "and nothing more");
            assert!(next.engine.resume(trace_id).is_err(), "it never goes on");
            drop(next);
            whole(&world);
        }
    }
}

#[test]
fn the_next_task_ends_what_a_dead_process_left_and_begins_anew() {
    let world = World::settled();
    let process = world.process(Fault::AfterHolding("\"kind\":\"invocation\""));
    let (work, answers) = task();
    process.start(&world, work, answers).unwrap_err();
    drop(process);
    let dead = world.last();
    assert!(dead.ended.is_none());
    let run = world.run("greetings", one(answer("chat"), &[]));
    assert_eq!(outcome(&run), "PASS pass", "{}", detail(&run));
    let dead: Run = world.process(Fault::None).engine.read(dead.head.trace_id).unwrap();
    assert_eq!(outcome(&dead), "BLOCKED TERMINATED");
    check(&world, &dead, "HALT");
    assert!(!world.read("src/a.rs").unwrap().contains("more"), "what it began is not done");
}

#[test]
fn of_two_processes_one_works_and_the_other_is_refused() {
    let world = World::settled();
    let mut slow = one(answer("planning"), &["sleep 1"]);
    slow["phases"]["p5"][0]["calls"][0]["tool"] = json!("shell/read");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| world.run("a roadmap", slow));
        let lock = world.root().join(".windlass/locks/single.lock");
        let taken = || {
            let file = std::fs::File::open(&lock).ok()?;
            file.try_lock().err()
        };
        // Until the first task is at work; it began after the lock was taken.
        let traces = || world.shared.tables().traces.len();
        eventually("a task is at work", || taken().is_some() && traces() >= 2);
        let before = world.shared.tables().traces.len();
        let error = world.try_run("greetings", one(answer("chat"), &[])).unwrap_err();
        assert_eq!(error.code(), Code::RunConcurrent);
        assert!(world.shared.tables().traces.len() <= before + 1, "nothing of it is recorded");
        assert_eq!(outcome(&first.join().unwrap()), "PASS pass");
    });
}

#[test]
fn a_task_that_others_hold_open_elsewhere_keeps_the_next_one_from_working() {
    let world = World::settled();
    let mut slow = one(answer("planning"), &["sleep 1"]);
    slow["phases"]["p5"][0]["calls"][0]["tool"] = json!("shell/read");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| world.run("a roadmap", slow));
        eventually("a call is made", || world.shared.tables().traces.len() >= 3);
        // It does not see the first one's locks, only its entries.
        let other = world.process_locked(Fault::None, &world.root().join(".windlass/other"));
        let work = json!({ "task": "greetings" });
        let run = other.start(&world, work, one(answer("chat"), &[])).unwrap();
        assert_eq!(outcome(&run), "BLOCKED HALT");
        assert!(detail(&run).contains("only one task may run at a time"), "{}", detail(&run));
        assert_eq!(outcome(&first.join().unwrap()), "PASS pass");
    });
}
