//! What a project is known by: a random id in its configuration, and the record of its place in its state.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use windlass_beneath::{Access, Folder};
use windlass_kernel::Code;

use crate::atomic;
use crate::failure::Failure;
use crate::input::unreadable;
use crate::project::FOLDER;
use crate::state::cannot_write;

/// The file of a project's id, in its configuration; git ignores it.
const FILE: &str = "id";
/// The maximum size of that file.
const FILE_BYTES_MAX: u64 = 64;
/// The number of characters that name a state folder.
const SHORT: usize = 8;

/// The random id of a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProjectId(String);

impl ProjectId {
    /// Creates an id: a version 4 UUID.
    pub fn random() -> Result<Self, Failure> {
        let mut bytes = [0_u8; 16];
        getrandom::fill(&mut bytes).map_err(|error| {
            Failure::new(Code::Internal, format!("there is no randomness: {error}"))
                .hint("check that the system has a random source")
        })?;
        let number = u128::from_be_bytes(bytes) & !(0xf << 76 | 0xc << 60) | (4 << 76 | 8 << 60);
        let hex = format!("{number:032x}");
        let mut text = String::with_capacity(36);
        for (at, digit) in hex.chars().enumerate() {
            if matches!(at, 8 | 12 | 16 | 20) {
                text.push('-');
            }
            text.push(digit);
        }
        Ok(Self(text))
    }

    /// The part of the id that names the state folder.
    pub fn short(&self) -> &str {
        self.0.get(..SHORT).unwrap_or(&self.0)
    }

    /// Whether `text` is the id, or the beginning of it.
    pub fn matches(&self, text: &str) -> bool {
        text.len() >= SHORT && self.0.starts_with(text)
    }
}

impl TryFrom<String> for ProjectId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let is_dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let well_formed = text.bytes().enumerate().all(|(at, byte)| match is_dash(at) {
            true => byte == b'-',
            false => hex(byte),
        });
        if well_formed && text.len() == 36 { Ok(Self(text)) } else { Err("it is not a project id") }
    }
}

impl From<ProjectId> for String {
    fn from(id: ProjectId) -> Self {
        id.0
    }
}

impl fmt::Display for ProjectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Reads the id in a project's configuration folder; `None` if there is none. A link is not followed: the
/// repository could lead it to the id of another project.
pub fn read_id(folder: &Path) -> Result<Option<ProjectId>, Failure> {
    let path = folder.join(FILE);
    let damaged = |why: &str| {
        let message = format!("`{}` holds no project id: {why}", path.display());
        Failure::new(Code::StateDamaged, message).hint(
            "restore the file, whose id `windlass state list` shows; `windlass init --new` replaces it and starts \
             with an empty journal",
        )
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(&path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err(damaged("it is a symbolic link")),
        Err(error) => return Err(unreadable(&path, &error.into())),
    };
    let found = file.metadata().map_err(|error| unreadable(&path, &error))?;
    if !found.is_file() {
        return Err(damaged("it is not a regular file"));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|error| damaged(&error.to_string()))?;
    ProjectId::try_from(text.trim_end().to_owned()).map(Some).map_err(damaged)
}

/// Writes the id into a project's configuration folder, which must not be a link.
pub fn write_id(folder: &Path, id: &ProjectId) -> Result<(), Failure> {
    let path = folder.join(FILE);
    let write = || {
        let (root, name) = atomic::parts(folder)?;
        let text = format!("{id}\n");
        let folder = Folder::open(root)?.folder(name)?;
        folder.replace_durably(Path::new(FILE), text.as_bytes(), Access::AtMost(0o600))
    };
    write().map_err(|error: std::io::Error| cannot_write(&path, &error))
}

/// The record of the project that a state folder belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectRecord {
    /// Its id.
    pub id: ProjectId,
    /// The canonical path of its folder.
    pub path: String,
    /// The device of its folder.
    pub device: u64,
    /// The inode of its folder.
    pub inode: u64,
}

/// How a project relates to the record with its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// It is the recorded one.
    Here,
    /// The recorded one is gone: this is it, in another place.
    Moved,
    /// The recorded one is still there: this is a copy.
    Copied,
}

impl ProjectRecord {
    /// The record of the project in a folder, whose path is without links.
    pub fn of(root: &Path, id: ProjectId) -> Result<Self, Failure> {
        let found = root.metadata().map_err(|error| unreadable(root, &error))?;
        let Some(path) = root.to_str() else {
            let message = format!("the path `{}` is not UTF-8", root.display());
            return Err(Failure::new(Code::FileUnreadable, message)
                .hint("rename the folder: its path is recorded as text"));
        };
        Ok(Self { id, path: path.to_owned(), device: found.dev(), inode: found.ino() })
    }

    /// How the project in a folder relates to this record.
    pub fn binding(&self, root: &Path) -> Result<Binding, Failure> {
        let here = Self::of(root, self.id.clone())?;
        // Devices are numbered anew when a machine starts, so they tell nothing here.
        if here.path == self.path && here.inode == self.inode {
            return Ok(Binding::Here);
        }
        let same = |found: &Metadata| found.ino() == here.inode && found.dev() == here.device;
        let there = Path::new(&self.path);
        let another = there.metadata().is_ok_and(|found| !same(&found));
        let has_id = || matches!(read_id(&there.join(FOLDER)), Ok(Some(id)) if id == self.id);
        Ok(if another && has_id() { Binding::Copied } else { Binding::Moved })
    }

    /// Whether the recorded project is still in its place.
    pub fn is_there(&self) -> bool {
        let root = Path::new(&self.path);
        root.metadata().is_ok_and(|found| found.ino() == self.inode)
            && matches!(read_id(&root.join(FOLDER)), Ok(Some(id)) if id == self.id)
    }

    /// Fails unless the project in a folder is the recorded one.
    pub fn require_here(&self, root: &Path) -> Result<(), Failure> {
        match self.binding(root)? {
            Binding::Here => Ok(()),
            Binding::Moved => {
                let message = format!("this project's journal is bound to `{}`", self.path);
                Err(Failure::new(Code::ProjectMoved, message))
            }
            Binding::Copied => {
                let message = format!("this is a copy of the project in `{}`", self.path);
                Err(Failure::new(Code::ProjectCopied, message))
            }
        }
    }
}
