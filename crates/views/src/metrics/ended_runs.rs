//! What is counted of the runs that have ended: they do not change, so each is read once.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use windlass_journal::JournalError;
use windlass_kernel::run::plan::RunOutcome;
use windlass_kernel::{State, Timestamp, TraceId};
use windlass_store::{Store, StoreError, TraceFilter};

use super::{Metrics, PAGE, RunCount, RunKind};

/// The number of traces in a page of those that ended lately.
const PAGE_OF_NEW: usize = 32;

/// The counts of the runs that have ended. No decision depends on them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndedRuns {
    /// How many runs are counted.
    count: u64,
    /// The newest of them.
    newest: Option<TraceId>,
    /// The runs that had not ended. When they end, they are older than others that are counted.
    open: BTreeSet<TraceId>,
    /// The number of runs by loop and outcome.
    outcomes: BTreeMap<String, BTreeMap<RunOutcome, u64>>,
    unreadable: u64,
    invocations: u64,
    tokens: u64,
    cost_micros: u64,
    recovered_at: Option<Timestamp>,
    /// The runs that the last update has counted.
    #[serde(skip)]
    pub(super) just_counted: BTreeSet<TraceId>,
}

impl EndedRuns {
    /// Counts the runs that have ended since. Counts all of them if that does not lead to the number that the store
    /// knows, as when the journal is another one or a clock went back.
    pub(super) fn update(
        self,
        store: &dyn Store,
        open: &BTreeSet<TraceId>,
    ) -> Result<Self, JournalError> {
        let is_same_journal = match self.newest {
            Some(newest) => has_ended(store, newest)?,
            None => true,
        };
        if is_same_journal {
            let updated = self.add_new(store, open)?;
            let known = store.count()?.traces.get(&State::Terminal).copied().unwrap_or_default();
            if updated.count == known {
                return Ok(updated);
            }
        }
        Self::default().add_new(store, open)
    }

    fn add_new(
        mut self,
        store: &dyn Store,
        open: &BTreeSet<TraceId>,
    ) -> Result<Self, JournalError> {
        self.just_counted.clear();
        let newest = self.newest;
        let limit = if newest.is_some() { PAGE_OF_NEW } else { PAGE };
        let state = Some(State::Terminal);
        let mut filter = TraceFilter { state, ..TraceFilter::all(limit) };
        loop {
            let page = store.list_traces(&filter)?;
            let new = page.iter().map(|state| state.head.trace_id);
            let new: Vec<TraceId> = new.take_while(|id| Some(*id) > newest).collect();
            for trace_id in &new {
                self.add(store, *trace_id)?;
            }
            if new.len() < limit {
                break;
            }
            filter.before = new.last().copied();
        }
        for trace_id in std::mem::take(&mut self.open) {
            let is_counted = self.just_counted.contains(&trace_id);
            if !is_counted && !open.contains(&trace_id) && has_ended(store, trace_id)? {
                self.add(store, trace_id)?;
            }
        }
        self.open = open.difference(&self.just_counted).copied().collect();
        Ok(self)
    }

    fn add(&mut self, store: &dyn Store, trace_id: TraceId) -> Result<(), JournalError> {
        self.count += 1;
        self.newest = self.newest.max(Some(trace_id));
        self.just_counted.insert(trace_id);
        let Some(RunCount { run, recovered_at }) = RunCount::read(store, trace_id)? else {
            self.unreadable += 1;
            return Ok(());
        };
        let plan = run.plan().map(|plan| plan.id.clone()).unwrap_or_default();
        if let Some(ended) = &run.ended {
            *self.outcomes.entry(plan).or_default().entry(ended.outcome).or_default() += 1;
        }
        self.invocations = self.invocations.saturating_add(run.invocations);
        self.tokens = self.tokens.saturating_add(run.spent.tokens);
        self.cost_micros = self.cost_micros.saturating_add(run.spent.cost_micros);
        self.recovered_at = self.recovered_at.max(recovered_at);
        Ok(())
    }

    /// The metrics of a store that has no other runs.
    pub(super) fn to_metrics(&self) -> Metrics {
        let state = State::Terminal.as_str();
        let kinds = self.outcomes.iter().flat_map(|(plan, outcomes)| {
            outcomes.iter().map(move |(outcome, count)| {
                (RunKind { plan: plan.clone(), state, outcome: outcome.as_str() }, *count)
            })
        });
        Metrics {
            runs: kinds.collect(),
            unreadable: self.unreadable,
            invocations: self.invocations,
            tokens: self.tokens,
            cost_micros: self.cost_micros,
            recovered_at: self.recovered_at,
            ..Metrics::default()
        }
    }
}

/// Whether the store has a run and it has ended.
fn has_ended(store: &dyn Store, trace_id: TraceId) -> Result<bool, JournalError> {
    match store.load_state(trace_id) {
        Ok(state) => Ok(state.head.state == Some(State::Terminal)),
        Err(StoreError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
