//! Traces are counted when they change, and not when somebody asks.

use windlass_store::conformance::fixture::Ending;
use windlass_store::{Counts, Store, TraceFilter};

use crate::support::{Place, fixture, put};

/// The counts of a store, from its list of traces.
fn listed(store: &dyn Store) -> Counts {
    let all = TraceFilter::all(usize::MAX);
    let mut counts = Counts::default();
    for state in store.list_traces(&all).unwrap() {
        counts.add(state.head.state, 1, state.head.sequence_number);
    }
    counts
}

/// A store with calls of every kind, all of them indexed.
fn filled(place: &Place) -> Counts {
    let make = fixture(0);
    let store = place.open();
    for ending in Ending::ALL {
        put(&store, &make.call(*ending));
        put(&store, &make.call(*ending));
    }
    let counts = listed(&store);
    assert_eq!(store.count().unwrap(), counts);
    counts
}

#[test]
fn counts_are_those_of_the_traces_before_and_after_they_are_indexed() {
    let place = Place::new();
    let counts = filled(&place);
    let store = place.open();
    assert_eq!(store.count().unwrap(), counts);
    assert_eq!(store.check().unwrap(), Vec::<String>::new());
}

#[test]
fn a_store_without_counts_gets_them_when_it_is_opened() {
    let place = Place::new();
    let counts = filled(&place);
    let old = "DROP TRIGGER traces_inserted_are_counted; DROP TRIGGER traces_updated_are_counted;
        DROP TRIGGER traces_deleted_are_counted; DROP TABLE trace_counts;";
    place.connect().execute_batch(old).unwrap();
    let store = place.open();
    assert_eq!(store.count().unwrap(), counts);
    assert_eq!(store.check().unwrap(), Vec::<String>::new());
}

#[test]
fn counts_that_were_changed_are_found() {
    let place = Place::new();
    filled(&place);
    place.connect().execute("UPDATE trace_counts SET entries = entries + 1", []).unwrap();
    let found = place.open().check().unwrap();
    assert_eq!(found, ["the counts of traces are not those of the traces"]);
}
