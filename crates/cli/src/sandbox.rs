//! How the commands of a project are confined.

use std::path::{Path, PathBuf};

use windlass_connect::{Confinement, Connectors, Launcher, Network};
use windlass_kernel::Code;

use crate::failure::Failure;
use crate::project::FOLDER;
use crate::user_config::{Level, UserConfig};

/// Paths in a repository that commands must not change: the configuration, and git files through which an
/// unconfined git would later start programs.
const PROTECTED: [&str; 4] = [FOLDER, ".git/hooks", ".git/config", ".git/info"];
/// The same in an additional work tree, where `.git` is a file that leads to the repository.
const PROTECTED_IN_WORKTREE: [&str; 2] = [FOLDER, ".git"];

impl UserConfig {
    /// The confinement of commands.
    pub fn confinement(&self, root: &Path) -> Confinement {
        let more = self.sandbox.writable.iter().cloned();
        let writable = std::iter::once(root.to_owned()).chain(more).collect();
        let protected = match self.sandbox.level {
            Level::Landlock => Vec::new(),
            Level::Full if root.join(".git").is_file() => {
                PROTECTED_IN_WORKTREE.map(|path| root.join(path)).to_vec()
            }
            Level::Full => PROTECTED.map(|path| root.join(path)).to_vec(),
        };
        Confinement { writable, protected, network: Network::Closed }
    }

    /// The path of `bwrap`, if the level needs it and it is installed.
    pub fn bwrap(&self) -> Option<PathBuf> {
        match self.sandbox.level {
            Level::Landlock => None,
            Level::Full => self.helpers.bwrap.clone().or_else(|| find_program("bwrap")),
        }
    }

    /// Connectors that can confine commands.
    pub fn connectors(&self) -> Result<Connectors, Failure> {
        let program = std::env::current_exe().map_err(|error| {
            let message = format!("the path of the windlass binary is unknown: {error}");
            Failure::new(Code::SandboxUnavailable, message)
        })?;
        let launcher = Launcher::new(program);
        Ok(Connectors::new().with_launcher(match self.bwrap() {
            Some(bwrap) => launcher.with_bwrap(bwrap),
            None => launcher,
        }))
    }
}

/// Finds a program on the `PATH`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
