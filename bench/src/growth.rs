//! What grows with history: commands in a project with few and with many entries, runs after few and after many.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use crate::agents::Project;
use crate::calls::{self, Kind};
use crate::median;

/// The entries of the small journal, and the runs of the young project.
const ENTRIES_FEW: u64 = 1_000;
const RUNS_FEW: usize = 10;
/// How often each command is timed.
const ROUNDS: usize = 9;

/// A loop whose runs do nothing but what every run does.
const LOOP: &str = "---\nid: tiny\ntitle: Tiny\ntype: loop\ncategory: build\nversion: \"1\"\non_restart: hold\n\
    concurrency: serial\nphases:\n  - id: one\n    doer: { builtin: policy }\n---\nTiny.\n";

/// Prints the time of commands and runs, early and late.
pub fn measure(folder: &Path, entries: u64, runs: usize) -> Result<()> {
    let folder = folder.join("growth");
    std::fs::create_dir(&folder)?;
    let folder = folder.canonicalize()?;
    println!("what grows with history, milliseconds");
    let few = commands(&folder.join("few"), ENTRIES_FEW)?;
    let many = commands(&folder.join("many"), entries)?;
    for ((name, early), (_, late)) in few.iter().zip(&many) {
        println!(
            "  {name:<9} {early:8.1} at {ENTRIES_FEW} entries, {late:8.1} at {entries}: ratio {:.2}",
            late / early
        );
    }
    let (early, late) = run_after_run(&folder.join("runs"), runs)?;
    println!(
        "  a run     {early:8.1} after {RUNS_FEW} runs, {late:8.1} after {runs}: ratio {:.2}",
        late / early
    );
    Ok(())
}

/// The time of commands beside a journal of so many entries, of calls that are over.
fn commands(folder: &Path, entries: u64) -> Result<Vec<(&'static str, f64)>> {
    std::fs::create_dir(folder)?;
    let project = Project::new(folder)?;
    calls::fill(&state(folder)?.join("windlass.db"), Kind::Write, entries)?;
    let commands: [(&str, &[&str]); 4] = [
        ("recover", &["windlass", "recover"]),
        ("status", &["windlass", "status"]),
        ("metrics", &["windlass", "status", "--metrics"]),
        ("queue", &["windlass", "queue", "list"]),
    ];
    commands
        .into_iter()
        .map(|(name, words)| {
            let times: Result<Vec<f64>> =
                (0..ROUNDS).map(|_| time(project.command(words))).collect();
            Ok((name, median(times?.into_iter())))
        })
        .collect()
}

/// The only state folder in the home of a project.
fn state(folder: &Path) -> Result<PathBuf> {
    let states = folder.join("home/.local/state/windlass");
    let mut found = std::fs::read_dir(&states)?.filter_map(|entry| Some(entry.ok()?.path()));
    found.find(|path| path.join("windlass.db").exists()).context("no state folder")
}

fn time(mut command: Command) -> Result<f64> {
    let started = Instant::now();
    let output = command.stderr(Stdio::piped()).output()?;
    let took = started.elapsed().as_secs_f64() * 1e3;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {said}", output.status);
    Ok(took)
}

/// The time of a run after few and after many others.
fn run_after_run(folder: &Path, runs: usize) -> Result<(f64, f64)> {
    std::fs::create_dir(folder)?;
    let project = Project::new(folder)?;
    std::fs::write(project.work.join(".windlass/loops/tiny.md"), LOOP)?;
    let shown =
        project.command(&["windlass", "trust", "--json"]).stdout(Stdio::piped()).output()?;
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout)?;
    let digest = shown.get("digest").and_then(serde_json::Value::as_str).context("no digest")?;
    time(project.command(&["windlass", "trust", "--yes", digest]))?;
    let run = || time(project.command(&["windlass", "run", "--loop", "tiny", "nothing"]));
    let several = |count: usize| -> Result<f64> {
        let times: Result<Vec<f64>> = (0..count).map(|_| run()).collect();
        Ok(median(times?.into_iter()))
    };
    several(RUNS_FEW)?;
    let early = several(ROUNDS)?;
    several(runs.saturating_sub(RUNS_FEW + ROUNDS))?;
    Ok((early, several(ROUNDS)?))
}
