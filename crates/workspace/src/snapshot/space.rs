//! Keeps the private git directory small: packs what has piled up, and removes what no snapshot needs any more.
//!
//! INVARIANT: these commands never see the user's repository as a place that has an object already: git would remove its
//! own copy of an object that is there, too, though nothing keeps it there.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::ledger::{self, Line};
use super::lock::{lock_exclusive, lock_if_free};
use super::{SNAPSHOT_REFS, SnapshotError, Snapshots};
use crate::git::Access;
use crate::{CommitId, TreeId};

const PACK: &str = "pack the snapshots";
const FREE: &str = "free the space of snapshots";
/// The folder of loose objects that is counted; there are 256, and git fills them evenly.
const COUNTED: &str = "17";
/// With so many loose objects in that folder, all are packed.
const COUNTED_OBJECTS_MAX: usize = 20;
/// With so many files of packs, small packs are packed together.
const PACK_FILES_MAX: usize = 100;
/// With so many folders of loose refs, or entries in one of them, all refs are packed.
const REF_FOLDERS_MAX: usize = 256;
/// How long what no reference names is kept.
const GRACE: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// The file of the lock of whoever packs.
const PACKING: &str = "lock-packing";

impl Snapshots {
    /// Packs loose objects and refs if there are many. Snapshots can be captured and read meanwhile. What fails is tried
    /// again with the next snapshot.
    pub(super) fn pack_if_many(&self, reference: &str) {
        drop(self.pack_objects_if_many());
        drop(self.pack_refs_if_many(reference));
    }

    fn pack_objects_if_many(&self) -> Result<(), SnapshotError> {
        let objects = self.private.join("objects");
        if count(&objects.join(COUNTED)) <= COUNTED_OBJECTS_MAX
            && count(&objects.join("pack")) <= PACK_FILES_MAX
        {
            return Ok(());
        }
        let Some(_lock) = self.lock_packing()? else { return Ok(()) };
        // Packs the loose ones and small packs, without a look at what they belong to.
        let git = self.own_git(PACK, Access::Write);
        let git = git.args(["repack", "-q", "-d", "-n", "--geometric=2"]);
        git.arg("--no-write-bitmap-index").output()?;
        Ok(())
    }

    fn pack_refs_if_many(&self, reference: &str) -> Result<(), SnapshotError> {
        let refs = self.private.join(SNAPSHOT_REFS);
        let first = reference.split('/').next().unwrap_or_default();
        if count(&refs).max(count(&refs.join(first))) <= REF_FOLDERS_MAX {
            return Ok(());
        }
        let Some(_lock) = self.lock_packing()? else { return Ok(()) };
        self.pack_refs()
    }

    pub(super) fn pack_refs(&self) -> Result<(), SnapshotError> {
        self.refs_git(PACK, Access::Write).args(["pack-refs", "--all", "--prune"]).output()?;
        Ok(())
    }

    /// The lock of whoever packs; `None` if somebody else has it.
    fn lock_packing(&self) -> Result<Option<super::SnapshotLock>, SnapshotError> {
        let path = self.private.join(PACKING);
        let fail = |error: io::Error| SnapshotError::file("lock", &path, &error);
        fs::File::options().create(true).append(true).open(&path).map_err(fail)?;
        lock_if_free(&path).map_err(fail)
    }

    /// Removes objects that no reference needs, once they are two weeks old, and no longer protects commits in the user's
    /// repository that no snapshot borrows from. Nothing can be captured meanwhile.
    ///
    /// # Errors
    /// [`SnapshotError`]; then more is kept than is needed.
    pub fn free_space(&self) -> Result<(), SnapshotError> {
        self.free_space_older_than(GRACE)
    }

