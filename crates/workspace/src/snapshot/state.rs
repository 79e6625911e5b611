//! What is known about the private index of a workspace, so that it can be believed.
//!
//! Git does not check an index when it reads one. So its digest is written down after every change of
//! ours, and an index that is not what we left is made anew.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use windlass_kernel::Digest;

use super::home::write_new;
use super::objects::hex;
use super::workspace::Workspace;
use super::{SnapshotError, Snapshots};
use crate::TreeId;
use crate::git::path_of;

/// What we left behind after the last capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    /// The digest of the index.
    index: String,
    /// What was captured last; nothing after a restore.
    pub tree: Option<TreeId>,
    /// The nested repositories in the index, relative to the top.
    pub nested: Vec<Name>,
    /// What the user tracks though it is ignored, relative to the top.
    pub tracked: Vec<Name>,
    /// Of which of the user's indexes that is: when it was written, and what it tracks.
    pub tracked_from: (String, String),
}

/// A path, which need not be text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name(pub Vec<u8>);

impl Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let pairs = text.as_bytes().chunks(2);
        let bytes: Option<Vec<u8>> = pairs
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect();
        bytes.map(Self).ok_or_else(|| serde::de::Error::custom("not hex digits"))
    }
}

impl Name {
    /// As a path.
    pub fn path(&self) -> PathBuf {
        path_of(&self.0)
    }
}

/// Whether the index that is there is the one that we left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// It is.
    Index(State),
    /// It is not; what was captured last may still be known.
    Nothing {
        /// The last snapshot.
        last: Option<TreeId>,
    },
}

impl Snapshots {
    /// Reads what was left behind.
    pub(super) fn kept(&self, workspace: &Workspace) -> Kept {
        let state: Option<State> = fs::read(workspace.state(&self.private))
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let Some(state) = state else { return Kept::Nothing { last: None } };
        match digest_of(&workspace.index(&self.private)) {
            Ok(digest) if digest == state.index => Kept::Index(state),
            Ok(_) | Err(_) => Kept::Nothing { last: state.tree },
        }
    }

    /// Writes down what is left behind.
    pub(super) fn keep_state(
        &self,
        workspace: &Workspace,
        mut state: State,
    ) -> Result<(), SnapshotError> {
        let path = workspace.state(&self.private);
        let fail = |error: io::Error| SnapshotError::file("write", &path, &error);
        state.index = digest_of(&workspace.index(&self.private)).map_err(fail)?;
        let bytes = serde_json::to_vec(&state).map_err(|error| fail(error.into()))?;
        write_new(&path, &bytes).map_err(fail)
    }

    /// Throws the index away, with a lock that a killed git left. We hold the workspace's own lock, so
    /// nobody is at work on it.
    pub(super) fn drop_index(&self, workspace: &Workspace) -> Result<(), SnapshotError> {
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
    fn what_is_left_behind_is_read_again() {
        let state = State {
            index: "x".to_owned(),
            tree: Some("a".repeat(40).parse().unwrap()),
            nested: vec![Name(b"a \xff\n".to_vec())],
            tracked: vec![Name(Vec::new())],
            tracked_from: ("y".to_owned(), "z".to_owned()),
        };
        let bytes = serde_json::to_vec(&state).unwrap();
        assert_eq!(serde_json::from_slice::<State>(&bytes).unwrap(), state);
        let odd = String::from_utf8(bytes).unwrap().replace("6120ff0a", "6120ffz");
        assert!(serde_json::from_str::<State>(&odd).is_err());
    }
}
