//! Objects that snapshots borrow from the user's repository, and the commits that keep them there.
//!
//! INVARIANT: every object of a snapshot is in the private git directory, or reachable from the commit that the snapshot
//! borrows from, which a ref in the user's repository protects.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::capture::records;
use super::ledger::{self, Line};
use super::repository::write_atomically;
use super::workspace::Workspace;
use super::{SNAPSHOT_REFS, SnapshotError, Snapshots};
use crate::git::{Access, GitCause, Invocation, split_once};
use crate::{CommitId, GitError, TreeId};

const OPERATION: &str = "keep the objects of the snapshot";
/// The folder of the refs of protected commits, below [`SNAPSHOT_REFS`] in the user's repository.
pub(super) const BASES: &str = "base/";
/// The file with the name under which this private git directory protects commits.
const NAME: &str = "name";
/// After so many seconds a snapshot that is captured again gets a new line in the ledger.
const LISTED_AGAIN_SECONDS: u64 = 24 * 60 * 60;
/// How many objects that the last snapshot did not have are copied at most, before the current commit is protected instead.
const COPIED_MAX: usize = 1000;
/// How often refs are set again if somebody else moves them meanwhile.
const TRIES: usize = 3;
/// The mode of a nested repository, whose commit is not ours.
const NESTED_MODE: &[u8] = b"160000";

/// A snapshot of which every object is known to be kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Complete {
    snapshot: TreeId,
    /// Its tree.
    tree: TreeId,
    /// The commit that it borrows from.
    base: Option<CommitId>,
    /// When it was listed in the ledger.
    at: u64,
    /// That of the ledger and of the repository's objects.
    stamp: String,
}

impl Complete {
    /// Whether it is this tree, with a stamp that still holds.
    pub fn is_of(&self, tree: &TreeId, stamp: &str) -> bool {
        self.tree == *tree && self.stamp == stamp
    }
}

impl Snapshots {
    /// A text that changes when objects of snapshots may have been removed, and with the repository.
    pub(super) fn stamp(&self) -> Result<String, SnapshotError> {
        let fail = |error: io::Error| SnapshotError::file("read", &self.private, &error);
        let mark = ledger::mark(&self.private).map_err(fail)?;
        let objects = self.repository.borrowed();
        let found = objects.and_then(|objects| fs::metadata(objects).ok());
        // A new folder can have the number of one that was removed.
        let id = found.map(|found| {
            let made = found.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            let made = made.unwrap_or_default().as_nanos();
            format!("{}-{}-{made}", found.dev(), found.ino())
        });
        Ok(format!("{mark} {}", id.unwrap_or_default()))
    }

    /// Makes sure that every object of a captured snapshot is kept, and lists the snapshot in the ledger.
    pub(super) fn keep_captured(
        &self,
        workspace: &Workspace,
        known: Option<Complete>,
        stamp: String,
        [tree, snapshot]: [&TreeId; 2],
    ) -> Result<Complete, SnapshotError> {
        let at = ledger::now();
        let known = known.filter(|known| known.stamp == stamp);
        if let Some(known) = &known
            && (&known.tree, &known.snapshot) == (tree, snapshot)
            && at.saturating_sub(known.at) < LISTED_AGAIN_SECONDS
        {
            return Ok(known.clone());
        }
        let base = match self.base_of_last(known.as_ref(), [tree, snapshot])? {
            Some(base) => base,
            None => {
                let (base, reference) = self.protect_head(workspace)?;
                self.copy(&self.missing(&reference, [tree, snapshot])?)?;
                base
            }
        };
        self.list(snapshot, base.as_ref(), at)?;
        Ok(Complete { snapshot: snapshot.clone(), tree: tree.clone(), base, at, stamp })
    }

    /// The commit that the last snapshot borrows from, if the new one needs little else, which is copied.
    fn base_of_last(
        &self,
        known: Option<&Complete>,
        ids: [&TreeId; 2],
    ) -> Result<Option<Option<CommitId>>, SnapshotError> {
        let Some(known) = known else { return Ok(None) };
        let new = self.not_loose(known.tree.as_str(), ids)?;
        if new.len() > COPIED_MAX {
            return Ok(None);
        }
        // Some of it may be in a pack of ours: to ask for that takes as long as to copy it again.
        self.copy(&new)?;
        Ok(Some(known.base.clone()))
    }

