//! What a snapshot holds at a path.

/// What a snapshot holds at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What kind of thing it is.
    pub mode: EntryMode,
    /// The full name of its content; of a nested repository, its commit.
    pub object: String,
    /// How many bytes it has; nothing for a nested repository, and where the content is missing.
    pub size: Option<u64>,
}

/// What kind of thing is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryMode {
    /// A file.
    File,
    /// A file that can be executed.
    Executable,
    /// A symbolic link.
    Link,
    /// A repository of its own.
    Nested,
}

impl EntryMode {
    /// Reads git's way to write it. Old trees have files that the group may write.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        match text {
            b"100644" | b"100664" => Some(Self::File),
            b"100755" => Some(Self::Executable),
            b"120000" => Some(Self::Link),
            b"160000" => Some(Self::Nested),
            _ => None,
        }
    }

    /// Git's way to write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "100644",
            Self::Executable => "100755",
            Self::Link => "120000",
            Self::Nested => "160000",
        }
    }

    /// Whether it is a file, executable or not.
    pub(super) const fn is_file(self) -> bool {
        matches!(self, Self::File | Self::Executable)
    }
}
