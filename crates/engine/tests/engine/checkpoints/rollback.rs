//! Going back: state and files together, nothing lost.

use windlass_engine::Engine;
use windlass_kernel::run::plan::{OnRestart, Plan, Trigger};
use windlass_kernel::run::{CheckpointKind, PhaseStatus, Run};
use windlass_kernel::{Code, State};
use windlass_testkit::engine::Votes as _;

use super::{calm, checkpoint, files, git, kept, names, to, world};
use crate::executors::{named, sh, write};
use crate::holds::approve;
use crate::plans::{person, phase, plan};
use crate::world::{World, end, new_run, trace};

/// Three phases that change files, then a person.
fn steps() -> Plan {
    let one =
        "mkdir -p d; echo 1 > d/one.txt; ln -s one.txt d/link; echo '{\"facts\":{\"at\":\"one\"}}'";
    let two = "echo 2 >> a.txt; rm d/link; chmod +x d/one.txt; echo '{\"facts\":{\"at\":\"two\"}}'";
    let three = "rm -r d; printf 'x\\0y' > bin; echo '{\"facts\":{\"at\":\"three\"}}'";
    kept(plan(vec![
        phase("one", &[], sh(one)),
        phase("two", &["one"], sh(two)),
        phase("three", &["two"], sh(three)),
        phase("sign", &["three"], person(1)),
    ]))
}

fn stopped(world: &World) -> (Engine, Run) {
    let engine = calm(world);
    let run = engine.start(new_run(steps())).unwrap();
    assert_eq!(run.hold.as_ref().unwrap().held.trigger, Trigger::PersonRequested);
    (engine, run)
}

fn status(run: &Run) -> Vec<&'static str> {
    run.phases.iter().map(|state| state.status.as_str()).collect()
}

#[test]
fn files_and_state_come_back_together() {
    let world = world();
    let (engine, run) = stopped(&world);
    let last = files(world.root());
    let back = engine.roll_back(trace(&run), &to(checkpoint(&world, &run, "POST_one_v1"))).unwrap();
    assert_eq!(status(&back), ["complete", "pending", "pending", "pending"]);
    assert_eq!(back.facts["at"], "one");
    assert_eq!(back.head.state, Some(State::Checkpoint));
    assert_eq!(back.hold.as_ref().unwrap().held.trigger, Trigger::RolledBack);
    let now = files(world.root());
    let paths: Vec<_> = now.keys().map(|path| path.to_str().unwrap()).collect();
    assert_eq!(paths, ["a.txt", "d/link", "d/one.txt"]);
    assert_eq!(now[std::path::Path::new("a.txt")].0, b"base\n");
    assert!(!now[std::path::Path::new("d/one.txt")].1);
    let newest = world.checkpoints().list(trace(&run)).unwrap().pop().unwrap();
    assert_eq!((newest.kind, newest.name.as_str()), (CheckpointKind::Rollback, "PRE_one_v2"));
    assert_eq!(newest.parent_checkpoint_id, Some(checkpoint(&world, &run, "POST_one_v1")));
    let told = world.checkpoints().load(trace(&run), newest.id).unwrap();
    assert_eq!(told.metadata["archived"], serde_json::json!(["two", "three", "sign"]));
    assert_eq!(
        told.metadata["rollback_from"],
        serde_json::json!(checkpoint(&world, &run, "PRE_sign_v1"))
    );
    // It goes on from there, under new versions.
    approve(&engine, &back, "ann");
    let again = engine.resume(trace(&run)).unwrap();
    assert_eq!(again.hold.as_ref().unwrap().held.trigger, Trigger::PersonRequested);
    assert_eq!(files(world.root()), last);
    assert!(names(&world, &run).contains(&"POST_three_v2".to_owned()));
    let archived = world.checkpoints().list(trace(&run)).unwrap();
    let archived: Vec<_> =
        archived.iter().filter(|one| one.archived).map(|one| one.name.as_str()).collect();
    assert_eq!(
        archived,
        ["PRE_two_v1", "POST_two_v1", "PRE_three_v1", "POST_three_v1", "PRE_sign_v1"]
    );
    world.verify();
}

#[test]
fn a_rollback_can_be_taken_back() {
    let world = world();
    let (engine, run) = stopped(&world);
    let last = files(world.root());
    let before = checkpoint(&world, &run, "POST_three_v1");
    engine.roll_back(trace(&run), &to(checkpoint(&world, &run, "PRE_one_v1"))).unwrap();
    assert_eq!(files(world.root()).len(), 1);
    let forward = engine.roll_back(trace(&run), &to(before)).unwrap();
    assert_eq!(files(world.root()), last);
    assert_eq!(status(&forward), ["complete", "complete", "complete", "pending"]);
    assert_eq!(forward.facts["at"], "three");
    world.verify();
}

