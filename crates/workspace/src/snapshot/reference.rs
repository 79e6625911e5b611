//! References: the names under which snapshots are kept.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{SnapshotError, Snapshots};
use crate::git::{Access, Invocation, split_once};
use crate::{GitError, TreeId};

/// The prefix of every reference's ref.
pub const SNAPSHOT_REFS: &str = "refs/windlass/";
/// The limit of a name.
const NAME_BYTES_MAX: usize = 200;

/// The ref of a name, which may have letters, digits, `-`, `_`, `.` and `/`.
pub(super) fn ref_name(name: &str) -> Result<String, SnapshotError> {
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
    /// Sets a reference to a snapshot; a reference that exists is moved.
    ///
    /// # Errors
    /// [`SnapshotError`], also when there is no such snapshot.
    pub fn set_reference(&self, tree: &TreeId, reference: &str) -> Result<(), SnapshotError> {
        self.update_ref(&ref_name(reference)?, tree)
    }

    /// Deletes references. One that does not exist or cannot be read is left out: git cannot delete it. Git
    /// frees the space of the snapshots at its next garbage collection.
    ///
    /// # Errors
    /// [`SnapshotError`]; then none is deleted.
    pub fn delete_references(&self, references: &[String]) -> Result<(), SnapshotError> {
        let readable: BTreeSet<String> =
            self.references()?.into_iter().map(|(name, _)| name).collect();
        let mut input = String::new();
        for reference in references.iter().filter(|reference| readable.contains(*reference)) {
            input += "delete ";
            input += &ref_name(reference)?;
            input.push('\n');
        }
        if input.is_empty() {
            return Ok(());
        }
        let git = self.refs_git("delete the references", Access::Write);
        git.args(["update-ref", "--no-deref", "--stdin"]).stdin(input).output()?;
        self.sweep_extras()
    }

    /// Lists the references with their snapshots, sorted by name. A reference that cannot be read is not
    /// listed; [`Snapshots::check`] reports it.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn references(&self) -> Result<Vec<(String, TreeId)>, SnapshotError> {
        self.references_below(SNAPSHOT_REFS)
    }

    /// Lists the references whose refs begin with a folder.
    fn references_below(&self, folder: &str) -> Result<Vec<(String, TreeId)>, SnapshotError> {
        let operation = "list the snapshots";
        let bytes = self
            .refs_git(operation, Access::Read)
            .args(["for-each-ref", "--format=%(refname) %(objectname)", folder])
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

    /// Lists the names of all references, also of those that cannot be read.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn reference_names(&self) -> Result<BTreeSet<String>, SnapshotError> {
        let readable = self.references()?.into_iter().map(|(name, _)| name);
        Ok(readable.chain(self.reference_files()).collect())
    }

    /// Lists the names of the references in a folder, also of those that cannot be read. Others are not looked at.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn reference_names_in(&self, folder: &str) -> Result<BTreeSet<String>, SnapshotError> {
        let refs = format!("{}/", ref_name(folder)?);
        let readable = self.references_below(&refs)?.into_iter().map(|(name, _)| name);
        Ok(readable.chain(self.reference_files_below(&format!("{folder}/"))).collect())
    }

    /// The names of all ref files, readable or not.
    pub(super) fn reference_files(&self) -> Vec<String> {
        self.reference_files_below("")
    }

    /// The names of the ref files in a folder, which ends with a slash unless it is the one of all.
    fn reference_files_below(&self, below: &str) -> Vec<String> {
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
        let refs = self.repository.refs(&self.private).join(SNAPSHOT_REFS);
        walk(&refs.join(below), below, &mut found);
        found.sort();
        found
    }

    /// Sets a ref to a snapshot.
    pub(super) fn update_ref(&self, ref_name: &str, tree: &TreeId) -> Result<(), SnapshotError> {
        let git = self.refs_git("set the reference", Access::Write);
        git.args(["update-ref", "--no-deref", ref_name, tree.as_str()]).output()?;
        Ok(())
    }

    /// Deletes a ref, also one to an object that does not exist.
    pub(super) fn delete_ref(&self, ref_name: &str) -> Result<(), SnapshotError> {
        let git = self.refs_git("delete the reference", Access::Write);
        git.args(["update-ref", "--no-deref", "-d", ref_name]).output()?;
        Ok(())
    }

    /// A git invocation on the repository that has the refs. Its settings apply: they say how refs are
    /// stored.
    fn refs_git(&self, operation: &'static str, access: Access) -> Invocation<'_> {
        let directory = self.repository.refs(&self.private);
        Invocation::new(operation, directory, access).env("GIT_DIR", directory).args([
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
    fn only_plain_names_are_accepted() {
        assert_eq!(ref_name("run-1/pre_2.3").unwrap(), "refs/windlass/run-1/pre_2.3");
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for bad in [
            "", "/", "a/", "/a", "a//b", "..", "a..b", ".a", "a.", "a.lock", "-a", "a b", "é",
            &long,
        ] {
            assert_eq!(ref_name(bad), Err(SnapshotError::Reference(bad.to_owned())), "{bad}");
        }
    }
}
