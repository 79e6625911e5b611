//! Confinement of commands: they may read everything, and change only the folders they are given.
//!
//! A process cannot be confined from outside without unsafe code between fork and exec, so a command
//! is started through a **launcher**: our own binary confines itself and becomes the command. This
//! module describes a confinement and how to start a command in it; [`exec`] is the launcher's side.
//!
//! Guaranteed, for every child process too: files are changed only beneath the writable folders
//! (Landlock), no socket reaches another process when the network is closed, and some system calls are
//! refused (seccomp). Not guaranteed: reading is not restricted, and Landlock has no exceptions, so
//! protected paths inside a writable folder are protected only with `bwrap`, which binds them read-only.

mod filter;
mod launch;
mod report;
mod support;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use launch::{LaunchError, exec};
pub(crate) use report::{LaunchReport, REPORT_BYTES_MAX, TOKEN_VARIABLE, Token};
pub use support::SandboxSupport;

/// Whether a command may use the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// No socket of any kind reaches another process.
    Closed,
    /// It may.
    Open,
}

/// What a command may do, beyond reading and starting programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// The folders it may change, as absolute paths; each must exist. The system's temporary folder
    /// and a few devices come with them.
    pub writable: Vec<PathBuf>,
    /// Paths inside them that it may not change; only `bwrap` enforces that. A path that does not
    /// exist is ignored.
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

    /// Returns the arguments that come before the command's own.
    #[must_use]
    pub fn prefix(&self, confinement: &Confinement) -> Vec<OsString> {
        let mut argv = Vec::new();
        if let Some(bwrap) = &self.bwrap
            && !confinement.protected.is_empty()
        {
            argv.extend([bwrap.into(), "--die-with-parent".into()]);
            argv.extend(["--dev-bind".into(), "/".into(), "/".into()]);
            for path in confinement.pinned() {
                argv.extend(["--bind-try".into(), path.into(), path.into()]);
            }
            for path in &confinement.protected {
                argv.extend(["--ro-bind-try".into(), path.into(), path.into()]);
            }
            argv.push("--".into());
        }
        argv.extend([self.program.clone().into(), "confined".into()]);
        for path in &confinement.writable {
            argv.extend(["--write".into(), path.into()]);
        }
        if confinement.network == Network::Open {
            argv.push("--network".into());
        }
        argv.push("--".into());
        argv
    }
}

impl Confinement {
    /// The folders between a writable one and a protected path, outermost first. Each becomes a mount
    /// of its own: otherwise it could be moved away with its contents and replaced.
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

    fn text(argv: Vec<OsString>) -> Vec<String> {
        argv.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn the_launcher_gets_the_writable_folders_and_the_network() {
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
        let argv = text(launcher.prefix(&confinement(Network::Closed))).join(" ");
        assert!(
            argv.starts_with(
                "/bin/bwrap --die-with-parent --dev-bind / / --bind-try /w/.git /w/.git \
                 --bind-try /w/.git/a /w/.git/a --ro-bind-try /w/.windlass /w/.windlass \
                 --ro-bind-try /w/.git/hooks /w/.git/hooks --ro-bind-try /w/.git/a/b /w/.git/a/b \
                 -- /bin/windlass confined"
            ),
            "{argv}"
        );
        let none = Confinement { protected: Vec::new(), ..confinement(Network::Closed) };
        assert_eq!(launcher.prefix(&none), Launcher::new("/bin/windlass").prefix(&none));
    }
}
