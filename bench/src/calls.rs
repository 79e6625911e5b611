//! Calls through the whole gateway, with a tool that does nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use windlass_connect::{Connect, Job, Limits, Reply, Target};
use windlass_kernel::artifact::{ActionRequest, FileChange};
use windlass_kernel::grant::Terms;
use windlass_kernel::{Digest, RiskLevel};
use windlass_policy::{OnUncertain, Verdict};
use windlass_runtime::{
    CallRequest, Examination, Gateway, Preparation, ReadDurability, Refusal, Ruling, Settings,
    Supervisor, SystemClock,
};
use windlass_store_sqlite::SqliteStore;

use crate::{Rate, process};

/// A tool that answers immediately.
struct Nothing;

impl Connect for Nothing {
    fn perform(&self, _: &Job<'_>) -> Reply {
        Reply::Success { result: json!({ "ok": true, "result": "x".repeat(100) }) }
    }

    fn foresee(&self, _: &Target, _: &str, _: &Value) -> Option<FileChange> {
        None
    }
}

/// A policy that allows everything: the journal is measured, not the rules.
struct AllowAll;

impl Supervisor for AllowAll {
    fn policy_hash(&self) -> Digest {
        Digest::GENESIS
    }

    fn judge(&self, _: &ActionRequest) -> Ruling {
        let reason = "rule `bench` allows it".to_owned();
        Ruling { verdict: Verdict::Allow, code: None, reason, rules: vec!["bench".to_owned()] }
    }

    fn examine(&self, _: &ActionRequest) -> Examination {
        Examination::default()
    }

    fn covers(&self, _: &ActionRequest, _: &Terms) -> bool {
        false
    }

    fn check_grant(&self, _: &Terms) -> Result<(), Refusal> {
        Ok(())
    }

    fn prepare(&self, request: &ActionRequest) -> Result<Preparation, Refusal> {
        Ok(Preparation {
            target: Target::McpHttp { server: "bench".into(), url: String::new(), bearer: None },
            tool: request.proposal.tool_name.clone(),
            class: request.risk_level,
            limits: Limits { timeout: Duration::from_secs(9), output_bytes_max: 1 << 20 },
            confinement: None,
            args: None,
            no_match_is_an_answer: false,
            until: None,
            on_uncertain: OnUncertain::Retry,
            retries_max: 3,
        })
    }

    fn redact(&self, _: &mut Value) {}
}

/// The kind of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A write: two commits.
    Write,
    /// A read that is recorded with its effect: one commit.
    ReadWithEffect,
    /// A read that is recorded before it is dispatched, the default: two commits.
    Read,
}

/// Opens a gateway with a store in `folder`.
pub fn gateway(folder: &Path, kind: Kind) -> Result<Gateway> {
    gateway_over(&folder.join("bench.db"), kind, windlass_store_sqlite::Settings::default())
}

/// Fills a journal with calls until it has at least so many entries.
pub fn fill(path: &Path, kind: Kind, entries: u64) -> Result<Gateway> {
    let gateway = gateway_over(path, kind, windlass_store_sqlite::Settings::default())?;
    let callers = 64.min(entries.div_ceil(4));
    let each = entries.div_ceil(4 * callers);
    std::thread::scope(|scope| {
        let gateway = &gateway;
        let fill = |caller: u64| {
            let calls = move |i| call(gateway, kind, format!("fill-{caller}-{i}"));
            scope.spawn(move || (0..each).try_for_each(calls))
        };
        let workers: Vec<_> = (0..callers).map(fill).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().map_err(|_| anyhow!("a caller panicked"))?)
    })?;
    Ok(gateway)
}

fn gateway_over(
    path: &Path,
    kind: Kind,
    settings: windlass_store_sqlite::Settings,
) -> Result<Gateway> {
    let store = SqliteStore::open(path, settings)?;
    let reads = match kind {
        Kind::ReadWithEffect => ReadDurability::WithEffect,
        Kind::Write | Kind::Read => ReadDurability::WriteAhead,
    };
    Ok(Gateway::new(
        Arc::new(store),
        Arc::new(AllowAll),
        Arc::new(Nothing),
        Arc::new(SystemClock),
        Settings { reads, ..Settings::default() },
        ".",
    ))
}

