//! The plain files of a git directory: which are taken over, which are protected.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use windlass_kernel::Digest;

use super::index::digest_of_entries;
use super::layers::{Found, Kind, Layers, read_file};
use super::logs::{self, LogMark};
use super::operation;
use super::refs::OWN_LOGS;
use super::{Baseline, TakeOverError};
use crate::git::replace::replace;

/// The size limit of a plain file.
pub(super) const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// How many plain files there may be.
const FILES_MAX: usize = 200_000;

/// Files of a work tree's git directory that are taken over as they are.
const NAMES: [&str; 15] = [
    "index",
    "ORIG_HEAD",
    "FETCH_HEAD",
    "MERGE_HEAD",
    "MERGE_MSG",
    "MERGE_MODE",
    "MERGE_RR",
    "MERGE_AUTOSTASH",
    "AUTO_MERGE",
    "SQUASH_MSG",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "COMMIT_EDITMSG",
    "NOTES_EDITMSG",
];
/// Folders that are taken over as they are.
const FOLDERS: [&str; 4] = ["rebase-merge", "rebase-apply", "sequencer", "logs"];
/// Names that are never taken over, since they decide what git does.
const PROTECTED: [&str; 8] =
    ["config", "hooks", "info", "commondir", "gitdir", "modules", "branches", "remotes"];

/// What is done with a path of a git directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Objects are imported by content.
    Object,
    /// A ref, which is read and set by its value.
    Ref,
    /// The current commit of a work tree.
    Head,
    /// A plain file that is taken over.
    Plain,
    /// Part of a work tree that is not the command's own.
    Worktree,
    /// It is never taken over, and the report says so.
    Protected,
    /// It is not taken over.
    Ignored,
}

/// Whose a git directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It is that of the command's workspace, or of a work tree inside it.
    Command,
    /// It is that of another work tree of the user.
    User,
}

/// Classifies a path below the common directory. `owners` says whose the git directories of the work
/// trees are; that of the main one has an empty name.
pub(super) fn classify(path: &Path, owners: &BTreeMap<String, Owner>) -> Class {
    let parts: Option<Vec<&str>> = path.iter().map(|part| part.to_str()).collect();
    let Some(parts) = parts else { return Class::Ignored };
    let is_lock = |part: &&str| part.ends_with(".lock") || part.starts_with("tmp_");
    match parts.as_slice() {
        // Git writes them in `gc`; they can be computed again.
        ["objects", "info", "packs" | "commit-graph" | "commit-graphs", ..] | ["info", "refs"] => {
            Class::Ignored
        }
        ["objects", "info", ..] => Class::Protected,
        ["objects", ..] => Class::Object,
        parts if parts.iter().any(is_lock) => Class::Ignored,
        ["refs", ..] | ["packed-refs"] => Class::Ref,
        ["logs", "refs", "windlass", ..] => Class::Protected,
        // A resolution that a command has recorded would be applied to a person's next conflict.
        ["rr-cache", ..] => Class::Ignored,
        ["logs", "refs", ..] => Class::Plain,
        // Git shortens the logs of all work trees in `gc`.
        ["logs", ..] if owners.get("") == Some(&Owner::User) => Class::Ignored,
        ["worktrees", id, "logs", ..] if owners.get(*id) == Some(&Owner::User) => Class::Ignored,
        ["worktrees", id, rest @ ..] => match owners.get(*id) {
            Some(Owner::Command) => in_git_dir(rest),
            Some(Owner::User) => Class::Protected,
            None => Class::Worktree,
        },
        ["worktrees"] => Class::Worktree,
        parts => match (in_git_dir(parts), owners.get("")) {
            (Class::Plain | Class::Head, Some(Owner::User)) => Class::Protected,
            (class, _) => class,
        },
    }
}

/// Classifies a path below the git directory of a work tree.
fn in_git_dir(parts: &[&str]) -> Class {
    let Some(first) = parts.first() else { return Class::Worktree };
    match parts {
        ["HEAD"] => Class::Head,
        // Refs of this work tree alone, such as those of a bisection.
        ["refs", "bisect" | "worktree" | "rewritten", ..] => Class::Plain,
        [name] if NAMES.contains(name) => Class::Plain,
        [name] if name.starts_with("BISECT_") || name.starts_with("sharedindex.") => Class::Plain,
        _ if FOLDERS.contains(first) => Class::Plain,
        _ if PROTECTED.contains(first) || first.starts_with("config.") => Class::Protected,
        _ => Class::Ignored,
    }
}

