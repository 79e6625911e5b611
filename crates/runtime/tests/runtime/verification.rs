//! StoreReport of a whole store finds every kind of tampering, and says where it begins.

use std::sync::Arc;

use windlass_journal::{StoreReport, verify_store};
use windlass_kernel::{Code, Digest, ReplayPoint, ReplayPointState, State, TraceId, Uuid7};
use windlass_store::{Record, Tables};
use windlass_testkit::gateway::{TestSupervisor, World, call};

/// A world with an ended call of four entries, a denied one of two, a pending one of one.
fn world() -> (World, [TraceId; 3]) {
    let world = World::default();
    let gateway = world.gateway(Arc::new(TestSupervisor::default()));
    let traces = ["add", "deny", "ask"]
        .map(|tool| gateway.call(call(tool, Some("key-1"), 1)).unwrap().trace_id);
    (world, traces)
}

fn verified(world: &World) -> StoreReport {
    verify_store(&world.store(), &mut |_| {}).unwrap()
}

fn records(tables: &mut Tables, trace_id: TraceId) -> &mut Vec<Record> {
    tables.entries.get_mut(&trace_id).unwrap()
}

#[test]
fn an_untouched_store_holds_together() {
    let (world, _) = world();
    let expected = StoreReport { traces: 3, entries: 7, ..StoreReport::default() };
    assert_eq!(verified(&world), expected);
    assert_eq!(verified(&World::default()), StoreReport::default());
}

type Tamper = fn(&mut Tables, TraceId);

/// What is done to the call of four entries, the code, and the first entry that is not right.
const TAMPERS: &[(&str, Tamper, Code, u64)] = &[
    (
        "its key is lost",
        |tables, id| {
            let all = tables.keys.values_mut();
            all.for_each(|records| records.retain(|record| record.trace_id != id));
        },
        Code::StateChecksumMismatch,
        3,
    ),
    (
        "its key is another's",
        |tables, id| {
            let all = tables.keys.values_mut().flatten();
            let records = all.filter(|record| record.trace_id == id);
            records.for_each(|record| record.reservation.request_digest = Digest::GENESIS);
        },
        Code::StateChecksumMismatch,
        3,
    ),
    ("cut off", |tables, id| drop(records(tables, id).pop()), Code::StateSequenceGap, 4),
    ("all entries gone", |tables, id| records(tables, id).clear(), Code::StateSequenceGap, 1),
    ("first gone", |tables, id| drop(records(tables, id).remove(0)), Code::StateSequenceGap, 1),
    ("one gone", |tables, id| drop(records(tables, id).remove(1)), Code::StateSequenceGap, 2),
    ("reordered", |tables, id| records(tables, id).swap(1, 2), Code::StateSequenceGap, 2),
    (
        "repeated",
        |tables, id| {
            let twice = records(tables, id)[2].clone();
            records(tables, id).insert(2, twice);
        },
        Code::StateSequenceGap,
        4,
    ),
    (
        "longer than its head",
        |tables, id| {
            tables.traces.get_mut(&id).unwrap().head.sequence_number = 3;
        },
        Code::StateSequenceGap,
        4,
    ),
    (
        "another head",
        |tables, id| {
            tables.traces.get_mut(&id).unwrap().head.entry_digest = Digest::of(b"other");
        },
        Code::StateChecksumMismatch,
        4,
    ),
    (
        "a field changed",
        |tables, id| {
            records(tables, id)[1].entry.ts = windlass_kernel::Timestamp::EPOCH;
        },
        Code::StateChecksumMismatch,
        2,
    ),
    (
        "a field and its digest changed",
        |tables, id| {
            let entry = &mut records(tables, id)[1].entry;
            entry.ts = windlass_kernel::Timestamp::EPOCH;
            entry.entry_digest = entry.compute_digest(&mut Vec::new());
        },
        Code::StateChecksumMismatch,
        3,
    ),
    (
        "the last entry and its digest changed",
        |tables, id| {
            let entry = &mut records(tables, id)[3].entry;
            entry.ts = windlass_kernel::Timestamp::EPOCH;
            entry.entry_digest = entry.compute_digest(&mut Vec::new());
        },
        Code::StateChecksumMismatch,
        4,
    ),
    (
        "a failure made a success",
        |tables, id| {
            let entry = &mut records(tables, id)[3].entry;
            entry.to_state = State::Failed;
            entry.entry_digest = entry.compute_digest(&mut Vec::new());
            let head = entry.entry_digest;
            tables.traces.get_mut(&id).unwrap().head.entry_digest = head;
            tables.traces.get_mut(&id).unwrap().head.state = Some(State::Failed);
        },
        Code::StateChecksumMismatch,
        4,
    ),
    (
        "a forbidden transition",
        |tables, id| {
            let entry = &mut records(tables, id)[3].entry;
            entry.from_state = State::Authorized;
            entry.entry_digest = entry.compute_digest(&mut Vec::new());
        },
        Code::StateInvalidTransition,
        4,
    ),
    (
        "no call's id",
        |tables, id| {
            let entry = &mut records(tables, id)[3].entry;
            entry.tool_call_id = None;
            entry.entry_digest = entry.compute_digest(&mut Vec::new());
        },
        Code::MissingToolCallId,
        4,
    ),
    (
        "a body changed",
        |tables, id| {
            records(tables, id)[0].body = Some(b"{}".to_vec());
        },
        Code::StateChecksumMismatch,
        1,
    ),
    (
        "a body and its digest changed",
        |tables, id| {
            let record = &mut records(tables, id)[0];
            record.body = Some(b"{}".to_vec());
            record.entry.artifact_digest = Digest::of(b"{}");
            record.entry.entry_digest = record.entry.compute_digest(&mut Vec::new());
        },
        Code::StateChecksumMismatch,
        1,
    ),
    (
        "entries of no trace",
        |tables, id| assert!(tables.traces.remove(&id).is_some()),
        Code::StateSequenceGap,
        1,
    ),
    (
        "entries of another trace",
        |tables, id| {
            for record in records(tables, id) {
                record.entry.trace_id = TraceId(Uuid7::from_parts(1, [1; 10]));
                record.entry.entry_digest = record.entry.compute_digest(&mut Vec::new());
            }
        },
        Code::StateChecksumMismatch,
        1,
    ),
];

