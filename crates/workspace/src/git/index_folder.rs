//! Folders for an index of our own, outside of the repository.

use std::path::PathBuf;

use super::error::{GitCause, GitError};
use crate::temporary_folder::{TemporaryFolder, TemporaryUse};

/// A temporary folder with an index; it is removed when it is dropped.
pub(super) struct IndexFolder(TemporaryFolder);

impl IndexFolder {
    pub(super) fn new(operation: &'static str) -> Result<Self, GitError> {
        let folder = TemporaryFolder::new(TemporaryUse::Index);
        folder
            .map(Self)
            .map_err(|error| GitError::new(operation, GitCause::File(error.to_string())))
    }

    /// The path of the index.
    pub(super) fn index(&self) -> PathBuf {
        self.0.path().join("index")
    }
}
