//! Windlass, a client, both, or the relay between them killed at moments that nobody chose.

use std::collections::BTreeMap;
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::Value;
use windlass_testkit::{Random, soak};

use crate::harness::Outcome;
use crate::lab::{Kind, Lab, script, shell};
use crate::processes::below;
use crate::world::VOICE;

/// How often something is killed, at least.
const KILLS: usize = 5;
/// How often something is killed in one run, at most.
const KILLS_OF_RUN: usize = 3;
/// The lines that the builder writes.
const LINES: usize = 8;

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    Windlass,
    Client,
    Both,
    Relay,
}

pub fn survives(kind: &'static Kind, victim: Victim) {
    let seed = soak::seed(0x5eed_a6e7 + victim as u64);
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let (mut killed, mut runs) = (0, 0);
    while killed < KILLS {
        let lines = (0..LINES).map(|number| shell(&format!("echo line {number} >> count.txt")));
        let Some(lab) = Lab::new(kind, &script(lines.collect())) else { return };
        let before = lab.repo.commits();
        let kills = KILLS_OF_RUN.min(KILLS - killed);
        let of_run = one_run(&lab, victim, kills, &mut random);
        killed += of_run;
        runs += 1;
        assert!(runs < 3 * KILLS, "nothing was killed");
        lab.has_passed(before);
        is_done_once(&lab);
    }
    println!("{} {victim:?}: {killed} kills in {runs} runs", kind.name);
}

/// Takes a run to its end, and returns how often something was killed in it.
fn one_run(lab: &Lab, victim: Victim, kills: usize, random: &mut Random) -> usize {
    drop(lab.windlass(&["people", "add", "ada"]));
    let mut line: Vec<String> = lab.run_line().map(str::to_owned).to_vec();
    let mut killed = 0;
    for _ in 0..40 {
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let mut process = lab.command(&words).spawn().expect("a process");
        while killed < kills && strike(lab, victim, &mut process, random) {
            killed += 1;
        }
        let output = process.wait_with_output().expect("an output");
        let outcome = Outcome::of(format!("windlass {}", words.join(" ")), output);
        if outcome.code == Some(0) {
            return killed;
        }
        let Some(run) = newest_run(lab) else { continue };
        line = next_command(lab, &run, &outcome);
    }
    panic!("the run does not end");
}

/// What a person does with a run that stands still.
fn next_command(lab: &Lab, run: &Value, outcome: &Outcome) -> Vec<String> {
    let id = run["run_id"].as_str().expect("an id").to_owned();
    if run["state"] != "CHECKPOINT" {
        assert!(matches!(outcome.code, None | Some(4)), "{outcome}\n{run}");
        return ["resume", &id, "--json"].map(str::to_owned).to_vec();
    }
    let shown = lab.windlass(&["queue", "show", &id, "--json"]).exit(0).json();
    let mut words: Vec<String> =
        ["queue", "approve", &id, "--resume", "--json"].map(str::to_owned).to_vec();
    words.extend(VOICE.map(str::to_owned));
    // A call that was interrupted: a person looks whether it had its effect.
    if let Some(line) = line_of(&shown) {
        let has_run = lab.repo.read("count.txt").lines().any(|written| written == line);
        words.extend(has_run.then(|| "--ran".to_owned()));
    }
    words
}

/// The line that the call on hold writes.
fn line_of(shown: &Value) -> Option<String> {
    let text = shown.to_string();
    let (_, rest) = text.split_once("echo line ")?;
    let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some(format!("line {number}"))
}

fn newest_run(lab: &Lab) -> Option<Value> {
    let runs = lab.windlass(&["status", "--json"]).exit(0).json();
    runs.as_array()?.first().cloned()
}

/// Kills what is to be killed at some moment; returns whether it was there.
fn strike(lab: &Lab, victim: Victim, process: &mut Child, random: &mut Random) -> bool {
    let requests =
        lab.model.requests().len() + 1 + usize::try_from(random.below(6)).expect("small");
    let began = Instant::now();
    while lab.model.requests().len() < requests {
        if process.try_wait().expect("a process").is_some() {
            return false;
        }
        assert!(began.elapsed() < Duration::from_secs(120), "the model is not asked");
        let _ = lab.model.wait_for(requests, Duration::from_millis(20));
    }
    // Not to wait for anything: the moment is the test.
    std::thread::sleep(Duration::from_millis(random.below(80)));
    if process.try_wait().expect("a process").is_some() {
        return false;
    }
    let processes = below(process.id());
    let clients = || processes.iter().filter(|process| process.is_of(lab.clients()));
    match victim {
        Victim::Windlass => process.kill().expect("a signal"),
        Victim::Both => {
            process.kill().expect("a signal");
            clients().for_each(|client| client.kill());
        }
        Victim::Client => {
            let is_there = clients().count() > 0;
            clients().for_each(|client| client.kill());
            return is_there;
        }
        Victim::Relay => {
            let relays: Vec<_> = processes.iter().filter(|process| process.is_relay()).collect();
            relays.iter().for_each(|relay| relay.kill());
            return !relays.is_empty();
        }
    }
    true
}

/// Each line was written by one call that is recorded once.
fn is_done_once(lab: &Lab) {
    let mut calls: BTreeMap<String, usize> = BTreeMap::new();
    for (tool, args, _) in lab.calls() {
        if tool == "shell/run" {
            *calls.entry(args["line"].to_string()).or_default() += 1;
        }
    }
    assert!(calls.values().all(|count| *count == 1), "{calls:?}");
    let written = lab.repo.read("count.txt");
    let mut lines: Vec<&str> = written.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), written.lines().count(), "{written}");
    assert_eq!(lines.len(), calls.len(), "{written}\n{calls:?}");
    println!("{} of {LINES} lines were written", lines.len());
}