    /// Makes sure that every object of a snapshot that was made from others is kept; it borrows from where `origin` does.
    pub(super) fn keep_derived(
        &self,
        origin: &TreeId,
        snapshot: &TreeId,
    ) -> Result<(), SnapshotError> {
        let fail = |error: io::Error| SnapshotError::file("read", &self.private, &error);
        ledger::mark(&self.private).map_err(fail)?;
        let (from, to) = (self.contents(origin)?, self.contents(snapshot)?);
        self.copy(&self.missing(from.tree.as_str(), [&to.tree, snapshot])?)?;
        let lines = ledger::read(&self.private).map_err(fail)?;
        let bases: BTreeSet<Option<CommitId>> = lines
            .into_iter()
            .filter(|line| line.snapshot == *origin)
            .map(|line| line.base)
            .collect();
        // Without a line it may borrow from all of them.
        bases.iter().try_for_each(|base| self.list(snapshot, base.as_ref(), ledger::now()))
    }

    fn list(
        &self,
        snapshot: &TreeId,
        base: Option<&CommitId>,
        at: u64,
    ) -> Result<(), SnapshotError> {
        let line = Line { snapshot: snapshot.clone(), base: base.cloned(), at };
        ledger::append(&self.private, &[line])
            .map_err(|error| SnapshotError::file("write", &self.private, &error))
    }

    /// The objects of a tree, and of the snapshot of it, that are neither loose in the private git directory nor in another
    /// tree, whose objects are kept.
    fn not_loose(
        &self,
        reference: &str,
        [tree, snapshot]: [&TreeId; 2],
    ) -> Result<BTreeSet<String>, SnapshotError> {
        let mut ids = BTreeSet::from([snapshot.to_string()]);
        if reference == tree.as_str() {
            ids.retain(|id| id != tree.as_str());
        } else {
            ids.insert(tree.to_string());
            let git = self.objects_git(OPERATION, Access::Read);
            let git = git.args(["diff-tree", "-r", "-t", "-z", "--raw", "--no-renames"]);
            let listed = git.args([reference, tree.as_str()]).output()?;
            ids.extend(
                new_objects(&listed).ok_or_else(|| GitError::unexpected(OPERATION, &listed))?,
            );
        }
        let objects = self.private.join("objects");
        ids.retain(|id| {
            let place = id.split_at_checked(2);
            !place.is_some_and(|(folder, name)| objects.join(folder).join(name).exists())
        });
        Ok(ids)
    }

    /// The objects of a tree, and of the snapshot of it, that are neither in the private git directory nor in another tree,
    /// whose objects are kept.
    fn missing(
        &self,
        reference: &str,
        both: [&TreeId; 2],
    ) -> Result<BTreeSet<String>, SnapshotError> {
        let ids = self.not_loose(reference, both)?;
        if ids.is_empty() {
            return Ok(ids);
        }
        let lines: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let git = self.own_git(OPERATION, Access::Read).args(["cat-file", "--batch-check"]);
        let found = git.stdin(lines).output()?;
        let found = String::from_utf8_lossy(&found);
        let missing: BTreeSet<String> = found
            .lines()
            .filter_map(|line| line.strip_suffix(" missing"))
            .map(str::to_owned)
            .collect();
        if missing.is_subset(&ids) {
            Ok(missing)
        } else {
            Err(GitError::unexpected(OPERATION, found.as_bytes()).into())
        }
    }

    /// Copies objects from the user's repository.
    fn copy(&self, ids: &BTreeSet<String>) -> Result<(), SnapshotError> {
        if ids.is_empty() {
            return Ok(());
        }
        let lines: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let git = self.objects_git(OPERATION, Access::Write);
        let git = git.args(["pack-objects", "-q", "--window=0"]).arg(self.new_pack());
        git.stdin(lines).output()?;
        Ok(())
    }

    /// The beginning of the paths of a new pack in the private git directory.
    pub(super) fn new_pack(&self) -> PathBuf {
        self.private.join("objects/pack/pack")
    }

