//! What a command is shown instead of files of its workspace: pinned files as they were when its run started,
//! and an index with what is about to be committed.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use windlass_cell::{Access, Level, Mount};
use windlass_workspace::{
    Git, PinnedKind, PinnedPath, TreeId, check_pinned_place, require_pinned_unchanged,
};

use crate::call_failure::CallFailure;

/// Where a cell has the index that shows what is about to be committed.
const INDEX_FOLDER: &str = "/run/windlass";

/// Files that a command is shown; removed with what it did to them.
#[derive(Debug, Default)]
pub(crate) struct ShownFiles {
    folders: Vec<TempDir>,
    pub mounts: Vec<Mount>,
    pub variables: Vec<(&'static str, String)>,
}

impl ShownFiles {
    /// Adds pinned files. Without namespaces nothing can be mounted: then they must be what they were.
    pub fn pin(
        &mut self,
        level: Level,
        parent: &Path,
        workspace: &Path,
        pinned: &[PinnedPath],
    ) -> Result<(), CallFailure> {
        if pinned.is_empty() {
            return Ok(());
        }
        match level {
            Level::Landlock => require_pinned_unchanged(workspace, pinned, parent).map_err(|why| {
                CallFailure::pinned(format!(
                    "{why}, and at the level `landlock` no other can be shown"
                ))
            }),
            Level::Full => self.copy(parent, workspace, pinned),
        }
    }

    fn copy(
        &mut self,
        parent: &Path,
        workspace: &Path,
        pinned: &[PinnedPath],
    ) -> Result<(), CallFailure> {
        let folder = self.folder("pinned-", parent)?;
        let git = Git::new(workspace);
        for (number, pinned) in pinned.iter().enumerate() {
            let from = folder.join(number.to_string());
            let written = git.write_pinned(pinned, &from);
            written.map_err(|error| CallFailure::pinned(error.to_string()))?;
            check_pinned_place(workspace, pinned, &from).map_err(CallFailure::pinned)?;
            match pinned.kind {
                // It is what it was.
                PinnedKind::Link => {}
                PinnedKind::File { .. } | PinnedKind::Folder => {
                    let path = workspace.join(&pinned.path);
                    self.mounts.push(Mount::BindAt { from, path, access: Access::Write });
                }
            }
        }
        Ok(())
    }

    /// Adds an index that holds a tree, and the variable that makes git use it.
    pub fn stage(
        &mut self,
        level: Level,
        parent: &Path,
        workspace: &Path,
        tree: &TreeId,
    ) -> Result<(), CallFailure> {
        let from = self.folder("index-", parent)?;
        let written = Git::new(workspace).write_index(tree, &from.join("index"));
        written.map_err(|error| CallFailure::sandbox(error.to_string()))?;
        let (mount, folder) = match level {
            Level::Full => {
                let path = PathBuf::from(INDEX_FOLDER);
                (Mount::BindAt { from, path: path.clone(), access: Access::Write }, path)
            }
            Level::Landlock => (Mount::Bind { path: from.clone(), access: Access::Write }, from),
        };
        self.mounts.push(mount);
        let index = folder.join("index").display().to_string();
        self.variables.push(("GIT_INDEX_FILE", index));
        Ok(())
    }

    /// A new folder.
    pub fn folder(&mut self, prefix: &str, parent: &Path) -> Result<PathBuf, CallFailure> {
        let folder = TempDir::with_prefix_in(prefix, parent).map_err(|error| {
            let parent = parent.display();
            CallFailure::sandbox(format!("cannot create a folder in `{parent}`: {error}"))
        })?;
        let path = folder.path().to_owned();
        self.folders.push(folder);
        Ok(path)
    }
}

impl Drop for ShownFiles {
    fn drop(&mut self) {
        // A command may have closed folders, which could then not be removed.
        self.folders.iter().for_each(|folder| open_folders(folder.path()));
    }
}

fn open_folders(folder: &Path) {
    let open = std::fs::Permissions::from_mode(0o700);
    // What stays is removed by nobody, but harms nobody either.
    let _ = std::fs::set_permissions(folder, open);
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_folders(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_folders_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let mut files = ShownFiles::default();
        let folder = files.folder("pinned-", parent.path()).unwrap();
        let inner = folder.join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::set_permissions(folder.join("a"), std::fs::Permissions::from_mode(0o000)).unwrap();
        drop(files);
        assert!(!folder.exists());
    }
}
