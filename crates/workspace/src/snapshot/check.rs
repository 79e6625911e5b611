//! Checks snapshots for damage.

use std::collections::{BTreeMap, BTreeSet};

use super::change_plan::writable;
use super::contents::{ReadSnapshot, read_snapshot};
use super::object_reader::{ObjectFormat, ObjectRead, ObjectReader, hex};
use super::{EntryMode, SnapshotError, Snapshots};
use crate::git::{Access, split_once};
use crate::{CommitId, GitError, TreeId};

/// The limit for nested folders.
const DEPTH_MAX: usize = 2000;

/// A damaged snapshot. The others can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedSnapshot {
    /// Its reference.
    pub reference: String,
    /// What is damaged.
    pub damage: Damage,
}

/// What is damaged in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Its reference cannot be read.
    Reference,
    /// An object is missing, unreadable, or does not match its id; the first that was found.
    Object(String),
    /// The repository does not have a commit any more that the snapshot borrows objects from.
    Base(CommitId),
}

impl Snapshots {
    /// Reads all snapshots with a reference and returns those that are damaged. Every object is read
    /// once, however many snapshots have it.
    ///
    /// # Errors
    /// [`SnapshotError`] when the check itself fails.
    pub fn check(&self) -> Result<Vec<DamagedSnapshot>, SnapshotError> {
        let mut damaged = self.look_for_damage()?;
        if damaged.is_empty() {
            return Ok(damaged);
        }
        // A run that is at work sets references meanwhile, and git moves objects and refs: only what is still so at
        // a second look is damaged.
        let again = self.look_for_damage()?;
        damaged.retain(|one| again.contains(one));
        Ok(damaged)
    }

    fn look_for_damage(&self) -> Result<Vec<DamagedSnapshot>, SnapshotError> {
        // The files are listed first: a reference that appears later is not missing among those that can be read.
        let files = self.reference_files();
        let references = self.references()?;
        let mut damaged = Vec::new();
        for name in files {
            if references.binary_search_by(|(known, _)| known.cmp(&name)).is_err() {
                damaged.push(DamagedSnapshot { reference: name, damage: Damage::Reference });
            }
        }
        let mut reader = TreeChecker::new(self);
        for (reference, tree) in references {
            if let Some(object) = reader.first_damaged(&tree)? {
                let damage = self.lost_base(&tree).map_or(Damage::Object(object), Damage::Base);
                damaged.push(DamagedSnapshot { reference, damage });
            }
        }
        damaged.sort_by(|one, other| one.reference.cmp(&other.reference));
        Ok(damaged)
    }

    /// Reads every object that a restore from one snapshot to another would write.
    ///
    /// # Errors
    /// [`SnapshotError::Corrupt`] names the first object that is missing or does not match its id.
    pub fn check_restorable(&self, from: &TreeId, to: &TreeId) -> Result<(), SnapshotError> {
        let mut objects = ObjectReader::new(self);
        for change in self.changes(from, to)? {
            let Some(entry) = writable(&change.after) else { continue };
            let read = objects.copy(&entry.object, &mut |_| Ok(()));
            let read = read.map_err(|error| error.at("read", &self.private))?;
            if read == ObjectRead::Damaged {
                return Err(self.corrupt(to, &entry.object));
            }
        }
        Ok(())
    }

    /// Whether a tree object exists; its entries are not checked.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn has_tree(&self, tree: &TreeId) -> Result<bool, SnapshotError> {
        let git = self.objects_git("look for the snapshot", Access::Read);
        let git = git.args(["cat-file", "-e"]).arg(format!("{tree}^{{tree}}"));
        Ok(git.run()?.code == Some(0))
    }

    /// The error of an object of a snapshot that is missing or damaged.
    pub(super) fn corrupt(&self, tree: &TreeId, object: &str) -> SnapshotError {
        match self.lost_base(tree) {
            Some(base) => SnapshotError::BaseGone { tree: tree.clone(), base },
            None => SnapshotError::Corrupt { tree: tree.clone(), object: object.to_owned() },
        }
    }

    /// Returns [`SnapshotError::Corrupt`] or [`SnapshotError::BaseGone`] if one of these snapshots is damaged, else the error of git.
    pub(super) fn explain(&self, trees: &[&TreeId], error: GitError) -> SnapshotError {
        let mut reader = TreeChecker::new(self);
        for tree in trees {
            if let Ok(Some(object)) = reader.first_damaged(tree) {
                return self.corrupt(tree, &object);
            }
        }
        error.into()
    }
}

