//! Holds that nobody answered in time: whoever looks next ends their runs.

use windlass_journal::{RunFilter, Runs};
use windlass_kernel::{State, TraceId};
use windlass_runtime::{Clock as _, SystemClock};
use windlass_views::RunSummary;

use crate::commands::run::open_to_read;
use crate::failure::Failure;
use crate::output::Output;
use crate::project::Project;

/// Ends the runs whose holds have expired: one run, or all. Where that is not possible, as on a read-only disk,
/// they are shown as expired.
pub fn end_expired(project: &Project, name: Option<&str>, output: &Output) -> Result<(), Failure> {
    let expired = expired_runs(&project.runs()?, name)?;
    if expired.is_empty() {
        return Ok(());
    }
    let Ok(setup) = open_to_read(project, None, output) else { return Ok(()) };
    for trace_id in expired {
        // Another process may have taken it up, and whoever looks later tries again.
        drop(setup.engine.expire_hold(trace_id));
    }
    Ok(())
}

/// The runs whose holds have expired.
fn expired_runs(runs: &Runs, name: Option<&str>) -> Result<Vec<TraceId>, Failure> {
    let now = SystemClock.now();
    let filter = RunFilter { open_only: true, state: Some(State::Checkpoint), limit: usize::MAX };
    // A name that nothing has is told by the command itself.
    let only = name.and_then(|name| runs.find(name).ok());
    let mut expired = Vec::new();
    for one in runs.list(&filter)? {
        let head = &one.trace.head;
        if name.is_some() && only != Some(head.trace_id) || one.live {
            continue;
        }
        // A corrupt run is told by the command itself.
        let Ok(summary) = RunSummary::read(runs.store(), head) else { continue };
        if summary.hold.is_some_and(|hold| hold.is_expired(now)) {
            expired.push(head.trace_id);
        }
    }
    Ok(expired)
}
