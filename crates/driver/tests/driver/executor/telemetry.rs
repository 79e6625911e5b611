//! Telemetry: opened before phase 0, one record per phase and invocation, closed at every end.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use windlass_driver::TelemetryRecord;
use windlass_engine::StopRequest;
use windlass_kernel::run::{Event, NoteKind, Run, VoteDecision};
use windlass_kernel::{Digest, canon};
use windlass_testkit::eventually;

use crate::executor::faults::Fault;
use crate::executor::world::{World, answer, but, detail, one, outcome};

const FIELDS: [&str; 17] = [
    "call_index",
    "capability_profile",
    "escalation_attempted",
    "failure_reason",
    "intent",
    "lifecycle_phase",
    "model_logical_id",
    "model_resolved_id",
    "model_tier",
    "notes",
    "project_id",
    "result",
    "role",
    "session_id",
    "task_id",
    "timestamp",
    "token_estimate",
];

/// Checks a trace's telemetry as a whole; returns its records.
pub fn check(world: &World, run: &Run, came_to: &str) -> Vec<Value> {
    let events = world.events(run.head.trace_id);
    let first_phase = events.iter().position(|event| matches!(event, Event::PhaseStarted { .. }));
    let notes = world.notes(run.head.trace_id, NoteKind::Telemetry);
    let opened = events.iter().position(|event| {
        matches!(event, Event::Noted { what: NoteKind::Telemetry, body } if body["kind"] == "opened")
    });
    assert!(opened.unwrap() < first_phase.unwrap_or(usize::MAX), "it is opened before phase 0");
    assert!(matches!(events[0], Event::Started(_)) && matches!(events[1], Event::Begun {}));
    let records: Vec<Value> = notes.iter().filter_map(|note| note.get("record").cloned()).collect();
    let mut bytes = Vec::new();
    for record in &records {
        let keys: Vec<&str> = record.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, FIELDS);
        let line = canon::value_to_bytes(record).unwrap();
        TelemetryRecord::from_bytes(&line).unwrap();
        bytes.extend(line);
        bytes.push(b'\n');
        assert_eq!(record["project_id"], "demo");
        assert_eq!(record["task_id"], run.started.as_ref().unwrap().run_id.as_str());
    }
    let [.., Event::Noted { what: NoteKind::Telemetry, body }, Event::Ended { .. }] = &events[..]
    else {
        panic!(
            "the seal is not the last but one: {:?}",
            events.iter().map(Event::kind).collect::<Vec<_>>()
        )
    };
    assert_eq!(body["kind"], "closed");
    assert_eq!(body["records"], records.len());
    assert_eq!(body["digest"], json!(Digest::of(&bytes)));
    assert_eq!(body["outcome"], came_to);
    let boundary = world.notes(run.head.trace_id, NoteKind::Sandbox).pop().unwrap();
    assert_eq!(boundary["event"], "task_boundary");
    assert!(boundary["sandbox"]["ENABLED"].is_object(), "the sandbox is on at the end");
    records
}

