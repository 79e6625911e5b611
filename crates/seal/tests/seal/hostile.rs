//! Files crafted to attack the verifier.

use std::io::Cursor;

use proptest::prelude::*;
use windlass_seal::{BundleFault, BundleLimits, BundleVerdict, verify_bundle_within};

use crate::world::{
    GOOD, World, archive, check, faults, header, member, members, resign, signer, trusting,
};

/// A valid archive after one more member with a crafted header.
fn with_first(change: impl FnOnce(&mut [u8; 512]), content: &[u8]) -> Vec<u8> {
    let mut block: [u8; 512] = *header("a", u64::try_from(content.len()).unwrap()).as_bytes();
    change(&mut block);
    block[148..156].copy_from_slice(b"        ");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let padding = vec![0; content.len().wrapping_neg() % 512];
    [&block[..], content, &padding, &GOOD].concat()
}

#[track_caller]
fn refused_at_start(bytes: &[u8], what: &str) {
    let report = check(bytes, &trusting(&[&signer(0)]));
    assert_eq!(report.verdict(), BundleVerdict::Damaged, "{what}");
    let archive = BundleFault::NotAnArchive { reason: "at byte 0: the header is not valid".into() };
    assert_eq!(report.faults[0], archive, "{what}");
    assert_eq!((report.traces, report.entries), (0, 0), "{what}");
}

#[test]
fn unsafe_names_are_refused() {
    for name in [
        "/etc/passwd",
        "../up",
        "journal/../../up",
        "./a",
        "a//b",
        "a/",
        "journal/",
        "a\\b",
        ".hidden",
        "a/.b",
        "C:a",
        "a b",
        "a/b/c",
        "\u{fc}",
        "a\nb",
        "-\u{7f}",
    ] {
        let set = |block: &mut [u8; 512]| {
            block[..100].fill(0);
            block[..name.len()].copy_from_slice(name.as_bytes());
        };
        refused_at_start(&with_first(set, b"x"), name);
    }
    refused_at_start(&with_first(|block| block[..100].fill(b'a'), b"x"), "a name without an end");
    refused_at_start(&with_first(|block| block[..100].fill(0), b"x"), "no name");
    refused_at_start(&with_first(|block| block[345..350].fill(b'a'), b"x"), "a prefix");
}

#[test]
fn only_regular_files_are_accepted() {
    for kind in *b"1234567gxLKSVD\0" {
        let set = |block: &mut [u8; 512]| block[156] = kind;
        refused_at_start(&with_first(set, b""), &format!("type {kind}"));
    }
    let link = |block: &mut [u8; 512]| {
        block[156] = b'2';
        block[157..168].copy_from_slice(b"/etc/passwd");
    };
    refused_at_start(&with_first(link, b""), "a link");
}

#[test]
fn other_owners_times_and_modes_are_refused() {
    for (at, bytes) in [
        (100, &b"0000777\0"[..]),
        (108, b"0000001\0"),
        (116, b"0001750\0"),
        (136, b"14712345670\0"),
        (265, b"root"),
        (297, b"root"),
        (500, b"x"),
    ] {
        let set = |block: &mut [u8; 512]| block[at..at + bytes.len()].copy_from_slice(bytes);
        refused_at_start(&with_first(set, b"x"), &format!("field {at}"));
    }
}

#[test]
fn invalid_sizes_are_refused() {
    for size in [
        &b"77777777777\0"[..],
        b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
        b"-0000000001\0",
        b"+0000000001\0",
        b"           \0",
    ] {
        let set = |block: &mut [u8; 512]| block[124..136].copy_from_slice(size);
        let report = check(&with_first(set, b"x"), &trusting(&[&signer(0)]));
        assert_eq!(report.verdict(), BundleVerdict::Damaged, "{size:?}");
        assert!(
            matches!(report.faults[0], BundleFault::NotAnArchive { .. }),
            "{:?}",
            report.faults
        );
    }
}

#[test]
fn two_archives_in_one_file_are_refused() {
    let good = GOOD.clone();
    let twice = [&good[..], &good[..]].concat();
    let reason = |bytes: &[u8]| match &faults(bytes)[..] {
        [BundleFault::NotAnArchive { reason }] => reason.clone(),
        other => panic!("{other:?}"),
    };
    assert!(reason(&twice).contains("follows the end"));
    assert!(reason(&[&good[..], &[0; 512]].concat()).contains("follows the end"));
    assert!(reason(&good[..good.len() - 512]).contains("ends too early"));
    assert!(reason(&good[..good.len() - 1024]).contains("ends too early"));
}

