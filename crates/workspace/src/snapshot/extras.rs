//! What a git tree does not hold: permissions of files other than the executable bit, and empty folders.
//!
//! Permissions that a new file gets anyway (644 and 755, and 664 and 775 with another default of the user) are not
//! kept, and count as the same. Older versions kept the rest in a file named after the tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::capture::records;
use super::contents::SnapshotContents;
use super::index_state::{IndexState, RawPath};
use super::rooted_dir::{DiskEntry, RootedDir};
use super::staging::permissions_for;
use super::workspace::{Workspace, exists};
use super::{ChangeKind, Entry, EntryMode, PathChange, SnapshotError, Snapshots};
use crate::git::{Access, Invocation, os, path_of, split_once};
use crate::{GitError, TreeId};

/// The folder of the files of older versions in the private git directory.
const FOLDER: &str = "extras";
/// The maximum number of empty folders.
const FOLDERS_MAX: usize = 10_000;
/// The maximum number of files that are looked at again. To write more takes longer than they stay recent.
const RECENT_MAX: usize = 20_000;
/// How many entries of new folders are read to find empty ones.
const WALKED_MAX: usize = 20_000;
/// The bits of permissions.
const PERMISSIONS: u32 = 0o7777;

/// What a tree does not hold; paths are relative to the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Extras {
    /// Empty folders.
    pub folders: BTreeSet<RawPath>,
    /// Unusual permissions of files.
    pub modes: BTreeMap<RawPath, u32>,
    /// Nested repositories without a commit. They are only named.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unborn: BTreeSet<RawPath>,
}

impl Extras {
    /// Whether there is nothing that a tree does not hold.
    pub fn is_empty(&self) -> bool {
        self.folders.is_empty() && self.modes.is_empty() && self.unborn.is_empty()
    }

    /// The permissions of a file, if they are unusual.
    pub fn mode(&self, path: &Path) -> Option<u32> {
        self.modes.get(&RawPath(path.as_os_str().as_bytes().to_vec())).copied()
    }

    /// Whether all paths lead below the workspace and all permissions are such.
    pub fn is_safe(&self) -> bool {
        let is_plain = |part: &[u8]| !matches!(part, b"" | b"." | b"..") && !part.contains(&0);
        let is_inside = |name: &RawPath| name.0.split(|byte| *byte == b'/').all(is_plain);
        self.folders.iter().chain(self.modes.keys()).chain(&self.unborn).all(is_inside)
            && self.modes.values().all(|mode| *mode <= PERMISSIONS)
    }

    /// Merges the changes of two sides since a third. Where both have changed the permissions of a file, it gets
    /// those that both give.
    pub fn merge(base: &Self, ours: &Self, theirs: &Self) -> Self {
        let mut merged = Self { unborn: ours.unborn.clone(), ..Self::default() };
        for name in ours.modes.keys().chain(theirs.modes.keys()) {
            let of = |side: &Self| side.modes.get(name).copied();
            let mode = match (of(base), of(ours), of(theirs)) {
                (base, ours, theirs) if theirs == base || theirs == ours => ours,
                (base, ours, theirs) if ours == base => theirs,
                (_, Some(ours), Some(theirs)) => Some(ours & theirs),
                (_, one, other) => one.or(other),
            };
            merged.modes.extend(mode.map(|mode| (name.clone(), mode)));
        }
        let sides = [ours, theirs];
        let all = ours.folders.union(&theirs.folders);
        let is_left = |name: &&RawPath| {
            !base.folders.contains(*name) || sides.iter().all(|side| side.folders.contains(*name))
        };
        merged.folders = all.filter(is_left).cloned().collect();
        merged
    }

    /// Drops what does not fit the files of a tree, and gives permissions the executable bits of its entries.
    pub fn fit(&mut self, files: &BTreeMap<RawPath, EntryMode>) {
        self.modes.retain(|name, mode| {
            let entry = files.get(name).filter(|entry| entry.is_file());
            if let Some(entry) = entry {
                let is_executable = *mode & 0o100 != 0;
                if is_executable != (*entry == EntryMode::Executable) {
                    *mode = permissions_for(*entry, *mode).mode();
                }
            }
            entry.is_some() && !is_usual(*mode)
        });
        self.folders.retain(|name| {
            let inside = RawPath([&name.0, &b"/"[..]].concat());
            let first = files.range(inside.clone()..).next();
            let has_files = first.is_some_and(|(first, _)| first.0.starts_with(&inside.0));
            !has_files && !files.contains_key(name)
        });
    }
}

