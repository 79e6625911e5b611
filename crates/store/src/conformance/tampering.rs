//! Tampering: a store shows the data as it is, so that a verifier can find the change.
//!
//! A check does nothing on a backend whose harness cannot make the change.

use windlass_kernel::{ChainError, Digest, Head, State, TraceId};

use super::fixture::{Ending, Fixture, Trace, forged};
use super::keys::record_of;
use super::watch::{Scanned, assert_reads_back, hold, put, scan};
use super::{Harness, Tamper};
use crate::store::Store;
use crate::types::{After, Append};

/// A tampered call of four entries between two traces that are not changed.
struct Scene {
    trace: Trace,
    untouched: [Trace; 2],
    store: Box<dyn Store>,
}

impl Scene {
    /// Creates three traces and applies a change to the middle one; `None` if the backend cannot do
    /// that.
    fn new(harness: &dyn Harness, tamper: impl FnOnce(&Trace) -> Tamper) -> Option<Self> {
        let make = Fixture::new();
        let before = make.call(Ending::Completed);
        let trace = make.call(Ending::Completed);
        let after = make.run_long(3);
        let store = harness.open();
        for trace in [&before, &trace, &after] {
            put(&*store, trace);
        }
        drop(store);
        harness.tamper(&tamper(&trace))?;
        Some(Self { trace, untouched: [before, after], store: harness.open() })
    }

    /// Checks the other traces, and returns what a scan shows of the tampered one.
    fn scanned(&self) -> Scanned {
        let all = scan(&*self.store);
        let ids: Vec<TraceId> = all.iter().map(|trace| trace.trace_id).collect();
        let [before, after] = &self.untouched;
        assert_eq!(ids, [before.trace_id, self.trace.trace_id, after.trace_id]);
        for trace in &self.untouched {
            assert_reads_back(&*self.store, trace, trace.len());
        }
        for trace in all.iter().filter(|trace| trace.trace_id != self.trace.trace_id) {
            assert_eq!(trace.verdict(), Ok(()), "an untouched trace");
        }
        all.into_iter().find(|trace| trace.trace_id == self.trace.trace_id).unwrap()
    }

    /// Checks that list and scan show the same readable entries.
    fn assert_lists_as_scanned(&self) {
        let listed = self.store.list_log_entries(self.trace.trace_id, 0, usize::MAX).unwrap();
        let listed: Vec<_> =
            listed.into_iter().map(|record| (Ok(record.entry), record.body)).collect();
        assert_eq!(listed, self.scanned().entries);
    }

    /// Checks what a verifier finds.
    fn shows(&self, error: ChainError) {
        self.assert_lists_as_scanned();
        assert_eq!(self.scanned().verdict(), Err(error));
    }
}

pub(super) fn a_missing_last_entry_shows(harness: &dyn Harness) {
    let tamper = |trace: &Trace| Tamper::DeleteLastEntry(trace.trace_id);
    let Some(scene) = Scene::new(harness, tamper) else { return };
    scene.shows(ChainError::Truncated { expected: 4, found: 3 });
    let state = scene.store.load_state(scene.trace.trace_id).unwrap();
    assert_eq!(state.head, scene.trace.head_after(4), "the head is kept apart");
}

pub(super) fn a_missing_entry_shows(harness: &dyn Harness) {
    let tamper = |trace: &Trace| Tamper::DeleteEntry(trace.trace_id, 2);
    let Some(scene) = Scene::new(harness, tamper) else { return };
    scene.shows(ChainError::SequenceGap { expected: 2, found: 3 });
}

pub(super) fn a_changed_entry_shows(harness: &dyn Harness) {
    let make = Fixture::new();
    let mut changed = None;
    let tamper = |trace: &Trace| {
        let mut entry = trace.entry(2).into_parts().entry;
        entry.ts = make.ts();
        changed = Some(entry.clone());
        Tamper::ChangeEntry(Box::new(entry))
    };
    let Some(scene) = Scene::new(harness, tamper) else { return };
    assert_eq!(scene.scanned().entries.get(1).unwrap().0.clone().ok(), changed);
    scene.shows(ChainError::OwnDigest { sequence_number: 2 });
}

pub(super) fn an_inserted_entry_shows(harness: &dyn Harness) {
    let tamper = |trace: &Trace| {
        let head = trace.head_after(4);
        let more = forged(trace.entry(4), |new| {
            new.entry.sequence_number = 5;
            new.entry.prev_entry_digest = head.entry_digest;
            (new.entry.from_state, new.entry.to_state) = (State::Completed, State::Failed);
        });
        Tamper::InsertEntry(Box::new(more))
    };
    let Some(scene) = Scene::new(harness, tamper) else { return };
    scene.assert_lists_as_scanned();
    let error = scene.scanned().verdict().unwrap_err();
    assert!(matches!(error, ChainError::Transition { sequence_number: 5, .. }), "{error}");
}

pub(super) fn an_unreadable_entry_is_reported_and_spoils_no_other_trace(harness: &dyn Harness) {
    let tamper = |trace: &Trace| Tamper::GarbleEntry(trace.trace_id, 2);
    let Some(scene) = Scene::new(harness, tamper) else { return };
    let error = scene.scanned().verdict().unwrap_err();
    assert!(matches!(error, ChainError::Malformed { sequence_number: 2, .. }), "{error}");
    assert_eq!(scene.scanned().entries.len(), 4, "the readable ones are still shown");
    let error = scene.store.list_log_entries(scene.trace.trace_id, 0, 10).unwrap_err();
    assert!(
        matches!(error, crate::StoreError::CorruptTrace { trace_id, .. }
            if trace_id == scene.trace.trace_id),
        "{error}"
    );
}

