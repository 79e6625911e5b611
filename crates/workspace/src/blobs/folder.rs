//! The folder of contents: its names, its handles, and what dead processes left in it.
//!
//! Every file is reached from the folder's handle, and no symbolic link below it is followed.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use windlass_kernel::Digest;

use super::error::BlobError;

/// Whoever puts has it together with others; whoever sweeps has it alone.
const LOCK: &str = ".lock";
/// What the names of files that are not yet contents start with.
pub(crate) const TEMPORARY: &str = ".tmp-";
/// What the names of contents end with.
const END: &str = ".zst";

/// A store of contents in a folder.
#[derive(Debug)]
pub struct Blobs {
    path: PathBuf,
    root: File,
    /// The folders below the root that are known to outlast a loss of power.
    lasting: Mutex<BTreeSet<String>>,
}

/// Where a content lies: the folder below the root, and the file in it.
pub(crate) struct Place {
    pub(crate) folder: String,
    pub(crate) file: String,
}

impl Place {
    pub(crate) fn of(digest: &Digest) -> Self {
        let hex = digest.to_string();
        let (folder, file) = hex.split_at_checked(2).unwrap_or_default();
        Self { folder: folder.to_owned(), file: format!("{file}{END}") }
    }
}

/// The content that lies under these names, if they are those of one.
pub(crate) fn digest_at(folder: &str, file: &str) -> Option<Digest> {
    let rest = file.strip_suffix(END)?;
    (folder.len() == 2).then(|| format!("{folder}{rest}").parse().ok()).flatten()
}

impl Blobs {
    /// Opens the store in a folder, which is made where it is missing, and removes what dead
    /// processes have left there.
    ///
    /// # Errors
    /// [`BlobError`] when the folder cannot be made or opened, or is a symbolic link.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, BlobError> {
        let path = path.into();
        let blobs = make(&path)
            .map(|root| Self { path: path.clone(), root, lasting: Mutex::default() })
            .map_err(|error| BlobError::unwritable(&path, error))?;
        blobs.sweep()?;
        Ok(blobs)
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes a content; says whether it was there. Whether it is still needed is not asked.
    ///
    /// # Errors
    /// [`BlobError`] when it cannot be removed.
    pub fn remove(&self, digest: &Digest) -> Result<bool, BlobError> {
        let place = Place::of(digest);
        let removed = || -> io::Result<bool> {
            let Some(folder) = self.folder(&place.folder)? else { return Ok(false) };
            match unlinkat(&folder, place.file.as_str(), AtFlags::empty()) {
                Ok(()) => folder.sync_all().map(|()| true),
                Err(Errno::NOENT) => Ok(false),
                Err(error) => Err(error.into()),
            }
        };
        removed().map_err(|error| BlobError::unwritable(&self.path_of(digest), error))
    }

    /// Where a content lies, or would.
    pub(crate) fn path_of(&self, digest: &Digest) -> PathBuf {
        let place = Place::of(digest);
        self.path.join(place.folder).join(place.file)
    }

    pub(crate) const fn root(&self) -> &File {
        &self.root
    }

    /// Opens a folder below the root; `None` when there is none.
    pub(crate) fn folder(&self, name: &str) -> io::Result<Option<File>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&self.root, name, flags, Mode::empty()) {
            Ok(folder) => Ok(Some(File::from(folder))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a folder below the root, making it where it is missing, so that it lasts.
    pub(crate) fn lasting_folder(&self, name: &str) -> io::Result<File> {
        let mut lasting = self.lasting.lock().unwrap_or_else(PoisonError::into_inner);
        if !lasting.contains(name) {
            match mkdirat(&self.root, name, Mode::from_raw_mode(0o700)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            // Another process may have made it, or others, and not have synced yet.
            let there = names(&self.root)?;
            self.root.sync_all()?;
            lasting.extend(there);
        }
        drop(lasting);
        let folder = self.folder(name)?;
        folder.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the folder was removed"))
    }

    /// Opens the file of a content; never a link, and never waiting for what is no file.
    pub(crate) fn open_file(&self, digest: &Digest) -> io::Result<Option<File>> {
        let place = Place::of(digest);
        let Some(folder) = self.folder(&place.folder)? else { return Ok(None) };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match openat(&folder, place.file.as_str(), flags, Mode::empty()) {
            Ok(file) => Ok(Some(File::from(file))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the lock file; each handle is a holder of its own, in this process too.
    pub(crate) fn lock_file(&self) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.root, LOCK, flags, Mode::from_raw_mode(0o600))?))
    }

    /// Removes the files that nobody is writing any more: nobody is while this has the lock alone.
    fn sweep(&self) -> Result<(), BlobError> {
        let sweep = || -> io::Result<()> {
            let left = names(&self.root)?;
            let mut left = left.into_iter().filter(|name| name.starts_with(TEMPORARY)).peekable();
            if left.peek().is_none() {
                return Ok(());
            }
            let lock = self.lock_file()?;
            if lock.try_lock().is_err() {
                // Somebody puts; the next one to open the store sweeps.
                return Ok(());
            }
            for name in left {
                match unlinkat(&self.root, name.as_str(), AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        };
        sweep().map_err(|error| BlobError::unwritable(&self.path, error))
    }
}

/// The names in a folder, but for those of itself and the one above it.
pub(crate) fn names(folder: &File) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(String::from_utf8_lossy(name).into_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Makes the folder where it is missing and opens it.
fn make(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = std::fs::DirBuilder::new().mode(0o700).create(path);
    match made {
        Ok(()) => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}
