//! SIGKILL around every commit: what was reported is durable, the rest is there as a whole or not at
//! all.

use std::path::Path;

use windlass_store::conformance::fixture::{Ending, Trace};
use windlass_store::{After, Append, Lease, Store, fault};

use crate::support::Place;
use crate::support::{assert_reads_back, fixture, lines, open, player, succeeds, tell, verify};

/// A call and a run, and the leases of those that are held.
struct Series {
    call: Trace,
    run: Trace,
    leases: [Option<Lease>; 2],
}

/// How many entries call and run have after each step.
const STEPS: &[[usize; 2]] = &[[1, 0], [2, 0], [2, 2], [3, 2], [3, 5], [4, 5], [4, 6]];

impl Series {
    fn new() -> Self {
        let make = fixture(0);
        Self { call: make.call(Ending::Completed), run: make.run_long(6), leases: [None, None] }
    }

    /// Takes the step with this number, counted from 0: one append, one transaction.
    fn step(&mut self, store: &dyn Store, number: usize) {
        let before = number.checked_sub(1).map_or([0, 0], |before| STEPS[before]);
        let after = STEPS[number];
        let which = usize::from(before[0] == after[0]);
        let trace = if which == 0 { &self.call } else { &self.run };
        let (skip, count) = (before[which], after[which] - before[which]);
        if skip == 0 {
            let append = trace.create(count, After::Keep);
            self.leases[which] = store.append(append).unwrap().lease;
            return;
        }
        let lease = self.leases[which].as_ref().unwrap();
        let mut append = trace.append(lease, skip, count);
        if which == 0 && skip == 2 {
            append = Append { key: trace.reserve(), ..append };
        }
        if skip + count == trace.len() {
            append = Append { after: After::Release, ..append };
        }
        store.append(append).unwrap();
    }

    /// Checks that exactly the first steps have happened.
    fn assert_is_at(&self, store: &dyn Store, steps: usize) {
        let counts = steps.checked_sub(1).map_or([0, 0], |last| STEPS[last]);
        for (trace, count) in [&self.call, &self.run].into_iter().zip(counts) {
            if count == 0 {
                assert_eq!(store.list_log_entries(trace.trace_id, 0, 9).unwrap(), []);
            } else {
                assert_reads_back(store, trace, count);
            }
        }
        let record = store.load_idempotency(&self.call.slot()).unwrap();
        assert_eq!(record.is_some(), counts[0] >= 3, "the key is there with its entry");
        let effect = (counts[0] == 4).then(|| self.call.entry(4).entry.artifact_digest);
        assert_eq!(record.and_then(|record| record.effect_digest), effect);
        let traces = counts.iter().filter(|count| **count > 0).count();
        assert_eq!(verify(store), (traces, counts.iter().sum()));
    }
}

/// A child: takes all steps, telling each once it is done.
pub fn appends(database: &Path) {
    let store = open(database).unwrap();
    let mut series = Series::new();
    for number in 0..STEPS.len() {
        series.step(&store, number);
        tell("done");
    }
}

#[test]
fn a_process_killed_at_any_commit_leaves_what_it_reported_and_at_most_one_more() {
    let place = Place::new();
    succeeds(&player(&[], "appends", &place.path()).output().unwrap());
    Series::new().assert_is_at(&place.open(), STEPS.len());
    for (point, committed) in [("append.before", 0), ("append.inside", 0), ("append.after", 1)] {
        for at in 1..=STEPS.len() {
            let place = Place::new();
            let mut child = player(&[], "appends", &place.path());
            let output = child.env(fault::VARIABLE, format!("{point}:{at}")).output().unwrap();
            assert!(!output.status.success(), "{point}:{at} did not kill");
            let done = lines(&output.stdout).len();
            assert_eq!(done, at - 1, "{point}:{at}");
            let store = place.open();
            let mut series = Series::new();
            series.assert_is_at(&store, done + committed);
            // Whoever comes next can go on from there, at once.
            for which in 0..2 {
                let trace = if which == 0 { &series.call } else { &series.run };
                series.leases[which] = store.acquire(trace.trace_id).ok();
            }
            for number in done + committed..STEPS.len() {
                series.step(&store, number);
            }
            series.assert_is_at(&store, STEPS.len());
        }
    }
}

const THREADS: u64 = 8;
const EACH: usize = 12;

/// A child: appends to one trace per thread, telling each append once it is done.
pub fn appends_in_threads(database: &Path) {
    let store = &open(database).unwrap();
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            scope.spawn(move || {
                let trace = fixture(number).run_long(EACH);
                let lease = store.append(trace.create(1, After::Keep)).unwrap().lease.unwrap();
                tell(&number.to_string());
                for skip in 1..EACH {
                    store.append(trace.append(&lease, skip, 1)).unwrap();
                    tell(&number.to_string());
                }
            });
        }
    });
}

#[test]
fn a_group_killed_at_its_commit_lands_whole_or_not_at_all() {
    for (point, at) in [
        ("append.inside", 1),
        ("append.inside", 4),
        ("append.inside", 9),
        ("append.after", 1),
        ("append.after", 4),
        ("append.after", 9),
    ] {
        let place = Place::new();
        let mut child = player(&[], "appends in threads", &place.path());
        let output = child.env(fault::VARIABLE, format!("{point}:{at}")).output().unwrap();
        assert!(!output.status.success(), "{point}:{at} did not kill");
        let told = lines(&output.stdout);
        let store = place.open();
        for number in 0..THREADS {
            let done = told.iter().filter(|line| **line == number.to_string()).count();
            let trace = fixture(number).run_long(EACH);
            let found = store.list_log_entries(trace.trace_id, 0, usize::MAX).unwrap().len();
            assert!(found == done || found == done + 1, "{point}:{at}: {found}, told {done}");
            if found > 0 {
                assert_reads_back(&store, &trace, found);
                store.acquire(trace.trace_id).expect("free at once");
            }
        }
        verify(&store);
    }
}