pub(super) fn a_changed_body_shows(harness: &dyn Harness) {
    let tamper = |trace: &Trace| Tamper::ChangeBody(trace.trace_id, 4, b"{}".to_vec());
    let Some(scene) = Scene::new(harness, tamper) else { return };
    assert_eq!(scene.scanned().entries.get(3).unwrap().1.as_deref(), Some(&b"{}"[..]));
    let artifact = scene.trace.entry(4).entry.artifact_type.as_str();
    scene.shows(ChainError::Artifact { sequence_number: 4, artifact });
}

pub(super) fn a_missing_body_shows_and_the_chain_still_holds(harness: &dyn Harness) {
    let tamper = |trace: &Trace| Tamper::DeleteBody(trace.trace_id, 1);
    let Some(scene) = Scene::new(harness, tamper) else { return };
    scene.assert_lists_as_scanned();
    let scanned = scene.scanned();
    let missing: Vec<bool> = scanned.entries.iter().map(|(_, body)| body.is_none()).collect();
    assert_eq!(missing, [true, false, false, false]);
    assert_eq!(scanned.verdict(), Ok(()), "the chain holds without its bodies");
}

pub(super) fn a_changed_head_shows(harness: &dyn Harness) {
    let tamper = |trace: &Trace| {
        let entry_digest = Digest::of(b"another");
        Tamper::ChangeHead(Box::new(Head { entry_digest, ..trace.head_after(4) }))
    };
    let Some(scene) = Scene::new(harness, tamper) else { return };
    let state = scene.store.load_state(scene.trace.trace_id).unwrap();
    assert_eq!(state.head.entry_digest, Digest::of(b"another"));
    scene.shows(ChainError::HeadMismatch { sequence_number: 4 });
}

pub(super) fn a_changed_replay_point_is_loaded_as_it_is(harness: &dyn Harness) {
    let make = Fixture::new();
    let trace = make.call(Ending::Completed);
    let store = harness.open();
    let lease = hold(&*store, &trace, 3);
    let mut point = make.replay_point(&trace, 3);
    store.write_replay_point(&lease, &point).unwrap();
    drop(store);
    point.checkpoint_state.current_state = State::Completed;
    let tamper = Tamper::ChangeReplayPoint(trace.trace_id, Box::new(point.clone()));
    if harness.tamper(&tamper).is_none() {
        return;
    }
    let latest = harness.open().load_latest_replay_point(trace.trace_id).unwrap().unwrap();
    assert_eq!(latest, point, "a store does not judge what it loads");
    assert!(latest.validate().is_err());
}

pub(super) fn entries_without_a_trace_are_reported_by_a_scan_only(harness: &dyn Harness) {
    let tamper = |trace: &Trace| Tamper::DeleteTraceRow(trace.trace_id);
    let Some(scene) = Scene::new(harness, tamper) else { return };
    let scanned = scene.scanned();
    assert_eq!(scanned.recorded, None);
    assert_eq!(scanned.entries.len(), 4);
    assert_eq!(scene.store.list_log_entries(scene.trace.trace_id, 0, 10).unwrap(), []);
    let error = scene.store.load_state(scene.trace.trace_id).unwrap_err();
    assert_eq!(error.code(), windlass_kernel::Code::TraceNotFound);
}

pub(super) fn a_trace_without_entries_is_reported_by_a_scan(harness: &dyn Harness) {
    let make = Fixture::new();
    let (lost, kept) = (make.run_long(1), make.run_long(3));
    let store = harness.open();
    put(&*store, &lost);
    put(&*store, &kept);
    drop(store);
    if harness.tamper(&Tamper::DeleteLastEntry(lost.trace_id)).is_none() {
        return;
    }
    let scanned = scan(&*harness.open());
    let [lost_now, kept_now] = &scanned[..] else { panic!("{} traces", scanned.len()) };
    assert_eq!((lost_now.trace_id, &lost_now.entries[..]), (lost.trace_id, &[][..]));
    assert_eq!(lost_now.verdict(), Err(ChainError::Truncated { expected: 1, found: 0 }));
    assert_eq!(kept_now.verdict(), Ok(()));
}

/// The effect of a key is read from the entries: without the last entry there is none.
pub(super) fn an_ended_trace_without_its_last_entry_shows_no_effect(harness: &dyn Harness) {
    let make = Fixture::new();
    let trace = make.call(Ending::Completed);
    let store = harness.open();
    let whole = Append { key: trace.reserve(), ..trace.create(4, After::Release) };
    store.append(whole).unwrap();
    drop(store);
    if harness.tamper(&Tamper::DeleteLastEntry(trace.trace_id)).is_none() {
        return;
    }
    let store = harness.open();
    let record = store.load_idempotency(&trace.slot()).unwrap();
    assert_eq!(record, Some(record_of(&trace, None)));
    let verdict = scan(&*store).iter().map(Scanned::verdict).collect::<Vec<_>>();
    assert_eq!(verdict, [Err(ChainError::Truncated { expected: 4, found: 3 })]);
}
