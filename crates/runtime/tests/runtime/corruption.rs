//! A corrupt trace stops, with its code; the others go on; nothing is repaired.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_kernel::{
    Code, Digest, Entry, PlanId, ReplayPoint, ReplayPointState, State, ToolCallId, TraceId, Uuid7,
};
use windlass_runtime::{Answer, Gateway};
use windlass_store::{
    After, Append, Claim, KeyAction, Lease, NewEntry, Record, Store as _, Tables,
};
use windlass_testkit::gateway::{TestSupervisor, World, call, interrupt};
use windlass_testkit::people::by;

const OTHER: Uuid7 = Uuid7::from_parts(5, [5; 10]);

type Tamper = fn(&mut Tables, TraceId);

fn entry(tables: &mut Tables, trace_id: TraceId, at: usize) -> &mut Record {
    &mut tables.entries.get_mut(&trace_id).unwrap()[at]
}

/// Gives an entry the digest that it should have, as a careful tamperer would.
fn redigest(entry: &mut Entry) {
    entry.entry_digest = entry.compute_digest(&mut Vec::new());
}

/// The ways in which an interrupted call (request, decision, call) is damaged, and what is said.
const DAMAGES: &[(&str, Code, Tamper)] = &[
    ("a torn tail", Code::StateSequenceGap, |tables, id| {
        drop(tables.entries.get_mut(&id).unwrap().pop());
    }),
    ("no entries", Code::StateSequenceGap, |tables, id| drop(tables.entries.remove(&id))),
    ("a gap", Code::StateSequenceGap, |tables, id| {
        drop(tables.entries.get_mut(&id).unwrap().remove(1));
    }),
    ("reordered", Code::StateSequenceGap, |tables, id| {
        tables.entries.get_mut(&id).unwrap().swap(0, 1);
    }),
    ("a duplicate", Code::StateSequenceGap, |tables, id| {
        let twice = entry(tables, id, 1).clone();
        tables.entries.get_mut(&id).unwrap().insert(1, twice);
    }),
    ("a longer tail than its head", Code::StateSequenceGap, |tables, id| {
        tables.traces.get_mut(&id).unwrap().head.sequence_number = 2;
    }),
    ("another head digest", Code::StateChecksumMismatch, |tables, id| {
        tables.traces.get_mut(&id).unwrap().head.entry_digest = Digest::of(b"other");
    }),
    ("another head state", Code::StateChecksumMismatch, |tables, id| {
        tables.traces.get_mut(&id).unwrap().head.state = Some(State::Authorized);
    }),
    ("another plan", Code::StateChecksumMismatch, |tables, id| {
        tables.traces.get_mut(&id).unwrap().plan_id = PlanId(OTHER);
    }),
    ("a changed entry", Code::StateChecksumMismatch, |tables, id| {
        entry(tables, id, 1).entry.artifact_digest = Digest::of(b"other");
    }),
    ("a changed entry with its digest", Code::StateChecksumMismatch, |tables, id| {
        let entry = &mut entry(tables, id, 1).entry;
        entry.artifact_digest = Digest::of(b"other");
        redigest(entry);
    }),
    ("a changed last entry with its digest", Code::StateChecksumMismatch, |tables, id| {
        let entry = &mut entry(tables, id, 2).entry;
        entry.idempotency_key = Some("key-2".to_owned());
        redigest(entry);
    }),
    ("another call id", Code::StateChecksumMismatch, |tables, id| {
        let entry = &mut entry(tables, id, 2).entry;
        entry.tool_call_id = Some(ToolCallId(OTHER));
        redigest(entry);
    }),
    ("no call id", Code::MissingToolCallId, |tables, id| {
        let entry = &mut entry(tables, id, 2).entry;
        entry.tool_call_id = None;
        redigest(entry);
    }),
    ("a skipped state", Code::StateInvalidTransition, |tables, id| {
        let entry = &mut entry(tables, id, 1).entry;
        (entry.from_state, entry.to_state) = (State::Authorized, State::Executing);
        redigest(entry);
    }),
    ("a swapped body", Code::StateChecksumMismatch, |tables, id| {
        let other = entry(tables, id, 1).body.clone();
        entry(tables, id, 0).body = other;
    }),
    ("a changed body", Code::StateChecksumMismatch, |tables, id| {
        entry(tables, id, 0).body = Some(b"{}".to_vec());
    }),
    ("a removed body", Code::StateRecoveryFailed, |tables, id| {
        entry(tables, id, 0).body = None;
    }),
    ("a foreign entry", Code::StateChecksumMismatch, |tables, id| {
        let entry = &mut entry(tables, id, 0).entry;
        entry.trace_id = TraceId(OTHER);
        redigest(entry);
    }),
    ("a checkpoint from the future", Code::StateSequenceGap, |tables, id| {
        checkpoint(tables, id, |state| state.last_sequence_number += 5);
    }),
    ("a checkpoint of another state", Code::StateChecksumMismatch, |tables, id| {
        checkpoint(tables, id, |state| state.current_state = State::Completed);
    }),
    ("a checkpoint without its digest", Code::StateChecksumMismatch, |tables, id| {
        checkpoint(tables, id, |_| {});
        let kept = tables.replay_points.get_mut(&id).unwrap().last_mut().unwrap();
        kept.checkpoint_digest = Digest::of(b"other");
    }),
];

fn checkpoint(tables: &mut Tables, id: TraceId, change: fn(&mut ReplayPointState)) {
    let trace = tables.traces[&id];
    let mut state = ReplayPointState::of(&trace.head, trace.plan_id).unwrap();
    change(&mut state);
    let ts = windlass_kernel::Timestamp::EPOCH;
    tables.replay_points.entry(id).or_default().push(ReplayPoint::new(state, ts));
}

