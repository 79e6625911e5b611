//! Replaces a file of a git directory at once, under git's own lock where it has one.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// How the names of our temporary files begin.
const PREFIX: &str = "tmp_windlass_";

/// Writes a file completely, then moves it into place. While another git process holds the lock of the
/// file, this fails with [`io::ErrorKind::AlreadyExists`].
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    fs::create_dir_all(folder)?;
    let mut temporary = tempfile::Builder::new().prefix(PREFIX).tempfile_in(folder)?;
    temporary.write_all(bytes)?;
    let mode = fs::metadata(path)
        .map_or_else(|_| fs::Permissions::from_mode(0o644), |found| found.permissions());
    temporary.as_file().set_permissions(mode)?;
    temporary.as_file().sync_all()?;
    let name = path.file_name().unwrap_or_default();
    if name == "index" || name == "HEAD" {
        let mut lock = path.as_os_str().to_owned();
        lock.push(".lock");
        let lock = Path::new(&lock);
        // It appears complete, as a second name of a file of ours: one that a crash left is known by
        // that, or by its content.
        match fs::hard_link(temporary.path(), lock) {
            Err(_) if fs::read(lock).is_ok_and(|left| left == bytes) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !remove_own_lock(folder, lock)? {
                    return Err(error);
                }
                fs::hard_link(temporary.path(), lock)?;
            }
            linked => linked?,
        }
        fs::rename(lock, path)?;
    } else {
        temporary.persist(path).map_err(|error| error.error)?;
    }
    File::open(folder)?.sync_all()
}

/// Removes a lock that a crash of ours left between making it and moving it into place.
fn remove_own_lock(folder: &Path, lock: &Path) -> io::Result<bool> {
    let identity = |path: &Path| path.symlink_metadata().map(|found| (found.dev(), found.ino()));
    let locked = identity(lock)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_ours = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        if is_ours && identity(&entry.path()).is_ok_and(|own| own == locked) {
            fs::remove_file(lock)?;
            fs::remove_file(entry.path())?;
            return Ok(true);
        }
    }
    Ok(false)
}
