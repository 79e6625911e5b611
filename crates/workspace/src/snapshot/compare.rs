//! Compares two snapshots.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use serde::Serialize;
use serde::ser::SerializeStruct as _;

use super::capture::records;
use super::index_state::RawPath;
use super::{Entry, EntryMode, SnapshotError, Snapshots};
use crate::git::{Access, path_of, split_once};
use crate::{GitError, TreeId};

/// Files larger than this are not compared by lines.
const TEXT_BYTES_MAX: &str = "core.bigFileThreshold=4m";

/// A path that differs between two snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathChange {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// How it differs.
    pub kind: ChangeKind,
    /// Its entry in the first snapshot.
    pub before: Option<Entry>,
    /// Its entry in the second snapshot.
    pub after: Option<Entry>,
}

/// How a path differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It was removed.
    Removed,
    /// Its content differs; its mode may differ too.
    Modified,
    /// Its type differs: file, symbolic link or nested repository.
    TypeChanged,
    /// Only its permissions differ.
    ModeChanged,
}

/// A file that has another path in the second snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rename {
    /// Its path in the first snapshot.
    pub from: String,
    /// How much of its content is the same.
    pub similarity_percent: u8,
    /// Its path in the second snapshot.
    pub to: String,
}

/// A difference as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextDiff {
    /// A unified diff; of binary and very large files it says only that they differ.
    pub bytes: Vec<u8>,
    /// Whether the limit cut it off.
    pub truncated: bool,
}

impl Serialize for PathChange {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("PathChange", 8)?;
        let size = |entry: &Option<Entry>| entry.as_ref().and_then(|entry| entry.size);
        let hash = |entry: &Option<Entry>| entry.as_ref().map(|entry| entry.object.clone());
        let mode = |entry: &Option<Entry>| entry.as_ref().map(Entry::full_mode);
        fields.serialize_field("bytes_after", &size(&self.after))?;
        fields.serialize_field("bytes_before", &size(&self.before))?;
        fields.serialize_field("change", self.kind.as_str())?;
        fields.serialize_field("hash_after", &hash(&self.after))?;
        fields.serialize_field("hash_before", &hash(&self.before))?;
        fields.serialize_field("mode_after", &mode(&self.after))?;
        fields.serialize_field("mode_before", &mode(&self.before))?;
        fields.serialize_field("path", &self.path.to_string_lossy())?;
        fields.end()
    }
}

impl PathChange {
    /// Whether it is that of an empty folder, which has no content.
    #[must_use]
    pub fn is_of_folder(&self) -> bool {
        let sides = [&self.before, &self.after];
        sides.into_iter().flatten().any(|entry| entry.mode == EntryMode::Folder)
    }

    /// Its modes in both snapshots, in git's notation; `None` if only one has it.
    #[must_use]
    pub fn modes(&self) -> Option<(String, String)> {
        Some((self.before.as_ref()?.full_mode(), self.after.as_ref()?.full_mode()))
    }
}

impl ChangeKind {
    /// The name in documents: `added`, `removed` or `modified`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Modified | Self::TypeChanged | Self::ModeChanged => "modified",
        }
    }
}

