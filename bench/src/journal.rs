//! Verification of a large journal, and replay of long traces from their checkpoints.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, anyhow};
use windlass_kernel::{
    ArtifactId, ArtifactType, Digest, Draft, Head, PlanId, ReplayPoint, ReplayPointState, State,
    Timestamp, TraceId, Transition, Uuid7,
};
use windlass_runtime::{Clock as _, SystemClock};
use windlass_store::{After, Append, Claim, KeyAction, Lease, NewEntry, Store};
use windlass_store_sqlite::SqliteStore;

use crate::calls::{self, Kind};

/// The cost of verifying a journal.
pub struct Verified {
    /// How many entries it has.
    pub entries: u64,
    /// The time it took.
    pub seconds: f64,
    /// The processor time it took.
    pub cpu_seconds: f64,
    /// How much the memory of the process grew, in KiB.
    pub grown_kib: i64,
}

/// Fills a journal with calls until it has at least `entries`, then verifies it.
pub fn verify(folder: &Path, entries: u64) -> Result<Verified> {
    let gateway = calls::fill(&folder.join("bench.db"), Kind::Write, entries)?;
    let before = crate::process::resident_kib()?;
    let cpu = crate::process::cpu_seconds()?;
    let started = Instant::now();
    let report = windlass_journal::verify_store(gateway.store(), &mut |_| {})?;
    let seconds = started.elapsed().as_secs_f64();
    let cpu_seconds = crate::process::cpu_seconds()? - cpu;
    let grown_kib = crate::process::resident_kib()? - before;
    if report.broken > 0 || report.entries < entries {
        return Err(anyhow!("the journal does not verify: {report:?}"));
    }
    drop(gateway);
    crate::remove(&folder.join("bench.db"));
    Ok(Verified { entries: report.entries, seconds, cpu_seconds, grown_kib })
}

/// The time to replay a trace of `length` entries from a checkpoint that is `behind` entries before its
/// end; in microseconds, the shortest of 50.
pub fn recover(folder: &Path, length: u64, behind: u64) -> Result<f64> {
    let store =
        SqliteStore::open(&folder.join("bench.db"), windlass_store_sqlite::Settings::default())?;
    let trace_id = TraceId(SystemClock.new_id());
    let plan_id = PlanId(SystemClock.new_id());
    let mut head = Head::empty(trace_id);
    let mut lease: Option<Lease> = None;
    while head.sequence_number < length {
        let stop = if head.sequence_number < length - behind { length - behind } else { length };
        let count = (stop - head.sequence_number).min(1000);
        let entries = (0..count).map(|_| next(&mut head)).collect::<Result<Vec<_>>>()?;
        let claim = match &lease {
            Some(lease) => Claim::Held(lease),
            None => Claim::New { trace_id, plan_id },
        };
        let append = Append { claim, entries, key: KeyAction::None, after: After::Keep };
        let appended = store.append(append)?;
        lease = appended.lease.or(lease);
        if head.sequence_number == length - behind
            && let (Some(lease), Some(state)) = (&lease, ReplayPointState::of(&head, plan_id))
        {
            store.write_replay_point(lease, &ReplayPoint::new(state, Timestamp::EPOCH))?;
        }
    }
    let mut best = f64::MAX;
    for _ in 0..50 {
        let started = Instant::now();
        let replayed = windlass_journal::replay(&store, trace_id)?;
        best = best.min(started.elapsed().as_secs_f64() * 1e6);
        if replayed.head != head || replayed.entries_read != behind + 1 {
            return Err(anyhow!("the replay is wrong: {replayed:?}"));
        }
    }
    drop(store);
    crate::remove(&folder.join("bench.db"));
    Ok(best)
}

fn next(head: &mut Head) -> Result<NewEntry> {
    let body = b"{\"event\":\"phase\"}".to_vec();
    let (from, to) = match head.state {
        None => (State::Init, State::Init),
        Some(State::Init) => (State::Init, State::Running),
        _ => (State::Running, State::Running),
    };
    let draft = Draft {
        ts: Timestamp::EPOCH,
        transition: Transition { from, to, artifact: ArtifactType::RunEvent },
        artifact_id: ArtifactId(Uuid7::from_parts(head.sequence_number, [1; 10])),
        artifact_digest: Digest::of(&body),
        tool_call_id: None,
        idempotency_key: None,
    };
    let (entry, after) = head.append(draft)?;
    *head = after;
    Ok(NewEntry::new(entry, body))
}
