//! Rollbacks: their content, the events they block, and the hold after them.

use serde_json::json;
use windlass_kernel::run::VoteDecision::{Approved, Rejected};
use windlass_kernel::run::plan::{Effect, PhaseCondition, Plan, RunOutcome};
use windlass_kernel::run::{
    Event, InvocationResult, Next, NoteKind, PhaseStatus, Rollback, Usage, Work,
};

use crate::run::checkpoints::kept;
use crate::run::harness::{Lab, Script, ended, invoke};
use crate::run::keeping::foreign;
use crate::run::plans::{agreed, consensus, diamond, phase, serial, with};
use crate::run::table::scenes;

fn two() -> Plan {
    kept(serial(vec![phase("a", &[]), phase("b", &["a"])]))
}

fn through(plan: Plan) -> Lab {
    with(Lab::new(plan), |lab| {
        Script::new().walk(lab);
    })
}

fn refused(lab: &Lab, event: &Event, why: &str) {
    let error = lab.takes(event).unwrap_err();
    assert!(error.contains(why), "{error}");
}

fn begin(rollback: Rollback) -> Event {
    Event::RollbackBegun(Box::new(rollback))
}

#[test]
fn a_rollback_must_match_the_run() {
    let lab = through(two());
    let checkpoint = lab.checkpoint("PRE_b_v1");
    let good = lab.wish(&checkpoint, true);
    assert_eq!(lab.takes(&begin(good.clone())), Ok(()));
    assert_eq!(lab.run.rollback_target(checkpoint.id), Ok(&checkpoint));
    let text = |text: &str| Some(text.to_owned());
    for (bad, why) in [
        (Rollback { checkpoint: foreign(), ..good.clone() }, "no such checkpoint"),
        (Rollback { tree: text("another"), ..good.clone() }, "another workspace"),
        (Rollback { tree: None, ..good.clone() }, "another workspace"),
        (Rollback { target: None, ..good.clone() }, "workspace is incomplete"),
        (Rollback { snapshot: None, ..good.clone() }, "workspace is incomplete"),
        (Rollback { from: Some(checkpoint.id), ..good.clone() }, "is another one"),
        (Rollback { from: None, ..good.clone() }, "is another one"),
        (Rollback { archived: vec![], ..good.clone() }, "other phases"),
        (Rollback { archived: vec!["a".into(), "b".into()], ..good.clone() }, "other phases"),
        (Rollback { by: String::new(), ..good.clone() }, "no name of a person"),
        (Rollback { by: " \n".into(), ..good }, "no name of a person"),
    ] {
        refused(&lab, &begin(bad), why);
    }
    let other = lab.checkpoint("PRE_a_v1");
    let mixed = Rollback { checkpoint: other.id, ..lab.wish(&checkpoint, true) };
    refused(&lab, &begin(mixed), "another workspace");
}

#[test]
fn a_run_without_a_workspace_is_rolled_back_without_one() {
    let mut lab = Lab::new(two());
    lab.record(Event::Begun {});
    lab.record_only(Event::PhaseStarted { phase: "a".into(), attempt: 1 });
    let Some(Event::Checkpointed(mut checkpoint)) = lab.due_checkpoint() else { panic!() };
    checkpoint.workspace = None;
    lab.record(Event::Checkpointed(checkpoint));
    let first = lab.run.checkpoints[0].clone();
    let good = lab.wish(&first, true);
    assert_eq!((&good.tree, &good.target, &good.snapshot), (&None, &None, &None));
    let bad = Rollback { target: Some("t".into()), ..good.clone() };
    refused(&lab, &begin(bad), "workspace is incomplete");
    let bad = Rollback { snapshot: Some("t".into()), ..good.clone() };
    refused(&lab, &begin(bad), "workspace is incomplete");
    lab.record(begin(good));
    lab.record(Event::RolledBack { change: None });
    assert_eq!(lab.run.phases[0].status, PhaseStatus::Pending);
}

