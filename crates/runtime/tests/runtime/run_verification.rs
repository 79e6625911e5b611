//! Verification of runs: an event must be what its entry says, and must be able to have happened.

use serde_json::{Value, json};
use windlass_journal::{StoreReport, verify_store};
use windlass_kernel::run::plan::RunOutcome;
use windlass_kernel::run::{Event, RunEvent, VoteDecision};
use windlass_kernel::{
    ArtifactId, ArtifactType, Code, Digest, Draft, Entry, Head, HolderId, PlanId, State, Timestamp,
    TraceId, Transition, canon,
};
use windlass_store::{MemoryStore, Record, Shared, TraceState};
use windlass_testkit::people;
use windlass_testkit::plans::{self, agent, id, person, phase, plan};

fn started() -> Event {
    let phases = vec![phase("a", &[], agent()), phase("b", &["a"], person(1))];
    Event::Started(Box::new(plans::started(plan(phases))))
}

fn phase_started(phase: &str) -> Event {
    Event::PhaseStarted { phase: phase.into(), attempt: 1 }
}

fn phase_done(phase: &str) -> Event {
    let done = Box::new(plans::done(json!({})));
    Event::PhaseDone { phase: phase.into(), attempt: 1, done }
}

fn ended(outcome: RunOutcome) -> Event {
    Event::Ended { outcome, reason: "pass".into(), detail: String::new() }
}

/// A run being written by somebody who may lie, but whose chain always holds.
#[derive(Clone)]
struct Writer {
    head: Head,
    records: Vec<Record>,
}

impl Writer {
    fn new(number: u64) -> Self {
        Self { head: Head::empty(TraceId(id(number))), records: Vec::new() }
    }

    fn write(mut self, event: Event) -> Self {
        self.lie(event, |_, body| canon::to_bytes(body).unwrap());
        self
    }

    /// Writes an entry whose body is something else than it should be.
    fn lie(&mut self, event: Event, change: impl FnOnce(&mut Draft, &mut Value) -> Vec<u8>) {
        let number = self.head.sequence_number;
        let artifact_id = ArtifactId(id(10_000 + number));
        let ts = Timestamp::from_unix_ms(1_770_033_600_000 + i64::try_from(number).unwrap());
        let (ts, to) = (ts.unwrap(), event.to_state());
        let body = RunEvent::new(self.head.trace_id, artifact_id, ts, event).to_bytes().unwrap();
        let mut draft = Draft {
            ts,
            transition: Transition {
                from: self.head.state.unwrap_or(State::Init),
                to,
                artifact: ArtifactType::RunEvent,
            },
            artifact_id,
            artifact_digest: Digest::GENESIS,
            tool_call_id: None,
            idempotency_key: None,
        };
        let body = change(&mut draft, &mut serde_json::from_slice(&body).unwrap());
        draft.artifact_digest = Digest::of(&body);
        let (entry, head): (Entry, Head) = self.head.append(draft).unwrap();
        self.records.push(Record { entry, body: Some(body) });
        self.head = head;
    }
}

fn verified(runs: &[Writer]) -> StoreReport {
    let shared = Shared::default();
    shared.tamper(|tables| {
        for run in runs {
            let trace_id = run.head.trace_id;
            let plan_id = PlanId(trace_id.0);
            let state = TraceState { head: run.head, plan_id, holder: None, fence: 1 };
            tables.traces.insert(trace_id, state);
            tables.entries.insert(trace_id, run.records.clone());
        }
    });
    verify_store(&MemoryStore::open(&shared, HolderId(id(1))), &mut |_| {}).unwrap()
}

#[track_caller]
fn found(run: &Writer, code: Code, place: u64) {
    // A run that holds stands on each side of it.
    let report = verified(&[whole(1), run.clone(), whole(3)]);
    assert_eq!((report.traces, report.broken), (3, 1), "{report:?}");
    let problem = &report.problems[0];
    assert_eq!(problem.trace_id, run.head.trace_id);
    assert_eq!(problem.finding.error_code, Some(code), "{problem:?}");
    assert_eq!(problem.finding.divergence_point, Some(place), "{problem:?}");
}

/// A run that has done its first phase.
fn half(number: u64) -> Writer {
    let events = [started(), Event::Begun {}, phase_started("a"), phase_done("a")];
    events.into_iter().fold(Writer::new(number), Writer::write)
}

/// A run from its start to its end, with a hold in it: ten entries.
fn whole(number: u64) -> Writer {
    let run = half(number).write(phase_started("b"));
    let held = hold_of(&run);
    let run = run.write(held);
    let shown = run.records.last().unwrap().entry.artifact_digest;
    let vote = people::vote(&run.head, "ann", VoteDecision::Approved, "r", &[], shown);
    let rest = [
        Event::Voted(vote),
        Event::Resumed { by: "ann".into(), worked_ms: None },
        Event::Continued {},
    ];
    rest.into_iter().fold(run, Writer::write).write(ended(RunOutcome::Pass))
}

