//! Counts the usage of one project. Each entry of a run is read once: what is known of an open run is kept, and goes on
//! from there.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use windlass_journal::{Check, Reader};
use windlass_kernel::run::plan::Doer;
use windlass_kernel::run::{Event, Run};
use windlass_kernel::{Machine, Timestamp, TraceId, Uuid7};
use windlass_store::{Store, TraceFilter, TraceState};

use super::{Amount, CALLS_MAX, DAY_MS, RUNS_MAX, WINDOWS};
use crate::problem::Problem;

/// The traces that are listed at once.
const TRACES: usize = 512;
/// How often what is counted so far is put in.
const PUBLISH_MS: u128 = 200;
/// Ids of traces that are made at once by several processes may come in another order than they are in. What is older
/// than this is settled.
const SETTLED_MS: i64 = 60_000;

/// What is counted of a project.
#[derive(Clone, Default)]
pub(super) struct Counted {
    /// The newest runs.
    pub(super) runs: Arc<BTreeMap<TraceId, CountedRun>>,
    /// How many calls were requested, by day and plan.
    pub(super) calls: Arc<BTreeMap<(i64, TraceId), u64>>,
    /// Whether there are more runs or calls in the longest window.
    pub(super) more_runs: bool,
    pub(super) more_calls: bool,
    /// The calls that are settled, and the newest of them.
    settled: Arc<BTreeMap<(i64, TraceId), u64>>,
    settled_upto: Option<TraceId>,
}

/// What is counted of a run.
#[derive(Clone, Default)]
pub(super) struct CountedRun {
    /// By day, agent and model.
    pub(super) used: BTreeMap<(i64, String, String), Amount>,
    /// Whether an agent did not report what it used.
    pub(super) unaccounted: bool,
    /// How many entries are counted.
    entries: u64,
    /// The run as far as it is counted; `None` if it has ended.
    run: Option<Box<Run>>,
    /// The agents and models of its open invocations.
    open: BTreeMap<u64, (String, String)>,
    /// Whether the run cannot be read.
    is_damaged: bool,
}

impl Counted {
    /// Brings the counts up to date; `publish` gets what is counted so far from time to time.
    pub(super) fn update(
        &mut self,
        store: &dyn Store,
        now: Timestamp,
        publish: &mut dyn FnMut(&Self),
    ) -> Result<(), Problem> {
        let days = i64::from(WINDOWS.into_iter().max().unwrap_or_default());
        let since = bound(now.unix_ms().saturating_sub(days.saturating_mul(DAY_MS)));
        self.count_calls(store, now, since)?;
        let traces = self.newest_runs(store, since)?;
        let mut published = Instant::now();
        for trace in &traces {
            let id = trace.head.trace_id;
            let known = self.runs.get(&id);
            let upto = known.map_or(0, |run| run.entries);
            if upto == trace.head.sequence_number || known.is_some_and(|run| run.is_damaged) {
                continue;
            }
            let mut run = known.cloned().unwrap_or_default();
            run.count(store, trace)?;
            Arc::make_mut(&mut self.runs).insert(id, run);
            if published.elapsed().as_millis() >= PUBLISH_MS {
                publish(self);
                published = Instant::now();
            }
        }
        // What has grown too old is forgotten.
        let oldest = traces.last().map_or(since, |trace| trace.head.trace_id);
        Arc::make_mut(&mut self.runs).retain(|id, _| *id >= oldest);
        Ok(())
    }

    /// The newest runs, newest first.
    fn newest_runs(
        &mut self,
        store: &dyn Store,
        since: TraceId,
    ) -> Result<Vec<TraceState>, Problem> {
        let filter = TraceFilter {
            machine: Some(Machine::Run),
            not_before: Some(since),
            ..TraceFilter::all(RUNS_MAX + 1)
        };
        let mut found = store.list_traces(&filter)?;
        self.more_runs = found.len() > RUNS_MAX;
        found.truncate(RUNS_MAX);
        Ok(found)
    }