#[test]
fn every_phase_and_every_invocation_has_its_record_in_order() {
    let world = World::settled();
    let run = world.run("refactor the parser", one(answer("refactor"), &[]));
    let records = check(&world, &run, "PASS");
    let told: Vec<String> = records
        .iter()
        .map(|record| {
            let phase = record["lifecycle_phase"].as_str().unwrap();
            format!("{phase} {} {}", record["call_index"], record["result"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        told,
        [
            "Phase0_StateValidation 0 success",
            "Phase1_IntentClassification 0 success",
            "Phase2_ContextAssembly 0 success",
            "Phase3_ModelSelection 0 success",
            "Phase4_Delegation 0 success",
            "Phase5_Execution 1 success",
            "Phase5_Execution 0 success",
            "Phase6_Verification 0 success",
            "Phase8_TelemetryFinalization 0 success",
            "Phase9_MemorySync 0 success",
            "Phase10_TaskTermination 0 success",
        ]
    );
    assert_eq!(records[1]["intent"], "refactor", "a phase's record has what it found");
    assert_eq!(records[3]["model_tier"], "A");
    assert_eq!(records[2]["model_tier"], Value::Null);
    let notes = world.notes(run.head.trace_id, NoteKind::Telemetry);
    let sealed: Vec<&Value> = notes.iter().filter(|note| note["kind"] == "sealed").collect();
    assert_eq!(sealed.len(), 1, "phase 8 seals once");
    assert_eq!(sealed[0]["records"], 8);
}

#[test]
fn it_is_closed_at_halt_and_at_a_question_too() {
    let world = World::settled();
    let run = world.run("a roadmap", one(but("planning", "/intent", json!("chat")), &[]));
    let records = check(&world, &run, "HALT");
    assert_eq!(records.last().unwrap()["result"], "halt");
    assert!(records.last().unwrap()["failure_reason"].as_str().unwrap().contains("answers `chat`"));
    let run = world.run("nothing that is known", one(answer("chat"), &[]));
    let run = world.answer(&run, VoteDecision::Rejected, "I do not know");
    let records = check(&world, &run, "ASK_USER");
    assert_eq!(records.last().unwrap()["result"], "ask_user");
    assert_eq!(records.last().unwrap()["intent"], Value::Null);
}

#[test]
fn it_is_closed_when_the_stop_switch_ends_a_task() {
    let world = World::settled();
    let mut answers = one(answer("planning"), &["sleep 1"]);
    answers["phases"]["p5"][0]["calls"][0]["tool"] = json!("shell/read");
    let run = std::thread::scope(|scope| {
        let task = scope.spawn(|| world.run("a roadmap", answers));
        let at_work = |world: &World| {
            let tables = world.shared.tables();
            let mut bodies =
                tables.entries.values().flatten().filter_map(|record| record.body.as_ref());
            bodies.any(|body| String::from_utf8_lossy(body).contains("sleep 1"))
        };
        eventually("the call is made", || at_work(&world));
        let request =
            StopRequest { by: "ada".to_owned(), reason: "enough".to_owned(), cancel: false };
        world.stop().request(None, &request).unwrap();
        task.join().unwrap()
    });
    assert_eq!(outcome(&run), "BLOCKED kill_switch_active");
    check(&world, &run, "HALT");
}

#[test]
fn nothing_is_done_once_telemetry_cannot_be_written() {
    let line = "echo x >> src/a.rs";
    for (text, kinds_max) in [
        // Not even opened.
        ("\"what\":\"telemetry\"", 1),
        ("Phase0_StateValidation", 5),
        ("Phase4_Delegation", usize::MAX),
        // The invocation itself is not admitted.
        ("\"kind\":\"invocation\"", usize::MAX),
        ("\"kind\":\"checking\"", usize::MAX),
    ] {
        let world = World::settled();
        let before = world.read("src/a.rs");
        let process = world.process(Fault::Holding(text));
        let task = json!({ "task": "implement the cache" });
        let answers = one(answer("code_generation"), &[line]);
        process.start(&world, task, answers).unwrap_err();
        assert_eq!(process.faults.after_refusal.load(Ordering::SeqCst), 0, "{text}");
        drop(process);
        let run = world.last();
        let events = world.events(run.head.trace_id);
        assert!(events.len() <= kinds_max, "{text}: {}", events.len());
        assert_eq!(run.invocations, 0, "{text}");
        assert!(run.ended.is_none());
        assert_eq!(world.read("src/a.rs"), before, "{text}");
    }
}

#[test]
fn a_task_is_not_ended_without_its_seal() {
    let world = World::settled();
    let process = world.process(Fault::Holding("\"kind\":\"closed\""));
    let task = json!({ "task": "greetings" });
    process.start(&world, task, one(answer("chat"), &[])).unwrap_err();
    drop(process);
    assert!(world.last().ended.is_none(), "both are written or neither");
    let recovered = world.process(Fault::None).engine.recover().unwrap();
    assert_eq!(recovered.len(), 1);
    let run = world.last();
    assert_eq!(outcome(&run), "BLOCKED TERMINATED", "{}", detail(&run));
    check(&world, &run, "HALT");
}

#[test]
fn what_was_called_is_called_in_no_phase_but_execution() {
    // A loop with an agent in another place than the driver's finds no model for it.
    let mut world = World::settled();
    let p8 = world.plan.phases.iter().position(|phase| phase.id == "p8").unwrap();
    let p5 = world.plan.phases.iter().position(|phase| phase.id == "p5").unwrap();
    let mut late = world.plan.phases[p5].clone();
    late.id = "late".to_owned();
    late.needs = vec!["p8".to_owned()];
    late.checks.clear();
    world.plan.phases.insert(p8 + 1, late);
    let mut answers = one(answer("chat"), &[]);
    answers["phases"]["late"] = answers["phases"]["p5"].clone();
    let run = world.run("greetings", answers);
    assert_eq!(outcome(&run), "BLOCKED HALT");
    assert_eq!(run.invocations, 1, "telemetry is sealed: no model works any more");
    let phases: BTreeSet<String> = check(&world, &run, "HALT")
        .iter()
        .map(|record| record["lifecycle_phase"].as_str().unwrap().to_owned())
        .collect();
    assert!(phases.contains("Phase8_TelemetryFinalization"));
}
