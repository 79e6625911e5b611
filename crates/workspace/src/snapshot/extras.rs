//! What a git tree does not hold: permissions of files other than the executable bit, and empty folders. They are
//! kept beside the snapshots, by the id of the tree. Of two captures of the same tree the newer one counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::capture::records;
use super::index_state::RawPath;
use super::repository::write_atomically;
use super::rooted_dir::{DiskEntry, RootedDir};
use super::workspace::{Workspace, exists};
use super::{SnapshotError, Snapshots};
use crate::TreeId;
use crate::git::{Access, Invocation, os, path_of};

/// The folder of these files in the private git directory.
const FOLDER: &str = "extras";
/// The maximum number of permissions and of folders.
const ITEMS_MAX: usize = 10_000;
/// How many entries of new folders are read to find empty ones.
const WALKED_MAX: usize = 20_000;
/// Permissions that a new file gets, or that differ from those by the user's own default only.
const USUAL: [u32; 4] = [0o644, 0o755, 0o664, 0o775];

/// What a tree does not hold; paths are relative to the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Extras {
    /// Empty folders.
    pub folders: BTreeSet<RawPath>,
    /// Unusual permissions of files.
    pub modes: BTreeMap<RawPath, u32>,
}

impl Extras {
    /// The permissions of a file, if they are unusual.
    pub fn mode(&self, path: &Path) -> Option<u32> {
        self.modes.get(&RawPath(path.as_os_str().as_bytes().to_vec())).copied()
    }
}

/// The permissions of a file, if they are unusual.
pub(super) fn unusual_mode(path: &Path) -> Option<u32> {
    let found = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
    let mode = found.permissions().mode() & 0o777;
    (!USUAL.contains(&mode)).then_some(mode)
}

impl Snapshots {
    fn extras_path(&self, tree: &TreeId) -> PathBuf {
        self.private.join(FOLDER).join(tree.as_str())
    }

    /// What is kept beside a tree. What cannot be read counts as nothing: it decides no content.
    pub(super) fn extras(&self, tree: &TreeId) -> Extras {
        let bytes = fs::read(self.extras_path(tree)).ok();
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// Keeps this beside a tree.
    pub(super) fn save_extras(&self, tree: &TreeId, extras: &Extras) -> Result<(), SnapshotError> {
        let path = self.extras_path(tree);
        let fail = |error: io::Error| SnapshotError::file("write", &path, &error);
        if *extras == Extras::default() {
            return match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(fail(error)),
                Ok(()) | Err(_) => Ok(()),
            };
        }
        if *extras == self.extras(tree) {
            return Ok(());
        }
        let bytes = serde_json::to_vec(extras).map_err(|error| fail(error.into()))?;
        write_atomically(&path, &bytes).map_err(fail)
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

    /// The empty folders among new ones and below them.
    pub(super) fn empty_folders(&self, workspace: &Workspace, listed: &[u8]) -> BTreeSet<RawPath> {
        let prefix = workspace.prefix();
        let mut walked = 0;
        let mut empty = BTreeSet::new();
        let mut left: Vec<Vec<u8>> = records(listed)
            .filter_map(|record| record.strip_suffix(b"/")?.strip_prefix(prefix.as_slice()))
            .filter(|name| !name.is_empty())
            .map(<[u8]>::to_vec)
            .collect();
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
                    let inner = [&name, &b"/"[..], entry.file_name().as_bytes()].concat();
                    left.push(inner);
                }
                if walked > WALKED_MAX {
                    return empty;
                }
            }
            if is_empty && empty.len() < ITEMS_MAX {
                empty.insert(RawPath(name));
            }
        }
        empty
    }
}

/// Keeps the permissions of files that may have changed, relative to the top.
pub(super) fn note_modes<'a>(
    modes: &mut BTreeMap<RawPath, u32>,
    workspace: &Workspace,
    removed: impl Iterator<Item = &'a Vec<u8>>,
    changed: impl Iterator<Item = &'a Vec<u8>>,
) {
    for path in removed {
        modes.remove(&RawPath(path.clone()));
    }
    for path in changed {
        let name = RawPath(path.clone());
        match unusual_mode(&workspace.top.join(name.path())) {
            Some(mode) if modes.len() < ITEMS_MAX => {
                modes.insert(name, mode);
            }
            Some(_) | None => {
                modes.remove(&name);
            }
        }
    }
}

/// Sets the permissions and makes the empty folders of a snapshot that was restored; removes empty folders that only
/// the snapshot before had. What is in the way stays: no content depends on it.
pub(super) fn restore_extras(dir: &RootedDir, from: &Extras, to: &Extras) {
    for (name, mode) in &to.modes {
        let path = name.path();
        let differs = matches!(
            dir.stat(&path),
            Ok(DiskEntry::File { mode: found, .. }) if found & 0o777 != *mode && (found ^ mode) & 0o100 == 0
        );
        if differs && let Ok(file) = dir.file(&path) {
            let _ = file.set_permissions(fs::Permissions::from_mode(*mode));
        }
    }
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
