//! Many runs on hold: what it costs to look at them; printed, not judged.

use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use windlass_kernel::run::plan::Plan;
use windlass_kernel::run::{Next, RunName, Started};
use windlass_kernel::{Digest, TraceId};
use windlass_loops::{Known, LoopFile};
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
    let known = Known { agents: &agents, builtins: &builtins };
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
fn many_runs_on_hold_are_not_all_read_to_show_a_few() {
    let runs = std::env::var("WINDLASS_TEST_RUNS").ok().and_then(|text| text.parse().ok());
    let runs = runs.unwrap_or(640) / 16 * 16;
    let place = Place::with_project();
    place.write(".windlass/loops/wait.md", LOOP);
    let began = Instant::now();
    seed(&place, runs);
    println!("{runs} runs on hold, seeded in {:?}", began.elapsed());
    let time = |words: &[&str]| {
        let began = Instant::now();
        let outcome = place.run(words).exit(0);
        println!("windlass {}: {:?}", words.join(" "), began.elapsed());
        outcome
    };
    let list = time(&["status", "--json"]).json();
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 20);
    let newest: Vec<&str> = list.iter().map(|run| run["trace_id"].as_str().unwrap()).collect();
    assert!(newest.is_sorted_by(|a, b| a > b), "newest first");
    assert!(list.iter().all(|run| run["hold"]["question"] == "go on?"), "{list:?}");
    let held = time(&["status", "--held", "--limit", "5", "--json"]).json();
    let first: Vec<&str> =
        held.as_array().unwrap().iter().map(|run| run["trace_id"].as_str().unwrap()).collect();
    assert_eq!(first, newest[..5]);
    time(&["queue", "list"]);
    time(&["watch"]);
    time(&["status", "--metrics"]).says(&format!("windlass_holds_waiting {runs}\n"));
}
