//! Metrics read every run that has ended once.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use windlass_kernel::TraceId;
use windlass_kernel::run::VoteDecision;
use windlass_store::{Record, Store, StoreError};
use windlass_testkit::gateway::{Meddle, Meddled};
use windlass_views::{EndedRuns, Metrics};

use crate::world::{Script, World, passing, trace, verdict};

/// Notes whose entries are read.
#[derive(Clone, Default)]
struct Noting(Arc<Mutex<BTreeSet<TraceId>>>);

impl Meddle for Noting {
    fn list_log_entries(
        &self,
        inner: &dyn Store,
        trace_id: TraceId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        self.0.lock().unwrap().insert(trace_id);
        inner.list_log_entries(trace_id, after, limit)
    }
}

/// Counts with what was kept, as the next process has it; returns what is kept now and the runs that were read. The
/// result must be that of a first count.
fn count(world: &World, kept: EndedRuns) -> (EndedRuns, BTreeSet<TraceId>) {
    let noting = Noting::default();
    let store = Meddled::new(Arc::clone(&world.store), noting.clone());
    let (metrics, kept) = Metrics::count(&store, kept).unwrap();
    let (fresh, _) = Metrics::count(world.store.as_ref(), EndedRuns::default()).unwrap();
    assert_eq!(metrics, fresh);
    let kept = serde_json::from_slice(&serde_json::to_vec(&kept).unwrap()).unwrap();
    let read = noting.0.lock().unwrap().clone();
    (kept, read)
}

fn escalating() -> Script {
    Script::from([(("review", 1), verdict("escalate"))])
}

#[test]
fn mend_19_metrics_read_every_ended_run_once() {
    let mut world = World::new();
    let files = world.files();
    let ended = [(); 3].map(|()| trace(&world.run(&files, &passing())));
    let (kept, read) = count(&world, EndedRuns::default());
    assert_eq!(read, BTreeSet::from(ended));
    let (kept, read) = count(&world, kept);
    assert_eq!(read, BTreeSet::new());
    let new = trace(&world.run(&files, &passing()));
    let (_, read) = count(&world, kept);
    assert_eq!(read, BTreeSet::from([new]));
}

#[test]
fn a_run_that_ends_after_newer_ones_is_counted_once() {
    let mut world = World::new();
    let files = world.files();
    let mut old = world.run(&files, &escalating());
    let new = trace(&world.run(&files, &passing()));
    let (kept, read) = count(&world, EndedRuns::default());
    assert_eq!(read, BTreeSet::from([trace(&old), new]));
    // An open run is read each time.
    let (kept, read) = count(&world, kept);
    assert_eq!(read, BTreeSet::from([trace(&old)]));
    old.vote("ana", VoteDecision::Approved).unwrap();
    old.resume().unwrap();
    old.drive(&passing()).unwrap();
    assert!(old.run().ended.is_some());
    let (kept, read) = count(&world, kept);
    assert_eq!(read, BTreeSet::from([trace(&old)]));
    let (_, read) = count(&world, kept);
    assert_eq!(read, BTreeSet::new());
}

#[test]
fn what_was_kept_of_another_journal_or_changed_is_not_used() {
    let mut world = World::new();
    let files = world.files();
    // The ids of both worlds follow from what happened before.
    let held = trace(&world.run(&files, &escalating()));
    let first = trace(&world.run(&files, &passing()));
    let (kept, _) = count(&world, EndedRuns::default());
    let mut forged = serde_json::to_value(&kept).unwrap();
    forged["count"] = 7.into();
    let (_, read) = count(&world, serde_json::from_value(forged).unwrap());
    assert_eq!(read, BTreeSet::from([held, first]));
    let mut other = World::new();
    let files = other.files();
    let runs = [(); 2].map(|()| trace(&other.run(&files, &passing())));
    let (_, read) = count(&other, kept);
    assert_eq!(read, BTreeSet::from(runs));
}
