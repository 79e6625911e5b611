//! Merging snapshots.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::{SnapshotError, Snapshots, home};
use crate::git::{GitCause, Kind, id_of, path_of};
use crate::{CommitId, GitError, TreeId};

const OPERATION: &str = "merge the snapshots";
/// What the sides are called in conflict markers.
const SIDES: [&str; 2] = ["ours", "theirs"];

/// What came of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// Both sides' changes fit together.
    Clean(TreeId),
    /// They do not.
    Conflict {
        /// A tree that has conflict markers where they do not.
        tree_with_markers: TreeId,
        /// The paths in conflict.
        paths: Vec<PathBuf>,
        /// What git says about them.
        messages: Vec<String>,
    },
}

impl Snapshots {
    /// Merges what two snapshots changed since a third. The same three always give the same; no ref
    /// and no workspace changes. Needs git 2.38.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn merge(
        &self,
        base: &TreeId,
        ours: &TreeId,
        theirs: &TreeId,
    ) -> Result<Merged, SnapshotError> {
        let fail = |error: std::io::Error| SnapshotError::file(OPERATION, &self.private, &error);
        // A git directory for this merge alone, in which the sides have names that a person can read.
        let folder = TempDir::with_prefix_in("merge-", &self.private).map_err(fail)?;
        home::fill(folder.path(), &self.home).map_err(fail)?;
        let start = self.commit(base, None)?;
        for (name, tree) in SIDES.into_iter().zip([ours, theirs]) {
            let commit = self.commit(tree, Some(&start))?;
            let path = folder.path().join("refs/heads").join(name);
            fs::write(path, format!("{commit}\n")).map_err(fail)?;
        }
        let said = self
            .git(OPERATION, Kind::Write, folder.path(), folder.path())
            .args(["merge-tree", "--write-tree", "-z", "--name-only", "--messages"])
            .args(SIDES)
            .run()?;
        match said.code {
            Some(0) => match read_merge(&said.stdout) {
                Some(Conflict { tree, .. }) => Ok(Merged::Clean(tree)),
                None => Err(GitError::unexpected(OPERATION, &said.stdout).into()),
            },
            Some(1) => match read_merge(&said.stdout) {
                Some(Conflict { tree, paths, messages }) if !paths.is_empty() => {
                    Ok(Merged::Conflict { tree_with_markers: tree, paths, messages })
                }
                Some(_) | None => Err(GitError::unexpected(OPERATION, &said.stdout).into()),
            },
            Some(_) | None => {
                Err(self.damage(&[base, ours, theirs], said.failure(OPERATION, &self.private)))
            }
        }
    }

    /// Wraps a tree in a commit that depends on nothing else.
    fn commit(&self, tree: &TreeId, parent: Option<&CommitId>) -> Result<CommitId, SnapshotError> {
        let mut git = self.objects_git(OPERATION, Kind::Write);
        for role in ["AUTHOR", "COMMITTER"] {
            git = git
                .env(&format!("GIT_{role}_NAME"), "windlass")
                .env(&format!("GIT_{role}_EMAIL"), "")
                .env(&format!("GIT_{role}_DATE"), "@0 +0000");
        }
        git = git.args(["commit-tree", "--no-gpg-sign", tree.as_str(), "-m", "snapshot"]);
        if let Some(parent) = parent {
            git = git.args(["-p", parent.as_str()]);
        }
        match git.output() {
            Ok(bytes) => Ok(id_of(OPERATION, &bytes)?),
            Err(error) if matches!(error.cause, GitCause::Exit { .. }) => {
                Err(self.damage(&[tree], error))
            }
            Err(error) => Err(error.into()),
        }
    }
}

struct Conflict {
    tree: TreeId,
    paths: Vec<PathBuf>,
    messages: Vec<String>,
}

/// Reads `tree NUL (path NUL)* NUL (count NUL (path NUL){count} kind NUL message NUL)*`; the second
/// part is missing where there is nothing to say.
fn read_merge(bytes: &[u8]) -> Option<Conflict> {
    let mut fields = bytes.strip_suffix(b"\0")?.split(|byte| *byte == 0);
    let tree = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let paths = fields.by_ref().take_while(|path| !path.is_empty()).map(path_of).collect();
    let mut messages = Vec::new();
    while let Some(count) = fields.next() {
        let count: usize = std::str::from_utf8(count).ok()?.parse().ok()?;
        let text = fields.by_ref().nth(count.checked_add(1)?)?;
        messages.push(windlass_connect::one_line(&String::from_utf8_lossy(text)));
    }
    Some(Conflict { tree, paths, messages })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_are_read_or_refused() {
        let tree = "a".repeat(40);
        let read = |text: &str| {
            read_merge(text.as_bytes()).map(|merge| (merge.paths.len(), merge.messages))
        };
        assert_eq!(read(&format!("{tree}\0")), Some((0, Vec::new())));
        let said = vec!["CONFLICT (content): in a".to_owned()];
        let full = format!("{tree}\0a\0b\n\0\x001\0a\0CONFLICT (contents)\0{}\n\0", said[0]);
        assert_eq!(read(&full), Some((2, said)));
        for bad in [String::new(), tree.clone(), format!("{tree}\0a\0\x002\0a\0b\0")] {
            assert_eq!(read(&bad), None, "{bad:?}");
        }
    }
}
