//! Imports the objects that a command wrote, by their content: every name is computed anew.
//!
//! INVARIANT: nothing is ever deleted or replaced among the objects of the repository.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::layers::{Kind, UpperEntry};
use super::{TakeOver, TakeOverError};
use crate::git::private::PrivateDir;
use crate::git::{Access, GitError};

const OPERATION: &str = "take over the objects";
/// How many objects one command may write.
const OBJECTS_MAX: usize = 500_000;
/// How large the files of all objects together may be.
const FILES_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// How large all objects together may be, unpacked.
const CONTENT_BYTES_MAX: u64 = 8 * 1024 * 1024 * 1024;
/// Up to this number, objects get a file each; more of them stay a pack.
const UNPACK_MAX: usize = 100;
/// Up to this size a pack is unpacked.
const UNPACK_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// The empty tree and the empty file, with either hash function: git says that it has them when it has not.
const EMPTY: [&str; 4] = [
    "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
    "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
    "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
];
/// An object as a large file is copied in parts, whatever its size.
const STREAMED: [&str; 2] = ["-c", "core.bigFileThreshold=16m"];

impl TakeOver<'_> {
    /// The real objects, without the repository's settings.
    pub(super) fn real_objects(&self) -> Result<PrivateDir, GitError> {
        PrivateDir::new(OPERATION, self.common.join("objects"), self.digits)
    }

    /// Imports what the upper layer has and the repository has not.
    pub(super) fn import_objects(&self, entries: &[UpperEntry]) -> Result<(), TakeOverError> {
        let fail = |error: io::Error| TakeOverError::file(Path::new("objects"), &error);
        let parent = self.upper.parent().unwrap_or(self.upper);
        let folder = TempDir::with_prefix_in("windlass-objects-", parent).map_err(fail)?;
        let copy = folder.path().join("objects");
        if !copy_objects(self.upper, entries, self.digits, &copy)? {
            return Ok(());
        }
        let written = PrivateDir::new(OPERATION, copy.clone(), self.digits)?;
        let ids = self.new_ids(&written)?;
        if ids.is_empty() {
            return Ok(());
        }
        let both = written.with_alternates(self.common.join("objects"));
        let packs = folder.path().join("packs");
        fs::create_dir(&packs).map_err(fail)?;
        let list: String = ids.iter().flat_map(|id| [id.as_str(), "\n"]).collect();
        let git = both.git(OPERATION, Access::Write).reading_files().args(STREAMED);
        let git = git.args(["pack-objects", "-q", "--window=0"]).arg(packs.join("pack"));
        let name = git.stdin(list).line().map_err(TakeOverError::invalid_objects)?;
        let pack = packs.join(format!("pack-{name}.pack"));
        let real = self.real_objects()?;
        let bytes = fs::metadata(&pack).map_err(fail)?.len();
        if ids.len() <= UNPACK_MAX && bytes <= UNPACK_BYTES_MAX {
            let git = real.git(OPERATION, Access::Write).reading_files();
            let git = git.args(["unpack-objects", "-q", "--strict"]);
            let content = fs::read(&pack).map_err(fail)?;
            git.stdin(content).output().map_err(TakeOverError::invalid_objects)?;
            return Ok(());
        }
        // The index is computed anew, with a check of every object.
        let index = packs.join("checked.idx");
        let git = real.git(OPERATION, Access::Write).reading_files().args(STREAMED);
        let git = git.args(["index-pack", "--strict", "-o"]).arg(&index).arg(&pack);
        git.output().map_err(TakeOverError::invalid_objects)?;
        let target = self.common.join("objects/pack");
        fs::create_dir_all(&target).map_err(fail)?;
        // Git uses a pack once its index is there.
        for (from, end) in [(&pack, "pack"), (&index, "idx")] {
            let temporary = target.join(format!("tmp_{end}_windlass_{name}"));
            fs::copy(from, &temporary).map_err(fail)?;
            File::open(&temporary).and_then(|file| file.sync_all()).map_err(fail)?;
            fs::rename(&temporary, target.join(format!("pack-{name}.{end}"))).map_err(fail)?;
        }
        Ok(())
    }

    /// The objects that the repository does not have.
    fn new_ids(&self, written: &PrivateDir) -> Result<Vec<String>, TakeOverError> {
        let listed = written
            .git(OPERATION, Access::Read)
            .args(["cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objectsize)"])
            .output()
            .map_err(TakeOverError::invalid_objects)?;
        let (mut ids, mut bytes) = (Vec::new(), 0_u64);
        for line in String::from_utf8_lossy(&listed).lines() {
            // One that cannot be read has no size. If something needs it, that is refused later.
            if let Some((id, size)) = line.split_once(' ')
                && let Ok(size) = size.parse::<u64>()
            {
                bytes = bytes.saturating_add(size);
                ids.push(id.to_owned());
            }
        }
        if ids.len() > OBJECTS_MAX || bytes > CONTENT_BYTES_MAX {
            return Err(TakeOverError::damaged(Path::new("objects"), "there are too many"));
        }
        let missing = self.missing(ids.iter().map(String::as_str))?;
        ids.retain(|id| missing.contains(id) || EMPTY.contains(&id.as_str()));
        Ok(ids)
    }

    /// Which of these objects the repository does not have.
    pub(super) fn missing<'b>(
        &self,
        ids: impl Iterator<Item = &'b str>,
    ) -> Result<BTreeSet<String>, TakeOverError> {
        let list: String = ids.flat_map(|id| [id, "\n"]).collect();
        if list.is_empty() {
            return Ok(BTreeSet::new());
        }
        let checked = self
            .real_objects()?
            .git(OPERATION, Access::Read)
            .args(["cat-file", "--batch-check=%(objectname)"])
            .stdin(list)
            .output()?;
        let checked = String::from_utf8_lossy(&checked);
        let missing = checked.lines().filter_map(|line| line.strip_suffix(" missing"));
        Ok(missing.map(str::to_owned).collect())
    }
}

