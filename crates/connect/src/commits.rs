//! What the commits of a workspace's repository have, as the gate asks about them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_gate::{Asked, History, Mark, RelPath, Tips};
use windlass_workspace::{
    BlobContents, BroughtFile, CommittedFile, Git, GitCause, GitError, REMOVED,
};

/// The longest file that is compared with a commit.
const BYTES_MAX: u64 = 16 << 20;
/// What a person can do where it cannot be told what commits have brought.
const HINT: &str = "until this can be told, nothing counts as committed: remove the branches, or reset to the commits, that were \
                    there before the command";

/// The commits of the repository that a workspace belongs to.
#[derive(Debug)]
pub(crate) struct Commits {
    workspace: PathBuf,
    /// The repository, at the top of the work tree.
    git: Git,
    /// The path of the workspace below the top of the work tree.
    prefix: PathBuf,
    /// The files that commands do not see, relative to the top.
    hidden: Vec<String>,
    /// Those of them that commits of commands have brought.
    unseen: Mutex<BTreeSet<String>>,
}

/// Paths of one work tree: where each is in the workspace and in the tree, and what is there now.
type Paths<'a> = Vec<(&'a RelPath, String, Option<&'a Mark>)>;

impl Commits {
    pub fn new(workspace: &Path, top: Option<&Path>, hidden: Vec<String>) -> Self {
        let prefix = top.and_then(|top| workspace.strip_prefix(top).ok()).map(Path::to_owned);
        let git = Git::new(if prefix.is_some() { top.unwrap_or(workspace) } else { workspace });
        let (workspace, prefix) = (workspace.to_owned(), prefix.unwrap_or_default());
        Self { workspace, git, prefix, hidden, unseen: Mutex::default() }
    }

    /// The files that commands do not see and commits of them have brought all the same.
    pub fn unseen(&self) -> BTreeSet<String> {
        self.noted().clone()
    }

    fn noted(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.unseen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path in the workspace of one in the repository.
    fn in_workspace(&self, path: &str) -> Option<RelPath> {
        Path::new(path).strip_prefix(&self.prefix).ok().map(RelPath::from)
    }

    /// Those of these paths of one work tree at which there is what its current commit has.
    fn committed_in(
        &self,
        commit: &str,
        paths: &Paths<'_>,
        doubted: &BTreeSet<String>,
    ) -> Result<BTreeSet<RelPath>, GitError> {
        let names: Vec<&str> = paths.iter().map(|(_, path, _)| path.as_str()).collect();
        let files = self.git.files_of(commit, &names)?;
        let is_doubted = |path: &str, blob: &str| doubted.contains(&name_of(path, blob));
        let there = |(_, path, _): &&(&RelPath, String, Option<&Mark>)| files.get(path);
        let blobs: BTreeSet<&str> =
            paths.iter().filter_map(|path| there(&path)).map(|file| file.blob.as_str()).collect();
        let blobs = self.git.blobs(&blobs, BYTES_MAX)?;
        let removed: Vec<&str> = paths
            .iter()
            .filter(|(_, path, mark)| mark.is_none() && !files.contains_key(path))
            .map(|(_, path, _)| path.as_str())
            .collect();
        // What no commit ever had is a person's own, and not for git to remove.
        let removed = self.git.ever_committed(&removed)?;
        let has =
            |(_, path, mark): &&(&RelPath, String, Option<&Mark>)| match (mark, files.get(path)) {
                (None, None) => removed.contains(path) && !is_doubted(path, REMOVED),
                (Some(mark), Some(file)) => {
                    blobs.get(&file.blob).is_some_and(|blob| is_of(mark, file, blob))
                        && !is_doubted(path, &file.blob)
                }
                (None, Some(_)) | (Some(_), None) => false,
            };
        Ok(paths.iter().filter(has).map(|(path, ..)| (*path).clone()).collect())
    }
}

/// Whether something in the work tree is a file of a commit.
fn is_of(mark: &Mark, file: &CommittedFile, blob: &BlobContents) -> bool {
    match mark {
        Mark::File { digest, .. } => !file.is_link && *digest == blob.digest,
        Mark::Link { target, .. } => file.is_link && Some(target) == blob.target.as_ref(),
        Mark::Special(_) | Mark::Unreadable | Mark::Foreign | Mark::Folder { .. } => false,
    }
}

impl History for Commits {
    fn brought(
        &self,
        tips: &Tips,
        is_asked: &dyn Fn(&RelPath) -> bool,
    ) -> io::Result<BTreeSet<String>> {
        let fail = |error: GitError| io::Error::other(format!("{error}; {HINT}"));
        let brought = match self.git.brought(tips) {
            // Where there is no repository any more, there are no commits.
            Err(GitError { cause: GitCause::NotARepository(_), .. }) => return Ok(BTreeSet::new()),
            brought => brought.map_err(fail)?,
        };
        let unseen = brought.iter().filter(|file| self.hidden.contains(&file.path));
        self.noted().extend(unseen.map(|file| file.path.clone()));
        let mut new: BTreeSet<&BroughtFile> = brought
            .iter()
            .filter(|file| {
                file.is_link
                    || is_asked(&RelPath::from(file.path.as_str()))
                    || self.in_workspace(&file.path).is_some_and(|path| is_asked(&path))
            })
            .collect();
        if !new.is_empty() {
            let known = self.git.had(tips, &new).map_err(fail)?;
            new.retain(|file| !known.contains(&(file.path.clone(), file.blob.clone())));
        }
        Ok(new.into_iter().map(|file| name_of(&file.path, &file.blob)).collect())
    }

