//! The project's memory: saved after PASS, restored before, never overwritten.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_driver::{DriverConfig, Memory, Outcome, SaveRequest};
use windlass_kernel::run::plan::RunOutcome;
use windlass_kernel::run::{Event, NoteKind, Run, Started, VoteDecision};
use windlass_kernel::{Digest, TraceId};
use windlass_runtime::Clock;
use windlass_testkit::RunWriter;
use windlass_testkit::engine::Votes as _;

use crate::executor::faults::Fault;
use crate::executor::world::{World, answer, but, config_files, detail, one, outcome};

const FILE: &str = ".windlass/memory/demo.jsonl";

fn saving(intent: &str, key: &str, value: &str) -> Value {
    let mut output = answer(intent);
    output["memory"] = json!({ key: value });
    one(output, &[])
}

/// What the memory held when a task restored it.
fn restored(world: &World, run: &Run) -> Value {
    let events = world.events(run.head.trace_id);
    let found = events.iter().find_map(|event| match event {
        Event::PhaseDone { phase, done, .. } if phase == "p2" => {
            Some(done.answer["memory"].clone())
        }
        _ => None,
    });
    found.unwrap()
}

#[test]
fn what_is_saved_is_restored_by_later_tasks_version_upon_version() {
    let world = World::settled();
    let run = world.run("system design", saving("architecture", "store", "a"));
    assert_eq!(outcome(&run), "PASS pass", "{}", detail(&run));
    assert_eq!(restored(&world, &run), json!({ "version": 0, "entries": {} }));
    let run = world.run("schema design", saving("domain", "order", "b"));
    assert_eq!(restored(&world, &run), json!({ "version": 1, "entries": { "store": "a" } }));
    let run = world.run("refactor the parser", saving("refactor", "store", "c"));
    let entries = json!({ "store": "a", "order": "b" });
    assert_eq!(restored(&world, &run), json!({ "version": 2, "entries": entries }));
    let memory = Memory::from_bytes(world.read(FILE).unwrap().as_bytes()).unwrap();
    assert_eq!(memory.versions().len(), 3);
    // With nothing to save there is no version.
    let run = world.run("system design", one(answer("architecture"), &[]));
    assert_eq!(restored(&world, &run)["entries"]["store"], "c");
    assert_eq!(Memory::from_bytes(world.read(FILE).unwrap().as_bytes()).unwrap(), memory);
}

#[test]
fn only_three_intents_save_and_only_after_a_pass() {
    let world = World::settled();
    let run = world.run("a roadmap", saving("planning", "a", "b"));
    assert_eq!(outcome(&run), "PASS pass", "{}", detail(&run));
    assert!(
        world.notes(run.head.trace_id, NoteKind::Memory).is_empty(),
        "neither restored nor saved"
    );
    let mut output = but("architecture", "/questions", json!(["?"]));
    output["memory"] = json!({ "a": "b" });
    world.run("system design", one(output, &[]));
    assert!(world.read(FILE).is_none());
}

#[test]
fn a_file_that_is_gone_or_behind_is_written_anew_from_the_journal() {
    let world = World::settled();
    world.run("system design", saving("architecture", "a", "1"));
    world.run("system design", saving("architecture", "b", "2"));
    let whole = world.read(FILE).unwrap();
    let first = whole.split_inclusive('\n').next().unwrap().to_owned();
    for left in [None, Some(first.clone()), Some(whole[..whole.len() - 9].to_owned())] {
        match left {
            Some(text) => world.write(FILE, &text),
            None => std::fs::remove_file(world.root().join(FILE)).unwrap(),
        }
        let run = world.run("system design", one(answer("architecture"), &[]));
        assert_eq!(outcome(&run), "PASS pass", "{}", detail(&run));
        assert_eq!(world.read(FILE).unwrap(), whole);
    }
}

