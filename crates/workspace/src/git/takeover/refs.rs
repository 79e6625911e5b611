//! Refs in an overlay: what they were, what they are, and what a command made of them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat};
use serde::{Deserialize, Serialize};

use super::layers::{Found, Kind, Layers, OPAQUE, kind_of, open_file, read_file};
use super::{REPLACE_REFS, TakeOverError};
use crate::snapshot::SNAPSHOT_REFS;

/// The file with all packed refs.
const PACKED: &str = "packed-refs";
/// Refs of one work tree alone, which git does not pack.
const OWN: [&str; 3] = ["refs/bisect/", "refs/worktree/", "refs/rewritten/"];
/// What is known of the branches of other repositories.
const REMOTES: &str = "refs/remotes/";
/// How many refs a repository may have.
const REFS_MAX: usize = 200_000;
/// The size limit of a file with one ref, and of a line of `packed-refs`: an id, a name as long as git can make one, the
/// space between both and the line break.
const REF_BYTES_MAX: u64 = 64 + 1 + 4096 + 1;
/// The folder of the logs of Windlass's own refs. Git writes none, unless somebody made the folder.
pub(super) const OWN_LOGS: &str = "logs/refs/windlass";
/// The size limit of `packed-refs`, without Windlass's own refs.
const PACKED_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The value of a ref, as git writes it: an object id, or `ref: ` and the name of another ref.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct RefValue(String);

/// A ref, and how it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stored {
    /// In a file of its own, which has precedence.
    loose: Option<RefValue>,
    /// In `packed-refs`.
    packed: Option<RefValue>,
}

impl Stored {
    /// The value that counts.
    pub fn value(&self) -> Option<&RefValue> {
        self.loose.as_ref().or(self.packed.as_ref())
    }
}

pub(super) type Refs = BTreeMap<String, Stored>;

/// A change of a ref; `None` when it does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RefChange {
    pub name: String,
    pub before: Option<RefValue>,
    pub after: Option<RefValue>,
}

impl RefValue {
    /// Reads the content of a ref file; `None` when it is not valid, or leads to a ref of Windlass: whoever commits on
    /// such a branch would move that ref.
    pub fn parse(bytes: &[u8], digits: usize) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?.trim_end();
        match text.strip_prefix("ref:") {
            Some(target) => {
                let target = target.trim_start();
                let valid = is_ref_name(target) && !is_windlass(target);
                valid.then(|| Self(format!("ref: {target}")))
            }
            None => is_id(text, digits).then(|| Self(text.to_owned())),
        }
    }

    /// The ref that it points to.
    pub fn target(&self) -> Option<&str> {
        self.0.strip_prefix("ref: ")
    }

    /// The object that it points to.
    pub fn id(&self) -> Option<&str> {
        if self.target().is_none() { Some(&self.0) } else { None }
    }
}

impl fmt::Display for RefValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

fn is_id(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a name is that of one of Windlass's own refs, or takes the place of their folder.
pub(super) fn is_windlass(name: &str) -> bool {
    name.strip_prefix(SNAPSHOT_REFS.trim_end_matches('/'))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether git accepts this as a full name of a ref.
pub(super) fn is_ref_name(name: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && !part.starts_with(['.', '-'])
            && !part.ends_with('.')
            && !part.ends_with(".lock")
    };
    name.strip_prefix("refs/").is_some_and(|rest| rest.split('/').all(part))
        && !name.contains("..")
        && !name.contains("@{")
        && !name.chars().any(|character| character.is_control() || " ~^:?*[\\".contains(character))
}

/// Whether a symbolic ref may lead to another one: a current commit or a branch to a branch, and a ref of a remote to one of
/// the same remote. Whoever commits on a branch that leads elsewhere writes there, for example below `refs/replace`.
pub(super) fn may_lead_to(name: &str, target: &str) -> bool {
    let remote = |name: &str| {
        let rest = name.strip_prefix(REMOTES)?;
        rest.split('/').next().map(str::to_owned)
    };
    match remote(name) {
        Some(own) => remote(target).is_some_and(|other| own == other),
        None => target.starts_with("refs/heads/"),
    }
}

/// Whether a new ref hides one of a remote: git takes `origin/main` for a tag or branch of that name first, and `origin`
/// for a tag or branch before it looks at the remote's own branch.
fn hides_a_remote(name: &str, base: &Refs, now: &Refs) -> bool {
    let short =
        ["refs/tags/", "refs/heads/", "refs/"].iter().find_map(|start| name.strip_prefix(start));
    let Some(short) = short else { return false };
    let hidden = [format!("{REMOTES}{short}"), format!("{REMOTES}{short}/HEAD")];
    let has = |refs: &Refs| hidden.iter().any(|name| refs.contains_key(name));
    !name.starts_with(REMOTES) && (has(base) || has(now))
}

/// Which folder is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Folder {
    /// What is not valid is left out, and so are Windlass's own refs, whose number grows with every run.
    Real,
    /// What is not valid is an error.
    Upper,
}

