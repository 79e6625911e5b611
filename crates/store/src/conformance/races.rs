//! Races: many threads on several handles.
//!
//! Results are checked after all threads have ended, so that a failing check leaves no thread waiting.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use windlass_kernel::Code;

use super::Harness;
use super::fixture::{Ending, Fixture, Trace};
use super::keys::{call_under, record_of};
use super::leases::assert_held;
use super::watch::{ALL, Refusal, assert_reads_back, hold, put, scan};
use crate::error::{AcquireError, AppendError};
use crate::store::{Appended, Store};
use crate::types::{After, Append, Lease};

const THREADS: usize = 8;

/// Runs a closure in eight threads at the same moment, on two handles by turns.
fn race<T: Send>(handles: [&dyn Store; 2], work: impl Fn(usize, &dyn Store) -> T + Sync) -> Vec<T> {
    let (barrier, work) = (&Barrier::new(THREADS), &work);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .zip(handles.into_iter().cycle())
            .map(|(number, handle)| {
                scope.spawn(move || {
                    barrier.wait();
                    work(number, handle)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Appends a whole trace in three appends.
fn write_whole(store: &dyn Store, trace: &Trace) -> Result<(), AppendError> {
    let Appended { lease, .. } = store.append(trace.create(1, After::Keep))?;
    let lease = lease.expect("a lease on a trace that is kept");
    store.append(Append { key: trace.reserve(), ..trace.append(&lease, 1, 2) })?;
    store.append(Append { after: After::Release, ..trace.append(&lease, 3, 1) })?;
    Ok(())
}

pub(super) fn appends_of_many_threads_all_land(harness: &dyn Harness) {
    let make = Fixture::new();
    let (one, two) = (harness.open(), harness.open());
    let traces: Vec<Vec<Trace>> =
        (0..THREADS).map(|_| (0..50).map(|_| make.call(Ending::Completed)).collect()).collect();
    let results = race([&*one, &*two], |number, store| {
        let mine = traces.get(number).unwrap();
        mine.iter().try_for_each(|trace| write_whole(store, trace))
    });
    for result in results {
        result.expect("every append lands");
    }
    for trace in traces.iter().flatten() {
        assert_reads_back(&*one, trace, 4);
        let record = two.load_idempotency(&trace.slot()).unwrap();
        let effect = trace.entry(4).entry.artifact_digest;
        assert_eq!(record, Some(record_of(trace, Some(effect))));
    }
    assert_eq!(one.list_traces(&ALL).unwrap().len(), THREADS * 50);
    assert!(scan(&*two).iter().all(|trace| trace.verdict().is_ok()));
}

pub(super) fn of_many_creators_of_one_trace_one_wins(harness: &dyn Harness) {
    let make = Fixture::new();
    let (one, two) = (harness.open(), harness.open());
    for _ in 0..40 {
        let trace = make.call(Ending::Completed);
        let results = race([&*one, &*two], |number, store| {
            store.append(trace.create(number % 4 + 1, After::Keep))
        });
        let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        assert_eq!(won.len(), 1, "one creator wins");
        for error in lost.into_iter().filter_map(Result::err) {
            assert_eq!(Refusal::from(error), Refusal::Fenced(trace.trace_id));
        }
        let Appended { state, lease } = won.into_iter().next().unwrap().unwrap();
        assert_eq!(two.load_state(trace.trace_id).unwrap(), state);
        let lease = lease.expect("a lease on a trace that is kept");
        assert_held(&*one, &lease);
        assert_held(&*two, &lease);
        let count = usize::try_from(state.head.sequence_number).unwrap();
        assert_reads_back(&*one, &trace, count);
    }
}

pub(super) fn of_many_reservers_of_one_key_one_wins(harness: &dyn Harness) {
    let make = Fixture::new();
    let (one, two) = (harness.open(), harness.open());
    for _ in 0..10 {
        let slot = make.call(Ending::Completed).slot();
        let calls: Vec<(Trace, Lease)> = (0..THREADS)
            .zip([&one, &two].into_iter().cycle())
            .map(|(_, store)| {
                let call = call_under(&make, &slot);
                let lease = hold(&**store, &call, 2);
                (call, lease)
            })
            .collect();
        let results = race([&*one, &*two], |number, store| {
            let (call, lease) = calls.get(number).unwrap();
            store.append(Append { key: call.reserve(), ..call.append(lease, 2, 1) })
        });
        let won: Vec<&Trace> =
            calls.iter().zip(&results).filter(|(_, r)| r.is_ok()).map(|((t, _), _)| t).collect();
        let [winner] = won[..] else { panic!("{} reservers won", won.len()) };
        let record = record_of(winner, None);
        for ((call, _), result) in calls.iter().zip(results) {
            let count = if let Err(error) = result {
                assert_eq!(Refusal::from(error), Refusal::KeyTaken(record.clone()));
                2
            } else {
                3
            };
            assert_reads_back(&*one, call, count);
        }
        assert_eq!(two.load_idempotency(&slot).unwrap(), Some(record));
    }
}

/// Acquires a free trace through both handles at the same moment, and returns both results.
fn rivals(handles: [&dyn Store; 2], trace: &Trace) -> [Result<Lease, AcquireError>; 2] {
    let barrier = &Barrier::new(2);
    thread::scope(|scope| {
        let threads = handles.map(|store| {
            scope.spawn(move || {
                barrier.wait();
                store.acquire(trace.trace_id)
            })
        });
        threads.map(|thread| thread.join().unwrap())
    })
}

/// Checks that one of two has the lease, and that the other found a live holder.
fn one_of(results: [Result<Lease, AcquireError>; 2]) -> (usize, Lease) {
    let mut won = Vec::new();
    for (number, result) in results.into_iter().enumerate() {
        match result {
            Ok(lease) => won.push((number, lease)),
            Err(error) => assert_eq!(error.code(), Code::StateLockAcquireFailed, "{error}"),
        }
    }
    assert_eq!(won.len(), 1, "one rival wins");
    won.pop().unwrap()
}

pub(super) fn of_two_handles_one_acquires(harness: &dyn Harness) {
    let make = Fixture::new();
    let handles = [harness.open(), harness.open()];
    let trace = make.run_long(2);
    put(&*handles[0], &trace);
    let mut fence = 0;
    for _ in 0..200 {
        let (number, lease) = one_of(rivals([&*handles[0], &*handles[1]], &trace));
        assert!(lease.fence() > fence, "the fence grows");
        fence = lease.fence();
        handles.get(number).unwrap().release(lease).unwrap();
    }
}

/// What two threads share: whether one of them holds the trace, and how often they did.
#[derive(Default)]
struct Room {
    taken: AtomicBool,
    visits: AtomicUsize,
    clashes: AtomicUsize,
}

/// Acquires, checks that nobody else holds the trace, appends and releases, until all entries are
/// appended. Returns the fences of its leases, or the first error.
fn visit(store: &dyn Store, trace: &Trace, room: &Room) -> Result<Vec<u64>, String> {
    let mut fences = Vec::new();
    // More than enough; a store that never grants a lease must not hang the suite.
    for _ in 0..1_000_000 {
        if room.visits.load(Ordering::SeqCst) + 1 >= trace.len() {
            return Ok(fences);
        }
        let lease = match store.acquire(trace.trace_id) {
            Ok(lease) => lease,
            Err(AcquireError::Held { .. }) => {
                thread::yield_now();
                continue;
            }
            Err(AcquireError::Store(error)) => return Err(error.to_string()),
        };
        if room.taken.swap(true, Ordering::SeqCst) {
            room.clashes.fetch_add(1, Ordering::SeqCst);
        }
        fences.push(lease.fence());
        let visits = room.visits.load(Ordering::SeqCst);
        if visits + 1 < trace.len() {
            let append = trace.append(&lease, visits + 1, 1);
            store.append(append).map_err(|error| error.to_string())?;
            room.visits.fetch_add(1, Ordering::SeqCst);
        }
        room.taken.store(false, Ordering::SeqCst);
        store.release(lease).map_err(|error| error.to_string())?;
    }
    Err("the trace was never free".to_owned())
}

pub(super) fn two_handles_never_hold_one_trace_at_once(harness: &dyn Harness) {
    let make = Fixture::new();
    let (one, two) = (harness.open(), harness.open());
    let trace = make.run_long(201);
    one.append(trace.create(1, After::Release)).unwrap();
    let room = &Room::default();
    let results = thread::scope(|scope| {
        let trace = &trace;
        let threads = [&*one, &*two].map(|store| scope.spawn(move || visit(store, trace, room)));
        threads.map(|thread| thread.join().unwrap())
    });
    assert_eq!(room.clashes.load(Ordering::SeqCst), 0, "both held it at once");
    let mut fences: Vec<u64> = results.into_iter().flat_map(|result| result.unwrap()).collect();
    let count = fences.len();
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), count, "no fence is given twice");
    assert_reads_back(&*two, &trace, 201);
}

pub(super) fn of_two_handles_one_takes_over_from_the_dead(harness: &dyn Harness) {
    let make = Fixture::new();
    let handles = [harness.open(), harness.open()];
    for _ in 0..50 {
        let trace = make.run_long(3);
        let dying = harness.open();
        let lost = hold(&*dying, &trace, 1);
        harness.kill(dying);
        let (number, lease) = one_of(rivals([&*handles[0], &*handles[1]], &trace));
        assert!(lease.fence() > lost.fence(), "the fence grows");
        let heir = handles.get(number).unwrap();
        heir.append(trace.append(&lease, 1, 2)).expect("the heir may append");
    }
}
