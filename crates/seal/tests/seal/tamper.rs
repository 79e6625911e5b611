//! Every change to a bundle is detected.

use proptest::prelude::*;
use windlass_kernel::run::Event;
use windlass_kernel::{Digest, TraceId};
use windlass_seal::{BundleFault, BundleVerdict};
use windlass_store::conformance::fixture::Fixture;

use crate::world::{
    GOOD, World, archive, check, faults, member, members, resign, signer, started, trusting,
};

/// Changes one byte at a time, at each offset that `is_selected` accepts.
fn change_bytes(good: &[u8], is_selected: impl Fn(usize, u8) -> bool) {
    let trust = trusting(&[&signer(0)]);
    let mut bad = good.to_vec();
    for at in (0..good.len()).filter(|at| is_selected(*at, good[*at])) {
        let bit = 1 << ((at + at / 512) % 8);
        bad[at] ^= bit;
        assert_eq!(check(&bad, &trust).verdict(), BundleVerdict::Damaged, "byte {at} bit {bit}");
        bad[at] ^= bit;
    }
}

#[test]
fn every_changed_byte_is_detected() {
    let run = TraceId(Fixture::new().uuid());
    let small = World::of(run, vec![Event::Started(Box::new(started()))], &[]).bytes();
    // Most bytes are padding: a sample of it is enough.
    change_bytes(&small, |at, byte| byte != 0 || at.is_multiple_of(31));
    change_bytes(&GOOD, |at, _| at.is_multiple_of(23));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 2 / 5))]

    #[test]
    fn every_cut_and_splice_is_detected(
        at in any::<proptest::sample::Index>(),
        to in any::<proptest::sample::Index>(),
        noise in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let good = &*GOOD;
        let (start, end) = (at.index(good.len()), to.index(good.len()));
        let (start, end) = (start.min(end), start.max(end));
        let trust = trusting(&[&signer(0)]);
        let cut = good[..start].to_vec();
        prop_assert_eq!(check(&cut, &trust).verdict(), BundleVerdict::Damaged);
        let spliced = [&good[..start], &noise, &good[end..]].concat();
        if spliced != *good {
            prop_assert_eq!(check(&spliced, &trust).verdict(), BundleVerdict::Damaged);
        }
        let longer = [&good[..], &noise[..]].concat();
        if !noise.is_empty() {
            prop_assert_eq!(check(&longer, &trust).verdict(), BundleVerdict::Damaged);
        }
    }
}

#[test]
fn every_removed_member_is_reported() {
    let all = members(&GOOD);
    for at in 0..all.len() {
        let mut left = all.clone();
        let (name, _) = left.remove(at);
        let faults = faults(&archive(&left));
        assert!(
            faults.contains(&BundleFault::MissingMember { name: name.clone() }),
            "{name}: {faults:?}"
        );
    }
}

#[test]
fn an_added_member_is_reported() {
    let bytes = &*GOOD;
    for (name, content) in [
        ("checkpoints/zzz.json", &b"{}"[..]),
        ("notes.txt", b"hello"),
        ("keys/0123456789abcdef.pub", b"?"),
        ("journal/01890a5d-ac96-774b-bcce-b302099a8057.jsonl.zst", b""),
    ] {
        let mut more = members(bytes);
        more.push((name.to_owned(), content.to_vec()));
        more.sort();
        let faults = faults(&archive(&more));
        let extra = BundleFault::UnexpectedMember { name: name.to_owned() };
        assert!(faults.contains(&extra), "{name}: {faults:?}");
    }
}

#[test]
fn swapped_members_are_detected() {
    let all = members(&GOOD);
    for at in 1..all.len() {
        let mut swapped = all.clone();
        let (one, other) = (at - 1, at);
        let content = swapped[one].1.clone();
        swapped[one].1 = std::mem::replace(&mut swapped[other].1, content);
        let report = check(&archive(&swapped), &trusting(&[&signer(0)]));
        assert_eq!(report.verdict(), BundleVerdict::Damaged, "{} and {}", all[one].0, all[other].0);
    }
}

#[test]
fn a_duplicate_member_is_refused() {
    let all = members(&GOOD);
    for at in 0..all.len() {
        let mut twice = all.clone();
        twice.insert(at, all[at].clone());
        let faults = faults(&archive(&twice));
        let found = |fault: &BundleFault| matches!(fault, BundleFault::NotAnArchive { reason } if reason.contains("order"));
        assert!(faults.iter().any(found), "{faults:?}");
    }
}

