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
const ROUNDS: usize = 15;
/// The commands that are timed.
const COMMANDS: [(&str, &[&str]); 4] = [
    ("recover", &["windlass", "recover"]),
    ("status", &["windlass", "status"]),
    ("metrics", &["windlass", "status", "--metrics"]),
    ("queue", &["windlass", "queue", "list"]),
];

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
    let few = filled(&folder.join("few"), ENTRIES_FEW)?;
    let many = filled(&folder.join("many"), entries)?;
    for (name, words) in COMMANDS {
        let (early, late) = in_turn(|| time(few.command(words)), || time(many.command(words)))?;
        println!(
            "  {name:<9} {early:8.1} at {ENTRIES_FEW} entries, {late:8.1} at {entries}: ratio {:.2}",
            late / early
        );
    }
    let young = with_runs(&folder.join("young"), RUNS_FEW)?;
    let old = with_runs(&folder.join("old"), runs)?;
    let (early, late) = in_turn(|| run(&young), || run(&old))?;
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

/// A project with a journal of so many entries, of calls that are over.
fn filled(folder: &Path, entries: u64) -> Result<Project> {
    std::fs::create_dir(folder)?;
    let project = Project::new(folder)?;
    calls::fill(&state(folder)?.join("windlass.db"), Kind::Write, entries)?;
    Ok(project)
}

/// The medians of two things, measured in turn: whatever else the machine does slows both.
fn in_turn(
    first: impl Fn() -> Result<f64>,
    second: impl Fn() -> Result<f64>,
) -> Result<(f64, f64)> {
    let mut times = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        times.0.push(first()?);
        times.1.push(second()?);
    }
    Ok((median(times.0.into_iter()), median(times.1.into_iter())))
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

/// A project that has had so many runs.
fn with_runs(folder: &Path, runs: usize) -> Result<Project> {
    std::fs::create_dir(folder)?;
    let project = Project::new(folder)?;
    project.add_loops(&[("tiny", LOOP)])?;
    for _ in 0..runs {
        run(&project)?;
    }
    Ok(project)
}

/// The time of a run.
fn run(project: &Project) -> Result<f64> {
    time(project.command(&["windlass", "run", "--loop", "tiny", "nothing"]))
}