/// Until the workspace is restored no other event is accepted, even after a crash.
#[test]
fn no_other_event_is_accepted_during_a_rollback() {
    let mut lab = through(two());
    let checkpoint = lab.checkpoint("POST_a_v1");
    refused(&lab, &Event::RolledBack { change: None }, "cannot follow");
    lab.record(begin(lab.wish(&checkpoint, true)));
    assert_eq!(lab.run.pending_rollback().unwrap().checkpoint, checkpoint.id);
    assert_eq!(lab.run.next(), Next::Perform(vec![Work::Restore]));
    assert!(lab.run.rollback_target(checkpoint.id).is_err());
    for (_, event) in scenes() {
        match &event {
            Event::RolledBack { .. } | Event::Restarted { .. } => {
                assert_eq!(lab.takes(&event), Ok(()));
            }
            // A run whose files cannot be restored can be given up.
            Event::Ended { outcome, .. } if *outcome != RunOutcome::Pass => {
                assert_eq!(lab.takes(&event), Ok(()));
            }
            _ => assert!(lab.takes(&event).is_err(), "{event:?}"),
        }
    }
    refused(&lab, &begin(lab.wish(&checkpoint, true)), "in progress");
    let passed = Event::Ended {
        outcome: RunOutcome::Pass,
        reason: "pass".to_owned(),
        detail: String::new(),
    };
    refused(&lab, &passed, "in progress");
    refused(&lab, &Event::PhaseStarted { phase: "b".into(), attempt: 2 }, "in progress");
    refused(&lab, &lab.run.restart_hold(), "in progress");
    lab.record(Event::Restarted { by: "ann".into() });
    assert_eq!(lab.run.next(), Next::Perform(vec![Work::Restore]));
    lab.record_only(Event::RolledBack { change: None });
    assert_eq!(lab.run.pending_rollback(), None);
    refused(&lab, &Event::RolledBack { change: None }, "a checkpoint is due");
    lab.record(lab.due_checkpoint().unwrap());
    refused(&lab, &Event::RolledBack { change: None }, "no rollback is in progress");
}

#[test]
fn an_open_invocation_is_closed_by_a_rollback() {
    let mut lab = Lab::new(two());
    lab.record(Event::Begun {});
    lab.record(Event::PhaseStarted { phase: "a".into(), attempt: 1 });
    lab.record(invoke(&lab, "a", 1));
    lab.roll_back(&lab.checkpoint("PRE_a_v1"), true);
    lab.record(Event::PhaseStarted { phase: "a".into(), attempt: 2 });
    let late = Event::InvocationEnded {
        invocation: 1,
        result: InvocationResult::Success,
        usage: Usage::default(),
        duration_ms: 1,
        note: String::new(),
    };
    refused(&lab, &late, "no such invocation");
    assert_eq!(lab.takes(&invoke(&lab, "a", 2)), Ok(()));
}

#[test]
fn a_rollback_without_resume_puts_the_run_on_hold() {
    let mut lab = through(two());
    let checkpoint = lab.checkpoint("PRE_b_v1");
    lab.roll_back(&checkpoint, false);
    let start = Event::PhaseStarted { phase: "b".into(), attempt: 2 };
    refused(&lab, &start, "paused after a rollback");
    for event in [
        Event::Restarted { by: "ann".into() },
        Event::Noted { what: NoteKind::Memory, body: json!({}) },
        lab.run.restart_hold(),
        ended("stop"),
        begin(lab.wish(&checkpoint, true)),
    ] {
        assert_eq!(lab.takes(&event), Ok(()), "{event:?}");
    }
    let told = Script::new().walk(&mut lab);
    assert_eq!(told, ["held 1 ROLLED_BACK at b for 1"]);
    let mut rejected = lab.clone();
    let told = Script::new().votes(&[("ann", Rejected)]).walk(&mut rejected);
    assert_eq!(told.last().unwrap(), "ended BLOCKED checkpoint_rejected");
    // After another rollback, the run continues.
    rejected.roll_back(&checkpoint, true);
    let told = Script::new().walk(&mut rejected);
    assert_eq!(told.first().unwrap(), "start b 2");
    // Also from the hold.
    let mut again = lab.clone();
    again.roll_back(&checkpoint, true);
    assert_eq!(again.run.hold, None);
    assert_eq!(again.takes(&start), Ok(()));
    let told = Script::new().votes(&[("ann", Approved)]).walk(&mut lab);
    assert_eq!(told[..4], ["ann APPROVED", "resumed", "continued", "start b 2"]);
    // A run that was not rolled back does not wait for it.
    let Event::Held(held) =
        lab.events.iter().find(|(event, _)| matches!(event, Event::Held(_))).unwrap().0.clone()
    else {
        panic!()
    };
    let mut calm = Lab::new(two());
    calm.record(Event::Begun {});
    refused(&calm, &Event::Held(held), "no cause");
}

