//! An open folder.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    self as raw, AtFlags, Dir, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat2, readlinkat,
    statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use crate::draft::{Access, Draft, TRIES, is_draft, move_new, random_name};
use crate::{Entry, Kind};

/// An open folder.
#[derive(Debug)]
pub struct Folder(OwnedFd);

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Folder> for OwnedFd {
    fn from(folder: Folder) -> Self {
        folder.0
    }
}

/// A path that leads to what is open, whoever moves it.
fn in_proc(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

impl Folder {
    /// Opens a folder by a path of ours or of a person, which may lead through links.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(raw::open(path, flags, Mode::empty())?))
    }

    /// Opens a folder by an absolute path in which no link may be.
    ///
    /// # Errors
    /// Those of the operating system, also when a link is on the way.
    pub fn open_real(path: &Path) -> io::Result<Self> {
        let (root, below) = Self::top(path)?;
        root.folder(below)
    }

    /// Opens a folder by an absolute path in which no link may be; it is made with its parents if it is missing.
    ///
    /// # Errors
    /// Those of the operating system, also when a link is on the way.
    pub fn make_real(path: &Path) -> io::Result<Self> {
        let (root, below) = Self::top(path)?;
        root.make_folder(below)
    }

    /// Opens a regular file by an absolute path in which no link may be.
    ///
    /// # Errors
    /// As for [`Folder::file`].
    pub fn file_real(path: &Path) -> io::Result<File> {
        let (root, below) = Self::top(path)?;
        root.file(below)
    }

    /// Reads a regular file of at most so many bytes by an absolute path in which no link may be.
    ///
    /// # Errors
    /// As for [`Folder::read`].
    pub fn read_real(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
        let (root, below) = Self::top(path)?;
        root.read(below, bytes_max)
    }

    /// The top of the file system, and the rest of an absolute path.
    fn top(path: &Path) -> io::Result<(Self, &Path)> {
        let top = Path::new("/");
        let below = path.strip_prefix(top).map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok((Self::open(top)?, below))
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
        // Folders on the way may be ones that may be entered and not read.
        let entered = OFlags::PATH | OFlags::DIRECTORY;
        let mut current = Self(self.at(Path::new(""), entered)?);
        for name in path {
            match mkdirat(&current.0, name, Mode::from_raw_mode(0o777)) {
                // Durable, as far as the file system can do that.
                Ok(()) => drop(current.folder(Path::new("")).and_then(|folder| folder.sync())),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            current = Self(current.at(Path::new(name), entered)?);
        }
        current.folder(Path::new(""))
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

    /// Begins a file at a path, which is written under another name first.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn draft(&self, path: &Path, access: Access) -> io::Result<Draft> {
        let (parent, name) = self.parent(path)?;
        Draft::new(parent, name, access)
    }

    /// Writes a file where nothing is.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`], and those of the operating system.
    pub fn create(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        let mut draft = self.draft(path, Access::Exactly(mode))?;
        draft.write_all(bytes)?;
        draft.create()
    }

    /// Writes a file in place of the file or link that is there, or of nothing.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn replace(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        let mut draft = self.draft(path, Access::Exactly(mode))?;
        draft.write_all(bytes)?;
        draft.replace()
    }

    /// As [`Folder::replace`]; the file and its name are durable then.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn replace_durably(&self, path: &Path, bytes: &[u8], access: Access) -> io::Result<()> {
        let mut draft = self.draft(path, access)?;
        draft.write_all(bytes)?;
        draft.replace_durably()
    }

    /// Makes the names in it durable.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn sync(&self) -> io::Result<()> {
        Ok(raw::fsync(&self.0)?)
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

    /// Where a path beneath it leads, also through links that stay beneath it.
    #[must_use]
    pub fn resolved(&self, path: &Path) -> Option<PathBuf> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let found = openat2(&self.0, path, flags, Mode::empty(), ResolveFlags::BENEATH).ok()?;
        let path_of = |fd: BorrowedFd<'_>| std::fs::read_link(in_proc(fd)).ok();
        let found = path_of(found.as_fd())?;
        found.strip_prefix(path_of(self.as_fd())?).ok().map(Path::to_owned)
    }

    /// Lets the owner into a folder.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn open_up(&self, path: &Path) -> io::Result<()> {
        match self.look(path)? {
            Some(found) if found.kind == Kind::Folder => self.set_mode(path, 0o700),
            _ => Ok(()),
        }
    }

    /// Sets the permissions of a folder; the empty path is the folder itself.
    ///
    /// # Errors
    /// Those of the operating system, also when a link is on the way.
    pub fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        if path.as_os_str().is_empty() {
            return Ok(raw::fchmod(&self.0, Mode::from_raw_mode(mode))?);
        }
        let found = self.at(path, OFlags::PATH | OFlags::DIRECTORY)?;
        std::fs::set_permissions(in_proc(found.as_fd()), Permissions::from_mode(mode))
    }

    /// Makes a folder under a name that nobody can foresee, which begins with `prefix`; returns its name.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn make_draft_folder(&self, prefix: &str) -> io::Result<String> {
        for _ in 0..TRIES {
            let name = random_name(prefix)?;
            match mkdirat(&self.0, &*name, Mode::from_raw_mode(0o777)) {
                Ok(()) => return Ok(name),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
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

    /// Removes the drafts in this folder. Only processes that were killed may have left them: nobody else writes here now.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn remove_drafts(&self) -> io::Result<()> {
        for (name, kind) in self.entries()? {
            if kind == Kind::File && is_draft(&name) {
                self.remove_file(Path::new(&name))?;
            }
        }
        Ok(())
    }
}