/// A change of a plain file; `None` removes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileChange {
    pub path: PathBuf,
    /// The file of the upper layer.
    pub after: Option<PathBuf>,
    /// For a log that somebody else has changed, too: the object of its ref before the command.
    pub log_from: Option<String>,
}

/// Whether the content of a file is compared with the one at the start. Logs are not: git adds to them
/// at every change of a ref.
pub(super) fn is_compared(path: &Path) -> bool {
    !path.iter().any(|part| part == "logs")
}

/// Lists the plain files that the layers show.
pub(super) fn plain_files(
    layers: &Layers,
    owners: &BTreeMap<String, Owner>,
) -> Result<BTreeMap<PathBuf, Found>, TakeOverError> {
    let mut roots: Vec<PathBuf> = vec!["logs".into()];
    for (id, owner) in owners {
        if *owner == Owner::Command {
            let git_dir = git_dir(id);
            for path in layers.list(&git_dir).into_keys() {
                roots.push(path);
            }
        }
    }
    let mut files = BTreeMap::new();
    for root in roots {
        let skipped = ["objects", "refs", "worktrees", "modules", "hooks"];
        let is_top = root.components().count() == 1;
        if is_top && skipped.iter().any(|name| root.as_os_str() == *name) {
            continue;
        }
        for (path, found) in layers.files_without(&root, Some(Path::new(OWN_LOGS)), FILES_MAX)? {
            if classify(&path, owners) == Class::Plain {
                files.insert(path, found);
            }
        }
    }
    Ok(files)
}

/// The git directory of a work tree below the common directory.
pub(super) fn git_dir(id: &str) -> PathBuf {
    if id.is_empty() { PathBuf::new() } else { Path::new("worktrees").join(id) }
}

/// The digest of a file's content; `None` when there is no such file.
pub(super) fn digest_of(path: &Path) -> Option<String> {
    let bytes = read_file(path, FILE_BYTES_MAX).ok()?;
    Some(Digest::of(&bytes).hex().as_str().to_owned())
}

/// The digest by which it is known whether somebody has changed a file: of an index, that of what it says.
pub(super) fn state_of(path: &Path, digits: usize) -> Option<String> {
    let bytes = read_file(path, FILE_BYTES_MAX).ok()?;
    let is_index = path.file_name().is_some_and(|name| name == "index");
    let said = is_index.then(|| digest_of_entries(&bytes, digits)).flatten();
    said.or_else(|| Some(Digest::of(&bytes).hex().as_str().to_owned()))
}

/// The folders of unfinished operations that a command has written and that must not be gone on with.
fn given_up(merged: &BTreeMap<PathBuf, Found>) -> BTreeSet<PathBuf> {
    let mut folders = BTreeSet::new();
    for (path, found) in merged {
        let (Some(folder), Found::Upper(file, _)) = (operation::folder_of(path), found) else {
            continue;
        };
        let bytes = read_file(file, operation::BYTES_MAX);
        if !bytes.is_ok_and(|bytes| operation::is_plain(path, &bytes)) {
            folders.insert(folder);
        }
    }
    folders
}

