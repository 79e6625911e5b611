//! Blobs are stored once, and can be read, listed and removed.

use std::os::unix::fs::PermissionsExt as _;

use proptest::prelude::*;
use windlass_kernel::{Code, Digest};
use windlass_workspace::StoredBlob;

use crate::blobs::{file_of, files, noise, put, read, store};

proptest! {
    #![proptest_config(crate::seed::config(4))]

    #[test]
    fn any_bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
        let (_folder, blobs) = store();
        let length = u64::try_from(bytes.len()).unwrap();
        let first = blobs.put(&mut &*bytes, length).unwrap();
        prop_assert_eq!(first, StoredBlob { digest: Digest::of(&bytes), bytes: length, is_new: true });
        let again = StoredBlob { is_new: false, ..first };
        prop_assert_eq!(blobs.put(&mut &*bytes, length).unwrap(), again);
        prop_assert_eq!(blobs.len(&first.digest).unwrap(), length);
        prop_assert_eq!(read(&blobs, &first.digest).unwrap(), bytes);
    }
}

#[test]
fn large_contents_pass_through_small_pieces() {
    let (folder, blobs) = store();
    for content in [noise(1, 3 << 20), vec![7; 5 << 20]] {
        let path = folder.path().join("source");
        std::fs::write(&path, &content).unwrap();
        let stored = blobs.put_file(&path, 5 << 20).unwrap();
        assert!(stored.is_new);
        assert!(!blobs.put_file(&path, 5 << 20).unwrap().is_new);
        assert_eq!(read(&blobs, &stored.digest).unwrap(), content);
    }
}

#[test]
fn each_content_is_one_file_and_only_ours_to_read() {
    let (_folder, blobs) = store();
    for _ in 0..3 {
        put(&blobs, b"one");
        put(&blobs, b"two");
    }
    let mut expected = [b"one", b"two"].map(|content| file_of(&blobs, &Digest::of(content)));
    expected.sort();
    assert_eq!(files(blobs.path()), expected);
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    for file in &expected {
        assert_eq!((mode(file), mode(file.parent().unwrap())), (0o600, 0o700));
    }
    assert_eq!(mode(blobs.path()), 0o700);
}

#[test]
fn an_existing_content_is_not_written_again() {
    let (_folder, blobs) = store();
    let digest = put(&blobs, b"kept").digest;
    let inode = |path| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).unwrap());
    let before = inode(file_of(&blobs, &digest));
    blobs.put(&mut &b"kept"[..], 4).unwrap();
    assert_eq!(inode(file_of(&blobs, &digest)), before);
}

#[test]
fn contents_are_listed_in_order_and_can_be_removed() {
    let (_folder, blobs) = store();
    let mut digests: Vec<Digest> =
        (0..50_u32).map(|n| put(&blobs, &n.to_le_bytes()).digest).collect();
    digests.sort();
    let listed = || blobs.list().unwrap().map(Result::unwrap).collect::<Vec<_>>();
    assert_eq!(listed(), digests);
    let gone = digests.remove(20);
    assert!(blobs.exists(&gone).unwrap());
    assert!(blobs.remove(&gone).unwrap());
    assert!(!blobs.remove(&gone).unwrap());
    assert!(!blobs.exists(&gone).unwrap());
    assert_eq!(listed(), digests);
    let report = blobs.check().unwrap();
    assert!(report.errors.is_empty(), "{report:?}");
    assert_eq!((report.intact, report.bytes), (49, 196));
}

#[test]
fn what_is_missing_is_named() {
    let (_folder, blobs) = store();
    let digest = Digest::of(b"never put");
    for error in [
        blobs.len(&digest).unwrap_err(),
        blobs.open_stored(&digest).unwrap_err(),
        blobs.copy_to(&digest, &mut Vec::new()).unwrap_err(),
    ] {
        assert_eq!(error.code(), Code::BlobMissing);
        assert!(error.to_string().contains(&digest.to_string()), "{error}");
    }
}

#[test]
fn more_than_allowed_is_refused_and_leaves_nothing() {
    let (folder, blobs) = store();
    let path = folder.path().join("source");
    std::fs::write(&path, b"12345").unwrap();
    for error in [
        blobs.put(&mut &b"12345"[..], 4).unwrap_err(),
        blobs.put(&mut std::io::repeat(1), 100_000).unwrap_err(),
        blobs.put_file(&path, 4).unwrap_err(),
    ] {
        assert_eq!(error.code(), Code::DocSizeExceeded, "{error}");
    }
    assert_eq!(files(blobs.path()), Vec::<std::path::PathBuf>::new());
    assert!(blobs.put_file(&path, 5).unwrap().is_new);
}

#[test]
fn a_source_that_fails_leaves_nothing() {
    struct Failing(u32);
    impl std::io::Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0 += 1;
            match self.0 {
                1 => {
                    buffer.fill(1);
                    Ok(buffer.len())
                }
                2 => Err(std::io::ErrorKind::Interrupted.into()),
                _ => Err(std::io::Error::other("the wire broke")),
            }
        }
    }
    let (_folder, blobs) = store();
    let error = blobs.put(&mut Failing(0), u64::MAX).unwrap_err();
    assert_eq!(error.code(), Code::FileUnreadable);
    assert_eq!(files(blobs.path()), Vec::<std::path::PathBuf>::new());
}

#[test]
fn other_programs_can_read_a_stored_content() {
    let (_folder, blobs) = store();
    let digest = put(&blobs, b"plain to zstd").digest;
    let bytes = std::fs::read(file_of(&blobs, &digest)).unwrap();
    // The library's own reader takes every frame and skips those that are to be skipped.
    assert_eq!(zstd::stream::decode_all(&*bytes).unwrap(), b"plain to zstd");
}
