//! Running cargo and reading what it reports.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::compiler;

/// The cargo that runs us, or the one on the path.
pub fn program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"))
}

/// A cargo command in `root`.
///
/// `cargo run` describes xtask's own package to us in the environment. Build scripts of dependencies
/// (ring's) read the same variables and would run again each time cargo is called from the shell and
/// from xtask in turn.
pub fn command(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).current_dir(root);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(describes_package) {
            command.env_remove(name);
        }
    }
    command
}

/// A cargo command that builds our crates as the check does: with lints and documentation.
pub fn checked(root: &Path, arguments: &[&str]) -> Command {
    let mut command = command(root, arguments);
    compiler::use_in(&mut command, root);
    command
}

/// A cargo-nextest command that runs tests of the workspace. Many of them wait for processes, pauses and time limits, so
/// more run at once than there are processors.
pub fn nextest(root: &Path) -> Command {
    let mut command = checked(root, &["nextest", "run", "--workspace"]);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    command.arg("--test-threads").arg((processors + processors.div_ceil(2)).to_string());
    command
}

fn describes_package(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

/// Runs a command whose output goes where ours goes.
///
/// # Errors
/// If it cannot be started or does not succeed.
pub fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_owned();
    let words = std::iter::once(program.as_os_str()).chain(command.get_args());
    let line: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let line = line.join(" ");
    let status = command.status().with_context(|| format!("run `{line}`"))?;
    ensure!(status.success(), "`{line}` failed ({status})");
    Ok(())
}

/// Runs cargo in `root`.
///
/// # Errors
/// If it cannot be started or does not succeed.
pub fn cargo(root: &Path, arguments: &[&str]) -> Result<()> {
    run(&mut command(root, arguments))
}

/// The output of `cargo metadata`.
///
/// # Errors
/// If cargo fails, or writes something else than JSON.
pub fn metadata(root: &Path, options: &[&str]) -> Result<Value> {
    let output = command(root, &["metadata", "--format-version", "1"])
        .args(options)
        .output()
        .context("run `cargo metadata`")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`cargo metadata` failed: {errors}");
    serde_json::from_slice(&output.stdout).context("parse the output of `cargo metadata`")
}

/// The elements of an array field; none if there is no such field.
pub fn array<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

/// A text field; empty if there is none.
pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_that_describe_a_package_are_removed() {
        for name in ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH"] {
            assert!(describes_package(name), "{name}");
        }
        for name in ["CARGO", "CARGO_HOME", "CARGO_BUILD_JOBS", "CARGO_TARGET_DIR", "PATH"] {
            assert!(!describes_package(name), "{name}");
        }
    }
}
