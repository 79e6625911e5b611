//! Changes of a workspace by merges, rollbacks and the end of a run never lose what somebody else has made.

use windlass_engine::{EngineError, RollbackRequest};
use windlass_kernel::run::plan::{Concurrency, OnRestart, Plan, RunOutcome, Trigger};
use windlass_kernel::run::{Run, VoteDecision};
use windlass_kernel::{Code, State};
use windlass_testkit::engine::Votes as _;
use windlass_testkit::soak;

use super::{calm, checkpoint, engine, files, git, kept, to, world};
use crate::crash::Life;
use crate::executors::{named, sh, write};
use crate::holds::approve;
use crate::plans::{person, phase, plan};
use crate::world::{World, end, new_run, trace};

fn text(world: &World, path: &str) -> String {
    std::fs::read_to_string(world.root().join(path)).unwrap()
}

/// A branch and a phase without one, side by side, which change the same file.
fn beside(left: &str, right: &str) -> Plan {
    let mut plan = kept(plan(vec![
        phase("start", &[], sh("printf '1\\n2\\n3\\n4\\n5\\n' > lines; echo '{}'")),
        phase("left", &["start"], sh(left)),
        phase("right", &["start"], sh(right)),
        phase("end", &["left", "right"], sh("echo '{}'")),
    ]));
    plan.concurrency = Concurrency::Parallel;
    plan.on_restart = OnRestart::Resume;
    for phase in &mut plan.phases {
        phase.branch = phase.id == "left";
    }
    plan
}

#[test]
fn a_merge_waits_for_whoever_writes_in_the_workspace() {
    let world = world();
    // It has read the file before the merge could write it, and writes it after.
    let right = "sed 's/5/five/' lines > /tmp/x.$$; sleep 1; cat /tmp/x.$$ > lines; rm /tmp/x.$$; echo '{}'";
    let run =
        calm(&world).start(new_run(beside("sed -i 's/1/one/' lines; echo '{}'", right))).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    assert_eq!(text(&world, "lines"), "one\n2\n3\n4\nfive\n");
    world.verify();
}

/// A run whose process has died right after a merge was prepared, of which nothing is done.
fn dead_before_the_merge(world: &World, left: &str) -> Run {
    let script = format!("{left}; echo '{{}}'");
    // The first points are those of the phase before the branch.
    for at in soak::points(1).filter(|at| *at > 30) {
        let life = Life::until(Some(at));
        let run = engine(world, &life).start(new_run(beside(&script, "echo r > right; echo '{}'")));
        let begun = world.runs();
        let Some((trace_id, _)) = begun.last() else { continue };
        let now = calm(world).read(*trace_id).unwrap();
        let left = now.phase(now.position("left").unwrap()).unwrap().1.clone();
        if left.branch.merging.is_some() && text(world, "lines").starts_with('1') {
            return now;
        }
        assert!(run.is_err() || life.is_over(), "no death was between");
        calm(world).recover().unwrap();
    }
    panic!("no death was between");
}

#[test]
fn an_edit_before_an_interrupted_merge_is_merged() {
    let world = world();
    let run = dead_before_the_merge(&world, "sed -i 's/1/one/' lines");
    write(world.root(), "lines", "1\n2\n3\n4\nmine\n");
    let next = calm(&world);
    next.recover().unwrap();
    let run = next.read(trace(&run)).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    assert_eq!(text(&world, "lines"), "one\n2\n3\n4\nmine\n");
    world.verify();
}

#[test]
fn an_edit_that_conflicts_with_an_interrupted_merge_waits_for_a_person() {
    let world = world();
    let run = dead_before_the_merge(&world, "sed -i 's/1/one/' lines");
    write(world.root(), "lines", "mine\n2\n3\n4\n5\n");
    // What nobody mentions does not vanish either.
    let gc = std::process::Command::new("git")
        .args(["--git-dir=.windlass/snapshots.git", "gc", "-q", "--prune=now"])
        .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", world.root().join(".git/objects"))
        .current_dir(world.root())
        .status();
    assert!(gc.unwrap().success());
    let next = calm(&world);
    for one in next.recover().unwrap() {
        one.result.unwrap();
    }
    let run = next.read(trace(&run)).unwrap();
    let hold = run.hold.as_ref().unwrap_or_else(|| panic!("{:?}", run.ended));
    assert_eq!(hold.held.trigger, Trigger::MergeConflict);
    assert_eq!(hold.held.evidence["paths"], serde_json::json!(["lines"]));
    assert_eq!(text(&world, "lines"), "mine\n2\n3\n4\n5\n");
    let run_id = &run.started.as_ref().unwrap().run_id;
    let own = world.root().join(format!(".windlass/worktrees/{run_id}.left.1"));
    let marked = std::fs::read_to_string(own.join("lines")).unwrap();
    assert!(marked.contains("mine") && marked.contains("one"), "{marked}");
    write(&own, "lines", "both\n2\n3\n4\n5\n");
    approve(&next, &run, "ann");
    let run = next.resume(trace(&run)).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    assert_eq!(text(&world, "lines"), "both\n2\n3\n4\n5\n");
    world.verify();
}

