//! Moves what may not be left out of a workspace, and puts back what was there.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use windlass_beneath::{Folder, Kind};

use crate::judge::Finding;
use crate::mark::Mark;
use crate::move_away::{MODES, move_away};
use crate::record::Record;
use crate::rel_path::RelPath;

/// Something that was held back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Its path in the workspace.
    pub path: RelPath,
    /// Why.
    pub why: String,
    /// Where it is now; `None` if the command had removed it.
    #[serde(with = "escaped")]
    pub kept: Option<PathBuf>,
    /// Whether what was there before is there again.
    pub is_back: bool,
    /// Whether it could not be moved.
    pub is_left: bool,
}

/// Paths that need not be UTF-8.
mod escaped {
    use std::path::PathBuf;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use crate::rel_path::RelPath;

    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
        path.as_deref().map(RelPath::from).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
        let path = Option::<RelPath>::deserialize(from)?;
        Ok(path.map(|path| path.as_path().to_owned()))
    }
}

impl fmt::Display for Held {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path, self.why)?;
        if self.is_left {
            return Ok(());
        }
        match &self.kept {
            Some(kept) => write!(formatter, " (moved to `{}`", kept.display())?,
            None => formatter.write_str(" (it had been removed")?,
        }
        formatter.write_str(if self.is_back { "; as before again)" } else { ")" })
    }
}

/// Holds back what was found, folders before what is in them.
///
/// # Errors
/// Those of the operating system; then some of it may be left.
pub fn hold(root: &Folder, record: &Record, findings: &[Finding]) -> io::Result<Vec<Held>> {
    let mut held = Vec::new();
    if findings.is_empty() {
        return Ok(held);
    }
    let place = record.new_place()?;
    let before = |finding: &Finding| Some((finding.path.clone(), finding.before.clone()?));
    record.will_put_back(&findings.iter().filter_map(before).collect())?;
    let mut moved: Vec<&RelPath> = Vec::new();
    for finding in findings {
        let Finding { path, why, before } = finding;
        // What lay in a folder that was moved is moved.
        let is_moved = moved.iter().any(|folder| path.is_within(folder) && path != *folder);
        let done = match is_moved {
            true => Ok(None),
            false => move_away(root, &place, path),
        };
        let (kept, failed) = match done {
            Ok(kept) => (kept, None),
            Err(error) => (None, Some(error)),
        };
        if kept.is_some() {
            moved.push(path);
        }
        let back = match before.as_ref().filter(|_| failed.is_none()) {
            Some(before) => clear_way(root, &place, path).and_then(|way| {
                held.extend(way);
                put_back(root, record, path, before)
            }),
            None => Ok(false),
        };
        let (is_back, failed) = match back {
            Ok(is_back) => (is_back, failed),
            Err(error) => (false, Some(error)),
        };
        let why = match &failed {
            Some(error) => format!("{why}; it is still there, because it cannot be moved: {error}"),
            None => why.clone(),
        };
        if kept.is_some() || is_back || before.is_some() || failed.is_some() {
            held.push(Held { path: path.clone(), why, kept, is_back, is_left: failed.is_some() });
        }
    }
    record.note_held(&place, &held)?;
    record.will_put_back(&BTreeMap::new())?;
    Ok(held)
}

/// Puts back what a killed process had moved away without that.
///
/// # Errors
/// Those of the operating system.
pub fn put_back_rest(root: &Folder, record: &Record) -> io::Result<()> {
    let rest = record.to_put_back();
    for (path, before) in &rest {
        if root.look(path.as_path())?.is_none() {
            put_back(root, record, path, before)?;
        }
    }
    if rest.is_empty() { Ok(()) } else { record.will_put_back(&BTreeMap::new()) }
}

/// Moves away what took the place of a folder above a path.
fn clear_way(root: &Folder, place: &Path, path: &RelPath) -> io::Result<Option<Held>> {
    for folder in path.above() {
        let is_way = |kind| kind == Kind::Folder;
        if root.look(folder.as_path())?.is_some_and(|entry| !is_way(entry.kind)) {
            let kept = move_away(root, place, &folder)?;
            let why = "it took the place of a folder with such files".to_owned();
            return Ok(Some(Held { path: folder, why, kept, is_back: false, is_left: false }));
        }
    }
    Ok(None)
}

/// Puts back what was at a path; says whether it could.
fn put_back(root: &Folder, record: &Record, path: &RelPath, before: &Mark) -> io::Result<bool> {
    let folder = path.as_path().parent().unwrap_or_else(|| Path::new(""));
    match before {
        Mark::File { digest, mode, .. } => {
            let bytes = match fs::read(record.kept(digest)) {
                Ok(bytes) if windlass_kernel::Digest::of(&bytes) == *digest => bytes,
                Ok(_) => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error),
            };
            drop(root.make_folder(folder)?);
            root.replace(path.as_path(), &bytes, mode & MODES)?;
            Ok(true)
        }
        Mark::Link { target, .. } => {
            drop(root.make_folder(folder)?);
            root.make_link(Path::new(target), path.as_path())?;
            Ok(true)
        }
        Mark::Special(_) | Mark::Unreadable | Mark::Foreign | Mark::Folder { .. } => Ok(false),
    }
}
