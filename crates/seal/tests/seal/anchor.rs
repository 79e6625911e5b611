//! Anchors: comparing a store with its anchored state.

use std::collections::BTreeMap;
use std::io::{BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::PathBuf;

use proptest::prelude::*;
use windlass_kernel::{Code, Digest, Entry, Head, State, TraceId, Uuid7};
use windlass_seal::{
    AnchorError, AnchorOutcome, AnchorReport, IfExists, NewAnchor, Rotation, Signer, StoredTrace,
    TraceChange, Trust, check_anchor, write_anchor,
};
use windlass_store::conformance::fixture::{Ending, Fixture};

use crate::world::{at, key_file, signer, trusting};

/// A store: the entries of each trace.
type Store = BTreeMap<TraceId, Vec<Entry>>;

fn store() -> Store {
    let fixture = Fixture::new();
    Ending::ALL
        .iter()
        .map(|ending| {
            let call = fixture.call(*ending);
            let entries = call.records(call.len()).into_iter().map(|record| record.entry);
            (call.trace_id, entries.collect())
        })
        .collect()
}

fn heads(store: &Store) -> Vec<Head> {
    let head = |(trace_id, entries): (&TraceId, &Vec<Entry>)| {
        let last = entries.last().unwrap();
        Head {
            trace_id: *trace_id,
            sequence_number: last.sequence_number,
            entry_digest: last.entry_digest,
            state: Some(last.to_state),
            tool_call_id: last.tool_call_id,
        }
    };
    store.iter().rev().map(head).collect()
}

fn new_anchor(signer: &Signer, rotations: Vec<Rotation>) -> NewAnchor {
    let keys = vec![key_file(signer)];
    NewAnchor { keys, rotations, store: Some("here".into()), made_at: at(100) }
}

fn anchor(store: &Store, signer: &Signer) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("anchor");
    let heads = heads(store);
    let written = write_anchor(
        &path,
        IfExists::Fail,
        signer,
        &new_anchor(signer, Vec::new()),
        heads.into_iter().map(Ok),
    )
    .unwrap();
    assert_eq!(written.traces, u64::try_from(store.len()).unwrap());
    std::fs::read(path).unwrap()
}

fn look_up(store: &Store, trace_id: TraceId, sequence_number: u64) -> StoredTrace {
    let Some(entries) = store.get(&trace_id) else { return StoredTrace::Missing };
    let count = u64::try_from(entries.len()).unwrap();
    match entries.get(usize::try_from(sequence_number - 1).unwrap()) {
        Some(entry) => StoredTrace::entry(entry, count),
        None => StoredTrace::Shorter { entries: count },
    }
}

fn compare(
    bytes: &[u8],
    store: &Store,
    trust: &Trust,
) -> Result<(AnchorReport, Vec<TraceChange>), AnchorError> {
    let mut changed = Vec::new();
    let report = check_anchor(
        &mut Cursor::new(bytes),
        trust,
        |trace_id, number| Ok(look_up(store, trace_id, number)),
        |change| changed.push(change),
    )?;
    Ok((report, changed))
}

fn trust() -> Trust {
    trusting(&[&signer(0)])
}

#[test]
fn a_store_that_only_grew_is_intact() {
    let before = store();
    let bytes = anchor(&before, &signer(0));
    let expected = AnchorReport {
        outcome: AnchorOutcome::Intact,
        signer: signer(0).public().id(),
        made_at: at(100),
        store: Some("here".into()),
        traces: 6,
        intact: 6,
        grown: 0,
        missing: 0,
        shortened: 0,
        rewritten: 0,
    };
    assert_eq!(compare(&bytes, &before, &trust()).unwrap(), (expected.clone(), Vec::new()));
    assert_eq!(expected.code(), None);
    // Traces anchored with fewer entries have grown since; a trace created later is ignored.
    let mut young = before.clone();
    for entries in young.values_mut() {
        entries.truncate(1);
    }
    young.pop_first();
    let (report, changed) = compare(&anchor(&young, &signer(0)), &before, &trust()).unwrap();
    assert_eq!((report.traces, report.intact, report.grown, changed), (5, 0, 5, Vec::new()));
}

