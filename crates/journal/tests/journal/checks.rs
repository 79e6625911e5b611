//! Which check notices which damage.

use windlass_journal::{
    Check, JournalError, Reader, Recorder, Runs, TraceVerifier, read_entry, replay, verify_store,
    verify_trace,
};
use windlass_kernel::run::Run;
use windlass_kernel::{Call, ChainError, Code, Digest, Machine, PlanId, TraceId, Uuid7};
use windlass_store::conformance::fixture::{Ending, Fixture};
use windlass_store::{After, Append, IdempotencyRecord, KeyMismatch, Record, Tables};

use crate::world::World;

/// The damaged entry.
const FOURTH: usize = 3;

/// What reading finds wrong with the chain.
fn error_of<T>(result: Result<T, JournalError>) -> Option<ChainError> {
    match result {
        Ok(_) => None,
        Err(JournalError::Corrupt { source, .. }) => Some(source),
        Err(error) => panic!("{error:?}"),
    }
}

fn read(world: &World, trace_id: TraceId, check: Check) -> Option<ChainError> {
    error_of(Reader::<Run>::state_of(world.store.as_ref(), trace_id, check))
}

/// Computes an entry's digests again, as someone would who knows how.
fn redigest(record: &mut Record) {
    record.entry.artifact_digest = Digest::of(record.body.as_deref().unwrap());
    record.entry.entry_digest = record.entry.compute_digest(&mut Vec::new());
}

struct Damage {
    what: &'static str,
    /// Changes the trace of six entries; the other trace is another run.
    change: fn(&mut Tables, TraceId, TraceId),
    verified: Option<ChainError>,
    prefix: Option<ChainError>,
    skim: Option<ChainError>,
    /// What replaying from the newest replay point finds.
    replay: Option<ChainError>,
    /// What verification of the whole trace finds.
    trace: Option<ChainError>,
}

impl Damage {
    /// Damage that every verification notices, and skimming does not.
    fn entry(
        what: &'static str,
        error: ChainError,
        change: fn(&mut Tables, TraceId, TraceId),
    ) -> Self {
        let all = || Some(error.clone());
        Self {
            what,
            change,
            verified: all(),
            prefix: all(),
            skim: None,
            replay: all(),
            trace: all(),
        }
    }

    /// Damage of the end, which is only noticed by comparison with the recorded head.
    fn end(
        what: &'static str,
        error: ChainError,
        change: fn(&mut Tables, TraceId, TraceId),
    ) -> Self {
        Self { prefix: None, ..Self::entry(what, error, change) }
    }
}

fn entries(tables: &mut Tables, trace_id: TraceId) -> &mut Vec<Record> {
    tables.entries.get_mut(&trace_id).unwrap()
}

fn changed_body(record: &Record) -> Option<Vec<u8>> {
    let text = String::from_utf8(record.body.clone().unwrap()).unwrap();
    let changed = text.replace("\"number\":1", "\"number\":8");
    assert_ne!(changed, text);
    Some(changed.into_bytes())
}

