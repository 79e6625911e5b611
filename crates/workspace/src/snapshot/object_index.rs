//! What a stream of objects holds: which files a snapshot consists of, and whether all of them are there.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead};
use std::path::PathBuf;

use windlass_kernel::is_git_name;

use super::EntryMode;
use super::contents::SnapshotContents;
use super::extras::Extras;
use super::index_state::RawPath;
use super::object_reader::hex;
use super::object_stream::{ObjectHeader, ObjectKind, ObjectStream, ObjectStreamError, format_of};
use crate::TreeId;
use crate::git::{path_of, split_once};

/// The maximum number of objects in a stream.
pub(super) const OBJECTS_MAX: usize = 2_000_000;
/// The maximum number of entries of all folders together.
const ENTRIES_MAX: usize = 8_000_000;
/// The maximum size of one folder.
const TREE_BYTES_MAX: u64 = 64 << 20;
/// The maximum size of what all snapshots have besides their folders.
pub(super) const TAGS_BYTES_MAX: u64 = 64 << 20;
/// The maximum number of paths of a snapshot.
const PATHS_MAX: usize = 2_000_000;
/// The maximum size of the files of a snapshot together. The same object may have many paths.
const FILES_BYTES_MAX: u64 = 16 << 30;
/// The maximum length of a path.
const PATH_BYTES_MAX: usize = 4000;

/// The objects of a stream.
#[derive(Debug, Default)]
pub struct ObjectIndex {
    trees: BTreeMap<String, Vec<TreeEntry>>,
    /// The sizes of files.
    blobs: BTreeMap<String, u64>,
    /// Snapshots that have more than a folder.
    tags: BTreeMap<String, SnapshotContents>,
    tag_bytes: u64,
    entries: usize,
}

/// An entry of a folder.
#[derive(Debug)]
struct TreeEntry {
    mode: EntryMode,
    name: Vec<u8>,
    id: String,
}

impl TreeEntry {
    /// The kind of its object, if the stream must have it: the commit of a nested repository is not there.
    const fn kind(&self) -> Option<ObjectKind> {
        match self.mode {
            EntryMode::Folder => Some(ObjectKind::Tree),
            EntryMode::File | EntryMode::Executable | EntryMode::Symlink => Some(ObjectKind::Blob),
            EntryMode::NestedRepository => None,
        }
    }
}

/// The files of a snapshot.
#[derive(Debug, Default)]
pub struct SnapshotFiles {
    /// The paths of each object, with their modes.
    pub(super) paths: BTreeMap<String, Vec<(PathBuf, EntryMode)>>,
    /// How many files and symbolic links there are.
    pub count: usize,
    /// The size of all of them together.
    pub bytes: u64,
    /// Nested repositories, whose files a snapshot does not have.
    pub nested: Vec<PathBuf>,
    /// Unusual permissions and empty folders.
    pub(super) extras: Extras,
}

impl ObjectIndex {
    /// Reads a stream to its end and checks every object against its id.
    ///
    /// # Errors
    /// [`ObjectStreamError`].
    pub fn read(source: impl BufRead) -> Result<Self, ObjectStreamError> {
        let mut index = Self::default();
        let mut stream = ObjectStream::new(source);
        let mut folder = Vec::new();
        loop {
            folder.clear();
            let mut sink = |header: &ObjectHeader, bytes: &[u8]| {
                let bytes_max = match header.kind {
                    ObjectKind::Blob => return Ok(()),
                    ObjectKind::Tree => TREE_BYTES_MAX,
                    ObjectKind::Tag => TAGS_BYTES_MAX,
                };
                if header.size > bytes_max {
                    return Err(io::Error::from(io::ErrorKind::FileTooLarge));
                }
                folder.extend_from_slice(bytes);
                Ok(())
            };
            let Some(header) = stream.next(&mut sink)? else { return Ok(index) };
            if index.trees.len() + index.blobs.len() + index.tags.len() >= OBJECTS_MAX {
                let reason = format!("it has more than {OBJECTS_MAX} objects");
                return Err(ObjectStreamError::Invalid(reason));
            }
            index.add(header, &folder)?;
        }
    }

    fn add(&mut self, header: ObjectHeader, folder: &[u8]) -> Result<(), ObjectStreamError> {
        match header.kind {
            ObjectKind::Blob => {
                self.blobs.insert(header.id, header.size);
            }
            ObjectKind::Tree => {
                let entries = read_tree(folder, &header.id).ok_or_else(|| {
                    let reason = format!("the object `{}` is not a folder of files", header.id);
                    ObjectStreamError::Invalid(reason)
                })?;
                self.entries = self.entries.saturating_add(entries.len());
                if self.entries > ENTRIES_MAX {
                    let reason = format!("its folders have more than {ENTRIES_MAX} entries");
                    return Err(ObjectStreamError::Invalid(reason));
                }
                self.trees.insert(header.id, entries);
            }
            ObjectKind::Tag => {
                let contents = SnapshotContents::decode(folder).filter(has_plain_names);
                let contents = contents.ok_or_else(|| {
                    ObjectStreamError::Invalid(format!("the object `{}` is no snapshot", header.id))
                })?;
                self.tag_bytes = self.tag_bytes.saturating_add(header.size);
                if self.tag_bytes > TAGS_BYTES_MAX {
                    return Err(ObjectStreamError::invalid(
                        "it has too many permissions and empty folders",
                    ));
                }
                self.tags.insert(header.id, contents);
            }
        }
        Ok(())
    }

    /// Whether the stream has a snapshot.
    #[must_use]
    pub fn has(&self, tree: &TreeId) -> bool {
        self.trees.contains_key(tree.as_str()) || self.tags.contains_key(tree.as_str())
    }

