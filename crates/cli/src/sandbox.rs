//! How the commands of a project are confined.

use std::path::{Path, PathBuf};

use windlass_cell::{CellLimits, Layout, Level};
use windlass_connect::{Connectors, Sandbox, SandboxSettings};
use windlass_kernel::Code;

use crate::config;
use crate::failure::Failure;

impl config::Sandbox {
    /// Connectors that confine commands; `folder` is private to Windlass.
    pub fn connectors(&self, root: &Path, folder: &Path) -> Result<Connectors, Failure> {
        Ok(Connectors::new().with_sandbox(self.sandbox(root, folder)?))
    }

    /// The sandbox of the project's commands.
    pub fn sandbox(&self, root: &Path, folder: &Path) -> Result<Sandbox, Failure> {
        let unavailable = |message: String| Failure::new(Code::SandboxUnavailable, message);
        let launcher = std::env::current_exe().map_err(|error| {
            unavailable(format!("the path of the windlass binary is unknown: {error}"))
        })?;
        for folder in [folder.to_owned(), folder.join("caches")] {
            std::fs::create_dir_all(&folder).map_err(|error| {
                unavailable(format!("cannot create `{}`: {error}", folder.display()))
            })?;
        }
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        let layout = Layout {
            variables: variables.collect(),
            visible: Vec::new(),
            writable: self.writable.iter().map(|folder| root.join(folder)).collect(),
            cache_changes: Some(folder.join("caches")),
            temporary: None,
        };
        Ok(Sandbox::new(SandboxSettings {
            level: Level::Full,
            launcher,
            layout,
            limits: CellLimits::default(),
            folder: folder.to_owned(),
        }))
    }
}

/// Finds a program on the `PATH`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
