//! What a process knows of a work tree from the last time that it looked at it: attributes of paths, and an index with the
//! file status of what is as in the current commit. With these, git reads only files that have changed since.
//!
//! INVARIANT: it only saves work. An index has the entries of the current commit, and git compares the status of each file
//! with it. One that may change again without a change of its status has none there, so it is read.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use windlass_kernel::Digest;

use super::CommitId;
use super::filters::Attribute;
use crate::snapshot::tree_index;

/// How many work trees are known.
const KNOWN_MAX: usize = 8;
/// The size limit of an index that is kept.
const INDEX_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long after its last change a file is read again: git compares times by the second, and the clock of the file system
/// may be a little behind.
const RECENT_SECONDS: u64 = 2;
/// The times and numbers of a file at the begin of an entry, and where its mode is among them.
const STAT_BYTES: usize = 40;
const MODE: std::ops::Range<usize> = 24..28;
/// The size limit of the two lines before an index that is kept.
const HEADER_LINES_MAX: u64 = 1024;
/// The header: `DIRC`, the version and the number of entries.
const HEADER_BYTES: usize = 12;
/// The flag of an entry that has more flags.
const EXTENDED: u16 = 0x4000;

/// The attributes of paths.
#[derive(Clone, Debug)]
pub(super) struct KnownAttributes {
    /// What they were read from.
    pub sources: String,
    /// The paths that were looked up, each with a NUL at its end.
    pub paths: HashSet<Vec<u8>>,
    /// What was found.
    pub found: Vec<Attribute>,
}

/// An index with the entries of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownIndex {
    pub head: CommitId,
    /// The fingerprint of the conversions of its files.
    pub conversions: String,
    pub bytes: Vec<u8>,
}

/// Where indexes are kept for later processes.
static FOLDER: OnceLock<PathBuf> = OnceLock::new();
static ATTRIBUTES: Mutex<BTreeMap<PathBuf, KnownAttributes>> = Mutex::new(BTreeMap::new());
static INDEXES: Mutex<BTreeMap<PathBuf, KnownIndex>> = Mutex::new(BTreeMap::new());

impl KnownAttributes {
    pub fn new(sources: &str) -> Self {
        Self { sources: sources.to_owned(), paths: HashSet::new(), found: Vec::new() }
    }
}

/// Takes what is known; who uses it keeps it again.
pub(super) fn take_attributes(top: &Path) -> Option<KnownAttributes> {
    take(&ATTRIBUTES, top)
}

pub(super) fn keep_attributes(top: &Path, known: KnownAttributes) {
    keep(&ATTRIBUTES, top, known);
}

/// Keeps what this process knows of work trees for later ones, in a private git directory of snapshots, which sweeps what
/// belongs to no work tree any more. The first folder that is named counts.
pub fn keep_indexes_in(private: &Path) {
    // Another one is as good.
    drop(FOLDER.set(private.to_owned()));
}

/// The objects of the snapshots of this process, if it has any: trees that are compared may be among them alone.
pub(super) fn objects() -> Option<PathBuf> {
    FOLDER.get().map(|folder| folder.join("objects")).filter(|objects| objects.is_dir())
}

pub(super) fn take_index(top: &Path) -> Option<KnownIndex> {
    take(&INDEXES, top).or_else(|| load(&FOLDER.get()?.join(tree_index(top))))
}

/// Keeps an index; a new one also for later processes.
pub(super) fn keep_index(top: &Path, known: KnownIndex, is_new: bool) {
    if known.bytes.len() > INDEX_BYTES_MAX {
        return;
    }
    if let Some(folder) = FOLDER.get().filter(|folder| is_new && folder.is_dir()) {
        // Without it, the next process reads all files.
        drop(save(folder, &folder.join(tree_index(top)), &known));
    }
    keep(&INDEXES, top, known);
}

/// Writes an index after a line with the digest of all that follows, which git does not check, and a line with what it was
/// made from.
fn save(folder: &Path, path: &Path, known: &KnownIndex) -> io::Result<()> {
    let KnownIndex { head, conversions, bytes } = known;
    let mut content = format!("{} {conversions}\n", head.as_str()).into_bytes();
    content.extend_from_slice(bytes);
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(format!("{}\n", Digest::of(&content).hex().as_str()).as_bytes())?;
    file.write_all(&content)?;
    file.persist(path)?;
    Ok(())
}

fn load(path: &Path) -> Option<KnownIndex> {
    let mut bytes = Vec::new();
    let limit = INDEX_BYTES_MAX as u64 + HEADER_LINES_MAX;
    File::open(path).ok()?.take(limit).read_to_end(&mut bytes).ok()?;
    let (digest, content) = super::split_once(&bytes, b'\n')?;
    if digest != Digest::of(content).hex().as_str().as_bytes() {
        // Another one will take its place.
        drop(fs::remove_file(path));
        return None;
    }
    let (line, index) = super::split_once(content, b'\n')?;
    let (head, conversions) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    let head = head.parse().ok()?;
    Some(KnownIndex { head, conversions: conversions.to_owned(), bytes: index.to_vec() })
}

fn take<T>(all: &Mutex<BTreeMap<PathBuf, T>>, top: &Path) -> Option<T> {
    all.lock().unwrap_or_else(PoisonError::into_inner).remove(top)
}

