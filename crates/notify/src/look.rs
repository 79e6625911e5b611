//! Finds what there is to tell.

use std::collections::BTreeMap;

use windlass_journal::{Check, JournalError, Reader, is_run, verify_trace};
use windlass_kernel::run::plan::Trigger;
use windlass_kernel::run::{Hold, Resolution};
use windlass_kernel::{Call, Digest, State, Timestamp, TraceId};
use windlass_store::{Store, StoreError, TraceFilter, TraceState};
use windlass_views::RunSummary;

use crate::subject::Subject;

/// The most runs on hold, and the most ended runs, that are looked at.
const RUNS_MAX: usize = 200;
/// What ended before this is not told any more.
const AGE_MS_MAX: i64 = 24 * 3_600_000;
/// How long before its end a hold is told once more; half of its time if that is shorter.
const BEFORE_EXPIRY_MS: i64 = 30 * 60_000;

/// Looks for what there is to tell, and remembers what needs no second look.
#[derive(Debug, Default)]
pub struct Lookout {
    /// The ended runs that were looked at, and their ends.
    ended: BTreeMap<TraceId, Digest>,
}

impl Lookout {
    /// Finds all there is to tell. Whether it was told is not looked at.
    ///
    /// # Errors
    /// [`JournalError`] if the journal cannot be read; a damaged trace is something to tell.
    pub fn look(
        &mut self,
        store: &dyn Store,
        now: Timestamp,
        named: &[TraceId],
    ) -> Result<Vec<Subject>, JournalError> {
        let mut found = Vec::new();
        for trace in listed(store, State::Checkpoint)? {
            of_run(store, &trace, now, &mut found)?;
        }
        for trace in listed(store, State::Pending)? {
            if !store.is_held(&trace)? {
                of_call(store, &trace, &mut found)?;
            }
        }
        let ended = listed(store, State::Terminal)?;
        for trace in &ended {
            if self.ended.get(&trace.head.trace_id) != Some(&trace.head.entry_digest) {
                of_run(store, trace, now, &mut found)?;
            }
        }
        let ends = ended.iter().map(|trace| (trace.head.trace_id, trace.head.entry_digest));
        self.ended = ends.collect();
        let others = found.len();
        for trace_id in named {
            of_named(store, *trace_id, now, &mut found)?;
        }
        found.iter_mut().skip(others).for_each(|subject| subject.is_named = true);
        Ok(found)
    }

    /// Forgets what was looked at, because it could not be recorded.
    pub fn forget(&mut self) {
        self.ended.clear();
    }
}

fn listed(store: &dyn Store, state: State) -> Result<Vec<TraceState>, JournalError> {
    let open_only = !state.is_terminal();
    let filter = TraceFilter { open_only, state: Some(state), ..TraceFilter::all(RUNS_MAX) };
    Ok(store.list_traces(&filter)?)
}

/// What there is to tell of a run on hold, or of one that has ended.
fn of_run(
    store: &dyn Store,
    trace: &TraceState,
    now: Timestamp,
    found: &mut Vec<Subject>,
) -> Result<(), JournalError> {
    let summary = match RunSummary::read(store, &trace.head) {
        Ok(summary) => summary,
        Err(error) if error.is_damage() => {
            found.push(broken(trace.head.trace_id, &error));
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    // Whoever works in a client sees how the session ends.
    if let Some(ended) = summary.ended.as_ref().filter(|_| summary.client.is_none())
        && now.unix_ms().saturating_sub(ended.at.unix_ms()) <= AGE_MS_MAX
    {
        found.push(Subject::ended(&summary, ended));
    }
    if let Some(hold) = &summary.hold
        && hold.resolution() == Resolution::Open
        && !hold.is_expired(now)
    {
        found.push(Subject::hold(&summary, hold));
        // Nobody can decide when an agent's limit passes.
        if hold.held.trigger != Trigger::AgentUnavailable && is_expiring(hold, now) {
            found.push(Subject::expiring(&summary, hold));
        }
    }
    Ok(())
}

/// Whether a hold ends so soon that it is told once more.
fn is_expiring(hold: &Hold, now: Timestamp) -> bool {
    let Some(expires_at) = hold.held.expires_at else { return false };
    let time = expires_at.unix_ms().saturating_sub(hold.since.unix_ms());
    now.unix_ms() >= expires_at.unix_ms().saturating_sub(BEFORE_EXPIRY_MS.min(time / 2))
}

/// What there is to tell of a call that nobody works on. Those of runs are told by their runs.
fn of_call(
    store: &dyn Store,
    trace: &TraceState,
    found: &mut Vec<Subject>,
) -> Result<(), JournalError> {
    let trace_id = trace.head.trace_id;
    match Reader::<Call>::state_of(store, trace_id, Check::Prefix) {
        Ok(call) => {
            if let Some((request, digest)) =
                call.request.filter(|(request, _)| request.run.is_none())
                && call.head.state == Some(State::Pending)
            {
                found.push(Subject::call(&request, digest));
            }
            Ok(())
        }
        Err(error) if error.is_damage() => {
            found.push(broken(trace_id, &error));
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// What there is to tell of a trace that somebody names: a run that has just ended, or a trace that failed
/// verification, which is verified once more.
fn of_named(
    store: &dyn Store,
    trace_id: TraceId,
    now: Timestamp,
    found: &mut Vec<Subject>,
) -> Result<(), JournalError> {
    let trace = match store.load_state(trace_id) {
        Ok(trace) => trace,
        Err(StoreError::NotFound { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if let Some(source) = verify_trace(store, trace_id)?.error {
        found.push(broken(trace_id, &JournalError::Corrupt { trace_id, source }));
    } else if is_run(&trace) {
        of_run(store, &trace, now, found)?;
    }
    Ok(())
}

/// The time of a damaged trace is that of its id: its entries cannot be believed.
fn broken(trace_id: TraceId, error: &JournalError) -> Subject {
    let mut ms = 0_i64;
    for byte in trace_id.0.as_bytes().iter().take(6) {
        ms = ms << 8 | i64::from(*byte);
    }
    Subject::broken(trace_id, Timestamp::from_unix_ms(ms).unwrap_or(Timestamp::EPOCH), error)
}
