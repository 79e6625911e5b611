//! What grows with history: commands in a project with few and with many entries, runs after few and after many.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::agents::Project;
use crate::calls::{self, Kind};
use crate::{hooks, median, process};

/// The entries of the small journal.
const ENTRIES_FEW: u64 = 1_000;
/// The runs of the projects that are compared with the one that has the most.
const RUNS: [usize; 2] = [10, 1_000];
/// One session of a coding agent is begun after so many runs.
const RUNS_PER_SESSION: usize = 10;
/// How often each command is timed.
const ROUNDS: usize = 15;
/// The commands that are timed in journals of few and of many entries.
const COMMANDS: [(&str, &[&str]); 6] = [
    ("recover", &["windlass", "recover"]),
    ("status", &["windlass", "status"]),
    ("metrics", &["windlass", "status", "--metrics"]),
    ("queue", &["windlass", "queue", "list"]),
    ("calls", &["windlass", "call", "list"]),
    ("held", &["windlass", "call", "list", "--held"]),
];
/// The files of the large repository, and of the small one.
const FILES: [usize; 2] = [20, 20_000];

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
    println!("  with {ENTRIES_FEW} and {entries} entries");
    for (name, words) in COMMANDS {
        row(name, &in_turn(&[&|| time(few.command(words)), &|| time(many.command(words))])?);
    }
    with_history(&folder, runs)?;
    let sizes: Vec<Project> = FILES
        .iter()
        .map(|files| with_files(&folder.join(format!("files-{files}")), *files))
        .collect::<Result<_>>()?;
    println!("  with {} and {} files", FILES[0], FILES[1]);
    let of = |size: usize| sizes.get(size).context("no such project");
    row("a run of the spine", &in_turn(&[&|| spine(of(0)?), &|| spine(of(1)?)])?);
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

/// Times what is looked up and started in projects with few runs, more and many, all made by the binary.
fn with_history(folder: &Path, runs: usize) -> Result<()> {
    let counts: Vec<usize> =
        RUNS.iter().copied().filter(|count| *count < runs).chain([runs]).collect();
    let histories: Vec<History> = counts
        .iter()
        .map(|count| History::new(&folder.join(format!("runs-{count}")), *count))
        .collect::<Result<_>>()?;
    println!("  with {counts:?} runs, a session after each {RUNS_PER_SESSION}");
    for (name, words) in LOOKUPS {
        let timed: Vec<_> =
            histories.iter().map(|history| move || time(history.command(words))).collect();
        let timed: Vec<&dyn Fn() -> Result<f64>> = timed.iter().map(|timed| timed as _).collect();
        row(name, &in_turn(&timed)?);
    }
    let hooks: Vec<_> = histories.iter().map(|history| || history.hook("s-timed")).collect();
    row("a hook", &in_turn(&hooks.iter().map(|timed| timed as _).collect::<Vec<_>>())?);
    let starts: Vec<_> = histories.iter().map(|history| || run(&history.project)).collect();
    row("a run", &in_turn(&starts.iter().map(|timed| timed as _).collect::<Vec<_>>())?);
    Ok(())
}

