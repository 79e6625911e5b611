//! Runs: the time of the engine beside the store's commits, and listing many runs on hold.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, anyhow};
use serde_json::json;
use windlass_connect::Confinement;
use windlass_engine::{
    Assignment, Completion, Engine, EngineError, GatewayProvider, HoldPackets, HoldQueue, NewRun,
    Parts, PhaseExecutor, PhaseRecorder, PreparedCommit, Repository, Settings, StopSwitch,
    WorkResult,
};
use windlass_journal::{JournalError, RunFilter, Runs};
use windlass_kernel::run::plan::{
    Budget, Concurrency, Doer, Governance, HoldRule, OnRestart, Phase, PhaseCondition, Plan,
    RunOutcome,
};
use windlass_kernel::run::{Base, Change, Commit, PhaseResult, Run, Usage};
use windlass_kernel::{Digest, RiskLevel, Timestamp};
use windlass_policy::{Judgement, Question};
use windlass_runtime::{Gateway, SystemClock};
use windlass_store::{After, Append, Claim, KeyAction, NewEntry, Store};
use windlass_store_sqlite::SqliteStore;
use windlass_views::RunSummary;

/// Phases that do nothing, without a repository or files, so that only the engine is measured.
struct Nothing;

impl PhaseExecutor for Nothing {
    fn perform(
        &self,
        _: &Assignment,
        _: &PhaseRecorder<'_>,
    ) -> Result<WorkResult<Completion>, EngineError> {
        Ok(WorkResult::Finished(Completion::Done(Box::new(PhaseResult {
            answer: json!({ "summary": "done" }),
            calls: Vec::new(),
            change: None,
            duration_ms: 0,
            facts: BTreeMap::new(),
            failure: None,
            governance: None,
            outputs: BTreeMap::new(),
            summary: "done".to_owned(),
            usage: Usage::default(),
        }))))
    }
}

impl HoldPackets for Nothing {
    fn check(&self, _: &Run) -> Result<(), EngineError> {
        Ok(())
    }

    fn remove(&self, _: &Run, _: bool) -> Result<Vec<String>, EngineError> {
        Ok(Vec::new())
    }
}

impl Repository for Nothing {
    fn base(&self, _: &Path) -> Result<Option<Base>, EngineError> {
        Ok(None)
    }

    fn require_clean(&self, _: &Path) -> Result<(), EngineError> {
        Ok(())
    }

    fn require_unchanged(&self, _: &Path, _: &Run) -> Result<(), EngineError> {
        Ok(())
    }

    fn change(&self, _: &Path, _: &Run) -> Result<Option<Change>, EngineError> {
        Ok(None)
    }

    fn prepare_commit(
        &self,
        _: &Path,
        _: &Run,
        _: &str,
        _: Timestamp,
    ) -> Result<PreparedCommit, EngineError> {
        Ok(PreparedCommit::Nothing)
    }

    fn publish_commit(&self, _: &Path, _: &Commit) -> Result<(), EngineError> {
        Ok(())
    }

    fn make_worktree(&self, _: &str, _: &Base) -> Result<String, EngineError> {
        Ok(String::new())
    }

    fn add_phase_worktree(&self, _: &str, _: &Base) -> Result<(), EngineError> {
        Ok(())
    }

    fn remove_phase_worktree(&self, _: &str) -> Result<(), EngineError> {
        Ok(())
    }
}

impl GatewayProvider for Nothing {
    fn gateway(&self, _: &Path) -> Result<Arc<Gateway>, EngineError> {
        Err(JournalError::NoSuchRun { name: "a gateway".to_owned() }.into())
    }

    fn class_of(&self, _: &str, _: &str) -> Option<RiskLevel> {
        None
    }

    fn confinement(&self, _: &Path) -> Option<Confinement> {
        None
    }

    fn judgement(&self, _: &Path, _: &Question) -> Option<Judgement> {
        None
    }

    fn sizes(&self) -> (usize, usize) {
        (0, 0)
    }
}

fn engine(folder: &Path, store: Arc<dyn Store>) -> Engine {
    let nothing = Arc::new(Nothing);
    Engine::new(
        Parts {
            store,
            clock: Arc::new(SystemClock),
            executor: Arc::clone(&nothing) as Arc<dyn PhaseExecutor>,
            observers: Vec::new(),
            packets: Arc::clone(&nothing) as Arc<dyn HoldPackets>,
            repository: Arc::clone(&nothing) as Arc<dyn Repository>,
            gateways: nothing,
            stop: StopSwitch::new(folder.join("stop")),
        },
        Settings {
            root: folder.to_owned(),
            policy_hash: Digest::of(b"policy"),
            by: "bench".to_owned(),
            locks: folder.join("locks"),
        },
    )
}

fn plan(phases: usize, doer: &Doer) -> Plan {
    let name = |at: usize| format!("phase-{at}");
    let phase = |at: usize| Phase {
        branch: false,
        checks: Vec::new(),
        doer: doer.clone(),
        gate: None,
        id: name(at),
        needs: at.checked_sub(1).map(name).into_iter().collect(),
        outputs: Vec::new(),
        when: PhaseCondition::Always,
    };
    Plan {
        budget: Budget::default(),
        checkpoints: false,
        concurrency: Concurrency::Serial,
        governance: Governance::default(),
        hold: HoldRule::default(),
        id: "bench".to_owned(),
        on_restart: OnRestart::Resume,
        phases: (0..phases).map(phase).collect(),
        require: Vec::new(),
        title: "bench".to_owned(),
        variant: None,
        version: "1".to_owned(),
    }
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
    let run = engine(folder, Arc::clone(&store)).start(new_run(plan(phases, &doer)))?;
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
        engine.start(new_run(plan(1, &doer)))?;
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