/// Whether a new file would get these permissions anyway.
pub(super) const fn is_usual(mode: u32) -> bool {
    matches!(mode & PERMISSIONS, 0o644 | 0o755 | 0o664 | 0o775)
}

impl Snapshots {
    fn extras_path(&self, tree: &TreeId) -> PathBuf {
        self.private.join(FOLDER).join(tree.as_str())
    }

    /// Whether something is kept beside a tree.
    pub(super) fn has_extras_beside(&self, tree: &TreeId) -> bool {
        exists(&self.extras_path(tree))
    }

    /// What an older version has kept beside a tree. What cannot be read counts as nothing: it decides no content.
    pub(super) fn extras_beside(&self, tree: &TreeId) -> Extras {
        let bytes = fs::read(self.extras_path(tree)).ok();
        let extras = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        extras.filter(Extras::is_safe).unwrap_or_default()
    }

    /// Writes the snapshot of a tree with these extras, as far as they fit its files.
    pub(super) fn write_fitting(
        &self,
        tree: TreeId,
        mut extras: Extras,
    ) -> Result<TreeId, SnapshotError> {
        if !extras.is_empty() {
            extras.fit(&self.entries(&tree)?);
        }
        self.write_snapshot(tree, extras)
    }

    /// The files of a tree.
    fn entries(&self, tree: &TreeId) -> Result<BTreeMap<RawPath, EntryMode>, SnapshotError> {
        let listed = self.list_entries(tree)?;
        Ok(listed.into_iter().map(|(name, entry)| (name, entry.mode)).collect())
    }

    /// Lists the entries of a tree, without their sizes.
    fn list_entries(&self, tree: &TreeId) -> Result<Vec<(RawPath, Entry)>, SnapshotError> {
        let operation = "list the files of the snapshot";
        let git = self.objects_git(operation, Access::Read);
        let git = git.args(["ls-tree", "-r", "-z", "--full-tree", tree.as_str()]);
        let listed = git.output().map_err(|error| self.explain(&[tree], error))?;
        let read = |record: &[u8]| {
            let (facts, name) = split_once(record, b'\t')?;
            let mut facts = std::str::from_utf8(facts).ok()?.split(' ');
            let (mode, object) = (facts.next()?, facts.nth(1)?.to_owned());
            let mode = EntryMode::parse(mode.as_bytes())?;
            let entry = Entry { mode, object, permissions: None, size: None };
            Some((RawPath(name.to_vec()), entry))
        };
        let entries: Option<Vec<_>> = records(&listed).map(read).collect();
        Ok(entries.ok_or_else(|| GitError::unexpected(operation, &listed))?)
    }

    /// Adds to the changes of two trees what differs in what the trees do not hold.
    pub(super) fn add_extras(
        &self,
        changes: &mut Vec<PathChange>,
        before: &SnapshotContents,
        after: &SnapshotContents,
    ) -> Result<(), SnapshotError> {
        let mut listed = BTreeSet::new();
        for change in changes.iter_mut() {
            let path = &change.path;
            for (entry, side) in [(&mut change.before, before), (&mut change.after, after)] {
                if let Some(entry) = entry.as_mut().filter(|entry| entry.mode.is_file()) {
                    entry.permissions = side.extras.mode(path);
                }
            }
            listed.insert(RawPath(path.as_os_str().as_bytes().to_vec()));
        }
        if before.extras == after.extras {
            return Ok(());
        }
        let (old, new) = (&before.extras, &after.extras);
        let differing: BTreeSet<&RawPath> = old
            .modes
            .keys()
            .chain(new.modes.keys())
            .filter(|name| old.modes.get(name) != new.modes.get(name) && !listed.contains(name))
            .collect();
        let entries =
            if differing.is_empty() { Vec::new() } else { self.list_entries(&after.tree)? };
        for (name, entry) in entries {
            if entry.mode.is_file() && differing.contains(&name) {
                let side = |extras: &Extras| {
                    let permissions = extras.modes.get(&name).copied();
                    Some(Entry { permissions, ..entry.clone() })
                };
                let (before, after) = (side(old), side(new));
                changes.push(PathChange {
                    path: name.path(),
                    kind: ChangeKind::ModeChanged,
                    before,
                    after,
                });
            }
        }
        let folder = || {
            let object = self.format().hasher("tree", 0).finish();
            Some(Entry { mode: EntryMode::Folder, object, permissions: None, size: None })
        };
        let removed = old.folders.difference(&new.folders);
        let added = new.folders.difference(&old.folders);
        changes.extend(removed.map(|name| PathChange {
            path: name.path(),
            kind: ChangeKind::Removed,
            before: folder(),
            after: None,
        }));
        changes.extend(added.map(|name| PathChange {
            path: name.path(),
            kind: ChangeKind::Added,
            before: None,
            after: folder(),
        }));
        changes.sort_by(|one, other| {
            one.path.as_os_str().as_bytes().cmp(other.path.as_os_str().as_bytes())
        });
        Ok(())
    }

