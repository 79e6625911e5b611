//! The entry of a path in a snapshot.

/// The entry of a path in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its type and executable bit.
    pub mode: EntryMode,
    /// The id of its blob; of a nested repository, its commit.
    pub object: String,
    /// Its size in bytes; `None` for a nested repository, and when the blob is missing.
    pub size: Option<u64>,
}

/// The type and executable bit of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryMode {
    /// A file.
    File,
    /// A file that can be executed.
    Executable,
    /// A symbolic link.
    Symlink,
    /// A nested repository.
    NestedRepository,
}

impl EntryMode {
    /// Parses git's notation. Old trees have files with mode 100664.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        match text {
            b"100644" | b"100664" => Some(Self::File),
            b"100755" => Some(Self::Executable),
            b"120000" => Some(Self::Symlink),
            b"160000" => Some(Self::NestedRepository),
            _ => None,
        }
    }

    /// Git's notation.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "100644",
            Self::Executable => "100755",
            Self::Symlink => "120000",
            Self::NestedRepository => "160000",
        }
    }

    /// Whether it is a file, executable or not.
    #[must_use]
    pub const fn is_file(self) -> bool {
        matches!(self, Self::File | Self::Executable)
    }
}