/// Reads the refs of a repository, without Windlass's own.
pub(super) fn read_refs(common: &Path, digits: usize) -> Result<Refs, TakeOverError> {
    let mut refs = Refs::new();
    // In this order, as git does it: whoever packs a ref removes its file afterwards.
    for (name, value) in read_loose(common, digits, Folder::Real)? {
        refs.entry(name).or_default().loose = Some(value);
    }
    for (name, value) in read_packed(common, digits, Folder::Real)?.unwrap_or_default() {
        refs.entry(name).or_default().packed = Some(value);
    }
    Ok(refs)
}

/// Puts refs into the upper layer, over those of the lower one, so that a command sees them as they were when it began:
/// what somebody else does to refs meanwhile would otherwise be packed by the command, and look like its own work.
pub(super) fn show(refs: &Refs, upper: &Path) -> io::Result<()> {
    let folder = upper.join("refs");
    for name in ["heads", "tags"] {
        fs::create_dir_all(folder.join(name))?;
    }
    rustix::fs::lsetxattr(&folder, OPAQUE, b"y", XattrFlags::empty())?;
    let mut packed = b"# pack-refs with: sorted \n".to_vec();
    for (name, stored) in refs {
        let Some(value) = stored.value() else { continue };
        if value.id().is_some() && !OWN.iter().any(|own| name.starts_with(own)) {
            packed.extend_from_slice(format!("{value} {name}\n").as_bytes());
            continue;
        }
        let path = upper.join(name);
        fs::create_dir_all(path.parent().unwrap_or(upper))?;
        fs::write(path, format!("{value}\n"))?;
    }
    fs::write(upper.join(PACKED), packed)?;
    hide_lock(upper, Path::new(PACKED));
    Ok(())
}

/// Hides the lock of a file of the repository from the command, which writes to a file of its own: the overlay goes on to
/// show a lock that is long gone. Where the kernel allows it to root alone, it stays visible.
pub(super) fn hide_lock(upper: &Path, path: &Path) {
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    hide(upper, Path::new(&lock));
}

/// Hides a path of the repository from the command.
pub(super) fn hide(upper: &Path, path: &Path) {
    let path = upper.join(path);
    let _ = fs::create_dir_all(path.parent().unwrap_or(upper));
    // The mark of something that was removed.
    let _ = mknodat(CWD, &path, FileType::CharacterDevice, Mode::empty(), 0);
}

/// The refs as the command left them.
pub(super) fn refs_after(upper: &Path, digits: usize) -> Result<Refs, TakeOverError> {
    let mut refs = Refs::new();
    let packed = match kind_of(&upper.join(PACKED)) {
        Some(Kind::Whiteout) | None => None,
        Some(_) => read_packed(upper, digits, Folder::Upper)?,
    };
    for (name, value) in packed.unwrap_or_default() {
        refs.entry(name).or_default().packed = Some(value);
    }
    for (name, value) in read_loose(upper, digits, Folder::Upper)? {
        refs.entry(name).or_default().loose = Some(value);
    }
    Ok(refs)
}