/// Copies the objects of the upper layer, regular files with proper names only; returns whether there are any.
fn copy_objects(
    upper: &Path,
    entries: &[UpperEntry],
    digits: usize,
    target: &Path,
) -> Result<bool, TakeOverError> {
    let fail = |path: &Path, error: &io::Error| TakeOverError::file(path, error);
    let (mut any, mut bytes, mut count) = (false, 0_u64, 0_usize);
    fs::create_dir(target).map_err(|error| fail(target, &error))?;
    for entry in entries {
        let Kind::File { bytes: size } = entry.kind else { continue };
        if !is_object_file(&entry.path, digits) {
            continue;
        }
        (any, bytes, count) = (true, bytes.saturating_add(size), count + 1);
        if bytes > FILES_BYTES_MAX || count > OBJECTS_MAX {
            return Err(TakeOverError::damaged(Path::new("objects"), "there are too many"));
        }
        let inner: PathBuf = entry.path.components().skip(1).collect();
        let (from, to) = (upper.join(&entry.path), target.join(inner));
        let parent = to.parent().unwrap_or(target);
        fs::create_dir_all(parent).map_err(|error| fail(&entry.path, &error))?;
        // No process can write to it any more.
        if fs::hard_link(&from, &to).is_err() {
            fs::copy(&from, &to).map_err(|error| fail(&entry.path, &error))?;
        }
    }
    Ok(any)
}

/// Whether this is the path of a file with one object, or of a pack or its index.
fn is_object_file(path: &Path, digits: usize) -> bool {
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    let hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    match parts.as_slice() {
        ["objects", "pack", name] => name
            .strip_prefix("pack-")
            .and_then(|name| name.strip_suffix(".pack").or_else(|| name.strip_suffix(".idx")))
            .is_some_and(|name| hex(name, digits)),
        ["objects", start, rest] => hex(start, 2) && hex(rest, digits.saturating_sub(2)),
        _ => false,
    }
}
