//! Combines a snapshot with some files of another.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::capture::records;
use super::{SnapshotError, Snapshots};
use crate::TreeId;
use crate::git::{Access, id_of, path_of, split_once};

const OPERATION: &str = "add files to the snapshot";

impl Snapshots {
    /// Writes the tree of a snapshot with these files of another one added; returns its id.
    ///
    /// # Errors
    /// [`SnapshotError`], also when one has a file where the other has a folder.
    pub fn with_files(
        &self,
        tree: &TreeId,
        from: &TreeId,
        paths: &[PathBuf],
    ) -> Result<TreeId, SnapshotError> {
        let fail = |error: std::io::Error| SnapshotError::file(OPERATION, &self.private, &error);
        let folder = TempDir::with_prefix_in("with-files-", &self.private).map_err(fail)?;
        let index = folder.path().join("index");
        let git = |access| self.objects_git(OPERATION, access).env("GIT_INDEX_FILE", &index);
        git(Access::Write)
            .args(["read-tree", tree.as_str()])
            .output()
            .map_err(|error| self.explain(&[tree], error))?;
        let listed = git(Access::Read)
            .args(["ls-tree", "-r", "-z", "--full-tree", from.as_str()])
            .output()
            .map_err(|error| self.explain(&[from], error))?;
        let paths: BTreeSet<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let mut added = Vec::new();
        for record in records(&listed) {
            let path = split_once(record, b'\t').map(|(_, path)| path_of(path));
            if path.is_some_and(|path| paths.contains(path.as_path())) {
                added.extend_from_slice(record);
                added.push(0);
            }
        }
        git(Access::Write).args(["update-index", "-z", "--index-info"]).stdin(added).output()?;
        let combined = id_of(OPERATION, &git(Access::Write).arg("write-tree").output()?)?;
        let (mut extras, others) = (self.extras(tree), self.extras(from));
        extras.modes.extend(
            others.modes.into_iter().filter(|(name, _)| paths.contains(name.path().as_path())),
        );
        self.save_extras(&combined, &extras)?;
        Ok(combined)
    }
}
