//! Every damage to a blob file is found and reported.

use proptest::prelude::*;
use windlass_kernel::{Code, Digest};
use windlass_workspace::{BlobError, BlobStore};
use windlass_workspace::{BlobHeader, HEADER_BYTES, HashingStream, encoder};

use crate::blobs::{file_of, noise, put, read, store};

/// Reading must fail, naming the blob, and `check` must go on to the next one.
#[track_caller]
fn assert_found(blobs: &BlobStore, digest: &Digest, what: &str) {
    let bystander = put(blobs, b"a bystander").digest;
    let error = read(blobs, digest).err().unwrap_or_else(|| panic!("{what}"));
    assert_eq!(error.code(), Code::BlobCorrupt, "{what}: {error}");
    assert!(error.to_string().contains(&digest.to_string()), "{what}: {error}");
    let report = blobs.check().unwrap();
    assert_eq!((report.intact, report.errors.len()), (1, 1), "{what}: {report:?}");
    assert!(
        matches!(&report.errors[..], [BlobError::Corrupt { digest: found, .. }] if found == digest)
    );
    assert!(blobs.exists(&bystander).unwrap());
}

fn write(blobs: &BlobStore, digest: &Digest, bytes: &[u8]) {
    std::fs::write(file_of(blobs, digest), bytes).unwrap();
}

#[test]
fn every_changed_bit_is_found() {
    for content in [&b""[..], b"a", b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", &noise(3, 300)]
    {
        let (_folder, blobs) = store();
        let digest = put(&blobs, content).digest;
        let good = std::fs::read(file_of(&blobs, &digest)).unwrap();
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                write(&blobs, &digest, &bad);
                let error = read(&blobs, &digest).unwrap_err();
                assert_eq!(error.code(), Code::BlobCorrupt, "byte {at} bit {bit}: {error}");
            }
        }
    }
}

proptest! {
    #![proptest_config(crate::seed::config(4))]

    #[test]
    fn any_other_file_is_found(
        content in proptest::collection::vec(any::<u8>(), 0..2000),
        at in any::<proptest::sample::Index>(),
        cut in any::<proptest::sample::Index>(),
        value in 1_u8..,
    ) {
        let (_folder, blobs) = store();
        let digest = put(&blobs, &content).digest;
        let good = std::fs::read(file_of(&blobs, &digest)).unwrap();
        let mut bad = good.clone();
        bad[at.index(good.len())] ^= value;
        write(&blobs, &digest, &bad);
        assert_found(&blobs, &digest, "changed");
        write(&blobs, &digest, &good[..cut.index(good.len())]);
        assert_found(&blobs, &digest, "cut off");
        write(&blobs, &digest, &[&good[..], &[value]].concat());
        assert_found(&blobs, &digest, "longer");
        write(&blobs, &digest, &[&good[..], &good[..]].concat());
        assert_found(&blobs, &digest, "twice");
        write(&blobs, &digest, &content);
        assert_found(&blobs, &digest, "not packed");
    }
}

/// A blob file with valid digests whose header claims this length.
fn forged(content: &[u8], claimed: u64) -> Vec<u8> {
    let mut encoder = encoder(HashingStream::new(Vec::new())).unwrap();
    std::io::Write::write_all(&mut encoder, content).unwrap();
    let packed = encoder.finish().unwrap();
    let header = BlobHeader { bytes: claimed, compressed: packed.digest() };
    [&header.to_bytes()[..], &packed.into_inner()].concat()
}

#[test]
fn another_content_under_a_name_is_found() {
    let (_folder, blobs) = store();
    let digest = put(&blobs, b"right").digest;
    let other = forged(b"wrong", 5);
    write(&blobs, &digest, &other);
    assert_found(&blobs, &digest, "swapped");
}

#[test]
fn a_bomb_is_not_unpacked_beyond_what_it_admits() {
    let (_folder, blobs) = store();
    let digest = put(&blobs, b"small").digest;
    let bomb = forged(&vec![0; 32 << 20], 5);
    assert!(bomb.len() < 8192, "{}", bomb.len());
    write(&blobs, &digest, &bomb);
    assert_found(&blobs, &digest, "a bomb");
    let mut written = Vec::new();
    blobs.copy_to(&digest, &mut written).unwrap_err();
    assert_eq!(written.len(), 0, "nothing of it got through");
}

#[test]
fn a_huge_claimed_length_costs_nothing() {
    let (_folder, blobs) = store();
    let digest = put(&blobs, b"small").digest;
    for claimed in [6, 1 << 40, u64::MAX] {
        write(&blobs, &digest, &forged(b"small", claimed));
        assert_found(&blobs, &digest, "a claimed length");
    }
}

#[test]
fn a_window_that_is_too_large_is_refused() {
    let (_folder, blobs) = store();
    let content = noise(9, 1 << 10);
    let digest = put(&blobs, &content).digest;
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    encoder.window_log(27).unwrap();
    encoder.include_contentsize(false).unwrap();
    std::io::Write::write_all(&mut encoder, &content).unwrap();
    let packed = encoder.finish().unwrap();
    let header = BlobHeader { bytes: 1 << 10, compressed: Digest::of(&packed) };
    write(&blobs, &digest, &[&header.to_bytes()[..], &packed].concat());
    assert_found(&blobs, &digest, "128 MiB of window");
}

#[test]
fn what_does_not_even_start_well_is_put_anew() {
    let (_folder, blobs) = store();
    let digest = put(&blobs, b"mended").digest;
    for bad in [&b""[..], b"x", &forged(b"mended", 7)[..HEADER_BYTES]] {
        write(&blobs, &digest, bad);
        assert!(put(&blobs, b"mended").is_new);
        assert_eq!(read(&blobs, &digest).unwrap(), b"mended");
    }
}