/// Checks trees, and remembers the objects that were read.
pub(super) struct TreeChecker<'a> {
    format: ObjectFormat,
    objects: ObjectReader<'a>,
    /// Intact files, and trees with only intact objects below them.
    intact: BTreeSet<String>,
    /// The first damaged object at or below an object.
    damaged: BTreeMap<String, String>,
}

impl<'a> TreeChecker<'a> {
    pub fn new(snapshots: &'a Snapshots) -> Self {
        let (intact, damaged) = (BTreeSet::new(), BTreeMap::new());
        Self { format: snapshots.format(), objects: ObjectReader::new(snapshots), intact, damaged }
    }

    /// Returns the first damaged object: the tree itself or one below it.
    pub fn first_damaged(&mut self, tree: &TreeId) -> Result<Option<String>, SnapshotError> {
        if self.intact.contains(tree.as_str()) {
            return Ok(None);
        }
        let read = read_snapshot(&mut self.objects, tree.as_str());
        match read.map_err(|error| error.at("read", tree.as_str().as_ref()))? {
            ReadSnapshot::Tree => self.check(tree.as_str(), "tree", 0),
            ReadSnapshot::Tagged(contents) => self.check(contents.tree.as_str(), "tree", 0),
            ReadSnapshot::Commit(tree) => self.check(tree.as_str(), "tree", 0),
            ReadSnapshot::Damaged => Ok(Some(tree.to_string())),
        }
    }

    fn check(
        &mut self,
        id: &str,
        expected: &str,
        depth: usize,
    ) -> Result<Option<String>, SnapshotError> {
        if self.intact.contains(id) {
            return Ok(None);
        }
        if let Some(bad) = self.damaged.get(id) {
            return Ok(Some(bad.clone()));
        }
        let mut bytes = Vec::new();
        let is_tree = expected == "tree";
        let read = self.objects.copy(id, &mut |chunk| {
            if is_tree {
                bytes.extend_from_slice(chunk);
            }
            Ok(())
        });
        let intact = match read {
            Ok(ObjectRead::Intact { kind }) => kind == expected,
            Ok(ObjectRead::Damaged) => false,
            Err(error) => return Err(error.at("read", id.as_ref())),
        };
        let bad = if !intact || depth > DEPTH_MAX {
            Some(id.to_owned())
        } else if is_tree {
            self.check_entries(id, &bytes, depth)?
        } else {
            None
        };
        match &bad {
            None => {
                self.intact.insert(id.to_owned());
            }
            Some(bad) => {
                self.damaged.insert(id.to_owned(), bad.clone());
            }
        }
        Ok(bad)
    }

    fn check_entries(
        &mut self,
        id: &str,
        tree: &[u8],
        depth: usize,
    ) -> Result<Option<String>, SnapshotError> {
        let Some(entries) = read_tree(tree, self.format) else { return Ok(Some(id.to_owned())) };
        for (mode, entry) in entries {
            let expected = match EntryMode::parse(mode) {
                Some(EntryMode::Folder) => "tree",
                // Its commit is in the nested repository.
                Some(EntryMode::NestedRepository) => continue,
                Some(EntryMode::File | EntryMode::Executable | EntryMode::Symlink) => "blob",
                None => return Ok(Some(id.to_owned())),
            };
            if let Some(bad) = self.check(&entry, expected, depth + 1)? {
                return Ok(Some(bad));
            }
        }
        Ok(None)
    }
}

/// Reads `mode SP name NUL id` records; `None` for anything that is not that.
fn read_tree(mut bytes: &[u8], format: ObjectFormat) -> Option<Vec<(&[u8], String)>> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let (mode, rest) = split_once(bytes, b' ')?;
        let (_, rest) = split_once(rest, 0)?;
        let (id, rest) = rest.split_at_checked(format.bytes())?;
        entries.push((mode, hex(id)));
        bytes = rest;
    }
    Some(entries)
}
