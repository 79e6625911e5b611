//! The one test command: everything that must hold before a change goes in.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::generated::{Mode, settle};
use crate::{schemas, tidy, vectors};

/// A tool that the checks need.
struct Tool {
    name: &'static str,
    command: &'static [&'static str],
    /// The Debian packages that bring it.
    packages: &'static [&'static str],
    hint: &'static str,
}

const TOOLS: [Tool; 4] = [
    Tool {
        name: "rustfmt",
        command: &["cargo", "fmt", "--version"],
        packages: &[],
        hint: "rustup component add rustfmt",
    },
    Tool {
        name: "clippy",
        command: &["cargo", "clippy", "--version"],
        packages: &[],
        hint: "rustup component add clippy",
    },
    Tool {
        name: "a C compiler",
        command: &["cc", "--version"],
        packages: &["gcc", "libc6-dev", "pkg-config"],
        hint: "apt-get install gcc libc6-dev pkg-config",
    },
    Tool {
        name: "git",
        command: &["git", "--version"],
        packages: &["git"],
        hint: "apt-get install git",
    },
];

/// What was done, and how long it took.
#[derive(Default)]
struct Report {
    steps: Vec<(&'static str, Duration)>,
}

impl Report {
    fn step(&mut self, name: &'static str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("==> {name}");
        let start = Instant::now();
        let result = work().with_context(|| format!("check failed at: {name}"));
        let took = start.elapsed();
        println!("<== {name}: {} in {:.1} s", outcome(&result), took.as_secs_f64());
        self.steps.push((name, took));
        result
    }

    fn summary(&self) -> String {
        let steps: Vec<String> = self
            .steps
            .iter()
            .map(|(name, took)| format!("{name} {:.1} s", took.as_secs_f64()))
            .collect();
        let total: Duration = self.steps.iter().map(|(_, took)| *took).sum();
        format!("check passed in {:.1} s: {}", total.as_secs_f64(), steps.join(", "))
    }
}

const fn outcome(result: &Result<()>) -> &'static str {
    if result.is_ok() { "ok" } else { "FAILED" }
}

/// Runs every step, stopping at the first that fails.
///
/// # Errors
/// When a step fails.
pub fn run(root: &Path) -> Result<()> {
    let mut report = Report::default();
    report.step("tools", tools)?;
    report.step("fmt", || cargo(root, &["fmt", "--all", "--check"]))?;
    report.step("clippy", || {
        cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
    })?;
    report.step("tidy", || tidy::run(root))?;
    report.step("schemas", || settle(root, &schemas::files()?, Mode::Check, "schemas"))?;
    report.step("vectors", || settle(root, &vectors::files()?, Mode::Check, "vectors"))?;
    if works(&["cargo", "deny", "--version"]) {
        report.step("deny", || cargo(root, &["deny", "check", "bans", "licenses", "sources"]))?;
    } else {
        println!("cargo-deny is not installed: licences and bans are not checked");
    }
    report.step("build", || cargo(root, &["build", "--workspace", "--bins", "--examples"]))?;
    if works(&["cargo", "nextest", "--version"]) {
        report.step("tests", || cargo(root, &["nextest", "run", "--workspace"]))?;
    } else {
        println!("cargo-nextest is not installed: `cargo test` runs the tests");
        report.step("tests", || {
            cargo(root, &["test", "--workspace", "--lib", "--bins", "--tests", "--examples"])
        })?;
    }
    report.step("doc tests", || cargo(root, &["test", "--workspace", "--doc"]))?;
    println!("{}", report.summary());
    Ok(())
}

/// Runs cargo in `root`, its output going where ours goes.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub fn cargo(root: &Path, arguments: &[&str]) -> Result<()> {
    let status = Command::new(crate::cargo())
        .args(arguments)
        .current_dir(root)
        .status()
        .with_context(|| format!("run `cargo {}`", arguments.join(" ")))?;
    ensure!(status.success(), "`cargo {}` failed ({status})", arguments.join(" "));
    Ok(())
}

/// Says in one line what is missing, after installing what can be installed here.
fn tools() -> Result<()> {
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !works(tool.command)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().flat_map(|tool| tool.packages).copied().collect();
    if !packages.is_empty() && is_root() && works(&["apt-get", "--version"]) {
        println!("installing {}", packages.join(" "));
        install(&packages)?;
    }
    match complaint(missing.into_iter().filter(|tool| !works(tool.command))) {
        Some(line) => bail!(line),
        None => Ok(()),
    }
}

fn complaint<'a>(missing: impl Iterator<Item = &'a Tool>) -> Option<String> {
    let missing: Vec<String> =
        missing.map(|tool| format!("{} (`{}`)", tool.name, tool.hint)).collect();
    (!missing.is_empty()).then(|| format!("missing: {}", missing.join(", ")))
}

fn install(packages: &[&str]) -> Result<()> {
    for arguments in [&["update", "-qq"][..], &["install", "-y", "-qq", "--no-install-recommends"]]
    {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        if arguments.contains(&"install") {
            command.args(packages);
        }
        // What is still missing afterwards is reported by name.
        let status = command.status().context("run `apt-get`")?;
        if !status.success() {
            println!("`apt-get {}` failed ({status})", arguments.join(" "));
        }
    }
    Ok(())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// Whether a command can be started and succeeds, without a word.
fn works(command: &[&str]) -> bool {
    let Some((program, arguments)) = command.split_first() else { return false };
    let program =
        if *program == "cargo" { crate::cargo() } else { std::ffi::OsString::from(program) };
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_fits_one_line() {
        assert_eq!(complaint([].into_iter()), None);
        let line = complaint(TOOLS.iter()).unwrap();
        assert!(line.starts_with("missing: rustfmt (`rustup component add rustfmt`), clippy"));
        assert!(line.ends_with("git (`apt-get install git`)"));
        assert_eq!(line.lines().count(), 1);
    }

    #[test]
    fn a_command_that_is_not_there_does_not_work() {
        assert!(works(&["cargo", "--version"]));
        assert!(!works(&["cargo", "no-such-subcommand-at-all"]));
        assert!(!works(&["no-such-program-at-all"]));
        assert!(!works(&[]));
    }

    #[test]
    fn the_summary_names_every_step_and_a_failure_stops() {
        let mut report = Report::default();
        report.step("one", || Ok(())).unwrap();
        let error = report.step("two", || bail!("broken")).unwrap_err();
        assert_eq!(format!("{error:#}"), "check failed at: two: broken");
        let summary = report.summary();
        assert!(summary.contains("one 0.0 s, two 0.0 s"), "{summary}");
    }
}