/// What is looked up by name, listed, or started; the names are those of a [`History`].
const LOOKUPS: [(&str, &[&str]); 13] = [
    ("status", &["windlass", "status"]),
    ("the first run", &["windlass", "status", "FIRST"]),
    ("a name's beginning", &["windlass", "status", "PREFIX"]),
    ("its checkpoints", &["windlass", "checkpoint", "list", "FIRST"]),
    ("a checkpoint", &["windlass", "checkpoint", "show", "CHECKPOINT"]),
    ("the queue", &["windlass", "queue", "list"]),
    ("calls", &["windlass", "call", "list"]),
    ("calls before one", &["windlass", "call", "list", "--before", "CALL"]),
    ("grants", &["windlass", "grant", "list", "--all"]),
    ("sessions", &["windlass", "session", "list"]),
    ("the first session", &["windlass", "session", "show", "s-0"]),
    (
        "a line of bash",
        &["windlass", "call", "run", "shell/run", "--new-key", "--args", r#"{"line":"true"}"#],
    ),
    ("export", &["windlass", "export", "FIRST"]),
];

/// A project that has had so many runs and sessions.
struct History {
    project: Project,
    /// What stands for a word of a command.
    names: BTreeMap<&'static str, String>,
}

impl History {
    fn new(folder: &Path, runs: usize) -> Result<Self> {
        std::fs::create_dir(folder)?;
        let project = Project::new(folder)?;
        project.add_loops(&[("tiny", LOOP)])?;
        let mut history = Self { project, names: BTreeMap::new() };
        for number in 0..runs {
            run(&history.project)?;
            if number % RUNS_PER_SESSION == 0 {
                history.hook(&format!("s-{}", number / RUNS_PER_SESSION))?;
            }
        }
        let first = history.oldest(&["windlass", "status", "--json"], "/run_id")?;
        let checkpoint =
            history.oldest(&["windlass", "checkpoint", "list", &first, "--json"], "/name")?;
        let call = history
            .oldest(&["windlass", "call", "list", "--limit", "100000", "--json"], "/trace_id")?;
        let prefix = first.get(..first.len() - 2).context("a run's name is longer")?.to_owned();
        history.names = BTreeMap::from([
            ("PREFIX", prefix),
            ("CHECKPOINT", format!("{first}/{checkpoint}")),
            ("FIRST", first),
            ("CALL", call),
        ]);
        Ok(history)
    }

    /// A command, in which names stand for what they name.
    fn command(&self, words: &[&str]) -> Command {
        let words: Vec<&str> =
            words.iter().map(|word| self.names.get(word).map_or(*word, String::as_str)).collect();
        self.project.command(&words)
    }

    /// A field of the last element that a command lists.
    fn oldest(&self, words: &[&str], field: &str) -> Result<String> {
        let listed = self.project.command(words).stdout(Stdio::piped()).output()?;
        let listed: Value = serde_json::from_slice(&listed.stdout)?;
        let elements =
            [Some(&listed), listed.get("calls"), listed.get("checkpoints"), listed.get("runs")];
        let elements = elements.into_iter().flatten().find_map(Value::as_array);
        let last = elements.and_then(|elements| elements.last()?.pointer(field)?.as_str());
        last.map(str::to_owned).with_context(|| format!("{words:?} has no {field}"))
    }

    /// The time of a hook of a session.
    fn hook(&self, session: &str) -> Result<f64> {
        let number = USES.fetch_add(1, Ordering::Relaxed);
        let event = hooks::event(&self.project, "PreToolUse", session, &format!("use-{number}"));
        let command = self.project.command(&["windlass", "hook", "--client", "claude"]);
        Ok(hooks::answer(command, &event)?.as_secs_f64() * 1e3)
    }
}

/// Numbers the uses of tools and the changes, of which no two are alike.
static USES: AtomicU64 = AtomicU64::new(0);

/// A project in a repository with so many files.
fn with_files(folder: &Path, files: usize) -> Result<Project> {
    std::fs::create_dir(folder)?;
    let project = Project::new(folder)?;
    for number in 0..files {
        let folder = project.work.join(format!("src/part-{}", number / 100));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(format!("file-{number}.txt")), format!("line {number}\n"))?;
    }
    for line in ["git add -A", "git commit -qm files"] {
        let words: Vec<&str> = line.split(' ').collect();
        ensure!(project.command(&words).status()?.success(), "{line}");
    }
    Ok(project)
}

/// The time of a run that changes one file and commits it.
fn spine(project: &Project) -> Result<f64> {
    let number = USES.fetch_add(1, Ordering::Relaxed);
    let args = json!({ "path": "changed.txt", "content": format!("change {number}\n") });
    let call = json!({ "tool": "fs/write", "args": args, "intent": "change one file" });
    let built = json!({ "calls": [call], "answer": { "summary": "built", "commit_message": "change one file" } });
    let reviewed =
        json!({ "answer": { "verdict": "approved", "reason": "fine", "summary": "seen" } });
    let designed = json!({ "answer": { "summary": "a plan" } });
    let answers =
        json!({ "phases": { "design": [designed], "build": [built], "review": [reviewed] } });
    std::fs::write(project.work.with_file_name("answers.json"), answers.to_string())?;
    time(project.command(&["windlass", "run", "--answers", "../answers.json", "change one file"]))
}

/// Prints the medians of one thing at all sizes, and the ratio of the last to the first.
fn row(name: &str, times: &[f64]) {
    let columns: String = times.iter().map(|time| format!("{time:9.1}")).collect();
    let (first, last) = (times.first().copied(), times.last().copied());
    let ratio = last.zip(first).map_or(f64::NAN, |(last, first)| last / first);
    println!("    {name:<20}{columns}   ratio {ratio:.2}");
}

/// The medians of several things, measured in turn: whatever else the machine does slows all.
fn in_turn(things: &[&dyn Fn() -> Result<f64>]) -> Result<Vec<f64>> {
    let mut times = vec![Vec::new(); things.len()];
    for _ in 0..ROUNDS {
        for (times, thing) in times.iter_mut().zip(things) {
            times.push(thing()?);
        }
    }
    Ok(times.into_iter().map(|times| median(times.into_iter())).collect())
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

/// The time of a run.
fn run(project: &Project) -> Result<f64> {
    time(project.command(&["windlass", "run", "--loop", "tiny", "nothing"]))
}
