//! A file that is written before it takes its place.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};

use rustix::fs::{
    self as raw, AtFlags, Mode, OFlags, RenameFlags, fchmod, renameat, renameat_with, statat,
    unlinkat,
};
use rustix::io::Errno;

use crate::Folder;

/// Attempts to find a free name.
pub const TRIES: usize = 16;
/// Prefix of the names of drafts.
const PREFIX: &str = ".windlass-tmp-";

/// The permissions of a file that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Exactly these.
    Exactly(u32),
    /// These, less what the user's mask takes away.
    AtMost(u32),
}

/// A file under a name that nobody can foresee, which is removed unless it takes its place.
#[derive(Debug)]
pub struct Draft {
    folder: Folder,
    file: File,
    draft: String,
    name: OsString,
    access: Access,
    is_placed: bool,
}

/// A name that nobody can foresee.
pub fn random_name(prefix: &str) -> io::Result<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    Ok(format!("{prefix}{:032x}", u128::from_ne_bytes(random)))
}

/// Tells the name of a draft from other names.
pub fn is_draft(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

/// Moves an entry to where nothing is.
pub fn move_new(from: &Folder, name: &OsStr, to: &Folder, new: &OsStr) -> rustix::io::Result<()> {
    match renameat_with(from, name, to, new, RenameFlags::NOREPLACE) {
        // Not every file system can do both at once.
        Err(Errno::INVAL | Errno::NOSYS) => match statat(to, new, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => renameat(from, name, to, new),
            Err(error) => Err(error),
        },
        moved => moved,
    }
}

impl Draft {
    /// Begins the file `name` of a folder.
    pub(crate) fn new(folder: Folder, name: &OsStr, access: Access) -> io::Result<Self> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = match access {
            Access::Exactly(_) => 0o600,
            Access::AtMost(mode) => mode & 0o777,
        };
        for _ in 0..TRIES {
            let draft = random_name(PREFIX)?;
            let mode = Mode::from_raw_mode(mode);
            let file = match raw::openat(&folder, &*draft, flags | OFlags::CLOEXEC, mode) {
                Ok(file) => File::from(file),
                Err(Errno::EXIST) => continue,
                Err(error) => return Err(error.into()),
            };
            let name = name.to_owned();
            return Ok(Self { folder, file, draft, name, access, is_placed: false });
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn finish(&self) -> io::Result<()> {
        // Exact, whatever the mask of new files is.
        if let Access::Exactly(mode) = self.access {
            fchmod(&self.file, Mode::from_raw_mode(mode & 0o7777))?;
        }
        Ok(())
    }

    /// Takes its place where nothing is.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`], and those of the operating system.
    pub fn create(mut self) -> io::Result<()> {
        self.finish()?;
        move_new(&self.folder, OsStr::new(&self.draft), &self.folder, &self.name)?;
        self.is_placed = true;
        Ok(())
    }

    /// Takes the place of the file or link that is there, or of nothing.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn replace(mut self) -> io::Result<()> {
        self.finish()?;
        self.take_place()
    }

    /// As [`Draft::replace`]; the file and its name are durable then.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn replace_durably(mut self) -> io::Result<()> {
        self.finish()?;
        self.file.sync_all()?;
        self.take_place()?;
        self.folder.sync()
    }

    fn take_place(&mut self) -> io::Result<()> {
        renameat(&self.folder, &self.draft, &self.folder, &self.name)?;
        self.is_placed = true;
        Ok(())
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_placed {
            // The error that led here is told.
            let _ = unlinkat(&self.folder, &self.draft, AtFlags::empty());
        }
    }
}
