//! Additional work trees of the repository.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::error::GitCause;
use super::filters::{Files, OnFilter};
use super::index_folder::IndexFolder;
use super::{CommitId, Git, GitError, WorktreeStatus, os, path_of, split_once};

/// The name of the operation in errors.
const REMOVE: &str = "remove the work tree";

/// The reason in a work tree's lock while git creates it. A killed git leaves it.
const INITIALIZING: &str = "initializing";

/// A work tree of the repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Worktree {
    /// Its folder.
    pub path: PathBuf,
    /// The current commit; `None` on an unborn branch.
    pub head: Option<CommitId>,
    /// The branch, without `refs/heads/`; `None` when the head is detached.
    pub branch: Option<String>,
    /// Why it is locked; the reason may be empty.
    pub locked: Option<String>,
    /// Its folder is gone.
    pub prunable: bool,
    /// It is the repository itself, which has no files checked out.
    pub bare: bool,
}

/// What to do with changes in a work tree that is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnChanges {
    /// Fail and keep the work tree.
    Refuse,
    /// Discard them.
    Discard,
    /// Discard them, and whatever else lies in the folder, which is for this work tree alone: a part of one, too.
    DiscardFolder,
}

/// A work tree that is about to be removed.
enum Removable {
    Nothing,
    /// A folder in which one was made or removed, and that git does not know.
    Part(PathBuf),
    Worktree(Worktree),
}