/// Finds the plain files that the upper layer changes, and the folders of operations that are left out.
pub(super) fn changes(
    layers: &Layers,
    base: &Baseline,
    owners: &BTreeMap<String, Owner>,
    digits: usize,
) -> Result<(Vec<FileChange>, BTreeSet<PathBuf>), TakeOverError> {
    let lower = Layers { upper: None, lower: layers.lower.clone() };
    let mut merged = plain_files(layers, owners)?;
    let mut present = plain_files(&lower, owners)?;
    let given_up = given_up(&merged);
    let goes_on = |path: &PathBuf| !given_up.iter().any(|folder| path.starts_with(folder));
    merged.retain(|path, _| goes_on(path));
    present.retain(|path, _| goes_on(path));
    let paths: BTreeSet<&PathBuf> = merged.keys().chain(present.keys()).collect();
    let mut changes = Vec::new();
    for path in paths {
        let after = match merged.get(path) {
            Some(Found::Lower(..)) => continue,
            Some(Found::Upper(file, Kind::File { bytes })) if *bytes <= FILE_BYTES_MAX => {
                Some(file.clone())
            }
            Some(Found::Upper(_, Kind::File { .. })) => {
                return Err(TakeOverError::damaged(path, "it is too large"));
            }
            Some(Found::Upper(..)) => return Err(TakeOverError::damaged(path, "it is no file")),
            // Another process may have created it just now.
            Some(Found::Absent) | None if !layers.hides(path) => continue,
            Some(Found::Absent) | None => None,
        };
        let now = digest_of(&layers.lower.join(path));
        let new = after.as_deref().map(|file| {
            digest_of(file).ok_or_else(|| TakeOverError::damaged(path, "it cannot be read"))
        });
        let new = new.transpose()?;
        if now == new {
            continue;
        }
        let state = state_of(&layers.lower.join(path), digits);
        if is_compared(path) && state.as_ref() != base.files.get(&*path.to_string_lossy()) {
            return Err(TakeOverError::Conflict(path.to_string_lossy().into_owned()));
        }
        let mut log_from = None;
        let mark = LogMark::of(&layers.lower.join(path)).filter(|_| logs::is_log(path));
        if mark.is_some() && mark.as_ref() != base.logs.get(&*path.to_string_lossy()) {
            // What the user has added stays; with a ref that is removed, git removes its log.
            if after.is_none() {
                continue;
            }
            log_from = Some(logs::object_before(base, path, digits));
        }
        changes.push(FileChange { path: path.clone(), after, log_from });
    }
    Ok((changes, given_up))
}

/// Replaces or removes a file of the repository at once.
pub(super) fn apply(common: &Path, change: &FileChange) -> io::Result<()> {
    let path = common.join(&change.path);
    match &change.after {
        None => match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => {
                remove_empty(common, &change.path);
                Ok(())
            }
        },
        Some(file) => {
            let mut bytes = read_file(file, FILE_BYTES_MAX)?;
            if let Some(before) = &change.log_from {
                let user = read_file(&path, FILE_BYTES_MAX)?;
                bytes = logs::merged(&user, &bytes, before);
                if bytes == user {
                    return Ok(());
                }
            }
            replace(&path, &bytes)
        }
    }
}

/// Removes the folders above a removed file that git removes as well.
fn remove_empty(common: &Path, path: &Path) {
    for folder in path.ancestors().skip(1) {
        let shared = folder.file_name().is_none_or(|name| name == "logs" || name == "worktrees")
            || folder.parent().is_some_and(|parent| parent.ends_with("worktrees"));
        if shared || fs::remove_dir(common.join(folder)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_its_class() {
        let owners = BTreeMap::from([
            (String::new(), Owner::Command),
            ("own".to_owned(), Owner::Command),
            ("other".to_owned(), Owner::User),
        ]);
        for (path, class) in [
            ("HEAD", Class::Head),
            ("index", Class::Plain),
            ("index.lock", Class::Ignored),
            ("sharedindex.abc", Class::Plain),
            ("logs/refs/heads/a", Class::Plain),
            ("logs/refs/windlass/a", Class::Protected),
            ("rebase-merge/git-rebase-todo", Class::Plain),
            ("rr-cache/12ab/postimage", Class::Ignored),
            ("packed-refs", Class::Ref),
            ("refs/windlass/a", Class::Ref),
            ("objects/info/alternates", Class::Protected),
            ("objects/info/packs", Class::Ignored),
            ("objects/ab/cd", Class::Object),
            ("config", Class::Protected),
            ("config.worktree", Class::Protected),
            ("hooks/pre-commit", Class::Protected),
            ("info/attributes", Class::Protected),
            ("modules/a/config", Class::Protected),
            ("worktrees/own/HEAD", Class::Head),
            ("worktrees/own/index", Class::Plain),
            ("worktrees/own/gitdir", Class::Protected),
            ("worktrees/own/config.worktree", Class::Protected),
            ("worktrees/other/HEAD", Class::Protected),
            ("worktrees/new/HEAD", Class::Worktree),
            ("gc.pid", Class::Ignored),
            ("shallow", Class::Ignored),
        ] {
            assert_eq!(classify(Path::new(path), &owners), class, "{path}");
        }
        let linked = BTreeMap::from([(String::new(), Owner::User)]);
        assert_eq!(classify(Path::new("logs/HEAD"), &linked), Class::Ignored);
        for path in ["HEAD", "index", "MERGE_HEAD"] {
            assert_eq!(classify(Path::new(path), &linked), Class::Protected, "{path}");
        }
    }
}
