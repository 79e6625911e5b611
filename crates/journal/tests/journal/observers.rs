//! What observers see, and what happens when one fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use windlass_journal::{Check, JournalError, Observer, ObserverError, Reader, Recorder, Step};
use windlass_kernel::Code;
use windlass_kernel::run::{Run, RunEvent};
use windlass_store::{After, KeyAction};

use crate::world::World;

/// Where an observer fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Before,
    After,
    Durable,
}

/// Writes down what it sees, and fails at one place on the third entry.
#[derive(Clone)]
struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    fails: Option<At>,
}

impl Log {
    fn new(fails: Option<At>) -> Self {
        Self { lines: Arc::default(), fails }
    }

    fn boxed(&self) -> Vec<Box<dyn Observer<Run>>> {
        vec![Box::new(self.clone())]
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().unwrap())
    }

    fn add(&self, at: At, number: u64, line: String) {
        self.lines.lock().unwrap().push(line);
        if at != At::Durable && self.fails == Some(at) && number == 3 {
            panic!("the observer fails");
        }
    }
}

impl Observer<Run> for Log {
    fn before(&mut self, state: &Run, artifact: &RunEvent) {
        let number = state.head.sequence_number + 1;
        self.add(At::Before, number, format!("before {number} {}", artifact.event.kind()));
    }

    fn after(&mut self, step: &Step<'_, Run>) {
        let number = step.entry.sequence_number;
        assert_eq!(step.state.head.sequence_number, number);
        self.add(At::After, number, format!("after {number} {:?}", step.origin));
    }

    fn durable(&mut self, state: &Run) -> Result<(), ObserverError> {
        let number = state.head.sequence_number;
        self.add(At::Durable, number, format!("durable {number}"));
        if self.fails == Some(At::Durable) && number == 3 {
            let message = "the file cannot be written".to_owned();
            return Err(ObserverError { code: Code::FileUnwritable, message, source: None });
        }
        Ok(())
    }
}

#[test]
fn every_entry_is_seen_once_before_and_after_it_is_folded() {
    let (world, log) = (World::new(), Log::new(None));
    let mut recorder = world.begin(&world.store, log.boxed());
    let trace_id = recorder.state().head.trace_id;
    let appended =
        ["before 1 started", "after 1 Appended", "before 2 begun", "after 2 Appended", "durable 2"];
    assert_eq!(log.take(), appended);
    world.add_notes(&mut recorder, 1).unwrap();
    assert_eq!(log.take(), ["before 3 noted", "after 3 Appended", "durable 3"]);
    drop(recorder);
    let read = [
        "before 1 started",
        "after 1 Read",
        "before 2 begun",
        "after 2 Read",
        "before 3 noted",
        "after 3 Read",
    ];
    let mut observers = log.boxed();
    Reader::<Run>::new(trace_id, Check::Prefix).read(world.store.as_ref(), &mut observers).unwrap();
    assert_eq!(log.take(), read);
    let mut opened = Recorder::<Run>::open(&world.store, trace_id, log.boxed()).unwrap();
    assert_eq!(log.take(), read);
    opened.notify().unwrap();
    world.add_notes(&mut opened, 1).unwrap();
    assert_eq!(log.take(), ["durable 3", "before 4 noted", "after 4 Appended", "durable 4"]);
}

#[test]
fn an_observer_that_fails_when_entries_are_durable_does_not_undo_them() {
    let (world, log) = (World::new(), Log::new(Some(At::Durable)));
    let mut recorder = world.begin(&world.store, log.boxed());
    let trace_id = recorder.state().head.trace_id;
    let error = world.add_notes(&mut recorder, 1).unwrap_err();
    assert!(matches!(error, JournalError::Observer(_)), "{error:?}");
    assert_eq!(error.code(), Code::FileUnwritable);
    let recorded = || world.store.load_state(trace_id).unwrap().head.sequence_number;
    assert_eq!(recorded(), 3);
    // The recorder is not stale: the state and the journal agree.
    world.add_notes(&mut recorder, 1).unwrap();
    assert_eq!(recorded(), 4);
}

#[test]
fn a_panic_of_an_observer_writes_nothing() {
    for at in [At::Before, At::After] {
        let (world, log) = (World::new(), Log::new(Some(at)));
        let mut recorder = world.begin(&world.store, log.boxed());
        let trace_id = recorder.state().head.trace_id;
        let durable = world.durable();
        let panicked = catch_unwind(AssertUnwindSafe(|| world.add_notes(&mut recorder, 1)));
        assert!(panicked.is_err(), "{at:?}");
        assert_eq!(world.durable(), durable, "{at:?}");
        let committed = recorder.commit(KeyAction::None, After::Keep);
        match at {
            // Nothing was folded yet, so there is nothing to commit.
            At::Before => assert_eq!(recorder.state().head.sequence_number, 2),
            // The entry was folded but is not pending: the state is ahead of the journal.
            At::After | At::Durable => {
                assert!(matches!(committed, Err(JournalError::Stale { .. })), "{committed:?}");
            }
        }
        drop(recorder);
        let run: Run = Reader::state_of(world.store.as_ref(), trace_id, Check::Verified).unwrap();
        assert_eq!(run.head.sequence_number, 2, "{at:?}");
    }
}