#[test]
fn members_of_another_bundle_do_not_match_the_manifest() {
    // All members except manifest and signature come from another bundle that the same key signed.
    let mut world = World::new();
    let ours = members(&world.bytes());
    world.checkpoints.insert("0002-build-post".into(), b"{}".to_vec());
    let mut theirs = members(&world.bytes());
    for name in ["manifest.json", "signature.json"] {
        *member(&mut theirs, name) = member(&mut ours.clone(), name).clone();
    }
    let report = check(&archive(&theirs), &trusting(&[&signer(0)]));
    assert_eq!(report.verdict(), BundleVerdict::Damaged);
}

/// Changes a member and signs the bundle again with the right key, so that only the consistency checks
/// can detect the change.
fn resigned(start: &str, change: impl FnOnce(&mut Vec<u8>)) -> Vec<BundleFault> {
    let mut all = members(&GOOD);
    change(member(&mut all, start));
    faults(&resign(&mut all, &signer(0)))
}

#[test]
fn signing_an_unchanged_bundle_again_is_no_fault() {
    assert_eq!(resigned("manifest.json", |_| {}), []);
}

fn replace(bytes: &mut Vec<u8>, from: &str, to: &str) {
    let text = String::from_utf8(std::mem::take(bytes)).unwrap();
    assert!(text.contains(from));
    *bytes = text.replacen(from, to, 1).into_bytes();
}

#[test]
fn a_statement_must_match_the_journal() {
    for (from, to) in [("PASS", "BLOCKED"), ("\"main\"", "\"prod\""), ("run-1", "run-2")] {
        let faults = resigned("statement.json", |bytes| replace(bytes, from, to));
        assert!(
            faults.contains(&BundleFault::JournalMismatch { name: "statement.json".into() }),
            "{faults:?}"
        );
        let envelope = |fault: &BundleFault| matches!(fault, BundleFault::InvalidMember { name, .. } if name == "statement.dsse.json");
        assert!(faults.iter().any(envelope), "the envelope has the old statement: {faults:?}");
    }
}

#[test]
fn heads_must_match_the_traces_and_be_signed() {
    let world = World::new();
    let digest = world.heads[0].entry_digest.to_string();
    let other = Digest::of(b"other").to_string();
    let faults = resigned("heads.json", |bytes| replace(bytes, &digest, &other));
    assert!(faults.contains(&BundleFault::HeadMismatch { trace_id: world.run }), "{faults:?}");
    let signed = |fault: &BundleFault| matches!(fault, BundleFault::BadSignature { .. });
    assert!(faults.iter().any(signed), "{faults:?}");
    let faults = resigned("heads.json", |bytes| *bytes = b"[]".to_vec());
    assert_eq!(faults.len(), 4, "{faults:?}");
}

#[test]
fn a_journal_must_be_intact() {
    let repack = |bytes: &mut Vec<u8>, from: &str, to: &str| {
        let mut plain = zstd::stream::decode_all(&**bytes).unwrap();
        replace(&mut plain, from, to);
        *bytes = zstd::stream::encode_all(&*plain, 3).unwrap();
    };
    let world = World::new();
    let run = format!("journal/{}", world.run);
    for (from, to) in [
        ("write it", "wrote it"),
        ("\"sequence_number\":2", "\"sequence_number\":3"),
        ("{\"body\":", "{ \"body\":"),
        ("\"body\":{", "\"body\":null,\"bodi\":{"),
        ("\n", "\n\n"),
    ] {
        let faults = resigned(&run, |bytes| repack(bytes, from, to));
        let corrupt = |fault: &BundleFault| matches!(fault, BundleFault::CorruptTrace { trace_id, .. } if *trace_id == world.run);
        assert!(faults.iter().any(corrupt), "{from}: {faults:?}");
    }
}

#[test]
fn all_faults_are_reported_together() {
    let mut all = members(&GOOD);
    for start in ["blobs/", "checkpoints/", "journal/", "statement.json"] {
        member(&mut all, start).push(b' ');
    }
    let names: Vec<String> = faults(&archive(&all)).iter().map(ToString::to_string).collect();
    for start in ["`blobs/", "`checkpoints/", "`journal/", "`statement.json"] {
        let changed = |line: &&String| line.starts_with(start) && line.contains("was signed");
        assert_eq!(names.iter().filter(changed).count(), 1, "{names:?}");
    }
    assert!(names.iter().any(|line| line.contains("is corrupt")), "{names:?}");
}
