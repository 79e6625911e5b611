//! The mounts of a workspace: the folder itself, and what of it commands may not change or see.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::git_paths::GitPaths;
use crate::spec::{Access, Mount};

/// The folder of Windlass in a project.
const PROJECT: &str = ".windlass";
/// What no command may change in a git directory: through these a git outside the cell would start programs
/// or work elsewhere.
const GIT_PROTECTED: [&str; 7] =
    ["config", "config.worktree", "hooks", "info", "commondir", "gitdir", "modules"];

/// The folder in which a command works.
#[derive(Clone, Copy, Debug)]
pub struct WorkspaceView<'a> {
    /// The folder.
    pub folder: &'a Path,
    /// Whether the command may change it.
    pub access: Access,
    /// Its repository, if it is in one.
    pub git: Option<&'a GitPaths>,
    /// The private folders for changes of the git directory and for the kernel's own use; without them it
    /// is read-only.
    pub git_changes: Option<(&'a Path, &'a Path)>,
    /// Folders that keep their names: files in them are known by these as ones that the command does not see.
    pub fixed: &'a BTreeSet<PathBuf>,
    /// Files that the command does not see.
    pub hidden: &'a [PathBuf],
}

impl WorkspaceView<'_> {
    /// The mounts, which come after those of the machine.
    #[must_use]
    pub fn mounts(&self) -> Vec<Mount> {
        let bind = |path: &Path, access| Mount::Bind { path: path.to_owned(), access };
        let mut mounts = Vec::new();
        // The rest of the work tree is shown, or git would report it as deleted.
        if let Some(git) = self.git.filter(|git| git.top != self.folder) {
            mounts.push(bind(&git.top, Access::Read));
        }
        mounts.push(bind(self.folder, self.access));
        let project = self.folder.join(PROJECT);
        if project.symlink_metadata().is_ok() {
            mounts.push(bind(&project, Access::Read));
        }
        if let Some(git) = self.git {
            mounts.extend(self.git_mounts(git));
        }
        for path in self.fixed {
            // A mount cannot be renamed.
            let access = if path.starts_with(self.folder) { self.access } else { Access::Read };
            mounts.push(bind(path, access));
        }
        mounts.extend(self.hidden.iter().map(|path| Mount::Mask { path: path.clone() }));
        mounts
    }

    fn git_mounts(&self, git: &GitPaths) -> Vec<Mount> {
        let read = |path: PathBuf| Mount::Bind { path, access: Access::Read };
        let mut mounts: Vec<Mount> = git.link.iter().cloned().map(read).collect();
        if self.access == Access::Write {
            let links = git.submodule_links().into_iter();
            mounts.extend(links.filter(|link| is_plain_file(link)).map(read));
        }
        let Some((upper, work)) = self.git_changes.filter(|_| self.access == Access::Write) else {
            mounts.push(read(git.common.clone()));
            return mounts;
        };
        mounts.push(Mount::Overlay {
            path: git.common.clone(),
            lower: vec![git.common.clone()],
            upper: upper.to_owned(),
            work: work.to_owned(),
        });
        let mut folders = vec![&git.common];
        if git.directory != git.common {
            folders.push(&git.directory);
        }
        for folder in folders {
            let protected = GIT_PROTECTED.iter().map(|name| folder.join(name));
            mounts.extend(protected.filter(|path| path.symlink_metadata().is_ok()).map(read));
        }
        mounts
    }
}

/// Whether a path is a file that no symbolic link leads to.
fn is_plain_file(path: &Path) -> bool {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return false };
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_file())
        && folder.canonicalize().is_ok_and(|real| real == folder && real.join(name) == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_a_project_are_never_writable() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join(PROJECT);
        std::fs::create_dir(&project).unwrap();
        for access in [Access::Read, Access::Write] {
            let view = WorkspaceView {
                folder: folder.path(),
                access,
                git: None,
                git_changes: None,
                fixed: &BTreeSet::new(),
                hidden: &[],
            };
            let bind = |path: &Path, access| Mount::Bind { path: path.to_owned(), access };
            let expected = [bind(folder.path(), access), bind(&project, Access::Read)];
            assert_eq!(view.mounts(), expected);
        }
    }
}
