//! Detects changes of the set of files that the user tracks, without starting git.
//!
//! Git rewrites an index whenever it refreshes it, so its modification time says little. A digest of the
//! paths in it says whether the set of tracked files has changed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ring::digest::{Context, SHA256};

use super::object_reader::{ObjectFormat, hex};

/// The header: `DIRC`, the version and the number of entries.
const HEADER_BYTES: usize = 12;
/// The file status in an entry, before the object id and two bytes of flags.
const STAT_BYTES: usize = 40;
/// The flag that says that two more bytes of flags follow.
const EXTENDED: u8 = 0x40;

/// Returns a text that differs when the set of tracked paths differs; for an index that cannot be
/// parsed, its file stamp.
pub(super) fn tracked_digest(index: &Path, format: ObjectFormat) -> String {
    let Ok(bytes) = fs::read(index) else { return file_stamp(index) };
    paths_digest(&bytes, format).unwrap_or_else(|| file_stamp(index))
}

/// Returns inode, size and modification time of a file, as text.
pub(super) fn file_stamp(path: &Path) -> String {
    fs::metadata(path).map_or_else(
        |_| "none".to_owned(),
        |file| {
            let (seconds, nanoseconds) = (file.mtime(), file.mtime_nsec());
            format!("{}-{}-{seconds}-{nanoseconds}", file.ino(), file.size())
        },
    )
}

/// The digest of all paths in an index of version 2 to 4; `None` for any other file, and for the newer
/// part of a split index.
fn paths_digest(bytes: &[u8], format: ObjectFormat) -> Option<String> {
    let number = |at: usize| -> Option<usize> {
        let four: [u8; 4] = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        usize::try_from(u32::from_be_bytes(four)).ok()
    };
    let (version, count) = (number(4)?, number(8)?);
    if !bytes.starts_with(b"DIRC") || !(2..=4).contains(&version) {
        return None;
    }
    let mut context = Context::new(&SHA256);
    let mut at = HEADER_BYTES;
    for _ in 0..count {
        let flags = at.checked_add(STAT_BYTES + format.bytes())?;
        let more = if bytes.get(flags)? & EXTENDED == 0 { 0 } else { 2 };
        let name = flags.checked_add(2 + more)?;
        // In version 4 the length of the prefix shared with the previous path comes first. It may have a NUL.
        let mut text = name;
        if version == 4 {
            while bytes.get(text)? & 0x80 != 0 {
                text += 1;
            }
            text += 1;
        }
        let length = bytes.get(text..)?.iter().position(|byte| *byte == 0)?;
        let end = text.checked_add(length)?;
        context.update(bytes.get(name..=end)?);
        at = if version == 4 {
            end.checked_add(1)?
        } else {
            // One to eight NULs, so that the next entry lies at a multiple of eight bytes.
            at.checked_add((end.checked_sub(at)? / 8 + 1) * 8)?
        };
    }
    let last = bytes.len().checked_sub(format.bytes())?;
    while at < last {
        if bytes.get(at..at.checked_add(4)?)? == b"link" {
            return None;
        }
        at = at.checked_add(8)?.checked_add(number(at.checked_add(4)?)?)?;
    }
    (at == last).then(|| hex(context.finish().as_ref()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_the_set_of_paths_changes_the_digest() {
        for (format, called) in [(ObjectFormat::Sha1, "sha1"), (ObjectFormat::Sha256, "sha256")] {
            for version in ["2", "3", "4"] {
                let folder = tempfile::tempdir().unwrap();
                let git = |arguments: &[&str]| {
                    let mut command = Command::new("git");
                    command.args(["-c", &format!("index.version={version}")]).args(arguments);
                    assert!(command.current_dir(&folder).status().unwrap().success());
                };
                let write =
                    |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
                let index = folder.path().join(".git/index");
                let now = || paths_digest(&fs::read(&index).unwrap(), format).unwrap();
                git(&["init", "-q", "--object-format", called]);
                for number in 0..30 {
                    write(&"n".repeat(number * 7 + 1), "x");
                }
                git(&["add", "-A"]);
                let one = now();
                write("n", "other");
                git(&["add", "-A"]);
                git(&["write-tree"]);
                git(&["add", "-N", "n"]);
                assert_eq!(now(), one, "{version} {called}");
                write("m", "x");
                git(&["add", "-N", "m"]);
                let two = now();
                git(&["rm", "-q", "--cached", "n"]);
                assert!(one != two && two != now() && one != now(), "{version} {called}");
                git(&["update-index", "--split-index"]);
                assert_eq!(paths_digest(&fs::read(&index).unwrap(), format), None);
            }
        }
    }

    #[test]
    fn other_files_are_refused() {
        let header = |version: u8, count: u8| {
            let mut bytes = b"DIRC\0\0\0\0\0\0\0\0".to_vec();
            (bytes[7], bytes[11]) = (version, count);
            bytes
        };
        let mut empty = header(2, 0);
        empty.extend([0; 20]);
        assert!(paths_digest(&empty, ObjectFormat::Sha1).is_some());
        for bad in [Vec::new(), header(2, 0), header(5, 0), header(4, 9), vec![0xff; 400]] {
            assert_eq!(paths_digest(&bad, ObjectFormat::Sha1), None, "{bad:?}");
        }
    }
}
