//! Phases with a separate work tree: merged one at a time; people resolve conflicts.

use serde_json::json;
use windlass_kernel::run::VoteDecision::{Approved, Rejected};
use windlass_kernel::run::plan::{CheckTiming, Effect, Plan};
use windlass_kernel::run::{AttemptStage, Branch, Event, Next, PhaseStatus, Work};

use crate::run::checkpoints::kept;
use crate::run::harness::{Act, Lab, Script, done, failure, started};
use crate::run::plans::{
    agreed, builtin, check, command, consensus, gate, parallel, person, phase, redo, serial, with,
};

/// a, then b and c in parallel in separate work trees, then d.
fn forks() -> Plan {
    let branch = |name: &str| with(phase(name, &["a"]), |phase| phase.branch = true);
    let phases = vec![phase("a", &[]), branch("b"), branch("c"), phase("d", &["b", "c"])];
    kept(parallel(phases))
}

fn one() -> Plan {
    kept(serial(vec![with(phase("b", &[]), |phase| phase.branch = true)]))
}

fn refused(lab: &Lab, event: &Event, why: &str) {
    let error = lab.takes(event).unwrap_err();
    assert!(error.contains(why), "{error}");
}

fn phase_done(phase: &str, attempt: u32) -> Event {
    Event::PhaseDone { phase: phase.into(), attempt, done: Box::new(done(json!({}))) }
}

/// Records events until work must be performed.
fn settle(lab: &mut Lab) -> Vec<Work> {
    loop {
        match lab.run.next() {
            Next::Record(event) => lab.record(*event),
            Next::Perform(works) => return works,
            other => panic!("{other:?}"),
        }
    }
}

/// A run in which both branches are done and neither is merged.
fn both() -> Lab {
    with(Lab::new(forks()), |lab| {
        settle(lab);
        lab.record(phase_done("a", 1));
        settle(lab);
        lab.record(phase_done("b", 1));
        lab.record(phase_done("c", 1));
    })
}

#[test]
fn a_branch_is_merged_before_it_is_judged() {
    let mut plan = one();
    plan.phases[0].checks = vec![check("x", CheckTiming::After, &[("ok", Effect::Continue)])];
    plan.phases[0].gate = gate(&[("ok", Effect::Continue), ("no", redo("b", 1, Effect::Block))]);
    let mut lab = Lab::new(plan);
    let told = Script::new().at("b", 1, Act::Say("no")).walk(&mut lab);
    assert_eq!(
        told,
        [
            "begun",
            "start b 1",
            "PRE_b_v1 started",
            "done b 1",
            "POST_b_v1 succeeded",
            "merge b 1",
            "merged b 1",
            "checked b/x 1 ok",
            "back b/gate no -> b 1",
            "start b 2",
            "PRE_b_v2 started",
            "done b 2",
            "POST_b_v2 succeeded",
            "merge b 2",
            "merged b 2",
            "checked b/x 2 ok",
            "ended PASS pass",
        ]
    );
    assert_eq!(lab.run.phases[0].branch, Branch::default());
    let last = lab.run.checkpoints.last().unwrap().workspace.clone().unwrap();
    assert_eq!(lab.run.tree, Some(format!("{} merged", last.branch.unwrap())));
}

#[test]
fn a_branch_records_its_fork_and_its_result() {
    let lab = both();
    let tree = |name: &str| lab.checkpoint(name).workspace.unwrap();
    for (at, name) in [(1, "b"), (2, "c")] {
        let branch = &lab.run.phases[at].branch;
        assert_eq!(branch.fork, Some(tree(&format!("PRE_{name}_v1")).tree));
        assert_eq!(branch.theirs, tree(&format!("POST_{name}_v1")).branch);
        assert_eq!(lab.run.phases[at].stage, AttemptStage::Merge);
    }
    // A phase that works in the workspace of the run has no branch.
    assert_eq!(lab.run.phases[0].branch, Branch::default());
}

#[test]
fn merges_are_performed_one_at_a_time() {
    let mut lab = both();
    assert_eq!(settle(&mut lab), [Work::Merge { phase: 1, attempt: 1 }]);
    refused(&lab, &lab.merged(1), "not recorded");
    // The recorded merge is completed first.
    let mut other = lab.clone();
    other.record(other.merge_prepared(2));
    assert_eq!(other.run.next(), Next::Perform(vec![Work::Merge { phase: 2, attempt: 1 }]));
    refused(&other, &other.merge_prepared(1), "another merge");
    refused(&other, &other.merge_prepared(2), "another merge");
    // What lies in the workspace may conflict with it then, too.
    let met = with(other.clone(), |other| other.record(other.conflicted(2)));
    assert_eq!(met.run.phases[2].branch.merging, None);
    refused(&other, &other.merged(1), "not recorded");
    other.record(Event::Restarted { by: "ann".into() });
    assert_eq!(other.run.next(), Next::Perform(vec![Work::Merge { phase: 2, attempt: 1 }]));
    other.record(other.merged(2));
    assert_eq!(other.run.phases[2].status, PhaseStatus::Complete);
    assert_eq!(other.run.next(), Next::Perform(vec![Work::Merge { phase: 1, attempt: 1 }]));
    let told = Script::new().walk(&mut other);
    assert_eq!(told.last().unwrap(), "ended PASS pass");
    lab.record(lab.merge_prepared(1));
    let Event::MergePrepared { ours, tree, theirs, .. } = lab.events.last().unwrap().0.clone()
    else {
        panic!()
    };
    let branch = &lab.run.phases[1].branch;
    let merging = branch.merging.clone().unwrap();
    assert_eq!((merging.ours, merging.tree.clone()), (ours, tree));
    assert_eq!(branch.theirs, Some(theirs));
    lab.record(lab.merged(1));
    assert_eq!(lab.run.tree, Some(merging.tree));
}

