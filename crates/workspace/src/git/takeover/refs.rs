//! Refs in an overlay: what they were, what they are, and what a command made of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::layers::{Found, Kind, Layers, read_file};
use super::{Baseline, PROTECTED_REFS, TakeOverError};

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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stored {
    pub value: RefValue,
    /// In a file of its own.
    pub loose: bool,
    /// In `packed-refs`.
    pub packed: bool,
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

/// Reads all refs that the layers show. What the lower layer has and is not valid is left out; in the
/// upper one it is an error.
pub(super) fn read_refs(layers: &Layers, digits: usize) -> Result<Refs, TakeOverError> {
    let mut refs = Refs::new();
    let packed = Path::new("packed-refs");
    match layers.find(packed) {
        Found::Absent => {}
        Found::Upper(path, Kind::File { .. }) | Found::Lower(path, Kind::File { .. }) => {
            let bytes = read_file(&path, PACKED_BYTES_MAX)
                .map_err(|error| TakeOverError::damaged(packed, &error.to_string()))?;
            parse_packed(&bytes, digits, &mut refs)
                .ok_or_else(|| TakeOverError::damaged(packed, "it is not valid"))?;
        }
        Found::Upper(..) | Found::Lower(..) => {
            return Err(TakeOverError::damaged(packed, "it is no file"));
        }
    }
    for (path, found) in layers.files(Path::new("refs"), REFS_MAX)? {
        if path.extension().is_some_and(|end| end == "lock") {
            continue;
        }
        let (file, ours) = match &found {
            Found::Upper(file, Kind::File { .. }) => (file, true),
            Found::Lower(file, Kind::File { .. }) => (file, false),
            Found::Upper(..) => return Err(TakeOverError::damaged(&path, "it is no file")),
            Found::Lower(..) | Found::Absent => continue,
        };
        let name = path.to_str().filter(|name| is_ref_name(name));
        let value = read_file(file, REF_BYTES_MAX).ok();
        let value = value.and_then(|bytes| RefValue::parse(&bytes, digits));
        match (name, value) {
            (Some(name), Some(value)) => {
                let packed = refs.get(name).is_some_and(|stored| stored.packed);
                refs.insert(name.to_owned(), Stored { value, loose: true, packed });
            }
            _ if ours => return Err(TakeOverError::damaged(&path, "it is no valid ref")),
            _ => {}
        }
    }
    Ok(refs)
}

fn parse_packed(bytes: &[u8], digits: usize, refs: &mut Refs) -> Option<()> {
    let text = std::str::from_utf8(bytes).ok()?;
    for line in text.lines().filter(|line| !line.starts_with(['#', '^'])) {
        let (id, name) = line.split_once(' ')?;
        if !is_id(id, digits) || !is_ref_name(name) || refs.len() > REFS_MAX {
            return None;
        }
        let value = RefValue(id.to_owned());
        refs.insert(name.to_owned(), Stored { value, loose: false, packed: true });
    }
    Some(())
}

/// Finds the refs that the upper layer changes. A ref that the user moved meanwhile is a conflict if the
/// upper layer changes it too.
pub(super) fn changes(
    layers: &Layers,
    base: &Baseline,
    now: &Refs,
    merged: &Refs,
    protected: &mut Vec<String>,
) -> Result<Vec<RefChange>, TakeOverError> {
    let value = |refs: &Refs, name: &str| refs.get(name).map(|stored| stored.value.clone());
    let names: BTreeSet<&String> = base.refs.keys().chain(merged.keys()).collect();
    let mut changes = Vec::new();
    for name in names {
        let (before, present) = (value(&base.refs, name), value(now, name));
        let after = value(merged, name);
        if after == before || after == present {
            continue;
        }
        if after.is_none() && !was_deleted(layers, name, base.refs.get(name)) {
            continue;
        }
        if name.starts_with(PROTECTED_REFS) {
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

/// Whether the upper layer itself deletes a ref. Otherwise it is only hidden, since the user stored it in
/// another way meanwhile.
fn was_deleted(layers: &Layers, name: &str, base: Option<&Stored>) -> bool {
    let Some(base) = base else { return false };
    let from_upper = |path: &str| match layers.find(Path::new(path)) {
        Found::Upper(..) => true,
        // Hidden by a mark of the upper layer, or gone from the lower one.
        Found::Absent => layers.lower.join(path).symlink_metadata().is_ok(),
        Found::Lower(..) => false,
    };
    (!base.loose || from_upper(name)) && (!base.packed || from_upper("packed-refs"))
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
