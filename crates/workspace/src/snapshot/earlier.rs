//! Moves snapshots that an earlier version left in the user's repository.
//!
//! Until they are moved, they are read and deleted where they are. Each step can be repeated: objects are copied and refs are
//! set and on the disk before the user's refs are deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use super::capture::records;
use super::check::TreeChecker;
use super::ledger::{self, Line};
use super::lock::lock_if_free;
use super::{SNAPSHOT_REFS, SnapshotError, Snapshots};
use crate::git::Access;
use crate::{CommitId, GitError, TreeId};

const OPERATION: &str = "move the snapshots of an earlier version";
/// The file that says that there may be some; whoever moves them locks it.
const MARK: &str = "earlier-refs";
/// How many commits are looked through for objects that need not be copied.
const COMMITS_MAX: &str = "2000";

/// Notes that the private git directory is that of an earlier version.
pub(super) fn note(private: &std::path::Path) -> io::Result<()> {
    File::options().create(true).append(true).open(private.join(MARK)).map(drop)
}

impl Snapshots {
    fn mark_of_earlier(&self) -> PathBuf {
        self.private.join(MARK)
    }

    /// Whether snapshots of an earlier version may be in the user's repository.
    pub(super) fn has_earlier(&self) -> bool {
        self.mark_of_earlier().exists()
    }

    /// The references of snapshots in the user's repository, of an earlier version or of other projects; `None` if those of
    /// an earlier version are moved.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn earlier_references(&self) -> Result<Option<BTreeSet<String>>, SnapshotError> {
        if !self.has_earlier() || self.repository.common_dir.is_none() {
            return Ok(None);
        }
        Ok(Some(self.list_earlier()?.into_keys().collect()))
    }

    /// Moves these references from the user's repository to the private git directory, with the objects that the current
    /// commit and those before it do not have. Damaged snapshots stay where they are. Returns how many were moved; none
    /// if another process is at it.
    ///
    /// # Errors
    /// [`SnapshotError`]; then it can be done again.
    pub fn move_earlier(&self, names: &BTreeSet<String>) -> Result<usize, SnapshotError> {
        let mark = self.mark_of_earlier();
        let fail = |error: io::Error| SnapshotError::file("move", &self.private, &error);
        let Some(_lock) = lock_if_free(&mark).map_err(fail)? else { return Ok(0) };
        let _objects = self.lock_objects()?;
        let mut moved = self.list_earlier()?;
        moved.retain(|name, _| names.contains(name));
        if !moved.is_empty() {
            self.copy_earlier(&mut moved)?;
            self.set_references_of(&moved)?;
            let name =
                |(name, id): (&String, &TreeId)| format!("delete {SNAPSHOT_REFS}{name} {id}\n");
            let input: String = moved.iter().map(name).collect();
            let git = self.users_git(OPERATION, Access::Write)?;
            git.args(["update-ref", "--no-deref", "--stdin"]).stdin(input).output()?;
        }
        fs::remove_file(&mark).map_err(fail)?;
        Ok(moved.len())
    }

    /// The references to trees and tags in the user's repository. Those to commits keep commits until a branch has them.
    fn list_earlier(&self) -> Result<BTreeMap<String, TreeId>, SnapshotError> {
        let users = self.users_references()?;
        if users.is_empty() {
            return Ok(BTreeMap::new());
        }
        let ids: String = users.iter().map(|(_, id)| format!("{id}\n")).collect();
        let git = self.objects_git(OPERATION, Access::Read);
        let git = git.args(["cat-file", "--batch-check=%(objecttype)"]);
        let kinds = git.stdin(ids).output()?;
        let kinds = String::from_utf8_lossy(&kinds);
        let is_snapshot = kinds.lines().map(|kind| matches!(kind, "tree" | "tag"));
        Ok(users.into_iter().zip(is_snapshot).filter(|(_, is)| *is).map(|(one, _)| one).collect())
    }

    /// Copies the objects of snapshots, and lists them in the ledger. Damaged ones are taken out.
    fn copy_earlier(&self, moved: &mut BTreeMap<String, TreeId>) -> Result<(), SnapshotError> {
        let (base, _) = self.protect_head(&self.project)?;
        let history = match &base {
            Some(base) => self.trees_before(base)?,
            None => BTreeSet::new(),
        };
        if let Err(error) = self.pack_earlier(moved, &history) {
            let mut checker = TreeChecker::new(self);
            let count = moved.len();
            let mut damaged = BTreeSet::new();
            for id in moved.values() {
                if checker.first_damaged(id)?.is_some() {
                    damaged.insert(id.clone());
                }
            }
            moved.retain(|_, id| !damaged.contains(id));
            if moved.len() == count {
                return Err(error);
            }
            self.pack_earlier(moved, &history)?;
        }
        let fail = |error: io::Error| SnapshotError::file("write", &self.private, &error);
        ledger::mark(&self.private).map_err(fail)?;
        let at = ledger::now();
        let ids: BTreeSet<&TreeId> = moved.values().collect();
        let line = |id: &TreeId| Line { snapshot: id.clone(), base: base.clone(), at };
        let lines: Vec<Line> = ids.into_iter().map(line).collect();
        ledger::append(&self.private, &lines).map_err(fail)
    }

    /// The trees of a commit and of those before it, which are kept with it.
    fn trees_before(&self, base: &CommitId) -> Result<BTreeSet<String>, SnapshotError> {
        let git = self.users_git(OPERATION, Access::Read)?;
        let git = git.args(["log", "-z", "--format=%T", "-n", COMMITS_MAX, base.as_str()]);
        let listed = git.output()?;
        Ok(records(&listed).map(|tree| String::from_utf8_lossy(tree).into_owned()).collect())
    }

    fn pack_earlier(
        &self,
        moved: &BTreeMap<String, TreeId>,
        history: &BTreeSet<String>,
    ) -> Result<(), SnapshotError> {
        let ids: BTreeSet<&TreeId> = moved.values().collect();
        if ids.is_empty() {
            return Ok(());
        }
        let mut input: String = ids.iter().map(|id| format!("{id}\n")).collect();
        input.extend(history.iter().map(|tree| format!("^{tree}\n")));
        let git = self.objects_git(OPERATION, Access::Write);
        let git = git.args(["-c", "core.fsyncMethod=fsync", "pack-objects", "-q", "--revs"]);
        git.arg(self.new_pack()).stdin(input).output()?;
        Ok(())
    }

    /// Sets references that do not exist yet, all at once, and packs them: that makes them durable.
    fn set_references_of(&self, moved: &BTreeMap<String, TreeId>) -> Result<(), SnapshotError> {
        let present = self.own_references(SNAPSHOT_REFS)?;
        let present: BTreeSet<&String> = present.iter().map(|(name, _)| name).collect();
        let new = moved.iter().filter(|(name, _)| !present.contains(name));
        let input: String =
            new.map(|(name, id)| format!("create {SNAPSHOT_REFS}{name} {id}\n")).collect();
        if !input.is_empty() {
            let git = self.refs_git(OPERATION, Access::Write).args(["-c", "core.fsync=none"]);
            let git = git.args(["update-ref", "--no-deref", "--stdin"]);
            git.stdin(input).output().map(drop).map_err(|error: GitError| error)?;
        }
        self.pack_refs()
    }
}
