//! Runs: the time of the engine beside the store's commits, and listing many runs on hold.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, anyhow};
use serde_json::json;
use windlass_engine::{
    Assignment, Completion, Engine, EngineError, HoldQueue, NewRun, Parts, PhaseExecutor,
    PhaseRecorder, Settings, StopSwitch, WorkResult,
};
use windlass_journal::{JournalError, RunFilter, Runs};
use windlass_kernel::Digest;
use windlass_kernel::run::plan::{Doer, Plan, RunOutcome};
use windlass_runtime::SystemClock;
use windlass_store::{After, Append, Claim, KeyAction, NewEntry, Store};
use windlass_store_sqlite::SqliteStore;
use windlass_testkit::engine::{FakeRepository, NoPackets, OneGateway};
use windlass_testkit::gateway::{TestSupervisor, World};
use windlass_testkit::plans::{done, phase, plan};
use windlass_views::RunSummary;

/// Phases that do nothing.
struct Nothing;

impl PhaseExecutor for Nothing {
    fn perform(
        &self,
        _: &Assignment,
        _: &PhaseRecorder<'_>,
    ) -> Result<WorkResult<Completion>, EngineError> {
        Ok(WorkResult::Finished(Completion::Done(Box::new(done(json!({ "summary": "done" }))))))
    }
}

fn engine(folder: &Path, store: Arc<dyn Store>) -> Engine {
    let gateway = World::default().gateway(Arc::new(TestSupervisor::default()));
    Engine::new(
        Parts {
            store,
            clock: Arc::new(SystemClock),
            executor: Arc::new(Nothing),
            observers: Vec::new(),
            packets: Arc::new(NoPackets),
            repository: Arc::new(FakeRepository::default()),
            gateways: Arc::new(OneGateway(Arc::new(gateway))),
            people: Arc::new(windlass_testkit::people::Everybody),
            stop: StopSwitch::new(folder.join("stop")),
        },
        Settings {
            root: folder.to_owned(),
            policy_hash: Digest::of(b"policy"),
            by: "bench".to_owned(),
            locks: folder.join("locks"),
            state: folder.join("state"),
        },
    )
}

/// Phases one after the other.
fn chain(phases: usize, doer: &Doer) -> Plan {
    let name = |at: usize| format!("phase-{at}");
    let phase = |at: usize| {
        let before = at.checked_sub(1).map(name);
        let needs: Vec<&str> = before.iter().map(String::as_str).collect();
        phase(&name(at), &needs, doer.clone())
    };
    plan((0..phases).map(phase).collect())
}

fn new_run(plan: Plan) -> NewRun {
    NewRun::new(plan, Digest::of(b"loop"), json!({ "task": "nothing" }))
}

/// The cost of a run of many phases.
pub struct Phases {
    /// Microseconds for a phase in total.
    pub whole: f64,
    /// Microseconds of the store for the same entries.
    pub store: f64,
    /// Milliseconds to list the run.
    pub list: f64,
}

/// Runs `phases` empty phases, then appends the same entries to another store without an engine.
pub fn phases(folder: &Path, phases: usize) -> Result<Phases> {
    let path = folder.join("runs.db");
    let open = || -> Result<Arc<dyn Store>> {
        Ok(Arc::new(SqliteStore::open(&path, windlass_store_sqlite::Settings::default())?))
    };
    let store = open()?;
    let doer = Doer::Builtin { name: "nothing".to_owned(), with: BTreeMap::new() };
    let started = Instant::now();
    let run = engine(folder, Arc::clone(&store)).start(new_run(chain(phases, &doer)))?;
    let whole = started.elapsed().as_secs_f64();
    if run.ended.as_ref().is_none_or(|ended| ended.outcome != RunOutcome::Pass) {
        return Err(anyhow!("the run did not pass: {:?}", run.ended));
    }
    let list = list(&Runs::new(Arc::clone(&store)), 1)?;
    let mut records = Vec::new();
    loop {
        let after = u64::try_from(records.len())?;
        let page = store.list_log_entries(run.head.trace_id, after, 10_000)?;
        if page.is_empty() {
            break;
        }
        records.extend(page);
    }
    drop(store);
    crate::remove(&path);
    let store = open()?;
    let trace_id = run.head.trace_id;
    let plan_id = windlass_kernel::PlanId(trace_id.0);
    let started = Instant::now();
    let mut lease = None;
    for record in records {
        let body = record.body.unwrap_or_default();
        let claim = match &lease {
            Some(lease) => Claim::Held(lease),
            None => Claim::New { trace_id, plan_id },
        };
        let entries = vec![NewEntry::new(record.entry, body)];
        let append = Append { claim, entries, key: KeyAction::None, after: After::Keep };
        if let Some(granted) = store.append(append)?.lease {
            lease = Some(granted);
        }
    }
    let store_seconds = started.elapsed().as_secs_f64();
    drop((lease, store));
    crate::remove(&path);
    let each = |seconds: f64| seconds * 1e6 / phases as f64;
    Ok(Phases { whole: each(whole), store: each(store_seconds), list })
}

