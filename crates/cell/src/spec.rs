//! What a cell contains and may use.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// How strongly a command is confined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    #[default]
    /// Namespaces, Landlock and seccomp.
    Full,
    /// Landlock and seccomp only: everything that the user may read is readable, and processes can outlive
    /// their call.
    Landlock,
}

impl Level {
    /// Its name in the file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Landlock => "landlock",
        }
    }
}

/// Who makes the namespaces and the root of a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Maker {
    /// The launcher itself.
    #[default]
    Own,
    /// `bwrap`, which some machines allow to make namespaces when others may not. It has no overlays.
    Bwrap {
        /// The program.
        program: PathBuf,
    },
}

/// What a command sees and may use. Paths are the same inside and outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// How strongly it is confined.
    pub level: Level,
    /// Who makes it, at the full level.
    pub maker: Maker,
    /// What its root holds, in the order in which it is mounted.
    pub mounts: Vec<Mount>,
    /// What it may reach.
    pub network: Network,
    /// What it may use.
    pub limits: CellLimits,
}

/// Whether a mount can be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// It cannot.
    Read,
    /// It can.
    Write,
}

/// One thing in a cell's root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mount {
    /// A file or folder of the machine, at the same path.
    Bind {
        /// Its path.
        #[serde(with = "crate::path_bytes")]
        path: PathBuf,
        /// Whether it can be changed.
        access: Access,
    },
    /// A folder of the machine at another path.
    BindAt {
        /// The folder outside.
        #[serde(with = "crate::path_bytes")]
        from: PathBuf,
        /// Its path inside.
        #[serde(with = "crate::path_bytes")]
        path: PathBuf,
        /// Whether it can be changed.
        access: Access,
    },
    /// A file or folder of the machine, covered by an empty one.
    Mask {
        /// Its path.
        #[serde(with = "crate::path_bytes")]
        path: PathBuf,
    },
    /// An empty folder in memory.
    Memory {
        /// Its path.
        #[serde(with = "crate::path_bytes")]
        path: PathBuf,
        /// How much it holds.
        bytes: u64,
    },
    /// A folder of the machine whose changes go to another folder.
    Overlay {
        /// Its path.
        #[serde(with = "crate::path_bytes")]
        path: PathBuf,
        /// The folders beneath it, uppermost first.
        #[serde(with = "crate::path_bytes::list")]
        lower: Vec<PathBuf>,
        /// The folder that gets the changes.
        #[serde(with = "crate::path_bytes")]
        upper: PathBuf,
        /// An empty folder on the same file system as `upper`.
        #[serde(with = "crate::path_bytes")]
        work: PathBuf,
    },
    /// A symbolic link.
    Link {
        /// Its path.
        #[serde(with = "crate::path_bytes")]
        path: PathBuf,
        /// What it points to.
        #[serde(with = "crate::path_bytes")]
        target: PathBuf,
    },
}

impl Mount {
    /// Its path inside.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Bind { path, .. }
            | Self::BindAt { path, .. }
            | Self::Mask { path }
            | Self::Memory { path, .. }
            | Self::Overlay { path, .. }
            | Self::Link { path, .. } => path,
        }
    }
}

/// What a command may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// Nothing but itself, over loopback.
    Closed,
    /// The broker, which listens on a loopback port of the cell.
    Broker,
}

/// What a command and its children may use together; 0 is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellLimits {
    /// Processes and threads at once.
    pub processes: u64,
    /// Memory.
    pub memory_bytes: u64,
    /// The size of one file.
    pub file_bytes: u64,
    /// Open files of one process.
    pub open_files: u64,
}

impl Default for CellLimits {
    fn default() -> Self {
        Self { processes: 4096, memory_bytes: 16 << 30, file_bytes: 16 << 30, open_files: 65_536 }
    }
}

/// A limit that a command reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitKind {
    /// Processes and threads.
    Processes,
    /// Memory.
    Memory,
    /// The size of one file.
    FileSize,
    /// Open files of one process.
    OpenFiles,
}

/// A command to start in a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellCommand {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Its whole environment.
    pub env: Vec<(String, String)>,
    /// Its working directory.
    #[serde(with = "crate::path_bytes")]
    pub cwd: PathBuf,
}

/// What the launcher is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Where it runs.
    pub cell: Cell,
    /// What runs.
    pub command: CellCommand,
    /// Whether a descriptor for its standard input comes with the request.
    pub has_stdin: bool,
}

/// What the launcher reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// The cell could not be made; nothing ran.
    Refused(String),
    /// The cell stands and the program starts now.
    Started,
    /// The program could not be started.
    NoProgram(String),
    /// The port of the listening socket that comes with this report.
    Listening(u16),
    /// The program and its children were ended because of this limit.
    Limit(LimitKind),
    /// The program exited.
    Exited {
        /// Its exit code, unless a signal ended it.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
}
