//! `cargo xtask check`: everything that must hold before a change goes in.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::cargo::{self, cargo};
use crate::{browser, clients, dependencies, generate, memory, slowest, soak, tidy, tools};

/// One stage of the check.
pub struct Stage {
    /// Its name for `--only`.
    pub name: &'static str,
    /// What it checks.
    pub purpose: &'static str,
    /// The seconds that it took on an idle machine with two cores and nothing built before.
    idle_seconds: u32,
    run: fn(&Path) -> Result<()>,
}

/// All stages, in the order in which they run: quick ones first, and the build before what uses it.
///
/// No stage builds again what another one has built. All of them build with `--workspace` and with the
/// development dependencies (hence `--examples`), because other choices select other
/// features and then all dependencies are compiled once more.
pub const STAGES: &[Stage] = &[
    stage("tools", 30, "the programs that the other stages need", tools::require),
    stage("fmt", 10, "formatting", |root| cargo(root, &["fmt", "--all", "--check"])),
    stage("dependencies", 5, "licences, sources and versions", dependencies::check),
    stage("tidy", 5, "layers, file sizes, error pages and other rules", tidy::run),
    stage(
        "build",
        540,
        "the binary, the examples and all tests, with lints and rustdoc: warnings are errors",
        |root| cargo::run(&mut build(root)),
    ),
    stage("schemas", 5, "the JSON Schemas are up to date", |root| generate(root, "schemas")),
    stage("vectors", 5, "the test vectors are up to date", |root| generate(root, "vectors")),
    stage("plugin", 5, "the Claude Code plugin is up to date", |root| generate(root, "plugin")),
    stage("tests", 900, "all tests but those of the stages below", tests),
    stage("doctests", 15, "the examples in the documentation", |root| {
        cargo::run(&mut cargo::checked(root, &["test", "--workspace", "--doc"]))
    }),
    stage("browser", 110, "the dashboard in a real browser", browser::check),
    stage(
        "clients",
        240,
        "agents run by the real clients, which are installed first",
        clients::check,
    ),
    stage(
        "sessions",
        120,
        "sessions of the real clients, guarded by hooks",
        clients::check_sessions,
    ),
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

const fn stage(
    name: &'static str,
    idle_seconds: u32,
    purpose: &'static str,
    run: fn(&Path) -> Result<()>,
) -> Stage {
    Stage { name, purpose, idle_seconds, run }
}

/// Runs the selected stages, stopping at the first that fails, and prints how long each took, and which tests took longest.
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
    let mut tests = Vec::new();
    let result = stages.into_iter().try_for_each(|stage| {
        println!("==> {}", stage.name);
        slowest::forget(root);
        let start = Instant::now();
        let result = (stage.run)(root).with_context(|| format!("check failed at: {}", stage.name));
        let time = start.elapsed();
        let outcome = if result.is_ok() { "ok" } else { "FAILED" };
        println!("<== {}: {outcome} in {:.1} s", stage.name, time.as_secs_f64());
        print!("{}", warning(stage, time));
        times.push((stage.name, time));
        tests.extend(slowest::measured(root));
        result
    });
    print!("{}{}", table(&times), slowest::table(tests));
    result
}

/// Tells of a stage that took much longer than it should; of one that takes no time anyway, nothing.
fn warning(stage: &Stage, time: Duration) -> String {
    let idle = stage.idle_seconds;
    if idle == 0 || time <= Duration::from_secs(u64::from(idle) * 2) {
        return String::new();
    }
    format!(
        "warning: {} took {:.0} s, over twice the {idle} s of an idle machine with two cores: other work loads this \
         one, or a change made it slower\n",
        stage.name,
        time.as_secs_f64(),
    )
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

fn generate(root: &Path, kind: &str) -> Result<()> {
    generate::run(root, &[kind, "--check"])
}

/// What `cargo test` builds and runs where cargo-nextest is missing.
const TEST: [&str; 6] = ["test", "--workspace", "--lib", "--bins", "--tests", "--examples"];

/// The command that builds all tests.
fn build(root: &Path) -> Command {
    let mut command = if tools::has_nextest() {
        cargo::checked(root, &["nextest", "run", "--workspace"])
    } else {
        cargo::checked(root, &TEST)
    };
    command.arg("--no-run");
    command
}

/// The command that runs all tests.
fn test(root: &Path) -> Command {
    if tools::has_nextest() {
        return cargo::nextest(root);
    }
    println!("cargo-nextest is not installed: `cargo test` is used");
    cargo::checked(root, &TEST)
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
    fn a_stage_that_takes_over_twice_its_time_is_told() {
        let stage = stage("slow", 10, "", |_| Ok(()));
        assert_eq!(warning(&stage, Duration::from_secs(20)), "");
        let told = warning(&stage, Duration::from_millis(20_400));
        assert!(told.starts_with("warning: slow took 20 s, over twice the 10 s"), "{told}");
        // All that take time have one.
        for name in SLOW.into_iter().chain(["build", "tests"]) {
            let stage = STAGES.iter().find(|stage| stage.name == name).unwrap();
            assert!(stage.idle_seconds > 0, "{name}");
        }
    }

    #[test]
    fn the_table_has_every_stage_and_the_sum() {
        let times = [("one", Duration::from_millis(1500)), ("two", Duration::from_secs(60))];
        let lines =
            ["one                1.5 s", "two               60.0 s", "total             61.5 s"];
        assert_eq!(table(&times).lines().collect::<Vec<_>>(), lines);
    }
}
