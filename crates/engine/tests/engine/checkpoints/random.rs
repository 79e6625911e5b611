//! Whatever a run does to its files, every checkpoint brings back just what was there.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use windlass_kernel::CheckpointId;
use windlass_testkit::soak;

use super::{calm, files, kept, to, world};
use crate::executors::sh;
use crate::plans::{person, phase, plan};
use crate::world::{new_run, trace};

/// One thing that a phase does to the files.
#[derive(Clone, Debug)]
enum Deed {
    Write(usize, u8),
    Large(usize),
    Binary(usize, u8),
    Empty(usize),
    Remove(usize),
    Link(usize, usize),
    Execute(usize),
    Move(usize, usize),
}

/// Names that are awkward; the folders of some are files of others.
const NAMES: [&str; 9] =
    ["a.txt", "b", "b/c", "b/c/d", "é ü", "-rf", "q'uote", "日本/語.md", "deep/er/and/deeper"];

fn deed() -> impl Strategy<Value = Deed> {
    let name = || 0..NAMES.len();
    prop_oneof![
        4 => (name(), any::<u8>()).prop_map(|(at, byte)| Deed::Write(at, byte)),
        1 => name().prop_map(Deed::Large),
        1 => (name(), any::<u8>()).prop_map(|(at, byte)| Deed::Binary(at, byte)),
        1 => name().prop_map(Deed::Empty),
        2 => name().prop_map(Deed::Remove),
        2 => (name(), name()).prop_map(|(at, to)| Deed::Link(at, to)),
        1 => name().prop_map(Deed::Execute),
        1 => (name(), name()).prop_map(|(from, at)| Deed::Move(from, at)),
    ]
}

fn quoted(at: usize) -> String {
    format!("'./{}'", NAMES[at].replace('\'', "'\\''"))
}

/// The deed as shell; a folder in the way is removed, a file in the way of a folder too.
fn shell(deed: &Deed) -> String {
    let at = match deed {
        Deed::Write(at, _)
        | Deed::Large(at)
        | Deed::Binary(at, _)
        | Deed::Empty(at)
        | Deed::Remove(at)
        | Deed::Link(at, _)
        | Deed::Execute(at)
        | Deed::Move(_, at) => *at,
    };
    let mut script = String::new();
    let mut above = String::from(".");
    let parts: Vec<&str> = NAMES[at].split('/').collect();
    for part in &parts[..parts.len() - 1] {
        above.push('/');
        above.push_str(part);
        let above = above.replace('\'', "'\\''");
        writeln!(
            script,
            "[ -d '{above}' ] && [ ! -L '{above}' ] || {{ rm -rf '{above}'; mkdir '{above}'; }}"
        )
        .unwrap();
    }
    let path = quoted(at);
    match deed {
        Deed::Write(_, byte) => writeln!(script, "rm -rf {path}; echo 'text {byte}' > {path}"),
        Deed::Large(_) => writeln!(script, "rm -rf {path}; seq 1 200000 > {path}"),
        Deed::Binary(_, byte) => {
            writeln!(script, "rm -rf {path}; printf '\\0\\{byte:03o}\\r\\n\\377' > {path}")
        }
        Deed::Empty(_) => writeln!(script, "rm -rf {path}; : > {path}"),
        Deed::Remove(_) => writeln!(script, "rm -rf {path}"),
        Deed::Link(_, to) => writeln!(script, "rm -rf {path}; ln -s {} {path}", quoted(*to)),
        Deed::Execute(_) => writeln!(script, "[ -f {path} ] && [ ! -L {path} ] && chmod +x {path}"),
        Deed::Move(from, _) if from == &at => Ok(()),
        Deed::Move(from, _) => {
            let from = quoted(*from);
            writeln!(script, "[ -f {from} ] && [ ! -L {from} ] && cp {from} /tmp/w.$$ && rm -rf {path} && mkdir -p \"$(dirname {path})\" && cp /tmp/w.$$ {path}; rm -f /tmp/w.$$")
        }
    }
    .unwrap();
    script
}

fn check(phases: &[Vec<Deed>], order: &[usize]) {
    let world = world();
    let root = world.root();
    let engine = calm(&world);
    let mut list = Vec::new();
    for (at, deeds) in phases.iter().enumerate() {
        // What a phase does with its files is done before it answers; nothing of it may fail it. A deed may
        // have no line at all, and the shell refuses a group without a command.
        let script: String = deeds.iter().map(shell).collect();
        let script = format!("{{ :; {script} }} >/dev/null 2>&1\necho '{{}}'");
        let needs: Vec<String> = at.checked_sub(1).map(|at| format!("p{at}")).into_iter().collect();
        let needs: Vec<&str> = needs.iter().map(String::as_str).collect();
        list.push(phase(&format!("p{at}"), &needs, sh(&script)));
    }
    let last = format!("p{}", phases.len() - 1);
    list.push(phase("sign", &[&last], person(1)));
    let run = engine.start(new_run(kept(plan(list)))).unwrap();
    let id = trace(&run);
    assert!(run.hold.is_some(), "{:?}", run.ended);
    let checkpoints: Vec<CheckpointId> =
        run.checkpoints.iter().map(|checkpoint| checkpoint.id).collect();
    // What git itself says that each had, read without any of our code.
    let mut seen: BTreeMap<CheckpointId, BTreeMap<PathBuf, (Vec<u8>, bool)>> = BTreeMap::new();
    for checkpoint in &run.checkpoints {
        let out = tempfile::tempdir().unwrap();
        let tree = &checkpoint.workspace.as_ref().unwrap().tree;
        let index = out.path().join("index");
        let place = out.path().join("tree");
        std::fs::create_dir(&place).unwrap();
        for arguments in [vec!["read-tree", tree], vec!["checkout-index", "-a", "-f"]] {
            let status = std::process::Command::new("git")
                .current_dir(&place)
                .env("GIT_DIR", root.join(".git"))
                .env(
                    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
                    root.join(".windlass/snapshots.git/objects"),
                )
                .env("GIT_WORK_TREE", &place)
                .env("GIT_INDEX_FILE", &index)
                .args(&arguments)
                .status()
                .unwrap();
            assert!(status.success());
        }
        seen.insert(checkpoint.id, files(&place));
    }
    for pick in order {
        let target = checkpoints[pick % checkpoints.len()];
        let back = engine.roll_back(id, &to(target)).unwrap();
        assert_eq!(files(root), seen[&target], "after going back to {target}");
        let document = world.checkpoints().load(id, target).unwrap();
        let complete: Vec<String> = back
            .all_phases()
            // The work of the checkpoint's own phase is kept, and judged again.
            .filter(|(_, state)| {
                state.status == windlass_kernel::run::PhaseStatus::Complete || state.done.is_some()
            })
            .map(|(phase, _)| phase.id.clone())
            .collect();
        assert_eq!(complete, document.orchestrator_state.completed_phases);
    }
    world.verify();
}

#[test]
fn every_checkpoint_brings_back_what_was_there() {
    let mut runner = TestRunner::new(Config {
        cases: Config::default().cases / 40,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(soak::property_seed()),
        ..Config::default()
    });
    let phases = proptest::collection::vec(proptest::collection::vec(deed(), 1..6), 2..4);
    let order = proptest::collection::vec(0usize..100, 2..5);
    runner
        .run(&(phases, order), |(phases, order)| {
            check(&phases, &order);
            Ok(())
        })
        .unwrap();
}
