//! The project's own tools: `cargo xtask check` and the commands beside it.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool talks to the terminal")]

mod browser;
mod cargo;
mod check;
mod clients;
mod compiler;
mod dependencies;
mod generate;
mod guards;
mod memory;
mod packages;
mod slowest;
mod soak;
mod tidy;
mod tools;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Result;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  check [--fast | --only STAGE]   run all checks, or those for daily use, or one of them
  soak [--minutes N] [NAME]       repeat the random tests with fresh seeds and ever more cases; NAME
                                  is a group or a part of a test's name; a failed pass is repeated
                                  with the printed `--seed SEED --scale N`
  clients                         install the coding agents that the stage `clients` drives
  guards [--check]                measure how the hooks of these agents fail, and write docs/guards.md, or
                                  fail if it is stale
  bench [ARGS]                    run the benchmarks
  fmt                             format all sources
  tidy                            check the rules that no compiler checks
  schemas [--check]               write the JSON Schemas, or fail if one is stale
  vectors [--check]               write the test vectors, or fail if one is stale
  plugin [--check]                write the Claude Code plugin, or fail if a file of it is stale

`--fast` leaves out the stages `browser`, `clients` and `sessions`.
";

fn main() -> ExitCode {
    if let Some(code) = compiler::stand_in() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["help" | "--help" | "-h"] = arguments.as_slice() {
        print!("{}", usage());
        return ExitCode::SUCCESS;
    }
    match run(&root(), &arguments) {
        Ok(Some(())) => ExitCode::SUCCESS,
        Ok(None) => {
            eprint!("{}", usage());
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The help text with the stages of `check` and the groups of `soak`.
fn usage() -> String {
    let row = |(name, purpose): (&str, &str)| format!("  {name:<14}{purpose}\n");
    let stages: String =
        check::STAGES.iter().map(|stage| row((stage.name, stage.purpose))).collect();
    let groups: String =
        soak::GROUPS.iter().map(|group| row((group.name, group.purpose))).collect();
    format!("{USAGE}\nstages of check:\n{stages}\ngroups of soak:\n{groups}")
}

/// Runs one command; `None` if there is no such command.
fn run(root: &Path, arguments: &[&str]) -> Result<Option<()>> {
    match arguments {
        ["check"] => check::run(root, check::Selection::All),
        ["check", "--fast"] => check::run(root, check::Selection::Fast),
        ["check", "--only", stage] => check::run(root, check::Selection::Only(stage)),
        ["clients"] => clients::install(root),
        ["guards"] => guards::run(root, guards::Mode::Write),
        ["guards", "--check"] => guards::run(root, guards::Mode::Check),
        ["soak", rest @ ..] => match soak::Options::parse(rest) {
            Some(options) => soak::run(root, &options),
            None => return Ok(None),
        },
        ["bench", rest @ ..] => {
            // One selection of packages, so that what both need is built once.
            let build = ["build", "--profile", "dist", "-p", "windlass", "-p", "windlass-bench"];
            cargo::cargo(root, &build).and_then(|()| {
                let program = root.join("target").join("dist").join("windlass-bench");
                cargo::run(Command::new(program).args(rest).current_dir(root))
            })
        }
        ["fmt"] => cargo::cargo(root, &["fmt", "--all"]),
        ["tidy"] => tidy::run(root),
        ["schemas" | "vectors" | "plugin"] | ["schemas" | "vectors" | "plugin", "--check"] => {
            generate::run(root, arguments)
        }
        _ => return Ok(None),
    }
    .map(Some)
}

/// The repository's root: the folder above this crate's.
fn root() -> PathBuf {
    let crate_folder = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    crate_folder.parent().map_or_else(|| crate_folder.clone(), Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_command_is_not_run() {
        let unknown: [&[&str]; 7] = [
            &[],
            &["chekc"],
            &["check", "--quick"],
            &["check", "--only"],
            &["tidy", "--fast"],
            &["schemas", "--chek"],
            &["soak", "--minutes"],
        ];
        for arguments in unknown {
            assert!(run(&root(), arguments).unwrap().is_none(), "{arguments:?}");
        }
    }

    #[test]
    fn the_help_names_every_stage() {
        let usage = usage();
        assert!(check::STAGES.iter().all(|stage| usage.contains(&format!("\n  {} ", stage.name))));
    }

    #[test]
    fn the_root_is_the_repository() {
        assert!(root().join("Cargo.toml").is_file() && root().join("xtask").is_dir());
    }
}
