//! Many phases and many runs. `cargo xtask bench runs` measures them.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_kernel::run::Started;
use windlass_kernel::run::plan::Plan;
use windlass_loops::{KnownNames, LoopFile};
use windlass_runtime::{Clock, SystemClock};
use windlass_store::Store;
use windlass_store_sqlite::{Settings, SqliteStore};
use windlass_testkit::RunWriter;
use windlass_testkit::plans::started;

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
    let plan = Plan { checkpoints: false, ..file.plan.clone() };
    let started = Started { loop_digest: file.digest, ..started(plan) };
    let writer = RunWriter::advance(store, clock, started).unwrap();
    assert!(writer.run().hold.is_some(), "the run did not come to wait");
}

#[test]
fn of_thousands_of_runs_on_hold_only_those_that_are_shown_are_read() {
    const RUNS: usize = 10_000;
    let repo = Repo::with_loop("asking", ASKING);
    let none = std::collections::BTreeSet::new();
    let known = KnownNames { agents: &none, builtins: &none };
    let file = LoopFile::parse("asking.md", ASKING.as_bytes(), &known).unwrap();
    let store = SqliteStore::open(&repo.place.database(), Settings::default()).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| (0..RUNS / 20).for_each(|_| hold(&store, &clock, &file)));
        }
    });
    drop(store);
    // One that no list shows: whoever reads it finds it corrupt.
    let queue = repo.windlass(&["queue", "list", "--json", "--limit", "100"]).exit(0).json();
    let broken = queue[99]["trace_id"].as_str().unwrap();
    let change = format!("UPDATE entries SET ts = ts + 1 WHERE hex(trace_id) = '{}'", hex(broken));
    repo.place.tamper().execute(&change, []).unwrap();
    repo.windlass(&["status", broken]).exit(5);
    let list = |line: &[&str]| -> Vec<(String, String)> {
        let listed = repo.windlass(line).exit(0).quiet().json();
        let text = |run: &Value, key: &str| run[key].as_str().unwrap().to_owned();
        let listed = listed.as_array().unwrap().iter();
        listed.map(|run| (text(run, "trace_id"), text(&run["hold"], "question"))).collect()
    };
    let newest = list(&["status", "--json"]);
    assert_eq!(newest.len(), 20);
    assert!(newest.is_sorted_by(|one, next| one.0 > next.0), "newest first");
    assert!(newest.iter().all(|(_, question)| question == "May it?"), "{newest:?}");
    assert_eq!(list(&["status", "--held", "--json"]), newest);
    assert_eq!(list(&["status", "--held", "--limit", "5", "--json"]), newest[..5]);
    let oldest = list(&["queue", "list", "--json"]);
    assert_eq!(oldest.len(), 50);
    let first = list(&["queue", "list", "--json", "--limit", "1"]);
    assert!(first.len() == 1 && oldest.contains(&first[0]), "{first:?}");
    assert!(oldest[0].0 < newest[19].0);
    repo.windlass(&["queue", "list"]).exit(0);
    repo.windlass(&["watch"]).exit(0);
    repo.windlass(&["queue", "show", &oldest[0].0]).exit(0).says("May it?");
    let metrics = repo.windlass(&["status", "--metrics"]).exit(0);
    metrics.says(&format!("windlass_holds_waiting {RUNS}\n"));
}

fn hex(id: &str) -> String {
    id.replace('-', "").to_uppercase()
}
