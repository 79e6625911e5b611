//! Many phases and many runs. `cargo xtask bench runs` measures them.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_kernel::run::plan::Plan;
use windlass_kernel::run::{Event, Next, RunName, Started};
use windlass_kernel::{Digest, TraceId};
use windlass_loops::{KnownNames, LoopFile};
use windlass_runtime::{Clock, SystemClock};
use windlass_store::Store;
use windlass_store_sqlite::{Settings, SqliteStore};
use windlass_testkit::RunWriter;

use crate::world::Repo;

const HEAD: &str = "title: Large
type: workflow
category: test
version: \"1\"
on_restart: resume
phases:
";

/// A loop with so many phases, each after the one before.
fn chain(id: &str, phases: usize) -> String {
    let mut text = format!("---\nid: {id}\n{HEAD}");
    for at in 0..phases {
        let needs = if at == 0 { String::new() } else { format!(", needs: [p{}]", at - 1) };
        writeln!(text, "  - {{ id: p{at}{needs}, doer: {{ builtin: hydrate }} }}").unwrap();
    }
    text + "---\n"
}

#[test]
fn a_loop_of_ten_thousand_phases_is_checked_and_one_more_refused() {
    let repo = Repo::new();
    let path = repo.place.base().join("large.md");
    std::fs::write(&path, chain("large", 10_000)).unwrap();
    let path = path.display().to_string();
    repo.windlass(&["loop", "check", &path]).exit(0).says("10000 phases");
    std::fs::write(&path, chain("large", 10_001)).unwrap();
    repo.windlass(&["loop", "check", &path]).fails_with(2, "LOOP_INVALID");
}

fn run_of(phases: usize) {
    let repo = Repo::with_loop("large", &chain("large", phases));
    let run = repo.windlass(&["run", "one", "--loop", "large", "--json"]).exit(0).json();
    assert_eq!((&run["outcome"], &run["reason"]), (&json!("PASS"), &json!("pass")));
    assert_eq!(run["phases"].as_array().unwrap().len(), phases);
    let steps = repo.artifacts().iter().filter(|name| name.starts_with("steps/")).count();
    assert_eq!(steps, phases);
    repo.is_whole();
}

#[test]
fn a_run_of_many_phases_passes() {
    run_of(150);
}

const ASKING: &str = "---
id: asking
title: A question
type: workflow
category: test
version: \"1\"
on_restart: resume
phases: [{ id: ask, doer: { person: \"May it?\" } }]
---
";

/// Records a run up to its hold, as the engine would.
fn hold(store: &Arc<dyn Store>, clock: &Arc<dyn Clock>, file: &LoopFile) {
    let trace_id = TraceId(clock.new_id());
    let started = Started {
        base: None,
        by: "a test".to_owned(),
        inherited: std::collections::BTreeMap::new(),
        loop_digest: file.digest,
        options: Value::Object(serde_json::Map::new()),
        plan: Plan { checkpoints: false, ..file.plan.clone() },
        policy_hash: Digest::of(b"policy"),
        run_id: RunName::of(trace_id).to_string(),
        task: json!({ "task": "one" }),
        worktree: None,
    };
    let mut writer = RunWriter::begin(store, clock, trace_id, started, Vec::new()).unwrap();
    while let Next::Record(event) = writer.run().next() {
        let held = matches!(*event, Event::Held(_));
        writer.append([*event]).unwrap();
        if held {
            return;
        }
    }
    panic!("the run did not come to wait");
}

#[test]
fn ten_thousand_runs_on_hold_are_listed() {
    const RUNS: usize = 10_000;
    let repo = Repo::with_loop("asking", ASKING);
    let none = std::collections::BTreeSet::new();
    let known = KnownNames { agents: &none, builtins: &none };
    let file = LoopFile::parse("asking.md", ASKING.as_bytes(), &known).unwrap();
    {
        let store = SqliteStore::open(&repo.place.database(), Settings::default()).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| (0..RUNS / 20).for_each(|_| hold(&store, &clock, &file)));
            }
        });
    }
    for (line, count) in [
        (&["status", "--json"][..], 20),
        (&["status", "--held", "--json"], 20),
        (&["queue", "list", "--json"], 50),
    ] {
        let listed = repo.windlass(line).exit(0);
        assert_eq!(listed.json().as_array().unwrap().len(), count);
    }
    let oldest = repo.windlass(&["queue", "list", "--json", "--limit", "1"]).exit(0).json();
    let newest = repo.windlass(&["status", "--json", "--limit", "1"]).exit(0).json();
    assert!(oldest[0]["trace_id"].as_str() < newest[0]["trace_id"].as_str());
    let id = oldest[0]["run_id"].as_str().unwrap();
    repo.windlass(&["queue", "show", id]).exit(0).says("May it?");
}