#[test]
fn missing_shortened_and_rewritten_traces_are_reported() {
    let before = store();
    let bytes = anchor(&before, &signer(0));
    let ids: Vec<TraceId> = before.keys().copied().collect();
    let mut now = before.clone();
    now.remove(&ids[0]);
    now.get_mut(&ids[1]).unwrap().pop();
    // One forged entry has a recomputed digest, the other keeps its old digest.
    let forged = now.get_mut(&ids[2]).unwrap().last_mut().unwrap();
    forged.ts = at(7);
    forged.entry_digest = forged.compute_digest(&mut Vec::new());
    now.get_mut(&ids[3]).unwrap().last_mut().unwrap().ts = at(7);
    let (report, changed) = compare(&bytes, &now, &trust()).unwrap();
    let had = u64::try_from(before[&ids[1]].len()).unwrap();
    let number = |at: usize| u64::try_from(before[&ids[at]].len()).unwrap();
    let expected = [
        TraceChange::Rewritten { trace_id: ids[3], sequence_number: number(3) },
        TraceChange::Rewritten { trace_id: ids[2], sequence_number: number(2) },
        TraceChange::Shortened { trace_id: ids[1], had, has: had - 1 },
        TraceChange::Missing { trace_id: ids[0] },
    ];
    assert_eq!(changed, expected);
    assert_eq!((report.intact, report.missing, report.shortened, report.rewritten), (2, 1, 1, 2));
    assert_eq!(report.outcome, AnchorOutcome::Changed);
    assert_eq!(report.code(), Some(Code::AnchorInvalid));
    for change in changed {
        assert!(ids.iter().any(|id| change.to_string().contains(&id.to_string())), "{change}");
    }
}

#[test]
fn an_anchor_of_an_untrusted_key_is_not_compared() {
    let store = store();
    let bytes = anchor(&store, &signer(1));
    let never = |trust: &Trust| {
        check_anchor(
            &mut Cursor::new(&bytes),
            trust,
            |_, _| panic!("nothing is compared"),
            |_| panic!("nothing is found"),
        )
        .unwrap()
    };
    for trust in [trust(), Trust::default()] {
        let report = never(&trust);
        assert_eq!(report.outcome, AnchorOutcome::UnknownKey);
        assert_eq!(report.code(), Some(Code::BundleUntrusted));
    }
    let rotation = Rotation::sign(&signer(0), &signer(1), at(1)).unwrap();
    let extended = trust().with_rotations([rotation]);
    assert_eq!(compare(&bytes, &store, &extended).unwrap().0.outcome, AnchorOutcome::Intact);
}