fn hold_of(run: &Writer) -> Event {
    let mut folded = windlass_kernel::run::Run::empty(run.head.trace_id);
    for record in &run.records {
        let entry = &record.entry;
        let head = folded.head.admit(entry, &mut Vec::new()).unwrap();
        let event = RunEvent::of_entry(entry, record.body.as_deref().unwrap()).unwrap();
        folded.apply(&event.event, entry.artifact_digest, entry.ts, head).unwrap();
    }
    let next = folded.next();
    let windlass_kernel::run::Next::Record(event) = next else { unreachable!("{next:?}") };
    *event
}

#[test]
fn runs_that_hold_are_found_to_hold() {
    let runs: Vec<Writer> = (1..200).map(whole).collect();
    let expected = StoreReport { traces: 199, entries: 1990, ..StoreReport::default() };
    let report = verified(&runs);
    let names: Vec<&str> = report.signatures.iter().map(|(first, _)| &*first.name).collect();
    assert_eq!(names, ["ann"]);
    assert_eq!(StoreReport { signatures: Vec::new(), ..report }, expected);
    assert_eq!(verified(&[half(1)]).broken, 0);
}

#[test]
fn an_event_says_what_its_entry_says() {
    type Lie = fn(&mut Draft, &mut Value);
    let lies: &[(&str, Lie)] = &[
        ("another artifact", |_, body| body["artifact_id"] = json!(id(5))),
        ("another run", |_, body| body["trace_id"] = json!(id(5))),
        ("another time", |_, body| body["ts"] = json!("2026-02-02T12:00:09.000Z")),
        ("another entry's time", |draft, _| draft.ts = Timestamp::EPOCH),
        ("another state", |draft, _| draft.transition.to = State::Checkpoint),
        ("the end", |draft, _| draft.transition.to = State::Terminal),
        ("another schema", |_, body| body["schema_id"] = json!("windlass.other")),
        ("another version", |_, body| body["schema_version"] = json!("v2")),
        ("something more", |_, body| body["event"]["more"] = json!(1)),
        ("something less", |_, body| drop(body["event"].as_object_mut().unwrap().remove("phase"))),
        ("an unknown event", |_, body| body["event"]["kind"] = json!("phase_begun")),
        ("nothing", |_, body| *body = Value::Null),
    ];
    for (what, lie) in lies {
        let mut run = Writer::new(2).write(started()).write(Event::Begun {});
        run.lie(phase_started("a"), |draft, body| {
            lie(draft, body);
            canon::to_bytes(body).unwrap()
        });
        println!("{what}");
        found(&run, Code::StateChecksumMismatch, 3);
    }
    let mut spaced = Writer::new(2).write(started());
    spaced.lie(Event::Begun {}, |_, body| serde_json::to_vec_pretty(body).unwrap());
    found(&spaced, Code::StateChecksumMismatch, 2);
}

#[test]
fn a_body_that_was_changed_is_found() {
    for place in 0..10 {
        let mut run = whole(2);
        run.records[place].body = Some(b"{}".to_vec());
        found(&run, Code::StateChecksumMismatch, place as u64 + 1);
    }
}

#[test]
fn what_cannot_have_happened_is_found_though_the_chain_holds() {
    let begun = || Writer::new(2).write(started()).write(Event::Begun {});
    let skip = Event::PhaseSkipped { phase: "a".into(), reason: "no time".into() };
    for (run, place) in [
        (begun().write(phase_done("a")), 3),
        (begun().write(phase_started("b")), 3),
        (begun().write(skip), 3),
        (begun().write(ended(RunOutcome::Pass)), 3),
        (half(2).write(ended(RunOutcome::Pass)), 5),
        (half(2).write(phase_started("b")).write(phase_done("b")), 6),
        (Writer::new(2).write(started()).write(Event::Continued {}), 2),
    ] {
        found(&run, Code::StateRecoveryFailed, place);
    }
    // An approval of something else than was shown.
    let run = half(2).write(phase_started("b"));
    let held = hold_of(&run);
    let (run, shown) = (run.write(held), Digest::of(b"something else"));
    let vote = people::vote(&run.head, "ann", VoteDecision::Approved, "", &[], shown);
    found(&run.write(Event::Voted(vote)), Code::StateRecoveryFailed, 7);
}

#[test]
fn a_run_whose_bodies_are_gone_still_has_its_chain() {
    let mut run = whole(2);
    run.records[3].body = None;
    let report = verified(&[run.clone()]);
    assert_eq!((report.broken, report.missing_artifacts), (0, 1));
    // What is left is still held against its digest.
    run.records[5].body = Some(b"{}".to_vec());
    found(&run, Code::StateChecksumMismatch, 6);
    let mut cut = whole(2);
    cut.records.pop();
    found(&cut, Code::StateSequenceGap, 10);
}
