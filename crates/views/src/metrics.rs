//! Metrics of runs, holds, calls and tokens, counted from the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use windlass_journal::{Check, JournalError, Reader};
use windlass_kernel::run::plan::Trigger;
use windlass_kernel::run::{Event, Resolution, Run};
use windlass_kernel::{Machine, State, Timestamp, TraceId};
use windlass_store::{Counts, Store, TraceFilter};

mod ended_runs;

pub use ended_runs::EndedRuns;

/// The number of traces in one page.
const PAGE: usize = 1024;

/// A group of runs with the same loop, state and outcome.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunKind {
    /// The loop.
    pub plan: String,
    /// The run's state.
    pub state: &'static str,
    /// The outcome; empty if the run has not ended.
    pub outcome: &'static str,
}

/// The counts of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// The number of runs of each kind.
    pub runs: BTreeMap<RunKind, u64>,
    /// The number of runs that wait for an answer.
    pub waiting: u64,
    /// The start of the oldest open hold.
    pub waiting_since: Option<Timestamp>,
    /// The number of runs that cannot be read.
    pub unreadable: u64,
    /// The number of agents and programs that were started.
    pub invocations: u64,
    /// The number of tokens used.
    pub tokens: u64,
    /// Cost, in millionths.
    pub cost_micros: u64,
    /// The time of the last recovery of a run.
    pub recovered_at: Option<Timestamp>,
    /// Traces by state, and entries.
    pub counts: Counts,
}

impl Metrics {
    /// Counts a store, and returns what is counted of the ended runs, to be given to the next count.
    ///
    /// Runs are folded but not verified (`verify` does that): each open one, and each that has ended since `kept` was
    /// counted. Calls cost almost nothing.
    ///
    /// # Errors
    /// [`JournalError`] if the store cannot be read.
    pub fn count(store: &dyn Store, kept: EndedRuns) -> Result<(Self, EndedRuns), JournalError> {
        let open = open_runs(store)?;
        let ended = kept.update(store, &open)?;
        let mut metrics = Self { counts: store.count()?, ..ended.to_metrics() };
        for trace_id in open.difference(&ended.just_counted) {
            match RunCount::read(store, *trace_id)? {
                Some(RunCount { run, recovered_at }) => {
                    metrics.recovered_at = metrics.recovered_at.max(recovered_at);
                    metrics.add(&run);
                }
                None => metrics.unreadable += 1,
            }
        }
        Ok((metrics, ended))
    }
}

/// The runs that have not ended.
fn open_runs(store: &dyn Store) -> Result<BTreeSet<TraceId>, JournalError> {
    let mut open = BTreeSet::new();
    let mut filter = TraceFilter { machine: Some(Machine::Run), ..TraceFilter::open(PAGE) };
    loop {
        let page = store.list_traces(&filter)?;
        open.extend(page.iter().map(|state| state.head.trace_id));
        if page.len() < PAGE {
            return Ok(open);
        }
        filter.before = page.last().map(|state| state.head.trace_id);
    }
}

/// A run that was read to be counted.
struct RunCount {
    run: Run,
    /// The time of its last recovery.
    recovered_at: Option<Timestamp>,
}

impl RunCount {
    /// Reads a run; `None` if it is damaged.
    fn read(store: &dyn Store, trace_id: TraceId) -> Result<Option<Self>, JournalError> {
        let mut recovered_at = None;
        let mut reader = Reader::<Run>::new(trace_id, Check::Skim);
        let read = reader.for_each(store, &mut |step| {
            if is_recovery(&step.artifact.event) {
                recovered_at = recovered_at.max(Some(step.entry.ts));
            }
            ControlFlow::Continue(())
        });
        match read {
            Ok(()) => Ok(Some(Self { run: reader.into_state(), recovered_at })),
            Err(error) if error.is_damage() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether an event shows that a run was recovered after its process died.
fn is_recovery(event: &Event) -> bool {
    matches!(event, Event::Restarted { .. })
        || matches!(event, Event::Held(held) if held.trigger == Trigger::RestartRequested)
}

impl Metrics {
    fn add(&mut self, run: &Run) {
        let kind = RunKind {
            plan: run.plan().map(|plan| plan.id.clone()).unwrap_or_default(),
            state: run.head.state.map_or("", State::as_str),
            outcome: run.ended.as_ref().map_or("", |ended| ended.outcome.as_str()),
        };
        *self.runs.entry(kind).or_default() += 1;
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

#[cfg(test)]
mod tests;
