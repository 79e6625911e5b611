//! Whether the user trusts a project's configuration. It starts programs, opens the network and decides what
//! agents may do, and it comes with the repository; so nothing acts by it before the user has seen it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use windlass_kernel::{Code, Digest, Timestamp};
use windlass_policy::policy_hash;
use windlass_runtime::{Clock as _, SystemClock};

use crate::atomic;
use crate::failure::Failure;
use crate::input;
use crate::part::Part;
use crate::state::cannot_write;

/// The record in a state folder.
const FILE: &str = "trust.json";
/// The maximum size of that record.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// The maximum number of files that a message names.
const NAMED_MAX: usize = 5;

/// The configuration that the user trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustRecord {
    /// The digest of all files: the policy hash.
    pub digest: Digest,
    /// When the user trusted it.
    pub when: Timestamp,
    /// The digest of each file.
    pub files: BTreeMap<String, Digest>,
}

/// How the present configuration relates to what the user trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustStatus {
    /// It is the trusted one.
    Trusted,
    /// None was trusted.
    Never,
    /// The record cannot be read.
    Damaged(String),
    /// It has changed since.
    Changed(Vec<FileChange>),
}

/// A file that differs from the trusted configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// Its path in the configuration folder.
    pub path: String,
    /// The kind of change.
    pub kind: ChangeKind,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The file is new.
    Added,
    /// Its contents differ.
    Changed,
    /// It is gone.
    Removed,
}

impl ChangeKind {
    /// The word for people and programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Removed => "removed",
        }
    }
}

impl TrustRecord {
    /// The record for configuration files.
    pub fn of(files: &BTreeMap<String, Vec<u8>>) -> Result<Self, Failure> {
        Ok(Self { digest: policy_hash(files)?, when: SystemClock.now(), files: digests(files) })
    }

    /// Writes the record into a state folder.
    pub fn write(&self, state: &Path) -> Result<(), Failure> {
        let path = path(state);
        let text =
            serde_json::to_vec_pretty(self).map_err(|error| Failure::of(Code::Internal, &error))?;
        atomic::write(&path, &text).map_err(|error| cannot_write(&path, &error))
    }

    /// The files of a part of the present configuration that differ from this record.
    fn changes(&self, part: Part, present: &BTreeMap<String, Digest>) -> Vec<FileChange> {
        let mut changes: Vec<FileChange> = present
            .iter()
            .filter_map(|(path, digest)| {
                let kind = match self.files.get(path) {
                    None => ChangeKind::Added,
                    Some(old) if old != digest => ChangeKind::Changed,
                    Some(_) => return None,
                };
                Some(FileChange { path: path.clone(), kind })
            })
            .collect();
        let removed = self.files.keys().filter(|path| part.has(path));
        let removed = removed.filter(|path| !present.contains_key(*path));
        let kind = ChangeKind::Removed;
        changes.extend(removed.map(|path| FileChange { path: path.clone(), kind }));
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        changes
    }
}

/// The digest of each file.
fn digests(files: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Digest> {
    files.iter().map(|(path, bytes)| (path.clone(), Digest::of(bytes))).collect()
}

fn path(state: &Path) -> PathBuf {
    state.join(FILE)
}

/// Removes the record from a state folder; returns whether there was one.
pub fn revoke(state: &Path) -> Result<bool, Failure> {
    let path = path(state);
    match std::fs::remove_file(&path).and_then(|()| atomic::sync_parent(&path)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => {
            let message = format!("`{}` cannot be removed: {error}", path.display());
            Err(Failure::new(Code::FileUnwritable, message))
        }
    }
}

/// Compares a part of the present configuration, whose files these are, with what the user trusted.
pub fn status(
    state: &Path,
    part: Part,
    files: &BTreeMap<String, Vec<u8>>,
) -> Result<TrustStatus, Failure> {
    let path = path(state);
    if !path.exists() {
        return Ok(TrustStatus::Never);
    }
    let read = input::read(&path, FILE_BYTES_MAX).map_err(|failure| failure.summary());
    let read = read.and_then(|bytes| {
        serde_json::from_slice::<TrustRecord>(&bytes).map_err(|error| error.to_string())
    });
    Ok(match read {
        Err(why) => TrustStatus::Damaged(why),
        Ok(trusted) => match trusted.changes(part, &digests(files)) {
            changes if changes.is_empty() => TrustStatus::Trusted,
            changes => TrustStatus::Changed(changes),
        },
    })
}

/// When the user trusted the configuration; `None` if that cannot be known.
pub fn when(state: &Path) -> Option<Timestamp> {
    let bytes = input::read(&path(state), FILE_BYTES_MAX).ok()?;
    serde_json::from_slice::<TrustRecord>(&bytes).ok().map(|record| record.when)
}

/// Fails unless the user trusts this part of the present configuration.
pub fn require(state: &Path, part: Part, files: &BTreeMap<String, Vec<u8>>) -> Result<(), Failure> {
    let message = match status(state, part, files)? {
        TrustStatus::Trusted => return Ok(()),
        TrustStatus::Never => "you have not trusted this project's configuration yet".to_owned(),
        TrustStatus::Damaged(why) => format!("the record of your trust is damaged: {why}"),
        TrustStatus::Changed(changes) => {
            format!("the configuration has changed since you trusted it: {}", summary(&changes))
        }
    };
    Err(Failure::new(Code::ProjectUntrusted, message))
}

/// The changes in one line.
pub fn summary(changes: &[FileChange]) -> String {
    let named = changes.iter().take(NAMED_MAX);
    let named: Vec<String> =
        named.map(|change| format!("{} `{}`", change.kind.as_str(), change.path)).collect();
    match changes.len().saturating_sub(NAMED_MAX) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