#[test]
fn only_a_branch_that_is_done_is_merged() {
    let mut lab = Lab::new(one());
    settle(&mut lab);
    for event in [lab.merge_prepared(0), lab.merged(0), lab.conflicted(0)] {
        refused(&lab, &event, "no merge in progress");
    }
    let failed =
        Event::PhaseDone { phase: "b".into(), attempt: 1, done: Box::new(failure("timeout")) };
    let broken = with(lab.clone(), |lab| lab.record(failed));
    for event in [broken.merge_prepared(0), broken.merged(0), broken.conflicted(0)] {
        refused(&broken, &event, "not in progress");
    }
    assert_eq!(broken.told().last().unwrap(), "POST_b_v1 failed");
    lab.record(phase_done("b", 1));
    assert_eq!(lab.takes(&lab.merge_prepared(0)), Ok(()));
    refused(&lab, &phase_done("b", 1), "not in progress");
    let mut plain = Lab::new(kept(serial(vec![phase("b", &[]), phase("c", &["b"])])));
    settle(&mut plain);
    plain.record(phase_done("b", 1));
    refused(&plain, &plain.merge_prepared(0), "not in progress");
}

#[test]
fn a_person_resolves_a_conflict() {
    let mut lab = Lab::new(one());
    let told = Script::new()
        .at("b/merge", 1, Act::Conflict)
        .at("b/merge", 1, Act::Conflict)
        .votes(&[("ann", Approved)])
        .walk(&mut lab);
    let asked = [
        "conflict b 1",
        "held 1 MERGE_CONFLICT at b for 1",
        "ann APPROVED",
        "resumed",
        "continued",
        "conflict b 1",
        "held 2 MERGE_CONFLICT at b for 1",
    ];
    assert_eq!(told[5..], asked);
    let held = &lab.run.hold.as_ref().unwrap().held;
    assert_eq!(held.evidence["paths"], json!(["a.txt"]));
    assert_eq!(held.evidence["messages"], json!(["both have changed a.txt"]));
    assert_eq!(lab.run.resolved_paths(0), None);
    lab.record(lab.vote("bob", Approved));
    lab.record(Event::Resumed { by: "bob".into(), worked_ms: None });
    assert_eq!(lab.run.resolved_paths(0), Some(&["a.txt".to_owned()][..]));
    let branch = &lab.run.phases[0].branch;
    assert_eq!((branch.fork.as_deref(), &branch.theirs), (Some("the workspace"), &None));
    let told = Script::new().walk(&mut lab);
    assert_eq!(told, ["continued", "merge b 1", "merged b 1", "ended PASS pass"]);
    assert_eq!(lab.run.resolved_paths(0), None);
}

#[test]
fn a_rejected_conflict_ends_the_run() {
    let mut lab = Lab::new(one());
    let told =
        Script::new().at("b/merge", 1, Act::Conflict).votes(&[("ann", Rejected)]).walk(&mut lab);
    assert_eq!(told.last().unwrap(), "ended BLOCKED checkpoint_rejected");
    let mut lab = Lab::new(one());
    settle(&mut lab);
    lab.record(phase_done("b", 1));
    let Event::Conflicted { phase, attempt, ours, messages, .. } = lab.conflicted(0) else {
        panic!()
    };
    let none = Event::Conflicted { phase, attempt, ours, paths: vec![], messages };
    refused(&lab, &none, "at least one file");
}

/// A conflict stops the run; parallel work in progress is completed first.
#[test]
fn work_in_progress_is_completed_before_a_conflict_hold() {
    let mut lab = Lab::new(forks());
    settle(&mut lab);
    lab.record(phase_done("a", 1));
    settle(&mut lab);
    lab.record(phase_done("b", 1));
    lab.record(lab.conflicted(1));
    assert_eq!(lab.run.next(), Next::Perform(vec![Work::Do { phase: 2, attempt: 1 }]));
    let told = Script::new().votes(&[("ann", Approved)]).walk(&mut lab);
    let place = |what: &str| told.iter().position(|line| line == what).unwrap();
    assert!(place("merged c 1") < place("held 1 MERGE_CONFLICT at b for 1"));
    assert_eq!(told.last().unwrap(), "ended PASS pass");
}

#[test]
fn a_branch_needs_an_executor_that_writes_and_checkpoints() {
    let refuses = |plan: Plan, why: &str| refused(&Lab::empty(), &started(plan), why);
    refuses(with(one(), |plan| plan.checkpoints = false), "needs checkpoints");
    for doer in [builtin(), person(1), consensus(1, &["bob"])] {
        let plan = with(one(), |plan| {
            plan.phases[0].doer = doer;
            plan.phases[0].gate = agreed(Effect::Block);
        });
        refuses(plan, "its executor writes no files");
    }
    let commanded = with(one(), |plan| plan.phases[0].doer = command(false));
    assert_eq!(Lab::empty().takes(&started(commanded)), Ok(()));
}
