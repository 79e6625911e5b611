//! The folder of the blobs: file names, file handles, and removal of abandoned temporary files.
//!
//! Every file is opened relative to the folder's handle, and no symbolic link below it is followed.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use windlass_kernel::Digest;

use super::error::BlobError;

/// Locked shared by writers, and exclusively while abandoned temporary files are removed.
const LOCK: &str = ".lock";
/// The prefix of temporary files.
pub(crate) const TEMPORARY_PREFIX: &str = ".tmp-";
/// The suffix of blob files.
const SUFFIX: &str = ".zst";

/// A store of blobs in a folder.
#[derive(Debug)]
pub struct BlobStore {
    path: PathBuf,
    root: File,
    /// The folders below the root that are known to be synced to disk.
    durable: Mutex<BTreeSet<String>>,
}

/// The path of a blob: the folder below the root, and the file in it.
pub(crate) struct BlobPath {
    pub(crate) folder: String,
    pub(crate) file: String,
}

impl BlobPath {
    pub(crate) fn of(digest: &Digest) -> Self {
        let hex = digest.to_string();
        let (folder, file) = hex.split_at_checked(2).unwrap_or_default();
        Self { folder: folder.to_owned(), file: format!("{file}{SUFFIX}") }
    }
}

/// The digest of the blob with this path; `None` when it is not the path of a blob.
pub(crate) fn digest_at(folder: &str, file: &str) -> Option<Digest> {
    let rest = file.strip_suffix(SUFFIX)?;
    (folder.len() == 2).then(|| format!("{folder}{rest}").parse().ok()).flatten()
}

impl BlobStore {
    /// Opens the store in a folder, which is created if missing, and removes temporary files of dead
    /// processes.
    ///
    /// # Errors
    /// [`BlobError`] when the folder cannot be created or opened, or is a symbolic link.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, BlobError> {
        let path = path.into();
        let store = create(&path)
            .map(|root| Self { path: path.clone(), root, durable: Mutex::default() })
            .map_err(|error| BlobError::unwritable(&path, error))?;
        store.remove_abandoned()?;
        Ok(store)
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes a blob and returns whether it existed. The caller knows that it is no longer needed.
    ///
    /// # Errors
    /// [`BlobError`] when it cannot be removed.
    pub fn remove(&self, digest: &Digest) -> Result<bool, BlobError> {
        let path = BlobPath::of(digest);
        let removed = || -> io::Result<bool> {
            let Some(folder) = self.folder(&path.folder)? else { return Ok(false) };
            match unlinkat(&folder, path.file.as_str(), AtFlags::empty()) {
                Ok(()) => folder.sync_all().map(|()| true),
                Err(Errno::NOENT) => Ok(false),
                Err(error) => Err(error.into()),
            }
        };
        removed().map_err(|error| BlobError::unwritable(&self.path_of(digest), error))
    }

    /// The full path of a blob.
    pub(crate) fn path_of(&self, digest: &Digest) -> PathBuf {
        let path = BlobPath::of(digest);
        self.path.join(path.folder).join(path.file)
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

    /// Opens a folder below the root, which is created and synced to disk if missing.
    pub(crate) fn durable_folder(&self, name: &str) -> io::Result<File> {
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if !durable.contains(name) {
            match mkdirat(&self.root, name, Mode::from_raw_mode(0o700)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            // Another process may have created it, or others, without having synced yet.
            let present = names(&self.root)?;
            self.root.sync_all()?;
            durable.extend(present);
        }
        drop(durable);
        let folder = self.folder(name)?;
        folder.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the folder was removed"))
    }

    /// Opens the file of a blob; does not follow a link, and does not block on a pipe.
    pub(crate) fn open_file(&self, digest: &Digest) -> io::Result<Option<File>> {
        let path = BlobPath::of(digest);
        let Some(folder) = self.folder(&path.folder)? else { return Ok(None) };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match openat(&folder, path.file.as_str(), flags, Mode::empty()) {
            Ok(file) => Ok(Some(File::from(file))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the lock file; each handle can be locked on its own, in this process too.
    pub(crate) fn lock_file(&self) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.root, LOCK, flags, Mode::from_raw_mode(0o600))?))
    }

    /// Removes temporary files of dead processes: no process writes one while the lock is held
    /// exclusively.
    fn remove_abandoned(&self) -> Result<(), BlobError> {
        let remove = || -> io::Result<()> {
            let left = names(&self.root)?;
            let mut left =
                left.into_iter().filter(|name| name.starts_with(TEMPORARY_PREFIX)).peekable();
            if left.peek().is_none() {
                return Ok(());
            }
            let lock = self.lock_file()?;
            if lock.try_lock().is_err() {
                // A process is writing; the next one to open the store removes them.
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
        remove().map_err(|error| BlobError::unwritable(&self.path, error))
    }
}

/// The names in a folder, without `.` and `..`.
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

/// Opens the folder, which is created if missing.
fn create(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::DirBuilderExt as _;
    let created = std::fs::DirBuilder::new().mode(0o700).create(path);
    match created {
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
