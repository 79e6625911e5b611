//! People's answers.

use serde_json::json;
use windlass_engine::{Engine, EngineError, HoldQueue};
use windlass_journal::RunFilter;
use windlass_kernel::run::plan::{Effect, HoldRule, OnRestart, Plan, Trigger};
use windlass_kernel::run::{Event, NoteKind, Resolution, Run, VoteDecision};
use windlass_kernel::{Code, Digest, State};
use windlass_testkit::engine::Votes as _;
use windlass_views::RunSummary;

use crate::phase_executor::Act;
use crate::plans::{builtin, gate, person, phase, plan, redo, spine};
use crate::world::{World, assert_summary, end, new_run, trace};

/// Approves what a run waits for.
pub fn approve(engine: &Engine, run: &Run, by: &str) -> Resolution {
    let shown = run.hold.as_ref().map(|hold| hold.shown);
    engine
        .vote(trace(run), VoteDecision::Approved, by, "it is good", shown, &[])
        .unwrap()
        .resolution
}

/// A run on hold at its review, and the engine.
pub fn on_hold(world: &World, hold: HoldRule) -> (Engine, Run) {
    let mut plan = spine();
    plan.hold = hold;
    let escalate = Act::Answer(json!({"verdict": "escalate", "reason": "look at this"}));
    let engine = world.engine(&[("review", 1, escalate)]);
    let run = engine.start(new_run(plan)).unwrap();
    assert_eq!(run.head.state, Some(State::Checkpoint));
    (engine, run)
}

const TWO: HoldRule =
    HoldRule { approvals: 2, expires_ms: None, retries: 3, starter_counts: false };

#[test]
fn two_approvers_are_two_people() {
    let world = World::new();
    let (engine, run) = on_hold(&world, TWO);
    assert_eq!(approve(&engine, &run, "ann"), Resolution::Open);
    // A list shows the answers so far.
    world.verify();
    let before = world.only_events();
    for same in ["ann", " ann", "ann ", "Ann"] {
        let error =
            engine.vote(trace(&run), VoteDecision::Approved, same, "again", None, &[]).unwrap_err();
        assert_eq!(error.code(), Code::ApproverNotCounted, "{same:?}");
    }
    let error = engine.resume(trace(&run)).unwrap_err();
    assert_eq!(error.code(), Code::RunOnHold);
    // Nothing but notes.
    let after = world.only_events();
    assert_eq!(after[..before.len()], before);
    assert!(after[before.len()..].iter().all(|event| matches!(event, Event::Noted { .. })));
    assert_eq!(approve(&engine, &run, "bob"), Resolution::Approved);
    world.verify();
    let error = engine.vote(trace(&run), VoteDecision::Rejected, "cat", "too late", None, &[]);
    assert_eq!(error.unwrap_err().code(), Code::HoldAlreadyResolved);
    let run = engine.resume(trace(&run)).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"));
    world.verify();
}

#[test]
fn an_answer_to_something_else_is_refused_and_changes_nothing() {
    let world = World::new();
    let (engine, run) = on_hold(&world, HoldRule::default());
    let before = world.only_events();
    let stale = Some(Digest::of(b"something else"));
    for decision in [VoteDecision::Approved, VoteDecision::Rejected] {
        let error = engine.vote(trace(&run), decision, "ann", "yes", stale, &[]).unwrap_err();
        assert_eq!(error.code(), Code::HoldStale);
    }
    for (by, reason) in
        [("", "yes"), (" ", "yes"), ("ann", ""), ("ann", " \n"), ("a\nb", "yes"), ("a\u{7}", "yes")]
    {
        let error =
            engine.vote(trace(&run), VoteDecision::Approved, by, reason, None, &[]).unwrap_err();
        assert_eq!(error.code(), Code::RequestInvalid, "{by:?} {reason:?}");
    }
    let long = "x".repeat(5000);
    engine.vote(trace(&run), VoteDecision::Approved, &long, "yes", None, &[]).unwrap_err();
    engine.vote(trace(&run), VoteDecision::Approved, "ann", &long, None, &[]).unwrap_err();
    let after = world.only_events();
    assert_eq!(after[..before.len()], before);
    // The two that could be checked at all are noted, with the reason.
    for (noted, decision) in after[before.len()..].iter().zip(["APPROVED", "REJECTED"]) {
        let Event::Noted { what: NoteKind::Refusal, body } = noted else { panic!("{noted:?}") };
        assert_eq!((&body["decision"], &body["code"]), (&json!(decision), &json!("HOLD_STALE")));
    }
    assert_eq!(after.len(), before.len() + 2);
}

