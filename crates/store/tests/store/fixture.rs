//! The traces of the suite are valid: their chains verify, and their artifacts refer to each other.

use windlass_kernel::{Artifact, Call, State};
use windlass_store::NewEntry;
use windlass_store::conformance::fixture::{CallSpec, Ending, Fixture};

#[test]
fn calls_fold_to_their_ending() {
    let make = Fixture::new();
    for ending in Ending::ALL {
        let with_key = make.call(*ending);
        let without = make.call_of(&CallSpec::read(*ending));
        for trace in [with_key, without] {
            let mut call = Call::empty(trace.trace_id);
            for new in &trace.entries {
                let head = call.head.admit(&new.entry, &mut Vec::new()).unwrap();
                let artifact = Artifact::read(new.entry.artifact_type, &new.body).unwrap();
                call.apply(&new.entry, artifact, head).unwrap();
            }
            assert_eq!(call.head, trace.head_after(trace.len()));
            let state = call.head.state.unwrap().as_str();
            assert_eq!(state, format!("{ending:?}").to_uppercase());
        }
    }
}

#[test]
fn runs_fold_to_any_length() {
    let make = Fixture::new();
    for trace in [make.run_long(1), make.run_long(100), make.run(&[State::Terminal])] {
        let mut head = trace.head_after(0);
        for (new, expected) in trace.entries.iter().zip(trace.heads.iter().skip(1)) {
            head = head.admit(&new.entry, &mut Vec::new()).unwrap();
            assert_eq!(head, *expected);
        }
    }
    assert_eq!(make.run_long(100).len(), 100);
}

#[test]
fn the_same_steps_make_the_same_traces_and_later_ids_are_greater() {
    let (one, two) = (Fixture::new(), Fixture::new());
    let mut last = None;
    for ending in Ending::ALL {
        let (left, right) = (one.call(*ending), two.call(*ending));
        assert_eq!(left.entries, right.entries);
        assert!(last < Some(left.trace_id));
        last = Some(left.trace_id);
    }
}

#[test]
fn an_entry_that_somebody_may_have_changed_is_sealed_no_more() {
    let mut new = Fixture::new().run_long(1).entry(1);
    assert!(new.is_sealed());
    assert!(!new.body.is_empty() && new.clone().is_sealed(), "looking at it changes nothing");
    assert!(!NewEntry::new(new.entry.clone(), new.body.clone()).is_sealed());
    new.body.clear();
    assert!(!new.is_sealed());
}
