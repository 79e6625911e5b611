//! Work trees that a command added or removed inside its workspace.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::files::{Class, FILE_BYTES_MAX, Owner, classify, git_dir};
use super::layers::{Found, Kind, Layers, read_file};
use super::operation;
use super::refs::{RefValue, head_of, may_lead_to};
use super::{Baseline, TakeOver, TakeOverError};
use crate::git::replace::replace;

/// The size limit of a file with a path.
const PATH_BYTES_MAX: u64 = 16 * 1024;
/// How many files the git directory of a new work tree may have.
const FILES_MAX: usize = 10_000;

/// A work tree that a command added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewWorktree {
    pub id: String,
    pub head: RefValue,
    /// The files of its git directory, below it.
    pub files: Vec<(PathBuf, PathBuf)>,
}

/// Reads whose the git directories are. The main one has an empty name.
pub(super) fn owners(
    common: &Path,
    workspace: &Path,
) -> Result<BTreeMap<String, Owner>, TakeOverError> {
    let mut owners = BTreeMap::new();
    let entries = fs::read_dir(common.join("worktrees"));
    for entry in entries.into_iter().flatten().flatten() {
        let Ok(id) = entry.file_name().into_string() else { continue };
        let file = entry.path().join("gitdir");
        let inside = read_file(&file, PATH_BYTES_MAX)
            .ok()
            .and_then(|bytes| path_in(&bytes))
            .is_some_and(|path| path.starts_with(workspace));
        owners.insert(id, if inside { Owner::Command } else { Owner::User });
    }
    let link = workspace.join(".git");
    let found = fs::symlink_metadata(&link).map_err(|error| TakeOverError::file(&link, &error))?;
    // A submodule has a file with the path of its git directory.
    let target = if found.is_file() {
        let bytes = read_file(&link, PATH_BYTES_MAX).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        text.strip_prefix("gitdir: ").map(|path| workspace.join(path.trim_end_matches('\n')))
    } else {
        Some(link.clone())
    };
    let is_main = target.and_then(|path| path.canonicalize().ok()).is_some_and(|at| at == common);
    let is_linked = owners.keys().any(|id| {
        let file = common.join(git_dir(id)).join("gitdir");
        read_file(&file, PATH_BYTES_MAX).ok().and_then(|bytes| path_in(&bytes)).as_ref()
            == Some(&link)
    });
    if !is_main && !is_linked {
        let why = "the workspace is no work tree of this repository";
        return Err(TakeOverError::damaged(&link, why));
    }
    owners.insert(String::new(), if is_main { Owner::Command } else { Owner::User });
    Ok(owners)
}

/// The absolute path in a file, without steps back.
fn path_in(bytes: &[u8]) -> Option<PathBuf> {
    let path = PathBuf::from(std::str::from_utf8(bytes).ok()?.trim_end_matches('\n'));
    let plain =
        path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    (path.is_absolute() && plain).then_some(path)
}

