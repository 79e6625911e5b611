//! Lists and scans: everything appears once, in order, with pages of any size.

use windlass_kernel::{Machine, PlanId, State};

use super::Harness;
use super::fixture::{Ending, Fixture, Trace};
use super::watch::{ALL, Scanned, assert_reads_back, hold, put, scan};
use crate::store::Store;
use crate::types::{After, Counts, Parts, Record, TraceFilter, TraceState};

/// How many plans [`fill`] gives to its traces.
const PLANS: usize = 4;

/// Fills a store with 55 traces of mixed states and [`PLANS`] plans, not in the order of their ids, and returns them
/// newest first.
fn fill(store: &dyn Store, make: &Fixture) -> Vec<Trace> {
    let runs: [&[State]; 4] = [
        &[],
        &[State::Running],
        &[State::Running, State::Checkpoint],
        &[State::Running, State::Terminal],
    ];
    let calls = (0..5).flat_map(|_| Ending::ALL).map(|ending| make.call(*ending));
    let mut traces: Vec<Trace> = calls.collect();
    traces.extend((0..5).flat_map(|_| runs).map(|states| make.run(states)));
    traces.push(make.grant(&[State::Granted]));
    traces.push(make.grant(&[State::Granted, State::Withdrawn]));
    traces.push(make.notification(&[State::Due]));
    traces.push(make.notification(&[State::Due, State::Settled]));
    traces.push(make.notification(&[State::Due, State::Settled, State::Due]));
    assert_eq!(traces.len(), 55);
    let plans: Vec<PlanId> = traces.iter().take(PLANS).map(|trace| trace.plan_id).collect();
    for (trace, plan_id) in traces.iter_mut().zip(plans.into_iter().cycle()) {
        trace.plan_id = plan_id;
    }
    for start in [3, 0, 4, 1, 2] {
        for (number, trace) in traces.iter().enumerate().skip(start).step_by(5) {
            let after = if number % 2 == 0 { After::Keep } else { After::Release };
            store.append(trace.create(trace.len(), after)).unwrap();
        }
    }
    traces.reverse();
    traces
}

/// The filter, implemented a second time.
fn expected(all: &[TraceState], filter: &TraceFilter) -> Vec<TraceState> {
    let mut wanted = all.to_vec();
    wanted.retain(|trace| !filter.open_only || !trace.head.state.unwrap().is_terminal());
    wanted.retain(|trace| filter.state.is_none() || trace.head.state == filter.state);
    wanted.retain(|trace| filter.plan_id.is_none_or(|plan_id| trace.plan_id == plan_id));
    if let Some(kind) = filter.machine {
        wanted.retain(|trace| trace.head.state.unwrap().machine() == kind);
    }
    wanted.retain(|trace| filter.not_before.is_none_or(|oldest| trace.head.trace_id >= oldest));
    wanted.retain(|trace| filter.before.is_none_or(|before| trace.head.trace_id < before));
    wanted.truncate(filter.limit);
    wanted
}

/// Filters by state or kind, with and without a plan.
fn kinds(traces: &[Trace]) -> Vec<TraceFilter> {
    let machines = [Machine::Call, Machine::Run, Machine::Grant, Machine::Notification];
    let mut filters = vec![
        ALL,
        TraceFilter { state: Some(State::Terminal), machine: Some(Machine::Run), ..ALL },
        // No run is in this state.
        TraceFilter { state: Some(State::Denied), machine: Some(Machine::Run), ..ALL },
    ];
    filters.extend(State::ALL.iter().map(|state| TraceFilter { state: Some(*state), ..ALL }));
    filters.extend(machines.map(|machine| TraceFilter { machine: Some(machine), ..ALL }));
    // The id of a trace is no plan's.
    let [first, last] = [traces.first(), traces.last()].map(Option::unwrap);
    let of_plan = |filter: &TraceFilter| TraceFilter { plan_id: Some(first.plan_id), ..*filter };
    filters.extend(filters.clone().iter().map(of_plan));
    filters.push(TraceFilter { plan_id: Some(PlanId(last.trace_id.0)), ..ALL });
    let open = |filter: &TraceFilter| TraceFilter { open_only: true, ..*filter };
    filters.extend(filters.clone().iter().map(open));
    filters
}

pub(super) fn traces_are_listed_newest_first_whatever_the_filter(harness: &dyn Harness) {
    let (store, other) = (harness.open(), harness.open());
    let traces = fill(&*store, &Fixture::new());
    let all: Vec<TraceState> =
        traces.iter().map(|trace| other.load_state(trace.trace_id).unwrap()).collect();
    assert_eq!(other.list_traces(&ALL).unwrap(), all);
    let id = |at: usize| traces.get(at).map(|trace| trace.trace_id);
    let ranges = [
        (None, None),
        (id(0), None),
        (id(51), None),
        (None, id(54)),
        (None, id(1)),
        (id(10), id(40)),
        (id(25), id(25)),
    ];
    for filter in kinds(&traces) {
        for (before, not_before) in ranges {
            for limit in [0, 1, 7, usize::MAX] {
                let filter = TraceFilter { before, not_before, limit, ..filter };
                let listed = other.list_traces(&filter).unwrap();
                assert_eq!(listed, expected(&all, &filter), "{filter:?}");
            }
        }
    }
    let open = TraceFilter { open_only: true, ..ALL };
    assert_eq!(
        other.list_traces(&open).unwrap(),
        other.list_traces(&TraceFilter::open(52)).unwrap()
    );
}

