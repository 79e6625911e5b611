//! Whole files only: written beside their place, then moved there.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

/// Counts temporary files, so that threads do not meet in one.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// What the names of files that are not yet in their place have in them.
const TEMPORARY: &str = ".tmp-";

/// Whether a name is that of a file that is not yet in its place.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && name.contains(TEMPORARY)
}

/// What becomes of a file that is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// It stays, and nothing is written.
    Never,
    /// It is replaced.
    IfThere,
}

/// A file that is not yet in its place. It is removed unless it gets there.
pub(crate) struct Draft {
    pub(crate) file: File,
    temporary: PathBuf,
    path: PathBuf,
    placed: bool,
}

impl Draft {
    /// Starts a file for `path`.
    pub(crate) fn new(path: &Path, mode: u32) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!(".{name}{TEMPORARY}{}-{number}", std::process::id());
            let temporary = path.with_file_name(name);
            let mut options = File::options();
            options.read(true).write(true).create_new(true).mode(mode);
            match options.open(&temporary) {
                Ok(file) => {
                    return Ok(Self { file, temporary, path: path.to_owned(), placed: false });
                }
                // A dead process had the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes it durable and moves it to its place.
    pub(crate) fn place(mut self, replace: Replace) -> io::Result<()> {
        self.file.sync_all()?;
        match replace {
            Replace::IfThere => std::fs::rename(&self.temporary, &self.path)?,
            Replace::Never => move_new(&self.temporary, &self.path)?,
        }
        self.placed = true;
        sync_parent(&self.path)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.placed {
            // Nobody can be told, and nobody takes it for the file.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// Moves a file to where nothing may be.
fn move_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every file system can do that; a second name cannot replace anything either.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            std::fs::hard_link(from, to)?;
            std::fs::remove_file(from)
        }
        moved => Ok(moved?),
    }
}

/// Makes what was done to the names in a file's folder durable.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Writes a small file whole, replacing what is there.
pub(crate) fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut draft = Draft::new(path, mode)?;
    draft.file.write_all(bytes)?;
    draft.place(Replace::IfThere)
}

/// Opens a regular file; never a link, and never waiting for what is none. `None` when there is none.
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

/// Reads text of at most so many bytes.
pub(crate) fn read_text(file: &File, bytes_max: u64) -> io::Result<String> {
    let mut text = String::new();
    file.take(bytes_max.saturating_add(1)).read_to_string(&mut text)?;
    if u64::try_from(text.len()).is_ok_and(|length| length <= bytes_max) {
        return Ok(text);
    }
    Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is too large"))
}
