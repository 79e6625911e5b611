//! Whether every snapshot that is kept is whole.

use std::collections::{BTreeMap, BTreeSet};

use super::objects::{Format, Got, Objects, Trouble, hex};
use super::{EntryMode, SnapshotError, Snapshots};
use crate::git::{Kind, split_once};
use crate::{GitError, TreeId};

/// How deep folders may lie in each other.
const DEPTH_MAX: usize = 2000;

/// A snapshot that is damaged. The others can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The name that keeps it.
    pub reference: String,
    /// What is wrong.
    pub kind: FaultKind,
}

/// What is wrong with a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Its ref cannot be read.
    Reference,
    /// An object is missing, unreadable, or not what its name says; the first that was found.
    Object(String),
}

impl Snapshots {
    /// Reads everything that is kept and reports each snapshot that is damaged. Every object is read
    /// once, however many snapshots have it.
    ///
    /// # Errors
    /// [`SnapshotError`] when the looking itself fails.
    pub fn check(&self) -> Result<Vec<Fault>, SnapshotError> {
        let references = self.references()?;
        let mut faults = Vec::new();
        for name in self.reference_files() {
            if references.binary_search_by(|(known, _)| known.cmp(&name)).is_err() {
                faults.push(Fault { reference: name, kind: FaultKind::Reference });
            }
        }
        let mut reader = Reader::new(self);
        for (reference, tree) in references {
            if let Some(object) = reader.first_bad(&tree)? {
                faults.push(Fault { reference, kind: FaultKind::Object(object) });
            }
        }
        faults.sort_by(|one, other| one.reference.cmp(&other.reference));
        Ok(faults)
    }

    /// Tells whether a tree is there; what it holds is not looked at.
    pub(super) fn has(&self, tree: &TreeId) -> Result<bool, SnapshotError> {
        let git = self.objects_git("look for the snapshot", Kind::Read);
        let git = git.args(["cat-file", "-e"]).arg(format!("{tree}^{{tree}}"));
        Ok(git.run()?.code == Some(0))
    }

    /// What an error of git is: damage to one of these snapshots, or something else.
    pub(super) fn damage(&self, trees: &[&TreeId], error: GitError) -> SnapshotError {
        let mut reader = Reader::new(self);
        for tree in trees {
            if let Ok(Some(object)) = reader.first_bad(tree) {
                return SnapshotError::Corrupt { tree: (*tree).clone(), object };
            }
        }
        error.into()
    }
}

/// What is known about objects so far.
struct Reader<'a> {
    format: Format,
    objects: Objects<'a>,
    /// Trees of which everything is there, and good contents.
    good: BTreeSet<String>,
    /// The first bad object at or below an object.
    bad: BTreeMap<String, String>,
}

impl<'a> Reader<'a> {
    fn new(snapshots: &'a Snapshots) -> Self {
        let (good, bad) = (BTreeSet::new(), BTreeMap::new());
        Self { format: snapshots.format(), objects: Objects::new(snapshots), good, bad }
    }

    /// Finds an object that is not whole, the tree itself or anything below.
    fn first_bad(&mut self, tree: &TreeId) -> Result<Option<String>, SnapshotError> {
        self.look(tree.as_str(), "tree", 0)
    }

    fn look(
        &mut self,
        id: &str,
        expected: &str,
        depth: usize,
    ) -> Result<Option<String>, SnapshotError> {
        if self.good.contains(id) {
            return Ok(None);
        }
        if let Some(bad) = self.bad.get(id) {
            return Ok(Some(bad.clone()));
        }
        let mut bytes = Vec::new();
        let is_tree = expected == "tree";
        let got = self.objects.copy(id, &mut |chunk| {
            if is_tree {
                bytes.extend_from_slice(chunk);
            }
            Ok(())
        });
        let whole = match got {
            Ok(Got::Whole { kind }) => kind == expected,
            Ok(Got::Bad) => false,
            Err(Trouble::Git(error)) => return Err(error.into()),
            Err(Trouble::Sink(error)) => {
                return Err(SnapshotError::file("read", id.as_ref(), &error));
            }
        };
        let bad = if !whole || depth > DEPTH_MAX {
            Some(id.to_owned())
        } else if is_tree {
            self.below(id, &bytes, depth)?
        } else {
            None
        };
        match &bad {
            None => {
                self.good.insert(id.to_owned());
            }
            Some(bad) => {
                self.bad.insert(id.to_owned(), bad.clone());
            }
        }
        Ok(bad)
    }

    fn below(
        &mut self,
        id: &str,
        tree: &[u8],
        depth: usize,
    ) -> Result<Option<String>, SnapshotError> {
        let Some(entries) = read_tree(tree, self.format) else { return Ok(Some(id.to_owned())) };
        for (mode, entry) in entries {
            let expected = match (mode, EntryMode::read(mode)) {
                (b"40000", _) => "tree",
                // Its commit is in another repository.
                (_, Some(EntryMode::Nested)) => continue,
                (_, Some(EntryMode::File | EntryMode::Executable | EntryMode::Link)) => "blob",
                (_, None) => return Ok(Some(id.to_owned())),
            };
            if let Some(bad) = self.look(&entry, expected, depth + 1)? {
                return Ok(Some(bad));
            }
        }
        Ok(None)
    }
}

/// Reads `mode SP name NUL id` records; `None` for anything that is not that.
fn read_tree(mut bytes: &[u8], format: Format) -> Option<Vec<(&[u8], String)>> {
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
