//! What is different between two snapshots.

use std::path::{Component, Path, PathBuf};

use super::capture::records;
use super::{Entry, EntryMode, SnapshotError, Snapshots};
use crate::git::{Kind, path_of, split_once};
use crate::{GitError, TreeId};

/// Files larger than this are not compared by lines.
const TEXT_BYTES_MAX: &str = "core.bigFileThreshold=4m";

/// A path that is not the same in two snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathChange {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// How it is different.
    pub kind: ChangeKind,
    /// What was there.
    pub before: Option<Entry>,
    /// What is there.
    pub after: Option<Entry>,
}

/// How a path is different.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was not there.
    Added,
    /// It is gone.
    Removed,
    /// Its content is different; its mode may be too.
    Modified,
    /// It is another kind of thing: a file, a symbolic link or a nested repository.
    TypeChanged,
    /// Only whether it can be executed is different.
    ModeChanged,
}

/// A difference as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextDiff {
    /// A unified diff; of binary and very large files it says only that they differ.
    pub bytes: Vec<u8>,
    /// Whether the limit cut it off.
    pub truncated: bool,
}

impl Snapshots {
    /// Lists what is different between two snapshots, in git's order. A renamed file is one that is
    /// gone and one that is new.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn changes(&self, from: &TreeId, to: &TreeId) -> Result<Vec<PathChange>, SnapshotError> {
        let operation = "compare the snapshots";
        if from == to {
            return Ok(Vec::new());
        }
        let bytes = self
            .objects_git(operation, Kind::Read)
            .args(["diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames"])
            .args(["--ignore-submodules=none", from.as_str(), to.as_str()])
            .output()
            .map_err(|error| self.damage(&[from, to], error))?;
        let mut changes =
            read_changes(&bytes).ok_or_else(|| GitError::unexpected(operation, &bytes))?;
        self.add_sizes(&mut changes)?;
        Ok(changes)
    }

    /// Fills in the sizes of all contents.
    fn add_sizes(&self, changes: &mut [PathChange]) -> Result<(), SnapshotError> {
        let operation = "read the sizes";
        let mut entries: Vec<&mut Entry> = changes
            .iter_mut()
            .flat_map(|change| change.before.iter_mut().chain(&mut change.after))
            .filter(|entry| entry.mode != EntryMode::Nested)
            .collect();
        if entries.is_empty() {
            return Ok(());
        }
        let input: String = entries.iter().map(|entry| format!("{}\n", entry.object)).collect();
        let git = self.objects_git(operation, Kind::Read);
        let git = git.args(["cat-file", "--batch-check=%(objectsize)"]);
        let bytes = git.stdin(input).output()?;
        let unexpected = || GitError::unexpected(operation, &bytes);
        let text = std::str::from_utf8(&bytes).map_err(|_| unexpected())?;
        let mut lines = text.lines();
        for entry in &mut entries {
            // A missing one is answered with its name and a word.
            entry.size = lines.next().ok_or_else(unexpected)?.parse().ok();
        }
        Ok(())
    }

    /// Writes the difference between two snapshots as a unified diff of at most `bytes_max` bytes; of
    /// the given paths and what is below them only, or of all when there are none.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn text_diff(
        &self,
        from: &TreeId,
        to: &TreeId,
        paths: &[&Path],
        bytes_max: usize,
    ) -> Result<TextDiff, SnapshotError> {
        let (bytes, truncated) = self
            .objects_git("write the difference", Kind::Read)
            .args(["-c", TEXT_BYTES_MAX, "diff-tree", "-r", "-p", "--full-index", "--no-renames"])
            .args(["--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none"])
            .args(["--submodule=short", "--src-prefix=a/", "--dst-prefix=b/"])
            .args(["--diff-algorithm=histogram", from.as_str(), to.as_str(), "--"])
            .args(paths)
            .beginning(bytes_max)
            .map_err(|error| self.damage(&[from, to], error))?;
        Ok(TextDiff { bytes, truncated })
    }

    /// Reads a file of a snapshot; of a symbolic link, where it leads. What is no file is nothing.
    ///
    /// # Errors
    /// [`SnapshotError`], also when it has more than `bytes_max` bytes.
    pub fn read(
        &self,
        tree: &TreeId,
        path: &Path,
        bytes_max: usize,
    ) -> Result<Option<Vec<u8>>, SnapshotError> {
        let operation = "read the snapshot";
        let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        let path: PathBuf = path.components().collect();
        if !plain || path.as_os_str().is_empty() {
            return Ok(None);
        }
        let git = self.objects_git(operation, Kind::Read);
        let git = git.args(["ls-tree", "-z", "--full-tree", tree.as_str(), "--"]).arg(&path);
        let listed = git.output().map_err(|error| self.damage(&[tree], error))?;
        let Some(record) = records(&listed).next() else { return Ok(None) };
        let unexpected = || GitError::unexpected(operation, &listed);
        let (facts, _) = split_once(record, b'\t').ok_or_else(unexpected)?;
        let facts = std::str::from_utf8(facts).map_err(|_| unexpected())?;
        let mut facts = facts.split(' ').skip(1);
        let (Some("blob"), Some(id)) = (facts.next(), facts.next()) else { return Ok(None) };
        let mut objects = super::objects::Objects::new(self);
        match objects.bytes(id, bytes_max) {
            Ok(Some(bytes)) => Ok(Some(bytes)),
            Ok(None) => Err(SnapshotError::Corrupt { tree: tree.clone(), object: id.to_owned() }),
            Err(super::objects::Trouble::Git(error)) => Err(error.into()),
            Err(super::objects::Trouble::Sink(error)) => {
                Err(SnapshotError::file(operation, &path, &error))
            }
        }
    }
}

