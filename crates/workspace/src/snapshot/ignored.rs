//! Finds the files that a snapshot's own rules ignore.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use windlass_beneath::{Folder, Kind};

use super::capture::records;
use super::object_reader::ObjectReader;
use super::{EntryMode, SnapshotError, Snapshots};
use crate::git::{Access, path_of, split_once};
use crate::{GitError, TreeId};

const OPERATION: &str = "read the ignored files";
/// The name of git's lists of ignored files.
const IGNORE_FILE: &str = ".gitignore";
/// The limit of such a list.
const LIST_BYTES_MAX: usize = 16 << 20;

impl Snapshots {
    /// Returns those of the paths that are ignored in a workspace whose files are those of the snapshot: by
    /// the snapshot's own lists, the lists above the workspace, and the user's.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn ignored(
        &self,
        workspace: &Path,
        tree: &TreeId,
        paths: &[PathBuf],
    ) -> Result<BTreeSet<PathBuf>, SnapshotError> {
        if paths.is_empty() {
            return Ok(BTreeSet::new());
        }
        let workspace = self.workspace(workspace)?;
        // Git reads its lists only from files: they are laid out in a folder, with an empty file for each path.
        let fail = |error: io::Error| SnapshotError::file(OPERATION, &self.private, &error);
        let temporary = TempDir::with_prefix_in("ignored-", &self.private).map_err(fail)?;
        let top = temporary.path().join("top");
        let inner = workspace.folder.strip_prefix(&workspace.top).unwrap_or(Path::new(""));
        let folder = top.join(inner);
        fs::create_dir_all(&folder).map_err(fail)?;
        for above in inner.ancestors().skip(1) {
            copy_list(&workspace.top.join(above), &top.join(above)).map_err(fail)?;
        }
        for path in paths {
            let place = folder.join(path);
            place.parent().map_or(Ok(()), fs::create_dir_all).map_err(fail)?;
            fs::write(&place, b"").map_err(fail)?;
        }
        self.write_lists(tree, &folder)?;
        let git = self.git(OPERATION, Access::Read, &self.private, &top);
        let git = git.env("GIT_WORK_TREE", &top);
        let git = git.env("GIT_INDEX_FILE", temporary.path().join("index"));
        let git = git.args(["ls-files", "--others", "--ignored", "-z"]);
        let bytes = self.exclude_options(git, &workspace).output()?;
        let prefix = workspace.prefix();
        let ignored: BTreeSet<PathBuf> = records(&bytes)
            .filter_map(|path| path.strip_prefix(prefix.as_slice()))
            .map(path_of)
            .collect();
        Ok(paths.iter().filter(|path| ignored.contains(*path)).cloned().collect())
    }

    /// Writes the lists of ignored files that a snapshot has into a folder.
    fn write_lists(&self, tree: &TreeId, folder: &Path) -> Result<(), SnapshotError> {
        let git = self.objects_git(OPERATION, Access::Read);
        let git = git.args(["ls-tree", "-r", "-z", "--full-tree", tree.as_str()]);
        let listed = git.output().map_err(|error| self.explain(&[tree], error))?;
        let unexpected = || GitError::unexpected(OPERATION, &listed);
        let mut objects = ObjectReader::new(self);
        for record in records(&listed) {
            let (facts, path) = split_once(record, b'\t').ok_or_else(unexpected)?;
            let path = path_of(path);
            if path.file_name() != Some(OsStr::new(IGNORE_FILE)) {
                continue;
            }
            let facts = std::str::from_utf8(facts).map_err(|_| unexpected())?;
            let mut facts = facts.split(' ');
            let mode = facts.next().and_then(|mode| EntryMode::parse(mode.as_bytes()));
            // Git follows no symbolic link to a list.
            let (true, Some(id)) = (mode.is_some_and(EntryMode::is_file), facts.nth(1)) else {
                continue;
            };
            let fail = |error: io::Error| SnapshotError::file(OPERATION, &path, &error);
            let place = folder.join(&path);
            // Where a path is a file, the snapshot's folder has no say.
            if place.parent().is_some_and(|parent| fs::create_dir_all(parent).is_err()) {
                continue;
            }
            match objects.bytes(id, LIST_BYTES_MAX) {
                Ok(Some(bytes)) => fs::write(&place, bytes).map_err(fail)?,
                Ok(None) => {
                    return Err(self.corrupt(tree, id));
                }
                Err(error) => return Err(error.at(OPERATION, &path)),
            }
        }
        Ok(())
    }
}

/// Copies the list of ignored files of a folder, if it has one.
fn copy_list(from: &Path, to: &Path) -> io::Result<()> {
    let (from, list) = (Folder::open(from)?, Path::new(IGNORE_FILE));
    if from.look(list)?.is_some_and(|found| found.kind == Kind::File) {
        fs::write(to.join(IGNORE_FILE), from.read(list, LIST_BYTES_MAX as u64)?)?;
    }
    Ok(())
}
