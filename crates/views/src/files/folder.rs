//! The folder of the files of runs: files are written atomically, and nothing outside is touched.
//!
//! Every file is opened relative to a handle of its folder, and no symbolic link is followed, inside the root or on the
//! way to it, so a planted link cannot redirect a write: the root may lie in a workspace, where agents make links. All processes share one lock file: every writer
//! holds the lock, so a temporary file that is found under it is a leftover. Temporary files have a folder of
//! their own: those of runs become many, and would have to be listed to find a leftover among them.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use windlass_beneath::Folder as Root;
use windlass_engine::EngineError;

/// The prefix of the paths of `windlass-formats`, which the root replaces.
const ARTIFACTS: &str = "artifacts/";
const LOCK: &str = ".lock";
/// Keeps the files out of a git repository that contains the folder: they would make it dirty, or be
/// committed by the run that they show. A user who wants to track them empties this file.
const IGNORE: &str = ".gitignore";
/// The folder of temporary files.
const TEMPORARY: &str = ".tmp";
/// How much of a file is searched at a time.
const SEARCHED_BYTES: usize = 64 * 1024;

/// Numbers the temporary files of this process.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// The root folder.
pub(super) struct Folder {
    /// An absolute path without links.
    root: PathBuf,
}

/// The lock for writing; released on drop.
pub(super) struct Locked {
    _file: File,
}

/// A path, split into the folder below the root and the file name.
struct FilePath<'a> {
    folder: &'a str,
    file: &'a str,
}

impl Folder {
    pub(super) const fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The path of a file on disk.
    pub(super) fn on_disk(&self, path: &str) -> PathBuf {
        self.root.join(path.strip_prefix(ARTIFACTS).unwrap_or(path))
    }

    pub(super) fn unwritable(&self, path: &str, source: io::Error) -> EngineError {
        EngineError::Unwritable { path: self.on_disk(path).display().to_string(), source }
    }

    /// Waits for the lock for writing, and removes what dead processes left.
    pub(super) fn lock(&self) -> Result<Locked, EngineError> {
        let lock = || {
            let root = Root::make_real(&self.root)?;
            let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = File::from(openat(&root, LOCK, flags, Mode::from_raw_mode(0o644))?);
            file.lock()?;
            Ok((root, Locked { _file: file }))
        };
        let (root, locked) = lock().map_err(|source| self.unwritable(LOCK, source))?;
        self.sweep().map_err(|source| self.unwritable(TEMPORARY, source))?;
        if matches!(statat(&root, IGNORE, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT)) {
            self.replace(IGNORE, b"*\n", &locked)?;
        }
        Ok(locked)
    }

    /// Removes the temporary files of dead processes.
    fn sweep(&self) -> io::Result<()> {
        let handle = match self.open_existing(TEMPORARY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        for entry in Dir::read_from(&handle)? {
            let entry = entry?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                unlinkat(&handle, entry.file_name(), AtFlags::empty())?;
            }
        }
        Ok(())
    }

    /// Reads a file of at most `bytes_max` bytes; `None` if it does not exist.
    ///
    /// A link, a folder, a device or a longer file is an error.
    pub(super) fn read(&self, path: &str, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.open_if_present(path)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() > bytes_max {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is too large"));
        }
        Ok(Some(bytes))
    }

    /// Writes a file atomically; a file that already has this content is not touched.
    pub(super) fn write(&self, path: &str, bytes: &[u8]) -> Result<(), EngineError> {
        if self.has(path, bytes) {
            return Ok(());
        }
        let locked = self.lock()?;
        self.replace(path, bytes, &locked)
    }

    /// Removes a file; returns whether it existed.
    pub(super) fn remove(&self, path: &str) -> Result<bool, EngineError> {
        let _locked = self.lock()?;
        let drop = || -> io::Result<bool> {
            let folder = match self.open_existing(split_path(path).folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                opened => opened?,
            };
            match unlinkat(&folder, split_path(path).file, AtFlags::empty()) {
                Ok(()) => Ok(true),
                Err(Errno::NOENT) => Ok(false),
                Err(error) => Err(error.into()),
            }
        };
        drop().map_err(|source| self.unwritable(path, source))
    }

