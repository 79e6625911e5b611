//! Whatever is done to a bundle is found.

use proptest::prelude::*;
use windlass_kernel::run::Event;
use windlass_kernel::{Digest, TraceId};
use windlass_seal::{Fault, Verdict};
use windlass_store::conformance::fixture::Fixture;

use crate::world::{
    GOOD, World, archive, check, faults, member, members, reseal, signer, started, trusting,
};

/// Changes one byte after the other, all of these that `is_tried` picks.
fn change_bytes(good: &[u8], is_tried: impl Fn(usize, u8) -> bool) {
    let trust = trusting(&[&signer(0)]);
    let mut bad = good.to_vec();
    for at in (0..good.len()).filter(|at| is_tried(*at, good[*at])) {
        let bit = 1 << ((at + at / 512) % 8);
        bad[at] ^= bit;
        assert_eq!(check(&bad, &trust).verdict(), Verdict::Damaged, "byte {at} bit {bit}");
        bad[at] ^= bit;
    }
}

#[test]
fn every_changed_byte_is_found() {
    let run = TraceId(Fixture::new().uuid());
    let small = World::of(run, vec![Event::Started(Box::new(started()))], &[]).bytes();
    // Padding is all alike, and there is much of it.
    change_bytes(&small, |at, byte| byte != 0 || at.is_multiple_of(31));
    change_bytes(&GOOD, |at, _| at.is_multiple_of(23));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 2 / 5))]

    #[test]
    fn any_cut_or_splice_is_found(
        at in any::<proptest::sample::Index>(),
        to in any::<proptest::sample::Index>(),
        noise in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let good = &*GOOD;
        let (start, end) = (at.index(good.len()), to.index(good.len()));
        let (start, end) = (start.min(end), start.max(end));
        let trust = trusting(&[&signer(0)]);
        let cut = good[..start].to_vec();
        prop_assert_eq!(check(&cut, &trust).verdict(), Verdict::Damaged);
        let spliced = [&good[..start], &noise, &good[end..]].concat();
        if spliced != *good {
            prop_assert_eq!(check(&spliced, &trust).verdict(), Verdict::Damaged);
        }
        let longer = [&good[..], &noise[..]].concat();
        if !noise.is_empty() {
            prop_assert_eq!(check(&longer, &trust).verdict(), Verdict::Damaged);
        }
    }
}

#[test]
fn every_member_that_is_removed_is_named() {
    let all = members(&GOOD);
    for at in 0..all.len() {
        let mut left = all.clone();
        let (name, _) = left.remove(at);
        let faults = faults(&archive(&left));
        assert!(
            faults.contains(&Fault::MemberMissing { name: name.clone() }),
            "{name}: {faults:?}"
        );
    }
}

#[test]
fn a_member_that_is_added_is_named() {
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
        let extra = Fault::MemberExtra { name: name.to_owned() };
        assert!(faults.contains(&extra), "{name}: {faults:?}");
    }
}

#[test]
fn members_that_are_swapped_or_renamed_are_named() {
    let all = members(&GOOD);
    for at in 1..all.len() {
        let mut swapped = all.clone();
        let (one, other) = (at - 1, at);
        let content = swapped[one].1.clone();
        swapped[one].1 = std::mem::replace(&mut swapped[other].1, content);
        let report = check(&archive(&swapped), &trusting(&[&signer(0)]));
        assert_eq!(report.verdict(), Verdict::Damaged, "{} and {}", all[one].0, all[other].0);
    }
}

#[test]
fn a_member_that_is_there_twice_ends_the_archive() {
    let all = members(&GOOD);
    for at in 0..all.len() {
        let mut twice = all.clone();
        twice.insert(at, all[at].clone());
        let faults = faults(&archive(&twice));
        let found =
            |fault: &Fault| matches!(fault, Fault::Archive { what } if what.contains("order"));
        assert!(faults.iter().any(found), "{faults:?}");
    }
}

#[test]
fn a_bundle_of_another_run_is_not_taken_for_this_one() {
    // Everything but the signature and the manifest from another run that the same key has signed.
    let mut world = World::new();
    let ours = members(&world.bytes());
    world.checkpoints.insert("0002-build-post".into(), b"{}".to_vec());
    let mut theirs = members(&world.bytes());
    for name in ["manifest.json", "signature.json"] {
        *member(&mut theirs, name) = member(&mut ours.clone(), name).clone();
    }
    let report = check(&archive(&theirs), &trusting(&[&signer(0)]));
    assert_eq!(report.verdict(), Verdict::Damaged);
}

/// Changes a member and signs all anew with the right key: only what the parts say of each other can
/// show it.
fn resealed(start: &str, change: impl FnOnce(&mut Vec<u8>)) -> Vec<Fault> {
    let mut all = members(&GOOD);
    change(member(&mut all, start));
    faults(&reseal(&mut all, &signer(0)))
}

#[test]
fn sealing_anew_what_is_whole_is_no_fault() {
    assert_eq!(resealed("manifest.json", |_| {}), []);
}

fn replace(bytes: &mut Vec<u8>, from: &str, to: &str) {
    let text = String::from_utf8(std::mem::take(bytes)).unwrap();
    assert!(text.contains(from));
    *bytes = text.replacen(from, to, 1).into_bytes();
}

#[test]
fn a_statement_must_say_what_the_journal_says() {
    for (from, to) in [("PASS", "BLOCKED"), ("\"main\"", "\"prod\""), ("run-1", "run-2")] {
        let faults = resealed("statement.json", |bytes| replace(bytes, from, to));
        assert!(faults.contains(&Fault::Disagrees { name: "statement.json".into() }), "{faults:?}");
        let envelope = |fault: &Fault| matches!(fault, Fault::Member { name, .. } if name == "statement.dsse.json");
        assert!(faults.iter().any(envelope), "the envelope holds another one: {faults:?}");
    }
}

#[test]
fn heads_must_be_those_of_the_traces_and_signed() {
    let world = World::new();
    let digest = world.heads[0].entry_digest.to_string();
    let other = Digest::of(b"other").to_string();
    let faults = resealed("heads.json", |bytes| replace(bytes, &digest, &other));
    assert!(faults.contains(&Fault::Head { trace_id: world.run }), "{faults:?}");
    let signed = |fault: &Fault| matches!(fault, Fault::Signature { .. });
    assert!(faults.iter().any(signed), "{faults:?}");
    let faults = resealed("heads.json", |bytes| *bytes = b"[]".to_vec());
    assert_eq!(faults.len(), 4, "{faults:?}");
}

#[test]
fn a_journal_must_hold_together() {
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
        let faults = resealed(&run, |bytes| repack(bytes, from, to));
        let broken = |fault: &Fault| matches!(fault, Fault::Chain { trace_id, .. } if *trace_id == world.run);
        assert!(faults.iter().any(broken), "{from}: {faults:?}");
    }
}

#[test]
fn all_faults_are_found_at_once() {
    let mut all = members(&GOOD);
    for start in ["blobs/", "checkpoints/", "journal/", "statement.json"] {
        member(&mut all, start).push(b' ');
    }
    let names: Vec<String> = faults(&archive(&all)).iter().map(ToString::to_string).collect();
    for start in ["`blobs/", "`checkpoints/", "`journal/", "`statement.json"] {
        let changed = |line: &&String| line.starts_with(start) && line.contains("was signed");
        assert_eq!(names.iter().filter(changed).count(), 1, "{names:?}");
    }
    assert!(names.iter().any(|line| line.contains("is damaged")), "{names:?}");
}