#[test]
fn an_anchor_carries_the_rotations_that_lead_to_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("anchor");
    let rotation = Rotation::sign(&signer(0), &signer(1), at(1)).unwrap();
    let new = new_anchor(&signer(1), vec![rotation]);
    let store = store();
    let all = heads(&store);
    write_anchor(&path, IfExists::Fail, &signer(1), &new, all.iter().copied().map(Ok)).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(compare(&bytes, &store, &trust()).unwrap().0.outcome, AnchorOutcome::Intact);
    let again = write_anchor(&path, IfExists::Fail, &signer(1), &new, all.into_iter().map(Ok));
    assert!(matches!(again, Err(AnchorError::Exists { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[test]
fn every_changed_byte_is_detected() {
    let store = store();
    let good = anchor(&store, &signer(0));
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            match compare(&bad, &store, &trust()) {
                Ok((report, changed)) => {
                    assert_eq!(report.outcome, AnchorOutcome::BadSignature, "byte {at} bit {bit}");
                    assert_eq!(report.code(), Some(Code::AnchorInvalid));
                    assert_eq!(changed, []);
                }
                Err(error) => assert_eq!(error.code(), Code::AnchorInvalid, "{error}"),
            }
        }
    }
}

#[test]
fn removed_added_and_moved_lines_are_detected() {
    let store = store();
    let good = String::from_utf8(anchor(&store, &signer(0))).unwrap();
    let lines: Vec<&str> = good.split_inclusive('\n').collect();
    let bad = |lines: &[&str]| match compare(lines.concat().as_bytes(), &store, &trust()) {
        Ok((report, _)) => report.outcome == AnchorOutcome::BadSignature,
        Err(error) => error.code() == Code::AnchorInvalid,
    };
    assert!(!bad(&lines));
    for at in 0..lines.len() {
        let mut less = lines.clone();
        less.remove(at);
        assert!(bad(&less), "without line {at}");
        let mut more = lines.clone();
        more.insert(at, lines[at]);
        assert!(bad(&more), "line {at} twice");
        let mut moved = lines.clone();
        moved.swap(at, (at + 1) % lines.len());
        assert!(bad(&moved), "line {at} moved");
        assert!(bad(&lines[..at]), "cut at line {at}");
    }
}

#[test]
fn a_repeated_trace_is_refused_where_it_is_repeated() {
    let store = store();
    let good = String::from_utf8(anchor(&store, &signer(0))).unwrap();
    let lines: Vec<&str> = good.split_inclusive('\n').collect();
    for at in 1..lines.len() - 1 {
        let mut more = lines.clone();
        more.insert(at, lines[at]);
        let error = compare(more.concat().as_bytes(), &store, &trust()).unwrap_err();
        let AnchorError::Invalid { line, reason } = error else { panic!("{error}") };
        let expected = "its trace is not older than the trace before it".to_owned();
        assert_eq!((usize::try_from(line).unwrap(), reason), (at + 2, expected));
    }
}

proptest! {
    #[test]
    fn noise_is_refused(noise in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let error = compare(&noise, &store(), &trust()).unwrap_err();
        prop_assert_eq!(error.code(), Code::AnchorInvalid);
    }
}

#[test]
fn an_endless_line_is_refused_in_bounded_memory() {
    struct Endless(u64);
    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            assert!(self.0 < 16 << 20, "read beyond the limit");
            buffer.fill(b'{');
            self.0 += u64::try_from(buffer.len()).unwrap();
            Ok(buffer.len())
        }
    }
    impl Seek for Endless {
        fn seek(&mut self, _: SeekFrom) -> std::io::Result<u64> {
            Ok(0)
        }
    }
    let lookup = |_, _| Ok(StoredTrace::Missing);
    let error =
        check_anchor(&mut BufReader::new(Endless(0)), &trust(), lookup, |_| {}).unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
}

#[test]
fn traces_must_come_newest_first_and_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("anchor");
    let write = |heads: Vec<Head>| {
        let new = new_anchor(&signer(0), Vec::new());
        write_anchor(&path, IfExists::Fail, &signer(0), &new, heads.into_iter().map(Ok))
    };
    let all = heads(&store());
    let mut oldest_first = all.clone();
    oldest_first.reverse();
    for wrong in [oldest_first, vec![all[0], all[0]]] {
        assert!(matches!(write(wrong), Err(AnchorError::Order { .. })));
    }
    let failing = [Ok(all[0]), Err("the disk broke".into())];
    let new = new_anchor(&signer(0), Vec::new());
    let error = write_anchor(&path, IfExists::Fail, &signer(0), &new, failing).unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable);
    let left: Vec<PathBuf> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, Vec::<PathBuf>::new());
    assert_eq!(write(vec![Head::empty(all[0].trace_id)]).unwrap().traces, 0, "nothing to anchor");
}

#[test]
fn many_traces_are_anchored_one_at_a_time() {
    let count = 100_000_u64;
    let head = |number: u64| Head {
        trace_id: TraceId(Uuid7::from_parts(number, [0; 10])),
        sequence_number: 4,
        entry_digest: Digest::of(&number.to_be_bytes()),
        state: Some(State::Completed),
        tool_call_id: None,
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("anchor");
    let new = new_anchor(&signer(0), Vec::new());
    let heads = (0..count).rev().map(|number| Ok(head(number)));
    let written = write_anchor(&path, IfExists::Fail, &signer(0), &new, heads).unwrap();
    assert_eq!(written.traces, count);
    let mut file = BufReader::new(std::fs::File::open(&path).unwrap());
    let mut changes = 0;
    let report = check_anchor(
        &mut file,
        &trust(),
        |trace_id, _| {
            let [a, b, c, d, e, f, ..] = *trace_id.0.as_bytes();
            let number = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
            let digest = head(number).entry_digest;
            Ok(if number == 17 {
                StoredTrace::Missing
            } else {
                StoredTrace::Entry { digest, entries: 4 }
            })
        },
        |_| changes += 1,
    )
    .unwrap();
    assert_eq!((report.intact, report.missing, changes), (count - 1, 1, 1));
}
