//! Arguments of `verify`, `anchor`, `keys` and `canon`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Options of `verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// Only this trace, or a bundle file (needs no project).
    #[arg(value_name = "TRACE|BUNDLE", conflicts_with_all = ["all", "file", "anchor"])]
    pub what: Option<String>,
    /// Verify the whole journal (the default).
    #[arg(long, conflicts_with_all = ["file", "anchor"])]
    pub all: bool,
    /// Verify a chain in a file, `-` for standard input: a JSON array, `{"entries": […]}`, or one
    /// entry per line; artifacts beside the entries are verified too. Needs no project; always
    /// prints JSON.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["anchor", "key"])]
    pub file: Option<PathBuf>,
    /// Compare the journal with an anchor: list traces that are missing, truncated or rewritten.
    #[arg(long, value_name = "FILE")]
    pub anchor: Option<PathBuf>,
    /// A public key to trust instead of the project's own, for a bundle or an anchor; may be
    /// repeated.
    #[arg(long, value_name = "PUB", conflicts_with = "all")]
    pub key: Vec<PathBuf>,
}

/// Subcommands of `bundle`.
#[derive(Debug, Subcommand)]
pub enum BundleCommand {
    /// Write the files of a workspace as they were at a checkpoint into a new folder. Needs no project.
    Restore(BundleRestore),
}

/// Options of `bundle restore`.
#[derive(Debug, Args)]
pub struct BundleRestore {
    /// The bundle.
    #[arg(value_name = "BUNDLE")]
    pub bundle: PathBuf,
    /// The checkpoint: its name (without version: the newest) or its id.
    #[arg(long, value_name = "NAME")]
    pub checkpoint: String,
    /// The folder to create; it may exist if it is empty.
    #[arg(long, value_name = "FOLDER")]
    pub to: PathBuf,
    /// A public key to trust instead of the project's own; may be repeated.
    #[arg(long, value_name = "PUB")]
    pub key: Vec<PathBuf>,
}

/// Options of `anchor`.
#[derive(Debug, Args)]
pub struct Anchor {
    /// The file to write.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Overwrite an existing file.
    #[arg(long)]
    pub force: bool,
}

/// Subcommands of `keys`.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum Keys {
    /// Print the current public key, in the file format to publish.
    Show,
    /// List current and retired keys, oldest first.
    List,
    /// Replace the signing key by a new one and destroy the old private key.
    Rotate,
}

/// Options of `canon`.
#[derive(Debug, Args)]
pub struct Canon {
    /// Print the SHA-256 of the canonical bytes instead.
    #[arg(long)]
    pub digest: bool,
}
