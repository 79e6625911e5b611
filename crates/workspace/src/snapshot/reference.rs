//! The names that keep snapshots.

use std::fs;
use std::path::Path;

use super::{SnapshotError, Snapshots};
use crate::git::{Invocation, Kind, split_once};
use crate::{GitError, TreeId};

/// Below which every name is.
pub const SNAPSHOT_REFS: &str = "refs/windlass/";
/// Of a name.
const NAME_BYTES_MAX: usize = 200;

/// The full name of a ref, from letters, digits, `-`, `_`, `.` and `/` that git takes as they are.
pub(super) fn full(name: &str) -> Result<String, SnapshotError> {
    let part = |part: &str| {
        !part.is_empty()
            && !part.starts_with(['.', '-'])
            && !part.ends_with('.')
            && !part.ends_with(".lock")
            && !part.contains("..")
            && part.chars().all(|character| {
                character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.')
            })
    };
    if name.len() <= NAME_BYTES_MAX && name.split('/').all(part) {
        Ok(format!("{SNAPSHOT_REFS}{name}"))
    } else {
        Err(SnapshotError::Reference(name.to_owned()))
    }
}

impl Snapshots {
    /// Keeps a snapshot under a name, in place of what it named before.
    ///
    /// # Errors
    /// [`SnapshotError`], also when there is no such snapshot.
    pub fn keep(&self, tree: &TreeId, reference: &str) -> Result<(), SnapshotError> {
        self.point(&full(reference)?, tree)
    }

    /// Lets the snapshot of a name go; one that is not kept is no error. Git frees its space when it
    /// next cleans up.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn forget(&self, reference: &str) -> Result<(), SnapshotError> {
        let git = self.refs_git("forget the snapshot", Kind::Write);
        git.args(["update-ref", "--no-deref", "-d", &full(reference)?]).output()?;
        Ok(())
    }

    /// Lists the names with their snapshots, in the order of names. A name that cannot be read is not
    /// among them; [`Snapshots::check`] reports it.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn references(&self) -> Result<Vec<(String, TreeId)>, SnapshotError> {
        let operation = "list the snapshots";
        let bytes = self
            .refs_git(operation, Kind::Read)
            .args(["for-each-ref", "--format=%(refname) %(objectname)", SNAPSHOT_REFS])
            .output()?;
        let read = |line: &[u8]| {
            let (name, id) = split_once(line, b' ')?;
            let name = std::str::from_utf8(name).ok()?.strip_prefix(SNAPSHOT_REFS)?.to_owned();
            Some((name, std::str::from_utf8(id).ok()?.parse().ok()?))
        };
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let all: Option<Vec<_>> = lines.map(read).collect();
        Ok(all.ok_or_else(|| GitError::unexpected(operation, &bytes))?)
    }

    /// Names that are there as files, readable or not.
    pub(super) fn reference_files(&self) -> Vec<String> {
        fn walk(folder: &Path, name: &str, found: &mut Vec<String>) {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let inner = format!("{name}{}", entry.file_name().to_string_lossy());
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    walk(&entry.path(), &format!("{inner}/"), found);
                } else if !inner.ends_with(".lock") {
                    found.push(inner);
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.home.refs(&self.private).join(SNAPSHOT_REFS), "", &mut found);
        found.sort();
        found
    }

    /// Points a ref at a snapshot.
    pub(super) fn point(&self, full: &str, tree: &TreeId) -> Result<(), SnapshotError> {
        let git = self.refs_git("keep the snapshot", Kind::Write);
        git.args(["update-ref", "--no-deref", full, tree.as_str()]).output()?;
        Ok(())
    }

    /// A start of git on the repository that has the refs. Its settings count: they say how refs are
    /// stored.
    fn refs_git(&self, operation: &'static str, kind: Kind) -> Invocation<'_> {
        let directory = self.home.refs(&self.private);
        Invocation::new(operation, directory, kind).env("GIT_DIR", directory).args([
            "-c",
            "core.logAllRefUpdates=false",
            "-c",
            "core.fsync=objects,reference",
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_taken() {
        assert_eq!(full("run-1/pre_2.3").unwrap(), "refs/windlass/run-1/pre_2.3");
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for bad in [
            "", "/", "a/", "/a", "a//b", "..", "a..b", ".a", "a.", "a.lock", "-a", "a b", "é",
            &long,
        ] {
            assert_eq!(full(bad), Err(SnapshotError::Reference(bad.to_owned())), "{bad}");
        }
    }
}