    fn committed(&self, asked: &[Asked<'_>], doubted: &BTreeSet<String>) -> BTreeSet<RelPath> {
        let trees = self.git.linked_work_trees().unwrap_or_default();
        let mut paths: BTreeMap<&str, Paths<'_>> = BTreeMap::new();
        for (path, mark) in asked {
            let full = self.workspace.join(path.as_path());
            let trees = trees.iter().filter(|(top, _)| {
                top != &self.workspace && top.starts_with(&self.workspace) && full.starts_with(top)
            });
            let tree = trees.max_by_key(|(top, _)| top.components().count());
            let (commit, inside) = match tree {
                Some((top, commit)) => (commit.as_str(), full.strip_prefix(top).ok()),
                None => ("HEAD", None),
            };
            let inside = inside.map_or_else(|| self.prefix.join(path.as_path()), Path::to_owned);
            // What is no text is compared with nothing.
            if let Some(inside) = inside.to_str() {
                paths.entry(commit).or_default().push((path, inside.to_owned(), *mark));
            }
        }
        // What cannot be told is not committed.
        let committed = |commit: &str, paths: &Paths<'_>| {
            self.committed_in(commit, paths, doubted).unwrap_or_default()
        };
        paths.iter().flat_map(|(commit, paths)| committed(commit, paths)).collect()
    }

    fn present(
        &self,
        names: &BTreeSet<String>,
        marks: &BTreeMap<RelPath, Mark>,
    ) -> BTreeSet<String> {
        let named = names.iter().filter_map(|name| {
            let (blob, path) = name.split_once(' ')?;
            Some((name, blob, marks.get(&self.in_workspace(path)?)))
        });
        let named: Vec<(&String, &str, Option<&Mark>)> = named.collect();
        let blobs = named.iter().filter(|(_, _, mark)| mark.is_some()).map(|(_, blob, _)| *blob);
        let blobs: BTreeSet<&str> = blobs.filter(|blob| *blob != REMOVED).collect();
        let blobs = self.git.blobs(&blobs, BYTES_MAX).unwrap_or_default();
        let is_there =
            |(_, blob, mark): &&(&String, &str, Option<&Mark>)| match (mark, blobs.get(*blob)) {
                (None, None) => *blob == REMOVED,
                (Some(mark), Some(contents)) => [false, true].into_iter().any(|is_link| {
                    is_of(mark, &CommittedFile { blob: String::new(), is_link }, contents)
                }),
                (None, Some(_)) | (Some(_), None) => false,
            };
        named.iter().filter(is_there).map(|(name, ..)| (*name).clone()).collect()
    }
}

fn name_of(path: &str, blob: &str) -> String {
    format!("{blob} {path}")
}
