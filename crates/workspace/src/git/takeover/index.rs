//! What an index says, without what git only remembers about files: whoever asks for the status of a work tree
//! refreshes that.

use windlass_kernel::Digest;

/// The times and numbers of a file at the begin of an entry.
const STAT_BYTES: usize = 40;
/// Where among them the mode is, which counts.
const MODE: std::ops::Range<usize> = 24..28;
/// The flag of an entry that has more flags.
const EXTENDED: u16 = 0x4000;

/// The digest of what an index says; `None` when it is not in a form that is known here.
pub(super) fn digest_of_entries(bytes: &[u8], digits: usize) -> Option<String> {
    let mut rest = Rest(bytes);
    if rest.take(4)? != b"DIRC" {
        return None;
    }
    let version = rest.number()?;
    let count = rest.number()?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut said = format!("{version} {count}\n").into_bytes();
    for _ in 0..count {
        let start = rest.0.len();
        let stat = rest.take(STAT_BYTES)?;
        said.extend_from_slice(stat.get(MODE)?);
        said.extend_from_slice(rest.take(digits / 2)?);
        let flags = rest.take(2)?;
        said.extend_from_slice(flags);
        if u16::from_be_bytes(flags.try_into().ok()?) & EXTENDED != 0 {
            said.extend_from_slice(rest.take(2)?);
        }
        if version == 4 {
            // How much of the path before is dropped.
            loop {
                let byte = rest.take(1)?;
                said.extend_from_slice(byte);
                if byte.first()? & 0x80 == 0 {
                    break;
                }
            }
        }
        let length = rest.0.iter().position(|byte| *byte == 0)?;
        said.extend_from_slice(rest.take(length + 1)?);
        if version < 4 {
            // Each entry has a multiple of eight bytes.
            let read = start.checked_sub(rest.0.len())?;
            rest.take(read.next_multiple_of(8).checked_sub(read)?)?;
        }
    }
    // The checksum ends it.
    while rest.0.len() > digits / 2 {
        let name = rest.take(4)?;
        // What is written in small letters must be understood, such as the other part of a split index.
        if !name.first()?.is_ascii_uppercase() {
            return None;
        }
        let bytes = usize::try_from(rest.number()?).ok()?;
        rest.take(bytes)?;
    }
    Some(Digest::of(&said).hex().as_str().to_owned())
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn an_index_says_the_same_until_something_is_added() {
        for (format, digits) in [("sha1", 40), ("sha256", 64)] {
            for version in ["2", "3", "4"] {
                let folder = tempfile::tempdir().unwrap();
                let git = |words: &[&str]| {
                    let mut git = Command::new("git");
                    git.current_dir(folder.path()).env("GIT_CONFIG_GLOBAL", "/dev/null");
                    let done = git.args(words).output().unwrap();
                    assert!(done.status.success(), "{words:?}: {done:?}");
                    let bytes = std::fs::read(folder.path().join(".git/index"));
                    bytes.ok().map(|bytes| (digest_of_entries(&bytes, digits), bytes))
                };
                git(&["init", "-q", &format!("--object-format={format}")]);
                for name in ["a", "abcdefg", "abcdefgh", "folder with spaces", "é"] {
                    std::fs::write(folder.path().join(name), name).unwrap();
                }
                git(&["update-index", "--add", "a", "--index-version", version]);
                let (first, bytes) = git(&["add", "-A"]).unwrap();
                assert!(first.is_some(), "{format} {version}");
                let file = std::fs::File::options().write(true).open(folder.path().join("a"));
                file.unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
                let (again, refreshed) = git(&["update-index", "--refresh"]).unwrap();
                assert!(bytes != refreshed, "it is written again");
                assert_eq!(first, again);
                std::fs::write(folder.path().join("a"), "b").unwrap();
                let (other, _) = git(&["add", "a"]).unwrap();
                assert!(other.is_some() && other != first);
                let (intended, _) = git(&["update-index", "--skip-worktree", "a"]).unwrap();
                assert!(intended.is_some() && intended != other);
                for end in 0..bytes.len() - digits / 2 {
                    let part = bytes.get(..end).unwrap();
                    assert_ne!(digest_of_entries(part, digits), first, "{end}");
                }
                assert_eq!(digest_of_entries(b"DIRC\0\0\0\x02\xff\xff\xff\xff", digits), None);
            }
        }
    }
}