fn damages(other: TraceId) -> Vec<Damage> {
    let number = 4;
    let artifact = || ChainError::Artifact { sequence_number: number, artifact: "run_event" };
    vec![
        Damage::entry("a changed artifact", artifact(), |tables, id, _| {
            let record = &mut entries(tables, id)[FOURTH];
            record.body = changed_body(record);
        }),
        Damage::entry(
            "a changed field",
            ChainError::OwnDigest { sequence_number: number },
            |tables, id, _| {
                let (first, rest) = entries(tables, id).split_at_mut(1);
                rest[FOURTH - 1].entry.ts = first[0].entry.ts;
            },
        ),
        Damage::entry(
            "an entry of another trace",
            ChainError::ForeignTrace { sequence_number: number, found: other },
            |tables, id, other| {
                let foreign = entries(tables, other)[FOURTH].clone();
                entries(tables, id)[FOURTH] = foreign;
            },
        ),
        Damage::entry(
            "a broken link",
            ChainError::PreviousDigest { sequence_number: number },
            |tables, id, _| {
                let record = &mut entries(tables, id)[FOURTH];
                record.entry.prev_entry_digest = Digest::of(b"another");
                redigest(record);
            },
        ),
        Damage::entry(
            "a link to an entry that was rewritten",
            ChainError::PreviousDigest { sequence_number: number + 1 },
            |tables, id, _| {
                let record = &mut entries(tables, id)[FOURTH];
                record.body = changed_body(record);
                redigest(record);
            },
        ),
        Damage::entry(
            "a missing entry",
            ChainError::SequenceGap { expected: number, found: number + 1 },
            |tables, id, _| drop(entries(tables, id).remove(FOURTH)),
        ),
        Damage {
            // The chain is intact; replaying does not read artifacts.
            replay: Some(ChainError::HeadMismatch { sequence_number: 6 }),
            ..Damage::entry(
                "an artifact that is not canonical",
                ChainError::Artifact { sequence_number: 6, artifact: "run_event" },
                |tables, id, _| {
                    let record = &mut entries(tables, id)[5];
                    record.body.as_mut().unwrap().push(b' ');
                    redigest(record);
                },
            )
        },
        Damage::end(
            "a cut end",
            ChainError::Truncated { expected: 6, found: 5 },
            |tables, id, _| {
                drop(entries(tables, id).pop());
            },
        ),
        Damage::end(
            "an added end",
            ChainError::Truncated { expected: 5, found: 6 },
            |tables, id, _| {
                let before = windlass_kernel::Head::after(&entries(tables, id)[4].entry);
                tables.traces.get_mut(&id).unwrap().head = before;
            },
        ),
        Damage::end(
            "a rewritten end",
            ChainError::HeadMismatch { sequence_number: 6 },
            |tables, id, _| {
                let record = &mut entries(tables, id)[5];
                let text = String::from_utf8(record.body.take().unwrap()).unwrap();
                record.body = Some(text.replace("\"number\":3", "\"number\":9").into_bytes());
                redigest(record);
            },
        ),
        Damage::end(
            "a wrong head",
            ChainError::HeadMismatch { sequence_number: 6 },
            |tables, id, _| {
                tables.traces.get_mut(&id).unwrap().head.entry_digest = Digest::of(b"another");
            },
        ),
    ]
}

#[test]
fn each_check_notices_exactly_its_damages() {
    let intact = World::new();
    let trace_id = intact.run(6);
    for check in [Check::Verified, Check::Prefix, Check::Skim] {
        let run = Reader::<Run>::state_of(intact.store.as_ref(), trace_id, check).unwrap();
        assert_eq!((run.head.sequence_number, run.notes.len()), (6, 4), "{check:?}");
    }
    assert_eq!(verify_trace(intact.store.as_ref(), trace_id).unwrap().error, None);
    assert_eq!(replay(intact.store.as_ref(), trace_id).unwrap().entries_read, 6);

    let ids = |world: &World| (world.run(6), world.run(6));
    let (_, other) = ids(&World::new());
    for damage in damages(other) {
        let world = World::new();
        let (trace_id, other) = ids(&world);
        world.shared.tamper(|tables| (damage.change)(tables, trace_id, other));
        let what = damage.what;
        assert_eq!(read(&world, trace_id, Check::Verified), damage.verified, "{what}");
        assert_eq!(read(&world, trace_id, Check::Prefix), damage.prefix, "{what}");
        assert_eq!(read(&world, trace_id, Check::Skim), damage.skim, "{what}");
        let store = world.store.as_ref();
        assert_eq!(error_of(replay(store, trace_id)), damage.replay, "{what}");
        assert_eq!(verify_trace(store, trace_id).unwrap().error, damage.trace, "{what}");
        let report = verify_store(store, &mut |_| {}).unwrap();
        let problems: Vec<_> = report
            .problems
            .iter()
            .map(|problem| (problem.trace_id, problem.message.clone()))
            .collect();
        let expected = damage.trace.as_ref().unwrap().to_string();
        assert_eq!(problems, [(trace_id, expected)], "{what}");
        // The other run is not affected, and a corrupt one is not written.
        assert_eq!(read(&world, other, Check::Verified), None, "{what}");
        let before = world.durable();
        let opened = Recorder::<Run>::open(&world.store, trace_id, Vec::new());
        assert_eq!(error_of(opened), damage.verified, "{what}");
        let holder = |text: &str| text.contains("holder: Some");
        assert!(!holder(&before) && !holder(&world.durable()), "{what}: the lease is released");
    }
}

