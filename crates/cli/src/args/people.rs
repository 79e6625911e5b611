//! Arguments of `people`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Subcommands of `people`.
#[derive(Debug, Subcommand)]
pub enum People {
    /// List the people, revoked ones included.
    List,
    /// Add a person with a new key, or with a key of an SSH agent.
    Add(AddPerson),
    /// Revoke a person's key: it signs nothing any more. Past decisions stay valid.
    Revoke {
        /// The person.
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// Options of `people add`.
#[derive(Debug, Args)]
pub struct AddPerson {
    /// The name; upper and lower case are the same.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Protect the key with a passphrase, which is asked for.
    #[arg(long, conflicts_with_all = ["passphrase_file", "ssh_key"])]
    pub passphrase: bool,
    /// Protect the key with the passphrase in this file, `-` for standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "ssh_key")]
    pub passphrase_file: Option<PathBuf>,
    /// Use an Ed25519 key that your SSH agent has, on hardware or not: its `.pub` file.
    #[arg(long, value_name = "PUB")]
    pub ssh_key: Option<PathBuf>,
}
