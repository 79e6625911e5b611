//! The most that all runs of a project may use in a day.

use std::ops::ControlFlow;

use windlass_journal::{Check, JournalError, Reader, RunFilter, Runs, read_entry};
use windlass_kernel::Timestamp;
use windlass_kernel::run::{Event, Run, Usage};

use super::agent::JobBudget;

/// A day, in milliseconds.
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// The most that all runs of a project may use in a day of UTC.
#[derive(Clone)]
pub struct SpendCap {
    /// The runs.
    pub runs: Runs,
    /// The cap.
    pub per_day: JobBudget,
}

impl SpendCap {
    /// What is left of today's cap.
    ///
    /// # Errors
    /// [`JournalError`] if a run that worked today cannot be read: then what was used is unknown.
    pub(super) fn left(&self, now: Timestamp) -> Result<JobBudget, JournalError> {
        let used = self.used_since(now.unix_ms() - now.unix_ms().rem_euclid(DAY_MS))?;
        let left = |cap: Option<u64>, used: u64| Some(cap?.saturating_sub(used));
        Ok(JobBudget {
            tokens: left(self.per_day.tokens, used.tokens()),
            cost_micros: left(self.per_day.cost_micros, used.cost_micros),
        })
    }

    fn used_since(&self, midnight_ms: i64) -> Result<Usage, JournalError> {
        let store = self.runs.store();
        let mut used = Usage::default();
        let all = RunFilter { open_only: false, state: None, limit: usize::MAX };
        for run in self.runs.list(&all)? {
            let head = run.trace.head;
            let last = read_entry(store, head.trace_id, head.sequence_number)?;
            if last.is_none_or(|last| last.entry.ts.unix_ms() < midnight_ms) {
                continue;
            }
            let mut reader = Reader::<Run>::new(head.trace_id, Check::Prefix);
            reader.for_each(store, &mut |step| {
                if let Event::InvocationEnded { usage, .. } = &step.artifact.event
                    && step.entry.ts.unix_ms() >= midnight_ms
                {
                    used = used.plus(*usage);
                }
                ControlFlow::Continue(())
            })?;
        }
        Ok(used)
    }
}

/// The beginning of the next day.
pub(super) fn tomorrow(now: Timestamp) -> Option<Timestamp> {
    let days = now.unix_ms().div_euclid(DAY_MS);
    Timestamp::from_unix_ms((days + 1) * DAY_MS).ok()
}