fn keep<T>(all: &Mutex<BTreeMap<PathBuf, T>>, top: &Path, known: T) {
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    if all.len() >= KNOWN_MAX {
        all.pop_first();
    }
    all.insert(top.to_owned(), known);
}

/// Takes the status of files that have changed since about this time out of an index, whose checksum is wrong afterwards:
/// git does not look at it. `None` for an index of another form than git writes by itself.
pub(super) fn forget_recent(bytes: &mut [u8], digits: usize, began: u64) -> Option<()> {
    let number = |bytes: &[u8]| -> Option<u32> { Some(u32::from_be_bytes(bytes.try_into().ok()?)) };
    let (header, _) = bytes.split_at_checked(HEADER_BYTES)?;
    let version = number(header.get(4..8)?)?;
    let count = number(header.get(8..)?)?;
    if !header.starts_with(b"DIRC") || !(2..=3).contains(&version) {
        return None;
    }
    let mut at = HEADER_BYTES;
    for _ in 0..count {
        let entry = bytes.get_mut(at..)?;
        let flags = entry.get(STAT_BYTES + digits / 2..)?.get(..2)?;
        let extended = u16::from_be_bytes(flags.try_into().ok()?) & EXTENDED != 0;
        let name = STAT_BYTES + digits / 2 + if extended { 4 } else { 2 };
        let length = entry.get(name..)?.iter().position(|byte| *byte == 0)?;
        let stat = entry.get_mut(..STAT_BYTES)?;
        let changed = u64::from(number(stat.get(..4)?)?);
        if changed.saturating_add(RECENT_SECONDS) >= began {
            stat.get_mut(..MODE.start)?.fill(0);
            stat.get_mut(MODE.end..)?.fill(0);
        }
        // One to eight NULs, so that the next entry lies at a multiple of eight bytes.
        at = at.checked_add(((name + length) / 8 + 1) * 8)?;
    }
    (at <= bytes.len()).then_some(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn what_has_just_changed_has_no_status() {
        for (format, digits) in [("sha1", 40), ("sha256", 64)] {
            let folder = tempfile::tempdir().unwrap();
            let git = |words: &[&str]| {
                let mut git = Command::new("git");
                git.current_dir(folder.path()).env("GIT_CONFIG_GLOBAL", "/dev/null");
                let done = git.args(["-c", "index.version=2"]).args(words).output().unwrap();
                assert!(done.status.success(), "{words:?}: {done:?}");
                String::from_utf8(done.stdout).unwrap()
            };
            git(&["init", "-q", &format!("--object-format={format}")]);
            for length in 1..20 {
                std::fs::write(folder.path().join("n".repeat(length)), "x").unwrap();
            }
            git(&["add", "-A"]);
            git(&["add", "-N", "."]);
            let index = folder.path().join(".git/index");
            let written = std::fs::read(&index).unwrap();
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            let mut later = written.clone();
            forget_recent(&mut later, digits, (now + Duration::from_secs(60)).as_secs()).unwrap();
            assert!(later == written, "nothing is recent a minute later");
            let mut bytes = written.clone();
            forget_recent(&mut bytes, digits, now.as_secs()).unwrap();
            std::fs::write(&index, &bytes).unwrap();
            assert_eq!(git(&["diff-files", "--name-only"]).lines().count(), 19);
            git(&["update-index", "-q", "--refresh"]);
            assert_eq!(git(&["diff-files", "--name-only"]), "");
            for bad in [&b""[..], b"DIRC", b"DIRC\0\0\0\x04\0\0\0\0", b"DIRC\0\0\0\x02\0\0\0\x01"] {
                assert_eq!(forget_recent(&mut bad.to_vec(), digits, 0), None, "{bad:?}");
            }
        }
    }

    #[test]
    fn a_kept_index_is_read_again_only_if_nothing_of_it_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().join("top");
        keep_indexes_in(folder.path());
        let head: CommitId = "a".repeat(40).parse().unwrap();
        let known = KnownIndex { head, conversions: "x".to_owned(), bytes: b"DIRC\n\0\n".to_vec() };
        assert_eq!(take_index(&top), None);
        keep_index(&top, known.clone(), false);
        assert_eq!((take_index(&top), take_index(&top)), (Some(known.clone()), None));
        keep_index(&top, known.clone(), true);
        take(&INDEXES, &top);
        assert_eq!(take_index(&top), Some(known.clone()));
        let path = folder.path().join(tree_index(&top));
        let bytes = fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            fs::write(&path, &other).unwrap();
            assert_eq!(take_index(&top), None, "{at}");
        }
        fs::write(&path, bytes.get(..bytes.len() - 1).unwrap()).unwrap();
        assert_eq!(take_index(&top), None);
        assert!(!path.exists());
    }

    #[test]
    fn only_so_many_are_known() {
        let all = Mutex::new(BTreeMap::new());
        for number in 0..20 {
            keep(&all, Path::new(&number.to_string()), number);
        }
        assert_eq!(all.lock().unwrap().len(), KNOWN_MAX);
        assert_eq!((take(&all, Path::new("9")), take(&all, Path::new("9"))), (Some(9), None));
    }
}
