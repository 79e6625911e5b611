//! How long a hook of a coding agent takes: alone beside the least that a hook in Python can do, and many at once.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::agents::Project;
use crate::median;

/// The hook to compare with: it parses an event and prints an answer.
const PYTHON: &str = "import json, sys\nevent = json.load(sys.stdin)\nprint(json.dumps({'hookSpecificOutput': \
    {'hookEventName': event['hook_event_name'], 'permissionDecision': 'allow'}}))\n";
/// How many hooks of one session are started at once.
const AT_ONCE: usize = 50;
/// How many sessions go on side by side, and how often each of them uses a tool.
const SESSIONS: usize = 20;
const USES: usize = 10;

/// An event of Claude Code.
pub fn event(project: &Project, name: &str, session: &str, id: &str) -> Vec<u8> {
    json!({
        "session_id": session,
        "transcript_path": "/nowhere/transcript.jsonl",
        "cwd": project.work,
        "hook_event_name": name,
        "permission_mode": "default",
        "tool_name": "Bash",
        "tool_input": { "command": format!("git status {id}"), "description": "look" },
        "tool_use_id": id,
        "tool_response": { "stdout": "clean", "stderr": "" },
    })
    .to_string()
    .into_bytes()
}

/// Starts a hook, gives it an event and waits for its answer.
pub fn answer(mut command: Command, event: &[u8]) -> Result<Duration> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = Instant::now();
    let mut child = command.spawn()?;
    child.stdin.take().context("no input")?.write_all(event)?;
    let output = child.wait_with_output()?;
    let took = started.elapsed();
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && !output.stdout.is_empty(), "{}: {said}", output.status);
    Ok(took)
}

/// Prints the time of hooks.
pub fn measure(folder: &Path, rounds: usize) -> Result<()> {
    let folder = folder.join("hooks");
    std::fs::create_dir(&folder)?;
    let project = Project::new(&folder.canonicalize()?)?;
    let script = folder.canonicalize()?.join("hook.py");
    std::fs::write(&script, PYTHON)?;
    alone(&project, &script, rounds)?;
    let hook = |name: &str, session: &str, id: &str| {
        let command = project.command(&["windlass", "hook", "--client", "claude"]);
        answer(command, &event(&project, name, session, id))
    };
    let barrier = Barrier::new(AT_ONCE);
    let at_once = together(AT_ONCE, |number| {
        barrier.wait();
        Ok(vec![hook("PreToolUse", "s-at-once", &format!("at-once-{number}"))?])
    })?;
    print("50 hooks of one session at once", at_once);
    let side_by_side = together(SESSIONS, |number| {
        let session = format!("s-{number}");
        (0..USES).map(|use_| hook("PreToolUse", &session, &format!("{number}-{use_}"))).collect()
    })?;
    print("20 sessions side by side", side_by_side);
    let mut verify = project.command(&["windlass", "verify"]);
    ensure!(verify.status()?.success(), "the journal is not intact");
    let listed = project
        .command(&["windlass", "call", "list", "--ids", "--limit", "100000"])
        .stdout(Stdio::piped())
        .output()?;
    let calls = String::from_utf8_lossy(&listed.stdout).lines().count();
    ensure!(calls == rounds + AT_ONCE + SESSIONS * USES, "{calls} calls are on record");
    let mut install =
        project.command(&["windlass", "install", "claude", "--loop", "core", "--yes"]);
    let installed = install.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    ensure!(installed.success(), "the core loop cannot be installed");
    let mut times = Vec::new();
    for number in 0..rounds {
        let took = hook("PreToolUse", "s-core", &format!("core-{number}"))?;
        times.push(took.as_secs_f64() * 1e3);
    }
    println!("PreToolUse with the core loop on, median: {:.2} ms", median(times.into_iter()));
    Ok(())
}

/// Hooks one after the other, each beside one in Python.
fn alone(project: &Project, script: &PathBuf, rounds: usize) -> Result<()> {
    let (mut ours, mut python) = (Vec::new(), Vec::new());
    for number in 0..rounds {
        let event = event(project, "PreToolUse", "s-alone", &format!("alone-{number}"));
        let command = project.command(&["windlass", "hook", "--client", "claude"]);
        ours.push(answer(command, &event)?.as_secs_f64() * 1e3);
        let mut command = Command::new("/usr/bin/python3");
        command.arg(script);
        python.push(answer(command, &event)?.as_secs_f64() * 1e3);
    }
    let (ours, python) = (median(ours.into_iter()), median(python.into_iter()));
    println!("PreToolUse, with policy and record, median of {rounds}");
    println!("  windlass hook         {ours:6.2} ms");
    println!("  python3 hook          {python:6.2} ms, which only parses and prints");
    println!("  ratio                 {:6.2}", ours / python);
    Ok(())
}

/// Does something in threads and collects the times.
fn together(
    threads: usize,
    work: impl Fn(usize) -> Result<Vec<Duration>> + Sync,
) -> Result<Vec<Duration>> {
    let mut all = Vec::new();
    thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> =
            (0..threads).map(|number| scope.spawn(move || work(number))).collect();
        for thread in running {
            let times = thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
            all.extend(times?);
        }
        Ok::<(), anyhow::Error>(())
    })?;
    Ok(all)
}

fn print(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| {
        let index = times.len().saturating_sub(1) * share / 100;
        times.get(index).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    println!("{name}: median {:.1} ms, p99 {:.1} ms, slowest {:.1} ms", at(50), at(99), at(100));
}
