//! Every trigger makes its checkpoint, and every field of it is filled.

use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use windlass_engine::{Retention, SnapshotStore as _};
use windlass_kernel::Code;
use windlass_kernel::run::plan::Effect;
use windlass_kernel::run::{CheckpointKind, CheckpointSide};
use windlass_views::checkpoints::AgentStatus;

use super::{calm, checkpoint, engine_with, kept, names, snapshots, to, world};
use crate::crash::Life;
use crate::executors::{sh, with_answers};
use crate::holds::approve;
use crate::plans::{agent, gate, person, phase, plan};
use crate::world::{end, new_run, trace};

fn three() -> windlass_kernel::run::plan::Plan {
    let mut build =
        phase("build", &["plan"], sh("echo two >> a.txt; echo '{\"summary\":\"built\"}'"));
    build.outputs = vec!["*.txt".to_owned()];
    kept(plan(vec![
        phase("plan", &[], sh("echo p > plan.md; echo '{\"facts\":{\"kind\":\"small\"}}'")),
        build,
        phase("sign", &["build"], person(1)),
    ]))
}

#[test]
fn each_trigger_makes_its_checkpoint() {
    let world = world();
    let engine = calm(&world);
    let run = engine.start(new_run(three())).unwrap();
    approve(&engine, &run, "ann");
    let run = engine.resume(trace(&run)).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"));
    let all = world.checkpoints().list(trace(&run)).unwrap();
    let told: Vec<_> = all.iter().map(|one| (one.name.as_str(), one.kind, one.passed)).collect();
    assert_eq!(
        told,
        [
            ("PRE_plan_v1", CheckpointKind::Started, None),
            ("POST_plan_v1", CheckpointKind::Succeeded, None),
            ("PRE_build_v1", CheckpointKind::Started, None),
            ("POST_build_v1", CheckpointKind::Succeeded, None),
            ("PRE_sign_v1", CheckpointKind::Started, None),
            ("POST_sign_v1", CheckpointKind::Approved, None),
        ]
    );
    let parents: Vec<_> = all.iter().map(|one| one.parent_checkpoint_id).collect();
    let line: Vec<_> = std::iter::once(None).chain(all.iter().map(|one| Some(one.id))).collect();
    assert_eq!(parents, line[..6]);
    // Each is durable with the entry that it belongs to.
    let events = world.events(trace(&run));
    let kinds: Vec<_> = events.iter().map(windlass_kernel::run::Event::kind).collect();
    for (at, kind) in kinds.iter().enumerate() {
        if ["phase_started", "phase_done"].contains(kind) {
            assert_eq!(kinds[at + 1], "checkpointed", "{kinds:?}");
        }
    }
    world.verify();
}

#[test]
fn a_failure_keeps_its_error_and_what_was_half_done() {
    let world = world();
    let engine = calm(&world);
    let broken = phase("build", &[], sh("echo half > half.txt; echo no >&2; exit 3"));
    let run = engine.start(new_run(kept(plan(vec![broken])))).unwrap();
    assert_eq!(end(&run).0, "BLOCKED");
    assert_eq!(names(&world, &run), ["PRE_build_v1", "POST_build_v1"]);
    let post =
        world.checkpoints().load(trace(&run), checkpoint(&world, &run, "POST_build_v1")).unwrap();
    assert_eq!(post.metadata["kind"], "failed");
    assert!(post.metadata["error"]["reason"].as_str().unwrap().contains('3'), "{post:#?}");
    assert_eq!(post.governance_results.passed, Some(false));
    let pre = checkpoint(&world, &run, "PRE_build_v1");
    let (from, other) = ((trace(&run), pre), (trace(&run), post.id));
    let diff = world.checkpoints().compare(&snapshots(&world), from, other).unwrap();
    let paths: Vec<_> = diff.files.iter().map(|one| one.path.to_str().unwrap()).collect();
    assert_eq!(paths, ["half.txt"]);
}

