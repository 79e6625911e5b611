//! The state of a workspace's private index between captures.
//!
//! Git does not check an index when it reads one. So its digest is saved after every change of ours, and
//! an index that does not match it is discarded.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use windlass_kernel::Digest;

use super::borrowed::Complete;
use super::object_reader::hex;
use super::repository::write_atomically;
use super::workspace::Workspace;
use super::{SnapshotError, Snapshots};
use crate::TreeId;
use crate::git::path_of;

/// The private index as the last capture left it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IndexState {
    /// The digest of the index.
    index: String,
    /// The tree of the last capture; `None` after a restore.
    pub tree: Option<TreeId>,
    /// The last snapshot of which every object is kept.
    #[serde(default)]
    pub complete: Option<Complete>,
    /// The nested repositories in the index, relative to the top.
    pub nested: Vec<RawPath>,
    /// Unusual permissions of files in the index, relative to the top.
    pub modes: BTreeMap<RawPath, u32>,
    /// Files that had just changed, relative to the top.
    #[serde(default)]
    pub recent: Vec<RawPath>,
    /// Ignored files that the user tracks, relative to the top.
    #[serde(rename = "tracked")]
    pub tracked_ignored: Vec<RawPath>,
    /// The user's index from which that was read: its file stamp, and the digest of its paths.
    #[serde(rename = "tracked_from")]
    pub user_index: (String, String),
}

/// A path as bytes, which need not be UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RawPath(pub Vec<u8>);

impl Serialize for RawPath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for RawPath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let pairs = text.as_bytes().chunks(2);
        let bytes: Option<Vec<u8>> = pairs
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect();
        bytes.map(Self).ok_or_else(|| serde::de::Error::custom("not hex digits"))
    }
}

impl RawPath {
    /// Converts it to a path.
    pub fn path(&self) -> PathBuf {
        path_of(&self.0)
    }
}

/// The private index as found on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SavedIndex {
    /// It matches the saved state.
    Intact(Box<IndexState>),
    /// It is missing or does not match; the last capture may still be known.
    Unusable {
        /// The tree of the last capture.
        last: Option<TreeId>,
    },
}

impl Snapshots {
    /// Loads the saved state and compares it with the index.
    pub(super) fn load_index_state(&self, workspace: &Workspace) -> SavedIndex {
        let state: Option<IndexState> = fs::read(workspace.state(&self.private))
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let Some(state) = state else { return SavedIndex::Unusable { last: None } };
        match digest_of(&workspace.index(&self.private)) {
            Ok(digest) if digest == state.index => SavedIndex::Intact(Box::new(state)),
            Ok(_) | Err(_) => SavedIndex::Unusable { last: state.tree },
        }
    }

    /// Saves the state, with the digest of the index.
    pub(super) fn save_index_state(
        &self,
        workspace: &Workspace,
        mut state: IndexState,
    ) -> Result<(), SnapshotError> {
        let path = workspace.state(&self.private);
        let fail = |error: io::Error| SnapshotError::file("write", &path, &error);
        state.index = digest_of(&workspace.index(&self.private)).map_err(fail)?;
        let bytes = serde_json::to_vec(&state).map_err(|error| fail(error.into()))?;
        write_atomically(&path, &bytes).map_err(fail)
    }

    /// Removes the index, and a lock file that a killed git left. The caller has locked the workspace, so
    /// no other process uses the index.
    pub(super) fn remove_index(&self, workspace: &Workspace) -> Result<(), SnapshotError> {
        let index = workspace.index(&self.private);
        let mut lock = index.clone().into_os_string();
        lock.push(".lock");
        for path in [index, PathBuf::from(lock)] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(SnapshotError::file("remove", &path, &error));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

fn digest_of(path: &Path) -> io::Result<String> {
    Ok(Digest::of(&fs::read(path)?).hex().as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_survives_saving_and_loading() {
        let state = IndexState {
            index: "x".to_owned(),
            tree: Some("a".repeat(40).parse().unwrap()),
            complete: None,
            nested: vec![RawPath(b"a \xff\n".to_vec())],
            modes: BTreeMap::from([(RawPath(b"b".to_vec()), 0o600)]),
            recent: vec![RawPath(b"c".to_vec())],
            tracked_ignored: vec![RawPath(Vec::new())],
            user_index: ("y".to_owned(), "z".to_owned()),
        };
        let bytes = serde_json::to_vec(&state).unwrap();
        assert_eq!(serde_json::from_slice::<IndexState>(&bytes).unwrap(), state);
        let odd = String::from_utf8(bytes).unwrap().replace("6120ff0a", "6120ffz");
        assert!(serde_json::from_str::<IndexState>(&odd).is_err());
    }
}
