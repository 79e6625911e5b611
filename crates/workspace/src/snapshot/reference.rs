//! References: the names under which snapshots are kept.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::borrowed::BASES;
use super::{SnapshotError, Snapshots};
use crate::git::{Access, Invocation, split_once};
use crate::{GitError, TreeId};

/// The prefix of every reference's ref, in the private git directory, and of the few refs that the user's repository has.
pub const SNAPSHOT_REFS: &str = "refs/windlass/";
const LIST: &str = "list the snapshots";
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
        let name = ref_name(reference)?;
        let lock = self.lock_objects()?;
        self.update_ref(&name, tree)?;
        drop(lock);
        self.pack_if_many(reference);
        Ok(())
    }

    /// Sets several references of one folder at once.
    pub(super) fn set_references(&self, all: &[(&str, &TreeId)]) -> Result<(), SnapshotError> {
        let mut input = String::new();
        for (reference, tree) in all {
            input += &format!("update {} {tree}\n", ref_name(reference)?);
        }
        let lock = self.lock_objects()?;
        let git = self.refs_git("set the references", Access::Write);
        git.args(["update-ref", "--no-deref", "--stdin"]).stdin(input).output()?;
        drop(lock);
        if let Some((reference, _)) = all.first() {
            self.pack_if_many(reference);
        }
        Ok(())
    }

    /// Deletes references. One that does not exist or cannot be read is left out: git cannot delete it.
    /// [`Snapshots::free_space`] frees the space of the snapshots.
    ///
    /// # Errors
    /// [`SnapshotError`]; what was deleted by then stays deleted.
    pub fn delete_references(&self, references: &[String]) -> Result<(), SnapshotError> {
        let operation = "delete the references";
        let own = self.own_references(SNAPSHOT_REFS)?;
        let users = self.users_references()?;
        let mut inputs = [String::new(), String::new()];
        for (readable, input) in [&own, &users].into_iter().zip(&mut inputs) {
            let readable: BTreeSet<&String> = readable.iter().map(|(name, _)| name).collect();
            for reference in references.iter().filter(|reference| readable.contains(reference)) {
                *input += &format!("delete {}\n", ref_name(reference)?);
            }
        }
        let words = ["update-ref", "--no-deref", "--stdin"];
        let [own, users] = inputs;
        if !own.is_empty() {
            self.refs_git(operation, Access::Write).args(words).stdin(own).output()?;
        }
        if !users.is_empty() {
            self.users_git(operation, Access::Write)?.args(words).stdin(users).output()?;
        }
        self.sweep_extras()
    }

    /// Lists the references with their snapshots, sorted by name, and commits that are kept in the user's repository. A
    /// reference that cannot be read is not listed; [`Snapshots::check`] reports it.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn references(&self) -> Result<Vec<(String, TreeId)>, SnapshotError> {
        let mut all = self.own_references(SNAPSHOT_REFS)?;
        all.extend(self.users_references()?);
        // Ours come first.
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all.dedup_by(|(one, _), (other, _)| one == other);
        Ok(all)
    }

    /// Lists the references in the private git directory whose refs begin with a folder.
    pub(super) fn own_references(
        &self,
        folder: &str,
    ) -> Result<Vec<(String, TreeId)>, SnapshotError> {
        list(self.refs_git(LIST, Access::Read), folder)
    }

    /// Lists the references in the user's repository: to commits that no branch has yet, and to snapshots of earlier
    /// versions and other projects.
    pub(super) fn users_references(&self) -> Result<Vec<(String, TreeId)>, SnapshotError> {
        if self.repository.common_dir.is_none() {
            return Ok(Vec::new());
        }
        let mut found = list(self.users_git(LIST, Access::Read)?, SNAPSHOT_REFS)?;
        found.retain(|(name, _)| !name.starts_with(BASES));
        Ok(found)
    }

    /// Lists the names of all references, also of those that cannot be read.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn reference_names(&self) -> Result<BTreeSet<String>, SnapshotError> {
        let readable = self.references()?.into_iter().map(|(name, _)| name);
        Ok(readable.chain(self.reference_files()).collect())
    }

    /// Lists the names of the references in a folder, also of those that cannot be read. Others are not looked at, nor are
    /// those in the user's repository if there is one among the snapshots' own.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn reference_names_in(&self, folder: &str) -> Result<BTreeSet<String>, SnapshotError> {
        let (refs, below) = (format!("{}/", ref_name(folder)?), format!("{folder}/"));
        let mut found = self.own_references(&refs)?;
        let mut names: BTreeSet<String> =
            reference_files(&self.private, &below).into_iter().collect();
        if (self.has_earlier() || found.is_empty() && names.is_empty())
            && let Some(common) = &self.repository.common_dir
        {
            found.extend(list(self.users_git(LIST, Access::Read)?, &refs)?);
            names.extend(reference_files(common, &below));
        }
        names.extend(found.into_iter().map(|(name, _)| name));
        Ok(names)
    }

    /// The names of all ref files, readable or not.
    pub(super) fn reference_files(&self) -> Vec<String> {
        let mut found = reference_files(&self.private, "");
        if let Some(common) = &self.repository.common_dir {
            let users = reference_files(common, "");
            found.extend(users.into_iter().filter(|name| !name.starts_with(BASES)));
        }
        found.sort();
        found.dedup();
        found
    }

    /// Sets a ref to a snapshot.
    pub(super) fn update_ref(&self, ref_name: &str, tree: &TreeId) -> Result<(), SnapshotError> {
        let git = self.refs_git("set the reference", Access::Write);
        git.args(["update-ref", "--no-deref", ref_name, tree.as_str()]).output()?;
        Ok(())
    }

    /// A git invocation on the refs in the private git directory. What is set is on the disk, and the objects with it.
    pub(super) fn refs_git(&self, operation: &'static str, access: Access) -> Invocation<'_> {
        self.objects_git(operation, access).args(["-c", "core.fsyncMethod=fsync"])
    }
}

/// Lists refs that begin with a folder.
fn list(git: Invocation<'_>, folder: &str) -> Result<Vec<(String, TreeId)>, SnapshotError> {
    let git = git.args(["for-each-ref", "--format=%(refname) %(objectname)", folder]);
    let bytes = git.output()?;
    let read = |line: &[u8]| {
        let (name, id) = split_once(line, b' ')?;
        let name = std::str::from_utf8(name).ok()?.strip_prefix(SNAPSHOT_REFS)?.to_owned();
        Some((name, std::str::from_utf8(id).ok()?.parse().ok()?))
    };
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let all: Option<Vec<_>> = lines.map(read).collect();
    Ok(all.ok_or_else(|| GitError::unexpected(LIST, &bytes))?)
}

/// The names of the ref files of a git directory in a folder, which ends with a slash unless it is the one of all.
fn reference_files(git_dir: &Path, below: &str) -> Vec<String> {
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
    walk(&git_dir.join(SNAPSHOT_REFS).join(below), below, &mut found);
    found
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