/// Lists `count` runs as `status` does; returns the time in milliseconds.
fn list(runs: &Runs, count: usize) -> Result<f64> {
    let started = Instant::now();
    let filter = RunFilter { open_only: false, state: None, limit: count };
    let found = runs.list(&filter)?;
    let shown: Result<Vec<_>, JournalError> =
        found.iter().map(|one| RunSummary::read(runs.store(), &one.trace.head)).collect();
    if shown?.len() != count {
        return Err(anyhow!("runs are missing from the list"));
    }
    Ok(started.elapsed().as_secs_f64() * 1e3)
}

/// Adds runs to a journal as the engine records them: `ended` that pass, then `held` that wait for a person. Several at
/// once, each with folders of its own, so that they share commits.
pub fn fill(folder: &Path, journal: &Path, ended: usize, held: usize) -> Result<()> {
    const AT_ONCE: usize = 16;
    let settings = windlass_store_sqlite::Settings::default();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(journal, settings)?);
    let passing = Doer::Builtin { name: "nothing".to_owned(), with: BTreeMap::new() };
    let asking = Doer::Person { approvals: 1, question: "may it go on?".to_owned() };
    for (runs, doer) in [(ended, &passing), (held, &asking)] {
        std::thread::scope(|scope| -> Result<()> {
            let make = |worker: usize| {
                let folder = folder.join(worker.to_string());
                let store = Arc::clone(&store);
                scope.spawn(move || -> Result<()> {
                    std::fs::create_dir_all(&folder)?;
                    let engine = engine(&folder, store);
                    for _ in (worker..runs).step_by(AT_ONCE) {
                        engine.start(new_run(chain(1, doer)))?;
                    }
                    Ok(())
                })
            };
            let workers: Vec<_> = (0..AT_ONCE).map(make).collect();
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().map_err(|_| anyhow!("a run panicked"))?)
        })?;
    }
    Ok(())
}

/// The cost of listing many runs on hold.
pub struct Holds {
    /// Milliseconds to list twenty runs.
    pub list: f64,
    /// Milliseconds for the oldest twenty of the queue.
    pub queue: f64,
    /// How much the memory of the process grew, in KiB.
    pub grown_kib: i64,
}

/// Puts `runs` runs on hold, then lists them as `status` and `queue list` do.
pub fn holds(folder: &Path, runs: usize) -> Result<Holds> {
    let path = folder.join("holds.db");
    let store: Arc<dyn Store> =
        Arc::new(SqliteStore::open(&path, windlass_store_sqlite::Settings::default())?);
    let engine = engine(folder, store);
    let doer = Doer::Person { approvals: 1, question: "may it go on?".to_owned() };
    for _ in 0..runs {
        engine.start(new_run(chain(1, &doer)))?;
    }
    let before = crate::process::resident_kib()?;
    let list = list(&engine.runs(), 20.min(runs))?;
    let started = Instant::now();
    let shown = HoldQueue::read(&engine.runs(), 20)?;
    if shown.waiting.len() != 20.min(runs) || shown.count != runs {
        return Err(anyhow!("runs are missing from the queue"));
    }
    let queue = started.elapsed().as_secs_f64() * 1e3;
    let grown_kib = crate::process::resident_kib()? - before;
    drop(engine);
    crate::remove(&path);
    Ok(Holds { list, queue, grown_kib })
}