#[test]
fn an_earlier_holds_digest_does_not_answer_a_later_one() {
    let world = World::new();
    let escalate = || Act::Answer(json!({"verdict": "escalate"}));
    let mut first = phase("first", &[], builtin());
    let verdicts = [
        ("approved", Effect::Continue),
        ("escalate", crate::plans::hold(windlass_kernel::run::plan::Trigger::EscalationRequested)),
    ];
    first.gate = gate("first", &verdicts);
    let mut second = phase("second", &["first"], builtin());
    second.gate = gate("second", &verdicts);
    let engine = world.engine(&[("first", 1, escalate()), ("second", 1, escalate())]);
    let run = engine.start(new_run(plan(vec![first, second]))).unwrap();
    let shown = run.hold.as_ref().unwrap().shown;
    approve(&engine, &run, "ann");
    let run = engine.resume(trace(&run)).unwrap();
    // A second hold inside a run that was taken up.
    assert_eq!(run.head.state, Some(State::Checkpoint));
    assert_eq!(run.hold.as_ref().unwrap().held.number, 2);
    let error = engine.vote(trace(&run), VoteDecision::Approved, "ann", "yes", Some(shown), &[]);
    assert_eq!(error.unwrap_err().code(), Code::HoldStale);
    approve(&engine, &run, "ann");
    let run = engine.resume(trace(&run)).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"));
    assert_eq!(world.deeds(), ["first 1", "second 1"]);
}

#[test]
fn a_rejection_ends_the_run() {
    let world = World::new();
    let (engine, run) = on_hold(&world, TWO);
    approve(&engine, &run, "ann");
    let answered = engine
        .vote(trace(&run), VoteDecision::Rejected, "bob", "it is not good", None, &[])
        .unwrap();
    assert_eq!(answered.resolution, Resolution::Rejected);
    assert_eq!(end(&answered.run), ("BLOCKED", "checkpoint_rejected"));
    assert!(answered.run.ended.unwrap().detail.contains("bob"));
    let error = engine.resume(trace(&run)).unwrap_err();
    assert_eq!(error.code(), Code::RunEnded);
    let error =
        engine.vote(trace(&run), VoteDecision::Approved, "cat", "yes", None, &[]).unwrap_err();
    assert_eq!(error.code(), Code::RunEnded);
    world.verify();
}

fn asked(then: Effect) -> Plan {
    let mut ask = phase("ask", &["make"], person(1));
    ask.gate = gate("ask", &[("approved", Effect::Continue), ("rejected", then)]);
    plan(vec![phase("make", &[], builtin()), ask, phase("last", &["ask"], builtin())])
}

#[test]
fn a_rejection_that_the_loop_knows_goes_on() {
    let world = World::new();
    let engine = world.engine(&[]);
    let run = engine.start(new_run(asked(redo("make", 1, Effect::Block)))).unwrap();
    let answered = engine
        .vote(trace(&run), VoteDecision::Rejected, "ann", "make it better", None, &[])
        .unwrap();
    assert_eq!(answered.run.head.state, Some(State::Checkpoint));
    let run = engine.resume(trace(&run)).unwrap();
    assert_eq!(run.head.state, Some(State::Checkpoint));
    approve(&engine, &run, "ann");
    let run = engine.resume(trace(&run)).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"));
    assert_eq!(world.deeds(), ["make 1", "make 2", "last 1"]);

    let world = World::new();
    let engine = world.engine(&[]);
    let run = engine.start(new_run(asked(Effect::Block))).unwrap();
    engine.vote(trace(&run), VoteDecision::Rejected, "ann", "no", None, &[]).unwrap();
    let run = engine.resume(trace(&run)).unwrap();
    assert_eq!(end(&run), ("BLOCKED", "ask_rejected"));
}

#[test]
fn a_hold_that_nobody_answered_in_time_ends_the_run() {
    for answer in [true, false] {
        let world = World::new();
        let rule =
            HoldRule { approvals: 2, expires_ms: Some(1000), retries: 3, starter_counts: false };
        let (engine, run) = on_hold(&world, rule);
        approve(&engine, &run, "ann");
        world.pass_ms(1001);
        let error = if answer {
            engine.vote(trace(&run), VoteDecision::Approved, "bob", "yes", None, &[]).unwrap_err()
        } else {
            engine.resume(trace(&run)).unwrap_err()
        };
        assert_eq!(error.code(), Code::HoldExpired);
        let run = engine.read(trace(&run)).unwrap();
        assert_eq!(end(&run), ("BLOCKED", "checkpoint_expired"));
    }
    // One that was answered in time can be taken up at any time.
    let world = World::new();
    let (engine, run) = on_hold(
        &world,
        HoldRule { approvals: 1, expires_ms: Some(1000), retries: 3, starter_counts: false },
    );
    approve(&engine, &run, "ann");
    world.pass_ms(1001);
    assert_eq!(end(&engine.resume(trace(&run)).unwrap()), ("PASS", "pass"));
}

