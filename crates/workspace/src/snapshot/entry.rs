//! The entry of a path in a snapshot.

/// The entry of a path in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its type and executable bit.
    pub mode: EntryMode,
    /// The id of its blob; of a nested repository, its commit; of an empty folder, the empty tree.
    pub object: String,
    /// The permissions of a file, if a new one would not get them anyway.
    pub permissions: Option<u32>,
    /// Its size in bytes; `None` for a nested repository or a folder, and when the blob is missing.
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
    /// A folder; a snapshot lists only those without files.
    Folder,
}

impl Entry {
    /// Its mode in git's notation, with the permissions of a file.
    pub(super) fn full_mode(&self) -> String {
        match self.permissions {
            Some(permissions) => format!("10{permissions:04o}"),
            None => self.mode.as_str().to_owned(),
        }
    }
}

impl EntryMode {
    /// Parses git's notation in trees. Old trees have files with mode 100664.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        match text {
            b"100644" | b"100664" => Some(Self::File),
            b"100755" => Some(Self::Executable),
            b"120000" => Some(Self::Symlink),
            b"160000" => Some(Self::NestedRepository),
            b"40000" => Some(Self::Folder),
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
            Self::Folder => "040000",
        }
    }

    /// Whether it is a file, executable or not.
    #[must_use]
    pub const fn is_file(self) -> bool {
        matches!(self, Self::File | Self::Executable)
    }
}