    /// Checks that everything that these snapshots consist of is there, and nothing else. A snapshot that is
    /// not there at all is no error.
    ///
    /// # Errors
    /// What is missing, or belongs to none of them.
    pub fn check<'a>(&self, roots: impl IntoIterator<Item = &'a TreeId>) -> Result<(), String> {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut left: Vec<&str> = Vec::new();
        for root in roots {
            if let Some((id, contents)) = self.tags.get_key_value(root.as_str()) {
                let tree = contents.tree.as_str();
                if !self.trees.contains_key(tree) {
                    return Err(format!("the object `{tree}` is missing"));
                }
                seen.insert(id);
                left.push(tree);
            } else if let Some((id, _)) = self.trees.get_key_value(root.as_str()) {
                left.push(id);
            }
        }
        let mut blobs: BTreeSet<&str> = BTreeSet::new();
        while let Some(id) = left.pop() {
            if !seen.insert(id) {
                continue;
            }
            for entry in self.trees.get(id).into_iter().flatten() {
                let is_there = match entry.kind() {
                    None => true,
                    Some(ObjectKind::Blob) => {
                        blobs.insert(&entry.id);
                        self.blobs.contains_key(&entry.id)
                    }
                    // An entry of a folder is no tag.
                    Some(ObjectKind::Tree | ObjectKind::Tag) => {
                        left.push(&entry.id);
                        self.trees.contains_key(&entry.id)
                    }
                };
                if !is_there {
                    return Err(format!("the object `{}` is missing", entry.id));
                }
            }
        }
        let unknown = |id: &&String| !seen.contains(id.as_str()) && !blobs.contains(id.as_str());
        let all = self.trees.keys().chain(self.blobs.keys()).chain(self.tags.keys());
        match all.into_iter().find(unknown) {
            Some(id) => Err(format!("the object `{id}` belongs to no checkpoint")),
            None => Ok(()),
        }
    }

    /// Lists the files of a snapshot.
    ///
    /// # Errors
    /// Why it cannot be restored: something is missing, a name is not safe, or it is too large.
    pub fn files(&self, root: &TreeId) -> Result<SnapshotFiles, String> {
        let mut files = SnapshotFiles::default();
        let tagged = self.tags.get(root.as_str());
        if let Some(contents) = tagged {
            files.extras = contents.extras.clone();
            files.nested.extend(contents.extras.unborn.iter().map(RawPath::path));
        }
        if files.extras.folders.len() > PATHS_MAX {
            return Err(format!("it has more than {PATHS_MAX} empty folders"));
        }
        let tree = tagged.map_or(root, |contents| &contents.tree);
        let mut left = vec![(tree.as_str(), PathBuf::new())];
        while let Some((id, folder)) = left.pop() {
            let missing = || format!("the object `{id}` is missing");
            for entry in self.trees.get(id).ok_or_else(missing)? {
                let path = folder.join(path_of(&entry.name));
                if path.as_os_str().len() > PATH_BYTES_MAX {
                    return Err(format!("a path has more than {PATH_BYTES_MAX} bytes"));
                }
                files.count += 1;
                if files.count.saturating_add(left.len()) > PATHS_MAX {
                    return Err(format!("it has more than {PATHS_MAX} paths"));
                }
                match entry.mode {
                    EntryMode::Folder => {
                        files.count -= 1;
                        left.push((&entry.id, path));
                    }
                    EntryMode::NestedRepository => {
                        files.count -= 1;
                        files.nested.push(path);
                    }
                    mode @ (EntryMode::File | EntryMode::Executable | EntryMode::Symlink) => {
                        let missing = || format!("the object `{}` is missing", entry.id);
                        let size = self.blobs.get(&entry.id).ok_or_else(missing)?;
                        files.bytes = files.bytes.saturating_add(*size);
                        if files.bytes > FILES_BYTES_MAX {
                            return Err(format!(
                                "its files have more than {FILES_BYTES_MAX} bytes"
                            ));
                        }
                        files.paths.entry(entry.id.clone()).or_default().push((path, mode));
                    }
                }
            }
        }
        files.nested.sort();
        Ok(files)
    }
}

/// Whether a name of a file is safe to write: it leads nowhere else, and git does not keep it for itself.
fn is_plain(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..")
        && !name.contains(&b'/')
        && !is_git_name(&String::from_utf8_lossy(name))
}

/// Whether the names of empty folders are safe to write. Permissions are only given to files of the snapshot.
fn has_plain_names(contents: &SnapshotContents) -> bool {
    contents.extras.folders.iter().all(|folder| {
        folder.0.len() <= PATH_BYTES_MAX && folder.0.split(|byte| *byte == b'/').all(is_plain)
    })
}

/// Reads `mode SP name NUL id` records with names that are safe to write; `None` for anything that is not that.
fn read_tree(mut bytes: &[u8], id: &str) -> Option<Vec<TreeEntry>> {
    let id_bytes = format_of(id)?.bytes();
    let mut entries = Vec::new();
    let mut names = BTreeSet::new();
    while !bytes.is_empty() {
        let (mode, rest) = split_once(bytes, b' ')?;
        let (name, rest) = split_once(rest, 0)?;
        let (id, rest) = rest.split_at_checked(id_bytes)?;
        let mode = EntryMode::parse(mode)?;
        if !is_plain(name) || !names.insert(name) {
            return None;
        }
        entries.push(TreeEntry { mode, name: name.to_vec(), id: hex(id) });
        bytes = rest;
    }
    Some(entries)
}