impl Git {
    /// Lists the work trees, the user's own first.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn worktree_list(&self) -> Result<Vec<Worktree>, GitError> {
        let operation = "list the work trees";
        let bytes =
            self.read(operation).args(["worktree", "list", "--porcelain", "-z"]).output()?;
        let mut all = read_list(&bytes).ok_or_else(|| GitError::unexpected(operation, &bytes))?;
        if let Some(own) =
            all.first_mut().filter(|own| !own.bare && !own.path.join(".git").exists())
            && let Some(top) = self.main_folder(operation)?
        {
            own.path = top;
        }
        Ok(all)
    }

    /// The folder of the user's own work tree where git lists its git directory instead: in a submodule, or if that
    /// directory lies elsewhere. `None` if nothing names it.
    fn main_folder(&self, operation: &'static str) -> Result<Option<PathBuf>, GitError> {
        let [own, common] = self.paths(operation, [&["--git-dir"], &["--git-common-dir"]])?;
        if own == common {
            return self.top_for(operation).map(Some);
        }
        let file = common.join("config");
        let asked = self.read(operation).args(["config", "-z", "--file"]).arg(&file);
        let named = asked.args(["--get", "core.worktree"]).run()?.stdout;
        let named = named.strip_suffix(b"\0").filter(|path| !path.is_empty());
        Ok(named.and_then(|path| common.join(path_of(path)).canonicalize().ok()))
    }

    /// Adds a work tree on a branch of its own that starts at `base`, and returns its current commit.
    ///
    /// It may be called again: a complete work tree is left as it is, an incomplete one that a crash left
    /// is added again, and a branch that has commits after the base keeps them.
    ///
    /// # Errors
    /// [`GitError`]: the folder or the branch is used for something else.
    pub fn worktree_add(
        &self,
        path: &Path,
        branch: &str,
        base: &CommitId,
    ) -> Result<CommitId, GitError> {
        let operation = "add the work tree";
        let fail = |cause| GitError::new(operation, cause);
        if branch.is_empty() || branch.starts_with('-') {
            return Err(GitError::refused(operation, format!("`{branch}` is no branch")));
        }
        let path = canonical(path).map_err(|error| fail(GitCause::File(error.to_string())))?;
        if let Some(known) = self.remove_incomplete(operation, &path, OnChanges::Refuse)? {
            return if known.branch.as_deref() == Some(branch) {
                known.head.ok_or_else(|| fail(GitCause::Diverged(branch.to_owned())))
            } else {
                Err(fail(GitCause::Taken(path)))
            };
        }
        let reference = format!("refs/heads/{branch}");
        let tip = self.commit_named(operation, &reference)?;
        let settings = self.checkout_settings(operation, tip.as_ref().unwrap_or(base))?;
        let add = self.write(operation).settings(&settings).args(["worktree", "add", "--quiet"]);
        let add = match tip {
            None => add.args(["--no-track", "-b", branch, "--"]).arg(&path).arg(base.as_str()),
            Some(tip) if self.is_ancestor(base, &tip)? => add.arg("--").arg(&path).arg(branch),
            Some(_) => return Err(fail(GitCause::Diverged(branch.to_owned()))),
        };
        add.output()?;
        let made = self.at(&path).head()?;
        made.ok_or_else(|| fail(GitCause::Diverged(branch.to_owned())))
    }

    /// Adds a work tree on no branch, in a folder that is for it alone; a complete one is left as it is, and a part of one
    /// is made anew. Git holds the lock, too, until it has ended.
    ///
    /// # Errors
    /// [`GitError`]: the folder is a repository of its own.
    pub fn worktree_add_detached(
        &self,
        path: &Path,
        base: &CommitId,
        lock: &File,
    ) -> Result<(), GitError> {
        let operation = "add the work tree";
        let fail = |cause| GitError::new(operation, cause);
        let path = canonical(path).map_err(|error| fail(GitCause::File(error.to_string())))?;
        if self.remove_incomplete(operation, &path, OnChanges::DiscardFolder)?.is_none() {
            let settings = self.checkout_settings(operation, base)?;
            let add = self.write(operation).holding(lock).settings(&settings);
            let add = add.args(["worktree", "add", "--quiet", "--detach", "--"]);
            add.arg(&path).arg(base.as_str()).output()?;
        }
        Ok(())
    }

    /// Removes a work tree; its branch and commits stay. One that does not exist is no error.
    ///
    /// # Errors
    /// [`GitError`]: it has uncommitted changes that may not be discarded, it is locked, or the folder is
    /// not a work tree of this repository.
    pub fn worktree_remove(&self, path: &Path, on_changes: OnChanges) -> Result<(), GitError> {
        self.remove_with(path, on_changes, None)
    }

    /// Removes a work tree in a folder that is for it alone, and what is left of one. Git holds the lock, too, until it
    /// has ended.
    ///
    /// # Errors
    /// [`GitError`]: it is locked, or the folder is a repository of its own.
    pub fn worktree_remove_detached(&self, path: &Path, lock: &File) -> Result<(), GitError> {
        self.remove_with(path, OnChanges::DiscardFolder, Some(lock))
    }

    fn remove_with(
        &self,
        path: &Path,
        on_changes: OnChanges,
        lock: Option<&File>,
    ) -> Result<(), GitError> {
        let known = match self.removable_worktree(path, on_changes)? {
            Removable::Nothing => return Ok(()),
            Removable::Part(path) => {
                return fs::remove_dir_all(&path)
                    .map_err(|error| GitError::new(REMOVE, GitCause::File(error.to_string())));
            }
            Removable::Worktree(known) => known,
        };
        if is_abandoned(&known, on_changes) {
            return self.remove_abandoned(&known);
        }
        let remove = self.write(REMOVE);
        let remove = lock.into_iter().fold(remove, |remove, lock| remove.holding(lock));
        let remove = remove.args(["worktree", "remove", "--force", "--"]);
        remove.arg(&known.path).output().map(drop)
    }

    /// Fails if a work tree would not be removed.
    ///
    /// # Errors
    /// As [`Self::worktree_remove`].
    pub fn worktree_check_removal(
        &self,
        path: &Path,
        on_changes: OnChanges,
    ) -> Result<(), GitError> {
        self.removable_worktree(path, on_changes).map(drop)
    }

    /// The work tree at a path, or what is left of one; fails if it may not be removed.
    fn removable_worktree(
        &self,
        path: &Path,
        on_changes: OnChanges,
    ) -> Result<Removable, GitError> {
        let fail = |cause| GitError::new(REMOVE, cause);
        let path = canonical(path).map_err(|error| fail(GitCause::File(error.to_string())))?;
        let Some(known) = self.known(&path)? else {
            return match (path.exists(), on_changes) {
                (false, _) => Ok(Removable::Nothing),
                (true, OnChanges::DiscardFolder) if is_part(&path) => Ok(Removable::Part(path)),
                (true, _) => Err(fail(GitCause::Taken(path))),
            };
        };
        let refuses = on_changes == OnChanges::Refuse && !is_abandoned(&known, on_changes);
        if refuses && self.at(&path).status()? != WorktreeStatus::Clean {
            return Err(fail(GitCause::Dirty(path)));
        }
        Ok(Removable::Worktree(known))
    }

    /// Returns the settings for a checkout of a commit, or refuses it.
    pub(super) fn checkout_settings(
        &self,
        operation: &'static str,
        commit: &CommitId,
    ) -> Result<Vec<(OsString, OsString)>, GitError> {
        let folder = IndexFolder::new(operation)?;
        let index = folder.index();
        let read = self.write(operation).args(["read-tree", commit.as_str()]);
        read.env("GIT_INDEX_FILE", &index).output()?;
        let top = self.at(self.top_for(operation)?);
        top.filter_settings(operation, Files::Index(&index), OnFilter::Refuse)
    }

    /// Renews the links between the repository and work trees, after one side was moved.
    ///
    /// # Errors
    /// [`GitError`]: a folder is not a work tree of this repository.
    pub fn worktree_repair(&self, paths: &[PathBuf]) -> Result<(), GitError> {
        let repair =
            self.write("repair the links of work trees").args(["worktree", "repair", "--"]);
        paths.iter().fold(repair, |repair, path| repair.arg(path)).output().map(drop)
    }

    /// Returns the complete work tree at a path; removes an incomplete one that a crash left.
    fn remove_incomplete(
        &self,
        operation: &'static str,
        path: &Path,
        on_changes: OnChanges,
    ) -> Result<Option<Worktree>, GitError> {
        let fail = |cause| GitError::new(operation, cause);
        let taken = || fail(GitCause::Taken(path.to_owned()));
        if let Some(known) = self.known(path)? {
            if is_complete(&known) {
                return Ok(Some(known));
            }
            if !is_abandoned(&known, on_changes) {
                return Err(taken());
            }
            self.remove_abandoned(&known)?;
        } else if has_only_git_file(path)
            || (on_changes == OnChanges::DiscardFolder && path.exists() && is_part(path))
        {
            fs::remove_dir_all(path).map_err(|error| fail(GitCause::File(error.to_string())))?;
        }
        let empty = fs::read_dir(path).map_or(true, |mut entries| entries.next().is_none());
        if path.exists() && !empty { Err(taken()) } else { Ok(None) }
    }

    fn known(&self, path: &Path) -> Result<Option<Worktree>, GitError> {
        let all = self.worktree_list()?;
        // The first is the user's own, which is never removed.
        Ok(all.into_iter().skip(1).find(|known| known.path == path))
    }

    /// Removes a work tree that was never completed, or whose folder is gone.
    fn remove_abandoned(&self, known: &Worktree) -> Result<(), GitError> {
        let operation = "remove the incomplete work tree";
        if known.path.exists() {
            fs::remove_dir_all(&known.path)
                .map_err(|error| GitError::new(operation, GitCause::File(error.to_string())))?;
        }
        // Twice, since it may be locked.
        let remove = self.write(operation).args(["worktree", "remove", "--force", "--force", "--"]);
        remove.arg(&known.path).output().map(drop)
    }

    /// Whether a commit is part of the history of another one.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn is_ancestor(&self, ancestor: &CommitId, of: &CommitId) -> Result<bool, GitError> {
        let operation = "compare the branch with its base";
        let output = self
            .read(operation)
            .args(["merge-base", "--is-ancestor", ancestor.as_str(), of.as_str()])
            .run()?;
        match output.code {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            Some(_) | None => Err(output.failure(operation, self.root())),
        }
    }
}

