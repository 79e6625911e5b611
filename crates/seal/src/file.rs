//! Atomic file writes: a temporary file in the same folder, then a rename.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

/// Counts temporary files, so that threads never share a name.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// The infix in the names of temporary files.
const TEMPORARY_INFIX: &str = ".tmp-";

/// Whether a name is that of a temporary file.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && name.contains(TEMPORARY_INFIX)
}

/// What to do if the target file already exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfExists {
    /// Fail and leave it unchanged.
    Fail,
    /// Replace it.
    Replace,
}

/// A file that is being written under a temporary name; removed on drop unless it was persisted.
pub(crate) struct TemporaryFile {
    pub(crate) file: File,
    temporary: PathBuf,
    path: PathBuf,
    persisted: bool,
}

impl TemporaryFile {
    /// Creates a temporary file for `path`.
    pub(crate) fn new(path: &Path, mode: u32) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!(".{name}{TEMPORARY_INFIX}{}-{number}", std::process::id());
            let temporary = path.with_file_name(name);
            let mut options = File::options();
            options.read(true).write(true).create_new(true).mode(mode);
            match options.open(&temporary) {
                Ok(file) => {
                    return Ok(Self { file, temporary, path: path.to_owned(), persisted: false });
                }
                // Left by a dead process with the same process id.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes the file durable and renames it to its final path.
    pub(crate) fn persist(mut self, if_exists: IfExists) -> io::Result<()> {
        self.file.sync_all()?;
        match if_exists {
            IfExists::Replace => {
                // A link, a device or a folder is never replaced.
                if self.path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
                    let message = "it exists and is not a regular file";
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
                }
                std::fs::rename(&self.temporary, &self.path)?;
            }
            IfExists::Fail => rename_new(&self.temporary, &self.path)?,
        }
        self.persisted = true;
        sync_parent(&self.path)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.persisted {
            // Drop cannot report an error, and the name marks the file as temporary.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// Renames a file; fails if the target exists.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every file system supports this flag. A hard link never replaces a file either.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            std::fs::hard_link(from, to)?;
            std::fs::remove_file(from)
        }
        renamed => Ok(renamed?),
    }
}

/// Syncs the parent folder, which makes renames in it durable.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Writes a small file atomically and replaces an existing one.
pub(crate) fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut temporary = TemporaryFile::new(path, mode)?;
    temporary.file.write_all(bytes)?;
    temporary.persist(IfExists::Replace)
}

/// Opens a regular file without following a link or blocking; `None` if it does not exist.
pub(crate) fn open(path: &Path, flags: OFlags) -> io::Result<Option<File>> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if file.metadata()?.is_file() {
        return Ok(Some(file));
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
}

/// Reads text of at most `bytes_max` bytes.
pub(crate) fn read_text(file: &File, bytes_max: u64) -> io::Result<String> {
    let mut text = String::new();
    file.take(bytes_max.saturating_add(1)).read_to_string(&mut text)?;
    if u64::try_from(text.len()).is_ok_and(|length| length <= bytes_max) {
        return Ok(text);
    }
    Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is too large"))
}