    /// Protects the current commit of a work tree; returns it, and what the workspace is in it.
    pub(super) fn protect_head(
        &self,
        workspace: &Workspace,
    ) -> Result<(Option<CommitId>, String), SnapshotError> {
        let empty = || self.format().hasher("tree", 0).finish();
        if self.repository.common_dir.is_none() {
            return Ok((None, empty()));
        }
        let mut names = b"HEAD^{commit}\nHEAD:".to_vec();
        let prefix = workspace.prefix();
        names.extend_from_slice(prefix.strip_suffix(b"/").unwrap_or(&prefix));
        names.push(b'\n');
        let git = Invocation::new(OPERATION, &workspace.folder, Access::Read);
        let found = git.args(["cat-file", "--batch-check"]).stdin(names).output()?;
        let found = String::from_utf8_lossy(&found);
        let mut lines = found.lines();
        let mut next = |kind| {
            let (id, facts) = lines.next()?.split_once(' ')?;
            facts.strip_prefix(kind)?.starts_with(' ').then(|| id.to_owned())
        };
        let (commit, folder) = (next("commit"), next("tree"));
        let Some(base) = commit.and_then(|id| id.parse::<CommitId>().ok()) else {
            return Ok((None, empty()));
        };
        self.protect(&base)?;
        Ok((Some(base), folder.unwrap_or_else(empty)))
    }

    /// Protects a commit of the user's repository, unless one that descends from it is protected.
    pub(super) fn protect(&self, base: &CommitId) -> Result<(), SnapshotError> {
        let mut tried = 0;
        loop {
            let present = self.bases()?;
            if present.contains(base) {
                return Ok(());
            }
            let all: BTreeSet<CommitId> = present.iter().chain([base]).cloned().collect();
            tried += 1;
            match self.set_bases(&present, &self.independent(&all)?) {
                // Somebody else has moved them.
                Err(SnapshotError::Git(GitError {
                    cause: GitCause::Exit { .. } | GitCause::Locked(_),
                    ..
                })) if tried < TRIES => {}
                Err(error) => return Err(error),
                Ok(()) => break,
            }
        }
        let git = self.users_git(OPERATION, Access::Read)?;
        let tree = format!("{}^{{tree}}", base.as_str());
        if git.args(["cat-file", "-e", &tree]).run()?.code == Some(0) {
            return Ok(());
        }
        // Git has removed it in that very moment. A ref to nothing would stop each later `git gc`.
        let present = self.bases()?;
        let others = present.iter().filter(|one| *one != base).cloned().collect();
        self.set_bases(&present, &others)?;
        let line = format!("nonexistent object {}", base.as_str());
        let cause = GitCause::Exit { how: "failed".to_owned(), line };
        Err(GitError::new(OPERATION, cause).into())
    }

    /// A commit that a snapshot borrows from, and that the repository does not have any more.
    pub(super) fn lost_base(&self, snapshot: &TreeId) -> Option<CommitId> {
        let lines = ledger::read(&self.private).ok()?;
        let bases: BTreeSet<CommitId> = lines
            .into_iter()
            .filter(|line| line.snapshot == *snapshot)
            .filter_map(|line| line.base)
            .collect();
        let is_lost = |base: &CommitId| {
            let git = self.objects_git(OPERATION, Access::Read);
            let found = git.args(["cat-file", "-e"]).arg(format!("{}^{{tree}}", base.as_str()));
            found.run().is_ok_and(|found| found.code != Some(0))
        };
        bases.into_iter().find(is_lost)
    }

    /// The commits that are protected for these snapshots.
    pub(super) fn bases(&self) -> Result<BTreeSet<CommitId>, SnapshotError> {
        let git = self.users_git(OPERATION, Access::Read)?;
        let git = git.args(["for-each-ref", "--format=%(objectname)"]).arg(self.base_refs()?);
        let listed = git.output()?;
        let ids = String::from_utf8_lossy(&listed);
        let ids: Option<BTreeSet<CommitId>> = ids.lines().map(|id| id.parse().ok()).collect();
        Ok(ids.ok_or_else(|| GitError::unexpected(OPERATION, &listed))?)
    }

    /// Those commits among these that are ancestors of no other one.
    pub(super) fn independent(
        &self,
        commits: &BTreeSet<CommitId>,
    ) -> Result<BTreeSet<CommitId>, SnapshotError> {
        // What a shallow clone has of the history can be cut off later.
        let is_shallow = self
            .repository
            .common_dir
            .as_ref()
            .is_some_and(|common| common.join("shallow").symlink_metadata().is_ok());
        if commits.len() < 2 || is_shallow {
            return Ok(commits.clone());
        }
        let git = self.users_git(OPERATION, Access::Read)?.args(["merge-base", "--independent"]);
        let output = git.args(commits.iter().map(CommitId::as_str)).run()?;
        if output.code != Some(0) {
            // One of them is gone: all stay.
            return Ok(commits.clone());
        }
        let ids = String::from_utf8_lossy(&output.stdout);
        let ids: Option<BTreeSet<CommitId>> = ids.lines().map(|id| id.parse().ok()).collect();
        Ok(ids.ok_or_else(|| GitError::unexpected(OPERATION, &output.stdout))?)
    }

