//! Paths below the workspace's folder: how they are resolved and opened.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2, readlinkat};
use rustix::io::Errno;
use windlass_kernel::is_git_name;

use crate::error::FilesError;
use crate::limits::PATH_BYTES_MAX;
use crate::replacement::is_temporary;

/// How many links one path may go through, as in the kernel.
const LINKS_MAX: usize = 40;

/// Our own folder, which is never written to, in any letter case; nor is git's.
const OURS: &str = ".windlass";

/// The workspace's folder.
pub(crate) struct Root {
    fd: OwnedFd,
    /// Without links.
    path: PathBuf,
    /// As the caller wrote it: agents may use that form.
    given: PathBuf,
    /// Relative to the folder.
    hidden: BTreeSet<PathBuf>,
}

/// What to do with links on the way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    Follow,
    Refuse,
}

/// A path below the root, without links and `..`; empty for the root itself.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) path: PathBuf,
    /// `None` if there is nothing.
    pub(crate) kind: Option<FileType>,
}

/// The text of a path below the root, for messages and results.
pub(crate) fn text_of(path: &Path) -> String {
    if path.as_os_str().is_empty() { ".".to_owned() } else { path.to_string_lossy().into_owned() }
}

/// Whether a name is that of a git folder, or of the file that takes its place.
pub(crate) fn is_git(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(".git")
}