#[test]
fn a_run_that_has_ended_goes_on_from_an_earlier_state() {
    let world = world();
    let (engine, run) = stopped(&world);
    approve(&engine, &run, "ann");
    let run = engine.resume(trace(&run)).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"));
    let request = windlass_engine::RollbackRequest {
        resume: true,
        ..to(checkpoint(&world, &run, "PRE_three_v1"))
    };
    let again = engine.roll_back(trace(&run), &request).unwrap();
    assert!(again.ended.is_none());
    assert_eq!(again.hold.as_ref().unwrap().held.trigger, Trigger::PersonRequested);
    approve(&engine, &again, "ann");
    assert_eq!(end(&engine.resume(trace(&run)).unwrap()), ("PASS", "pass"));
    world.verify();
}

#[test]
fn what_people_have_changed_refuses_it_and_is_kept_when_forced() {
    let world = world();
    let root = world.root();
    let (engine, run) = stopped(&world);
    write(root, "a.txt", "mine\n");
    write(root, "notes/new.txt", "also mine\n");
    write(root, "ignored", "never seen\n");
    let before = files(root);
    let entries = world.events(trace(&run)).len();
    let target = checkpoint(&world, &run, "POST_one_v1");
    let error = engine.roll_back(trace(&run), &to(target)).unwrap_err();
    assert_eq!(error.code(), Code::WorkspaceChanged);
    assert!(error.to_string().contains("`a.txt`, `notes/new.txt`"), "{error}");
    assert_eq!(files(root), before);
    assert_eq!(world.events(trace(&run)).len(), entries);
    // Looking changes nothing either.
    let plan = engine.plan_rollback(trace(&run), target).unwrap();
    assert_eq!(plan.changed.len(), 2);
    assert_eq!(plan.left, [std::path::PathBuf::from("notes/new.txt")]);
    assert_eq!(plan.archived, ["two", "three", "sign"]);
    assert_eq!(files(root), before);
    assert_eq!(world.events(trace(&run)).len(), entries);
    let forced = windlass_engine::RollbackRequest { force: true, ..to(target) };
    let back = engine.roll_back(trace(&run), &forced).unwrap();
    assert_eq!(std::fs::read(root.join("a.txt")).unwrap(), b"base\n");
    assert_eq!(std::fs::read(root.join("notes/new.txt")).unwrap(), b"also mine\n");
    assert_eq!(std::fs::read(root.join("ignored")).unwrap(), b"never seen\n");
    // What was there lies in git.
    let snapshot = back.last_rollback.as_ref().unwrap().snapshot.clone().unwrap();
    assert_eq!(git(root, &["show", &format!("{snapshot}:a.txt")]), "mine");
    git(root, &["gc", "-q", "--prune=now"]);
    assert_eq!(git(root, &["show", &format!("{snapshot}:a.txt")]), "mine");
    world.verify();
}

#[test]
fn it_is_refused_where_it_makes_no_sense() {
    let world = world();
    let (engine, run) = stopped(&world);
    let other = calm(&world)
        .start(new_run(kept(plan(vec![named("h", &[], "hydrate", serde_json::json!({}))]))))
        .unwrap();
    let foreign = other.checkpoints[0].id;
    let code = engine.roll_back(trace(&run), &to(foreign)).unwrap_err().code();
    assert_eq!(code, Code::CheckpointUnavailable);
    let mut nobody = to(checkpoint(&world, &run, "PRE_one_v1"));
    nobody.by = "  ".to_owned();
    assert!(engine.roll_back(trace(&run), &nobody).is_err());
    let mut pointless = to(checkpoint(&world, &run, "PRE_one_v1"));
    pointless.reason = String::new();
    assert!(engine.roll_back(trace(&run), &pointless).is_err());
    assert_eq!(status(&engine.read(trace(&run)).unwrap())[0], "complete");
}

#[test]
fn a_rejected_rollback_ends_the_run() {
    let world = world();
    let (engine, run) = stopped(&world);
    let back = engine.roll_back(trace(&run), &to(checkpoint(&world, &run, "POST_one_v1"))).unwrap();
    engine
        .vote(
            trace(&back),
            windlass_kernel::run::VoteDecision::Rejected,
            "ann",
            "no use",
            None,
            &[],
        )
        .unwrap();
    assert_eq!(end(&engine.read(trace(&run)).unwrap()), ("BLOCKED", "checkpoint_rejected"));
    // And even that can be rolled back.
    let again =
        engine.roll_back(trace(&run), &to(checkpoint(&world, &run, "POST_two_v1"))).unwrap();
    assert_eq!(status(&again), ["complete", "complete", "pending", "pending"]);
}

#[test]
fn a_failed_phase_is_done_again_on_what_it_left() {
    let world = world();
    let engine = calm(&world);
    let flaky = "if [ -f half ]; then echo '{}'; else echo h > half; exit 1; fi";
    let mut plan =
        kept(plan(vec![phase("one", &[], sh("echo '{}'")), phase("two", &["one"], sh(flaky))]));
    plan.on_restart = OnRestart::Terminate;
    let run = engine.start(new_run(plan)).unwrap();
    assert_eq!(end(&run).0, "BLOCKED");
    let request = windlass_engine::RollbackRequest {
        resume: true,
        ..to(checkpoint(&world, &run, "POST_two_v1"))
    };
    let run = engine.roll_back(trace(&run), &request).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    assert_eq!(run.phases[1].status, PhaseStatus::Complete);
    assert_eq!(run.phases[1].attempt, 2);
}
