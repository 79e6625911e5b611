//! Files that a command reads: those that its arguments name, and those of a configuration.
//!
//! Only regular files are read: a named pipe would block until somebody writes to it, a device may never end.

use std::fs::{File, FileType};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use windlass_beneath::Folder;
use windlass_kernel::Code;

use crate::failure::Failure;

/// How error messages name standard input.
const STANDARD_INPUT: &str = "standard input";

/// The failure for a file that cannot be read.
pub fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Code::FileUnreadable, format!("`{}` cannot be read: {error}", path.display()))
}

/// Whether a path means standard input, for arguments that allow it.
pub fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-") || path == Path::new("/dev/stdin")
}

/// Opens a regular file.
pub fn open(path: &Path) -> Result<File, Failure> {
    look(path)?;
    Ok(open_listed(path)?.0)
}

/// Refuses what is no regular file, before it is opened: opening a device can have effects.
fn look(path: &Path) -> Result<(), Failure> {
    let found = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    require_regular(path, found.file_type())
}

/// Opens a file that was seen to be a regular one, and says how large it is. It may have been replaced since.
fn open_listed(path: &Path) -> Result<(File, u64), Failure> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(file.map_err(|error| unreadable(path, &error.into()))?);
    let found = file.metadata().map_err(|error| unreadable(path, &error))?;
    require_regular(path, found.file_type())?;
    Ok((file, found.len()))
}

/// Opens a regular file, or standard input.
pub fn open_or_standard_input(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if is_standard_input(path) { Ok(Box::new(io::stdin())) } else { Ok(Box::new(open(path)?)) }
}

/// Reads a regular file of a limited size.
pub fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Failure> {
    look(path)?;
    read_listed(path, bytes_max)
}

/// Reads a file of a limited size that its folder lists as a regular one.
pub fn read_listed(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Failure> {
    let (mut file, bytes) = open_listed(path)?;
    read_all(&mut file, path, bytes_max, bytes)
}

/// Reads a regular file of a limited size by an absolute path in which no link may be.
pub fn read_real(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Failure> {
    look(path)?;
    Folder::read_real(path, bytes_max).map_err(|error: io::Error| {
        if error.kind() == io::ErrorKind::FileTooLarge {
            too_large(path, bytes_max)
        } else {
            unreadable(path, &error)
        }
    })
}

/// Reads a limited number of bytes from standard input.
pub fn read_standard_input(bytes_max: u64) -> Result<Vec<u8>, Failure> {
    read_all(&mut io::stdin().lock(), Path::new(STANDARD_INPUT), bytes_max, 0)
}

/// Reads all of a source, of which so many bytes are expected.
fn read_all(
    source: &mut dyn Read,
    path: &Path,
    bytes_max: u64,
    expected: u64,
) -> Result<Vec<u8>, Failure> {
    // With room for one more byte, the end is found without growing.
    let room = usize::try_from(expected.min(bytes_max)).unwrap_or_default().saturating_add(1);
    let mut bytes = Vec::with_capacity(room);
    let read = source.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(path, &error))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= bytes_max) {
        return Ok(bytes);
    }
    Err(too_large(path, bytes_max))
}

fn too_large(path: &Path, bytes_max: u64) -> Failure {
    let name = match path == Path::new(STANDARD_INPUT) {
        true => STANDARD_INPUT.to_owned(),
        false => format!("`{}`", path.display()),
    };
    let message = format!("{name} has more than the {bytes_max} bytes allowed");
    Failure::new(Code::DocSizeExceeded, message)
}

fn require_regular(path: &Path, kind: FileType) -> Result<(), Failure> {
    if kind.is_file() {
        return Ok(());
    }
    let what = if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    let message = format!("`{}` cannot be read: it is {what}, not a regular file", path.display());
    Err(Failure::new(Code::FileUnreadable, message)
        .hint("name a regular file; what a pipe or a device gives can be saved to one first"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "1234").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        for name in ["file", "link"] {
            assert_eq!(read(&at(name), 4).map_err(|failure| failure.summary()).unwrap(), b"1234");
            assert_eq!(read(&at(name), 3).unwrap_err().code(), Code::DocSizeExceeded);
        }
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), Mode::from_raw_mode(0o600)).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
        for (name, what) in [
            ("pipe", "a named pipe"),
            ("socket", "a socket"),
            ("zero", "a device"),
            (".", "a folder"),
            ("missing", "No such file"),
        ] {
            let failure = read(&at(name), 4).unwrap_err();
            assert_eq!(failure.code(), Code::FileUnreadable, "{name}");
            assert!(failure.summary().contains(what), "{}", failure.summary());
        }
    }
}