impl Snapshots {
    /// Lists the paths that differ between two snapshots, in git's order. A renamed file is listed as
    /// removed and as added.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn changes(&self, from: &TreeId, to: &TreeId) -> Result<Vec<PathChange>, SnapshotError> {
        let operation = "compare the snapshots";
        if from == to {
            return Ok(Vec::new());
        }
        let (before, after) = (self.contents(from)?, self.contents(to)?);
        let bytes = self
            .objects_git(operation, Access::Read)
            .args(["diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames"])
            .args(["--ignore-submodules=none", before.tree.as_str(), after.tree.as_str()])
            .output()
            .map_err(|error| self.explain(&[from, to], error))?;
        let mut changes =
            parse_changes(&bytes).ok_or_else(|| GitError::unexpected(operation, &bytes))?;
        self.add_extras(&mut changes, &before, &after)?;
        self.add_sizes(&mut changes)?;
        Ok(changes)
    }

    /// Lists the files that were renamed between two snapshots, by git's measure: at least half of the
    /// content is the same.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn renames(&self, from: &TreeId, to: &TreeId) -> Result<Vec<Rename>, SnapshotError> {
        let operation = "find renamed files";
        let bytes = self
            .objects_git(operation, Access::Read)
            .args(["diff-tree", "-r", "-z", "--name-status", "--find-renames", "--diff-filter=R"])
            .args([from.as_str(), to.as_str()])
            .output()
            .map_err(|error| self.explain(&[from, to], error))?;
        Ok(parse_renames(&bytes).ok_or_else(|| GitError::unexpected(operation, &bytes))?)
    }

    /// Lists the nested repositories of a snapshot: it has their commits, if any, and not their files.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn nested(&self, tree: &TreeId) -> Result<Vec<PathBuf>, SnapshotError> {
        if let Some(nested) = self.known_nested(tree) {
            return Ok(nested);
        }
        let git = self.objects_git("list the nested repositories", Access::Read);
        let git = git.args(["ls-tree", "-r", "-z", "--full-tree", tree.as_str()]);
        let listed = git.output().map_err(|error| self.explain(&[tree], error))?;
        let mode = EntryMode::NestedRepository.as_str().as_bytes();
        let nested = records(&listed).filter(|record| record.starts_with(mode));
        let nested = nested.filter_map(|record| Some(path_of(split_once(record, b'\t')?.1)));
        let contents = self.contents(tree)?;
        let unborn = contents.extras.unborn.iter().map(RawPath::path);
        let all: BTreeSet<PathBuf> = nested.chain(unborn).collect();
        Ok(all.into_iter().collect())
    }

    /// Fills in the sizes of the files.
    fn add_sizes(&self, changes: &mut [PathChange]) -> Result<(), SnapshotError> {
        let operation = "read the sizes";
        let mut entries: Vec<&mut Entry> = changes
            .iter_mut()
            .flat_map(|change| change.before.iter_mut().chain(&mut change.after))
            .filter(|entry| match entry.mode {
                EntryMode::File | EntryMode::Executable | EntryMode::Symlink => true,
                EntryMode::NestedRepository | EntryMode::Folder => false,
            })
            .collect();
        if entries.is_empty() {
            return Ok(());
        }
        let input: String = entries.iter().map(|entry| format!("{}\n", entry.object)).collect();
        let git = self.objects_git(operation, Access::Read);
        let git = git.args(["cat-file", "--batch-check=%(objectsize)"]);
        let bytes = git.stdin(input).output()?;
        let unexpected = || GitError::unexpected(operation, &bytes);
        let text = std::str::from_utf8(&bytes).map_err(|_| unexpected())?;
        let mut lines = text.lines();
        for entry in &mut entries {
            // Git answers for a missing object with its id and a word.
            entry.size = lines.next().ok_or_else(unexpected)?.parse().ok();
        }
        Ok(())
    }

    /// Returns the difference between two snapshots as a unified diff of at most `bytes_max` bytes; only
    /// of the given paths and those below them, or of all when none are given.
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
        let (mut bytes, mut truncated) = self
            .objects_git("write the difference", Access::Read)
            .args(["-c", TEXT_BYTES_MAX, "diff-tree", "-r", "-p", "--full-index", "--no-renames"])
            .args(["--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none"])
            .args(["--submodule=short", "--src-prefix=a/", "--dst-prefix=b/"])
            .args(["--diff-algorithm=histogram", from.as_str(), to.as_str(), "--"])
            .args(paths)
            .output_prefix(bytes_max)
            .map_err(|error| self.explain(&[from, to], error))?;
        if !truncated && self.contents(from)?.extras != self.contents(to)?.extras {
            let changes = self.changes(from, to)?;
            let is_wanted = |change: &&PathChange| {
                paths.is_empty() || paths.iter().any(|path| change.path.starts_with(path))
            };
            changes.iter().filter(is_wanted).for_each(|change| add_permissions(change, &mut bytes));
            truncated = bytes.len() > bytes_max;
            bytes.truncate(bytes_max);
        }
        Ok(TextDiff { bytes, truncated })
    }

    /// Reads a file of a snapshot; of a symbolic link, its target. `None` when the path is not a file.
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
        let git = self.objects_git(operation, Access::Read);
        let git = git.args(["ls-tree", "-z", "--full-tree", tree.as_str(), "--"]).arg(&path);
        let listed = git.output().map_err(|error| self.explain(&[tree], error))?;
        let Some(record) = records(&listed).next() else { return Ok(None) };
        let unexpected = || GitError::unexpected(operation, &listed);
        let (facts, _) = split_once(record, b'\t').ok_or_else(unexpected)?;
        let facts = std::str::from_utf8(facts).map_err(|_| unexpected())?;
        let mut facts = facts.split(' ').skip(1);
        let (Some("blob"), Some(id)) = (facts.next(), facts.next()) else { return Ok(None) };
        let mut objects = super::object_reader::ObjectReader::new(self);
        match objects.bytes(id, bytes_max) {
            Ok(Some(bytes)) => Ok(Some(bytes)),
            Ok(None) => Err(self.corrupt(tree, id)),
            Err(error) => Err(error.at(operation, &path)),
        }
    }
}

