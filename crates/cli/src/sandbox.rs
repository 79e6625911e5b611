//! How the commands of a project are confined.

use std::path::{Path, PathBuf};

use windlass_connect::{Confinement, Connectors, Launcher, Network};
use windlass_kernel::Code;

use crate::config::{Protect, Sandbox};
use crate::failure::Failure;
use crate::project::FOLDER;

/// Paths in the project that commands must not change: configuration and journal, and git files through
/// which an unconfined git would later start programs.
const PROTECTED: [&str; 4] = [FOLDER, ".git/hooks", ".git/config", ".git/info"];

impl Sandbox {
    /// The confinement of commands; `None` if the sandbox is off.
    pub fn confinement(&self, root: &Path) -> Option<Confinement> {
        if !self.enabled {
            return None;
        }
        let network = if self.network { Network::Open } else { Network::Closed };
        let more = self.writable.iter().map(|folder| root.join(folder));
        let writable = std::iter::once(root.to_owned()).chain(more).collect();
        let protected = match self.protect {
            Protect::Never => Vec::new(),
            Protect::Auto | Protect::Always => PROTECTED.map(|path| root.join(path)).to_vec(),
        };
        Some(Confinement { writable, protected, network })
    }

    /// The path of `bwrap`, if it is enabled and installed.
    pub fn bwrap(&self) -> Option<PathBuf> {
        if self.protect == Protect::Never { None } else { find_program("bwrap") }
    }

    /// Connectors that can confine commands.
    pub fn connectors(&self) -> Result<Connectors, Failure> {
        if !self.enabled {
            return Ok(Connectors::new());
        }
        let program = std::env::current_exe().map_err(|error| {
            let message = format!("the path of the windlass binary is unknown: {error}");
            Failure::new(Code::SandboxUnavailable, message)
        })?;
        let launcher = Launcher::new(program);
        match (self.bwrap(), self.protect) {
            (Some(bwrap), _) => Ok(Connectors::new().with_launcher(launcher.with_bwrap(bwrap))),
            // Without a launcher, connectors refuse to start anything that must be confined.
            (None, Protect::Always) => Ok(Connectors::new()),
            (None, Protect::Auto | Protect::Never) => Ok(Connectors::new().with_launcher(launcher)),
        }
    }
}

/// Finds a program on the `PATH`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
