//! The project's own tools: `cargo xtask check`, and what it is made of.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool talks to the terminal")]

mod check;
mod generated;
mod schemas;
mod tidy;
mod vectors;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use generated::{Mode, settle};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  check               everything that must hold: the one test command
  fmt                 format all sources
  tidy                the rules that no compiler checks
  schemas [--check]   write the JSON Schemas, or fail when one is stale
  vectors [--check]   write the test vectors, or fail when one is stale
  bench [ARGS]        run the benchmarks";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&root(), &arguments) {
        Ok(Some(())) => ExitCode::SUCCESS,
        Ok(None) => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one command; `None` when there is no such command.
fn run(root: &Path, arguments: &[&str]) -> Result<Option<()>> {
    match arguments {
        ["check"] => check::run(root),
        ["fmt"] => check::cargo(root, &["fmt", "--all"]),
        ["tidy"] => tidy::run(root),
        ["schemas"] => settle(root, &schemas::files()?, Mode::Write, "schemas"),
        ["schemas", "--check"] => settle(root, &schemas::files()?, Mode::Check, "schemas"),
        ["vectors"] => settle(root, &vectors::files()?, Mode::Write, "vectors"),
        ["vectors", "--check"] => settle(root, &vectors::files()?, Mode::Check, "vectors"),
        ["bench", rest @ ..] => {
            let mut all = vec!["run", "--profile", "dist", "-p", "windlass-bench", "--"];
            all.extend(rest);
            check::cargo(root, &all)
        }
        _ => return Ok(None),
    }
    .map(Some)
}

/// The repository's root: the folder above this crate's.
fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().map_or_else(|| here.clone(), Path::to_path_buf)
}

/// The cargo that runs us, or the one on the path.
fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_command_is_not_run() {
        for arguments in [&[][..], &["chekc"], &["tidy", "--fast"], &["schemas", "--chek"]] {
            assert!(run(&root(), arguments).unwrap().is_none(), "{arguments:?}");
        }
    }

    #[test]
    fn the_root_is_the_repository() {
        assert!(root().join("Cargo.toml").is_file() && root().join("xtask").is_dir());
    }
}