/// The path as git lists it: its parent without symbolic links.
fn canonical(path: &Path) -> io::Result<PathBuf> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other(format!("`{}` is not a folder path", path.display())));
    };
    fs::create_dir_all(parent)?;
    Ok(parent.canonicalize()?.join(name))
}

/// Whether git completed it and it still exists.
fn is_complete(known: &Worktree) -> bool {
    let initializing = known.locked.as_deref() == Some(INITIALIZING);
    !initializing && !known.prunable && known.path.join(".git").is_file()
}

/// Whether it was never completed or its folder is gone, so that removing it loses nothing; or whether it is a part of
/// one that may be discarded.
fn is_abandoned(known: &Worktree, on_changes: OnChanges) -> bool {
    match known.locked.as_deref() {
        Some(INITIALIZING) => true,
        // Somebody else's lock.
        Some(_) => false,
        None if known.path.exists() => {
            on_changes == OnChanges::DiscardFolder && !is_complete(known) && is_part(&known.path)
        }
        None => known.prunable,
    }
}

/// Whether the folder is no repository of its own, and no work tree that is still linked to one: git links a work tree
/// first when it adds it, and removes its files in any order.
fn is_part(path: &Path) -> bool {
    let link = path.join(".git");
    match fs::symlink_metadata(&link) {
        Err(error) => error.kind() == io::ErrorKind::NotFound && path.is_dir(),
        Ok(found) if found.is_file() => {
            let text = fs::read_to_string(&link).unwrap_or_default();
            let target = text.strip_prefix("gitdir: ").map(str::trim_end);
            target.is_none_or(|target| target.is_empty() || !path.join(target).exists())
        }
        Ok(_) => false,
    }
}