    /// Removes files, and their folders once these are empty; returns how many files existed.
    pub(super) fn remove_all(&self, paths: &[String]) -> Result<u64, EngineError> {
        let _locked = self.lock()?;
        let mut removed = 0;
        for path in paths {
            let FilePath { folder, file } = split_path(path);
            let remove = || -> io::Result<bool> {
                let handle = match self.open_existing(folder) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                    opened => opened?,
                };
                let existed = match unlinkat(&handle, file, AtFlags::empty()) {
                    Ok(()) => true,
                    Err(Errno::NOENT) => false,
                    Err(error) => return Err(error.into()),
                };
                // As long as there is something in it, it stays.
                let _ = unlinkat(Root::open_real(&self.root)?, folder, AtFlags::REMOVEDIR);
                Ok(existed)
            };
            removed += u64::from(remove().map_err(|source| self.unwritable(path, source))?);
        }
        Ok(removed)
    }

    /// How many of these files exist.
    pub(super) fn count(&self, paths: &[String]) -> u64 {
        let exists = |path: &&String| self.open_if_present(path).is_ok_and(|file| file.is_some());
        paths.iter().filter(exists).count() as u64
    }

    fn has(&self, path: &str, bytes: &[u8]) -> bool {
        matches!(self.read(path, bytes.len()), Ok(Some(now)) if now == bytes)
    }

    /// Replaces a file atomically.
    pub(super) fn replace(&self, path: &str, bytes: &[u8], _: &Locked) -> Result<(), EngineError> {
        let FilePath { folder, file } = split_path(path);
        let replace = || -> io::Result<()> {
            let handle = self.open(folder)?;
            let durable = must_be_durable(split_path(path).folder);
            let temporaries = self.open(TEMPORARY)?;
            let (name, mut temporary) = create_temporary(&temporaries)?;
            let written = temporary
                .write_all(bytes)
                .and_then(|()| if durable { temporary.sync_all() } else { Ok(()) })
                .and_then(|()| Ok(renameat(&temporaries, name.as_str(), &handle, file)?));
            if written.is_err() {
                // A leftover is swept later.
                let _ = unlinkat(&temporaries, name.as_str(), AtFlags::empty());
            }
            written.and_then(|()| if durable { handle.sync_all() } else { Ok(()) })
        };
        replace().map_err(|source| self.unwritable(path, source))
    }

    /// Appends to a file if it ends with `tail`; returns whether it did.
    pub(super) fn append_after(
        &self,
        path: &str,
        tail: &[u8],
        bytes: &[u8],
        _: &Locked,
    ) -> Result<bool, EngineError> {
        let append = || -> io::Result<bool> {
            let folder = self.open(split_path(path).folder)?;
            let flags = OFlags::RDWR | OFlags::APPEND;
            let mut file = match open_file(&folder, split_path(path).file, flags) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                opened => opened?,
            };
            let metadata = file.metadata()?;
            let length = u64::try_from(tail.len()).unwrap_or(u64::MAX);
            // A second hard link may lie outside the folder; then the file is replaced, not appended to.
            if metadata.nlink() != 1 || metadata.len() < length {
                return Ok(false);
            }
            file.seek(SeekFrom::Start(metadata.len() - length))?;
            let mut end = vec![0; tail.len()];
            file.read_exact(&mut end)?;
            if end != tail {
                return Ok(false);
            }
            // A torn end is repaired from the journal, so a sync for every phase is not needed.
            file.write_all(bytes)?;
            Ok(true)
        };
        append().map_err(|source| self.unwritable(path, source))
    }

    /// Whether a file of at most `bytes_max` bytes contains an ASCII text.
    pub(super) fn contains(
        &self,
        path: &str,
        part: &str,
        bytes_max: usize,
    ) -> Result<bool, EngineError> {
        let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
        let searched = || match self.open_if_present(path)? {
            Some(mut file) if file.metadata()?.len() <= limit => contains(&mut file, part),
            Some(_) | None => Ok(false),
        };
        searched().map_err(|source| self.unwritable(path, source))
    }

    /// The length of a file; `None` if it does not exist.
    pub(super) fn len(&self, path: &str) -> Result<Option<u64>, EngineError> {
        let len = || match self.open_if_present(path)? {
            Some(file) => Ok(Some(file.metadata()?.len())),
            None => Ok(None),
        };
        len().map_err(|source| self.unwritable(path, source))
    }

    /// Renames a file within its folder.
    pub(super) fn rename(&self, path: &str, to: &str, _: &Locked) -> Result<(), EngineError> {
        let rename = || -> io::Result<()> {
            let folder = self.open_existing(split_path(path).folder)?;
            Ok(renameat(&folder, split_path(path).file, &folder, split_path(to).file)?)
        };
        rename().map_err(|source| self.unwritable(to, source))
    }

    /// The names of the files in the folder of a file.
    pub(super) fn beside(&self, path: &str) -> Result<Vec<String>, EngineError> {
        let list = || -> io::Result<Vec<String>> {
            let folder = match self.open_existing(split_path(path).folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                opened => opened?,
            };
            let names = Dir::read_from(&folder)?
                .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
            names.collect()
        };
        list().map_err(|source| self.unwritable(path, source))
    }

    fn open_if_present(&self, path: &str) -> io::Result<Option<File>> {
        let opened = self
            .open_existing(split_path(path).folder)
            .and_then(|folder| open_file(&folder, split_path(path).file, OFlags::RDONLY));
        match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Opens a folder below the root; creates it if it is missing.
    fn open(&self, folder: &str) -> io::Result<File> {
        match self.open_existing(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        let root = Root::make_real(&self.root)?;
        match mkdirat(&root, folder, Mode::from_raw_mode(0o755)) {
            Ok(()) => root.sync()?,
            Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        self.open_existing(folder)
    }

    fn open_existing(&self, folder: &str) -> io::Result<File> {
        let root = Root::open_real(&self.root)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&root, folder, flags, Mode::empty())?))
    }
}

