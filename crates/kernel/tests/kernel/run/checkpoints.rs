//! Checkpoints: when they are due, what they must contain, and which events they block.

use serde_json::json;
use windlass_kernel::run::VoteDecision::{Approved, Rejected};
use windlass_kernel::run::plan::{CheckTiming, Doer, Effect, Plan, RunOutcome};
use windlass_kernel::run::{
    Checkpoint, CheckpointKind, CheckpointSide, CheckpointWorkspace, Event,
};

use crate::run::harness::{Act, Lab, Script, done, ended, failure, invoke};
use crate::run::keeping::foreign;
use crate::run::plans::{agreed, check, consensus, gate, person, phase, redo, serial, with};

pub fn kept(plan: Plan) -> Plan {
    with(plan, |plan| plan.checkpoints = true)
}

fn checkpoint(lab: &Lab) -> Checkpoint {
    match lab.due_checkpoint() {
        Some(Event::Checkpointed(checkpoint)) => *checkpoint,
        other => panic!("{other:?}"),
    }
}

fn refused(lab: &Lab, event: &Event, why: &str) {
    let error = lab.takes(event).unwrap_err();
    assert!(error.contains(why), "{error}");
}

/// A run whose first phase has started, and whose first checkpoint is due.
fn owing(plan: Plan) -> Lab {
    with(Lab::new(kept(plan)), |lab| {
        lab.record(Event::Begun {});
        lab.record_only(Event::PhaseStarted { phase: "a".into(), attempt: 1 });
    })
}

#[test]
fn each_attempt_begins_and_ends_with_a_checkpoint() {
    let plan = kept(serial(vec![
        phase("a", &[]),
        with(phase("b", &["a"]), |phase| {
            phase.checks = vec![check("x", CheckTiming::After, &[("ok", Effect::Continue)])];
            phase.gate = gate(&[("ok", Effect::Continue), ("no", redo("a", 1, Effect::Block))]);
        }),
    ]));
    let mut lab = Lab::new(plan);
    let told = Script::new().at("b", 1, Act::Say("no")).walk(&mut lab);
    assert_eq!(
        told,
        [
            "begun",
            "start a 1",
            "PRE_a_v1 started",
            "done a 1",
            "POST_a_v1 succeeded",
            "start b 1",
            "PRE_b_v1 started",
            "done b 1",
            "POST_b_v1 succeeded",
            "checked b/x 1 ok",
            "back b/gate no -> a 1",
            "start a 2",
            "PRE_a_v2 started",
            "done a 2",
            "POST_a_v2 succeeded",
            "start b 2",
            "PRE_b_v2 started",
            "done b 2",
            "POST_b_v2 succeeded",
            "checked b/x 2 ok",
            "ended PASS pass",
        ]
    );
    let parents: Vec<_> = lab.run.checkpoints.iter().map(|checkpoint| checkpoint.parent).collect();
    let ids: Vec<_> = lab.run.checkpoints.iter().map(|checkpoint| Some(checkpoint.id)).collect();
    assert_eq!(parents[0], None);
    assert_eq!(parents[1..], ids[..ids.len() - 1]);
    for checkpoint in &lab.run.checkpoints {
        let event = &lab.events[usize::try_from(checkpoint.sequence_number).unwrap() - 1].0;
        assert!(matches!(event, Event::Checkpointed(made) if made.id == checkpoint.id));
        assert_eq!(lab.run.checkpoint(checkpoint.id), Some(checkpoint));
    }
    assert_eq!(lab.run.checkpoint(foreign()), None);
    assert_eq!(
        lab.run.tree,
        lab.run.checkpoints.last().unwrap().workspace.clone().map(|kept| kept.tree)
    );
}

#[test]
fn a_loop_without_checkpoints_creates_none() {
    let mut lab = Lab::new(serial(vec![phase("a", &[])]));
    let told = Script::new().walk(&mut lab);
    assert_eq!(told, ["begun", "start a 1", "done a 1", "ended PASS pass"]);
    assert_eq!((lab.run.checkpoints.len(), lab.run.due_checkpoint()), (0, None));
}

