//! The status of a work tree.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use super::filters::{Conversions, Files, NESTED_MODE, OnFilter};
use super::{Git, GitError, path_of, split_once};
use crate::hidden_files::is_secret_file;

/// How many changed paths a status lists.
pub const DIRTY_PATHS_MAX: usize = 20;

const OPERATION: &str = "read the status";
/// How deep submodules may be nested.
const SUBMODULE_DEPTH_MAX: usize = 20;

/// Whether a work tree has uncommitted changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorktreeStatus {
    /// It has none.
    Clean,
    /// It has changed, staged, conflicting or untracked files; ignored files do not count.
    Dirty {
        /// The first [`DIRTY_PATHS_MAX`], relative to the top.
        paths: Vec<PathBuf>,
        /// The number of all of them.
        count: usize,
    },
}

impl Git {
    /// Reads the status of this folder of the work tree, untracked files and submodules included, but not untracked files that usually hold secrets.
    ///
    /// # Errors
    /// [`GitError`], also when a file needs a filter that is not allowed.
    pub fn status(&self) -> Result<WorktreeStatus, GitError> {
        let top = self.at_top(OPERATION)?;
        let paths = top.changes(0)?;
        if paths.is_empty() {
            return Ok(WorktreeStatus::Clean);
        }
        let first = paths.iter().take(DIRTY_PATHS_MAX).map(|path| path_of(path)).collect();
        Ok(WorktreeStatus::Dirty { paths: first, count: paths.len() })
    }

    /// The files that differ from the present commit, relative to the top, and whether each is tracked.
    ///
    /// # Errors
    /// [`GitError`], also when a file needs a filter that is not allowed.
    pub fn uncommitted(&self) -> Result<Vec<(String, bool)>, GitError> {
        let top = self.at(self.top_for(OPERATION)?);
        let listed = top.read(OPERATION).args(["ls-files", "-z", "--others", "--exclude-standard"]);
        let listed = listed.output()?;
        let untracked: BTreeSet<&[u8]> = listed.split(|byte| *byte == 0).collect();
        let text = |path: &Vec<u8>| String::from_utf8_lossy(path).trim_end_matches('/').to_owned();
        let changes = top.changes(0)?;
        let is_tracked = |path: &Vec<u8>| !untracked.contains(path.as_slice());
        Ok(changes.iter().map(|path| (text(path), is_tracked(path))).collect())
    }