    /// Removes what is kept beside trees that have no reference any more.
    pub(super) fn sweep_extras(&self) -> Result<(), SnapshotError> {
        let entries = fs::read_dir(self.private.join(FOLDER));
        let kept: Vec<PathBuf> =
            entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        if kept.is_empty() {
            return Ok(());
        }
        let trees: BTreeSet<String> =
            self.references()?.into_iter().map(|(_, tree)| tree.to_string()).collect();
        let is_used = |path: &PathBuf| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| trees.contains(name))
        };
        for path in kept.iter().filter(|path| !is_used(path)) {
            // Whatever is left is swept the next time.
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    /// A git invocation that lists new folders, empty ones among them.
    pub(super) fn list_new_folders<'a>(
        &self,
        operation: &'static str,
        workspace: &'a Workspace,
    ) -> Invocation<'a> {
        let git = self.workspace_git(operation, Access::Read, workspace);
        let git = git.args(["ls-files", "--others", "--directory", "-z"]);
        let git = self.exclude_options(git, workspace);
        let prefix = workspace.prefix();
        if prefix.is_empty() { git } else { git.arg("--").arg(os(&prefix)) }
    }

    /// The empty folders among new ones and below them, and those whose last file was removed, without ignored ones.
    pub(super) fn empty_folders(
        &self,
        operation: &'static str,
        workspace: &Workspace,
        listed: &[u8],
        removed: &BTreeSet<Vec<u8>>,
    ) -> Result<BTreeSet<RawPath>, SnapshotError> {
        let mut found = self.find_empty(workspace, listed, removed);
        if found.is_empty() {
            return Ok(found);
        }
        // Git does not say what it ignores below a new folder unless it is asked.
        let git = self.workspace_git(operation, Access::Read, workspace);
        let git = git.args(["ls-files", "--others", "--ignored", "--directory", "-z"]);
        let git = self.exclude_options(git, workspace);
        let prefix = workspace.prefix();
        let git = if prefix.is_empty() { git } else { git.arg("--").arg(os(&prefix)) };
        let ignored = git.output()?;
        let ignored: BTreeSet<PathBuf> = records(&ignored)
            .filter_map(|record| record.strip_prefix(prefix.as_slice())?.strip_suffix(b"/"))
            .map(path_of)
            .collect();
        found.retain(|name| !name.path().ancestors().any(|folder| ignored.contains(folder)));
        Ok(found)
    }

    /// The empty folders among new ones and below them, and those whose last file was removed.
    fn find_empty(
        &self,
        workspace: &Workspace,
        listed: &[u8],
        removed: &BTreeSet<Vec<u8>>,
    ) -> BTreeSet<RawPath> {
        let prefix = workspace.prefix();
        let mut walked = 0;
        let mut empty = BTreeSet::new();
        // Git lists the folder of the workspace itself if it has no file of it yet.
        let mut left: Vec<Vec<u8>> = records(listed)
            .filter_map(|record| record.strip_prefix(prefix.as_slice())?.strip_suffix(b"/"))
            .map(<[u8]>::to_vec)
            .collect();
        if !prefix.is_empty() && records(listed).any(|record| record == prefix) {
            left.push(Vec::new());
        }
        // To git, a folder whose files were removed is not new.
        let below = |path: &Vec<u8>| path.strip_prefix(prefix.as_slice()).map(path_of);
        let emptied: BTreeSet<PathBuf> = removed
            .iter()
            .filter_map(below)
            .filter_map(|path| last_folder(workspace, &path))
            .collect();
        left.extend(emptied.into_iter().map(|path| path.into_os_string().into_vec()));
        while let Some(name) = left.pop() {
            let folder = workspace.folder.join(path_of(&name));
            if folder.starts_with(&self.private) || exists(&folder.join(".git")) {
                continue;
            }
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            let mut is_empty = true;
            for entry in entries.flatten() {
                is_empty = false;
                walked += 1;
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    let slash = if name.is_empty() { &b""[..] } else { b"/" };
                    left.push([&name, slash, entry.file_name().as_bytes()].concat());
                }
                if walked > WALKED_MAX {
                    return empty;
                }
            }
            if is_empty && !name.is_empty() && empty.len() < FOLDERS_MAX {
                empty.insert(RawPath(name));
            }
        }
        empty
    }
}