#[test]
fn an_ignored_file_in_the_way_of_a_merge_waits_for_a_person() {
    let world = world();
    let run = dead_before_the_merge(&world, "echo theirs > ignored; git add -f ignored");
    // The branch has the file, since git knows it there.
    write(world.root(), "ignored", "mine\n");
    let next = calm(&world);
    next.recover().unwrap();
    let run = next.read(trace(&run)).unwrap();
    assert_eq!(text(&world, "ignored"), "mine\n");
    if let Some(hold) = run.hold.as_ref() {
        assert_eq!(hold.held.trigger, Trigger::MergeConflict);
        std::fs::remove_file(world.root().join("ignored")).unwrap();
        approve(&next, &run, "ann");
        let run = next.resume(trace(&run)).unwrap();
        assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    }
    world.verify();
}

fn steps(on_restart: OnRestart) -> Plan {
    let mut plan = kept(plan(vec![
        phase("one", &[], sh("mkdir d; echo 1 > d/one; echo 1 > both; echo '{}'")),
        phase("two", &["one"], sh("rm -r d; echo 2 > both; echo 2 > two; echo '{}'")),
        phase("sign", &["two"], person(1)),
    ]));
    plan.on_restart = on_restart;
    plan
}

#[test]
fn a_rollback_that_cannot_be_made_is_not_begun() {
    let world = world();
    let engine = calm(&world);
    let run = engine.start(new_run(steps(OnRestart::Hold))).unwrap();
    let entries = world.events(trace(&run)).len();
    // Nobody's list names it to git, so it is in no snapshot.
    std::fs::write(world.root().join(".git/info/exclude"), "/locks\n/stop\n/.windlass\n/d\n")
        .unwrap();
    write(world.root(), "d/one", "mine\n");
    let before = files(world.root());
    for force in [false, true] {
        let request = RollbackRequest { force, ..to(checkpoint(&world, &run, "POST_one_v1")) };
        let error = engine.roll_back(trace(&run), &request).unwrap_err();
        assert_eq!(error.code(), Code::WorkspaceChanged, "{error}");
        assert_eq!(files(world.root()), before);
        assert_eq!(world.events(trace(&run)).len(), entries, "{error}");
        assert_eq!(engine.resume(trace(&run)).unwrap_err().code(), Code::RunOnHold);
    }
    std::fs::remove_file(world.root().join("d/one")).unwrap();
    let back = engine.roll_back(trace(&run), &to(checkpoint(&world, &run, "POST_one_v1"))).unwrap();
    assert_eq!(back.hold.as_ref().unwrap().held.trigger, Trigger::RolledBack);
    world.verify();
}

/// A run whose process has died right after a rollback was recorded, of which nothing is done.
fn dead_before_the_rollback(world: &World) -> Run {
    let run = calm(world).start(new_run(steps(OnRestart::Hold))).unwrap();
    for at in soak::points(1) {
        let life = Life::until(Some(at));
        let request = to(checkpoint(world, &run, "POST_one_v1"));
        drop(engine(world, &life).roll_back(trace(&run), &request));
        let now = calm(world).read(trace(&run)).unwrap();
        if now.pending_rollback().is_some() && text(world, "both") == "2\n" {
            return now;
        }
        assert!(now.checkpoints.len() == run.checkpoints.len(), "no death was between");
    }
    panic!("no death was between");
}

#[test]
fn an_edit_before_an_interrupted_rollback_refuses_it_until_a_person_says_how() {
    let world = world();
    let run = dead_before_the_rollback(&world);
    write(world.root(), "both", "mine\n");
    let next = calm(&world);
    let error = next.resume(trace(&run)).unwrap_err();
    let EngineError::InTheWay { changed, hint, .. } = &error else { panic!("{error}") };
    assert_eq!(changed, &["both"]);
    assert!(hint.as_ref().unwrap().contains("--force"), "{hint:?}");
    assert_eq!(text(&world, "both"), "mine\n");
    // As the hint says.
    let target = checkpoint(&world, &run, "POST_one_v1");
    let forced = RollbackRequest { force: true, ..to(target) };
    let back = next.roll_back(trace(&run), &forced).unwrap();
    assert_eq!(text(&world, "both"), "1\n");
    let found = format!("rollback-{}/found-1", run.rollback_number());
    let run_id = &back.started.as_ref().unwrap().run_id;
    let snapshots = world.root().join(".windlass/snapshots.git");
    let name = format!("refs/windlass/{run_id}/{found}:both");
    assert_eq!(git(&snapshots, &["--git-dir=.", "show", &name]), "mine");
    world.verify();
}

/// A run that a person has rejected after two phases.
fn rejected(world: &World) -> Run {
    let engine = calm(world);
    let run = engine.start(new_run(steps(OnRestart::Resume))).unwrap();
    engine.vote(trace(&run), VoteDecision::Rejected, "ann", "no", None, &[]).unwrap();
    engine.read(trace(&run)).unwrap()
}