#[test]
fn the_time_of_a_hold_counts_from_the_hold() {
    let world = World::new();
    let mut plan = spine();
    plan.on_restart = OnRestart::Hold;
    plan.hold = HoldRule { expires_ms: Some(1000), ..HoldRule::default() };
    let life = crate::crash::Life::until(Some(20));
    world.fake(&life, crate::phase_executor::except(&[])).start(new_run(plan)).unwrap_err();
    // Nobody looks for longer than a hold may last.
    world.pass_ms(5000);
    let engine = world.engine(&[]);
    let run = engine.recover().unwrap().pop().unwrap().result.unwrap();
    let trace_id = trace(&run);
    assert_eq!(run.hold.as_ref().unwrap().held.trigger, Trigger::RestartRequested);
    assert!(!engine.expire_hold(trace_id).unwrap());
    approve(&engine, &run, "ann");
    assert_eq!(end(&engine.resume(trace_id).unwrap()), ("PASS", "pass"));
}

#[test]
fn only_a_run_on_hold_can_be_answered() {
    let world = World::new();
    let engine = world.engine(&[]);
    let run = engine.start(new_run(spine())).unwrap();
    let error =
        engine.vote(trace(&run), VoteDecision::Approved, "ann", "yes", None, &[]).unwrap_err();
    assert_eq!(error.code(), Code::RunEnded);

    let world = World::new();
    let life = crate::crash::Life::until(Some(20));
    world.fake(&life, crate::phase_executor::except(&[])).start(new_run(spine())).unwrap_err();
    let (trace_id, state) = world.runs()[0];
    assert_eq!(state, State::Running);
    let engine = world.engine(&[]);
    let error = engine.vote(trace_id, VoteDecision::Approved, "ann", "yes", None, &[]).unwrap_err();
    assert!(matches!(error, EngineError::NotOnHold { .. }), "{error}");
}

#[test]
fn the_queue_shows_what_waits_oldest_first() {
    let world = World::new();
    let mut plan = asked(Effect::Block);
    plan.phases.remove(0);
    plan.phases[0].needs.clear();
    let engine = world.engine(&[]);
    let runs: Vec<Run> = (0..3).map(|_| engine.start(new_run(plan.clone())).unwrap()).collect();
    let HoldQueue { waiting, count, .. } = HoldQueue::read(&engine.runs(), 2).unwrap();
    assert_eq!(count, 3);
    let ids: Vec<_> = waiting.iter().map(|one| one.trace_id).collect();
    assert_eq!(ids, [trace(&runs[0]), trace(&runs[1])]);
    approve(&engine, &runs[0], "ann");
    engine.resume(trace(&runs[0])).unwrap();
    assert_eq!(HoldQueue::read(&engine.runs(), 10).unwrap().count, 2);
    for run in &runs {
        let name = &run.started.as_ref().unwrap().run_id;
        assert_eq!(engine.find(name).unwrap(), trace(run));
        assert_eq!(engine.find(&trace(run).to_string()).unwrap(), trace(run));
    }
    for unknown in ["run_20200101_000000_00000000", "nonsense", "", "../etc"] {
        assert_eq!(engine.find(unknown).unwrap_err().code(), Code::RunNotFound, "{unknown}");
    }
}

/// An entry that is intact by itself but is not the one that the head names.
#[test]
fn a_list_does_not_believe_an_end_that_was_put_in_the_place_of_another() {
    let world = World::new();
    let (engine, run) = on_hold(
        &world,
        HoldRule { approvals: 1, expires_ms: None, retries: 3, starter_counts: false },
    );
    let runs = engine.runs();
    let all = RunFilter { open_only: false, state: None, limit: 1 };
    let head = &runs.list(&all).unwrap()[0].trace.head;
    assert_summary(&RunSummary::read(runs.store(), head).unwrap(), &run);
    world.shared().tamper(|tables| {
        let last = tables.entries.get_mut(&trace(&run)).unwrap().last_mut().unwrap();
        last.entry.ts = run.started_at.unwrap();
        last.entry.entry_digest = last.entry.compute_digest(&mut Vec::new());
    });
    let error = RunSummary::read(runs.store(), head).unwrap_err();
    assert!(error.is_damage(), "{error}");
}
