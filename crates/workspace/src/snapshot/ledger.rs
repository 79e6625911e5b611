//! The list of the snapshots that were made: which commit of the user's repository each borrows objects from, and when
//! it was made.
//!
//! A line is written before a snapshot counts. Lines are dropped only by whoever frees space, which changes the mark in
//! the first line: so what was found out about a snapshot holds as long as the mark is the same. A snapshot without a
//! line may borrow from every protected commit.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use windlass_kernel::Digest;

use super::repository::write_atomically;
use crate::{CommitId, TreeId};

/// The name of the file in the private git directory.
const FILE: &str = "ledger";
/// The begin of its first line, before the mark.
const HEADER: &str = "windlass snapshots 1 ";
/// The limit of the first line.
const HEADER_BYTES_MAX: u64 = 256;

/// A snapshot that was made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line {
    pub snapshot: TreeId,
    /// The commit that it borrows objects from; `None` if it borrows none.
    pub base: Option<CommitId>,
    /// When it was made, in seconds since 1970.
    pub at: u64,
}

impl Line {
    fn encode(&self) -> String {
        let base = self.base.as_ref().map_or("-", CommitId::as_str);
        format!("{} {base} {}\n", self.snapshot, self.at)
    }

    fn decode(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (snapshot, base, at) = (words.next()?, words.next()?, words.next()?);
        let base = if base == "-" { None } else { Some(base.parse().ok()?) };
        let line = Self { snapshot: snapshot.parse().ok()?, base, at: at.parse().ok()? };
        words.next().is_none().then_some(line)
    }
}

/// The seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A text that was not used before.
pub(super) fn new_mark() -> String {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let digest = Digest::of(format!("{time} {}", std::process::id()).as_bytes());
    digest.hex().as_str().chars().take(16).collect()
}

fn path(private: &Path) -> PathBuf {
    private.join(FILE)
}

/// Returns the mark; the file is created if it is missing.
pub(super) fn mark(private: &Path) -> io::Result<String> {
    let path = path(private);
    if !path.exists() {
        let mut file = tempfile::NamedTempFile::new_in(private)?;
        file.write_all(format!("{HEADER}{}\n", new_mark()).as_bytes())?;
        match file.persist_noclobber(&path) {
            Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error.error);
            }
            Ok(_) | Err(_) => {}
        }
    }
    let mut start = Vec::new();
    File::open(&path)?.take(HEADER_BYTES_MAX).read_to_end(&mut start)?;
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(String::from_utf8_lossy(line).into_owned())
}

/// Adds lines; [`mark`] has created the file.
pub(super) fn append(private: &Path, lines: &[Line]) -> io::Result<()> {
    let mut file = File::options().read(true).append(true).open(path(private))?;
    let mut last = [b'\n'];
    if file.seek(SeekFrom::End(0))? > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    // A process that was killed may have left a part of a line.
    let lead = if last == *b"\n" { "" } else { "\n" };
    let text: String = lines.iter().map(Line::encode).collect();
    file.write_all(format!("{lead}{text}").as_bytes())
}

/// Reads all lines. What is none is left out.
pub(super) fn read(private: &Path) -> io::Result<Vec<Line>> {
    match fs::read(path(private)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        bytes => {
            let bytes = bytes?;
            let lines = bytes.split(|byte| *byte == b'\n').skip(1);
            Ok(lines.filter_map(|line| Line::decode(std::str::from_utf8(line).ok()?)).collect())
        }
    }
}

/// Replaces all lines, and the mark.
pub(super) fn rewrite<'a>(
    private: &Path,
    lines: impl IntoIterator<Item = &'a Line>,
) -> io::Result<()> {
    let mut text = format!("{HEADER}{}\n", new_mark());
    for line in lines {
        text.push_str(&line.encode());
    }
    write_atomically(&path(private), text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_survive_a_torn_one_and_the_mark_tells_of_a_rewrite() {
        let folder = tempfile::tempdir().unwrap();
        let private = folder.path();
        let line = |digit: &str, base: Option<&str>| Line {
            snapshot: digit.repeat(40).parse().unwrap(),
            base: base.map(|base| base.repeat(64).parse().unwrap()),
            at: 7,
        };
        assert_eq!(read(private).unwrap(), []);
        let first = mark(private).unwrap();
        assert_eq!(mark(private).unwrap(), first);
        let lines = [line("a", None), line("b", Some("c"))];
        append(private, &lines[..1]).unwrap();
        let mut torn = File::options().append(true).open(path(private)).unwrap();
        torn.write_all(b"dddd").unwrap();
        append(private, &lines[1..]).unwrap();
        assert_eq!(read(private).unwrap(), lines);
        assert_eq!(mark(private).unwrap(), first);
        rewrite(private, &lines[1..]).unwrap();
        assert_eq!(read(private).unwrap(), lines[1..]);
        assert_ne!(mark(private).unwrap(), first);
        for bad in ["", "a b c", &format!("{} - x", "a".repeat(40))] {
            assert_eq!(Line::decode(bad), None, "{bad}");
        }
    }
}
