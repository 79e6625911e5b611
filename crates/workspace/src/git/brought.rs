//! The files that the commits of a command have brought, and whether a file is as the current commit has it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use windlass_kernel::Digest;

use super::log_changes::{LOG, LoggedChange, logged_changes};
use super::takeover::{TakeOverError, read_file, tips};
use super::{Git, GitError, portions, split_once};

/// The blob of a file that a commit has removed.
pub const REMOVED: &str = "removed";

/// Arguments besides those of the listing: what a commit of before lacks is no error.
const IGNORE_MISSING: &str = "--ignore-missing";

/// The mode of a link.
const LINK: &[u8] = b"120000";

/// How many bytes of blobs are read at once.
const PORTION_BYTES: u64 = 32 << 20;

/// The longest path that a file or link may name.
const TARGET_BYTES_MAX: usize = 4096;

/// The files that a listing of commits has.
fn changes(listed: &[u8]) -> BTreeSet<BroughtFile> {
    let file = |change: LoggedChange<'_>| {
        let is_removed = change.blob.iter().all(|digit| *digit == b'0');
        let blob = String::from_utf8_lossy(change.blob).into_owned();
        BroughtFile {
            path: String::from_utf8_lossy(change.path).into_owned(),
            blob: if is_removed { REMOVED.to_owned() } else { blob },
            is_link: change.modes.last() == Some(&LINK),
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

/// A file that a commit has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedFile {
    /// The name of its blob.
    pub blob: String,
    /// Whether it is a link.
    pub is_link: bool,
}

/// The contents of a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobContents {
    /// Their digest.
    pub digest: Digest,
    /// The target, if it is that of a link.
    pub target: Option<String>,
}

