//! Commands that may read everything and change only what they are given.
//!
//! A process cannot be confined from outside without unsafe code between fork and exec, so a command
//! is started by way of a **launcher**: our own binary confines itself and becomes the command. This
//! module describes a confinement and how to start a command in it; [`exec`] is the launcher's side.
//!
//! What holds: files are changed only beneath the writable folders (Landlock), no socket reaches
//! anybody when the network is closed and some system calls are refused (seccomp), and all of that
//! for every child too. What does not: reading is open, and Landlock knows no exceptions, so
//! protected paths inside a writable folder are kept only with `bwrap`, which binds them read-only.

mod filter;
mod launch;
mod mark;
mod support;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use launch::{LaunchError, exec};
pub(crate) use mark::{MARK_BYTES_MAX, Start, TOKEN_VARIABLE, Token};
pub use support::Support;

/// Whether a command may use the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// No socket of any kind reaches anybody.
    Closed,
    /// All of it.
    Open,
}

/// What a command may do, beyond reading and starting programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// The folders it may change, as absolute paths; each must exist. The system's temporary folder
    /// and a few devices come with them.
    pub writable: Vec<PathBuf>,
    /// What it may not change inside of them, where the launcher can see to that. What does not
    /// exist is left out.
    pub protected: Vec<PathBuf>,
    /// Whether it may use the network.
    pub network: Network,
}

/// How commands are started in a confinement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launcher {
    program: PathBuf,
    bwrap: Option<PathBuf>,
}

impl Launcher {
    /// Names the program whose subcommand `confined` calls [`exec`]: usually the running one.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), bwrap: None }
    }

    /// Lets `bwrap` bind the protected paths read-only. If it cannot, no command starts.
    #[must_use]
    pub fn with_bwrap(self, bwrap: impl Into<PathBuf>) -> Self {
        Self { bwrap: Some(bwrap.into()), ..self }
    }

    /// The words that come before a command's own.
    #[must_use]
    pub fn prefix(&self, confinement: &Confinement) -> Vec<OsString> {
        let mut words = Vec::new();
        if let Some(bwrap) = &self.bwrap
            && !confinement.protected.is_empty()
        {
            words.extend([bwrap.into(), "--die-with-parent".into()]);
            words.extend(["--dev-bind".into(), "/".into(), "/".into()]);
            for path in confinement.pinned() {
                words.extend(["--bind-try".into(), path.into(), path.into()]);
            }
            for path in &confinement.protected {
                words.extend(["--ro-bind-try".into(), path.into(), path.into()]);
            }
            words.push("--".into());
        }
        words.extend([self.program.clone().into(), "confined".into()]);
        for path in &confinement.writable {
            words.extend(["--write".into(), path.into()]);
        }
        if confinement.network == Network::Open {
            words.push("--network".into());
        }
        words.push("--".into());
        words
    }
}

impl Confinement {
    /// The folders on the way from a writable one to a protected path, outermost first. Were they
    /// not mounts of their own, one could be moved away with all that is in it and replaced.
    fn pinned(&self) -> Vec<&Path> {
        let mut pinned = Vec::new();
        for path in &self.protected {
            let mut way: Vec<&Path> = path
                .ancestors()
                .skip(1)
                .take_while(|above| {
                    self.writable.iter().any(|open| above.starts_with(open) && *above != open)
                })
                .collect();
            way.reverse();
            for folder in way {
                if !pinned.contains(&folder) {
                    pinned.push(folder);
                }
            }
        }
        pinned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confinement(network: Network) -> Confinement {
        Confinement {
            writable: vec!["/w".into(), "/out dir".into()],
            protected: ["/w/.windlass", "/w/.git/hooks", "/w/.git/a/b"].map(PathBuf::from).to_vec(),
            network,
        }
    }

    fn text(words: Vec<OsString>) -> Vec<String> {
        words.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn the_launcher_is_told_what_is_open() {
        let launcher = Launcher::new("/bin/windlass");
        assert_eq!(
            text(launcher.prefix(&confinement(Network::Closed))),
            ["/bin/windlass", "confined", "--write", "/w", "--write", "/out dir", "--"]
        );
        let open = text(launcher.prefix(&confinement(Network::Open)));
        assert_eq!(open.iter().rev().take(2).collect::<Vec<_>>(), ["--", "--network"]);
    }

    #[test]
    fn protected_paths_are_bound_inside_folders_that_stay_where_they_are() {
        let launcher = Launcher::new("/bin/windlass").with_bwrap("/bin/bwrap");
        let words = text(launcher.prefix(&confinement(Network::Closed))).join(" ");
        assert!(
            words.starts_with(
                "/bin/bwrap --die-with-parent --dev-bind / / --bind-try /w/.git /w/.git \
                 --bind-try /w/.git/a /w/.git/a --ro-bind-try /w/.windlass /w/.windlass \
                 --ro-bind-try /w/.git/hooks /w/.git/hooks --ro-bind-try /w/.git/a/b /w/.git/a/b \
                 -- /bin/windlass confined"
            ),
            "{words}"
        );
        let none = Confinement { protected: Vec::new(), ..confinement(Network::Closed) };
        assert_eq!(launcher.prefix(&none), Launcher::new("/bin/windlass").prefix(&none));
    }
}