#[test]
fn a_checkpoint_has_every_field() {
    let world = world();
    let engine = calm(&world);
    let mut build = phase("build", &["intake"], agent());
    build.outputs = vec!["a.txt".to_owned()];
    let intake = phase("intake", &[], sh("echo '{\"summary\":\"what is wanted\"}'"));
    let plan = kept(plan(vec![intake, build]));
    let answers = json!({"phases": {"build": [
        {"answer": {"summary": "built it", "facts": {"size": "s"}},
         "usage": {"input_tokens": 120, "output_tokens": 30}}]}});
    let run = engine.start(with_answers(plan, answers)).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    let id = checkpoint(&world, &run, "POST_build");
    let one = world.checkpoints().load(trace(&run), id).unwrap();
    assert_eq!(
        (one.id, one.phase.as_str(), one.side, one.version),
        (id, "build", CheckpointSide::Post, 1)
    );
    let state = &one.orchestrator_state;
    assert_eq!(state.run_id, run.started.as_ref().unwrap().run_id);
    assert_eq!(state.current_phase, "build");
    assert_eq!(state.completed_phases, ["intake", "build"]);
    assert_eq!(state.intake_summary["answer"]["summary"], "what is wanted");
    assert_eq!(state.intake_summary["task"]["task"], "change something");
    let someone = &one.agent_states["someone"];
    assert_eq!(someone.status, AgentStatus::Complete);
    assert_eq!((someone.token_usage.input, someone.token_usage.output), (120, 30));
    assert_eq!(someone.summary, "built it");
    let artifact = &one.artifacts["a.txt"];
    assert_eq!((artifact.size_bytes, artifact.artifact_type.as_str()), (5, "txt"));
    assert_eq!(artifact.hash, windlass_kernel::Digest::of(b"base\n"));
    assert_eq!(one.governance_results.passed, None);
    assert_eq!(one.parent_checkpoint_id, Some(checkpoint(&world, &run, "PRE_build")));
    assert_eq!(one.metadata["facts"]["size"], "s");
    // The file is the document, with its keys sorted.
    let value: Value = serde_json::from_slice(&one.to_bytes()).unwrap();
    let keys: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
    assert_eq!(
        keys,
        [
            "agent_states",
            "artifacts",
            "created_at",
            "duration_ms",
            "governance_results",
            "id",
            "metadata",
            "orchestrator_state",
            "parent_checkpoint_id",
            "phase",
            "type",
            "version"
        ]
    );
    assert_eq!(value["type"], "POST");
}

#[test]
fn a_redone_phase_has_a_second_version() {
    let world = world();
    let engine = calm(&world);
    let mut review = phase("review", &["build"], agent());
    review.gate = gate(
        "review",
        &[
            ("approved", Effect::Continue),
            ("needs_revision", crate::plans::redo("build", 2, Effect::Block)),
        ],
    );
    let build = phase("build", &[], sh("date +%N >> a.txt; echo '{}'"));
    let answers = json!({"phases": {"review": [
        {"answer": {"verdict": "needs_revision", "findings": ["again"]}},
        {"answer": {"verdict": "approved"}}]}});
    let run = engine.start(with_answers(kept(plan(vec![build, review])), answers)).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    assert_eq!(
        names(&world, &run),
        [
            "PRE_build_v1",
            "POST_build_v1",
            "PRE_review_v1",
            "POST_review_v1",
            "PRE_build_v2",
            "POST_build_v2",
            "PRE_review_v2",
            "POST_review_v2",
        ]
    );
    let second =
        world.checkpoints().load(trace(&run), checkpoint(&world, &run, "PRE_build_v2")).unwrap();
    assert_eq!(second.metadata["findings"], json!(["again"]));
}

#[test]
fn what_is_old_is_given_up_and_the_rest_still_works() {
    let world = world();
    let engine = calm(&world);
    let run = engine.start(new_run(three())).unwrap();
    approve(&engine, &run, "ann");
    let run = engine.resume(trace(&run)).unwrap();
    let retention = Retention {
        days: 0,
        keep: 2,
        approved: false,
        run: None,
        gates: BTreeMap::new(),
        dry_run: true,
    };
    world.pass_ms(5000);
    let told = engine.purge(&retention).unwrap();
    let gone: Vec<_> = told.checkpoints.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(gone, ["PRE_plan_v1", "POST_plan_v1", "PRE_build_v1", "POST_build_v1"]);
    let did = engine.purge(&Retention { dry_run: false, ..retention.clone() }).unwrap();
    assert_eq!(did.checkpoints, told.checkpoints);
    // The files of the phases are nobody's any more: the plan that was written, and the declared output.
    assert_eq!(did.files, 2);
    assert!(
        engine
            .purge(&Retention { dry_run: false, ..retention.clone() })
            .unwrap()
            .checkpoints
            .is_empty()
    );
    world.verify();
    let there = engine.has_snapshots(&run).unwrap();
    assert_eq!(there.values().filter(|there| **there).count(), 2);
    engine.roll_back(trace(&run), &to(checkpoint(&world, &run, "PRE_sign_v1"))).unwrap();
    let lost = calm(&world).check_checkpoints().unwrap();
    assert_eq!(lost, Vec::<String>::new());
}

