//! How the commands of a project are confined.

use std::path::{Path, PathBuf};

use windlass_cell::{CellLimits, Layout};
use windlass_connect::{Connectors, Sandbox, SandboxSettings};
use windlass_kernel::Code;

use crate::failure::Failure;
use crate::project::Project;
use crate::user_config::UserConfig;

const MEGABYTE: u64 = 1 << 20;

/// Handles signals from now on, so that what runs is ended and recorded.
pub fn handle_signals() -> Result<(), Failure> {
    windlass_cell::handle_signals().map_err(|error| {
        let message = format!("commands cannot be run, because signals cannot be handled: {error}");
        Failure::new(Code::SandboxUnavailable, message)
            .hint("let this process have more open files (`ulimit -n`) and threads (`ulimit -u`)")
    })
}

impl UserConfig {
    /// Connectors that confine commands. From here on a signal ends what they run, and is recorded.
    pub fn connectors(&self, project: &Project) -> Result<Connectors, Failure> {
        handle_signals()?;
        self.connectors_without_signals(project)
    }

    /// Connectors that confine commands, and do not care about signals.
    pub fn connectors_without_signals(&self, project: &Project) -> Result<Connectors, Failure> {
        Ok(Connectors::new().with_sandbox(self.sandbox(&project.state()?.join("cells"))?))
    }

    /// The sandbox of commands, with a folder that is private to Windlass.
    pub fn sandbox(&self, folder: &Path) -> Result<Sandbox, Failure> {
        let unavailable = |message: String| Failure::new(Code::SandboxUnavailable, message);
        let launcher = std::env::current_exe().map_err(|error| {
            unavailable(format!("the path of the windlass binary is unknown: {error}"))
        })?;
        std::fs::create_dir_all(folder).map_err(|error| {
            unavailable(format!("cannot create `{}`: {error}", folder.display()))
        })?;
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        let layout = Layout {
            variables: variables.collect(),
            visible: self.sandbox.visible.clone(),
            writable: self.sandbox.writable.clone(),
            ..Layout::default()
        };
        windlass_connect::remember_hidden_in(folder);
        Ok(Sandbox::new(SandboxSettings {
            level: self.sandbox.level,
            launcher,
            bwrap: self.helpers.bwrap.clone(),
            layout,
            limits: self.limits(),
            folder: folder.to_owned(),
            private_hosts: self.network.private.clone(),
        }))
    }

    fn limits(&self) -> CellLimits {
        let (chosen, usual) = (self.sandbox.limits, CellLimits::default());
        let bytes = |megabytes: Option<u64>, usual: u64| {
            megabytes.map_or(usual, |megabytes| megabytes.saturating_mul(MEGABYTE))
        };
        CellLimits {
            processes: chosen.processes.unwrap_or(usual.processes),
            memory_bytes: bytes(chosen.memory_mb, usual.memory_bytes),
            file_bytes: bytes(chosen.file_mb, usual.file_bytes),
            open_files: chosen.open_files.unwrap_or(usual.open_files),
        }
    }
}

/// Finds a program on the `PATH`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
