//! Commits and indexes that would put files of ours into the work tree: a later checkout would write what no command may write.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::refs::RefValue;
use super::verify::NESTED_MODE;
use super::{Baseline, TakeOver, TakeOverError};
use crate::git::invoke::Invocation;
use crate::git::log_changes::{LOG, logged_changes};
use crate::git::{Access, split_once};

const OPERATION: &str = "check the files of Windlass";
/// The folder that only people change, at any depth.
const OURS: &[u8] = b".windlass";
/// The largest file of ours that is compared.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Whether a path is one of ours, in any letter case.
pub(super) fn is_ours(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|part| part.eq_ignore_ascii_case(OURS))
}

/// Something that a commit has.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NewEntry {
    id: String,
    path: Vec<u8>,
    /// Whether it is a repository of its own.
    is_nested: bool,
}

impl TakeOver<'_> {
    /// Refuses new commits that have a file of ours which is neither as it was nor as it is in the work tree, or a repository
    /// of its own that was none.
    pub(super) fn verify_own_files(
        &self,
        tips: &BTreeMap<&str, &str>,
        base: &Baseline,
    ) -> Result<(), TakeOverError> {
        let heads = base.commits();
        let known: BTreeSet<&str> = base.ids().chain(heads.iter().map(String::as_str)).collect();
        let new: BTreeMap<&str, &str> = tips
            .iter()
            .filter(|(id, _)| !known.contains(**id))
            .map(|(id, name)| (*id, *name))
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        let missing = self.missing(heads.iter().map(String::as_str))?;
        let before = heads.iter().find(|id| !missing.contains(*id));
        for (id, name) in new {
            let mut nested = BTreeSet::new();
            for entry in self.new_entries(before.map(String::as_str), id)? {
                match entry.is_nested {
                    true => drop(nested.insert(entry.path)),
                    false => self.require_work_tree_has(&entry.id, &entry.path, Path::new(name))?,
                }
            }
            // A command that reached another repository may have got its branches; they are checked when one is merged.
            if !name.starts_with("refs/remotes/") {
                self.require_known_nested(nested, base, Path::new(name))?;
            }
        }
        Ok(())
    }

    /// Refuses repositories in the work tree that no commit of before has as such: git of a person would go into them.
    pub(super) fn require_known_nested(
        &self,
        nested: BTreeSet<Vec<u8>>,
        base: &Baseline,
        at: &Path,
    ) -> Result<(), TakeOverError> {
        if nested.is_empty() {
            return Ok(());
        }
        let tips = base.tips();
        let missing = self.missing(tips.iter().map(String::as_str))?;
        let tips: String = tips
            .iter()
            .filter(|tip| !missing.contains(*tip))
            .map(|tip| format!("{tip}\n"))
            .collect();
        let mut known = BTreeSet::new();
        if !tips.is_empty() {
            // All of these are in the repository, which knows where a shallow history ends.
            let git = Invocation::new(OPERATION, self.workspace, Access::Read);
            let git = git.args(LOG).args(["--stdin", "--"]);
            let paths = nested.iter().map(|path| std::ffi::OsStr::from_bytes(path));
            let listed = git.args(paths).stdin(tips).output()?;
            let nested =
                logged_changes(&listed).filter(|change| change.modes.contains(&NESTED_MODE));
            known.extend(nested.map(|change| change.path.to_vec()));
        }
        match nested.iter().find(|path| !known.contains(*path)) {
            None => Ok(()),
            Some(path) => {
                let shown = String::from_utf8_lossy(path).into_owned();
                let why = format!(
                    "it adds the repository `{shown}` to this one, which only people may do"
                );
                Err(TakeOverError::damaged(at, &why))
            }
        }
    }

    /// Refuses a file of ours, by its id, that is not as it is in the work tree.
    pub(super) fn require_work_tree_has(
        &self,
        id: &str,
        path: &[u8],
        at: &Path,
    ) -> Result<(), TakeOverError> {
        let file = self.workspace.join(std::ffi::OsStr::from_bytes(path));
        let is_plain = file
            .symlink_metadata()
            .is_ok_and(|found| found.is_file() && found.len() <= FILE_BYTES_MAX);
        if is_plain && let Ok(bytes) = fs::read(&file) {
            let objects = self.real_objects()?;
            let hash = objects.git(OPERATION, Access::Read).args(["hash-object", "--stdin"]);
            if hash.stdin(bytes).line()? == id {
                return Ok(());
            }
        }
        let shown = String::from_utf8_lossy(path).into_owned();
        let why = format!("it has `{shown}`, which only people may change");
        Err(TakeOverError::damaged(at, &why))
    }

    /// The files of ours that a commit has otherwise than another one, or at all, and the repositories that only it has.
    fn new_entries(
        &self,
        before: Option<&str>,
        commit: &str,
    ) -> Result<BTreeSet<NewEntry>, TakeOverError> {
        let objects = self.real_objects()?;
        let git = objects.git(OPERATION, Access::Read);
        let (git, place) = match before {
            Some(before) => {
                (git.args(["diff-tree", "-r", "-z", "--raw", "--no-renames", before, commit]), 3)
            }
            None => (git.args(["ls-tree", "-r", "-z", "--full-tree", commit]), 2),
        };
        let listed = git.output().map_err(TakeOverError::invalid_objects)?;
        let mut own = BTreeSet::new();
        let mut records = listed.split(|byte| *byte == 0).filter(|record| !record.is_empty());
        while let Some(record) = records.next() {
            let (facts, path) = match before {
                Some(_) => (record, records.next().unwrap_or_default()),
                None => split_once(record, b'\t').unwrap_or((record, b"")),
            };
            let field =
                |place: usize| facts.split(|byte| *byte == b' ').nth(place).unwrap_or_default();
            let id = field(place);
            let is_removed = id.iter().all(|byte| *byte == b'0');
            let (was, is) = match before {
                Some(_) => (field(0).strip_prefix(b":").unwrap_or_default(), field(1)),
                None => (&b""[..], field(0)),
            };
            let is_nested = is == NESTED_MODE;
            if is_ours(path) && !is_removed || is_nested && was != NESTED_MODE {
                let id = String::from_utf8_lossy(id).into_owned();
                own.insert(NewEntry { id, path: path.to_vec(), is_nested });
            }
        }
        Ok(own)
    }
}

impl Baseline {
    /// The objects that refs named.
    fn ids(&self) -> impl Iterator<Item = &str> {
        self.refs.values().filter_map(|stored| stored.value()?.id())
    }

    /// The commits that the work trees had.
    fn commits(&self) -> BTreeSet<String> {
        let id = |head: &RefValue| match head.target() {
            Some(target) => self.refs.get(target)?.value()?.id().map(str::to_owned),
            None => head.id().map(str::to_owned),
        };
        self.heads.values().filter_map(id).collect()
    }
}
