//! The staging directory of a change: files are written to it first, then moved into the workspace.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, renameat};
use rustix::io::Errno;
use windlass_kernel::Digest;

use super::extras::is_usual;
use super::object_reader::{ObjectRead, ObjectReader, ReadError};
use super::rooted_dir::{RootedDir, file_name_of};
use super::{Entry, EntryMode, SnapshotError};
use crate::TreeId;
use crate::git::os;

/// The limit of a symbolic link's target.
const LINK_BYTES_MAX: usize = 64 * 1024;
const OPERATION: &str = "write";
/// Up to so many files are brought to the disk one by one.
const SYNCED_MAX: usize = 256;

/// A directory of files that are to be moved into a workspace; removed when it is dropped.
pub(super) struct StagingDir {
    folder: PathBuf,
    /// The permissions of a new program.
    usual: u32,
}

impl Drop for StagingDir {
    fn drop(&mut self) {
        // If that fails, the next change removes it.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl StagingDir {
    pub fn create(folder: PathBuf) -> Result<Self, SnapshotError> {
        let fail = |error: io::Error| SnapshotError::file("create", &folder, &error);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
            Ok(()) | Err(_) => {}
        }
        fs::create_dir(&folder).map_err(fail)?;
        // A new folder has what the user's default leaves.
        let mode = fs::metadata(&folder).map_err(fail)?.permissions().mode() & 0o777;
        Ok(Self { folder, usual: if is_usual(mode) { mode } else { 0o755 } })
    }

    fn path(&self, number: usize) -> PathBuf {
        self.folder.join(number.to_string())
    }

    /// The permissions that an entry gets: its own; else those of the file that it will replace, if they are usual.
    pub fn permissions(&self, entry: &Entry, replaced: Option<u32>) -> Permissions {
        match (entry.permissions, replaced.filter(|mode| is_usual(*mode))) {
            (Some(own), _) => Permissions::from_mode(own),
            (None, replaced) => permissions_for(entry.mode, replaced.unwrap_or(self.usual)),
        }
    }

    /// Writes an entry to the directory; `permissions` are those of the file that it will replace.
    pub fn write(
        &self,
        number: usize,
        entry: &Entry,
        permissions: Option<u32>,
        tree: &TreeId,
        objects: &mut ObjectReader<'_>,
    ) -> Result<(), SnapshotError> {
        let path = self.path(number);
        let fail = |error: io::Error| SnapshotError::file(OPERATION, &path, &error);
        let failed = |error: ReadError| error.at(OPERATION, &path);
        if entry.mode == EntryMode::Symlink {
            let target = objects.bytes(&entry.object, LINK_BYTES_MAX).map_err(failed)?;
            let target = target.ok_or_else(|| objects.snapshots.corrupt(tree, &entry.object))?;
            return symlink(os(&target), &path).map_err(fail);
        }
        let file = File::options().write(true).create_new(true).mode(0o600).open(&path);
        let mut file = file.map_err(fail)?;
        let read = objects.copy(&entry.object, &mut |chunk| file.write_all(chunk));
        if read.map_err(failed)? == ObjectRead::Damaged {
            return Err(objects.snapshots.corrupt(tree, &entry.object));
        }
        file.set_permissions(self.permissions(entry, permissions)).map_err(fail)?;
        if number < SYNCED_MAX { file.sync_data().map_err(fail) } else { Ok(()) }
    }

    /// Waits until the content of so many entries is on the disk: after a power failure no path has less than the whole.
    pub fn sync(count: usize) {
        if count > SYNCED_MAX {
            rustix::fs::sync();
        }
    }

    /// Moves an entry into the workspace, over a file that is there.
    pub fn move_into(&self, number: usize, dir: &RootedDir, path: &Path) -> io::Result<()> {
        let folder = dir.make_parent(path)?;
        let from = self.path(number);
        match renameat(CWD, &from, &folder, file_name_of(path)?) {
            Ok(()) => return Ok(()),
            Err(Errno::XDEV) => {}
            Err(error) => return Err(error.into()),
        }
        // On another disk: copy it beside the path first, under a name that a second try uses again.
        let name = format!(".windlass-{}", temporary(path));
        dir.remove(&path.with_file_name(&name))?;
        let found = fs::symlink_metadata(&from)?;
        if found.is_symlink() {
            rustix::fs::symlinkat(fs::read_link(&from)?, &folder, name.as_str())?;
        } else {
            let flags = rustix::fs::OFlags::CREATE
                | rustix::fs::OFlags::EXCL
                | rustix::fs::OFlags::WRONLY
                | rustix::fs::OFlags::CLOEXEC;
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            let mut file: File = rustix::fs::openat(&folder, name.as_str(), flags, mode)?.into();
            io::copy(&mut File::open(&from)?, &mut file)?;
            file.set_permissions(found.permissions())?;
            file.sync_data()?;
        }
        Ok(renameat(&folder, name.as_str(), &folder, file_name_of(path)?)?)
    }
}

fn temporary(path: &Path) -> String {
    let digest = Digest::of(path.as_os_str().as_bytes());
    digest.hex().as_str().chars().take(16).collect()
}

/// The permissions of the replaced file, with the executable bits of `mode`.
pub(super) fn permissions_for(mode: EntryMode, before: u32) -> Permissions {
    let before = before & 0o777;
    Permissions::from_mode(match mode {
        EntryMode::Executable => before | ((before & 0o444) >> 2) | 0o100,
        EntryMode::File | EntryMode::Symlink | EntryMode::NestedRepository | EntryMode::Folder => {
            before & !0o111
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_file_stays_private() {
        let mode = |mode, before| permissions_for(mode, before).mode();
        assert_eq!(mode(EntryMode::Executable, 0o600), 0o700);
        assert_eq!(mode(EntryMode::Executable, 0o644), 0o755);
        assert_eq!(mode(EntryMode::File, 0o4751), 0o640);
    }
}