impl Root {
    pub(crate) fn new(root: &Path, hidden: Vec<PathBuf>) -> Result<Self, FilesError> {
        let opening = |error: &std::io::Error| FilesError::io("open", "the workspace", error);
        let path = root.canonicalize().map_err(|error| opening(&error))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&path, flags, Mode::empty())
            .map_err(|error| opening(&error.into()))?;
        let mut root = Self { fd, path, given: root.to_owned(), hidden: BTreeSet::new() };
        for path in hidden {
            root.hide(&path)?;
        }
        Ok(root)
    }

    /// Hides a path as it is written and, if it leads through links, the file they lead to.
    fn hide(&mut self, path: &Path) -> Result<(), FilesError> {
        let absolute = self.path.join(self.without_root(path).unwrap_or(path));
        for form in [normal(&absolute), canonical(&absolute)] {
            if self.path.starts_with(&form) {
                return Err(FilesError::Refused("the whole workspace is hidden".to_owned()));
            }
            // What lies outside cannot be reached anyway.
            if let Ok(relative) = form.strip_prefix(&self.path) {
                self.hidden.insert(relative.to_owned());
            }
        }
        Ok(())
    }

    /// Whether agents do not see `path`, provided that they see the folder it lies in.
    pub(crate) fn is_hidden(&self, path: &Path) -> bool {
        self.hidden.contains(path) || path.file_name().is_some_and(is_temporary)
    }

    /// The rest of an absolute path that begins with the root.
    fn without_root<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.strip_prefix(&self.path).or_else(|_| path.strip_prefix(&self.given)).ok()
    }

    /// The parts of a path, relative to the root.
    fn parts(&self, path: &Path) -> Option<Vec<OsString>> {
        let relative = if path.is_absolute() { self.without_root(path)? } else { path };
        let parts = relative.components().filter(|part| *part != Component::CurDir);
        Some(parts.map(|part| part.as_os_str().to_owned()).collect())
    }

    /// Resolves the path of a call.
    pub(crate) fn resolve(&self, text: &str, links: Links) -> Result<Resolved, FilesError> {
        if text.is_empty() || text.contains('\0') || text.len() > PATH_BYTES_MAX {
            let expected = format!("a path has 1 to {PATH_BYTES_MAX} bytes and no NUL");
            return Err(FilesError::Invalid(expected));
        }
        let outside = |how: &str| {
            let advice = "use a path relative to the workspace";
            Err(FilesError::Refused(format!("`{text}` {how} the workspace; {advice}")))
        };
        let missing = || Err(FilesError::NotFound { path: text.to_owned() });
        let Some(parts) = self.parts(Path::new(text)) else { return outside("is outside") };
        let mut pending = VecDeque::from(parts);
        let mut path = PathBuf::new();
        let mut kind = Some(FileType::Directory);
        let mut links_followed = 0;
        while let Some(part) = pending.pop_front() {
            if part == ".." {
                if kind.is_none() {
                    return missing();
                }
                if !path.pop() {
                    return outside("leads out of");
                }
                continue;
            }
            path.push(part);
            if self.is_hidden(&path) {
                return missing();
            }
            if kind.is_none() {
                continue;
            }
            let (found, target) = self.look_at(text, &path)?;
            kind = found;
            if let Some(target) = target {
                links_followed += 1;
                if links == Links::Refuse {
                    return Err(self.refused_link(text, &path));
                }
                if links_followed > LINKS_MAX {
                    return missing();
                }
                // An absolute target starts at the root again, a relative one at the link's folder.
                if target.is_absolute() {
                    path.clear();
                } else {
                    path.pop();
                }
                let Some(parts) = self.parts(&target) else { return outside("leads out of") };
                for part in parts.into_iter().rev() {
                    pending.push_front(part);
                }
                kind = Some(FileType::Directory);
            } else if !pending.is_empty() && kind.is_some_and(|kind| kind != FileType::Directory) {
                return missing();
            }
        }
        Ok(Resolved { path, kind })
    }

    fn refused_link(&self, text: &str, link: &Path) -> FilesError {
        let advice = match self.resolve(text, Links::Follow) {
            Ok(resolved) => format!("; write to `{}` instead", text_of(&resolved.path)),
            Err(_) => String::new(),
        };
        let link = text_of(link);
        FilesError::Refused(format!(
            "`{link}` is a symbolic link, which is not written through{advice}"
        ))
    }

    /// What lies at `path`, and the target if it is a link. Never follows one.
    fn look_at(
        &self,
        text: &str,
        path: &Path,
    ) -> Result<(Option<FileType>, Option<PathBuf>), FilesError> {
        let failed = |error| FilesError::system("look at", text, error);
        let fd = match self.open(path, OFlags::PATH) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok((None, None)),
            Err(error) => return Err(failed(error)),
        };
        let kind = FileType::from_raw_mode(fstat(&fd).map_err(failed)?.st_mode);
        if kind != FileType::Symlink {
            return Ok((Some(kind), None));
        }
        let target = readlinkat(&fd, "", Vec::new()).map_err(failed)?;
        Ok((Some(kind), Some(PathBuf::from(OsString::from_vec(target.into_bytes())))))
    }

    /// Opens a resolved path without following any link, magic ones included.
    fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        openat2(&self.fd, path, flags, Mode::empty(), resolve)
    }

    /// Opens a resolved folder.
    pub(crate) fn open_folder(&self, path: &Path) -> Result<OwnedFd, Errno> {
        self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Opens a regular file for reading.
    pub(crate) fn open_file(&self, resolved: &Resolved) -> Result<File, FilesError> {
        let text = text_of(&resolved.path);
        match resolved.kind {
            None => return Err(FilesError::NotFound { path: text }),
            Some(FileType::RegularFile) => {}
            // Opening a device can already have an effect.
            Some(other) => return Err(not_a_file(&text, other)),
        }
        // A FIFO in its place must not block.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let failed = |error| FilesError::system("open", &text, error);
        let fd = self.open(&resolved.path, flags).map_err(failed)?;
        let kind = FileType::from_raw_mode(fstat(&fd).map_err(failed)?.st_mode);
        if kind == FileType::RegularFile { Ok(fd.into()) } else { Err(not_a_file(&text, kind)) }
    }

    /// Resolves the path of a file that is to be written.
    pub(crate) fn resolve_for_writing(&self, text: &str) -> Result<Resolved, FilesError> {
        let resolved = self.resolve(text, Links::Refuse)?;
        let protected = resolved
            .path
            .iter()
            .find(|part| part.eq_ignore_ascii_case(OURS) || part.to_str().is_some_and(is_git_name));
        if let Some(part) = protected {
            let part = part.to_string_lossy();
            return Err(FilesError::Refused(format!(
                "`{part}` is not written to; choose another path"
            )));
        }
        Ok(resolved)
    }

    /// What a link shows: its target, unless that lies outside.
    pub(crate) fn shown_target(&self, link: &Path, target: &Path) -> String {
        let folder = link.parent().unwrap_or(Path::new(""));
        let absolute = self.path.join(folder).join(target);
        match self.without_root(&normal(&absolute)) {
            Some(_) => target.to_string_lossy().into_owned(),
            None => "(outside the workspace)".to_owned(),
        }
    }
}

fn not_a_file(text: &str, kind: FileType) -> FilesError {
    if kind == FileType::Directory {
        return FilesError::Invalid(format!(
            "`{text}` is a folder; use `list`, or a path of a file"
        ));
    }
    FilesError::Refused(format!("`{text}` is not a regular file"))
}

/// The path without `.` and `..`, whatever links there are.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => normal.push(part),
        }
    }
    normal
}

/// The path without links, as far as it exists.
fn canonical(path: &Path) -> PathBuf {
    for folder in path.ancestors() {
        if let (Ok(found), Ok(rest)) = (folder.canonicalize(), path.strip_prefix(folder)) {
            return normal(&found.join(rest));
        }
    }
    normal(path)
}