#[test]
fn a_file_that_somebody_changed_halts_and_is_left_alone() {
    let world = World::settled();
    world.run("system design", saving("architecture", "a", "1"));
    let whole = world.read(FILE).unwrap();
    for text in [whole.replace("\"1\"", "\"2\""), format!("{whole}{whole}"), "x\n".to_owned()] {
        world.write(FILE, &text);
        let run = world.run("schema design", saving("domain", "b", "2"));
        assert_eq!(outcome(&run), "BLOCKED HALT");
        assert!(detail(&run).contains("STATE_CHECKSUM_MISMATCH"), "{}", detail(&run));
        assert_eq!(world.read(FILE).unwrap(), text);
    }
    std::fs::remove_file(world.root().join(FILE)).unwrap();
    world.run("schema design", saving("domain", "b", "2"));
    assert!(world.read(FILE).unwrap().starts_with(&whole));
}

#[test]
fn a_version_survives_a_death_between_entry_and_file() {
    let world = World::settled();
    let process = world.process(Fault::AfterHolding("\"kind\":\"saved\""));
    let task = json!({ "task": "system design" });
    process.start(&world, task, saving("architecture", "a", "1")).unwrap_err();
    drop(process);
    assert!(world.read(FILE).is_none());
    let run = world.run("schema design", saving("domain", "b", "2"));
    assert_eq!(outcome(&run), "PASS pass", "{}", detail(&run));
    assert_eq!(restored(&world, &run)["entries"], json!({ "a": "1" }));
    assert_eq!(world.read(FILE).unwrap().lines().count(), 2);
}

/// Records a task of another machine that has saved a version.
fn saved_elsewhere(world: &World, like: &Started) {
    let process = world.process(Fault::None);
    let clock = Arc::clone(&world.clock) as Arc<dyn Clock>;
    let mut memory = Memory::default();
    let request = SaveRequest {
        restored: Digest::GENESIS,
        intent: "domain".parse().unwrap(),
        task_id: "elsewhere".to_owned(),
        ts: clock.now(),
        verification: Outcome::Pass,
        entries: [("a".to_owned(), json!("theirs"))].into(),
    };
    let config = DriverConfig::load(&config_files()).unwrap();
    let version = memory.save(&config, request).unwrap().clone();
    let trace_id = TraceId(clock.new_id());
    let mut writer =
        RunWriter::begin(&process.store, &clock, trace_id, like.clone(), Vec::new()).unwrap();
    let body = json!({ "kind": "saved", "project": "demo", "version": version });
    writer
        .append([
            Event::Begun {},
            Event::Noted { what: NoteKind::Memory, body },
            Event::Ended {
                outcome: RunOutcome::Blocked,
                reason: "HALT".to_owned(),
                detail: String::new(),
            },
        ])
        .unwrap();
}

#[test]
fn a_memory_that_moved_on_since_it_was_restored_asks() {
    let world = World::settled();
    let mut output = but("architecture", "/claims/paths", json!(["none"]));
    output["memory"] = json!({ "a": "ours" });
    output["intent"] = json!("domain");
    // A hallucination of a critical intent halts; here its form is wrong instead.
    output["claims"]["paths"] = json!([]);
    output["summary"] = json!("  ");
    let run = world.run("schema design", one(output, &[]));
    let started = run.started.clone().unwrap();
    saved_elsewhere(&world, &started);
    let path = format!(".windlass/edits/{}.json", started.run_id);
    let text = world.read(&path).unwrap().replace("\"  \"", "\"said\"");
    world.write(&path, &text);
    let process = world.process(Fault::None);
    let trace_id = run.head.trace_id;
    process.engine.vote(trace_id, VoteDecision::Approved, "ada", "edited", None, &[]).unwrap();
    let run = process.engine.resume(trace_id).unwrap();
    assert_eq!(outcome(&run), "ESCALATION_REQUESTED ASK_USER");
    assert!(detail(&run).contains("DRIVER_MEMORY_CONFLICT"), "{}", detail(&run));
    assert!(!world.notes(trace_id, NoteKind::Memory).iter().any(|note| note["kind"] == "saved"));
}