/// Reads `:mode mode id id status NUL path NUL` records; `None` for anything that is not that.
fn read_changes(bytes: &[u8]) -> Option<Vec<PathChange>> {
    let mut changes = Vec::new();
    let mut fields = records(bytes);
    while let Some(facts) = fields.next() {
        let path = path_of(fields.next()?);
        let facts = std::str::from_utf8(facts.strip_prefix(b":")?).ok()?;
        let facts: Vec<&str> = facts.split(' ').collect();
        let &[mode_before, mode_after, before, after, _] = facts.as_slice() else { return None };
        let entry = |mode: &str, object: &str| {
            if mode == "000000" {
                return Some(None);
            }
            object.parse::<TreeId>().ok()?;
            let mode = EntryMode::read(mode.as_bytes())?;
            Some(Some(Entry { mode, object: object.to_owned(), size: None }))
        };
        let (before, after) = (entry(mode_before, before)?, entry(mode_after, after)?);
        let kind = match (&before, &after) {
            (None, None) => return None,
            (None, Some(_)) => ChangeKind::Added,
            (Some(_), None) => ChangeKind::Removed,
            (Some(before), Some(after)) => {
                let both_files = before.mode.is_file() && after.mode.is_file();
                if before.mode != after.mode && !both_files {
                    ChangeKind::TypeChanged
                } else if before.object == after.object {
                    ChangeKind::ModeChanged
                } else {
                    ChangeKind::Modified
                }
            }
        };
        changes.push(PathChange { path, kind, before, after });
    }
    Some(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_or_refused() {
        let (a, b, none) = ("a".repeat(40), "b".repeat(40), "0".repeat(40));
        let text = format!(
            ":000000 100644 {none} {a} A\0new\n\0:100644 000000 {a} {none} D\0gone\0\
             :100644 100755 {a} {b} M\0both\0:100644 100755 {a} {a} M\0mode\0\
             :100644 120000 {a} {b} T\0link\0"
        );
        let kinds: Vec<_> = read_changes(text.as_bytes())
            .unwrap()
            .into_iter()
            .map(|change| (change.path.to_str().unwrap().to_owned(), change.kind))
            .collect();
        let expected = [
            ("new\n", ChangeKind::Added),
            ("gone", ChangeKind::Removed),
            ("both", ChangeKind::Modified),
            ("mode", ChangeKind::ModeChanged),
            ("link", ChangeKind::TypeChanged),
        ];
        assert_eq!(kinds, expected.map(|(path, kind)| (path.to_owned(), kind)));
        for bad in [
            "x\0y\0".to_owned(),
            format!(":000000 000000 {none} {none} M\0a\0"),
            format!(":100644 040000 {a} {b} T\0a\0"),
            format!(":100644 100644 {a} b M\0a\0"),
            format!(":100644 100644 {a} {b} M\0"),
        ] {
            assert_eq!(read_changes(bad.as_bytes()), None, "{bad:?}");
        }
    }
}