/// The folder of a file that was removed, or the next one above it that exists; `None` if that has anything in it.
fn last_folder(workspace: &Workspace, path: &Path) -> Option<PathBuf> {
    let mut found = PathBuf::new();
    for name in path.parent()?.iter() {
        let next = found.join(name);
        let kind = fs::symlink_metadata(workspace.folder.join(&next));
        match kind {
            Ok(kind) if kind.is_dir() => found = next,
            Ok(_) => return None,
            Err(_) => break,
        }
    }
    let mut entries = fs::read_dir(workspace.folder.join(&found)).ok()?;
    (!found.as_os_str().is_empty() && entries.next().is_none()).then_some(found)
}

/// Keeps the permissions of files that may have changed, relative to the top.
///
/// Git compares times by the second: permissions that change in the second of the file's last change are not listed.
/// So files that have just changed are looked at again by the next capture.
pub(super) fn note_modes(
    state: &mut IndexState,
    workspace: &Workspace,
    removed: &BTreeSet<Vec<u8>>,
    changed: &BTreeSet<Vec<u8>>,
) {
    for path in removed {
        state.modes.remove(&RawPath(path.clone()));
    }
    let recent = std::mem::take(&mut state.recent);
    let changed = changed.iter().map(|path| RawPath(path.clone()));
    let names: BTreeSet<RawPath> = changed.chain(recent).collect();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    for name in names {
        let found = fs::symlink_metadata(workspace.top.join(name.path()));
        let found = found.ok().filter(fs::Metadata::is_file);
        let mode = found.as_ref().map(|found| found.permissions().mode() & PERMISSIONS);
        match mode.filter(|mode| !is_usual(*mode)) {
            Some(mode) => {
                state.modes.insert(name.clone(), mode);
            }
            None => {
                state.modes.remove(&name);
            }
        }
        // The clock of the file system may be a little behind.
        let is_recent = found.is_some_and(|found| found.ctime().saturating_add(2) > now);
        if is_recent && state.recent.len() < RECENT_MAX {
            state.recent.push(name);
        }
    }
}

/// Makes the empty folders of a snapshot that was restored, and removes those that only the snapshot before had. What
/// is in the way stays: no content depends on it.
pub(super) fn restore_folders(dir: &RootedDir, from: &Extras, to: &Extras) {
    for name in from.folders.difference(&to.folders) {
        // A folder above it that has become empty was made with it.
        for folder in name.path().ancestors().filter(|folder| !folder.as_os_str().is_empty()) {
            let is_kept = to.folders.contains(&RawPath(folder.as_os_str().as_bytes().to_vec()));
            if is_kept || !dir.remove_folder(folder) {
                break;
            }
        }
    }
    for name in &to.folders {
        let path = name.path();
        if matches!(dir.stat(&path), Ok(DiskEntry::Absent)) {
            let _ = dir.make_parent(&path.join("inside"));
        }
    }
}
