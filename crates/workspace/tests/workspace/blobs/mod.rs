//! The blob store: a blob that was stored is read back, and no other bytes ever are.

mod damage;
mod keep;
mod kill;
mod plant;
mod race;

use std::path::{Path, PathBuf};

use windlass_kernel::Digest;
use windlass_workspace::{BlobError, BlobStore, StoredBlob};

/// A store in a temporary folder, which exists as long as the first value.
fn store() -> (tempfile::TempDir, BlobStore) {
    let folder = tempfile::tempdir().unwrap();
    let blobs = BlobStore::open(folder.path().join("blobs")).unwrap();
    (folder, blobs)
}

/// Stores bytes.
#[track_caller]
fn put(blobs: &BlobStore, bytes: &[u8]) -> StoredBlob {
    blobs.put(&mut &*bytes, u64::MAX).unwrap()
}

/// Reads a blob into memory.
fn read(blobs: &BlobStore, digest: &Digest) -> Result<Vec<u8>, BlobError> {
    let mut bytes = Vec::new();
    blobs.copy_to(digest, &mut bytes).map(|_| bytes)
}

/// The path of a blob.
fn file_of(blobs: &BlobStore, digest: &Digest) -> PathBuf {
    let hex = digest.to_string();
    let (folder, rest) = hex.split_at(2);
    blobs.path().join(folder).join(format!("{rest}.zst"))
}

/// All regular files below a folder but the lock.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.file_name().unwrap() != ".lock" {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Bytes that do not compress, the same for the same seed.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(length).collect()
}