/// Makes one call.
pub fn call(gateway: &Gateway, kind: Kind, key: String) -> Result<()> {
    let class = if kind == Kind::Write { RiskLevel::Write } else { RiskLevel::Read };
    gateway.call(CallRequest {
        server: "bench".into(),
        tool: "step".into(),
        args: json!({ "i": 1 }),
        intent: "measure the rate of calls".into(),
        resources: Vec::new(),
        declared_class: class,
        key: (kind == Kind::Write).then_some(key),
        plan_id: None,
        agent: None,
        phase: None,
        run: None,
    })?;
    Ok(())
}

/// The rate of calls by `callers` threads, each of which makes one call after the other.
pub fn rate(folder: &Path, kind: Kind, callers: usize, seconds: f64) -> Result<Rate> {
    let gateway = gateway(folder, kind)?;
    let (started, cpu) = (Instant::now(), process::cpu_seconds()?);
    let made: Result<u32> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..callers)
            .map(|caller| {
                let gateway = &gateway;
                scope.spawn(move || -> Result<u32> {
                    let mut made = 0;
                    while started.elapsed().as_secs_f64() < seconds {
                        call(gateway, kind, format!("key-{caller}-{made}"))?;
                        made += 1;
                    }
                    Ok(made)
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| anyhow!("a caller panicked"))?)
            .sum()
    });
    // Work that is deferred until the store is closed belongs to the calls.
    drop(gateway);
    let rate = Rate::new(made?, started, cpu)?;
    crate::remove(&folder.join("bench.db"));
    Ok(rate)
}

/// Makes a fixed number of calls, for a profiler.
pub fn count(folder: &Path, kind: Kind, calls: u32, callers: u32) -> Result<Rate> {
    let gateway = gateway(folder, kind)?;
    let (started, cpu) = (Instant::now(), process::cpu_seconds()?);
    let each = calls / callers.max(1);
    let work = &|caller: u32| -> Result<()> {
        (0..each).try_for_each(|made| call(&gateway, kind, format!("key-{caller}-{made}")))
    };
    std::thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> =
            (0..callers).map(|caller| scope.spawn(move || work(caller))).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().map_err(|_| anyhow!("a caller panicked"))?)
    })?;
    drop(gateway);
    let rate = Rate::new(each * callers, started, cpu)?;
    crate::remove(&folder.join("bench.db"));
    Ok(rate)
}

/// How many pages a call writes to SQLite's log, if the log is never checkpointed.
pub fn pages(folder: &Path, kind: Kind) -> Result<f64> {
    /// A page with its header in the log.
    const FRAME_BYTES: u64 = 4096 + 24;
    const CALLS: u32 = 1_000;
    let path = folder.join("bench.db");
    let settings = windlass_store_sqlite::Settings::default();
    let settings = windlass_store_sqlite::Settings { wal_pages: u32::MAX, ..settings };
    let gateway = gateway_over(&folder.join("bench.db"), kind, settings)?;
    let size = || -> Result<u64> { Ok(std::fs::metadata(folder.join("bench.db-wal"))?.len()) };
    call(&gateway, kind, "pages".to_owned())?;
    let before = size()?;
    for number in 0..CALLS {
        call(&gateway, kind, format!("pages-{number}"))?;
    }
    let pages = (size()? - before) / FRAME_BYTES;
    drop(gateway);
    crate::remove(&path);
    Ok(pages as f64 / f64::from(CALLS))
}

/// How many bytes of entries and artifacts each commit of a call contains.
pub fn payload(folder: &Path, kind: Kind) -> Result<Vec<usize>> {
    let path = folder.join("bench.db");
    let gateway = gateway(folder, kind)?;
    call(&gateway, kind, "payload".to_owned())?;
    drop(gateway);
    let connection = rusqlite::Connection::open(&path)?;
    let mut statement =
        connection.prepare("SELECT length(entries) FROM entry_batches ORDER BY id")?;
    let bytes = statement.query_map([], |row| row.get::<_, i64>(0))?;
    let bytes = bytes.map(|bytes| Ok(usize::try_from(bytes?)?)).collect::<Result<_>>()?;
    drop(statement);
    drop(connection);
    crate::remove(&path);
    Ok(bytes)
}
