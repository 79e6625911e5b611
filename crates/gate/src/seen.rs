//! What was seen of a workspace.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use windlass_kernel::Digest;

use crate::git_folder::TELLING;
use crate::mark::{Mark, Stamp};
use crate::rel_path::RelPath;
use crate::rules::Rules;
use crate::targets::Targets;

/// A folder that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderSeen {
    pub stamp: Stamp,
    /// The names of the folders in it.
    pub folders: Vec<RelPath>,
    /// The names of the files in it that are remembered.
    pub marked: Vec<RelPath>,
    /// Whether it is a git directory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_git: bool,
    /// The git directory that it lay in, which decides what is remembered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<RelPath>,
}

/// What was seen of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The rules by which files were chosen.
    pub rules: Digest,
    pub folders: BTreeMap<RelPath, FolderSeen>,
    /// The files that matter.
    pub marks: BTreeMap<RelPath, Mark>,
    /// What has other names, which rules are about.
    #[serde(default)]
    pub targets: Targets,
}

impl Seen {
    fn top() -> RelPath {
        RelPath::default()
    }

    /// The git directory that a path lies in, as it was seen.
    pub fn git_of(&self, path: &RelPath) -> Option<RelPath> {
        let mut above: Vec<RelPath> = path.above().collect();
        above.reverse();
        above.push(Self::top());
        above.into_iter().find(|folder| self.folders.get(folder).is_some_and(|seen| seen.is_git))
    }

    /// Nothing, seen under these rules.
    pub fn nothing(rules: &Rules) -> Self {
        let (folders, marks) = (BTreeMap::new(), BTreeMap::new());
        Self { rules: rules.digest(), folders, marks, targets: Targets::default() }
    }

    /// Device and inode of a file that is remembered, or of a folder.
    pub fn inode(&self, path: &RelPath) -> Option<(u64, u64)> {
        match (self.marks.get(path), self.folders.get(path)) {
            (Some(Mark::File { stamp, .. } | Mark::Folder { stamp }), _) => Some(stamp.inode()),
            (_, Some(folder)) => Some(folder.stamp.inode()),
            (_, None) => None,
        }
    }

    /// The permissions of a folder.
    pub fn mode(&self, folder: &RelPath) -> Option<u32> {
        self.folders.get(folder).map(|seen| seen.stamp.mode())
    }

    /// What made a folder that was there before a git directory.
    pub fn made_git(&self, before: &Self, git: &RelPath) -> Option<RelPath> {
        let was = before.folders.get(git).filter(|was| !was.is_git)?;
        let is = self.folders.get(git).filter(|is| is.is_git)?;
        let had = |name: &RelPath| was.folders.contains(name) || was.marked.contains(name);
        let has = |name: &RelPath| is.folders.contains(name) || is.marked.contains(name);
        let names = TELLING.map(RelPath::from);
        let (head, others) = names.split_last()?;
        let new = others.iter().find(|name| has(name) && !had(name)).unwrap_or(head);
        Some(git.join(new.as_path().as_os_str()))
    }

    /// Whether both have seen the same folder at the place of a path's folder.
    pub fn is_in_same_folder(&self, path: &RelPath, other: &Self) -> bool {
        let folder = path.above().last().unwrap_or_default();
        match (self.folders.get(&folder), other.folders.get(&folder)) {
            (Some(one), Some(two)) => one.stamp.is_same_inode(&two.stamp),
            (_, _) => false,
        }
    }

    /// The contents that must be kept.
    pub fn digests(&self) -> BTreeSet<Digest> {
        let digest = |mark: &Mark| match mark {
            Mark::File { digest, .. } => Some(*digest),
            Mark::Link { .. }
            | Mark::Special(_)
            | Mark::Unreadable
            | Mark::Foreign
            | Mark::Folder { .. } => None,
        };
        self.marks.values().filter_map(digest).collect()
    }
}
