//! What an overlay shows: an upper folder over a lower one, without mounting them.
//!
//! The upper folder is hostile: no link in it is followed, and nothing but regular files is opened.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::TakeOverError;

/// How many entries the upper folder may have.
const ENTRIES_MAX: usize = 400_000;
/// How deep the upper folder may be.
const DEPTH_MAX: usize = 40;
/// The mark of a folder that hides the lower one. The overlay is mounted with `userxattr`.
pub(super) const OPAQUE: &str = "user.overlay.opaque";

/// What is at a path of one of the two folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File {
        bytes: u64,
    },
    Folder {
        opaque: bool,
    },
    /// The mark of an entry that was deleted.
    Whiteout,
    /// A link, pipe, socket or device.
    Other,
}

/// What the overlay shows at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Absent,
    Upper(PathBuf, Kind),
    Lower(PathBuf, Kind),
}

impl Found {
    const fn is_folder(&self) -> bool {
        matches!(self, Self::Upper(_, Kind::Folder { .. }) | Self::Lower(_, Kind::Folder { .. }))
    }
}

/// An entry of the upper folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UpperEntry {
    /// Below the upper folder.
    pub path: PathBuf,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) struct Layers {
    /// `None` shows the lower folder as it is.
    pub upper: Option<PathBuf>,
    pub lower: PathBuf,
}

/// Returns what is at a path; `None` when there is nothing.
pub(super) fn kind_of(path: &Path) -> Option<Kind> {
    let found = fs::symlink_metadata(path).ok()?;
    let kind = found.file_type();
    Some(if kind.is_file() {
        Kind::File { bytes: found.size() }
    } else if kind.is_dir() {
        let mut value = [0; 8];
        let length = rustix::fs::lgetxattr(path, OPAQUE, &mut value);
        Kind::Folder { opaque: matches!(length, Ok(length) if length > 0) }
    } else if kind.is_char_device() && found.rdev() == 0 {
        Kind::Whiteout
    } else {
        Kind::Other
    })
}

/// Opens a regular file; a link is not followed.
pub(super) fn open_file(path: &Path) -> io::Result<File> {
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits();
    let flags = i32::try_from(flags).map_err(io::Error::other)?;
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    Ok(file)
}

/// Reads a regular file of a limited size; a link is not followed.
pub(in crate::git) fn read_file(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = open_file(path)?;
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("it has more than {bytes_max} bytes")));
    }
    Ok(bytes)
}

impl Layers {
    /// Lists all entries of the upper folder, folders included, each before what is in it.
    pub fn upper_entries(&self) -> Result<Vec<UpperEntry>, TakeOverError> {
        let mut entries = Vec::new();
        if let Some(upper) = &self.upper {
            list(upper, Path::new(""), 0, &mut entries)?;
        }
        Ok(entries)
    }

    /// Looks up a path below the top.
    pub fn find(&self, path: &Path) -> Found {
        let (mut lower, mut in_upper) = (true, true);
        let mut here = PathBuf::new();
        let mut parts = path.components().peekable();
        while let Some(part) = parts.next() {
            here.push(part);
            let last = parts.peek().is_none();
            let upper_path = self.upper.as_ref().map(|upper| upper.join(&here));
            let kind = upper_path.as_deref().filter(|_| in_upper).and_then(kind_of);
            match (kind, upper_path) {
                (Some(Kind::Whiteout), _) => return Found::Absent,
                (Some(kind), Some(path)) if last => return Found::Upper(path, kind),
                (Some(Kind::Folder { opaque }), _) => {
                    let below = kind_of(&self.lower.join(&here));
                    lower &= !opaque && matches!(below, Some(Kind::Folder { .. }));
                }
                (Some(Kind::File { .. } | Kind::Other), _) => return Found::Absent,
                (None, _) => in_upper = false,
            }
            if !in_upper && !lower {
                return Found::Absent;
            }
        }
        let path = self.lower.join(path);
        match kind_of(&path).filter(|_| lower) {
            Some(kind) => Found::Lower(path, kind),
            None => Found::Absent,
        }
    }

    /// Whether the upper layer hides what the lower one has, or had, at a path.
    pub fn hides(&self, path: &Path) -> bool {
        let Some(upper) = &self.upper else { return false };
        let mut here = PathBuf::new();
        let mut parts = path.components().peekable();
        while let Some(part) = parts.next() {
            here.push(part);
            match (kind_of(&upper.join(&here)), parts.peek()) {
                (None, _) => return false,
                (Some(Kind::Folder { opaque: false }), Some(_)) => {}
                (Some(_), _) => return true,
            }
        }
        false
    }

    /// Lists the entries of a folder.
    pub fn list(&self, folder: &Path) -> BTreeMap<PathBuf, Found> {
        let roots = [self.upper.as_ref(), Some(&self.lower)];
        let mut names = BTreeMap::new();
        for root in roots.into_iter().flatten() {
            let root = root.join(folder);
            if !matches!(kind_of(&root), Some(Kind::Folder { .. })) {
                continue;
            }
            for entry in fs::read_dir(root).into_iter().flatten().flatten() {
                let path = folder.join(entry.file_name());
                let found = self.find(&path);
                if found != Found::Absent {
                    names.insert(path, found);
                }
            }
        }
        names
    }

    /// Lists all files at or below a path, at most `count_max`; other kinds of entries are listed too.
    pub fn files(
        &self,
        path: &Path,
        count_max: usize,
    ) -> Result<BTreeMap<PathBuf, Found>, TakeOverError> {
        self.files_without(path, None, count_max)
    }

    /// As [`Layers::files`], without opening one of the folders below the path.
    pub fn files_without(
        &self,
        path: &Path,
        skipped: Option<&Path>,
        count_max: usize,
    ) -> Result<BTreeMap<PathBuf, Found>, TakeOverError> {
        let mut files = BTreeMap::new();
        let mut folders = Vec::new();
        let found = self.find(path);
        if found.is_folder() {
            folders.push((path.to_owned(), 0));
        } else if found != Found::Absent {
            files.insert(path.to_owned(), found);
        }
        while let Some((folder, depth)) = folders.pop() {
            for (path, found) in self.list(&folder) {
                if skipped == Some(&*path) {
                    continue;
                }
                if found.is_folder() {
                    folders.push((path, depth + 1));
                } else {
                    files.insert(path, found);
                }
            }
            if files.len() > count_max || depth > DEPTH_MAX {
                return Err(TakeOverError::damaged(&folder, "there are too many files"));
            }
        }
        Ok(files)
    }
}

fn list(
    upper: &Path,
    folder: &Path,
    depth: usize,
    entries: &mut Vec<UpperEntry>,
) -> Result<(), TakeOverError> {
    let fail = |error: &io::Error| TakeOverError::file(folder, error);
    if depth > DEPTH_MAX || entries.len() > ENTRIES_MAX {
        return Err(TakeOverError::damaged(folder, "there are too many files"));
    }
    for entry in fs::read_dir(upper.join(folder)).map_err(|error| fail(&error))? {
        let path = folder.join(entry.map_err(|error| fail(&error))?.file_name());
        let Some(kind) = kind_of(&upper.join(&path)) else { continue };
        entries.push(UpperEntry { path: path.clone(), kind });
        if matches!(kind, Kind::Folder { .. }) {
            list(upper, &path, depth + 1, entries)?;
        }
    }
    Ok(())
}