pub(super) fn paging_through_traces_shows_each_once(harness: &dyn Harness) {
    let (store, make) = (harness.open(), Fixture::new());
    let traces = fill(&*store, &make);
    for limit in [1, 7, 52] {
        let mut shown = Vec::new();
        let mut filter = TraceFilter { limit, ..ALL };
        loop {
            let page = store.list_traces(&filter).unwrap();
            let Some(last) = page.last() else { break };
            assert!(page.len() <= limit);
            filter.before = Some(last.head.trace_id);
            shown.extend(page.iter().map(|trace| trace.head.trace_id));
        }
        let ids: Vec<_> = traces.iter().map(|trace| trace.trace_id).collect();
        assert_eq!(shown, ids);
    }
    // A trace that moves on is listed in its new state only, under its plan as before.
    let moved = make.run(&[State::Running, State::Checkpoint]);
    let lease = hold(&*store, &moved, 2);
    let among = |filter: TraceFilter| {
        let listed = store.list_traces(&filter).unwrap();
        listed.iter().any(|trace| trace.head.trace_id == moved.trace_id)
    };
    let in_state = |state| among(TraceFilter { state: Some(state), ..ALL });
    assert_eq!((in_state(State::Running), in_state(State::Checkpoint)), (true, false));
    store.append(moved.append(&lease, 2, 1)).unwrap();
    assert_eq!((in_state(State::Running), in_state(State::Checkpoint)), (false, true));
    assert!(among(TraceFilter { plan_id: Some(moved.plan_id), ..ALL }));
}

pub(super) fn an_empty_store_lists_nothing(harness: &dyn Harness) {
    let store = harness.open();
    assert_eq!(store.list_traces(&ALL).unwrap(), []);
    assert_eq!(store.list_traces(&TraceFilter::open(10)).unwrap(), []);
    assert_eq!(scan(&*store), []);
}

pub(super) fn what_is_counted_is_what_is_listed(harness: &dyn Harness) {
    let (store, other) = (harness.open(), harness.open());
    assert_eq!(store.count().unwrap(), Counts::default());
    let make = Fixture::new();
    fill(&*store, &make);
    let check = || {
        let mut expected = Counts::default();
        for trace in other.list_traces(&ALL).unwrap() {
            expected.add(trace.head.state, 1, trace.head.sequence_number);
        }
        for store in [&store, &other] {
            assert_eq!(store.count().unwrap(), expected);
        }
        expected
    };
    let before = check();
    assert_eq!(before.traces.values().sum::<u64>(), 55);
    // A trace that changes its state is counted once, in the new state.
    let long = make.run_long(3);
    let lease = hold(&*store, &long, 1);
    assert_eq!(check().entries, before.entries + 1);
    store.append(long.append(&lease, 1, 2)).unwrap();
    assert_eq!(check().entries, before.entries + 3);
    store.release(lease).unwrap();
    let lease = other.acquire(long.trace_id).unwrap();
    assert_eq!(check().entries, before.entries + 3);
    other.release(lease).unwrap();
}

/// How many entries the long trace has.
const LONG: usize = 1_000;

pub(super) fn a_long_trace_is_listed_in_pages(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let (before, long, after) = (make.run_long(3), make.run_long(LONG), make.run_long(3));
    put(&*store, &before);
    put(&*store, &after);
    let lease = hold(&*store, &long, 1);
    for skip in (1..LONG).step_by(100) {
        store.append(long.append(&lease, skip, 100)).unwrap();
    }
    assert_reads_back(&*other, &long, LONG);
    let records = long.records(LONG);
    for skip in [0, 1, 9, 10, 499, 998, 999, 1_000, 1_001] {
        for limit in [0, 1, 2, 100, 999, 1_000, 1_001, usize::MAX] {
            let listed = other.list_log_entries(long.trace_id, skip as u64, limit).unwrap();
            let page: Vec<Record> = records.iter().skip(skip).take(limit).cloned().collect();
            assert!(listed == page, "{} entries after {skip}, limit {limit}", listed.len());
        }
    }
    for beyond in [u64::from(u32::MAX), i64::MAX as u64, u64::MAX] {
        assert_eq!(other.list_log_entries(long.trace_id, beyond, 10).unwrap(), [], "{beyond}");
    }
}

pub(super) fn an_unknown_trace_has_no_entries(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    put(&*store, &make.run_long(3));
    assert_eq!(store.list_log_entries(make.run_long(1).trace_id, 0, 10).unwrap(), []);
}

pub(super) fn a_scan_shows_every_trace_with_its_entries_in_order(harness: &dyn Harness) {
    let (store, other) = (harness.open(), harness.open());
    let make = Fixture::new();
    let long = make.run_long(20);
    let mut traces = fill(&*store, &make);
    // Its entries are appended after those of newer traces.
    let lease = hold(&*store, &long, 1);
    for skip in 1..20 {
        store.append(long.append(&lease, skip, 1)).unwrap();
    }
    traces.push(long);
    traces.reverse();
    let expected: Vec<Scanned> = traces
        .iter()
        .map(|trace| Scanned {
            trace_id: trace.trace_id,
            recorded: Some(other.load_state(trace.trace_id).unwrap()),
            entries: trace
                .entries
                .iter()
                .cloned()
                .map(|new| new.into_parts())
                .map(|Parts { entry, body }| (Ok(entry), Some(body)))
                .collect(),
        })
        .collect();
    let scanned = scan(&*other);
    assert_eq!(scanned, expected);
    for trace in scanned {
        assert_eq!(trace.verdict(), Ok(()));
    }
}
