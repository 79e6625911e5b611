//! The files that the commits of a command have brought, and whether a file is as the current commit has it.

use std::collections::{BTreeMap, BTreeSet};

use super::log_changes::{LOG, LoggedChange, logged_changes};
use super::takeover::Baseline;
use super::{Git, GitError, split_once};

/// The blob of a file that a commit has removed.
const REMOVED: &str = "removed";

/// Arguments besides those of the listing: what a commit of before lacks is no error.
const IGNORE_MISSING: &str = "--ignore-missing";

/// The files that a listing of commits has.
fn changes(listed: &[u8]) -> BTreeSet<BroughtFile> {
    let file = |change: LoggedChange<'_>| {
        let is_removed = change.blob.iter().all(|digit| *digit == b'0');
        let blob = String::from_utf8_lossy(change.blob).into_owned();
        BroughtFile {
            path: String::from_utf8_lossy(change.path).into_owned(),
            blob: if is_removed { REMOVED.to_owned() } else { blob },
            is_link: change.modes.last() == Some(&b"120000".as_slice()),
        }
    };
    logged_changes(listed).map(file).collect()
}

/// A file that a commit has added, changed or removed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BroughtFile {
    /// Its path, relative to the top of the work tree; other characters stand for bytes that are not UTF-8.
    pub path: String,
    /// The name of its blob, or `removed`.
    pub blob: String,
    /// Whether it is a link.
    pub is_link: bool,
}

/// The files of the current commit, by their paths relative to a folder.
#[derive(Clone, Debug, Default)]
pub struct CommittedFiles(BTreeMap<String, String>);

impl CommittedFiles {
    /// The name of the blob that the commit has at a path, or `removed`.
    #[must_use]
    pub fn blob(&self, path: &str) -> &str {
        self.0.get(path).map_or(REMOVED, String::as_str)
    }
}

impl Git {
    /// What the commits have brought that are reachable now and were not before a command.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn brought(&self, before: &Baseline) -> Result<Vec<BroughtFile>, GitError> {
        let earlier: String = before.tips().map(|tip| format!("^{tip}\n")).collect();
        let git = self.read("list what commits have brought").args(LOG).arg(IGNORE_MISSING);
        let git = git.args(["--exclude=refs/windlass/*", "--all", "HEAD", "--stdin"]);
        Ok(changes(&git.stdin(earlier).output()?).into_iter().collect())
    }

    /// Which of these, by path and blob, commits had that were there before a command: a merge or a picked commit brings
    /// them again.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn had(
        &self,
        before: &Baseline,
        files: &BTreeSet<&BroughtFile>,
    ) -> Result<BTreeSet<(String, String)>, GitError> {
        let tips: String = before.tips().map(|tip| format!("{tip}\n")).collect();
        let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let top = self.top_level()?;
        let git = self.at(top);
        let listed = git
            .read("look for files in earlier commits")
            .arg("--literal-pathspecs")
            .args(LOG)
            .arg(IGNORE_MISSING)
            .args(["--stdin", "--"])
            .args(paths)
            .stdin(tips)
            .output()?;
        Ok(changes(&listed).into_iter().map(|file| (file.path, file.blob)).collect())
    }

    /// Whether a commit that a ref leads to has, or had, a file at this path.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn was_committed(&self, path: &str) -> Result<bool, GitError> {
        let git = self.read("look for a file in earlier commits").arg("--literal-pathspecs");
        let git = git.args(["log", "-1", "--format=%H", "--exclude=refs/windlass/*", "--all"]);
        Ok(!git.args(["--", path]).output()?.is_empty())
    }

    /// The files of the current commit below this folder; none if there is no commit.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn committed_files(&self) -> Result<CommittedFiles, GitError> {
        let Some(head) = self.head()? else { return Ok(CommittedFiles::default()) };
        let tree = ["ls-tree", "-r", "-z", head.as_str()];
        let listed = self.read("list the files of the current commit").args(tree).output()?;
        let mut files = BTreeMap::new();
        for record in listed.split(|byte| *byte == 0) {
            if let Some((facts, path)) = split_once(record, b'\t')
                && let Some(blob) = facts.split(|byte| *byte == b' ').nth(2)
            {
                let path = String::from_utf8_lossy(path).into_owned();
                files.insert(path, String::from_utf8_lossy(blob).into_owned());
            }
        }
        Ok(CommittedFiles(files))
    }

    /// The name that a blob of these bytes has in this repository.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn blob_of(&self, bytes: Vec<u8>) -> Result<String, GitError> {
        let hash = ["hash-object", "--no-filters", "--stdin"];
        self.read("name the contents of a file").args(hash).stdin(bytes).line()
    }
}
