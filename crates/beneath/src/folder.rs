//! An open folder.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{
    self as raw, AtFlags, Dir, Mode, OFlags, RenameFlags, ResolveFlags, fchmod, fstat, mkdirat,
    openat2, readlinkat, renameat, renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use crate::{Entry, Kind};

/// Moves an entry to where nothing is.
fn move_new(from: &Folder, name: &OsStr, to: &Folder, new: &OsStr) -> rustix::io::Result<()> {
    match renameat_with(&from.0, name, &to.0, new, RenameFlags::NOREPLACE) {
        // Not every file system can do both at once.
        Err(Errno::INVAL | Errno::NOSYS) => match statat(&to.0, new, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => renameat(&from.0, name, &to.0, new),
            Err(error) => Err(error),
        },
        moved => moved,
    }
}

/// How often another name is tried for a file that takes its place later.
const TRIES: usize = 16;

/// An open folder.
#[derive(Debug)]
pub struct Folder(OwnedFd);

impl Folder {
    /// Opens a folder by a path of ours or of a person, which may lead through links.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(raw::open(path, flags, Mode::empty())?))
    }

    fn at(&self, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        openat2(
            &self.0,
            path,
            flags | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
        )
    }

    /// Opens a folder beneath it; the empty path is the folder itself.
    ///
    /// # Errors
    /// Those of the operating system, also when a link is on the way.
    pub fn folder(&self, path: &Path) -> io::Result<Self> {
        Ok(Self(self.at(path, OFlags::RDONLY | OFlags::DIRECTORY)?))
    }

    /// Opens a folder beneath it, which is made with its parents if it is missing.
    ///
    /// # Errors
    /// Those of the operating system, also when a link is on the way.
    pub fn make_folder(&self, path: &Path) -> io::Result<Self> {
        if let Ok(folder) = self.folder(path) {
            return Ok(folder);
        }
        let mut current = self.folder(Path::new(""))?;
        for name in path {
            match mkdirat(&current.0, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            current = current.folder(Path::new(name))?;
        }
        Ok(current)
    }

    /// The open parent of a path beneath it, and the last name.
    fn parent<'a>(&self, path: &'a Path) -> io::Result<(Self, &'a OsStr)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((self.folder(path.parent().unwrap_or_else(|| Path::new("")))?, name))
    }

    /// What the folder itself is.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn itself(&self) -> io::Result<Entry> {
        Ok(Entry::of(&fstat(&self.0)?))
    }

    /// What is at a path; `None` if there is nothing, or something else than a folder on the way.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn look(&self, path: &Path) -> io::Result<Option<Entry>> {
        match self.at(path, OFlags::PATH) {
            Ok(found) => Ok(Some(Entry::of(&fstat(&found)?))),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What is at a path, looked up in one step. Somebody who changes folders meanwhile could lead it elsewhere: whoever asks
    /// compares device and inode with what was there before.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn glance(&self, path: &Path) -> io::Result<Option<Entry>> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        match statat(&self.0, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Entry::of(&stat))),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The names in it, with their kinds.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn entries(&self) -> io::Result<Vec<(OsString, Kind)>> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match Kind::of(entry.file_type()) {
                Some(kind) => kind,
                // Not every file system tells kinds in its lists.
                None => match self.glance(Path::new(name))? {
                    Some(found) => found.kind,
                    None => continue,
                },
            };
            entries.push((name.to_owned(), kind));
        }
        Ok(entries)
    }

    /// Opens a regular file for reading; a pipe that took its place does not block.
    ///
    /// # Errors
    /// Those of the operating system, also when it is no regular file or a link is on the way.
    pub fn file(&self, path: &Path) -> io::Result<File> {
        let file = File::from(self.at(path, OFlags::RDONLY | OFlags::NONBLOCK)?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
        }
    }

    /// Reads a regular file of at most so many bytes.
    ///
    /// # Errors
    /// As for [`Folder::file`], and [`io::ErrorKind::FileTooLarge`].
    pub fn read(&self, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
        match u64::try_from(bytes.len()).is_ok_and(|length| length <= bytes_max) {
            true => Ok(bytes),
            false => Err(io::ErrorKind::FileTooLarge.into()),
        }
    }

    /// Where a link points.
    ///
    /// # Errors
    /// Those of the operating system, also when it is no link.
    pub fn link_target(&self, path: &Path) -> io::Result<PathBuf> {
        let (parent, name) = self.parent(path)?;
        let target = readlinkat(&parent.0, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// Whether a path leads to something beneath the folder, also through links that stay beneath it.
    #[must_use]
    pub fn leads_beneath(&self, path: &Path) -> bool {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        openat2(&self.0, path, flags, Mode::empty(), ResolveFlags::BENEATH).is_ok()
    }

    /// Makes a link where nothing is.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn make_link(&self, target: &Path, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(symlinkat(target, &parent.0, name)?)
    }

    /// Writes a file where nothing is.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`], and those of the operating system.
    pub fn create(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        let draft = parent.draft(bytes, mode)?;
        let placed = move_new(&parent, OsStr::new(&draft), &parent, name);
        placed.map_err(|error| parent.discard(&draft, error))
    }

    /// Writes a file in place of the file or link that is there, or of nothing.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn replace(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        let draft = parent.draft(bytes, mode)?;
        let placed = renameat(&parent.0, &draft, &parent.0, name);
        placed.map_err(|error| parent.discard(&draft, error))
    }

    /// Writes a file under a name that nobody can foresee.
    fn draft(&self, bytes: &[u8], mode: u32) -> io::Result<String> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        for _ in 0..TRIES {
            let mut random = [0; 16];
            getrandom::fill(&mut random).map_err(io::Error::other)?;
            let name = format!(".windlass-tmp-{:032x}", u128::from_ne_bytes(random));
            let opened =
                raw::openat(&self.0, &*name, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o600));
            let mut file = match opened {
                Ok(file) => File::from(file),
                Err(Errno::EXIST) => continue,
                Err(error) => return Err(error.into()),
            };
            let written = file.write_all(bytes).and_then(|()| {
                // Exact, whatever the mask of new files is.
                Ok(fchmod(&file, Mode::from_raw_mode(mode & 0o7777))?)
            });
            return match written {
                Ok(()) => Ok(name),
                Err(error) => {
                    self.remove_draft(&name);
                    Err(error)
                }
            };
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn discard(&self, draft: &str, error: Errno) -> io::Error {
        self.remove_draft(draft);
        error.into()
    }

    fn remove_draft(&self, draft: &str) {
        // The error that led here is told.
        let _ = unlinkat(&self.0, draft, AtFlags::empty());
    }

    /// Moves what is at a path to a path beneath another folder, where nothing may be.
    ///
    /// # Errors
    /// Those of the operating system; [`io::ErrorKind::CrossesDevices`] for another file system.
    pub fn move_to(&self, path: &Path, other: &Self, to: &Path) -> io::Result<()> {
        let (from, name) = self.parent(path)?;
        let (target, new_name) = other.parent(to)?;
        Ok(move_new(&from, name, &target, new_name)?)
    }

    /// Removes a file or link.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn remove_file(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(unlinkat(&parent.0, name, AtFlags::empty())?)
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn remove_folder(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        Ok(unlinkat(&parent.0, name, AtFlags::REMOVEDIR)?)
    }
}