impl TakeOver<'_> {
    /// Finds work trees that the upper layer adds. One that is not valid, or lies outside the workspace,
    /// is protected.
    pub(super) fn new_worktrees(
        &self,
        layers: &Layers,
        owners: &BTreeMap<String, Owner>,
        base: &Baseline,
        protected: &mut Vec<String>,
    ) -> Result<Vec<NewWorktree>, TakeOverError> {
        let mut new = Vec::new();
        for (path, found) in layers.list(Path::new("worktrees")) {
            let id = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            // One of the lower layer is of somebody else, who may have added it just now.
            let Found::Upper(_, kind) = found else { continue };
            // What git wrote to one that somebody else has removed meanwhile is left out.
            let is_rest = || {
                let has = |name: &str| layers.find(&path.join(name)) != Found::Absent;
                base.heads.contains_key(id) || !["HEAD", "gitdir", "commondir"].into_iter().any(has)
            };
            if owners.contains_key(id) || matches!(kind, Kind::Folder { .. }) && is_rest() {
                continue;
            }
            let valid = matches!(kind, Kind::Folder { .. });
            match valid.then(|| self.new_worktree(layers, id)).transpose()?.flatten() {
                Some(worktree) => new.push(worktree),
                None => protected.push(path.to_string_lossy().into_owned()),
            }
        }
        Ok(new)
    }

    fn new_worktree(
        &self,
        layers: &Layers,
        id: &str,
    ) -> Result<Option<NewWorktree>, TakeOverError> {
        let folder = git_dir(id);
        let read = |name: &str, bytes_max| match layers.find(&folder.join(name)) {
            Found::Upper(path, Kind::File { .. }) => read_file(&path, bytes_max).ok(),
            Found::Upper(..) | Found::Lower(..) | Found::Absent => None,
        };
        let common = read("commondir", PATH_BYTES_MAX);
        let place = read("gitdir", PATH_BYTES_MAX).and_then(|bytes| path_in(&bytes));
        let inside = place.is_some_and(|path| {
            path.file_name().is_some_and(|name| name == ".git")
                && path.parent().is_some_and(|parent| {
                    parent.starts_with(self.workspace) && parent != self.workspace
                })
        });
        let head = read("HEAD", PATH_BYTES_MAX);
        let head = head.and_then(|bytes| RefValue::parse(&bytes, self.digits));
        let is_branch = |head: &RefValue| head.target().is_none_or(|to| may_lead_to("HEAD", to));
        let head = head.filter(is_branch);
        let (Some(head), true, true) = (head, inside, common.as_deref() == Some(b"../..\n")) else {
            return Ok(None);
        };
        let own = BTreeMap::from([(id.to_owned(), Owner::Command)]);
        let mut files = Vec::new();
        for (path, found) in layers.files(&folder, FILES_MAX)? {
            let inner = path.strip_prefix(&folder).unwrap_or(&path).to_owned();
            let link = inner.as_os_str() == "commondir" || inner.as_os_str() == "gitdir";
            let class = classify(&path, &own);
            match (class, found) {
                (Class::Plain | Class::Head, Found::Upper(file, Kind::File { bytes }))
                    if bytes <= FILE_BYTES_MAX =>
                {
                    let is_plain = |bytes: Vec<u8>| operation::is_plain(&path, &bytes);
                    if operation::folder_of(&path).is_some()
                        && !read_file(&file, operation::BYTES_MAX).is_ok_and(is_plain)
                    {
                        return Ok(None);
                    }
                    files.push((inner, file));
                }
                (_, Found::Upper(file, Kind::File { .. })) if link => files.push((inner, file)),
                (Class::Plain | Class::Head, _) => return Ok(None),
                _ => {}
            }
        }
        Ok(Some(NewWorktree { id: id.to_owned(), head, files }))
    }

    /// The ids of work trees inside the workspace that the upper layer removes.
    pub(super) fn removed_worktrees(
        &self,
        layers: &Layers,
        owners: &BTreeMap<String, Owner>,
    ) -> Vec<String> {
        let removed = |id: &&String| {
            let head = head_of(&git_dir(id));
            let link = self.workspace.join(".git");
            let file = self.common.join(git_dir(id)).join("gitdir");
            let own = read_file(&file, PATH_BYTES_MAX).ok().and_then(|bytes| path_in(&bytes));
            !id.is_empty()
                && own.is_some_and(|path| path != link)
                && layers.find(&git_dir(id)) == Found::Absent
                && layers.find(&head) == Found::Absent
        };
        let own = owners.iter().filter(|(_, owner)| **owner == Owner::Command);
        own.map(|(id, _)| id).filter(removed).cloned().collect()
    }
}

/// Adds the git directory of a work tree at once.
pub(super) fn add(common: &Path, new: &NewWorktree) -> io::Result<()> {
    let temporary = tempfile::Builder::new().prefix("tmp_windlass_").tempdir_in(common)?;
    for (name, file) in &new.files {
        replace(&temporary.path().join(name), &read_file(file, FILE_BYTES_MAX)?)?;
    }
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(temporary.path(), mode)?;
    fs::create_dir_all(common.join("worktrees"))?;
    fs::rename(temporary.path(), common.join(git_dir(&new.id)))?;
    // It has moved.
    let _ = temporary.keep();
    Ok(())
}

/// Removes the git directory of a work tree at once.
pub(super) fn remove(common: &Path, id: &str) -> io::Result<()> {
    let temporary = tempfile::Builder::new().prefix("tmp_windlass_").tempdir_in(common)?;
    fs::rename(common.join(git_dir(id)), temporary.path().join("worktree"))?;
    temporary.close()?;
    // Git removes the folder of the last one.
    let _ = fs::remove_dir(common.join("worktrees"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_tree_that_somebody_else_adds_meanwhile_is_not_the_commands() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for path in ["common/worktrees/others", "upper/worktrees/own", "tree"] {
            fs::create_dir_all(at(path)).unwrap();
        }
        fs::write(at("upper/worktrees/own/HEAD"), "").unwrap();
        let (common, upper, workspace) = (at("common"), at("upper"), at("tree"));
        let take_over =
            TakeOver { common: &common, upper: &upper, workspace: &workspace, digits: 40 };
        let layers = Layers { upper: Some(upper.clone()), lower: common.clone() };
        let mut protected = Vec::new();
        // The owners were read before it was added.
        let base = Baseline {
            refs: BTreeMap::new(),
            heads: BTreeMap::new(),
            reaches_others: false,
            files: BTreeMap::new(),
            logs: BTreeMap::new(),
        };
        let new = take_over.new_worktrees(&layers, &BTreeMap::new(), &base, &mut protected);
        assert_eq!((new.unwrap(), protected), (Vec::new(), vec!["worktrees/own".to_owned()]));
    }
}