    /// The submodules that have changes of their own, which no commit of this repository takes along.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn changed_submodules(&self) -> Result<Vec<String>, GitError> {
        let top = self.at_top(OPERATION)?;
        let mut found = Vec::new();
        for name in top.submodules()? {
            let inner = top.at(top.root().join(path_of(&name)));
            if inner.is_checked_out()? && !inner.changes(1)?.is_empty() {
                found.push(String::from_utf8_lossy(&name).into_owned());
            }
        }
        Ok(found)
    }

    /// The submodules of this repository.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn submodule_names(&self) -> Result<Vec<String>, GitError> {
        let top = self.at_top(OPERATION)?;
        let names = top.submodules()?;
        Ok(names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    }

    /// The changed paths below the top. Git would read the status of submodules with their own
    /// settings; here each of them is read as every other repository.
    fn changes(&self, depth: usize) -> Result<Vec<Vec<u8>>, GitError> {
        if depth > SUBMODULE_DEPTH_MAX {
            return Err(GitError::refused(OPERATION, "submodules are nested too deeply"));
        }
        let conversions = self.conversions(OPERATION, Files::Worktree(None), OnFilter::Refuse)?;
        let Conversions { settings, mut nested, untracked, .. } = conversions;
        let secrets: BTreeSet<Vec<u8>> =
            untracked.into_iter().filter(|path| is_secret_file(path)).collect();
        // One in a conflict has several entries.
        nested.dedup();
        let bytes = self
            .read(OPERATION)
            .settings(&settings)
            .reading_files()
            .args(["status", "--porcelain=v2", "-z", "--untracked-files=all"])
            .args(["--ignored=no", "--ignore-submodules=dirty", "--no-renames"])
            .output()?;
        let paths = changed_paths(&bytes).ok_or_else(|| GitError::unexpected(OPERATION, &bytes))?;
        // No tree has them.
        let is_left_out = |path: &[u8]| self.omitted.contains(path) || secrets.contains(path);
        let counts = |path: &&[u8]| depth > 0 || self.counts(path) && !is_left_out(path);
        let mut paths: Vec<Vec<u8>> =
            paths.into_iter().filter(counts).map(<[u8]>::to_vec).collect();
        for name in nested {
            if paths.contains(&name) || !self.counts(&name) {
                continue;
            }
            let inner = self.at(self.root().join(path_of(&name)));
            if inner.is_checked_out()? && !inner.changes(depth + 1)?.is_empty() {
                paths.push(name);
            }
        }
        Ok(paths)
    }

    /// The paths of the nested repositories in the index.
    fn submodules(&self) -> Result<Vec<Vec<u8>>, GitError> {
        let listed = self.read(OPERATION).args(["ls-files", "-s", "-z"]).output()?;
        let mut names: Vec<Vec<u8>> = listed
            .split(|byte| *byte == 0)
            .filter(|record| record.starts_with(NESTED_MODE))
            .filter_map(|record| Some(split_once(record, b'\t')?.1.to_vec()))
            .collect();
        names.dedup();
        Ok(names)
    }

    /// Whether the folder is the top of a repository of its own. Otherwise git would find the one around
    /// it.
    fn is_checked_out(&self) -> Result<bool, GitError> {
        if fs::symlink_metadata(self.root().join(".git")).is_err() {
            return Ok(false);
        }
        let fail = |error: std::io::Error| {
            GitError::new(OPERATION, super::error::GitCause::File(error.to_string()))
        };
        let folder = self.root().canonicalize().map_err(fail)?;
        let [top, common] = self.paths(OPERATION, [&["--show-toplevel"], &["--git-common-dir"]])?;
        let is_top = top.canonicalize().map_err(fail)? == folder;
        if is_top {
            drop(self.common.set(common));
        }
        Ok(is_top)
    }
}

/// The paths of a status in porcelain format 2; `None` for anything that is not that.
fn changed_paths(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    if bytes.is_empty() {
        return Some(Vec::new());
    }
    let mut paths = Vec::new();
    let mut records = bytes.strip_suffix(b"\0")?.split(|byte| *byte == 0);
    while let Some(record) = records.next() {
        // How many fields stand before the path, which may hold spaces itself.
        let fields = match record.first()? {
            b'1' => 8,
            b'2' => 9,
            b'u' => 10,
            b'?' => 1,
            b'#' | b'!' => continue,
            _ => return None,
        };
        let path = record.splitn(fields + 1, |byte| *byte == b' ').nth(fields)?;
        if path.is_empty() {
            return None;
        }
        paths.push(path);
        if record.starts_with(b"2") {
            // Where it was.
            records.next().filter(|from| !from.is_empty())?;
        }
    }
    Some(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_record_is_read() {
        let status = b"# branch.oid x\0\
            1 .M N... 100644 100644 100644 aa bb a  file\0\
            2 R. N... 100644 100644 100644 aa bb R100 new\nname\0old \xff name\0\
            u UU N... 100644 100644 100644 100644 aa bb cc in conflict\0\
            ? \"quoted\" \xff\0! ignored\0";
        let expected: [&[u8]; 4] = [b"a  file", b"new\nname", b"in conflict", b"\"quoted\" \xff"];
        assert_eq!(changed_paths(status), Some(expected.to_vec()));
        assert_eq!(changed_paths(b""), Some(Vec::new()));
    }

    #[test]
    fn anything_else_is_refused() {
        for bad in [
            &b"? no end"[..],
            b"\0",
            b"x what\0",
            b"? \0",
            b"?\0",
            b"1 .M N... 100644\0",
            b"2 R. N... 100644 100644 100644 aa bb R100 new\0",
        ] {
            assert_eq!(changed_paths(bad), None, "{:?}", String::from_utf8_lossy(bad));
        }
    }
}
