//! Packs the objects of snapshots into a stream, and writes the files of a snapshot from one.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use super::capture::records;
use super::object_index::{OBJECTS_MAX, TAGS_BYTES_MAX};
use super::object_reader::{ObjectRead, ObjectReader, ReadError};
use super::object_stream::{ObjectHeader, ObjectKind, ObjectStream, ObjectStreamError};
use super::{EntryMode, SnapshotError, SnapshotFiles, Snapshots};
use crate::TreeId;
use crate::git::{Access, os, split_once};

/// The maximum size of a folder, and of the target of a symbolic link.
const SMALL_BYTES_MAX: usize = 64 << 20;

/// The objects of some snapshots.
#[derive(Debug, Default)]
pub struct PackedObjects {
    /// The objects by their ids, with the sizes of files.
    objects: BTreeMap<String, (ObjectKind, u64)>,
    /// The snapshots that are complete.
    pub trees: Vec<TreeId>,
    /// Snapshots that are missing or incomplete.
    pub missing: Vec<TreeId>,
    /// Snapshots that would have made it too large.
    pub too_large: Vec<TreeId>,
    bytes: u64,
    /// How many of them are of permissions and empty folders.
    tag_bytes: u64,
}

impl Snapshots {
    /// Lists the objects of these snapshots, of at most so many bytes together. A snapshot that does not fit any
    /// more is left out as a whole.
    ///
    /// # Errors
    /// [`SnapshotError`] when git cannot be run.
    pub fn list_objects(
        &self,
        trees: &[TreeId],
        bytes_max: u64,
    ) -> Result<PackedObjects, SnapshotError> {
        let mut packed = PackedObjects::default();
        for tree in trees {
            let contents = match self.contents(tree) {
                Err(SnapshotError::Corrupt { .. } | SnapshotError::BaseGone { .. }) => {
                    packed.missing.push(tree.clone());
                    continue;
                }
                contents => contents?,
            };
            let git = self.objects_git("list the objects", Access::Read);
            let git = git.args(["ls-tree", "-r", "-t", "-l", "-z", "--full-tree", tree.as_str()]);
            let listed = git.run()?;
            let objects = (listed.code == Some(0)).then(|| parse_objects(&listed.stdout)).flatten();
            let Some(objects) = objects else {
                packed.missing.push(tree.clone());
                continue;
            };
            let tag = match *tree == contents.tree {
                true => None,
                false => Some((tree.to_string(), (ObjectKind::Tag, contents.tag_bytes()))),
            };
            let new: Vec<(String, (ObjectKind, u64))> = objects
                .into_iter()
                .chain([(contents.tree.to_string(), (ObjectKind::Tree, 0))])
                .chain(tag)
                .filter(|(id, _)| !packed.objects.contains_key(id))
                .collect();
            // Folders have about as many bytes as the list of their entries.
            let more = new.iter().map(|(_, (_, size))| size.saturating_add(128)).sum::<u64>();
            let bytes = packed.bytes.saturating_add(more);
            let is_tag = |(_, (kind, _)): &&(_, (ObjectKind, u64))| *kind == ObjectKind::Tag;
            let tags = new.iter().filter(is_tag).map(|(_, (_, size))| size).sum::<u64>();
            let tag_bytes = packed.tag_bytes.saturating_add(tags);
            if bytes > bytes_max
                || tag_bytes > TAGS_BYTES_MAX
                || packed.objects.len() + new.len() > OBJECTS_MAX
            {
                packed.too_large.push(tree.clone());
                continue;
            }
            (packed.bytes, packed.tag_bytes) = (bytes, tag_bytes);
            packed.objects.extend(new);
            packed.trees.push(tree.clone());
        }
        Ok(packed)
    }

    /// Writes the stream of these objects.
    ///
    /// # Errors
    /// [`SnapshotError::Corrupt`] names an object that is damaged.
    pub fn write_objects(
        &self,
        packed: &PackedObjects,
        target: &mut dyn Write,
    ) -> Result<(), SnapshotError> {
        let mut reader = ObjectReader::new(self);
        let unwritable = |error: ReadError| error.at("write", Path::new("the bundle"));
        for (id, (kind, size)) in &packed.objects {
            let damaged = || {
                let tree = packed.trees.first().cloned();
                tree.map(|tree| SnapshotError::Corrupt { tree, object: id.clone() })
            };
            let header = |size| ObjectHeader { id: id.clone(), kind: *kind, size };
            let intact = match kind {
                ObjectKind::Tree | ObjectKind::Tag => {
                    let bytes = reader.bytes(id, SMALL_BYTES_MAX).map_err(unwritable)?;
                    if let Some(bytes) = &bytes {
                        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                        let written =
                            header(size).write(target).and_then(|()| target.write_all(bytes));
                        written.map_err(|error| unwritable(ReadError::Sink(error)))?;
                    }
                    bytes.is_some()
                }
                ObjectKind::Blob => {
                    let written = header(*size).write(target);
                    written.map_err(|error| unwritable(ReadError::Sink(error)))?;
                    let read = reader.copy(id, &mut |chunk| target.write_all(chunk));
                    let read = read.map_err(unwritable)?;
                    matches!(read, ObjectRead::Intact { kind } if kind == "blob")
                }
            };
            if !intact && let Some(error) = damaged() {
                return Err(error);
            }
            target.write_all(b"\n").map_err(|error| unwritable(ReadError::Sink(error)))?;
        }
        Ok(())
    }
}

