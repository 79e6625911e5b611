//! Access to a workspace's files by paths that never lead outside it.
//!
//! INVARIANT: every folder of a path is opened relative to its parent's handle, and a symbolic link is
//! never followed, so nothing outside the workspace can be read or changed.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{
    self as raw, Access, AtFlags, FileType, Mode, OFlags, accessat, mkdirat, openat, readlinkat,
    statat, unlinkat,
};
use rustix::io::Errno;

use super::object_reader::ObjectFormat;
use super::{Entry, EntryMode};

const FOLDER: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::RDONLY).union(OFlags::CLOEXEC);

/// A handle on the folder of a workspace.
pub(super) struct RootedDir {
    root: Rc<OwnedFd>,
    format: ObjectFormat,
    /// The folder that was opened last, for the next file in it.
    last: RefCell<Option<(PathBuf, Rc<OwnedFd>)>>,
    /// Folders that became repositories but whose files belong to the workspace.
    allowed: BTreeSet<PathBuf>,
}

/// The parent folder of a path.
pub(super) enum Parent {
    Open(Rc<OwnedFd>),
    Missing,
    /// This path exists and is not a folder.
    Blocked(PathBuf),
    /// It is inside this nested repository.
    Nested(PathBuf),
}

/// What the disk has at a path.
#[derive(Debug)]
pub(super) enum DiskEntry {
    Absent,
    Blocked(PathBuf),
    Nested(PathBuf),
    Folder,
    /// With its permissions.
    File {
        mode: u32,
        size: u64,
    },
    Symlink(Vec<u8>),
    Other,
}

impl RootedDir {
    pub fn open(folder: &Path, format: ObjectFormat) -> io::Result<Self> {
        let root = raw::open(folder, FOLDER, Mode::empty())?;
        Ok(Self { root: Rc::new(root), format, last: RefCell::new(None), allowed: BTreeSet::new() })
    }

    /// Allows access to a folder that is a repository.
    pub fn allow(&mut self, folder: PathBuf) {
        self.allowed.insert(folder);
    }

    /// Opens the parent folder of a path.
    pub fn parent(&self, path: &Path) -> io::Result<Parent> {
        self.walk(path, false)
    }

    /// Opens the parent folder of a path, which is created if missing.
    pub fn make_parent(&self, path: &Path) -> io::Result<Rc<OwnedFd>> {
        match self.walk(path, true)? {
            Parent::Open(folder) => Ok(folder),
            Parent::Missing => Err(Errno::NOENT.into()),
            Parent::Blocked(_) | Parent::Nested(_) => Err(Errno::NOTDIR.into()),
        }
    }

