//! The repository's own hooks, which git itself never runs for us.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use super::{Git, GitError, path_of, split_once};

/// A hook of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// Where git looks for it.
    pub path: PathBuf,
    /// Its path from the top of the work tree, if it lies in the work tree.
    pub in_worktree: Option<PathBuf>,
    /// Whether it lies neither in the work tree nor in the git directory: then it is the user's own.
    pub is_outside: bool,
    /// Whether it exists and is executable; git ignores any other.
    pub runs: bool,
}

impl Git {
    /// Finds the repository's hook of this name (`pre-commit`): in the folder that `core.hooksPath` names, else
    /// among the repository's hooks.
    ///
    /// It is a program of the repository: it may be run in a cell only.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn hook(&self, name: &str) -> Result<Hook, GitError> {
        let operation = "find the hook";
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') {
            return Err(GitError::refused(operation, format!("`{name}` is no hook")));
        }
        let listed = self
            .read(operation)
            .args(["config", "-z", "--show-scope", "--type=path", "--get-all", "core.hooksPath"])
            .run()?;
        if !matches!(listed.code, Some(0 | 1)) {
            return Err(listed.failure(operation, self.root()));
        }
        let common = self.common_dir()?;
        let (folder, top) = match configured(&listed.stdout) {
            Some(folder) => {
                let top = self.top_for(operation)?;
                (plain(&top.join(folder)), Some(top))
            }
            None => (common.join("hooks"), None),
        };
        let path = folder.join(name);
        let found = fs::metadata(&path);
        let runs = found.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
        let in_git = path.starts_with(&common);
        let in_worktree = top.and_then(|top| path.strip_prefix(top).ok().map(Path::to_owned));
        let in_worktree = in_worktree.filter(|_| !in_git);
        let is_outside = !in_git && in_worktree.is_none();
        Ok(Hook { path, in_worktree, is_outside, runs })
    }

    /// Finds the directory that all work trees of the repository share.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn common_dir(&self) -> Result<PathBuf, GitError> {
        if let Some(known) = self.common.get() {
            return Ok(known.clone());
        }
        let [common] = self.paths("find the repository", [&["--git-common-dir"]])?;
        Ok(common)
    }
}

/// The path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    plain
}

/// The last value that is not one of our own options, from `scope NUL value NUL` records.
fn configured(bytes: &[u8]) -> Option<PathBuf> {
    let mut rest = bytes;
    let mut last = None;
    while let Some((scope, after)) = split_once(rest, 0) {
        let (value, after) = split_once(after, 0)?;
        if scope != b"command" {
            last = Some(path_of(value));
        }
        rest = after;
    }
    last.filter(|folder| !folder.as_os_str().is_empty())
}