fn gateway(world: &World) -> Gateway {
    world.gateway(Arc::new(TestSupervisor::default()))
}

/// All that recovery must not touch in a broken trace: everything but its lease.
fn durable(world: &World, id: TraceId) -> String {
    let tables = world.shared.tables();
    let head = tables.traces.get(&id).map(|trace| (trace.head, trace.plan_id));
    let rows =
        (tables.entries.get(&id), tables.replay_points.get(&id), tables.redispatches.get(&id));
    format!("{head:?} {rows:?} {:?}", tables.keys)
}

#[test]
fn every_damage_stops_its_trace_and_no_other() {
    for (damage, code, tamper) in DAMAGES {
        let world = World::default();
        let broken = interrupt(&world, call("add", Some("key-1"), 1), 4);
        let sound = interrupt(&world, call("post", Some("key-2"), 2), 4);
        world.shared.tamper(|tables| tamper(tables, broken));
        let before = durable(&world, broken);
        let gateway = gateway(&world);
        let all = gateway.recover_all().unwrap();
        for one in all {
            match one.result {
                Ok(recovery) => {
                    assert_eq!((one.trace_id, recovery.report.state), (sound, State::Completed))
                }
                Err(error) => assert_eq!((one.trace_id, error.code()), (broken, *code), "{damage}"),
            }
        }
        assert_eq!(gateway.show(sound).unwrap().state, State::Completed);
        let attribution = by("Ada", "I looked");
        for error in [
            gateway.recover(broken).unwrap_err(),
            gateway.show(broken).unwrap_err(),
            gateway.decide(broken, Answer::Approve, attribution).unwrap_err(),
            gateway.call(call("add", Some("key-1"), 1)).unwrap_err(),
        ] {
            assert_eq!(error.code(), *code, "{damage}: {error:?}");
        }
        assert!(!world.tools.lock().dispatches.iter().skip(1).any(|one| one.tool == "add"));
        assert_eq!(gateway.call(call("add", Some("key-3"), 3)).unwrap().state, State::Completed);
        let after = durable(&world, broken);
        let keys = |text: &str| text.split("Slot").next().unwrap_or_default().to_owned();
        assert_eq!(keys(&after), keys(&before), "{damage}: nothing is repaired");
    }
}

#[test]
fn a_writer_that_was_taken_over_writes_nothing() {
    let world = World::default();
    let trace_id = interrupt(&world, call("add", Some("key-1"), 1), 4);
    let (old, new) = (world.store(), world.store());
    let lost = old.acquire(trace_id).unwrap();
    // The old one's machine sleeps for so long that it is taken for dead.
    world.shared.tamper(|tables| tables.traces.get_mut(&trace_id).unwrap().holder = None);
    let lease = new.acquire(trace_id).unwrap();
    let before = durable(&world, trace_id);
    let entries =
        vec![NewEntry::new(world.shared.tables().entries[&trace_id][2].entry.clone(), Vec::new())];
    let append =
        Append { claim: Claim::Held(&lost), entries, key: KeyAction::None, after: After::Keep };
    assert_eq!(old.append(append).unwrap_err().code(), Code::StateConcurrentExecution);
    let forged = Lease::grant(trace_id, lease.holder(), lease.fence());
    let append =
        |claim| Append { claim, entries: Vec::new(), key: KeyAction::None, after: After::Keep };
    let code = old.append(append(Claim::Held(&forged))).unwrap_err().code();
    assert_eq!(code, Code::StateConcurrentExecution);
    assert_eq!(durable(&world, trace_id), before);
}

/// Raises each of the codes of a trace once more on a path that users can meet, and lists them.
#[test]
fn every_state_code_is_raised_by_a_real_path() {
    let mut raised: BTreeSet<Code> = DAMAGES.iter().map(|(_, code, _)| *code).collect();
    let world = World::default();
    let trace_id = interrupt(&world, call("add", Some("key-1"), 1), 4);
    let holder = world.store();
    let _lease = holder.acquire(trace_id).unwrap();
    raised.insert(gateway(&world).recover(trace_id).unwrap_err().code());
    raised.insert(fenced_gateway());
    let all = [
        Code::StateInvalidTransition,
        Code::StateSequenceGap,
        Code::StateChecksumMismatch,
        Code::StateRecoveryFailed,
        Code::StateLockAcquireFailed,
        Code::StateConcurrentExecution,
        Code::MissingToolCallId,
    ];
    assert_eq!(raised, BTreeSet::from(all));
}

/// A gateway that loses its lease while the tool works.
fn fenced_gateway() -> Code {
    use windlass_testkit::gateway::{Crash, Honest};
    let world = World::default();
    let crash = {
        let world = world.clone();
        Crash::with_interlude(None, 4, move |_| {
            world.shared.tamper(|tables| {
                tables.traces.values_mut().for_each(|trace| trace.holder = None);
            });
            assert_eq!(gateway(&world).recover_all().unwrap().len(), 1);
        })
    };
    let process = world.start(&Honest, windlass_runtime::ReadDurability::WriteAhead, &crash);
    let error = process.gateway.call(call("add", Some("key-1"), 1)).unwrap_err();
    let (trace_id, trace) = world.shared.tables().traces.pop_first().unwrap();
    assert_eq!(trace.head.state, Some(State::Completed));
    assert_eq!(world.shared.tables().entries[&trace_id].len(), 4);
    error.code()
}