#[test]
fn a_trace_recorded_under_another_plan_is_corrupt() {
    let world = World::new();
    let (trace_id, call) = (world.run(3), world.call());
    let plan_id = PlanId(world.new_id().0);
    let reason = "the trace is recorded under another plan";
    let error = ChainError::Link { sequence_number: 1, reason };
    assert_ne!(verify_trace(world.store.as_ref(), call).unwrap().error, Some(error.clone()));
    for id in [trace_id, call] {
        world.shared.tamper(|tables| tables.traces.get_mut(&id).unwrap().plan_id = plan_id);
    }
    assert_eq!(verify_trace(world.store.as_ref(), call).unwrap().error, Some(error.clone()));
    assert_eq!(read(&world, trace_id, Check::Verified), Some(error.clone()));
    assert_eq!(read(&world, trace_id, Check::Prefix), None);
    let report = verify_trace(world.store.as_ref(), trace_id).unwrap();
    assert_eq!(report.error, Some(error));
    let report = verify_store(world.store.as_ref(), &mut |_| {}).unwrap();
    assert_eq!(report.broken, 2);
}

#[test]
fn a_purged_artifact_ends_every_fold_but_not_the_chain() {
    let world = World::new();
    let trace_id = world.run(6);
    world.shared.tamper(|tables| entries(tables, trace_id)[FOURTH].body = None);
    for check in [Check::Verified, Check::Prefix, Check::Skim] {
        let error = Reader::<Run>::state_of(world.store.as_ref(), trace_id, check).unwrap_err();
        assert!(matches!(error, JournalError::Purged { sequence_number: 4, .. }), "{error:?}");
        assert!(error.is_damage());
    }
    let report = verify_trace(world.store.as_ref(), trace_id).unwrap();
    assert_eq!((report.error, report.finding.entry_count), (None, 6));
    let report = verify_store(world.store.as_ref(), &mut |_| {}).unwrap();
    assert_eq!((report.missing_artifacts, report.broken), (1, 0));
    // The run can no longer be folded, so the verifier has none.
    let mut verifier = TraceVerifier::new(trace_id);
    for record in &world.shared.tables().entries[&trace_id] {
        verifier.push(&record.entry, record.body.as_deref()).unwrap();
    }
    assert!(verifier.purged() == 1 && verifier.run().is_none());
}

#[test]
fn a_call_is_not_read_as_a_run_nor_a_run_as_a_call() {
    fn wrong<T>(result: Result<T, JournalError>, machine: Machine, code: Code) {
        let error = result.err().unwrap();
        assert!(
            matches!(error, JournalError::WrongMachine { expected, .. } if expected == machine)
        );
        assert_eq!(error.code(), code);
    }
    let world = World::new();
    let (run, call, store) = (world.run(3), world.call(), world.store.as_ref());
    for check in [Check::Verified, Check::Prefix, Check::Skim] {
        wrong(Reader::<Run>::state_of(store, call, check), Machine::Run, Code::RunNotFound);
        wrong(Reader::<Call>::state_of(store, run, check), Machine::Call, Code::RequestInvalid);
    }
    wrong(Recorder::<Run>::open(&world.store, call, Vec::new()), Machine::Run, Code::RunNotFound);
    wrong(
        Recorder::<Call>::open(&world.store, run, Vec::new()),
        Machine::Call,
        Code::RequestInvalid,
    );
    // Both are free: a refused recorder releases its lease.
    for id in [run, call] {
        world.process().acquire(id).unwrap();
    }
    let runs = Runs::new(world.process());
    assert_eq!(runs.find(&run.to_string()).unwrap(), run);
    assert_eq!(runs.find(&call.to_string()).unwrap_err().code(), Code::RunNotFound);
    assert_eq!(Reader::<Call>::state_of(store, call, Check::Verified).unwrap().head.trace_id, call);
}

