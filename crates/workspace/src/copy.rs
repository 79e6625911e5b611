//! Copies single files from one folder tree to another.
//!
//! INVARIANT: no symbolic link is followed on either side, so nothing outside of the two folders is read or
//! written.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use windlass_beneath::{Access, Folder};
use windlass_kernel::Digest;

/// A file that can be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// Its size.
    pub bytes: u64,
    /// The digest of its content.
    pub digest: Digest,
    /// Its permissions.
    pub mode: u32,
}

/// Reads a regular file below a folder; `None` if there is nothing at the path.
///
/// # Errors
/// [`io::Error`] if it is no regular file, is larger than `bytes_max`, or lies behind a symbolic link.
pub fn find_file(root: &Path, path: &Path, bytes_max: u64) -> io::Result<Option<FoundFile>> {
    let Some(mut file) = open_below(root, path)? else { return Ok(None) };
    let found = file.metadata()?;
    if found.len() > bytes_max {
        return Err(io::Error::other(format!("it has more than {bytes_max} bytes")));
    }
    let (digest, bytes) = copy(&mut file, &mut io::sink())?;
    Ok(Some(FoundFile { bytes, digest, mode: found.permissions().mode() & 0o777 }))
}

/// Copies a file with its permissions; a file that is there is replaced. Folders are made. Nobody else may write there
/// meanwhile: what a process that was killed has left is removed.
///
/// # Errors
/// [`io::Error`] if it is not the file that was found before, or cannot be written.
pub fn copy_file(
    (from_root, from): (&Path, &Path),
    (to_root, to): (&Path, &Path),
    expected: &FoundFile,
) -> io::Result<()> {
    let Some(mut source) = open_below(from_root, from)? else { return Err(Errno::NOENT.into()) };
    let mut target = Folder::open(to_root)?;
    if let Some(folder) = to.parent() {
        target = target.make_folder(folder)?;
    }
    let name = to.file_name().ok_or(Errno::INVAL)?;
    target.remove_drafts()?;
    let mut draft = target.draft(Path::new(name), Access::Exactly(expected.mode))?;
    let (digest, _) = copy(&mut source, &mut draft)?;
    if digest != expected.digest {
        return Err(io::Error::other("it changed while it was copied"));
    }
    draft.replace()
}

/// Opens a file below a folder without following a symbolic link.
fn open_below(root: &Path, path: &Path) -> io::Result<Option<File>> {
    match Folder::open(root)?.file(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Some(Errno::LOOP) => Err(io::Error::other("it is or lies behind a symbolic link")),
            _ => Err(error),
        },
    }
}

/// Copies all bytes; returns their digest and number.
fn copy(from: &mut File, to: &mut dyn io::Write) -> io::Result<(Digest, u64)> {
    let (mut hasher, mut count) = (Sha256::new(), 0_u64);
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let read = match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let some = chunk.get(..read).unwrap_or_default();
        hasher.update(some);
        to.write_all(some)?;
        count = count.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
    }
    Ok((Digest::from_bytes(hasher.finalize().into()), count))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_copied_with_its_mode_and_only_as_it_was_found() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("a")).unwrap();
        fs::create_dir(&to).unwrap();
        let path = Path::new("a/x.toml");
        fs::write(from.join(path), "one").unwrap();
        fs::set_permissions(from.join(path), fs::Permissions::from_mode(0o640)).unwrap();
        let found = find_file(&from, path, 10).unwrap().unwrap();
        assert_eq!((found.bytes, found.mode, found.digest), (3, 0o640, Digest::of(b"one")));
        fs::create_dir(to.join("a")).unwrap();
        // Left by a process that was killed.
        fs::write(to.join("a/.windlass-tmp-0123"), "half").unwrap();
        copy_file((&from, path), (&to, path), &found).unwrap();
        assert_eq!(fs::read_to_string(to.join(path)).unwrap(), "one");
        assert_eq!(fs::metadata(to.join(path)).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(to.join("a")).unwrap().count(), 1);
        fs::write(from.join(path), "two").unwrap();
        copy_file((&from, path), (&to, path), &found).unwrap_err();
        assert_eq!(fs::read_to_string(to.join(path)).unwrap(), "one");
        assert_eq!(fs::read_dir(to.join("a")).unwrap().count(), 1);
        assert_eq!(find_file(&from, Path::new("b"), 10).unwrap(), None);
        find_file(&from, path, 2).unwrap_err();
        find_file(&from, Path::new("a"), 10).unwrap_err();
    }

    #[test]
    fn no_link_is_followed_on_either_side() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to, out] = ["from", "to", "out"].map(|name| folder.path().join(name));
        for folder in [&from, &to, &out] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(out.join("x"), "secret").unwrap();
        symlink(&out, from.join("out")).unwrap();
        symlink(out.join("x"), from.join("x")).unwrap();
        for path in ["out/x", "x", "../out/x"] {
            find_file(&from, Path::new(path), 10).unwrap_err();
        }
        fs::write(from.join("y"), "mine").unwrap();
        let found = find_file(&from, Path::new("y"), 10).unwrap().unwrap();
        symlink(&out, to.join("out")).unwrap();
        let way = Path::new("out/y");
        copy_file((&from, Path::new("y")), (&to, way), &found).unwrap_err();
        assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
        // A link in the place of the file is replaced, not followed.
        symlink(out.join("x"), to.join("y")).unwrap();
        copy_file((&from, Path::new("y")), (&to, Path::new("y")), &found).unwrap();
        assert_eq!(fs::read_to_string(out.join("x")).unwrap(), "secret");
        assert_eq!(fs::read_to_string(to.join("y")).unwrap(), "mine");
    }
}