    /// [`Snapshots::free_space`] with another age.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn free_space_older_than(&self, age_min: Duration) -> Result<(), SnapshotError> {
        let _objects = self.lock_objects_for_removal()?;
        let _packing = lock_exclusive(&self.private.join(PACKING))?;
        let fail = |error: io::Error| SnapshotError::file(FREE, &self.private, &error);
        let began = SystemTime::now();
        let before = began.checked_sub(age_min).unwrap_or(SystemTime::UNIX_EPOCH);
        let referenced: BTreeSet<TreeId> =
            self.own_references(SNAPSHOT_REFS)?.into_iter().map(|(_, id)| id).collect();
        let is_recent = |line: &Line| ledger::now().saturating_sub(line.at) < age_min.as_secs();
        let mut lines: BTreeSet<Line> = BTreeSet::new();
        for line in ledger::read(&self.private).map_err(fail)? {
            if referenced.contains(&line.snapshot) || is_recent(&line) {
                lines.insert(line);
            }
        }
        // From now on, nothing that was known of indexes and snapshots counts.
        ledger::rewrite(&self.private, &lines).map_err(fail)?;
        let mut kept: BTreeSet<&TreeId> = referenced.iter().collect();
        let recent: Vec<&Line> = lines.iter().filter(|line| is_recent(line)).collect();
        kept.extend(self.present(recent.iter().map(|line| &line.snapshot))?);
        let bases = self.used_bases(&lines, &referenced)?;
        if let Some(bases) = &bases {
            self.borrow_from_all(&kept, bases)?;
        }
        self.keep_only(&kept, bases.as_ref(), before)?;
        if let Some(bases) = bases {
            let present = self.bases()?;
            self.set_bases(&present, &self.independent(&bases)?)?;
        }
        self.pack_refs()
    }

    /// The commits that snapshots borrow from and that the repository has; `None` outside of a repository.
    fn used_bases(
        &self,
        lines: &BTreeSet<Line>,
        referenced: &BTreeSet<TreeId>,
    ) -> Result<Option<BTreeSet<CommitId>>, SnapshotError> {
        if self.repository.common_dir.is_none() {
            return Ok(None);
        }
        let mut bases: BTreeSet<CommitId> =
            lines.iter().filter_map(|line| line.base.clone()).collect();
        let listed: BTreeSet<&TreeId> = lines.iter().map(|line| &line.snapshot).collect();
        if referenced.iter().any(|id| !listed.contains(id)) {
            // It may borrow from each of them.
            bases.extend(self.bases()?);
        }
        let found = self.present(bases.iter())?;
        let found = found.into_iter().cloned().collect();
        Ok(Some(found))
    }

    /// Notes that these snapshots borrow from all of these commits: what one of them has is not packed, whichever snapshot needs it.
    fn borrow_from_all(
        &self,
        kept: &BTreeSet<&TreeId>,
        bases: &BTreeSet<CommitId>,
    ) -> Result<(), SnapshotError> {
        let fail = |error: io::Error| SnapshotError::file("write", &self.private, &error);
        let known: BTreeSet<(TreeId, Option<CommitId>)> = ledger::read(&self.private)
            .map_err(fail)?
            .into_iter()
            .map(|line| (line.snapshot, line.base))
            .collect();
        let mut lines = Vec::new();
        for snapshot in kept {
            for base in bases {
                let pair = ((*snapshot).clone(), Some(base.clone()));
                if !known.contains(&pair) {
                    lines.push(Line { snapshot: pair.0, base: pair.1, at: ledger::now() });
                }
            }
        }
        match lines.is_empty() {
            true => Ok(()),
            false => ledger::append(&self.private, &lines).map_err(fail),
        }
    }

    /// Those of these objects that exist.
    fn present<'a, T: std::fmt::Display + 'a>(
        &self,
        ids: impl Iterator<Item = &'a T>,
    ) -> Result<Vec<&'a T>, SnapshotError> {
        let ids: Vec<&T> = ids.collect();
        if ids.is_empty() {
            return Ok(ids);
        }
        let lines: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let git = self.objects_git(FREE, Access::Read).args(["cat-file", "--batch-check"]);
        let found = git.stdin(lines).output()?;
        let found = String::from_utf8_lossy(&found);
        let is_there = found.lines().map(|line| !line.ends_with(" missing"));
        Ok(ids
            .into_iter()
            .zip(is_there)
            .filter(|(_, is_there)| *is_there)
            .map(|(id, _)| id)
            .collect())
    }

    /// Packs all objects of these snapshots, then removes packs and loose objects that are older.
    fn keep_only(
        &self,
        kept: &BTreeSet<&TreeId>,
        bases: Option<&BTreeSet<CommitId>>,
        before: SystemTime,
    ) -> Result<(), SnapshotError> {
        let objects = self.private.join("objects");
        let fail = |error: io::Error| SnapshotError::file(FREE, &self.private, &error);
        if !has_older(&objects, before).map_err(fail)? {
            return Ok(());
        }
        let mut new = None;
        if !kept.is_empty() {
            let mut lines: String = kept.iter().map(|id| format!("{id}\n")).collect();
            for base in bases.into_iter().flatten() {
                lines += &format!("^{}^{{tree}}\n", base.as_str());
            }
            let git = self.objects_git(FREE, Access::Write);
            let git = git.args(["-c", "core.fsyncMethod=fsync", "pack-objects", "-q", "--revs"]);
            let named = git.arg(self.new_pack()).stdin(lines).output()?;
            new = Some(String::from_utf8_lossy(&named).trim().to_owned());
        }
        self.remove_packs(new.as_deref().unwrap_or_default(), before).map_err(fail)?;
        let git = self.own_git(FREE, Access::Write);
        git.args(["prune-packed", "-q"]).output()?;
        remove_loose(&objects, before).map_err(fail)
    }

    /// Removes packs that were not used since a time, but for a new one, and what killed processes left. The index goes
    /// first, so that nobody looks for a pack that is gone.
    fn remove_packs(&self, new: &str, before: SystemTime) -> io::Result<()> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.private.join("objects/pack"))? {
            let path = entry?.path();
            let stem =
                path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
            let is_new = !new.is_empty() && stem == format!("pack-{new}");
            if !is_new && is_older(&path.with_file_name(format!("{stem}.pack")), &path, before) {
                found.push(path);
            }
        }
        found.sort_by_key(|path| path.extension().is_none_or(|end| end != "idx"));
        found.iter().try_for_each(fs::remove_file)
    }
}

/// Whether a pack is older than a time; for a file that belongs to none, whether that is.
fn is_older(pack: &Path, path: &Path, before: SystemTime) -> bool {
    let found = fs::metadata(pack).or_else(|_| fs::metadata(path));
    found.and_then(|found| found.modified()).is_ok_and(|at| at < before)
}

/// Whether there is a pack or a loose object that is older than a time.
fn has_older(objects: &Path, before: SystemTime) -> io::Result<bool> {
    for folder in fs::read_dir(objects)? {
        for entry in fs::read_dir(folder?.path())? {
            let path = entry?.path();
            if is_older(&path, &path, before) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Removes loose objects that are older than a time, and what killed processes left among them.
fn remove_loose(objects: &Path, before: SystemTime) -> io::Result<()> {
    for folder in fs::read_dir(objects)? {
        let folder = folder?;
        if folder.file_name().len() != 2 {
            continue;
        }
        for entry in fs::read_dir(folder.path())? {
            let path = entry?.path();
            if is_older(&path, &path, before) {
                fs::remove_file(&path)?;
            }
        }
        // It stays if there is anything in it.
        drop(fs::remove_dir(folder.path()));
    }
    Ok(())
}

/// How many entries a folder has; none if it is not there.
fn count(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}
