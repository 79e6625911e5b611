//! Receivers: who is told what, and how.

use std::collections::BTreeSet;
use std::path::PathBuf;

use windlass_kernel::notification::Kind;
use zeroize::Zeroizing;

/// Somebody who is told.
pub struct Receiver {
    /// The name.
    pub name: String,
    /// What it is told.
    pub on: BTreeSet<Kind>,
    /// How; or why it cannot be told now, such as a secret that is missing.
    pub target: Result<Target, String>,
    /// The person for whom a link is made that decides a hold.
    pub person: Option<String>,
}

/// How a receiver is told.
pub enum Target {
    /// By a request.
    Url {
        /// The address.
        url: Zeroizing<String>,
        /// The key of the signature.
        key: Zeroizing<String>,
    },
    /// By a program.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
        /// The folder that it is started in.
        folder: PathBuf,
        /// A secret that it gets.
        secret: Option<Zeroizing<String>>,
    },
}