    /// Sets and deletes refs in the user's repository, so that these commits are protected.
    pub(super) fn set_bases(
        &self,
        present: &BTreeSet<CommitId>,
        wanted: &BTreeSet<CommitId>,
    ) -> Result<(), SnapshotError> {
        let folder = self.base_refs()?;
        let mut input = String::new();
        for id in wanted.difference(present).map(CommitId::as_str) {
            input += &format!("update {folder}{id} {id}\n");
        }
        for id in present.difference(wanted).map(CommitId::as_str) {
            input += &format!("delete {folder}{id}\n");
        }
        if input.is_empty() {
            return Ok(());
        }
        let git = self.users_git(OPERATION, Access::Write)?;
        git.args(["update-ref", "--no-deref", "--stdin"]).stdin(input).output()?;
        Ok(())
    }

    /// Protects no commit of the user's repository any more: these snapshots are about to be removed.
    ///
    /// # Errors
    /// [`SnapshotError`]; then refs stay in the repository.
    pub fn release(&self) -> Result<(), SnapshotError> {
        if self.repository.common_dir.is_none() {
            return Ok(());
        }
        self.set_bases(&self.bases()?, &BTreeSet::new())
    }

    /// The folder of the refs that protect commits for these snapshots. Other projects may have snapshots in the same
    /// repository, so it has a name of its own.
    fn base_refs(&self) -> Result<String, SnapshotError> {
        let path = self.private.join(NAME);
        let fail = |error: io::Error| SnapshotError::file("name", &self.private, &error);
        let read = || {
            let name = fs::read_to_string(&path).ok()?.trim_end().to_owned();
            (!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(name)
        };
        let name = match read() {
            Some(name) => name,
            None => {
                let _lock = super::lock::lock_exclusive(&self.private.join("lock-name"))?;
                if read().is_none() {
                    write_atomically(&path, ledger::new_mark().as_bytes()).map_err(fail)?;
                }
                read().ok_or_else(|| fail(io::ErrorKind::InvalidData.into()))?
            }
        };
        Ok(format!("{SNAPSHOT_REFS}{BASES}{name}/"))
    }

    /// A git invocation on the refs of the user's repository. Its settings apply: they say how refs are stored.
    pub(super) fn users_git(
        &self,
        operation: &'static str,
        access: Access,
    ) -> Result<Invocation<'_>, SnapshotError> {
        let Some(common) = &self.repository.common_dir else {
            let cause = GitCause::NotARepository(self.private.clone());
            return Err(GitError::new(operation, cause).into());
        };
        let git = Invocation::new(operation, common, access).env("GIT_DIR", common);
        Ok(git.args(["-c", "core.logAllRefUpdates=false", "-c", "core.fsync=reference"]))
    }
}

/// The ids of what is new in `:mode mode id id status NUL path NUL` records; `None` for anything that is not that.
fn new_objects(bytes: &[u8]) -> Option<Vec<String>> {
    let mut fields = records(bytes);
    let mut ids = Vec::new();
    while let Some(facts) = fields.next() {
        fields.next()?;
        let (_, facts) = split_once(facts.strip_prefix(b":")?, b' ')?;
        let (mode, facts) = split_once(facts, b' ')?;
        let (_, facts) = split_once(facts, b' ')?;
        let (id, status) = split_once(facts, b' ')?;
        if status != b"D" && mode != NESTED_MODE {
            ids.push(std::str::from_utf8(id).ok()?.to_owned());
        }
    }
    Some(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_objects_are_read_or_refused() {
        let id = |digit: &str| digit.repeat(40);
        let record = |mode: &str, digit: &str, status: &str| {
            format!(":100644 {mode} {} {} {status}\0a b\n\0", id("0"), id(digit))
        };
        let text = record("100644", "a", "M")
            + &record("000000", "0", "D")
            + &record("160000", "b", "A")
            + &record("040000", "c", "A");
        assert_eq!(new_objects(text.as_bytes()), Some(vec![id("a"), id("c")]));
        for bad in ["x\0y\0", ":100644 1\0a\0", ":100644 1 2 3 A\0"] {
            assert_eq!(new_objects(bad.as_bytes()), None, "{bad:?}");
        }
    }
}
