//! A process that dies while it stores a blob.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Command, Stdio};

use windlass_workspace::BlobStore;

use crate::blobs::{files, noise, put};

const FOLDER: &str = "WINDLASS_TEST_BLOBS";

/// Gives random bytes, and prints a line when half of them were given; then it blocks.
struct Stuck {
    content: Vec<u8>,
    at: usize,
}

impl Read for Stuck {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.at >= self.content.len() {
            let mut output = std::io::stdout();
            output.write_all(b"\nhalf\n").and_then(|()| output.flush()).unwrap();
            loop {
                std::thread::park();
            }
        }
        let count = buffer.len().min(self.content.len() - self.at);
        buffer[..count].copy_from_slice(&self.content[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// Does nothing unless the test below has started this very program once more.
#[test]
fn child_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let blobs = BlobStore::open(folder).unwrap();
    let mut stuck = Stuck { content: noise(5, 2 << 20), at: 0 };
    blobs.put(&mut stuck, u64::MAX).unwrap();
}

#[test]
fn nothing_half_written_gets_a_final_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blobs");
    let blobs = BlobStore::open(&path).unwrap();
    let kept = put(&blobs, b"kept").digest;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "blobs::kill::child_that_is_killed", "--nocapture"])
        .env(FOLDER, &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    assert!(output.lines().map_while(Result::ok).any(|line| line == "half"));
    let writing = || files(&path).len() - 1;
    assert_eq!(writing(), 1, "the child writes");
    // While it lives, its temporary file is not removed.
    drop(BlobStore::open(&path).unwrap());
    assert_eq!(writing(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(blobs.list().unwrap().map(Result::unwrap).collect::<Vec<_>>(), [kept]);
    assert_eq!(writing(), 1, "a leftover");
    let blobs = BlobStore::open(&path).unwrap();
    assert_eq!(writing(), 0, "swept");
    assert!(blobs.check().unwrap().errors.is_empty());
}
