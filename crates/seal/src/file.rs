//! Atomic file writes: a temporary file in the same folder, then a rename. The temporary file has no name while
//! it is written, where the file system can do that: a killed process leaves nothing beside the target.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, linkat, renameat_with};
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

/// A file that is being written without a name or under a temporary one; removed on drop unless it was
/// persisted.
pub(crate) struct TemporaryFile {
    pub(crate) file: File,
    /// The temporary name, if it has one.
    temporary: Option<PathBuf>,
    path: PathBuf,
}

impl TemporaryFile {
    /// Creates a temporary file for `path`.
    pub(crate) fn new(path: &Path, mode: u32) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        remove_abandoned(path, &name.to_string_lossy());
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        if let Ok(file) = rustix::fs::open(parent_of(path), flags, Mode::from_raw_mode(mode)) {
            return Ok(Self { file: file.into(), temporary: None, path: path.to_owned() });
        }
        loop {
            let temporary = temporary_name(path)?;
            let mut options = File::options();
            options.read(true).write(true).create_new(true).mode(mode);
            match options.open(&temporary) {
                Ok(file) => {
                    let temporary = Some(temporary);
                    return Ok(Self { file, temporary, path: path.to_owned() });
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
        let temporary = match &self.temporary {
            Some(temporary) => temporary.clone(),
            None if if_exists == IfExists::Fail => {
                link(&self.file, &self.path)?;
                return sync_parent(&self.path);
            }
            // Only a file with a name can replace another one.
            None => {
                let temporary = temporary_name(&self.path)?;
                link(&self.file, &temporary)?;
                self.temporary = Some(temporary.clone());
                temporary
            }
        };
        match if_exists {
            IfExists::Replace => {
                // A link, a device or a folder is never replaced.
                if self.path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
                    let message = "it exists and is not a regular file";
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
                }
                std::fs::rename(&temporary, &self.path)?;
            }
            IfExists::Fail => rename_new(&temporary, &self.path)?,
        }
        self.temporary = None;
        sync_parent(&self.path)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // Drop cannot report an error, and the name marks the file as temporary.
            let _ = std::fs::remove_file(temporary);
        }
    }
}

fn parent_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// A temporary name for `path` that no thread or process uses.
fn temporary_name(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!(".{name}{TEMPORARY_INFIX}{}-{number}", std::process::id());
    Ok(path.with_file_name(name))
}

/// Gives a file without a name this one; fails if the name is taken.
fn link(file: &File, path: &Path) -> io::Result<()> {
    let from = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, from, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

/// Removes the temporary files that dead processes left beside `path`.
fn remove_abandoned(path: &Path, name: &str) {
    let prefix = format!(".{name}{TEMPORARY_INFIX}");
    let Ok(entries) = std::fs::read_dir(parent_of(path)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(&prefix));
        let pid = number.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        let is_dead = pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        if is_dead && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            // The next write tries again.
            drop(std::fs::remove_file(entry.path()));
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
    File::open(parent_of(path))?.sync_all()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_file_that_is_being_written_has_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bundle");
        let mut temporary = TemporaryFile::new(&path, 0o600).unwrap();
        temporary.file.write_all(b"one").unwrap();
        assert_eq!(names(folder.path()), Vec::<String>::new());
        temporary.persist(IfExists::Fail).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        let again = TemporaryFile::new(&path, 0o600).unwrap();
        again.persist(IfExists::Fail).unwrap_err();
        write(&path, b"two", 0o600).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(names(folder.path()), ["bundle"]);
    }

    #[test]
    fn leftovers_of_dead_processes_are_removed_with_the_next_write() {
        let folder = tempfile::tempdir().unwrap();
        // No process has this id.
        for name in [".a.tmp-4194304999-0", ".b.tmp-4194304999-0", ".a.tmp-1-0", ".a.tmp-x"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        write(&folder.path().join("a"), b"", 0o600).unwrap();
        let mut left = names(folder.path());
        left.sort();
        assert_eq!(left, [".a.tmp-1-0", ".a.tmp-x", ".b.tmp-4194304999-0", "a"]);
    }
}