/// Reads `packed-refs`; `None` when there is none.
fn read_packed(
    folder: &Path,
    digits: usize,
    which: Folder,
) -> Result<Option<BTreeMap<String, RefValue>>, TakeOverError> {
    let damaged = |why: &str| TakeOverError::damaged(Path::new(PACKED), why);
    let path = folder.join(PACKED);
    match kind_of(&path) {
        None => Ok(None),
        Some(Kind::File { .. }) => {
            let bytes = match which {
                Folder::Real => read_others(&path),
                Folder::Upper => read_file(&path, PACKED_BYTES_MAX),
            };
            let bytes = bytes.map_err(|error| damaged(&error.to_string()))?;
            parse_packed(&bytes, digits).map(Some).ok_or_else(|| damaged("it is not valid"))
        }
        Some(Kind::Folder { .. } | Kind::Whiteout | Kind::Other) => Err(damaged("it is no file")),
    }
}

/// Reads the lines of `packed-refs` that are not of Windlass's own refs.
fn read_others(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = BufReader::new(open_file(path)?);
    let (mut bytes, mut start) = (Vec::new(), 0);
    while file.by_ref().take(REF_BYTES_MAX).read_until(b'\n', &mut bytes)? > 0 {
        let line = bytes.get(start..).unwrap_or_default();
        if line.len() as u64 == REF_BYTES_MAX && !line.ends_with(b"\n") {
            return Err(io::Error::other("a line is too long"));
        }
        let name = line.splitn(2, |byte| *byte == b' ').nth(1).unwrap_or_default();
        let name = std::str::from_utf8(name).unwrap_or_default().trim_end();
        // The others say what tags lead to.
        if line.starts_with(b"^") || is_windlass(name) {
            bytes.truncate(start);
        }
        start = bytes.len();
        if start as u64 > PACKED_BYTES_MAX {
            return Err(io::Error::other(format!("it has more than {PACKED_BYTES_MAX} bytes")));
        }
    }
    Ok(bytes)
}

/// Reads the refs that have files of their own.
fn read_loose(
    folder: &Path,
    digits: usize,
    which: Folder,
) -> Result<BTreeMap<String, RefValue>, TakeOverError> {
    let layers = Layers { upper: None, lower: folder.to_owned() };
    let mut refs = BTreeMap::new();
    let own = Path::new(SNAPSHOT_REFS);
    let skipped = (which == Folder::Real).then_some(own);
    for (path, found) in layers.files_without(Path::new("refs"), skipped, REFS_MAX)? {
        let lock = path.extension().is_some_and(|end| end == "lock");
        let value = match found {
            Found::Lower(_, Kind::Whiteout) => continue,
            _ if lock => continue,
            Found::Lower(file, Kind::File { .. }) => read_file(&file, REF_BYTES_MAX).ok(),
            Found::Lower(..) | Found::Upper(..) | Found::Absent => None,
        };
        let name = path.to_str().filter(|name| is_ref_name(name));
        match (name, value.and_then(|bytes| RefValue::parse(&bytes, digits)), which) {
            (Some(name), Some(value), _) => {
                refs.insert(name.to_owned(), value);
            }
            (_, _, Folder::Upper) => {
                return Err(TakeOverError::damaged(&path, "it is no valid ref"));
            }
            (_, _, Folder::Real) => {}
        }
    }
    Ok(refs)
}

fn parse_packed(bytes: &[u8], digits: usize) -> Option<BTreeMap<String, RefValue>> {
    let mut refs = BTreeMap::new();
    let text = std::str::from_utf8(bytes).ok()?;
    for line in text.lines().filter(|line| !line.starts_with(['#', '^'])) {
        let (id, name) = line.split_once(' ')?;
        if !is_id(id, digits) || !is_ref_name(name) || refs.len() > REFS_MAX {
            return None;
        }
        refs.insert(name.to_owned(), RefValue(id.to_owned()));
    }
    Some(refs)
}

/// Finds the refs that the command changed. One that the user changed meanwhile too, in another way, is a
/// conflict. A command that reached nobody knows nothing new of the branches of others.
pub(super) fn changes(
    base: &Refs,
    now: &Refs,
    after: &Refs,
    reaches_others: bool,
    protected: &mut Vec<String>,
) -> Result<Vec<RefChange>, TakeOverError> {
    let value = |refs: &Refs, name: &str| refs.get(name).and_then(Stored::value).cloned();
    let names: BTreeSet<&String> = base.keys().chain(after.keys()).collect();
    let mut changes = Vec::new();
    for name in names {
        let (before, present) = (value(base, name), value(now, name));
        let after = value(after, name);
        if after == before || after == present {
            continue;
        }
        let is_forged = name.starts_with(REMOTES) && !reaches_others;
        let is_hiding = before.is_none() && hides_a_remote(name, base, now);
        if is_windlass(name) || name.starts_with(REPLACE_REFS) || is_forged || is_hiding {
            protected.push(name.clone());
            continue;
        }
        if present != before {
            return Err(TakeOverError::Conflict(name.clone()));
        }
        changes.push(RefChange { name: name.clone(), before, after });
    }
    Ok(changes)
}