    fn walk(&self, path: &Path, make: bool) -> io::Result<Parent> {
        let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
            return Ok(Parent::Open(Rc::clone(&self.root)));
        };
        if let Some((known, open)) = &*self.last.borrow()
            && known == folder
        {
            return Ok(Parent::Open(Rc::clone(open)));
        }
        let mut current = Rc::clone(&self.root);
        let mut so_far = PathBuf::new();
        for name in folder.iter() {
            so_far.push(name);
            if make {
                match mkdirat(&current, name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let next = match openat(&current, name, FOLDER, Mode::empty()) {
                Ok(next) => next,
                Err(Errno::NOENT) => return Ok(Parent::Missing),
                Err(Errno::NOTDIR | Errno::LOOP) => return Ok(Parent::Blocked(so_far)),
                Err(error) => return Err(error.into()),
            };
            if statat(&next, ".git", AtFlags::SYMLINK_NOFOLLOW).is_ok()
                && !self.allowed.contains(&so_far)
            {
                return Ok(Parent::Nested(so_far));
            }
            current = Rc::new(next);
        }
        *self.last.borrow_mut() = Some((folder.to_owned(), Rc::clone(&current)));
        Ok(Parent::Open(current))
    }

    /// Reads the type and status of a path.
    pub fn stat(&self, path: &Path) -> io::Result<DiskEntry> {
        let folder = match self.parent(path)? {
            Parent::Open(folder) => folder,
            Parent::Missing => return Ok(DiskEntry::Absent),
            Parent::Blocked(by) => return Ok(DiskEntry::Blocked(by)),
            Parent::Nested(inside) => return Ok(DiskEntry::Nested(inside)),
        };
        let name = file_name_of(path)?;
        let stat = match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(DiskEntry::Absent),
            Err(error) => return Err(error.into()),
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind.is_dir() {
            Ok(DiskEntry::Folder)
        } else if kind.is_symlink() {
            let target = readlinkat(&folder, name, Vec::new())?;
            Ok(DiskEntry::Symlink(target.into_bytes()))
        } else if kind.is_file() {
            let size = u64::try_from(stat.st_size).unwrap_or_default();
            Ok(DiskEntry::File { mode: stat.st_mode & 0o7777, size })
        } else {
            Ok(DiskEntry::Other)
        }
    }

    /// Whether the disk has at a path what a snapshot's entry has.
    pub fn matches(&self, path: &Path, found: &DiskEntry, entry: &Entry) -> io::Result<bool> {
        match found {
            DiskEntry::Symlink(target) => {
                if entry.mode != EntryMode::Symlink {
                    return Ok(false);
                }
                let mut hasher = self.format.hasher("blob", target.len() as u64);
                hasher.update(target);
                Ok(hasher.finish() == entry.object)
            }
            DiskEntry::File { mode, size } => {
                let is = if mode & 0o100 == 0 { EntryMode::File } else { EntryMode::Executable };
                if entry.mode != is || entry.size.is_some_and(|expected| expected != *size) {
                    return Ok(false);
                }
                Ok(self.blob_id(path, *size)? == entry.object)
            }
            DiskEntry::Absent
            | DiskEntry::Blocked(_)
            | DiskEntry::Nested(_)
            | DiskEntry::Folder
            | DiskEntry::Other => Ok(false),
        }
    }

    /// The id of a file's blob. A file that grows meanwhile gets an id that matches nothing.
    fn blob_id(&self, path: &Path, size: u64) -> io::Result<String> {
        let mut file = self.file(path)?;
        let mut hasher = self.format.hasher("blob", size);
        let mut chunk = vec![0; 64 * 1024];
        loop {
            match file.read(&mut chunk) {
                Ok(0) => return Ok(hasher.finish()),
                Ok(count) => hasher.update(chunk.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens a file for reading.
    pub fn file(&self, path: &Path) -> io::Result<File> {
        let Parent::Open(folder) = self.parent(path)? else { return Err(Errno::NOENT.into()) };
        // A pipe that was created there meanwhile must not block.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(openat(&folder, file_name_of(path)?, flags, Mode::empty())?.into())
    }

    /// Whether files can be created and removed in the parent folder of a path, or in the nearest folder
    /// above it that exists.
    pub fn is_writable(&self, path: &Path) -> io::Result<bool> {
        for path in path.ancestors().filter(|path| !path.as_os_str().is_empty()) {
            if let Parent::Open(folder) = self.parent(path)? {
                let wanted = Access::WRITE_OK | Access::EXEC_OK;
                return match accessat(&folder, ".", wanted, AtFlags::empty()) {
                    Ok(()) => Ok(true),
                    Err(Errno::ACCESS | Errno::ROFS | Errno::PERM) => Ok(false),
                    Err(error) => Err(error.into()),
                };
            }
        }
        Ok(true)
    }

    /// Removes a file or a symbolic link; one that does not exist is no error.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let Parent::Open(folder) = self.parent(path)? else { return Ok(()) };
        match unlinkat(&folder, file_name_of(path)?, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes an empty folder; returns whether it no longer exists.
    pub fn remove_folder(&self, path: &Path) -> bool {
        let Ok(Parent::Open(folder)) = self.parent(path) else { return false };
        let Ok(name) = file_name_of(path) else { return false };
        *self.last.borrow_mut() = None;
        matches!(unlinkat(&folder, name, AtFlags::REMOVEDIR), Ok(()) | Err(Errno::NOENT))
    }

    /// Lists everything below a folder; a folder comes after its entries.
    pub fn list(&self, path: &Path) -> io::Result<Vec<(PathBuf, IsFolder)>> {
        let Parent::Open(parent) = self.parent(path)? else { return Ok(Vec::new()) };
        let folder = openat(&parent, file_name_of(path)?, FOLDER, Mode::empty())?;
        let mut all = Vec::new();
        list(folder, path, &mut all)?;
        Ok(all)
    }
}

/// Whether something is a folder.
pub(super) type IsFolder = bool;

fn list(folder: OwnedFd, path: &Path, all: &mut Vec<(PathBuf, IsFolder)>) -> io::Result<()> {
    for entry in raw::Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let inner = path.join(std::ffi::OsStr::from_bytes(name.to_bytes()));
        match openat(&folder, name, FOLDER, Mode::empty()) {
            Ok(deeper) => {
                list(deeper, &inner, all)?;
                all.push((inner, true));
            }
            Err(Errno::NOTDIR | Errno::LOOP) => all.push((inner, false)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The last component of a path.
pub(super) fn file_name_of(path: &Path) -> io::Result<&std::ffi::OsStr> {
    path.file_name().ok_or_else(|| Errno::INVAL.into())
}