/// Whether a file contains an ASCII text.
fn contains(file: &mut File, part: &str) -> io::Result<bool> {
    let mut window = Vec::with_capacity(SEARCHED_BYTES.saturating_add(part.len()));
    let limit = u64::try_from(SEARCHED_BYTES).unwrap_or(u64::MAX);
    loop {
        let read = io::Read::by_ref(file).take(limit).read_to_end(&mut window)?;
        if String::from_utf8_lossy(&window).contains(part) {
            return Ok(true);
        }
        if read == 0 {
            return Ok(false);
        }
        // A part of it may stand at the end.
        let kept = window.len().saturating_sub(part.len());
        window.drain(..kept);
    }
}

/// Opens a regular file without following a link or blocking.
fn open_file(folder: &File, name: &str, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(folder, name, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
}

fn create_temporary(folder: &File) -> io::Result<(String, File)> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", std::process::id());
        match openat(folder, name.as_str(), flags, Mode::from_raw_mode(0o644)) {
            Ok(file) => return Ok((name, File::from(file))),
            // Left by a dead process with the same process id.
            Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether the files of a folder must be durable: packets, for which people and programs wait. All other
/// files are written again from the journal if they are lost.
fn must_be_durable(folder: &str) -> bool {
    matches!(folder, "checkpoints" | "terminal")
}

fn split_path(path: &str) -> FilePath<'_> {
    let path = path.strip_prefix(ARTIFACTS).unwrap_or(path);
    let (folder, file) = path.rsplit_once('/').unwrap_or((".", path));
    FilePath { folder, file }
}
