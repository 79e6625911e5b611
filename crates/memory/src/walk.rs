//! The Markdown files of a folder. Symbolic links are never followed, so that nothing outside of the
//! folder is read, whoever changes it meanwhile.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};

/// How deep folders may be in each other.
const DEPTH_MAX: usize = 32;

/// A file as it was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundFile {
    /// The path in the folder.
    pub path: String,
    pub bytes: i64,
    pub modified_ns: i64,
}

/// The files of a folder.
#[derive(Debug, Default)]
pub struct Walk {
    pub files: Vec<FoundFile>,
    /// Whether these are all of them: neither the number nor the time was too much.
    pub complete: bool,
}

/// What a walk may cost.
#[derive(Clone, Copy, Debug)]
pub struct WalkLimits {
    pub files_max: usize,
    pub deadline: Instant,
}

/// Lists the Markdown files of a folder. Hidden files and folders do not count, nor does what cannot be
/// read.
pub fn walk(root: &Path, limits: WalkLimits) -> std::io::Result<Walk> {
    // The folder itself may be a link: it is what the user named.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(CWD, root, flags, Mode::empty())?;
    let mut walk = Walk { files: Vec::new(), complete: true };
    visit(folder, "", 0, limits, &mut walk);
    walk.files.sort_unstable();
    Ok(walk)
}

fn visit(folder: OwnedFd, prefix: &str, depth: usize, limits: WalkLimits, walk: &mut Walk) {
    let Ok(entries) = Dir::read_from(&folder) else { return };
    for entry in entries {
        if walk.files.len() >= limits.files_max || Instant::now() >= limits.deadline {
            walk.complete = false;
            return;
        }
        let Ok(entry) = entry else { return };
        let Some(name) = visible_name(entry.file_name()) else { continue };
        let Ok(found) = statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory if depth < DEPTH_MAX => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                if let Ok(inner) = openat(&folder, entry.file_name(), flags, Mode::empty()) {
                    visit(inner, &path, depth + 1, limits, walk);
                }
            }
            FileType::RegularFile if is_markdown(name) => {
                let (bytes, modified_ns) = state(&found);
                walk.files.push(FoundFile { path, bytes, modified_ns });
            }
            FileType::Directory
            | FileType::RegularFile
            | FileType::Symlink
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => {}
        }
    }
}

fn visible_name(name: &CStr) -> Option<&str> {
    name.to_str().ok().filter(|name| !name.starts_with('.') && !name.contains(char::is_control))
}

fn is_markdown(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(OsStr::to_str).unwrap_or_default();
    extension.eq_ignore_ascii_case("md") || extension.eq_ignore_ascii_case("markdown")
}

/// The size and the time of the last change.
fn state(stat: &Stat) -> (i64, i64) {
    let nanoseconds = i64::try_from(stat.st_mtime_nsec).unwrap_or_default();
    (stat.st_size, stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(nanoseconds))
}

/// Reads the beginning of a file that was found, and says what it is now; `None` if it is not there or is
/// not a file.
pub fn read(root: &Path, path: &str, bytes_max: u64) -> Option<(FoundFile, String)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder = openat(CWD, root, flags, Mode::empty()).ok()?;
    let mut parts = path.split('/').peekable();
    while let Some(part) = parts.next() {
        let name = OsStr::from_bytes(part.as_bytes());
        if parts.peek().is_some() {
            folder = openat(&folder, name, flags | OFlags::NOFOLLOW, Mode::empty()).ok()?;
            continue;
        }
        // Whoever puts a pipe there must not make us wait.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&folder, name, flags, Mode::empty()).ok()?;
        let found = fstat(&file).ok()?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return None;
        }
        let (bytes, modified_ns) = state(&found);
        let mut contents = Vec::new();
        File::from(file).take(bytes_max).read_to_end(&mut contents).ok()?;
        let text = String::from_utf8_lossy(&contents).replace('\0', " ");
        return Some((FoundFile { path: path.to_owned(), bytes, modified_ns }, text));
    }
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use super::*;

    fn limits(files_max: usize) -> WalkLimits {
        WalkLimits { files_max, deadline: Instant::now() + Duration::from_secs(60) }
    }

    #[test]
    fn only_markdown_files_of_the_folder_itself_are_found() {
        let folder = tempfile::TempDir::new().unwrap();
        let outside = tempfile::TempDir::new().unwrap();
        std::fs::write(outside.path().join("secret.md"), "secret").unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join("sub/.hidden")).unwrap();
        for name in ["a.md", "sub/b.MARKDOWN", "sub/.hidden/c.md", ".d.md", "e.txt", "md"] {
            std::fs::write(root.join(name), "x").unwrap();
        }
        symlink(outside.path().join("secret.md"), root.join("link.md")).unwrap();
        symlink(outside.path(), root.join("linked")).unwrap();
        symlink(root.join("a.md"), root.join("inner.md")).unwrap();
        symlink(root, root.join("sub/loop")).unwrap();
        rustix::fs::mkfifoat(CWD, root.join("pipe.md"), Mode::RUSR).unwrap();
        let walk = walk(root, limits(100)).unwrap();
        let paths: Vec<_> = walk.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["a.md", "sub/b.MARKDOWN"]);
        assert!(walk.complete);
        assert_eq!(read(root, "a.md", 10).unwrap().1, "x");
        for path in ["link.md", "linked/secret.md", "pipe.md", "sub", "none.md", "../x.md"] {
            assert_eq!(read(root, path, 10), None, "{path}");
        }
    }

    #[test]
    fn limits_make_a_walk_incomplete() {
        let folder = tempfile::TempDir::new().unwrap();
        for number in 0..5 {
            std::fs::write(folder.path().join(format!("{number}.md")), "x").unwrap();
        }
        let cut = walk(folder.path(), limits(3)).unwrap();
        assert_eq!((cut.files.len(), cut.complete), (3, false));
        let late = WalkLimits { files_max: 9, deadline: Instant::now() };
        assert!(!walk(folder.path(), late).unwrap().complete);
        assert!(walk(&folder.path().join("none"), limits(9)).is_err());
    }

    #[test]
    fn only_the_beginning_is_read_and_damage_is_replaced() {
        let folder = tempfile::TempDir::new().unwrap();
        std::fs::write(folder.path().join("a.md"), b"ab\0\xffcdef").unwrap();
        let (_, text) = read(folder.path(), "a.md", 5).unwrap();
        assert_eq!(text, "ab \u{fffd}c");
    }
}
