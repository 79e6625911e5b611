//! Small files that are either whole or not there.

use std::io;
use std::path::Path;

use windlass_beneath::{Access, Folder};

/// Writes a file that only its owner can read: to a temporary file, which is then renamed.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (folder, name) = parts(path)?;
    Folder::open(folder)?.replace_durably(name, bytes, Access::AtMost(0o600))
}

/// Makes a rename in a folder durable.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    Folder::open(parts(path)?.0)?.sync()
}

/// The folder and the name of a file.
pub fn parts(path: &Path) -> io::Result<(&Path, &Path)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    Ok((folder.unwrap_or(Path::new(".")), Path::new(name)))
}
