//! Every event in every state of a run: the fold accepts exactly what the table of the vectors allows.

use std::collections::BTreeMap;

use serde_json::json;
use windlass_kernel::run::plan::{BudgetedResource, Effect, PhaseCondition, RunOutcome};
use windlass_kernel::run::{
    Event, Integration, IntegrationStep, InvocationResult, MergeStrategy, Next, NoteKind,
    SetupStep, Usage, VoteDecision, WaitsFor,
};
use windlass_kernel::{Digest, Head, State};

use crate::run::harness::{Lab, done, invoke, started};
use crate::run::plans::{agreed, check, consensus, gate, person, phase, redo, serial, spine, with};
use crate::run::replay::vectors;

const RUN_STATES: [State; 5] =
    [State::Init, State::Running, State::Checkpoint, State::Resumed, State::Terminal];

fn running(change: impl FnOnce(&mut windlass_kernel::run::plan::Plan)) -> Lab {
    let plan = with(serial(vec![phase("a", &[]), phase("b", &["a"])]), change);
    with(Lab::new(plan), |lab| lab.record(Event::Begun {}))
}

fn trying(change: impl FnOnce(&mut windlass_kernel::run::plan::Plan)) -> Lab {
    let started = Event::PhaseStarted { phase: "a".into(), attempt: 1 };
    with(running(change), |lab| lab.record(started))
}

fn next(lab: &Lab) -> Event {
    match lab.run.next() {
        Next::Record(event) => *event,
        other => panic!("{other:?}"),
    }
}