/// Adds the permissions of a file to a difference, in git's form for a change of the executable bit.
fn add_permissions(change: &PathChange, bytes: &mut Vec<u8>) {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return };
    if before.permissions == after.permissions {
        return;
    }
    let path = change.path.as_os_str().as_encoded_bytes();
    bytes.extend([b"diff --git a/", path, b" b/", path, b"\n"].concat());
    let modes = format!("old mode {}\nnew mode {}\n", before.full_mode(), after.full_mode());
    bytes.extend(modes.into_bytes());
}

/// Reads `:mode mode id id status NUL path NUL` records; `None` for anything that is not that.
fn parse_changes(bytes: &[u8]) -> Option<Vec<PathChange>> {
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
            let mode = EntryMode::parse(mode.as_bytes())?;
            Some(Some(Entry { mode, object: object.to_owned(), permissions: None, size: None }))
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

/// Reads `Rpercent NUL path NUL path NUL` records; `None` for anything that is not that.
fn parse_renames(bytes: &[u8]) -> Option<Vec<Rename>> {
    let mut renames = Vec::new();
    let mut fields = records(bytes);
    while let Some(status) = fields.next() {
        let percent = std::str::from_utf8(status.strip_prefix(b"R")?).ok()?;
        let text = |path: &[u8]| path_of(path).to_string_lossy().into_owned();
        let (from, to) = (text(fields.next()?), text(fields.next()?));
        renames.push(Rename { from, similarity_percent: percent.parse().ok()?, to });
    }
    Some(renames)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renames_are_parsed_or_refused() {
        let rename = |from: &str, similarity_percent, to: &str| Rename {
            from: from.to_owned(),
            similarity_percent,
            to: to.to_owned(),
        };
        let renames = parse_renames(b"R100\0a\0b/c\0R057\0d\0e\n\0").unwrap();
        assert_eq!(renames, [rename("a", 100, "b/c"), rename("d", 57, "e\n")]);
        for bad in [&b"M\0a\0"[..], b"R\0a\0b\0", b"R100\0a\0"] {
            assert_eq!(parse_renames(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn changes_are_parsed_or_refused() {
        let (a, b, none) = ("a".repeat(40), "b".repeat(40), "0".repeat(40));
        let text = format!(
            ":000000 100644 {none} {a} A\0new\n\0:100644 000000 {a} {none} D\0gone\0\
             :100644 100755 {a} {b} M\0both\0:100644 100755 {a} {a} M\0mode\0\
             :100644 120000 {a} {b} T\0link\0"
        );
        let kinds: Vec<_> = parse_changes(text.as_bytes())
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
            assert_eq!(parse_changes(bad.as_bytes()), None, "{bad:?}");
        }
    }
}