impl Git {
    /// What the commits have brought that are reachable now and were not from these objects, which refs and current commits
    /// were before a command.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn brought(&self, before: &BTreeSet<String>) -> Result<Vec<BroughtFile>, GitError> {
        let operation = "list what commits have brought";
        let now = match tips(&self.common_dir()?) {
            Err(TakeOverError::Git(error)) => return Err(error),
            now => now.map_err(|error| GitError::refused(operation, error.to_string()))?,
        };
        let mut lines: String = now.difference(before).map(|tip| format!("{tip}\n")).collect();
        if lines.is_empty() {
            return Ok(Vec::new());
        }
        lines.extend(before.iter().map(|tip| format!("^{tip}\n")));
        let git = self.read(operation).args(LOG).args([IGNORE_MISSING, "--stdin"]);
        Ok(changes(&git.stdin(lines).output()?).into_iter().collect())
    }

    /// Which of these, by path and blob, commits had that led to these objects: a merge or a picked commit brings them again.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn had(
        &self,
        before: &BTreeSet<String>,
        files: &BTreeSet<&BroughtFile>,
    ) -> Result<BTreeSet<(String, String)>, GitError> {
        let tips: String = before.iter().map(|tip| format!("{tip}\n")).collect();
        let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let paths: Vec<&str> = paths.into_iter().collect();
        let git = self.at(self.top_level()?);
        let mut had = BTreeSet::new();
        for paths in portions(&paths) {
            let git = git.read("look for files in earlier commits").args(LOG);
            let git = git.args([IGNORE_MISSING, "--stdin", "--"]).args(paths);
            let listed = git.stdin(tips.as_str()).output()?;
            had.extend(changes(&listed).into_iter().map(|file| (file.path, file.blob)));
        }
        Ok(had)
    }

    /// Those of these paths at which a commit that a ref leads to has, or had, a file. Paths are relative to this folder, the
    /// top of the work tree.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn ever_committed(&self, paths: &[&str]) -> Result<BTreeSet<String>, GitError> {
        let mut found = BTreeSet::new();
        for paths in portions(paths) {
            let git = self.read("look for files in earlier commits");
            let git = git.args(["log", "--name-only", "--no-relative", "--no-renames", "-z", "-m"]);
            let git =
                git.args(["--format=", "--no-ext-diff", "--exclude=refs/windlass/*", "--all"]);
            found.extend(texts(&git.arg("--").args(paths).output()?));
        }
        Ok(found)
    }

    /// Those of these files that a commit has. Paths are relative to the top of the work tree.
    ///
    /// # Errors
    /// [`GitError`], also if there is no such commit.
    pub fn files_of(
        &self,
        commit: &str,
        paths: &[&str],
    ) -> Result<BTreeMap<String, CommittedFile>, GitError> {
        let mut files = BTreeMap::new();
        for paths in portions(paths) {
            let git = self.read("list files of a commit");
            let git = git.args(["ls-tree", "-z", "--full-tree", commit, "--"]).args(paths);
            for record in git.output()?.split(|byte| *byte == 0) {
                let Some((facts, path)) = split_once(record, b'\t') else { continue };
                let facts: Vec<&[u8]> = facts.split(|byte| *byte == b' ').collect();
                if let [mode, b"blob", blob] = facts.as_slice() {
                    let blob = String::from_utf8_lossy(blob).into_owned();
                    let file = CommittedFile { blob, is_link: *mode == LINK };
                    files.insert(String::from_utf8_lossy(path).into_owned(), file);
                }
            }
        }
        Ok(files)
    }

    /// The contents of blobs, by their names; longer ones are left out.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn blobs(
        &self,
        names: &BTreeSet<&str>,
        bytes_max: u64,
    ) -> Result<BTreeMap<String, BlobContents>, GitError> {
        let operation = "read blobs";
        let lines =
            |names: &[&str]| names.iter().flat_map(|name| [*name, "\n"]).collect::<String>();
        let git = self.read(operation).args(["cat-file", "--batch-check"]);
        let names: Vec<&str> = names.iter().copied().collect();
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut portion = (Vec::new(), 0);
        let mut portions = Vec::new();
        for facts in texts_by(&git.stdin(lines(&names)).output()?, b'\n') {
            let [name, "blob", size] = facts.split(' ').collect::<Vec<_>>()[..] else { continue };
            let size: u64 = size.parse().unwrap_or(u64::MAX);
            if size > bytes_max {
                continue;
            }
            if portion.1 + size > PORTION_BYTES {
                portions.push(std::mem::take(&mut portion).0);
            }
            portion.1 += size;
            portion.0.push(name.to_owned());
        }
        portions.push(portion.0);
        let mut found = BTreeMap::new();
        for portion in portions.iter().filter(|portion| !portion.is_empty()) {
            let names: Vec<&str> = portion.iter().map(String::as_str).collect();
            let git = self.read(operation).args(["cat-file", "--batch"]);
            let listed = git.stdin(lines(&names)).output()?;
            let mut rest = listed.as_slice();
            while let Some((facts, after)) = split_once(rest, b'\n') {
                let facts = String::from_utf8_lossy(facts).into_owned();
                let size = facts.rsplit(' ').next().and_then(|size| size.parse().ok());
                let (Some(name), Some(size)) = (facts.split(' ').next(), size) else { break };
                let Some((bytes, after)) = after.split_at_checked(size) else { break };
                let target = std::str::from_utf8(bytes).ok().map(str::to_owned);
                let target = target.filter(|target| target.len() <= TARGET_BYTES_MAX);
                found.insert(name.to_owned(), BlobContents { digest: Digest::of(bytes), target });
                rest = after.strip_prefix(b"\n").unwrap_or(after);
            }
        }
        Ok(found)
    }

    /// The work trees of the repository besides the main one: where each is, and the name of its current commit. Nothing of
    /// them is read, only what the repository knows.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn linked_work_trees(&self) -> Result<Vec<(PathBuf, String)>, GitError> {
        let folder = self.common_dir()?.join("worktrees");
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let place = read_file(&entry.path().join("gitdir"), TARGET_BYTES_MAX as u64);
            let place = place.ok().and_then(|bytes| String::from_utf8(bytes).ok());
            if let (Some(place), Ok(id)) = (place, entry.file_name().into_string())
                && let Some(top) = Path::new(place.trim_end_matches('\n')).parent()
            {
                found.push((top.to_owned(), format!("worktrees/{id}/HEAD")));
            }
        }
        Ok(found)
    }
}

fn texts(bytes: &[u8]) -> impl Iterator<Item = String> + '_ {
    texts_by(bytes, 0)
}

fn texts_by(bytes: &[u8], end: u8) -> impl Iterator<Item = String> + '_ {
    let texts = bytes.split(move |byte| *byte == end).filter(|text| !text.is_empty());
    texts.map(|text| String::from_utf8_lossy(text).into_owned())
}
