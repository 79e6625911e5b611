//! Measures Windlass against the raw limits of the machine it runs on.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use rusqlite::{Connection, params};
use serde_json::{Value, json};
use windlass_connect::{Connect, Job, Limits, Reply, Target};
use windlass_kernel::artifact::ActionRequest;
use windlass_kernel::{Digest, RiskLevel};
use windlass_policy::{OnUncertain, Verdict};
use windlass_runtime::{
    CallRequest, Gateway, Preparation, Reads, Refusal, Ruling, Settings, Supervisor, System,
};
use windlass_store_sqlite::SqliteStore;

struct Nothing;

impl Connect for Nothing {
    fn perform(&self, _: &Job<'_>) -> Reply {
        Reply::Success { result: json!({ "ok": true, "result": "x".repeat(100) }) }
    }
}

struct AllowAll;

impl Supervisor for AllowAll {
    fn policy_hash(&self) -> Digest {
        Digest::GENESIS
    }

    fn judge(&self, _: &ActionRequest) -> Ruling {
        Ruling { verdict: Verdict::Allow, code: None, reason: "bench".into(), rules: vec![] }
    }

    fn prepare(&self, request: &ActionRequest) -> Result<Preparation, Refusal> {
        Ok(Preparation {
            target: Target::McpHttp { server: "b".into(), url: String::new(), bearer: None },
            tool: request.proposal.tool_name.clone(),
            class: request.risk_level,
            limits: Limits { timeout: Duration::from_secs(9), output_bytes_max: 1 << 20 },
            on_uncertain: OnUncertain::Retry,
            retries_max: 3,
        })
    }

    fn redact(&self, _: &mut Value) {}
}

fn raw(dir: &Path, commits_per_call: usize, seconds: f64) -> Result<f64> {
    let path = dir.join("raw.db");
    let connection = Connection::open(&path)?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000;
         CREATE TABLE log (run TEXT, seq INTEGER, body TEXT, PRIMARY KEY (run, seq)) WITHOUT ROWID",
    )?;
    let row = "x".repeat(500);
    let started = Instant::now();
    let mut calls = 0_i64;
    while started.elapsed().as_secs_f64() < seconds {
        for commit in 0..commits_per_call {
            let seq = calls * 2 + i64::try_from(commit)?;
            connection
                .prepare_cached("INSERT INTO log VALUES ('r', ?1, ?2)")?
                .execute(params![seq, row])?;
        }
        calls += 1;
    }
    let rate = calls as f64 / started.elapsed().as_secs_f64();
    drop(connection);
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(dir.join(format!("raw.db{suffix}")));
    }
    Ok(rate)
}

fn calls(dir: &Path, traces: usize, class: RiskLevel, reads: Reads, seconds: f64) -> Result<f64> {
    let path = dir.join("bench.db");
    let store = Arc::new(SqliteStore::open(&path, windlass_store_sqlite::Settings::default())?);
    let settings = Settings { reads, ..Settings::default() };
    let gateway =
        Gateway::new(store, Arc::new(AllowAll), Arc::new(Nothing), Arc::new(System), settings);
    let started = Instant::now();
    let total: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..traces)
            .map(|worker| {
                let gateway = &gateway;
                scope.spawn(move || {
                    let mut done = 0;
                    while started.elapsed().as_secs_f64() < seconds {
                        let key = class.writes().then(|| format!("k-{worker}-{done}"));
                        let request = CallRequest {
                            server: "bench".into(),
                            tool: "step".into(),
                            args: json!({ "i": done }),
                            intent: "measure the rate of calls".into(),
                            resources: vec![],
                            declared_class: class,
                            key,
                            plan_id: None,
                            agent: None,
                            phase: None,
                        };
                        if gateway.call(request).is_ok() {
                            done += 1;
                        }
                    }
                    done
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or(0)).sum()
    });
    let rate = total as f64 / started.elapsed().as_secs_f64();
    drop(gateway);
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(dir.join(format!("bench.db{suffix}")));
    }
    Ok(rate)
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir_in(".")?;
    match std::env::args().nth(1).as_deref() {
        Some("w1") => {
            println!("w1 {:.0}", calls(dir.path(), 1, RiskLevel::Write, Reads::WriteAhead, 5.0)?);
            return Ok(());
        }
        Some("w16") => {
            println!("w16 {:.0}", calls(dir.path(), 16, RiskLevel::Write, Reads::WriteAhead, 5.0)?);
            return Ok(());
        }
        Some("raw") => {
            println!("raw {:.0}", raw(dir.path(), 2, 5.0)?);
            return Ok(());
        }
        _ => {}
    }
    for _ in 0..2 {
        let raw2 = raw(dir.path(), 2, 3.0)?;
        let raw1 = raw(dir.path(), 1, 3.0)?;
        println!("raw 2 commits/call {raw2:.0}  1 commit/call {raw1:.0}");
        let w1 = calls(dir.path(), 1, RiskLevel::Write, Reads::WriteAhead, 3.0)?;
        let r1 = calls(dir.path(), 1, RiskLevel::Read, Reads::WithEffect, 3.0)?;
        let w16 = calls(dir.path(), 16, RiskLevel::Write, Reads::WriteAhead, 3.0)?;
        let w64 = calls(dir.path(), 64, RiskLevel::Write, Reads::WriteAhead, 3.0)?;
        println!(
            "write x1 {w1:.0} ({:.2} of raw)  read x1 {r1:.0} ({:.2})  write x16 {w16:.0} ({:.2}x) x64 {w64:.0} ({:.2}x)",
            w1 / raw2,
            r1 / raw1,
            w16 / w1,
            w64 / w1
        );
    }
    Ok(())
}
