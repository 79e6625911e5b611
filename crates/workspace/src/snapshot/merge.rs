//! Merges snapshots.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::extras::Extras;
use super::{SnapshotError, Snapshots, repository};
use crate::git::{Access, GitCause, id_of, path_of};
use crate::{CommitId, GitError, TreeId};

const OPERATION: &str = "merge the snapshots";
/// The names of the sides in conflict markers.
const SIDES: [&str; 2] = ["ours", "theirs"];

/// The result of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// The changes of both sides were merged.
    Clean(TreeId),
    /// Some changes conflict.
    Conflict {
        /// The merged tree, with conflict markers.
        tree_with_markers: TreeId,
        /// The paths in conflict.
        paths: Vec<PathBuf>,
        /// Git's messages about them.
        messages: Vec<String>,
    },
}

/// Whether a merge looks for renamed files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renames {
    Follow,
    Ignore,
}

impl Renames {
    /// The setting of git.
    const fn setting(self) -> &'static str {
        match self {
            Self::Follow => "merge.renames=true",
            Self::Ignore => "merge.renames=false",
        }
    }
}

impl Snapshots {
    /// Merges the changes of two snapshots since a third, deterministically; no ref and no workspace
    /// changes. Needs git 2.38.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn merge(
        &self,
        base: &TreeId,
        ours: &TreeId,
        theirs: &TreeId,
    ) -> Result<Merged, SnapshotError> {
        self.merge_with(base, ours, theirs, Renames::Follow)
    }

    /// As [`Self::merge`]; without renames every path is merged for itself.
    pub(super) fn merge_with(
        &self,
        base: &TreeId,
        ours: &TreeId,
        theirs: &TreeId,
        renames: Renames,
    ) -> Result<Merged, SnapshotError> {
        let fail = |error: std::io::Error| SnapshotError::file(OPERATION, &self.private, &error);
        let _objects = self.lock_objects()?;
        // A git directory for this merge alone, in which the sides have readable names.
        let folder = TempDir::with_prefix_in("merge-", &self.private).map_err(fail)?;
        repository::init_git_dir(folder.path(), &self.repository).map_err(fail)?;
        let sides = [self.contents(ours)?, self.contents(theirs)?];
        let origin = self.contents(base)?;
        let start = self.commit(&origin.tree, None)?;
        for (name, side) in SIDES.into_iter().zip(&sides) {
            let commit = self.commit(&side.tree, Some(&start))?;
            let path = folder.path().join("refs/heads").join(name);
            fs::write(path, format!("{commit}\n")).map_err(fail)?;
        }
        let output = self
            .git(OPERATION, Access::Write, folder.path(), folder.path())
            .args(["-c", renames.setting()])
            .args(["merge-tree", "--write-tree", "-z", "--name-only", "--messages"])
            .args(SIDES)
            .run()?;
        let [ours_had, theirs_had] = &sides;
        let extras = || Extras::merge(&origin.extras, &ours_had.extras, &theirs_had.extras);
        match output.code {
            Some(0) => match parse_merge(&output.stdout) {
                Some(MergeOutput { tree, .. }) => {
                    let tree = self.write_fitting(tree, extras())?;
                    self.keep_derived(ours, &tree)?;
                    Ok(Merged::Clean(tree))
                }
                None => Err(GitError::unexpected(OPERATION, &output.stdout).into()),
            },
            Some(1) => match parse_merge(&output.stdout) {
                Some(MergeOutput { tree, paths, messages }) if !paths.is_empty() => {
                    let tree_with_markers = self.write_fitting(tree, extras())?;
                    self.keep_derived(ours, &tree_with_markers)?;
                    Ok(Merged::Conflict { tree_with_markers, paths, messages })
                }
                Some(_) | None => Err(GitError::unexpected(OPERATION, &output.stdout).into()),
            },
            Some(_) | None => {
                Err(self.explain(&[base, ours, theirs], output.failure(OPERATION, &self.private)))
            }
        }
    }

    /// Wraps a tree in a commit with a fixed author and date, so that the same tree gives the same commit.
    fn commit(&self, tree: &TreeId, parent: Option<&CommitId>) -> Result<CommitId, SnapshotError> {
        let mut git = self.objects_git(OPERATION, Access::Write);
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
                Err(self.explain(&[tree], error))
            }
            Err(error) => Err(error.into()),
        }
    }
}

struct MergeOutput {
    tree: TreeId,
    paths: Vec<PathBuf>,
    messages: Vec<String>,
}

/// Reads `tree NUL (path NUL)* NUL (count NUL (path NUL){count} kind NUL message NUL)*`; the second
/// part is missing when there are no messages.
fn parse_merge(bytes: &[u8]) -> Option<MergeOutput> {
    let mut fields = bytes.strip_suffix(b"\0")?.split(|byte| *byte == 0);
    let tree = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let paths = fields.by_ref().take_while(|path| !path.is_empty()).map(path_of).collect();
    let mut messages = Vec::new();
    while let Some(count) = fields.next() {
        let count: usize = std::str::from_utf8(count).ok()?.parse().ok()?;
        let text = fields.by_ref().nth(count.checked_add(1)?)?;
        messages.push(windlass_cell::one_line(&String::from_utf8_lossy(text)));
    }
    Some(MergeOutput { tree, paths, messages })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_are_parsed_or_refused() {
        let tree = "a".repeat(40);
        let read = |text: &str| {
            parse_merge(text.as_bytes()).map(|merge| (merge.paths.len(), merge.messages))
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
