//! The command line of checking, and of what is signed: bundles, anchors, keys.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Options of `verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// Only this trace; or a bundle's file, which needs no project.
    #[arg(value_name = "TRACE|BUNDLE", conflicts_with_all = ["all", "file", "anchor"])]
    pub what: Option<String>,
    /// Everything: what happens without any of these.
    #[arg(long, conflicts_with_all = ["file", "anchor"])]
    pub all: bool,
    /// A chain in a file, `-` for standard input: a JSON array, `{"entries": […]}`, or one entry a
    /// line. It needs no project, and always prints JSON.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["anchor", "key"])]
    pub file: Option<PathBuf>,
    /// Compare the journal with an anchor: name every trace that is gone, cut or rewritten.
    #[arg(long, value_name = "FILE")]
    pub anchor: Option<PathBuf>,
    /// A public key to trust in place of the project's own, for a bundle or an anchor; may be given
    /// several times.
    #[arg(long, value_name = "PUB", conflicts_with = "all")]
    pub key: Vec<PathBuf>,
}

/// Options of `anchor`.
#[derive(Debug, Args)]
pub struct Anchor {
    /// The file to write.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Replace a file that is there.
    #[arg(long)]
    pub force: bool,
}

/// Subcommands of `keys`.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum Keys {
    /// Print the public key that signs now, as a file to give away.
    Show,
    /// List all keys that sign or once did, oldest first.
    List,
    /// Put a new key in the place of the one that signs, which is destroyed.
    Rotate,
}