    /// Counts the calls: the day is in their ids, and the run is their plan.
    fn count_calls(
        &mut self,
        store: &dyn Store,
        now: Timestamp,
        since: TraceId,
    ) -> Result<(), Problem> {
        let settles = bound(now.unix_ms().saturating_sub(SETTLED_MS));
        let known = self.settled_upto;
        let mut filter = TraceFilter::all(TRACES);
        let mut all: BTreeMap<(i64, TraceId), u64> = BTreeMap::new();
        let (mut newest, mut count) = (None, 0);
        let mut fresh: BTreeMap<(i64, TraceId), u64> = BTreeMap::new();
        'pages: loop {
            let page = store.list_traces(&filter)?;
            for trace in &page {
                let id = trace.head.trace_id;
                if id < since || known.is_some_and(|known| id <= known) {
                    break 'pages;
                }
                let is_settled = id < settles;
                if is_settled && newest.is_none() {
                    newest = Some(id);
                }
                if trace.head.state.is_none_or(|state| state.machine() != Machine::Call) {
                    continue;
                }
                if count == CALLS_MAX {
                    self.more_calls = true;
                    break 'pages;
                }
                count += 1;
                let key = (day_of(id), TraceId(trace.plan_id.0));
                *if is_settled { &mut all } else { &mut fresh }.entry(key).or_default() += 1;
            }
            if page.len() < TRACES {
                break;
            }
            filter.before = page.last().map(|trace| trace.head.trace_id);
        }
        let settled = Arc::make_mut(&mut self.settled);
        let first_day = day_of(since);
        settled.retain(|(day, _), _| *day >= first_day);
        for (key, calls) in all {
            *settled.entry(key).or_default() += calls;
        }
        self.settled_upto = newest.or(known);
        let mut calls = settled.clone();
        for (key, count) in fresh {
            *calls.entry(key).or_default() += count;
        }
        self.calls = Arc::new(calls);
        Ok(())
    }
}

impl CountedRun {
    /// Counts the entries that are not counted yet.
    fn count(&mut self, store: &dyn Store, trace: &TraceState) -> Result<(), Problem> {
        let id = trace.head.trace_id;
        let mut reader = match self.run.take() {
            Some(run) => Reader::from(*run, Check::Skim),
            None => {
                // A run that had ended and was rolled back is counted anew.
                *self = Self::default();
                Reader::<Run>::new(id, Check::Skim)
            }
        };
        let spent = |run: &Run| (run.spent.tokens, run.spent.cost_micros);
        let mut before = spent(reader.state());
        let read = reader.for_each(store, &mut |step| {
            let day = step.entry.ts.unix_ms().div_euclid(DAY_MS);
            let after = spent(step.state);
            let mut amount = Amount {
                tokens: after.0.saturating_sub(before.0),
                cost_micros: after.1.saturating_sub(before.1),
                ..Amount::default()
            };
            before = after;
            let (agent, model) = self.who(&step.artifact.event, step.state, &mut amount);
            if amount != Amount::default() {
                self.used.entry((day, agent, model)).or_default().add(amount);
            }
            ControlFlow::Continue(())
        });
        match read {
            Ok(()) => {}
            // It is counted as far as it can be read; pages show that it is damaged.
            Err(error) if error.is_damage() => self.is_damaged = true,
            Err(error) => return Err(error.into()),
        }
        let run = reader.into_state();
        self.entries = run.head.sequence_number;
        self.unaccounted = run.spent.unaccounted;
        self.run = run.ended.is_none().then(|| Box::new(run));
        Ok(())
    }

    /// Whose usage an event reports: the agent or program and its model, as far as they are known.
    fn who(&mut self, event: &Event, run: &Run, amount: &mut Amount) -> (String, String) {
        if let Event::InvocationStarted { invocation, agent, model, .. } = event {
            let model = model.clone().unwrap_or_default();
            self.open.insert(*invocation, (agent.clone(), model.clone()));
            amount.invocations = 1;
            return (agent.clone(), model);
        }
        if let Event::InvocationEnded { invocation, .. } = event {
            return self.open.remove(invocation).unwrap_or_default();
        }
        let phase = if let Event::PhaseDone { phase, .. }
        | Event::Checked { phase, .. }
        | Event::Reviewed { phase, .. } = event
        {
            Some(phase)
        } else {
            None
        };
        let doer = run.all_phases().find(|(one, _)| Some(&one.id) == phase);
        match doer.map(|(phase, _)| &phase.doer) {
            Some(Doer::Agent { agent, .. }) => (agent.clone(), String::new()),
            Some(
                Doer::Builtin { .. }
                | Doer::Consensus { .. }
                | Doer::Command { .. }
                | Doer::Person { .. },
            )
            | None => Default::default(),
        }
    }
}

/// An id that is older than those of all traces since a time.
fn bound(unix_ms: i64) -> TraceId {
    TraceId(Uuid7::from_parts(u64::try_from(unix_ms).unwrap_or_default(), [0; 10]))
}

/// The day in an id.
fn day_of(id: TraceId) -> i64 {
    let [a, b, c, d, e, f, ..] = *id.0.as_bytes();
    let ms = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
    i64::try_from(ms).unwrap_or(i64::MAX).div_euclid(DAY_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_day_of_a_trace_is_in_its_id() {
        let ms = 20_000 * DAY_MS + 7;
        assert_eq!(day_of(bound(ms)), 20_000);
        assert_eq!(day_of(bound(ms - 8)), 19_999);
    }
}
