//! `cargo xtask check`: everything that must hold before a change goes in.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::cargo::{self, cargo};
use crate::{browser, clients, dependencies, generate, memory, soak, tidy, tools};

/// One stage of the check.
pub struct Stage {
    /// Its name for `--only`.
    pub name: &'static str,
    /// What it checks.
    pub purpose: &'static str,
    run: fn(&Path) -> Result<()>,
}

/// All stages, in the order in which they run: quick ones first, and the build before what uses it.
///
/// No stage builds again what another one has built. All of them build with `--workspace` and with the
/// development dependencies (hence `--examples`, `--all-targets`), because other choices select other
/// features and then all dependencies are compiled once more.
pub const STAGES: &[Stage] = &[
    stage("tools", "the programs that the other stages need", tools::require),
    stage("fmt", "formatting", |root| cargo(root, &["fmt", "--all", "--check"])),
    stage("dependencies", "licences, sources and versions", dependencies::check),
    stage("tidy", "layers, file sizes, error pages and other rules", tidy::run),
    stage("clippy", "lints, warnings are errors", |root| cargo(root, CLIPPY)),
    stage("docs", "rustdoc, warnings are errors", docs),
    stage("build", "the binary, the examples and all tests", |root| {
        cargo::run(test(root).arg("--no-run"))
    }),
    stage("schemas", "the JSON Schemas are up to date", |root| generate(root, "schemas")),
    stage("vectors", "the test vectors are up to date", |root| generate(root, "vectors")),
    stage("plugin", "the Claude Code plugin is up to date", |root| generate(root, "plugin")),
    stage("tests", "all tests but those of the stages below", tests),
    stage("doctests", "the examples in the documentation", |root| {
        cargo(root, &["test", "--workspace", "--doc"])
    }),
    stage("browser", "the dashboard in a real browser", browser::check),
    stage("clients", "agents run by the real clients, which are installed first", clients::check),
    stage("sessions", "sessions of the real clients, guarded by hooks", clients::check_sessions),
];

/// The stages that `--fast` leaves out.
const SLOW: [&str; 3] = ["browser", "clients", "sessions"];

/// Which stages are run.
#[derive(Clone, Copy, Debug)]
pub enum Selection<'a> {
    /// All.
    All,
    /// Those for daily use.
    Fast,
    /// The one of this name.
    Only(&'a str),
}

const CLIPPY: &[&str] = &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];

const fn stage(name: &'static str, purpose: &'static str, run: fn(&Path) -> Result<()>) -> Stage {
    Stage { name, purpose, run }
}

/// Runs the selected stages, stopping at the first that fails, and prints how long each took.
///
/// # Errors
/// If a stage fails, or there is no stage of that name.
pub fn run(root: &Path, selection: Selection<'_>) -> Result<()> {
    let stages = selected(selection);
    if stages.is_empty() {
        let names: Vec<&str> = STAGES.iter().map(|stage| stage.name).collect();
        bail!("no such stage; there are: {}", names.join(", "));
    }
    let mut times = Vec::new();
    let result = stages.into_iter().try_for_each(|stage| {
        println!("==> {}", stage.name);
        let start = Instant::now();
        let result = (stage.run)(root).with_context(|| format!("check failed at: {}", stage.name));
        let time = start.elapsed();
        let outcome = if result.is_ok() { "ok" } else { "FAILED" };
        println!("<== {}: {outcome} in {:.1} s", stage.name, time.as_secs_f64());
        times.push((stage.name, time));
        result
    });
    print!("{}", table(&times));
    result
}

fn selected(selection: Selection<'_>) -> Vec<&'static Stage> {
    let is_selected = |stage: &&Stage| match selection {
        Selection::All => true,
        Selection::Fast => !SLOW.contains(&stage.name),
        Selection::Only(name) => stage.name == name,
    };
    STAGES.iter().filter(is_selected).collect()
}

fn table(times: &[(&str, Duration)]) -> String {
    let total: Duration = times.iter().map(|(_, time)| *time).sum();
    let mut text = String::new();
    for (name, time) in times.iter().chain(&[("total", total)]) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:<14}{:>8.1} s", time.as_secs_f64());
    }
    text
}

/// Builds the documentation of our crates, private items included.
fn docs(root: &Path) -> Result<()> {
    let arguments = ["doc", "--workspace", "--lib", "--bins", "--examples", "--no-deps"];
    let mut command = cargo::command(root, &arguments);
    command.arg("--document-private-items").env("RUSTDOCFLAGS", "-D warnings");
    cargo::run(&mut command)
}

fn generate(root: &Path, kind: &str) -> Result<()> {
    generate::run(root, &[kind, "--check"])
}

/// The command that builds and runs all tests.
fn test(root: &Path) -> Command {
    if tools::has_nextest() {
        return cargo::command(root, &["nextest", "run", "--workspace"]);
    }
    println!("cargo-nextest is not installed: `cargo test` is used");
    cargo::command(root, &["test", "--workspace", "--lib", "--bins", "--tests", "--examples"])
}

fn tests(root: &Path) -> Result<()> {
    let given = std::env::var(soak::PROPERTY_SEED);
    let seed = given.unwrap_or_else(|_| soak::fresh_seed().to_string());
    let variable = format!("{}={seed}", soak::PROPERTY_SEED);
    println!("the property tests run with {variable}");
    let skipped = root.join("target").join("skipped.txt");
    // What an earlier check has skipped; it may be missing.
    drop(std::fs::remove_file(&skipped));
    let mut command = test(root);
    if tools::has_nextest() {
        command.args(["-E", &format!("not ({} + {})", clients::TESTS, browser::TESTS)]);
    }
    command.env(soak::PROPERTY_SEED, seed).env("WINDLASS_SKIPPED", &skipped);
    let result = cargo::run(&mut memory::with_temporary_folder(command))
        .with_context(|| format!("to repeat it: `{variable} cargo xtask check --only tests`"));
    let lines = std::fs::read_to_string(&skipped).unwrap_or_default();
    println!(
        "{} skipped",
        match lines.lines().count() {
            0 => "no test was".to_owned(),
            1 => "1 test was".to_owned(),
            count => format!("{count} tests were"),
        }
    );
    print!("{lines}");
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_selected_by_its_name() {
        let names =
            |selection| selected(selection).iter().map(|stage| stage.name).collect::<Vec<_>>();
        assert_eq!(names(Selection::Only("tidy")), ["tidy"]);
        assert_eq!(names(Selection::All).len(), STAGES.len());
        let slow: Vec<&str> = names(Selection::All)
            .into_iter()
            .filter(|name| !names(Selection::Fast).contains(name))
            .collect();
        assert_eq!(slow, SLOW);
        let error = run(&crate::root(), Selection::Only("tydi")).unwrap_err().to_string();
        assert!(error.starts_with("no such stage; there are: tools, fmt, "), "{error}");
    }

    #[test]
    fn the_table_has_every_stage_and_the_sum() {
        let times = [("one", Duration::from_millis(1500)), ("two", Duration::from_secs(60))];
        let lines =
            ["one                1.5 s", "two               60.0 s", "total             61.5 s"];
        assert_eq!(table(&times).lines().collect::<Vec<_>>(), lines);
    }
}
