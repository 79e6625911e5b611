//! The change of a run apart from what was there before it: the tree of its commit.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::index_folder::IndexFolder;
use super::merge::{CommitMerge, Renames};
use super::user_index::{entries, is_uncompared};
use super::{Access, CommitId, Git, GitError, TreeId, Treeish, id_of, os, path_of};

const OPERATION: &str = "take the run's own change";

/// The file, link or nested repository at a path: its mode and its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    mode: Vec<u8>,
    id: Vec<u8>,
}

impl Item {
    /// `None` for a path that does not exist.
    pub(super) fn new(mode: &[u8], id: &[u8]) -> Option<Self> {
        let is_there = mode.iter().any(|digit| *digit != b'0');
        is_there.then(|| Self { mode: mode.to_vec(), id: id.to_vec() })
    }
}

/// The sides of a changed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sides {
    pub old: Option<Item>,
    pub new: Option<Item>,
}

impl Sides {
    /// The record that gives a path its new side in an index.
    pub(super) fn record(&self, path: &[u8]) -> Vec<u8> {
        match &self.new {
            Some(Item { mode, id }) => [mode.as_slice(), b" ", id.as_slice(), b"\t", path].concat(),
            None => {
                let digits = self.old.as_ref().map_or(0, |old| old.id.len());
                [b"0 ", vec![b'0'; digits].as_slice(), b"\t", path].concat()
            }
        }
    }
}

pub(super) type Differences = BTreeMap<Vec<u8>, Sides>;

impl Git {
    /// Returns the tree of a commit on top of `head` that has a run's own change and nothing else: what differs
    /// between its work tree `now` and `head`, without what differed between the commit `base` and the files `began`
    /// from which it started. A file in which both changed something has the lines of the run only.
    ///
    /// # Errors
    /// [`GitError`], also if the result is not exactly that change.
    pub fn own_tree(
        &self,
        head: &CommitId,
        (base, began): (&CommitId, &TreeId),
        now: &TreeId,
    ) -> Result<CommitMerge, GitError> {
        let head = self.tree_of(head)?;
        let theirs = self.differences(&base.clone().into(), &began.clone().into())?;
        if theirs.is_empty() {
            return Ok(CommitMerge::Clean(now.clone()));
        }
        let start = self.overlaid(&head, &theirs)?;
        let own = match self.merge_trees(&start, &head, now, Renames::Ignore)? {
            CommitMerge::Clean(own) => own,
            conflict @ CommitMerge::Conflict(_) => return Ok(conflict),
        };
        let foreign = self.foreign(&theirs, [&start, now], [&head, &own])?;
        if foreign.is_empty() {
            return Ok(CommitMerge::Clean(own));
        }
        Ok(CommitMerge::Conflict(foreign))
    }

