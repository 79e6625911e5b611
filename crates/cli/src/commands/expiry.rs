//! Holds that nobody answered in time: whoever looks next ends their runs.
//!
//! When a hold expires is kept in a file, with the number of the run's last entry, so that a run on hold is read once
//! and not by everyone who looks. The file decides nothing: a hold ends only after its run was read.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use windlass_journal::{RunFilter, RunListing, Runs};
use windlass_kernel::run::Resolution;
use windlass_kernel::{State, Timestamp, TraceId};
use windlass_runtime::{Clock as _, SystemClock};
use windlass_views::RunSummary;

use crate::atomic;
use crate::commands::run::open_to_read;
use crate::failure::Failure;
use crate::output::Output;
use crate::project::Project;

/// The file in the state folder.
const FILE: &str = "expiry.json";
/// The maximum size of the file.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// When the hold of a run expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expiry {
    /// The number of the run's last entry when it was read.
    sequence_number: u64,
    /// `None` if it never expires.
    at: Option<Timestamp>,
}

type Known = BTreeMap<TraceId, Expiry>;

/// Ends the runs whose holds have expired: one run, or all. Where that is not possible, as on a read-only disk,
/// they are shown as expired.
///
/// Returns the runs that were looked at, to go on with: opening the journal costs more than a look.
pub fn end_expired(
    project: &Project,
    name: Option<&str>,
    output: &Output,
) -> Result<Runs, Failure> {
    let path = project.state()?.join(FILE);
    let runs = project.runs()?;
    let expired = expired_runs(&runs, name, path)?;
    if expired.is_empty() {
        return Ok(runs);
    }
    // One journal is open at a time.
    drop(runs);
    if let Ok(setup) = open_to_read(project, None, output) {
        for trace_id in expired {
            // Another process may have taken it up, and whoever looks later tries again.
            drop(setup.engine.expire_hold(trace_id));
        }
    }
    project.runs()
}

/// The runs whose holds have expired.
fn expired_runs(runs: &Runs, name: Option<&str>, path: PathBuf) -> Result<Vec<TraceId>, Failure> {
    let now = SystemClock.now();
    let filter = RunFilter { open_only: true, state: Some(State::Checkpoint), limit: usize::MAX };
    // A name that nothing has is told by the command itself.
    let only = name.and_then(|name| runs.find(name).ok());
    let listed = runs.list(&filter)?;
    if listed.is_empty() {
        return Ok(Vec::new());
    }
    let known = read(&path);
    let (mut expired, mut now_known) = (Vec::new(), Known::new());
    for one in &listed {
        let trace_id = one.trace.head.trace_id;
        let before = known.get(&trace_id).copied();
        let fresh = before.filter(|it| it.sequence_number == one.trace.head.sequence_number);
        let is_asked = name.is_none() || only == Some(trace_id);
        let expiry = match fresh {
            None if is_asked && !one.live => read_expiry(runs, one),
            known => known,
        };
        now_known.extend(expiry.map(|expiry| (trace_id, expiry)));
        let is_due = expiry.and_then(|expiry| expiry.at).is_some_and(|at| at <= now);
        if is_due && is_asked && !one.live {
            expired.push(trace_id);
        }
    }
    if now_known != known {
        // Where it cannot be kept, the runs are read again.
        drop(serde_json::to_vec(&now_known).map(|bytes| atomic::write(&path, &bytes)));
    }
    Ok(expired)
}

/// Reads when the hold of a run expires. A corrupt run is told by the command itself.
fn read_expiry(runs: &Runs, one: &RunListing) -> Option<Expiry> {
    let summary = RunSummary::read(runs.store(), &one.trace.head).ok()?;
    let open = summary.hold.filter(|hold| hold.resolution() == Resolution::Open);
    let at = open.and_then(|hold| hold.held.expires_at);
    Some(Expiry { sequence_number: one.trace.head.sequence_number, at })
}

/// What is known from before; nothing if the file cannot be read.
fn read(path: &PathBuf) -> Known {
    let is_small =
        path.metadata().is_ok_and(|found| found.is_file() && found.len() <= FILE_BYTES_MAX);
    let bytes = is_small.then(|| std::fs::read(path).ok()).flatten();
    bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}