/// Reads `mode SP kind SP id SP size TAB path NUL` records; `None` for anything that is not that, and for files
/// whose size git does not know, because they are missing.
fn parse_objects(bytes: &[u8]) -> Option<Vec<(String, (ObjectKind, u64))>> {
    let mut objects = Vec::new();
    for record in records(bytes) {
        let (facts, _) = split_once(record, b'\t')?;
        let mut facts = std::str::from_utf8(facts).ok()?.split_ascii_whitespace().skip(1);
        let (kind, id, size) = (facts.next()?, facts.next()?, facts.next()?);
        match kind {
            "blob" => objects.push((id.to_owned(), (ObjectKind::Blob, size.parse().ok()?))),
            "tree" => objects.push((id.to_owned(), (ObjectKind::Tree, 0))),
            "commit" => {}
            _ => return None,
        }
    }
    Some(objects)
}

/// Writes the files of a snapshot into an empty folder of ours.
///
/// # Errors
/// [`ObjectStreamError`]; then the folder has a part of them.
pub fn unpack_files(
    source: impl BufRead,
    files: &SnapshotFiles,
    folder: &Path,
) -> Result<(), ObjectStreamError> {
    let mut stream = ObjectStream::new(source);
    let mut unpacker = Unpacker { files, folder, open: None, links: Vec::new(), link: Vec::new() };
    while let Some(header) = stream.next(&mut |header, bytes| unpacker.take(header, bytes))? {
        unpacker.finish(&header).map_err(ObjectStreamError::Sink)?;
    }
    // What is made before the first link cannot be made through one.
    unpacker.finish_extras().map_err(ObjectStreamError::Sink)?;
    for (target, path) in &unpacker.links {
        symlink(os(target), path).map_err(ObjectStreamError::Sink)?;
    }
    Ok(())
}

struct Unpacker<'a> {
    files: &'a SnapshotFiles,
    folder: &'a Path,
    /// The file that is being written, and its path.
    open: Option<(File, PathBuf)>,
    links: Vec<(Vec<u8>, PathBuf)>,
    /// The target of the symbolic link that is being read.
    link: Vec<u8>,
}

impl Unpacker<'_> {
    /// The paths of an object.
    fn paths(&self, header: &ObjectHeader) -> &[(PathBuf, EntryMode)] {
        match header.kind {
            ObjectKind::Blob => self.files.paths.get(&header.id).map_or(&[], Vec::as_slice),
            ObjectKind::Tree | ObjectKind::Tag => &[],
        }
    }

    fn take(&mut self, header: &ObjectHeader, bytes: &[u8]) -> io::Result<()> {
        let paths = self.paths(header);
        let first = paths.iter().find(|(_, mode)| mode.is_file());
        let has_link = paths.iter().any(|(_, mode)| *mode == EntryMode::Symlink);
        if bytes.is_empty() {
            let first = first.map(|(path, mode)| self.create(path, *mode)).transpose()?;
            self.open = first;
            self.link.clear();
            return Ok(());
        }
        if has_link {
            if self.link.len() + bytes.len() > SMALL_BYTES_MAX {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            self.link.extend_from_slice(bytes);
        }
        match &mut self.open {
            Some((file, _)) => file.write_all(bytes),
            None => Ok(()),
        }
    }

    /// Copies an object to its other paths.
    fn finish(&mut self, header: &ObjectHeader) -> io::Result<()> {
        let written = self.open.take().map(|(_, path)| path);
        let mut links = Vec::new();
        for (path, mode) in self.paths(header) {
            let full = self.folder.join(path);
            if *mode == EntryMode::Symlink {
                if let Some(parent) = full.parent() {
                    fs::create_dir_all(parent)?;
                }
                links.push((self.link.clone(), full));
            } else if let Some(written) = written.as_ref().filter(|written| **written != full) {
                let (mut file, _) = self.create(path, *mode)?;
                io::copy(&mut File::open(written)?, &mut file)?;
            }
        }
        self.links.extend(links);
        Ok(())
    }

    /// Makes the empty folders and sets the permissions of files. Nobody gets a program that runs as somebody else.
    fn finish_extras(&self) -> io::Result<()> {
        for name in &self.files.extras.folders {
            fs::create_dir_all(self.folder.join(name.path()))?;
        }
        for (path, mode) in self.files.paths.values().flatten() {
            if let Some(permissions) = self.files.extras.mode(path).filter(|_| mode.is_file()) {
                let permissions = Permissions::from_mode(permissions & 0o777);
                fs::set_permissions(self.folder.join(path), permissions)?;
            }
        }
        Ok(())
    }

    fn create(&self, path: &Path, mode: EntryMode) -> io::Result<(File, PathBuf)> {
        let full = self.folder.join(path);
        if let Some(parent) = full.parent() {
            fs::create_dir_all(parent)?;
        }
        let mode = match (self.files.extras.mode(path), mode) {
            // The others follow when all files are written.
            (Some(_), _) => 0o600,
            (None, EntryMode::Executable) => 0o777,
            (
                None,
                EntryMode::File
                | EntryMode::Symlink
                | EntryMode::NestedRepository
                | EntryMode::Folder,
            ) => 0o666,
        };
        let file = File::options().write(true).create_new(true).mode(mode).open(&full)?;
        Ok((file, full))
    }
}
