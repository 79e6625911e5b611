//! Small files that are either whole or not there.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The infix in the names of temporary files.
const TEMPORARY: &str = ".tmp-";

/// Writes a file that only its owner can read: to a temporary file, which is then renamed.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes, 0o600, None)
}

/// Writes a file that has these permissions, less what the user's mask takes away.
pub fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    replace(path, bytes, mode, None)
}

/// Writes a file that has exactly these permissions.
pub fn write_with(path: &Path, bytes: &[u8], permissions: Permissions) -> io::Result<()> {
    replace(path, bytes, 0o600, Some(permissions))
}

fn replace(
    path: &Path,
    bytes: &[u8],
    mode: u32,
    permissions: Option<Permissions>,
) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}{TEMPORARY}{}", std::process::id()));
    // One left by a dead process with the same process id.
    drop(std::fs::remove_file(&temporary));
    let mut options = OpenOptions::new();
    let written = options.write(true).create_new(true).mode(mode).open(&temporary);
    let written = written.and_then(|mut file| {
        file.write_all(bytes)?;
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    });
    if written.is_err() {
        // The original error is reported.
        drop(std::fs::remove_file(&temporary));
    }
    written.and_then(|()| sync_parent(path))
}

/// Makes a rename in a folder durable.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}
