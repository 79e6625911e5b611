//! The files that the commits of a command have brought, and whether a file is as the current commit has it.

use std::collections::{BTreeMap, BTreeSet};

use super::takeover::Baseline;
use super::{Git, GitError, split_once};

/// The blob of a file that a commit has removed.
const REMOVED: &str = "removed";

/// A file that a commit has added, changed or removed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BroughtFile {
    /// Its path, relative to the top of the work tree; other characters stand for bytes that are not UTF-8.
    pub path: String,
    /// The name of its blob, or `removed`.
    pub blob: String,
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
        let mut earlier = String::new();
        for tip in before.tips() {
            earlier.push('^');
            earlier.push_str(tip);
            earlier.push('\n');
        }
        let listed = self
            .read("list what commits have brought")
            .args(["log", "--raw", "-m", "--root", "--no-renames", "--no-abbrev", "--format="])
            .args(["-z", "--no-ext-diff", "--ignore-missing", "--exclude=refs/windlass/*", "--all"])
            .args(["HEAD", "--stdin"])
            .stdin(earlier)
            .output()?;
        let mut found = BTreeSet::new();
        let mut records = listed.split(|byte| *byte == 0);
        while let Some(facts) = records.next() {
            // `:mode mode blob blob status`; between commits is an empty record.
            let Some(facts) = facts.strip_prefix(b":") else { continue };
            let path = records.next().unwrap_or_default();
            let blob = facts.split(|byte| *byte == b' ').nth(3).unwrap_or_default();
            let is_removed = blob.iter().all(|digit| *digit == b'0');
            let blob = String::from_utf8_lossy(blob).into_owned();
            found.insert(BroughtFile {
                path: String::from_utf8_lossy(path).into_owned(),
                blob: if is_removed { REMOVED.to_owned() } else { blob },
            });
        }
        Ok(found.into_iter().collect())
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
