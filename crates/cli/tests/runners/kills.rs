//! Windlass killed at moments that nobody chose, while a model works.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use windlass_testkit::{Random, soak};

use crate::harness::Outcome;
use crate::lab::{APIS, Lab, calls, script, shell};
use crate::world::VOICE;

/// How often it is killed, at least.
const KILLS: usize = 5;
/// The lines that the builder writes.
const LINES: usize = 6;

#[test]
fn nothing_is_done_twice() {
    let mut random = Random::new(soak::seed(0x5eed_0de1));
    let mut killed = 0;
    for round in 0..3 * KILLS {
        if killed >= KILLS {
            return;
        }
        let lines = (0..LINES).map(|number| shell(&format!("echo line {number} >> count.txt")));
        let lab = Lab::new(APIS[round % 3], &script(lines.collect()), "");
        let before = lab.repo.commits();
        killed += one_run(&lab, &mut random);
        lab.has_passed(before);
        is_done_once(&lab);
    }
    panic!("it was killed only {killed} times");
}

/// Takes a run to its end, and returns how often it was killed.
fn one_run(lab: &Lab, random: &mut Random) -> usize {
    let start = ["run", "leave a greeting", "--json", "--agent", "m", "--by=ada"];
    let mut line: Vec<String> = start.map(str::to_owned).to_vec();
    let mut killed = 0;
    for _ in 0..40 {
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let mut process = lab.command(&words).spawn().expect("a process");
        if killed < 3 {
            let more = 1 + usize::try_from(random.below(4)).expect("small");
            let requests = lab.model.requests().len() + more;
            while !lab.model.wait_for(requests, Duration::from_millis(20)) {
                if process.try_wait().expect("a process").is_some() {
                    break;
                }
            }
            // Not to wait for anything: the moment is the test.
            std::thread::sleep(Duration::from_millis(random.below(60)));
            if process.try_wait().expect("a process").is_none() {
                process.kill().expect("a signal");
                killed += 1;
            }
        }
        let output = process.wait_with_output().expect("an output");
        let outcome = Outcome::of(format!("windlass {}", words.join(" ")), output);
        if outcome.code == Some(0) {
            return killed;
        }
        let runs = lab.windlass(&["status", "--json"]).exit(0).json();
        let Some(run) = runs.as_array().and_then(|runs| runs.first()) else { continue };
        line = next_command(lab, run, &outcome);
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
    let shown = lab.windlass(&["queue", "show", &id, "--json"]).exit(0).json().to_string();
    let mut words: Vec<String> =
        ["queue", "approve", &id, "--resume", "--json"].map(str::to_owned).to_vec();
    words.extend(VOICE.map(str::to_owned));
    // A call that was interrupted: a person looks whether it had its effect.
    if let Some((_, rest)) = shown.split_once("echo line ") {
        let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let line = format!("line {number}");
        let has_run = lab.repo.read("count.txt").lines().any(|written| written == line);
        words.extend(has_run.then(|| "--ran".to_owned()));
    }
    words
}

/// Each line was written by one call that is recorded once.
fn is_done_once(lab: &Lab) {
    let mut made: BTreeMap<String, usize> = BTreeMap::new();
    for (tool, args, _) in calls(&lab.repo) {
        if tool == "shell/run" {
            *made.entry(args["line"].to_string()).or_default() += 1;
        }
    }
    assert!(made.values().all(|count| *count == 1), "{made:?}");
    let written = lab.repo.read("count.txt");
    let mut lines: Vec<&str> = written.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), written.lines().count(), "{written}");
    assert_eq!(lines.len(), made.len(), "{written}\n{made:?}");
    println!("{} of {LINES} lines were written", lines.len());
}