    /// The tree of a commit with the files of `now` that differ and that the user's index tells git not to compare;
    /// `None` if there are none.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn uncompared(&self, head: &CommitId, now: &TreeId) -> Result<Option<TreeId>, GitError> {
        let listed = self.listed_index()?;
        let entries = entries(&listed);
        let is_flagged =
            |path: &[u8]| entries.get(path).is_some_and(|(tag, _)| is_uncompared(*tag));
        let mut theirs = self.differences(&head.clone().into(), &now.clone().into())?;
        theirs.retain(|path, _| is_flagged(path));
        if theirs.is_empty() {
            return Ok(None);
        }
        self.overlaid(&self.tree_of(head)?, &theirs).map(Some)
    }

    /// The paths in which what would be committed is not what the run has changed. In the paths of `theirs` both may
    /// have: there only lines of the run may be committed.
    fn foreign(
        &self,
        theirs: &Differences,
        [start, now]: [&TreeId; 2],
        [head, own]: [&TreeId; 2],
    ) -> Result<Vec<PathBuf>, GitError> {
        let differences =
            |[old, new]: [&TreeId; 2]| self.differences(&old.clone().into(), &new.clone().into());
        let (of_run, committed) = (differences([start, now])?, differences([head, own])?);
        let mut foreign = Vec::new();
        for path in of_run.keys().chain(committed.keys().filter(|path| !of_run.contains_key(*path)))
        {
            let (run, commit) = (of_run.get(path), committed.get(path));
            let is_own = match (run, commit) {
                (Some(run), Some(commit)) if theirs.contains_key(path) => {
                    has_mode_of_either(run, commit)
                        && is_part(
                            self.changed_lines([head, own], path)?,
                            self.changed_lines([start, now], path)?,
                        )
                }
                // The commit before has it already.
                (Some(_), None) => theirs.contains_key(path),
                (run, commit) => run == commit,
            };
            if !is_own {
                foreign.push(path_of(path));
            }
        }
        Ok(foreign)
    }

    /// A tree with the new side of some differences.
    fn overlaid(&self, tree: &TreeId, with: &Differences) -> Result<TreeId, GitError> {
        let folder = IndexFolder::new(OPERATION)?;
        let index = folder.index();
        let git = || self.write(OPERATION).env("GIT_INDEX_FILE", &index);
        git().args(["read-tree", tree.as_str()]).output()?;
        // A file that is gone may be where another has its folder.
        let (there, gone): (Vec<_>, Vec<_>) =
            with.iter().partition(|(_, sides)| sides.new.is_some());
        let mut lines = Vec::new();
        for (path, sides) in gone.into_iter().chain(there) {
            lines.extend(sides.record(path));
            lines.push(0);
        }
        git().args(["update-index", "-z", "--index-info"]).stdin(lines).output()?;
        id_of(OPERATION, &git().arg("write-tree").output()?)
    }

    /// The paths in which two trees differ.
    pub(super) fn differences(
        &self,
        old: &Treeish,
        new: &Treeish,
    ) -> Result<Differences, GitError> {
        let bytes = self
            .objects(OPERATION, new.as_str().len())?
            .git(OPERATION, Access::Read)
            .args(["diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames"])
            .args(["--no-ext-diff", "--ignore-submodules=none", old.as_str(), new.as_str()])
            .output()?;
        read_raw(&bytes).ok_or_else(|| GitError::unexpected(OPERATION, &bytes))
    }

    /// The lines of a file that differ between two trees, each with its sign.
    fn changed_lines(
        &self,
        [old, new]: [&TreeId; 2],
        path: &[u8],
    ) -> Result<Vec<Vec<u8>>, GitError> {
        let bytes = self
            .objects(OPERATION, new.as_str().len())?
            .git(OPERATION, Access::Read)
            .args(["--literal-pathspecs", "diff-tree", "-r", "-p", "-U0", "--no-color", "--text"])
            .args([
                "--no-renames",
                "--no-ext-diff",
                "--no-textconv",
                old.as_str(),
                new.as_str(),
                "--",
            ])
            .arg(os(path))
            .output()?;
        let lines = bytes.split(|byte| *byte == b'\n').skip_while(|line| !line.starts_with(b"@@"));
        let lines = lines.filter(|line| line.starts_with(b"+") || line.starts_with(b"-"));
        Ok(lines.map(<[u8]>::to_vec).collect())
    }
}

/// Whether the file of a commit has the mode that it had, or the one that the run gave it.
fn has_mode_of_either(run: &Sides, commit: &Sides) -> bool {
    let mode = |item: &Option<Item>| item.as_ref().map(|item| item.mode.clone());
    mode(&commit.new) == mode(&commit.old) || mode(&commit.new) == mode(&run.new)
}

/// Whether each line is one of the others, no more often than there.
fn is_part(lines: Vec<Vec<u8>>, mut of: Vec<Vec<u8>>) -> bool {
    lines.iter().all(|line| {
        let place = of.iter().position(|known| known == line);
        place.map(|place| of.swap_remove(place)).is_some()
    })
}

/// Reads `:mode mode id id status NUL path NUL` records.
fn read_raw(bytes: &[u8]) -> Option<Differences> {
    let mut found = Differences::new();
    if bytes.is_empty() {
        return Some(found);
    }
    let mut fields = bytes.strip_suffix(b"\0")?.split(|byte| *byte == 0);
    while let Some(facts) = fields.next() {
        let path = fields.next().filter(|path| !path.is_empty())?;
        let facts: Vec<&[u8]> = facts.strip_prefix(b":")?.split(|byte| *byte == b' ').collect();
        let [old_mode, new_mode, old, new, _] = facts.as_slice() else { return None };
        let sides = Sides { old: Item::new(old_mode, old), new: Item::new(new_mode, new) };
        found.insert(path.to_vec(), sides);
    }
    Some(found)
}