/// The input of `git update-ref --stdin` for changes of ids.
pub(super) fn transaction(changes: &[RefChange], digits: usize) -> Vec<u8> {
    let none = "0".repeat(digits);
    let id = |value: &Option<RefValue>| {
        value.as_ref().and_then(RefValue::id).map_or_else(|| none.clone(), str::to_owned)
    };
    let mut input = b"start\n".to_vec();
    for RefChange { name, before, after } in changes {
        let line = match after {
            Some(_) => format!("option no-deref\nupdate {name} {} {}\n", id(after), id(before)),
            None => format!("option no-deref\ndelete {name} {}\n", id(before)),
        };
        input.extend_from_slice(line.as_bytes());
    }
    input.extend_from_slice(b"prepare\ncommit\n");
    input
}

/// The path of the file with the current commit of a git directory.
pub(super) fn head_of(git_dir: &Path) -> PathBuf {
    git_dir.join("HEAD")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_refs_have_names_as_long_as_git_makes_them() {
        let folder = tempfile::tempdir().unwrap();
        for digits in [40, 64] {
            let id = "a".repeat(digits);
            // Names of files have at most 255 bytes.
            let parts = |bytes: usize| {
                let mut name = "refs/heads".to_owned();
                while name.len() < bytes {
                    name += "/";
                    name += &"n".repeat((bytes - name.len()).min(200));
                }
                name
            };
            let long = parts(4096);
            let write = |name: &str| {
                let lines = format!("# pack-refs with: peeled\n{id} {name}\n{id} refs/tags/t\n");
                fs::write(folder.path().join(PACKED), lines).unwrap();
                read_packed(folder.path(), digits, Folder::Real)
            };
            let refs = write(&long).unwrap().unwrap();
            let value = RefValue(id.clone());
            let expected = [(long, value.clone()), ("refs/tags/t".to_owned(), value)];
            assert_eq!(refs, BTreeMap::from(expected));
            let longer = format!("{}x", parts(4096 + 64 - digits));
            assert!(write(&longer).is_err(), "nothing is cut");
        }
    }

    #[test]
    fn names_and_values_are_checked() {
        for good in ["refs/heads/a", "refs/stash", "refs/heads/a-b/c.d", "refs/tags/é"] {
            assert!(is_ref_name(good), "{good}");
        }
        for bad in [
            "HEAD",
            "refs/",
            "refs/heads/",
            "refs//a",
            "refs/heads/.a",
            "refs/heads/a.lock",
            "refs/heads/a..b",
            "refs/heads/a b",
            "refs/heads/a\n",
            "refs/heads/-a",
            "refs/../HEAD",
            "refs/heads/a@{1}",
            "refs/heads/a:b",
        ] {
            assert!(!is_ref_name(bad), "{bad}");
        }
        let id = "a".repeat(40);
        assert_eq!(RefValue::parse(format!("{id}\n").as_bytes(), 40).unwrap().id(), Some(&*id));
        let head = RefValue::parse(b"ref: refs/heads/x\n", 40).unwrap();
        assert_eq!((head.target(), head.id()), (Some("refs/heads/x"), None));
        for name in ["refs/windlass", "refs/windlass/run/pre"] {
            assert!(is_ref_name(name) && is_windlass(name), "{name}");
            assert_eq!(RefValue::parse(format!("ref: {name}").as_bytes(), 40), None);
        }
        for name in ["refs/windlassx", "refs/heads/windlass/x", "refs/Windlass/x"] {
            assert!(!is_windlass(name), "{name}");
        }
        for bad in [&b""[..], b"ref: HEAD\n", b"ref: ../x\n", b"abc\n", b"\xff"] {
            assert_eq!(RefValue::parse(bad, 40), None);
        }
        assert_eq!(RefValue::parse(id.as_bytes(), 64), None);
    }
}
