//! What is remembered of one file.

use serde::{Deserialize, Serialize};
use windlass_beneath::{Entry, Kind};
use windlass_kernel::Digest;

use crate::rel_path::RelPath;

/// How long the time of a change must have passed before nothing can have changed in the same moment.
const SETTLED_NANOSECONDS: i128 = 100_000_000;

/// What tells whether something changed since it was looked at: no program can set the time of the last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    mode: u32,
    modified: i64,
    changed: i64,
    /// Whether its last change was long enough ago for the next one to have another time.
    settled: bool,
}

impl Stamp {
    /// The stamp of an entry that is looked at now, in nanoseconds since 1970.
    pub fn of(entry: &Entry, now: i128) -> Self {
        let short = |time: i128| i64::try_from(time).unwrap_or(i64::MAX);
        Self {
            device: entry.inode.0,
            inode: entry.inode.1,
            size: entry.size,
            mode: entry.mode,
            modified: short(entry.modified),
            changed: short(entry.changed),
            settled: now - entry.changed > SETTLED_NANOSECONDS,
        }
    }

    /// Whether the same thing was certainly not changed between both looks.
    pub const fn proves_unchanged(&self, later: &Self) -> bool {
        self.settled
            && self.device == later.device
            && self.inode == later.inode
            && self.size == later.size
            && self.mode == later.mode
            && self.modified == later.modified
            && self.changed == later.changed
    }

    /// Device and inode.
    pub const fn inode(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Its permissions.
    pub const fn mode(&self) -> u32 {
        self.mode
    }

    /// Whether both are of one file or folder.
    pub const fn is_same_inode(&self, other: &Self) -> bool {
        self.device == other.device && self.inode == other.inode
    }
}

/// A kind of file that no program is handed by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpecialKind {
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A device.
    Device,
}

impl SpecialKind {
    pub const fn of(kind: Kind) -> Option<Self> {
        match kind {
            Kind::Pipe => Some(Self::Pipe),
            Kind::Socket => Some(Self::Socket),
            Kind::Device => Some(Self::Device),
            Kind::File | Kind::Folder | Kind::Link => None,
        }
    }
}

/// What is remembered of a file that may be held back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// A file.
    File {
        /// The digest of its contents.
        digest: Digest,
        /// Its permissions.
        mode: u32,
        /// How many names it has: through another one it can be changed unseen.
        #[serde(default)]
        links: u64,
        /// Whether it is a git configuration in which nothing names a program or another folder.
        plain: bool,
        /// What shows a change.
        stamp: Stamp,
    },
    /// A link.
    Link {
        /// Where it points, as text; other characters stand for bytes that are not UTF-8.
        target: String,
        /// Whether it stays in the workspace, or leads to something that every cell has.
        stays: bool,
        /// What of the workspace it leads to if a rule is about that, too: what it names, and what that is.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        leads: Vec<RelPath>,
    },
    /// A pipe, socket or device.
    Special(SpecialKind),
    /// A folder that cannot be read, or lies too deep for a path.
    Unreadable,
    /// Something of another user that cannot be read. No cell can make such a thing.
    Foreign,
    /// A folder that belongs to Windlass or git, as a whole.
    Folder {
        /// Which one it is.
        stamp: Stamp,
    },
}

impl Mark {
    /// Whether a later look found the same there.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::File { digest, mode, links, .. },
                Self::File { digest: later, mode: later_mode, links: later_links, .. },
            ) => digest == later && mode & 0o111 == later_mode & 0o111 && later_links <= links,
            (Self::Link { target, .. }, Self::Link { target: other, .. }) => target == other,
            (Self::Special(kind), Self::Special(other)) => kind == other,
            (Self::Unreadable, Self::Unreadable) | (Self::Foreign, Self::Foreign) => true,
            (Self::Folder { stamp }, Self::Folder { stamp: other }) => stamp.is_same_inode(other),
            (
                Self::File { .. }
                | Self::Link { .. }
                | Self::Special(_)
                | Self::Unreadable
                | Self::Foreign
                | Self::Folder { .. },
                _,
            ) => false,
        }
    }
}