#[test]
fn files_that_are_not_bundles_are_damaged() {
    for bytes in [&b""[..], b"hello", &[0; 1024], &[0xff; 4096], &archive(&[])] {
        let report = check(bytes, &trusting(&[&signer(0)]));
        assert_eq!(report.verdict(), BundleVerdict::Damaged);
        assert_eq!(report.signer, None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn noise_is_damaged_and_harmless(
        start in any::<proptest::sample::Index>(),
        noise in proptest::collection::vec(any::<u8>(), 1..3000),
    ) {
        let trust = trusting(&[&signer(0)]);
        prop_assert_eq!(check(&noise, &trust).verdict(), BundleVerdict::Damaged);
        let mut bytes = GOOD.clone();
        let at = start.index(bytes.len());
        let end = bytes.len().min(at + noise.len());
        let before = bytes.clone();
        bytes[at..end].copy_from_slice(&noise[..end - at]);
        if bytes != before {
            prop_assert_eq!(check(&bytes, &trust).verdict(), BundleVerdict::Damaged);
        }
    }
}

#[test]
fn too_many_members_or_bytes_are_refused() {
    let good = GOOD.clone();
    let within = |limits| {
        let trust = trusting(&[&signer(0)]);
        verify_bundle_within(&mut Cursor::new(&good), &trust, limits).unwrap().faults
    };
    let default = BundleLimits::of_size(good.len() as u64);
    assert_eq!(within(default), []);
    let few = within(BundleLimits { members_max: 5, ..default });
    assert!(
        matches!(&few[0], BundleFault::NotAnArchive { reason } if reason.contains("too many members"))
    );
    let little = within(BundleLimits { plain_bytes_max: 2000, ..default });
    let exceeded = BundleFault::LimitExceeded { limit: "2000 bytes".into() };
    assert!(little.contains(&exceeded), "{little:?}");
}

#[test]
fn mend_14_a_bundle_unpacks_to_no_more_than_its_size_allows() {
    let limit = |bytes| BundleLimits::of_size(bytes).plain_bytes_max;
    assert_eq!(limit(0), 1 << 30);
    assert_eq!(limit(1 << 30), 65 << 30);
    assert_eq!(limit(u64::MAX), u64::MAX);
    // One byte less than the bundle has is too little, as much as it has is enough.
    let good = GOOD.clone();
    let trust = trusting(&[&signer(0)]);
    let within = |plain_bytes_max| {
        let limits = BundleLimits { plain_bytes_max, ..BundleLimits::of_size(0) };
        verify_bundle_within(&mut Cursor::new(&good), &trust, limits).unwrap().verdict()
    };
    let least = (1..).map(|power| 1_u64 << power).find(|max| within(*max) == BundleVerdict::Intact);
    let least = least.unwrap();
    assert!(least <= limit(good.len() as u64), "{least}");
    assert_eq!(within(least / 4), BundleVerdict::Damaged);
}

/// The manifest lists a wrong decompressed size for a journal that decompresses to far more.
#[test]
fn a_decompression_bomb_stops_at_the_listed_size() {
    let world = World::new();
    let mut all = members(&world.bytes());
    let name = format!("journal/{}.jsonl.zst", world.run);
    let plain = zstd::stream::decode_all(&**member(&mut all, &name)).unwrap();
    let bomb = [&plain[..], &vec![b' '; 64 << 20]].concat();
    *member(&mut all, &name) = zstd::stream::encode_all(&*bomb, 3).unwrap();
    let bytes = resign(&mut all, &signer(0));
    let mut all = members(&bytes);
    // The manifest lists the size of the original journal.
    let manifest = String::from_utf8(member(&mut all, "manifest.json").clone()).unwrap();
    let lie = manifest.replace(&bomb.len().to_string(), &plain.len().to_string());
    assert_ne!(lie, manifest);
    *member(&mut all, "manifest.json") = lie.into_bytes();
    let faults = faults(&archive(&all));
    let cut = |fault: &BundleFault| matches!(fault, BundleFault::InvalidMember { reason, .. } if reason.contains("more than was signed"));
    assert!(faults.iter().any(cut), "{faults:?}");
}

#[test]
fn documents_must_be_canonical() {
    for name in
        ["manifest.json", "signature.json", "heads.json", "rotations.json", "statement.dsse.json"]
    {
        for change in [
            (|text: &str| format!("{text}\n")) as fn(&str) -> String,
            |text| format!(" {text}"),
            |text| text.replacen(':', ": ", 1) + if text == "[]" { " " } else { "" },
            |text| text.replacen('{', "{\"surplus\":1,", 1) + if text == "[]" { "[]" } else { "" },
        ] {
            let mut all = members(&GOOD);
            let bytes = member(&mut all, name);
            *bytes = change(std::str::from_utf8(bytes).unwrap()).into_bytes();
            let bytes = match name {
                "manifest.json" | "signature.json" => archive(&all),
                _ => resign(&mut all, &signer(0)),
            };
            let faults = faults(&bytes);
            let unusable = |fault: &BundleFault| matches!(fault, BundleFault::InvalidMember { name: found, .. } if found == name);
            assert!(faults.iter().any(unusable), "{name}: {faults:?}");
        }
    }
}
