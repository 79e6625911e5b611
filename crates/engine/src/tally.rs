//! How much there is, for metrics: runs, holds, calls, tokens, counted from the journal.

use std::collections::BTreeMap;

use windlass_kernel::run::plan::Trigger;
use windlass_kernel::run::{Event, Resolution, Run, RunEvent};
use windlass_kernel::{ChainError, Head, State, Timestamp, TraceId};
use windlass_store::{Counts, TraceFilter};

use crate::error::EngineError;
use crate::find::{Runs, is_run};

/// How many traces or entries are read in one go.
const PAGE: usize = 1024;

/// Where runs of one kind stand.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Standing {
    /// The loop.
    pub plan: String,
    /// The run's state.
    pub state: &'static str,
    /// How it ended; empty while it has not.
    pub outcome: &'static str,
}

/// How much there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Runs by where they stand.
    pub runs: BTreeMap<Standing, u64>,
    /// Runs that wait for an answer nobody has given yet.
    pub waiting: u64,
    /// Since when the oldest of them waits.
    pub waiting_since: Option<Timestamp>,
    /// Runs that cannot be read.
    pub unreadable: u64,
    /// Agents and programs that were started.
    pub invocations: u64,
    /// Tokens that were used.
    pub tokens: u64,
    /// Cost, in millionths.
    pub cost_micros: u64,
    /// When a run was last taken up after its process died.
    pub recovered_at: Option<Timestamp>,
    /// Traces by state, and entries.
    pub counts: Counts,
}

impl Runs {
    /// Counts everything once.
    ///
    /// Runs are folded but not verified, which is the work of `verify`: it takes time in proportion
    /// to the entries of runs, and next to none for calls.
    ///
    /// # Errors
    /// [`EngineError`] when the store cannot be read.
    pub fn tally(&self) -> Result<Tally, EngineError> {
        let mut tally = Tally { counts: self.store.count()?, ..Tally::default() };
        // Open traces have an index of their own; of those that ended only runs are asked for.
        for (open_only, state) in [(true, None), (false, Some(State::Terminal))] {
            let mut filter = TraceFilter { open_only, state, before: None, limit: PAGE };
            loop {
                let page = self.store.list_traces(&filter)?;
                for state in page.iter().filter(|state| is_run(state)) {
                    self.count_run(state.head.trace_id, &mut tally)?;
                }
                if page.len() < PAGE {
                    break;
                }
                filter.before = page.last().map(|state| state.head.trace_id);
            }
        }
        Ok(tally)
    }

    fn count_run(&self, trace_id: TraceId, tally: &mut Tally) -> Result<(), EngineError> {
        match self.skim(trace_id, &mut tally.recovered_at) {
            Ok(run) => tally.add(&run),
            Err(error) if error.is_damage() => tally.unreadable += 1,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Folds a run without checking its chain.
    fn skim(
        &self,
        trace_id: TraceId,
        recovered_at: &mut Option<Timestamp>,
    ) -> Result<Run, EngineError> {
        let mut run = Run::empty(trace_id);
        loop {
            let page = self.store.list_log_entries(trace_id, run.head.sequence_number, PAGE)?;
            for record in &page {
                let entry = &record.entry;
                let body = record.body.as_deref().unwrap_or_default();
                let event: RunEvent = serde_json::from_slice(body).map_err(|_| {
                    let source = ChainError::Artifact {
                        sequence_number: entry.sequence_number,
                        artifact: entry.artifact_type.as_str(),
                    };
                    EngineError::Corrupt { trace_id, source }
                })?;
                if is_recovery(&event.event) {
                    *recovered_at = (*recovered_at).max(Some(entry.ts));
                }
                let head = Head {
                    trace_id,
                    sequence_number: entry.sequence_number,
                    entry_digest: entry.entry_digest,
                    state: Some(entry.to_state),
                    tool_call_id: None,
                };
                run.apply(&event.event, entry.artifact_digest, entry.ts, head)
                    .map_err(|source| EngineError::Impossible { trace_id, source })?;
            }
            if page.len() < PAGE {
                return Ok(run);
            }
        }
    }
}

/// Whether an event tells that a run was taken up after its process died.
fn is_recovery(event: &Event) -> bool {
    matches!(event, Event::Restarted { .. })
        || matches!(event, Event::Held(held) if held.trigger == Trigger::RestartRequested)
}

impl Tally {
    fn add(&mut self, run: &Run) {
        let standing = Standing {
            plan: run.plan().map(|plan| plan.id.clone()).unwrap_or_default(),
            state: run.head.state.map_or("", State::as_str),
            outcome: run.ended.as_ref().map_or("", |ended| ended.outcome.as_str()),
        };
        *self.runs.entry(standing).or_default() += 1;
        self.invocations = self.invocations.saturating_add(run.invocations);
        self.tokens = self.tokens.saturating_add(run.spent.tokens);
        self.cost_micros = self.cost_micros.saturating_add(run.spent.cost_micros);
        if let Some(hold) = &run.hold
            && run.ended.is_none()
            && hold.resolution() == Resolution::Open
        {
            self.waiting += 1;
            let since = self.waiting_since.map_or(hold.since, |since| since.min(hold.since));
            self.waiting_since = Some(since);
        }
    }
}