/// Whether the folder has only the `.git` file of a new work tree, so that removing it loses nothing.
fn has_only_git_file(path: &Path) -> bool {
    let Ok(entries) = fs::read_dir(path) else { return false };
    let names: Vec<_> =
        entries.filter_map(|entry| entry.ok().map(|entry| entry.file_name())).collect();
    names == [os(b".git")] && path.join(".git").is_file()
}

/// Reads records of `attribute value NUL` that end with an empty one.
fn read_list(bytes: &[u8]) -> Option<Vec<Worktree>> {
    let mut list = Vec::new();
    let mut current: Option<Worktree> = None;
    for attribute in bytes.strip_suffix(b"\0")?.split(|byte| *byte == 0) {
        if attribute.is_empty() {
            list.push(current.take()?);
            continue;
        }
        let (name, value) = split_once(attribute, b' ').unwrap_or((attribute, b""));
        if name == b"worktree" {
            if current.is_some() || value.is_empty() {
                return None;
            }
            current = Some(Worktree { path: path_of(value), ..Worktree::default() });
            continue;
        }
        let text = || String::from_utf8_lossy(value).into_owned();
        let worktree = current.as_mut()?;
        match name {
            // All zeros on an unborn branch.
            b"HEAD" if value.iter().all(|byte| *byte == b'0') => {}
            b"HEAD" => worktree.head = Some(text().parse().ok()?),
            b"branch" => {
                let branch = text();
                let short = branch.strip_prefix("refs/heads/").unwrap_or(&branch).to_owned();
                worktree.branch = Some(short);
            }
            b"locked" => worktree.locked = Some(text()),
            b"prunable" => worktree.prunable = true,
            b"bare" => worktree.bare = true,
            // `detached`, and attributes of newer versions.
            _ => {}
        }
    }
    current.is_none().then_some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_or_refused() {
        let id = "a".repeat(40);
        let text = format!(
            "worktree /a b\n\0HEAD {id}\0branch refs/heads/windlass/x\0\0\
             worktree /c\0HEAD {}\0detached\0locked initializing\0prunable gone\0\0",
            "0".repeat(40)
        );
        let expected = vec![
            Worktree {
                path: "/a b\n".into(),
                head: Some(id.parse().unwrap()),
                branch: Some("windlass/x".into()),
                ..Worktree::default()
            },
            Worktree {
                path: "/c".into(),
                locked: Some(INITIALIZING.into()),
                prunable: true,
                ..Worktree::default()
            },
        ];
        assert_eq!(read_list(text.as_bytes()), Some(expected));
        for bad in ["", "worktree /a\0", "HEAD x\0\0", "worktree /a\0HEAD x\0\0", "worktree \0\0"] {
            assert_eq!(read_list(bad.as_bytes()), None, "{bad:?}");
        }
    }
}
