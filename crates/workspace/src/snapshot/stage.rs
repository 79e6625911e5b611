//! Contents on their way into a workspace: written aside first, then moved into place.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, renameat};
use rustix::io::Errno;
use windlass_kernel::Digest;

use super::objects::{Got, Objects, Trouble};
use super::place::{Place, leaf};
use super::{Entry, EntryMode, SnapshotError, Snapshots};
use crate::TreeId;
use crate::git::os;

/// Of where a symbolic link leads.
const LINK_BYTES_MAX: usize = 64 * 1024;
const OPERATION: &str = "write aside";

/// A folder of contents that are to be moved into a workspace; it goes when it is dropped.
pub(super) struct Stage {
    folder: PathBuf,
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What is left is removed by the next one.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Stage {
    pub fn new(folder: PathBuf) -> Result<Self, SnapshotError> {
        let fail = |error: io::Error| SnapshotError::file("make", &folder, &error);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
            Ok(()) | Err(_) => {}
        }
        fs::create_dir(&folder).map_err(fail)?;
        Ok(Self { folder })
    }

    fn path(&self, number: usize) -> PathBuf {
        self.folder.join(number.to_string())
    }

    /// Writes a content aside; `permissions` are those of the file that it will replace.
    pub fn fill(
        &self,
        number: usize,
        entry: &Entry,
        permissions: Option<u32>,
        tree: &TreeId,
        objects: &mut Objects<'_>,
    ) -> Result<(), SnapshotError> {
        let path = self.path(number);
        let fail = |error: io::Error| SnapshotError::file(OPERATION, &path, &error);
        let damaged =
            || SnapshotError::Corrupt { tree: tree.clone(), object: entry.object.clone() };
        let trouble = |trouble| match trouble {
            Trouble::Git(error) => error.into(),
            Trouble::Sink(error) => fail(error),
        };
        if entry.mode == EntryMode::Link {
            let target = objects.bytes(&entry.object, LINK_BYTES_MAX).map_err(trouble)?;
            return symlink(os(&target.ok_or_else(damaged)?), &path).map_err(fail);
        }
        let mode = if entry.mode == EntryMode::Executable { 0o777 } else { 0o666 };
        let file = File::options().write(true).create_new(true).mode(mode).open(&path);
        let mut file = file.map_err(fail)?;
        let got = objects.copy(&entry.object, &mut |chunk| file.write_all(chunk));
        if got.map_err(trouble)? == Got::Bad {
            return Err(damaged());
        }
        if let Some(mode) = permissions {
            file.set_permissions(permissions_for(entry.mode, mode)).map_err(fail)?;
        }
        Ok(())
    }

    /// Moves a content into place, over whatever file is there.
    pub fn place(&self, number: usize, place: &Place, path: &Path) -> io::Result<()> {
        let folder = place.make_parent(path)?;
        let from = self.path(number);
        match renameat(CWD, &from, &folder, leaf(path)?) {
            Ok(()) => return Ok(()),
            Err(Errno::XDEV) => {}
            Err(error) => return Err(error.into()),
        }
        // On another disk: beside it first, under a name that a second try finds again.
        let name = format!(".windlass-{}", &temporary(path));
        place.remove(&path.with_file_name(&name))?;
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
        }
        Ok(renameat(&folder, name.as_str(), &folder, leaf(path)?)?)
    }
}

fn temporary(path: &Path) -> String {
    let digest = Digest::of(path.as_os_str().as_bytes());
    digest.hex().as_str().chars().take(16).collect()
}

/// Permissions that differ from those of the file before only in who may execute it.
pub(super) fn permissions_for(mode: EntryMode, before: u32) -> Permissions {
    let before = before & 0o777;
    Permissions::from_mode(match mode {
        EntryMode::Executable => before | ((before & 0o444) >> 2) | 0o100,
        EntryMode::File | EntryMode::Link | EntryMode::Nested => before & !0o111,
    })
}

impl Snapshots {
    /// The folder for contents on their way into a workspace.
    pub(super) fn stage(
        &self,
        workspace: &super::workspace::Workspace,
    ) -> Result<Stage, SnapshotError> {
        Stage::new(workspace.stage(&self.private))
    }
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