#[test]
fn the_checkpoint_after_a_phase_tells_how_it_ended() {
    let failing = || Act::Done(failure("timeout"));
    let rejected = || agreed(Effect::Block);
    type Row = (Doer, Script, &'static str);
    let rows: Vec<Row> = vec![
        (crate::run::plans::agent(), Script::new(), "succeeded"),
        (crate::run::plans::builtin(), Script::new(), "succeeded"),
        (crate::run::plans::command(true), Script::new(), "succeeded"),
        (crate::run::plans::agent(), Script::new().at("a", 1, failing()), "failed"),
        // The gate judges the answer of an agent.
        (crate::run::plans::agent(), Script::new().at("a", 1, Act::Say("rejected")), "succeeded"),
        (person(1), Script::new().votes(&[("ann", Approved)]), "approved"),
        (person(1), Script::new().votes(&[("ann", Rejected)]), "failed"),
        (consensus(1, &["a1"]), Script::new(), "approved"),
        (consensus(1, &["a1"]), Script::new().at("a/a1", 1, Act::Say("rejected")), "failed"),
        (consensus(1, &["a1"]), Script::new().at("a/a1", 1, Act::Say("what?")), "failed"),
        (
            consensus(1, &["a1"]),
            Script::new().at("a/a1", 1, Act::Say("approved_with_conditions")),
            "approved",
        ),
        (consensus(1, &["bob"]), Script::new().votes(&[("bob", Approved)]), "approved"),
        (consensus(1, &["bob"]), Script::new().votes(&[("bob", Rejected)]), "failed"),
    ];
    for (doer, script, kind) in rows {
        let name = format!("{doer:?}");
        let plan = kept(serial(vec![with(phase("a", &[]), |phase| {
            phase.doer = doer;
            phase.gate = rejected();
        })]));
        let mut lab = Lab::new(plan);
        let told = script.walk(&mut lab);
        assert!(told.contains(&format!("POST_a_v1 {kind}")), "{name}: {told:#?}");
        assert_eq!(lab.run.checkpoints.len(), 2);
    }
}

#[test]
fn no_other_event_comes_before_a_due_checkpoint() {
    let lab = owing(serial(vec![phase("a", &[])]));
    assert_eq!(lab.takes(&lab.due_checkpoint().unwrap()), Ok(()));
    let done = Box::new(done(json!({})));
    for event in [
        Event::PhaseDone { phase: "a".into(), attempt: 1, done },
        invoke(&lab, "a", 1),
        Event::Restarted { by: "ann".into() },
        lab.run.restart_hold(),
        ended("stop"),
        Event::Noted { what: windlass_kernel::run::NoteKind::Memory, body: json!({}) },
    ] {
        refused(&lab, &event, "a checkpoint is due");
    }
}

#[test]
fn only_the_due_checkpoint_is_accepted() {
    let mut lab = owing(serial(vec![phase("a", &[]), phase("b", &["a"])]));
    let good = checkpoint(&lab);
    assert_eq!(
        (good.at, good.kind, good.version),
        (CheckpointSide::Pre, CheckpointKind::Started, 1)
    );
    for bad in [
        Checkpoint { at: CheckpointSide::Post, ..good.clone() },
        Checkpoint { attempt: 2, ..good.clone() },
        Checkpoint { kind: CheckpointKind::Succeeded, ..good.clone() },
        Checkpoint { kind: CheckpointKind::Rollback, ..good.clone() },
        Checkpoint { parent: Some(foreign()), ..good.clone() },
        Checkpoint { phase: "b".into(), ..good.clone() },
        Checkpoint { version: 0, ..good.clone() },
        Checkpoint { version: 2, ..good.clone() },
    ] {
        refused(&lab, &Event::Checkpointed(Box::new(bad)), "another checkpoint is due");
    }
    let nowhere = Checkpoint { phase: "z".into(), ..good.clone() };
    refused(&lab, &Event::Checkpointed(Box::new(nowhere)), "no phase");
    lab.record(Event::Checkpointed(Box::new(good.clone())));
    refused(&lab, &Event::Checkpointed(Box::new(good.clone())), "no checkpoint is due");
    let done = Box::new(done(json!({})));
    lab.record_only(Event::PhaseDone { phase: "a".into(), attempt: 1, done });
    let next = checkpoint(&lab);
    assert_eq!((next.at, next.parent), (CheckpointSide::Post, Some(good.id)));
    let same = Checkpoint { id: good.id, ..next.clone() };
    refused(&lab, &Event::Checkpointed(Box::new(same)), "its id is already used");
    let orphan = Checkpoint { parent: None, ..next };
    refused(&lab, &Event::Checkpointed(Box::new(orphan)), "another checkpoint is due");
}

#[test]
fn files_need_not_be_kept() {
    let mut lab = owing(serial(vec![phase("a", &[])]));
    let bare = Checkpoint { workspace: None, ..checkpoint(&lab) };
    lab.record(Event::Checkpointed(Box::new(bare)));
    assert_eq!((lab.run.tree.clone(), lab.run.checkpoints[0].workspace.clone()), (None, None));
    let done = Box::new(done(json!({})));
    lab.record_only(Event::PhaseDone { phase: "a".into(), attempt: 1, done });
    let workspace = Some(CheckpointWorkspace { branch: None, tree: "t2".into() });
    let checkpoint = Checkpoint { workspace, ..checkpoint(&lab) };
    lab.record(Event::Checkpointed(Box::new(checkpoint)));
    assert_eq!(lab.run.tree.as_deref(), Some("t2"));
}

/// The checkpoint of an answer is due when the run continues, and never if the run ends before.
#[test]
fn a_checkpoint_of_an_answer_follows_when_the_run_continues() {
    let plan = kept(serial(vec![with(phase("a", &[]), |phase| phase.doer = person(1))]));
    let mut lab = Lab::new(plan);
    Script::new().walk(&mut lab);
    lab.record(lab.vote("ann", Approved));
    lab.record(Event::Resumed { by: "ann".into(), worked_ms: None });
    let owed = lab.run.due_checkpoint().unwrap();
    assert_eq!((owed.at, owed.kind), (CheckpointSide::Post, CheckpointKind::Approved));
    assert_eq!(lab.due_checkpoint(), None);
    let early = with(lab.clone(), |lab| lab.run.head.state = Some(windlass_kernel::State::Running));
    assert!(lab.takes(&early.due_checkpoint().unwrap()).is_err());
    assert_eq!(lab.takes(&ended("POLICY_CHANGED_MID_RUN")), Ok(()));
    let pass =
        Event::Ended { outcome: RunOutcome::Pass, reason: "p".into(), detail: String::new() };
    refused(&lab, &pass, "a checkpoint is due");
    let mut gone = lab.clone();
    gone.record(ended("POLICY_CHANGED_MID_RUN"));
    assert_eq!(gone.run.checkpoints.len(), 1);
    lab.record(Event::Continued {});
    assert_eq!(lab.told().last().unwrap(), "POST_a_v1 approved");
    // A run that ended without it can still be rolled back.
    let first = gone.run.checkpoints[0].clone();
    gone.roll_back(&first, true);
    let told = Script::new().votes(&[("bob", Approved)]).walk(&mut gone);
    assert_eq!(told.last().unwrap(), "ended PASS pass");
}