#[test]
fn a_process_may_die_during_the_hold_after_a_rollback() {
    let mut lab = through(two());
    lab.roll_back(&lab.checkpoint("PRE_b_v1"), false);
    lab.record(lab.run.restart_hold());
    let told = Script::new().votes(&[("ann", Approved), ("bob", Approved)]).walk(&mut lab);
    assert_eq!(
        told[..7],
        [
            "ann APPROVED",
            "resumed",
            "continued",
            "held 2 ROLLED_BACK at b for 1",
            "bob APPROVED",
            "resumed",
            "continued"
        ]
    );
    assert_eq!(told.last().unwrap(), "ended PASS pass");
}

/// In parallel: work in progress at the checkpoint starts anew, completed work does not.
#[test]
fn parallel_work_in_progress_at_the_checkpoint_starts_anew() {
    let mut lab = Lab::new(kept(diamond()));
    Script::new().walk(&mut lab);
    // b was done, c was in progress.
    let checkpoint = lab.checkpoint("POST_b_v1");
    let names: Vec<String> = lab.run.archived_by(&checkpoint);
    assert_eq!(names, ["c", "d"]);
    lab.roll_back(&checkpoint, true);
    let statuses: Vec<_> = lab.run.phases.iter().map(|state| state.status.as_str()).collect();
    assert_eq!(statuses, ["complete", "complete", "pending", "pending"]);
    let told = Script::new().walk(&mut lab);
    assert_eq!(told.last().unwrap(), "ended PASS pass");
}

#[test]
fn skipped_phases_stay_skipped_and_are_not_archived() {
    let plan = kept(serial(vec![
        phase("a", &[]),
        with(phase("m", &["a"]), |phase| phase.when = PhaseCondition::Intervention),
        phase("b", &["m"]),
    ]));
    let mut lab = through(plan);
    assert_eq!(lab.run.archived_by(&lab.checkpoint("PRE_a_v1")), ["a", "b"]);
    assert_eq!(lab.run.archived_by(&lab.checkpoint("PRE_b_v1")), ["b"]);
    lab.roll_back(&lab.checkpoint("PRE_b_v1"), true);
    assert_eq!(lab.run.phases[1].status, PhaseStatus::Skipped);
    lab.roll_back(&lab.checkpoint("PRE_a_v1"), true);
    assert_eq!(lab.run.phases[1].status, PhaseStatus::Pending);
}

#[test]
fn a_reached_consensus_is_not_requested_again() {
    let plan = kept(serial(vec![
        with(phase("a", &[]), |phase| {
            phase.doer = consensus(2, &["a1", "bob"]);
            phase.gate = agreed(Effect::Block);
        }),
        phase("b", &["a"]),
    ]));
    let mut lab = Lab::new(plan);
    Script::new().votes(&[("bob", Approved)]).walk(&mut lab);
    let (done, reviews) = (lab.run.phases[0].done.clone(), lab.run.phases[0].reviews.clone());
    assert_eq!(reviews.len(), 2);
    lab.roll_back(&lab.checkpoint("POST_a_v1"), true);
    assert_eq!((&lab.run.phases[0].done, &lab.run.phases[0].reviews), (&done, &reviews));
    assert_eq!(lab.run.phases[0].status, PhaseStatus::Complete);
    lab.roll_back(&lab.checkpoint("PRE_a_v1"), true);
    assert_eq!(lab.run.phases[0].reviews, []);
    let told = Script::new().votes(&[("bob", Approved)]).walk(&mut lab);
    assert_eq!(told[2], "reviewed a/a1 2 approved");
}

/// The base of a branch is its fork, not the target of the rollback.
#[test]
fn a_branch_that_is_rolled_back_is_merged_from_its_fork() {
    let mut plan = kept(diamond());
    plan.phases[1].branch = true;
    plan.phases[2].branch = true;
    let mut lab = Lab::new(plan);
    Script::new().walk(&mut lab);
    let (pre, post) = (lab.checkpoint("PRE_c_v1"), lab.checkpoint("POST_c_v1"));
    lab.roll_back(&post, true);
    let branch = lab.run.phases[2].branch.clone();
    assert_eq!(branch.fork, pre.workspace.map(|kept| kept.tree));
    assert_eq!(branch.theirs, post.workspace.and_then(|kept| kept.branch));
    assert_ne!(branch.theirs, None);
    assert_eq!(lab.run.next(), Next::Perform(vec![Work::Merge { phase: 2, attempt: 1 }]));
    // The fork of another attempt is not used.
    lab.roll_back(&lab.checkpoint("PRE_c_v1"), true);
    Script::new().walk(&mut lab);
    lab.roll_back(&lab.checkpoint("POST_c_v1"), true);
    assert_eq!(lab.run.phases[2].branch, branch);
    let told = Script::new().walk(&mut lab);
    assert_eq!(told.last().unwrap(), "ended PASS pass");
}
