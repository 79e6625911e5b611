//! Combines a snapshot with some files of another.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::capture::records;
use super::index_state::RawPath;
use super::{SnapshotError, Snapshots};
use crate::TreeId;
use crate::git::{Access, id_of, path_of, split_once};

const OPERATION: &str = "add files to the snapshot";

impl Snapshots {
    /// Writes a snapshot with these files and empty folders of another one added; returns its id.
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
        let _objects = self.lock_objects()?;
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
        let (own, others) = (self.contents(tree)?, self.contents(from)?);
        let mut extras = own.extras.clone();
        let is_added = |name: &RawPath| paths.contains(name.path().as_path());
        let modes = others.extras.modes.iter().filter(|(name, _)| is_added(name));
        extras.modes.extend(modes.map(|(name, mode)| (name.clone(), *mode)));
        let folders = others.extras.folders.iter().filter(|name| is_added(name));
        extras.folders.extend(folders.cloned());
        let snapshot = self.write_fitting(combined, extras)?;
        self.keep_derived(tree, &snapshot)?;
        Ok(snapshot)
    }
}
