//! Whoever watches looks at what is open and new, not at all that there is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use windlass_kernel::State;
use windlass_store::conformance::fixture::{Ending, Fixture};
use windlass_store::{After, Store, StoreError, TraceFilter, TraceState};
use windlass_testkit::gateway::{Meddle, Meddled};
use windlass_views::Watcher;

use crate::world::{World, passing, trace};

/// Counts the traces that are listed.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicUsize>);

impl Meddle for Counting {
    fn list_traces(
        &self,
        inner: &dyn Store,
        filter: &TraceFilter,
    ) -> Result<Vec<TraceState>, StoreError> {
        let listed = inner.list_traces(filter)?;
        self.0.fetch_add(listed.len(), Ordering::Relaxed);
        Ok(listed)
    }
}

#[test]
fn mend_19_a_poll_does_not_list_the_calls_that_are_over() {
    const CALLS: usize = 500;
    let mut world = World::new();
    let make = Fixture::new();
    for _ in 0..CALLS {
        let call = make.call(Ending::Completed);
        world.store.append(call.create(call.len(), After::Release)).unwrap();
    }
    let counting = Counting::default();
    let store = Meddled::new(Arc::clone(&world.store), counting.clone());
    let mut watcher = Watcher::new(&store).unwrap();
    let files = world.files();
    let run = trace(&world.run(&files, &passing()));
    assert_eq!(world.recorded(run).head.state, Some(State::Terminal));
    let mut told = 0;
    watcher.poll(&store, &mut |event| told += usize::from(event.trace_id == run)).unwrap();
    assert!(told > 5, "{told}");
    let listed = counting.0.load(Ordering::Relaxed);
    assert!(listed < 10, "{listed} traces were listed");
}