#[test]
fn a_run_whose_files_are_put_back_stays_ended_wherever_its_process_dies() {
    let mut scenarios = 0;
    for at in soak::points(2) {
        let world = world();
        let run = rejected(&world);
        assert_eq!(end(&run), ("BLOCKED", "checkpoint_rejected"));
        let old = files(world.root());
        let life = Life::until(Some(at));
        let cut_off = engine(&world, &life).put_back(trace(&run), "ann", false);
        let next = calm(&world);
        // A process that goes on, and a person who tries.
        next.recover().unwrap();
        let refused = next.resume(trace(&run)).unwrap_err();
        assert_eq!(refused.code(), Code::RunEnded, "{at}: {refused}");
        let after = next.read(trace(&run)).unwrap();
        assert_eq!(after.head.state, Some(State::Terminal), "{at}");
        assert_eq!(end(&after), ("BLOCKED", "checkpoint_rejected"), "{at}");
        let now = files(world.root());
        if after.checkpoints.len() == run.checkpoints.len() {
            assert_eq!(now, old, "{at}");
        } else {
            let paths: Vec<_> = now.keys().map(|path| path.to_str().unwrap()).collect();
            assert_eq!(paths, ["a.txt"], "{at}");
        }
        world.verify();
        scenarios += 1;
        if cut_off.is_ok() && !life.is_over() {
            break;
        }
    }
    assert!(scenarios > 5, "only {scenarios} deaths");
}

#[test]
fn what_cannot_be_put_back_leaves_the_run_ended() {
    let world = world();
    let run = rejected(&world);
    let entries = world.events(trace(&run)).len();
    std::fs::write(world.root().join(".git/info/exclude"), "/locks\n/stop\n/.windlass\n/two\n")
        .unwrap();
    let engine = calm(&world);
    let folder = world.root().join("two");
    std::fs::remove_file(&folder).unwrap();
    write(world.root(), "both", "mine\n");
    let error = engine.put_back(trace(&run), "ann", false).unwrap_err();
    assert_eq!(error.code(), Code::WorkspaceChanged, "{error}");
    assert_eq!(world.events(trace(&run)).len(), entries);
    let after = engine.read(trace(&run)).unwrap();
    assert_eq!(after.ended.as_ref().unwrap().outcome, RunOutcome::Blocked);
    assert_eq!(engine.resume(trace(&run)).unwrap_err().code(), Code::RunEnded);
}

#[test]
fn a_file_that_a_rollback_uncovers_is_not_deleted_by_the_next() {
    let world = world();
    let engine = calm(&world);
    let run = engine
        .start(new_run(kept(plan(vec![
            phase("one", &[], sh("echo 1 > one; echo '{}'")),
            phase("two", &["one"], sh("echo 2 > two; echo '{}'")),
            phase("three", &["two"], sh("echo '*.local' > .gitignore; echo '{}'")),
            phase("sign", &["three"], person(1)),
        ]))))
        .unwrap();
    write(world.root(), "my.local", "mine\n");
    for name in ["POST_two_v1", "POST_one_v1", "PRE_one_v1"] {
        engine.roll_back(trace(&run), &to(checkpoint(&world, &run, name))).unwrap();
        assert_eq!(text(&world, "my.local"), "mine\n", "{name}");
    }
    assert!(!world.root().join("one").exists());
    world.verify();
}

#[test]
fn a_rollback_to_a_commit_that_is_not_the_newest_is_refused() {
    let world = world();
    let engine = calm(&world);
    let count = "expr $(cat .windlass/count 2>/dev/null || echo 0) + 1 > .windlass/count.new";
    let script = format!(
        "{count}; mv .windlass/count.new .windlass/count; cp .windlass/count made; \
         echo '{{\"commit_message\":\"Make it\"}}'"
    );
    let mut plan = kept(plan(vec![
        phase("build", &[], sh(&script)),
        named("commit", &["build"], "commit", serde_json::json!({})),
    ]));
    plan.require = vec![windlass_kernel::run::plan::Requirement::CleanRepo];
    let run = engine
        .start(crate::executors::with_task(plan, serde_json::json!({"task": "make it"})))
        .unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    let again = |name: &str| {
        let target = checkpoint(&world, &run, name);
        engine.roll_back(trace(&run), &RollbackRequest { resume: true, ..to(target) })
    };
    let second = again("PRE_build_v1").unwrap();
    assert_eq!(end(&second), ("PASS", "pass"), "{:?}", second.ended);
    assert_ne!(second.commit, run.commit);
    let before = files(world.root());
    let error = again("POST_commit_v1").unwrap_err();
    assert_eq!(error.code(), Code::CheckpointUnavailable, "{error}");
    assert_eq!(files(world.root()), before);
    // As the hint says.
    let third = again("PRE_commit_v1").unwrap();
    assert_eq!(end(&third), ("PASS", "pass"), "{:?}", third.ended);
    let commit = third.commit.unwrap().commit;
    assert_eq!(
        git(world.root(), &["show", &format!("{commit}:made")]),
        text(&world, "made").trim()
    );
    world.verify();
}
