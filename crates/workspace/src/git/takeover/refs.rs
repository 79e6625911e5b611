//! Refs in an overlay: what they were, what they are, and what a command made of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat};
use serde::{Deserialize, Serialize};

use super::layers::{Found, Kind, Layers, OPAQUE, kind_of, read_file};
use super::{PROTECTED_REFS, TakeOverError};

/// The file with all packed refs.
const PACKED: &str = "packed-refs";
/// Refs of one work tree alone, which git does not pack.
const OWN: [&str; 3] = ["refs/bisect/", "refs/worktree/", "refs/rewritten/"];
/// How many refs a repository may have.
const REFS_MAX: usize = 200_000;
/// The size limit of a file with one ref.
const REF_BYTES_MAX: u64 = 4096;
/// The size limit of `packed-refs`.
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
    /// Reads the content of a ref file; `None` when it is not valid.
    pub fn parse(bytes: &[u8], digits: usize) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?.trim_end();
        match text.strip_prefix("ref:") {
            Some(target) => {
                let target = target.trim_start();
                is_ref_name(target).then(|| Self(format!("ref: {target}")))
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

/// Which folder is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Folder {
    /// What is not valid is left out.
    Real,
    /// What is not valid is an error.
    Upper,
}

/// Reads all refs of a repository.
pub(super) fn read_refs(common: &Path, digits: usize) -> Result<Refs, TakeOverError> {
    let mut refs = Refs::new();
    // In this order, as git does it: whoever packs a ref removes its file afterwards.
    for (name, value) in read_loose(common, digits, Folder::Real)? {
        refs.entry(name).or_default().loose = Some(value);
    }
    for (name, value) in read_packed(common, digits)?.unwrap_or_default() {
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
    let mut lock = upper.join(path).into_os_string();
    lock.push(".lock");
    let _ = fs::create_dir_all(Path::new(&lock).parent().unwrap_or(upper));
    // The mark of something that was removed.
    let _ = mknodat(CWD, &lock, FileType::CharacterDevice, Mode::empty(), 0);
}

/// The refs as the command left them.
pub(super) fn refs_after(upper: &Path, digits: usize) -> Result<Refs, TakeOverError> {
    let mut refs = Refs::new();
    let packed = match kind_of(&upper.join(PACKED)) {
        Some(Kind::Whiteout) | None => None,
        Some(_) => read_packed(upper, digits)?,
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
) -> Result<Option<BTreeMap<String, RefValue>>, TakeOverError> {
    let damaged = |why: &str| TakeOverError::damaged(Path::new(PACKED), why);
    let path = folder.join(PACKED);
    match kind_of(&path) {
        None => Ok(None),
        Some(Kind::File { .. }) => {
            let bytes = read_file(&path, PACKED_BYTES_MAX);
            let bytes = bytes.map_err(|error| damaged(&error.to_string()))?;
            parse_packed(&bytes, digits).map(Some).ok_or_else(|| damaged("it is not valid"))
        }
        Some(Kind::Folder { .. } | Kind::Whiteout | Kind::Other) => Err(damaged("it is no file")),
    }
}

/// Reads the refs that have files of their own.
fn read_loose(
    folder: &Path,
    digits: usize,
    which: Folder,
) -> Result<BTreeMap<String, RefValue>, TakeOverError> {
    let layers = Layers { upper: None, lower: folder.to_owned() };
    let mut refs = BTreeMap::new();
    for (path, found) in layers.files(Path::new("refs"), REFS_MAX)? {
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
/// conflict.
pub(super) fn changes(
    base: &Refs,
    now: &Refs,
    after: &Refs,
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
        if PROTECTED_REFS.iter().any(|protected| name.starts_with(protected)) {
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
        for bad in [&b""[..], b"ref: HEAD\n", b"ref: ../x\n", b"abc\n", b"\xff"] {
            assert_eq!(RefValue::parse(bad, 40), None);
        }
        assert_eq!(RefValue::parse(id.as_bytes(), 64), None);
    }
}
