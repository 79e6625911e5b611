//! A workspace's files by paths that never lead outside it.
//!
//! INVARIANT: every folder on the way is opened by its own name from the one above, and a symbolic
//! link is never followed, so nothing outside the workspace can be read or changed.

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

use super::objects::Format;
use super::{Entry, EntryMode};

const FOLDER: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::RDONLY).union(OFlags::CLOEXEC);

/// The folder of a workspace.
pub(super) struct Place {
    root: Rc<OwnedFd>,
    format: Format,
    /// The folder that was opened last: neighbours come one after the other.
    last: RefCell<Option<(PathBuf, Rc<OwnedFd>)>>,
    /// Folders that have a repository of their own and are the workspace's nevertheless.
    allowed: BTreeSet<PathBuf>,
}

/// The folder that a path is in.
pub(super) enum Parent {
    Open(Rc<OwnedFd>),
    Missing,
    /// Something that is no folder stands in its place.
    Blocked(PathBuf),
    /// It is inside a repository of its own.
    Nested(PathBuf),
}

/// What is at a path.
#[derive(Debug)]
pub(super) enum Found {
    Absent,
    Blocked(PathBuf),
    Nested(PathBuf),
    Folder,
    /// With its permissions.
    File {
        mode: u32,
        size: u64,
    },
    Link(Vec<u8>),
    Other,
}

impl Place {
    pub fn open(folder: &Path, format: Format) -> io::Result<Self> {
        let root = raw::open(folder, FOLDER, Mode::empty())?;
        Ok(Self { root: Rc::new(root), format, last: RefCell::new(None), allowed: BTreeSet::new() })
    }

    /// Lets a folder be looked into though it has a repository of its own.
    pub fn allow(&mut self, folder: PathBuf) {
        self.allowed.insert(folder);
    }

    /// Opens the folder that a path is in.
    pub fn parent(&self, path: &Path) -> io::Result<Parent> {
        self.walk(path, false)
    }

    /// Opens the folder that a path is in, and makes it first where it is missing.
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

    /// Tells what is at a path.
    pub fn look(&self, path: &Path) -> io::Result<Found> {
        let folder = match self.parent(path)? {
            Parent::Open(folder) => folder,
            Parent::Missing => return Ok(Found::Absent),
            Parent::Blocked(by) => return Ok(Found::Blocked(by)),
            Parent::Nested(inside) => return Ok(Found::Nested(inside)),
        };
        let name = leaf(path)?;
        let stat = match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(Found::Absent),
            Err(error) => return Err(error.into()),
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind.is_dir() {
            Ok(Found::Folder)
        } else if kind.is_symlink() {
            let target = readlinkat(&folder, name, Vec::new())?;
            Ok(Found::Link(target.into_bytes()))
        } else if kind.is_file() {
            let size = u64::try_from(stat.st_size).unwrap_or_default();
            Ok(Found::File { mode: stat.st_mode & 0o7777, size })
        } else {
            Ok(Found::Other)
        }
    }

    /// Tells whether what is at a path is what a snapshot has there.
    pub fn is(&self, path: &Path, found: &Found, entry: &Entry) -> io::Result<bool> {
        match found {
            Found::Link(target) => {
                if entry.mode != EntryMode::Link {
                    return Ok(false);
                }
                let mut naming = self.format.begin("blob", target.len() as u64);
                naming.update(target);
                Ok(naming.finish() == entry.object)
            }
            Found::File { mode, size } => {
                let is = if mode & 0o100 == 0 { EntryMode::File } else { EntryMode::Executable };
                if entry.mode != is || entry.size.is_some_and(|expected| expected != *size) {
                    return Ok(false);
                }
                Ok(self.name_of(path, *size)? == entry.object)
            }
            Found::Absent | Found::Blocked(_) | Found::Nested(_) | Found::Folder | Found::Other => {
                Ok(false)
            }
        }
    }

    /// The name of a file's content. One that grows meanwhile gets a name that fits nothing.
    fn name_of(&self, path: &Path, size: u64) -> io::Result<String> {
        let mut file = self.file(path)?;
        let mut naming = self.format.begin("blob", size);
        let mut chunk = vec![0; 64 * 1024];
        loop {
            match file.read(&mut chunk) {
                Ok(0) => return Ok(naming.finish()),
                Ok(count) => naming.update(chunk.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens a file for reading.
    pub fn file(&self, path: &Path) -> io::Result<File> {
        let Parent::Open(folder) = self.parent(path)? else { return Err(Errno::NOENT.into()) };
        // A pipe that was put there meanwhile must not make us wait.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(openat(&folder, leaf(path)?, flags, Mode::empty())?.into())
    }

    /// Tells whether things can be made and removed where a path is, or in the nearest folder above
    /// that is there.
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

    /// Removes a file or a symbolic link; one that is gone is no error.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        let Parent::Open(folder) = self.parent(path)? else { return Ok(()) };
        match unlinkat(&folder, leaf(path)?, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a folder that is empty; tells whether it is gone.
    pub fn remove_folder(&self, path: &Path) -> bool {
        let Ok(Parent::Open(folder)) = self.parent(path) else { return false };
        let Ok(name) = leaf(path) else { return false };
        *self.last.borrow_mut() = None;
        matches!(unlinkat(&folder, name, AtFlags::REMOVEDIR), Ok(()) | Err(Errno::NOENT))
    }

    /// Lists all that is in a folder and below, folders after what is in them.
    pub fn list(&self, path: &Path) -> io::Result<Vec<(PathBuf, IsFolder)>> {
        let Parent::Open(parent) = self.parent(path)? else { return Ok(Vec::new()) };
        let folder = openat(&parent, leaf(path)?, FOLDER, Mode::empty())?;
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

/// The last name of a path.
pub(super) fn leaf(path: &Path) -> io::Result<&std::ffi::OsStr> {
    path.file_name().ok_or_else(|| Errno::INVAL.into())
}