#[test]
fn every_tampering_is_found_with_its_code_and_its_place() {
    for (what, tamper, code, place) in TAMPERS {
        let (world, [call, ..]) = world();
        world.shared.tamper(|tables| tamper(tables, call));
        let report = verified(&world);
        assert_eq!((report.traces, report.broken), (3, 1), "{what}");
        let [problem] = report.problems.as_slice() else { panic!("{what}: {report:?}") };
        assert_eq!(problem.trace_id, call);
        assert!(!problem.finding.chain_valid && !problem.message.is_empty());
        assert_eq!(problem.finding.error_code, Some(*code), "{what}: {problem:?}");
        assert_eq!(problem.finding.divergence_point, Some(*place), "{what}: {problem:?}");
    }
}

#[test]
fn a_removed_body_is_counted_and_the_chain_still_holds() {
    let (world, [call, ..]) = world();
    world.shared.tamper(|tables| records(tables, call)[1].body = None);
    let report = verified(&world);
    assert_eq!((report.broken, report.missing_artifacts, report.entries), (0, 1, 7));
    world.shared.tamper(|tables| {
        tables.entries.values_mut().flatten().for_each(|record| record.body = None);
    });
    let report = verified(&world);
    assert_eq!((report.broken, report.missing_artifacts), (0, 7));
    // What is left is still checked.
    world.shared.tamper(|tables| records(tables, call).swap(0, 1));
    assert_eq!(verified(&world).broken, 1);
}

#[test]
fn the_checkpoint_of_an_open_trace_is_checked() {
    let changes: [fn(&mut ReplayPointState); 3] = [
        |state| state.last_sequence_number = 9,
        |state| state.current_state = State::Completed,
        |state| state.last_entry_digest = Digest::of(b"other"),
    ];
    for change in changes {
        let (world, [.., asked]) = world();
        world.shared.tamper(|tables| {
            let kept = tables.replay_points.get_mut(&asked).unwrap().last_mut().unwrap();
            let mut state = kept.checkpoint_state;
            change(&mut state);
            *kept = ReplayPoint::new(state, kept.ts);
        });
        let report = verified(&world);
        assert_eq!((report.broken, report.problems[0].trace_id), (1, asked), "{report:?}");
        let code = report.problems[0].finding.error_code;
        assert_eq!(code, Some(Code::StateChecksumMismatch));
    }
}

#[test]
fn several_broken_traces_are_all_found() {
    let (world, traces) = world();
    world.shared.tamper(|tables| {
        for trace_id in traces {
            records(tables, trace_id)[0].body = Some(Vec::new());
        }
    });
    let report = verified(&world);
    assert_eq!(report.broken, 3);
    assert_eq!(report.problems.iter().map(|problem| problem.trace_id).collect::<Vec<_>>(), traces);
}
