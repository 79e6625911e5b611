//! A snapshot with some files of another.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{SnapshotError, Snapshots};
use crate::TreeId;
use crate::git::{Kind, id_of};

const OPERATION: &str = "add files to the snapshot";

impl Snapshots {
    /// Makes the snapshot that has these files of another one too.
    ///
    /// # Errors
    /// [`SnapshotError`], also when a file stands where the other has a folder.
    pub fn graft(
        &self,
        tree: &TreeId,
        from: &TreeId,
        paths: &[PathBuf],
    ) -> Result<TreeId, SnapshotError> {
        let fail = |error: std::io::Error| SnapshotError::file(OPERATION, &self.private, &error);
        let folder = TempDir::with_prefix_in("graft-", &self.private).map_err(fail)?;
        let index = folder.path().join("index");
        let git = |kind| self.objects_git(OPERATION, kind).env("GIT_INDEX_FILE", &index);
        git(Kind::Write)
            .args(["read-tree", tree.as_str()])
            .output()
            .map_err(|error| self.damage(&[tree], error))?;
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let listed = git(Kind::Read)
            .args(["ls-tree", "-r", "-z", "--full-tree", from.as_str(), "--"])
            .args(&paths)
            .output()
            .map_err(|error| self.damage(&[from], error))?;
        git(Kind::Write).args(["update-index", "-z", "--index-info"]).stdin(listed).output()?;
        Ok(id_of(OPERATION, &git(Kind::Write).arg("write-tree").output()?)?)
    }
}
