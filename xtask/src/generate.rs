//! Builds and runs the program that writes the JSON Schemas, the test vectors and the Claude Code plugin.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::cargo;

/// Runs `generate` with these arguments.
///
/// It is built with the features of the whole workspace, as all tests are, so that nothing is compiled
/// for it alone.
///
/// # Errors
/// If it cannot be built, or if a file is stale or cannot be written.
pub fn run(root: &Path, arguments: &[&str]) -> Result<()> {
    let build = ["build", "--quiet", "--workspace", "--example", "generate"];
    cargo::run(&mut cargo::checked(root, &build))?;
    // Cargo puts examples beside the binary that runs here.
    let xtask = std::env::current_exe().context("find the running program")?;
    let folder = xtask.parent().context("the running program is in a folder")?;
    let mut command = Command::new(folder.join("examples/generate"));
    cargo::run(command.args(arguments).current_dir(root))
}
