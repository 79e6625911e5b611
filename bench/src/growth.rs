//! What grows with history: commands in a project with few and with many entries, runs after few and after many.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::agents::Project;
use crate::calls::{self, Kind};
use crate::{median, process};

/// The entries of the small journal, and the runs of the young project.
const ENTRIES_FEW: u64 = 1_000;
const RUNS_FEW: usize = 10;
/// How often each command is timed.
const ROUNDS: usize = 9;

/// A loop whose runs do nothing but what every run does.
pub const LOOP: &str = "---\nid: tiny\ntitle: Tiny\ntype: loop\ncategory: build\nversion: \"1\"\non_restart: hold\n\
    concurrency: serial\nphases:\n  - id: one\n    doer: { builtin: policy }\n---\nTiny.\n";

/// A loop whose only phase is the work of an agent.
const WORKING_LOOP: &str = "---\nid: works\ntitle: Works\ntype: loop\ncategory: build\nversion: \"1\"\non_restart: hold\n\
    concurrency: serial\nphases:\n  - id: work\n    doer: { agent: builder }\n---\nWorks.\n";
/// The calls of a short run and of a long one, whose memory is compared.
const CALLS_FEW: usize = 100;
const CALLS_MANY: usize = 10_000;

/// Prints the time of commands and runs, early and late, and the memory of short and long runs.
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
    let folder = folder.join("calls");
    std::fs::create_dir(&folder)?;
    let project = Project::new(&folder)?;
    project.add_loops(&[("works", WORKING_LOOP)])?;
    let [few, many] = [CALLS_FEW, CALLS_MANY].map(|calls| peak_mib(&project, calls));
    let (few, many) = (few?, many?);
    println!(
        "  memory    {few:8.1} MiB for a run of {CALLS_FEW} calls, {many:8.1} for one of {CALLS_MANY}: ratio {:.2}",
        many / few
    );
    Ok(())
}

/// The most memory that a run of so many scripted calls takes.
fn peak_mib(project: &Project, calls: usize) -> Result<f64> {
    // The same call several times in a row would be refused.
    let names = ["small.txt", "other.txt"];
    std::fs::write(project.work.join("other.txt"), "another line\n")?;
    let call =
        |path: &str| json!({ "tool": "fs/read", "args": { "path": path }, "intent": "read it" });
    let all: Vec<_> = names.iter().cycle().take(calls).map(|path| call(path)).collect();
    let attempt = json!({ "calls": all, "answer": { "summary": "done" } });
    let answers = project.work.with_file_name("answers.json");
    std::fs::write(&answers, json!({ "phases": { "work": [attempt] } }).to_string())?;
    let words = ["windlass", "run", "--loop", "works", "--answers", "../answers.json", "nothing"];
    let mut child = project.command(&words).spawn()?;
    let (id, mut peak) = (child.id().to_string(), 0);
    loop {
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "a run of {calls} calls: {status}");
            return Ok(peak as f64 / 1024.0);
        }
        // It may have ended since.
        peak = process::peak_kib_of(&id).unwrap_or(peak).max(peak);
        std::thread::sleep(Duration::from_millis(5));
    }
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
pub fn state(folder: &Path) -> Result<PathBuf> {
    let states = folder.join("home/.local/state/windlass");
    let mut found = std::fs::read_dir(&states)?.filter_map(|entry| Some(entry.ok()?.path()));
    found.find(|path| path.join("windlass.db").exists()).context("no state folder")
}

/// Runs a command that must succeed, and returns the milliseconds.
pub fn time(mut command: Command) -> Result<f64> {
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
    project.add_loops(&[("tiny", LOOP)])?;
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