/// For each kind of event, a run in which it can be recorded, and the event.
pub fn scenes() -> Vec<(Lab, Event)> {
    let by = || "ann".to_owned();
    let call = windlass_kernel::TraceId(crate::run::harness::id(5));
    let asked = trying(|plan| plan.phases[0].doer = person(1));
    let held = with(asked.clone(), |lab| lab.record(next(lab)));
    let voted = with(held.clone(), |lab| lab.record(lab.vote("ann", VoteDecision::Approved)));
    let resumed =
        with(voted.clone(), |lab| lab.record(Event::Resumed { by: by(), worked_ms: None }));
    let judged = with(
        trying(|plan| plan.phases[0].gate = gate(&[("no", redo("a", 1, Effect::Block))])),
        |lab| {
            let done = Box::new(done(json!({"verdict": "no"})));
            lab.record(Event::PhaseDone { phase: "a".into(), attempt: 1, done });
        },
    );
    let invoked = with(trying(|_| {}), |lab| lab.record(invoke(lab, "a", 1)));
    let checks = trying(|plan| {
        let rows = [("ok", Effect::Continue)];
        plan.phases[0].checks =
            vec![check("x", windlass_kernel::run::plan::CheckTiming::Before, &rows)];
    });
    let reviewing = trying(|plan| {
        plan.phases[0].doer = consensus(1, &["a1"]);
        plan.phases[0].gate = agreed(Effect::Block);
    });
    let kept = trying(|plan| plan.checkpoints = true);
    let owing = with(running(|plan| plan.checkpoints = true), |lab| {
        lab.record_only(Event::PhaseStarted { phase: "a".into(), attempt: 1 });
    });
    let wish = Event::RollbackBegun(Box::new(kept.wish(&kept.run.checkpoints[0], true)));
    let rolling = with(kept.clone(), |lab| lab.record(wish.clone()));
    let forked = trying(|plan| {
        plan.checkpoints = true;
        plan.phases[0].branch = true;
    });
    let forked = with(forked, |lab| {
        let done = Box::new(done(json!({})));
        lab.record(Event::PhaseDone { phase: "a".into(), attempt: 1, done });
    });
    let merging = with(forked.clone(), |lab| lab.record(lab.merge_prepared(0)));
    let (usage, duration_ms, attempt) = (Usage::default(), 1, 1);
    let name = || "a".to_owned();
    vec![
        (Lab::empty(), started(spine())),
        (Lab::new(spine()), Event::Begun {}),
        (
            crate::run::setups::begun(),
            Event::Setup(Box::new(SetupStep::Started { attempt, files: Vec::new() })),
        ),
        (running(|_| {}), Event::PhaseStarted { phase: name(), attempt }),
        (
            running(|plan| plan.phases[0].when = PhaseCondition::Intervention),
            Event::PhaseSkipped { phase: name(), reason: "no".into() },
        ),
        (
            checks,
            Event::Checked {
                phase: name(),
                attempt,
                check: "x".into(),
                verdict: "ok".into(),
                reason: String::new(),
                findings: json!(null),
                usage,
                duration_ms,
            },
        ),
        (trying(|_| {}), invoke(&trying(|_| {}), "a", 1)),
        (
            invoked,
            Event::InvocationEnded {
                invocation: 1,
                result: InvocationResult::OnHold,
                usage,
                duration_ms,
                note: String::new(),
            },
        ),
        (
            trying(|_| {}),
            Event::PhaseDone { phase: name(), attempt, done: Box::new(done(json!({}))) },
        ),
        (reviewing.clone(), reviewing.review(0, "a1", "approved")),
        (owing.clone(), owing.due_checkpoint().unwrap()),
        (forked.clone(), forked.merge_prepared(0)),
        (merging.clone(), merging.merged(0)),
        (forked.clone(), forked.conflicted(0)),
        (kept, wish),
        (rolling, Event::RolledBack { change: None }),
        (
            trying(|_| {}),
            Event::Waiting {
                phase: name(),
                attempt,
                change: None,
                evidence: serde_json::Value::Null,
                question: "q".into(),
                waits_for: WaitsFor::Call { call },
            },
        ),
        (judged.clone(), next(&judged)),
        (
            running(|plan| plan.budget.tokens = Some(10)),
            Event::Warned { resource: BudgetedResource::Tokens, used: 8, limit: 10 },
        ),
        (asked.clone(), next(&asked)),
        (held.clone(), held.vote("ann", VoteDecision::Approved)),
        (voted.clone(), voted.revoke("ann")),
        (voted, Event::Resumed { by: by(), worked_ms: None }),
        (resumed, Event::Continued {}),
        (running(|_| {}), Event::Restarted { by: by() }),
        (
            running(|_| {}),
            Event::CommitPrepared {
                branch: "b".into(),
                commit: "c".into(),
                parent: "p".into(),
                tree: "t".into(),
            },
        ),
        (running(|_| {}), Event::Noted { what: NoteKind::Memory, body: json!({}) }),
        (
            running(|_| {}),
            Event::Ended {
                outcome: RunOutcome::Blocked,
                reason: "r".into(),
                detail: String::new(),
            },
        ),
        (
            crate::run::setups::passed(),
            Event::Integration(Box::new(IntegrationStep::Prepared(Box::new(Integration {
                before: "b".into(),
                by: by(),
                commit: "c".into(),
                into: "main".into(),
                strategy: MergeStrategy::Merge,
                tip: "t".into(),
            })))),
        ),
    ]
}

#[test]
fn every_event_in_every_state() {
    let mut rows = BTreeMap::new();
    for (lab, event) in scenes() {
        assert_eq!(lab.takes(&event), Ok(()), "{}", event.kind());
        for state in std::iter::once(None).chain(RUN_STATES.map(Some)) {
            let mut run = lab.run.clone();
            run.head.state = state;
            let sequence_number = run.head.sequence_number + 1;
            let to = event.to_state_from(state.unwrap_or(State::Init));
            let head = Head { sequence_number, state: Some(to), ..run.head };
            let taken = run.apply(&event, Digest::of(b"x"), lab.ts(), head).is_ok();
            rows.insert((event.kind().to_owned(), state.map(State::as_str)), taken);
            // An entry that leads to another state never matches the event.
            for other in RUN_STATES.into_iter().filter(|other| *other != event.to_state()) {
                let mut run = lab.run.clone();
                let head = Head { sequence_number, state: Some(other), ..run.head };
                assert!(run.apply(&event, Digest::of(b"x"), lab.ts(), head).is_err());
            }
        }
    }
    let vectors = vectors();
    assert_eq!(vectors["transitions"].as_array().unwrap().len(), rows.len());
    for row in vectors["transitions"].as_array().unwrap() {
        let key = (row["event"].as_str().unwrap().to_owned(), row["current_state"].as_str());
        assert_eq!(rows.get(&key).copied(), row["allowed"].as_bool(), "{row}");
    }
}
