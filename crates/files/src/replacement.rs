//! Replacing a file at once: the new one is written without a name, where the file system can do that, and then linked or renamed to
//! its place. A name that a killed process left is never shown, and removed by the next write in its folder.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    AtFlags, CWD, Dir, FlockOperation, Gid, Mode, OFlags, RenameFlags, Stat, Uid, fchmod, fchown,
    flock, fstat, fsync, linkat, openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

/// How the names of temporary files begin.
const TEMPORARY_PREFIX: &str = ".windlass-tmp-";

/// Counts temporary files, so that threads never share a name.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Whether a name is that of a temporary file.
pub(crate) fn is_temporary(name: &OsStr) -> bool {
    name.as_bytes().starts_with(TEMPORARY_PREFIX.as_bytes())
}

/// A file that is to take its place; removed on drop unless it was committed.
pub(crate) struct Replacement {
    folder: OwnedFd,
    file: File,
    name: OsString,
    /// Its name for the time being, if it has one.
    temporary: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReplacementError {
    /// The file to replace is not the one that was read.
    Changed,
    /// The owner cannot be kept.
    Owner,
    System(Errno),
}

impl From<Errno> for ReplacementError {
    fn from(error: Errno) -> Self {
        Self::System(error)
    }
}

impl Replacement {
    /// Writes `content` to a file in `folder` that will be called `name`.
    pub(crate) fn new(
        folder: OwnedFd,
        name: &OsStr,
        content: &[u8],
    ) -> Result<Self, ReplacementError> {
        remove_abandoned(&folder);
        let (file, temporary) = create(&folder)?;
        let mut replacement = Self { folder, file, name: name.to_owned(), temporary };
        // Tells other processes that the name is in use; the kernel lets go of it when this process ends.
        let _ = flock(&replacement.file, FlockOperation::NonBlockingLockExclusive);
        let written = replacement.file.write_all(content);
        written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        Ok(replacement)
    }

    /// Gives the file its owner and mode.
    pub(crate) fn permit(
        &self,
        present: Option<&Metadata>,
        mode: u32,
    ) -> Result<(), ReplacementError> {
        if let Some(present) = present {
            let own = fstat(&self.file)?;
            if (own.st_uid, own.st_gid) != (present.uid(), present.gid()) {
                let (uid, gid) = (Uid::from_raw(present.uid()), Gid::from_raw(present.gid()));
                fchown(&self.file, Some(uid), Some(gid)).map_err(|_| ReplacementError::Owner)?;
            }
        }
        // After the owner, because a new owner clears bits; and exact, whatever the umask is.
        Ok(fchmod(&self.file, Mode::from_raw_mode(mode))?)
    }

    /// Makes the file durable and puts it in its place, if that is as `present` says.
    pub(crate) fn commit(mut self, present: Option<&Metadata>) -> Result<(), ReplacementError> {
        fsync(&self.file)?;
        match present {
            Some(present) => {
                let temporary = self.named()?;
                let found = statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW);
                if !found.is_ok_and(|found| is_same(&found, present)) {
                    return Err(ReplacementError::Changed);
                }
                renameat(&self.folder, temporary, &self.folder, &self.name)?;
            }
            None => match self.put_new() {
                Err(Errno::EXIST) => return Err(ReplacementError::Changed),
                put => put?,
            },
        }
        self.temporary = None;
        Ok(fsync(&self.folder)?)
    }

