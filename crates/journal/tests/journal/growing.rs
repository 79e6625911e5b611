//! A trace that another process appends to while it is read is read to its end; it is not corrupt.

use std::sync::{Arc, Mutex};

use windlass_journal::{Check, JournalError, Reader, replay};
use windlass_kernel::run::Run;
use windlass_kernel::{ChainError, TraceId};
use windlass_store::{Store, StoreError, TraceState};
use windlass_testkit::gateway::{Meddle, Meddled};

use crate::world::World;

/// Hands out the heads that the trace had, one after the other, then that of now.
struct Earlier(Mutex<Vec<TraceState>>);

impl Meddle for Earlier {
    fn load_state(&self, inner: &dyn Store, trace_id: TraceId) -> Result<TraceState, StoreError> {
        match self.0.lock().unwrap().pop() {
            Some(earlier) => Ok(earlier),
            None => inner.load_state(trace_id),
        }
    }
}

/// A run of seven entries, and its heads at two and four.
fn grown(world: &World) -> (TraceId, Vec<TraceState>) {
    let mut recorder = world.begin(&world.store, Vec::new());
    let trace_id = recorder.state().head.trace_id;
    let mut heads = Vec::new();
    for count in [2, 3] {
        heads.insert(0, world.store.load_state(trace_id).unwrap());
        world.add_notes(&mut recorder, count).unwrap();
    }
    (trace_id, heads)
}

#[test]
fn what_grows_meanwhile_is_read_to_its_end() {
    for earlier in 1..=2 {
        let world = World::new();
        let (trace_id, heads) = grown(&world);
        let meddled = || {
            let heads = Earlier(Mutex::new(heads[heads.len() - earlier..].to_vec()));
            Meddled::new(Arc::clone(&world.store), heads)
        };
        let run: Run = Reader::state_of(&meddled(), trace_id, Check::Verified).unwrap();
        assert_eq!(run.head.sequence_number, 7);
        assert_eq!(replay(&meddled(), trace_id).unwrap().head.sequence_number, 7);
    }
}

#[test]
fn entries_that_the_head_never_comes_to_know_are_damage() {
    struct Stays(TraceState);
    impl Meddle for Stays {
        fn load_state(&self, _: &dyn Store, _: TraceId) -> Result<TraceState, StoreError> {
            Ok(self.0)
        }
    }
    let world = World::new();
    let (trace_id, heads) = grown(&world);
    let meddled = Meddled::new(Arc::clone(&world.store), Stays(heads[0]));
    let expected = ChainError::Truncated { expected: 4, found: 7 };
    let read: Result<Run, _> = Reader::state_of(&meddled, trace_id, Check::Verified);
    for result in [read.map(|_| ()), replay(&meddled, trace_id).map(|_| ())] {
        let Err(JournalError::Corrupt { source, .. }) = result else { panic!("{result:?}") };
        assert_eq!(source, expected);
    }
}