#[test]
fn a_purge_waits_for_a_checkpoint_that_is_being_made() {
    let world = world();
    let purges = Arc::new(Mutex::new(Vec::new()));
    let stored = {
        let (world, purges) = (world.clone(), Arc::clone(&purges));
        Arc::new(move || {
            let (world, (sender, done)) = (world.clone(), channel());
            purges.lock().unwrap().push(std::thread::spawn(move || {
                let days = Retention {
                    days: 0,
                    keep: 0,
                    approved: true,
                    run: None,
                    gates: BTreeMap::new(),
                    dry_run: false,
                };
                calm(&world).purge(&days).unwrap();
                // Nobody waits for it any more if it had to wait itself.
                let _ = sender.send(());
            }));
            // A purge that does not wait is done now, and the file is gone before it is recorded.
            let _ = done.recv_timeout(std::time::Duration::from_millis(500));
        })
    };
    let run = engine_with(&world, &Life::until(None), stored).start(new_run(three())).unwrap();
    for purge in std::mem::take(&mut *purges.lock().unwrap()) {
        purge.join().unwrap();
    }
    let there = snapshots(&world).files().unwrap();
    let mut recorded = 0;
    for event in world.events(trace(&run)) {
        let windlass_kernel::run::Event::Checkpointed(checkpoint) = event else { continue };
        for artifact in checkpoint.artifacts.values() {
            assert!(there.contains(&artifact.digest), "{artifact:?}");
            recorded += 1;
        }
    }
    // The plan that the first phase wrote, and the declared output of the second.
    assert_eq!(recorded, 2);
    assert!(
        engine_with(&world, &Life::until(None), Arc::new(|| {}))
            .has_snapshots(&run)
            .unwrap()
            .values()
            .all(|there| *there)
    );
}

#[test]
fn what_merges_have_stored_is_purged_with_the_run() {
    let world = world();
    let engine = calm(&world);
    let mut plan = kept(plan(vec![
        phase("start", &[], sh("echo s > start; echo '{}'")),
        phase("left", &["start"], sh("echo l > left; echo '{}'")),
        phase("right", &["start"], sh("echo r > right; echo '{}'")),
    ]));
    for phase in &mut plan.phases {
        phase.branch = phase.id != "start";
    }
    let run = engine.start(new_run(plan)).unwrap();
    assert_eq!(end(&run), ("PASS", "pass"), "{:?}", run.ended);
    let run_id = &run.started.as_ref().unwrap().run_id;
    let before = snapshots(&world).references().unwrap();
    assert!(before.contains(&format!("{run_id}/left.1/ours")), "{before:?}");
    world.pass_ms(5000);
    // The end of a branch is merged again, which needs its beginning.
    let names = names(&world, &run);
    let at = names.iter().position(|name| name == "POST_left_v1").unwrap();
    let retention = Retention {
        days: 0,
        keep: names.len() - at,
        approved: true,
        run: None,
        gates: BTreeMap::new(),
        dry_run: false,
    };
    let did = engine.purge(&retention).unwrap();
    assert!(did.checkpoints.iter().any(|one| one.name == "PRE_left_v1"), "{did:?}");
    let target = checkpoint(&world, &run, "POST_left_v1");
    let error = engine.roll_back(trace(&run), &to(target)).unwrap_err();
    assert_eq!(error.code(), Code::CheckpointUnavailable);
    assert!(error.to_string().ends_with("PRE_left_v1` was purged"), "{error}");
    let did = engine.purge(&Retention { keep: 0, ..retention }).unwrap();
    assert!(snapshots(&world).references().unwrap().is_empty());
    assert!(did.checkpoints.iter().any(|one| one.name == "POST_left_v1"), "{did:?}");
}

#[test]
fn what_is_not_there_is_an_error_with_a_code() {
    let world = world();
    let engine = calm(&world);
    let run = engine.start(new_run(kept(plan(vec![phase("a", &[], sh("echo '{}'"))])))).unwrap();
    let run_id = run.started.as_ref().unwrap().run_id.clone();
    for name in ["", "x", "POST_a_v1", "01890a5d-ac96-774b-bcce-b302099a8057"] {
        let code = world.checkpoints().find(name).unwrap_err().code();
        assert_eq!(code, Code::CheckpointUnavailable, "{name}");
    }
    for name in ["POST_b", "PRE_a_v2", "post_a", "../POST_a"] {
        let named = format!("{run_id}/{name}");
        assert!(world.checkpoints().find(&named).is_err(), "{name}");
    }
}
