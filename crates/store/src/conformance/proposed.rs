//! Rules that nothing keeps yet; see [`super::PROPOSED`].

use windlass_kernel::{Checkpoint, CheckpointState, PlanId};

use super::Harness;
use super::append::refuses_malformed;
use super::fixture::{Ending, Fixture};
use super::leases::{assert_held, take};
use super::watch::{Watch, hold};
use crate::types::{After, Append};

/// The lease is spent by the append that releases; given back after all, it must not free the
/// lease that the same handle has taken since.
pub(super) fn a_spent_lease_cannot_free_a_later_one_of_the_same_handle(harness: &dyn Harness) {
    let make = Fixture::new();
    let (store, other) = (harness.open(), harness.open());
    let trace = make.run_long(4);
    let spent = hold(&*store, &trace, 1);
    let last = Append { after: After::Release, ..trace.append(&spent, 1, 1) };
    store.append(last).unwrap();
    let lease = take(&*store, &trace);
    store.release(spent).unwrap();
    assert_held(&*other, &lease);
    assert_held(&*store, &lease);
    store.append(trace.append(&lease, 2, 2)).expect("the later lease still counts");
}

/// The plan is one of the five fields that a checkpoint covers.
pub(super) fn a_checkpoint_must_name_its_traces_plan(harness: &dyn Harness) {
    let make = Fixture::new();
    let store = harness.open();
    let trace = make.call(Ending::Completed);
    let lease = hold(&*store, &trace, 3);
    let state = CheckpointState::of(&trace.head_after(3), PlanId(make.uuid())).unwrap();
    let liar = Checkpoint::new(state, make.ts());
    Watch::new(&*store, &[]).refused(|| store.write_checkpoint(&lease, &liar));
}

/// An unknown kind of entry is an error, as an unknown version of it is.
pub(super) fn an_unknown_schema_id_is_refused(harness: &dyn Harness) {
    let store = harness.open();
    refuses_malformed(&*store, |new| new.entry.schema_id = "another.log_entry".into());
}
