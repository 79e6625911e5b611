//! Phases with work trees of their own: side by side, merged, or stopped by a conflict.

use windlass_kernel::run::VoteDecision;
use windlass_kernel::run::plan::{Concurrency, Phase, Plan, Trigger};
use windlass_testkit::engine::Votes as _;

use super::{calm, checkpoint, files, git, kept, to, world};
use crate::executors::{sh, write};
use crate::holds::approve;
use crate::plans::{phase, plan};
use crate::world::{end, new_run, trace};

fn branch(id: &str, needs: &[&str], script: &str) -> Phase {
    Phase { branch: true, ..phase(id, needs, sh(script)) }
}

/// Two branches between two phases.
fn fork(left: &str, right: &str) -> Plan {
    let mut plan = kept(plan(vec![
        phase("start", &[], sh("printf '1\\n2\\n3\\n4\\n5\\n' > lines; echo '{}'")),
        branch("left", &["start"], left),
        branch("right", &["start"], right),
        phase("end", &["left", "right"], sh("ls > end; echo '{}'")),
    ]));
    plan.concurrency = Concurrency::Parallel;
    plan
}

#[test]
fn branches_do_not_see_each_other_and_are_merged() {
    let world = world();
    let root = world.root();
    let engine = calm(&world);
    // Each waits for a moment and looks: the other's file must not be there.
    let left = "sed -i 's/1/one/' lines; sleep 0.2; test ! -e r && echo l > l && echo '{}'";
    let right = "sed -i 's/5/five/' lines; sleep 0.2; test ! -e l && echo r > r && echo '{}'";
    let run = engine.start(new_run(fork(left, right))).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    let now = files(root);
    assert_eq!(now[std::path::Path::new("lines")].0, b"one\n2\n3\n4\nfive\n");
    assert!(now.contains_key(std::path::Path::new("l")));
    assert!(now.contains_key(std::path::Path::new("r")));
    // Their work trees are gone, and git knows of none.
    assert_eq!(git(root, &["worktree", "list", "--porcelain"]).matches("worktree ").count(), 1);
    assert_eq!(git(root, &["branch", "--list"]), "* main");
    world.verify();
}

#[test]
fn a_conflict_waits_for_a_person_who_mends_it() {
    let world = world();
    let root = world.root();
    let engine = calm(&world);
    let plan = fork("sed -i 's/3/left/' lines; echo '{}'", "sed -i 's/3/right/' lines; echo '{}'");
    let run = engine.start(new_run(plan)).unwrap();
    let hold = run.hold.as_ref().unwrap();
    assert_eq!(hold.held.trigger, Trigger::MergeConflict);
    assert_eq!(hold.held.evidence["paths"], serde_json::json!(["lines"]));
    let phase = hold.held.phase.clone();
    let run_id = &run.started.as_ref().unwrap().run_id;
    let own = root.join(format!(".windlass/worktrees/{run_id}.{phase}.1"));
    let marked = std::fs::read_to_string(own.join("lines")).unwrap();
    assert!(marked.contains("<<<<<<< ours") && marked.contains(">>>>>>> theirs"), "{marked}");
    // An approval of what is not mended asks again.
    approve(&engine, &run, "ann");
    let run = engine.resume(trace(&run)).unwrap();
    let hold = run.hold.as_ref().unwrap();
    assert_eq!((hold.held.trigger, hold.held.number), (Trigger::MergeConflict, 2));
    write(&own, "lines", "1\n2\nboth\n4\n5\n");
    approve(&engine, &run, "ann");
    let run = engine.resume(trace(&run)).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    assert_eq!(files(root)[std::path::Path::new("lines")].0, b"1\n2\nboth\n4\n5\n");
    world.verify();
}

#[test]
fn a_rejected_conflict_ends_the_run_and_leaves_the_workspace() {
    let world = world();
    let engine = calm(&world);
    let plan = fork("echo l > same; echo '{}'", "echo r > same; echo '{}'");
    let run = engine.start(new_run(plan)).unwrap();
    assert_eq!(run.hold.as_ref().unwrap().held.trigger, Trigger::MergeConflict);
    engine.vote(trace(&run), VoteDecision::Rejected, "ann", "no", None, &[]).unwrap();
    let run = engine.read(trace(&run)).unwrap();
    assert_eq!(end(&run).0, "BLOCKED");
    let same = files(world.root())[std::path::Path::new("same")].0.clone();
    assert!(same == b"l\n" || same == b"r\n");
}

#[test]
fn going_back_to_the_end_of_a_branch_merges_it_again() {
    let world = world();
    let root = world.root();
    let engine = calm(&world);
    let plan = fork("echo l > l; echo '{}'", "echo r > r; echo '{}'");
    let run = engine.start(new_run(plan)).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    let all = files(root);
    let request = windlass_engine::RollbackRequest {
        resume: true,
        ..to(checkpoint(&world, &run, "POST_left_v1"))
    };
    let run = engine.roll_back(trace(&run), &request).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    assert_eq!(files(root), all);
    let before = windlass_engine::RollbackRequest {
        resume: true,
        ..to(checkpoint(&world, &run, "PRE_right_v1"))
    };
    let run = engine.roll_back(trace(&run), &before).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    assert_eq!(files(root), all);
    world.verify();
}

#[test]
fn a_branch_that_fails_is_not_merged() {
    let world = world();
    let engine = calm(&world);
    let plan = fork("echo l > l; echo '{}'", "echo r > r; exit 1");
    let run = engine.start(new_run(plan)).unwrap();
    assert_eq!(end(&run).0, "BLOCKED");
    assert!(!world.root().join("r").exists());
    let post =
        world.checkpoints().load(trace(&run), checkpoint(&world, &run, "POST_right_v1")).unwrap();
    let tree = post.metadata["workspace"]["branch"].as_str().unwrap().to_owned();
    assert_eq!(git(world.root(), &["show", &format!("{tree}:r")]), "r");
}
