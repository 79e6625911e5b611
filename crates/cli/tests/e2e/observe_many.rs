//! Many runs on hold: commands that show a few of them.

use std::sync::Arc;

use serde_json::json;
use windlass_kernel::run::plan::Plan;
use windlass_kernel::run::{Next, RunName, Started};
use windlass_kernel::{Digest, TraceId};
use windlass_loops::{KnownNames, LoopFile};
use windlass_runtime::{Clock, SystemClock};
use windlass_store::Store;
use windlass_store_sqlite::SqliteStore;
use windlass_testkit::RunWriter;

use crate::harness::Place;

const LOOP: &str = r#"---
id: wait
title: Wait
type: loop
category: build
version: "1"
on_restart: resume
concurrency: serial
phases:
  - id: ask
    doer: { person: "go on?" }
    gate:
      id: ask
      verdicts: { approved: continue, rejected: block }
---

# Wait
"#;

/// Records runs that wait for a person.
fn seed(place: &Place, runs: usize) {
    let (agents, builtins) = Default::default();
    let known = KnownNames { agents: &agents, builtins: &builtins };
    let file = LoopFile::parse("loops/wait.md", LOOP.as_bytes(), &known).unwrap();
    let store = SqliteStore::open(&place.database(), windlass_store_sqlite::Settings::default());
    let store: Arc<dyn Store> = Arc::new(store.unwrap());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let threads = 16;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..runs / threads {
                    let trace_id = TraceId(SystemClock.new_id());
                    let started = Started {
                        base: None,
                        by: "me".to_owned(),
                        inherited: std::collections::BTreeMap::new(),
                        loop_digest: file.digest,
                        options: json!({}),
                        plan: Plan { checkpoints: false, ..file.plan.clone() },
                        policy_hash: Digest::of(b"policy"),
                        run_id: RunName::of(trace_id).to_string(),
                        task: json!({ "task": "wait" }),
                        worktree: None,
                    };
                    let mut writer =
                        RunWriter::begin(&store, &clock, trace_id, started, Vec::new()).unwrap();
                    while let Next::Record(event) = writer.run().next() {
                        writer.append([*event]).unwrap();
                    }
                    assert!(writer.run().hold.is_some());
                }
            });
        }
    });
}

#[test]
fn a_few_of_many_runs_on_hold_are_shown() {
    let runs = 640;
    let place = Place::with_project();
    place.write(".windlass/loops/wait.md", LOOP);
    seed(&place, runs);
    let show = |words: &[&str]| place.run(words).exit(0);
    let list = show(&["status", "--json"]).json();
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 20);
    let newest: Vec<&str> = list.iter().map(|run| run["trace_id"].as_str().unwrap()).collect();
    assert!(newest.is_sorted_by(|a, b| a > b), "newest first");
    assert!(list.iter().all(|run| run["hold"]["question"] == "go on?"), "{list:?}");
    let held = show(&["status", "--held", "--limit", "5", "--json"]).json();
    let first: Vec<&str> =
        held.as_array().unwrap().iter().map(|run| run["trace_id"].as_str().unwrap()).collect();
    assert_eq!(first, newest[..5]);
    show(&["queue", "list"]);
    show(&["watch"]);
    show(&["status", "--metrics"]).says(&format!("windlass_holds_waiting {runs}\n"));
}