#[test]
fn one_entry_is_verified_by_itself() {
    let change = |change: fn(&mut Record)| {
        let world = World::new();
        let trace_id = world.run(6);
        world.shared.tamper(|tables| change(&mut entries(tables, trace_id)[FOURTH]));
        error_of(read_entry(world.store.as_ref(), trace_id, 4))
    };
    assert_eq!(change(|_| {}), None);
    let number = 4;
    let artifact = ChainError::Artifact { sequence_number: number, artifact: "run_event" };
    assert_eq!(change(|record| record.body = changed_body(record)), Some(artifact));
    let own = ChainError::OwnDigest { sequence_number: number };
    assert_eq!(change(|record| record.entry.prev_entry_digest = Digest::GENESIS), Some(own));
    let gap = ChainError::SequenceGap { expected: number, found: 9 };
    assert_eq!(change(|record| record.entry.sequence_number = 9), Some(gap));
    let world = World::new();
    let (trace_id, other) = (world.run(6), world.run(6));
    world.shared.tamper(|tables| {
        let foreign = entries(tables, other)[FOURTH].clone();
        entries(tables, trace_id)[FOURTH] = foreign;
    });
    let foreign = ChainError::ForeignTrace { sequence_number: number, found: other };
    assert_eq!(error_of(read_entry(world.store.as_ref(), trace_id, 4)), Some(foreign));
    assert!(read_entry(world.store.as_ref(), other, 7).unwrap().is_none());
}

#[test]
fn a_key_record_that_does_not_match_its_call_is_found() {
    fn found(change: fn(&mut Tables)) -> (Option<ChainError>, u64) {
        let (world, call) = (World::new(), Fixture::new().call(Ending::Executing));
        let append = Append { key: call.reserve(), ..call.create(call.len(), After::Release) };
        world.store.append(append).unwrap();
        world.shared.tamper(change);
        let report = verify_store(world.store.as_ref(), &mut |_| {}).unwrap();
        (verify_trace(world.store.as_ref(), call.trace_id).unwrap().error, report.broken)
    }
    let missing = ChainError::Key { sequence_number: 3, reason: KeyMismatch::MISSING };
    assert_eq!(found(|_| {}), (None, 0));
    let changes: [fn(&mut Tables); 4] = [
        |tables| tables.keys.clear(),
        |tables| record(tables).reservation.request_digest = Digest::of(b"another"),
        |tables| record(tables).reservation.tool_call_id.0 = Uuid7::from_parts(1, [9; 10]),
        |tables| record(tables).trace_id.0 = Uuid7::from_parts(1, [9; 10]),
    ];
    for change in changes {
        assert_eq!(found(change), (Some(missing.clone()), 1));
    }
}

fn record(tables: &mut Tables) -> &mut IdempotencyRecord {
    tables.keys.values_mut().next().unwrap().first_mut().unwrap()
}

/// Someone who rewrites a call's artifact and all digests after it cannot change what the next artifact
/// says about it.
#[test]
fn an_artifact_that_does_not_follow_the_one_before_is_found() {
    let fixture = Fixture::new();
    let (call, other) = (fixture.call(Ending::Authorized), fixture.call(Ending::Authorized));
    let mut head = windlass_kernel::Head::empty(call.trace_id);
    let mut verifier = TraceVerifier::new(call.trace_id);
    let [first, second] = [call.records(2).swap_remove(0), call.records(2).swap_remove(1)];
    let foreign = other.records(2).swap_remove(1).body;
    for mut record in [first, Record { body: foreign, ..second }] {
        record.entry.prev_entry_digest = head.entry_digest;
        redigest(&mut record);
        head = windlass_kernel::Head::after(&record.entry);
        let pushed = verifier.push(&record.entry, record.body.as_deref());
        assert_eq!(pushed.is_ok(), head.sequence_number == 1, "{pushed:?}");
    }
}