    /// The file's temporary name; it gets one if it has none, because only a file with a name can replace another.
    fn named(&mut self) -> Result<String, Errno> {
        if let Some(temporary) = &self.temporary {
            return Ok(temporary.clone());
        }
        loop {
            let temporary = temporary_name();
            match link(&self.file, &self.folder, OsStr::new(&temporary)) {
                Ok(()) => {
                    self.temporary = Some(temporary.clone());
                    return Ok(temporary);
                }
                // Left by a dead process with the same process id.
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Puts the file where nothing is.
    fn put_new(&self) -> Result<(), Errno> {
        let (folder, name) = (&self.folder, &self.name);
        let Some(temporary) = &self.temporary else { return link(&self.file, folder, name) };
        match renameat_with(folder, temporary, folder, name, RenameFlags::NOREPLACE) {
            // Not every file system supports this flag. A hard link never replaces a file either.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                linkat(folder, temporary, folder, name, AtFlags::empty())?;
                unlinkat(folder, temporary, AtFlags::empty())
            }
            renamed => renamed,
        }
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // Drop cannot report an error; the next write in the folder tries again.
            let _ = unlinkat(&self.folder, temporary, AtFlags::empty());
        }
    }
}

/// Creates a file without a name or, where that is impossible, with a temporary one.
fn create(folder: &OwnedFd) -> Result<(File, Option<String>), Errno> {
    let mode = Mode::from_raw_mode(0o600);
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(file) = openat(folder, ".", flags | OFlags::TMPFILE, mode) {
        return Ok((file.into(), None));
    }
    loop {
        let temporary = temporary_name();
        let create = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        match openat(folder, &temporary, flags | create, mode) {
            Ok(file) => return Ok((file.into(), Some(temporary))),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
    }
}

fn temporary_name() -> String {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{TEMPORARY_PREFIX}{}-{number}", std::process::id())
}

/// Gives a file without a name this one; fails if the name is taken.
fn link(file: &File, folder: impl AsFd, name: &OsStr) -> Result<(), Errno> {
    let from = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, from, folder, name, AtFlags::SYMLINK_FOLLOW)
}

/// Whether a file is still the one that was read: a change of its content changes these times.
fn is_same(found: &Stat, read: &Metadata) -> bool {
    let times = |seconds: i64, nanos: i64| (seconds, nanos);
    found.st_dev == read.dev()
        && found.st_ino == read.ino()
        && i64::try_from(read.size()).is_ok_and(|size| size == found.st_size)
        && times(found.st_mtime, i64::try_from(found.st_mtime_nsec).unwrap_or(-1))
            == times(read.mtime(), read.mtime_nsec())
        && times(found.st_ctime, i64::try_from(found.st_ctime_nsec).unwrap_or(-1))
            == times(read.ctime(), read.ctime_nsec())
}

/// Removes the temporary files that dead processes left.
fn remove_abandoned(folder: &OwnedFd) {
    let Ok(entries) = Dir::read_from(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if !name.to_bytes().starts_with(TEMPORARY_PREFIX.as_bytes()) {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = openat(folder, name, flags, Mode::empty()) else { continue };
        // Whoever still writes it holds the lock.
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // The next write tries again.
            let _ = unlinkat(folder, name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &std::path::Path) -> OwnedFd {
        File::open(folder).unwrap().into()
    }

    fn names(folder: &std::path::Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_that_is_being_written_has_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let new = Replacement::new(open(folder.path()), OsStr::new("a"), b"one").unwrap();
        assert_eq!(names(folder.path()), Vec::<String>::new());
        new.commit(None).unwrap();
        assert_eq!(names(folder.path()), ["a"]);
        let again = Replacement::new(open(folder.path()), OsStr::new("a"), b"two").unwrap();
        assert_eq!(again.commit(None), Err(ReplacementError::Changed));
        assert_eq!(std::fs::read(folder.path().join("a")).unwrap(), b"one");
    }

    #[test]
    fn a_file_that_was_changed_since_it_was_read_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "one").unwrap();
        let read = path.metadata().unwrap();
        // Another file with the same content takes its place.
        std::fs::write(folder.path().join("b"), "one").unwrap();
        std::fs::rename(folder.path().join("b"), &path).unwrap();
        let new = Replacement::new(open(folder.path()), OsStr::new("a"), b"two").unwrap();
        assert_eq!(new.commit(Some(&read)), Err(ReplacementError::Changed));
        assert_eq!(names(folder.path()), ["a"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut writing = Replacement::new(open(folder.path()), OsStr::new("a"), b"1").unwrap();
        let living = writing.named().unwrap();
        let left = folder.path().join(format!("{TEMPORARY_PREFIX}1-0"));
        std::fs::write(&left, "half").unwrap();
        let new = Replacement::new(open(folder.path()), OsStr::new("b"), b"2").unwrap();
        new.commit(None).unwrap();
        let mut found = names(folder.path());
        found.sort();
        assert_eq!(found, [living.as_str(), "b"]);
        drop(writing);
        assert_eq!(names(folder.path()), ["b"]);
    }

    #[test]
    fn without_unnamed_files_a_temporary_name_does() {
        let folder = tempfile::tempdir().unwrap();
        let fd = open(folder.path());
        let temporary = temporary_name();
        let file = File::create_new(folder.path().join(&temporary)).unwrap();
        let name = OsString::from("a");
        let new = Replacement { folder: fd, file, name, temporary: Some(temporary) };
        new.commit(None).unwrap();
        assert_eq!(names(folder.path()), ["a"]);
    }
}
