//! What is at a path.

use rustix::fs::{FileType, Stat};

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A device.
    Device,
}

impl Kind {
    /// Its name for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "a file",
            Self::Folder => "a folder",
            Self::Link => "a link",
            Self::Pipe => "a named pipe",
            Self::Socket => "a socket",
            Self::Device => "a device",
        }
    }

    pub(crate) const fn of(kind: FileType) -> Option<Self> {
        match kind {
            FileType::RegularFile => Some(Self::File),
            FileType::Directory => Some(Self::Folder),
            FileType::Symlink => Some(Self::Link),
            FileType::Fifo => Some(Self::Pipe),
            FileType::Socket => Some(Self::Socket),
            FileType::CharacterDevice | FileType::BlockDevice => Some(Self::Device),
            FileType::Unknown => None,
        }
    }
}

/// What is known of an entry without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its kind.
    pub kind: Kind,
    /// Its permissions.
    pub mode: u32,
    /// Its owner.
    pub owner: u32,
    /// Its size.
    pub size: u64,
    /// How many names it has.
    pub links: u64,
    /// Its device and inode.
    pub inode: (u64, u64),
    /// When its contents changed, in nanoseconds since 1970.
    pub modified: i128,
    /// When anything about it changed, which no program can set.
    pub changed: i128,
}

impl Entry {
    pub(crate) fn of(stat: &Stat) -> Self {
        let nanoseconds =
            |seconds: i64, more: u64| i128::from(seconds) * 1_000_000_000 + i128::from(more);
        Self {
            // A kind that the kernel does not name is as little to be opened as a device.
            kind: Kind::of(FileType::from_raw_mode(stat.st_mode)).unwrap_or(Kind::Device),
            mode: stat.st_mode & 0o7777,
            owner: stat.st_uid,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            links: stat.st_nlink,
            inode: (stat.st_dev, stat.st_ino),
            modified: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
            changed: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}
