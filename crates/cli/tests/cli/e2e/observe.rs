//! Watching runs, logs and metrics, from outside.

use std::io::{BufRead as _, BufReader};
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::{Outcome, Place, finish, text_of};

/// A loop with a call, a revision and a question.
const LOOP: &str = r#"---
id: small
title: A small loop
type: loop
category: build
version: "1"
on_restart: resume
concurrency: serial
phases:
  - id: build
    doer: { agent: builder }
  - id: review
    needs: [build]
    doer: { agent: reviewer }
    gate:
      id: review
      verdicts:
        approved: continue
        needs_revision: { redo: build, max: 2, then: block }
  - id: ask
    needs: [review]
    doer: { person: "ship it?" }
    gate:
      id: ask
      verdicts: { approved: continue, rejected: block }
---

# Small
"#;

const ANSWERS: &str = r#"{ "phases": {
  "build": [
    { "calls": [ { "tool": "shell/read", "args": { "line": "cat notes" }, "intent": "read the notes first" } ],
      "answer": { "summary": "read" },
      "usage": { "input_tokens": 100, "output_tokens": 20, "cost_micros": 300 } },
    { "answer": { "summary": "done" },
      "usage": { "input_tokens": 10, "output_tokens": 2, "cost_micros": 30 } } ],
  "review": [
    { "answer": { "verdict": "needs_revision", "reason": "once more" } },
    { "answer": { "verdict": "approved", "reason": "fine" } } ]
} }"#;

/// What no log and no span may hold.
pub const SECRET: &str = "violet-armadillo";

/// A place with that loop.
pub fn place() -> Place {
    let place = Place::with_project();
    place.write(".windlass/loops/small.md", LOOP);
    place.write("notes", SECRET);
    std::fs::write(place.base().join("answers.json"), ANSWERS).unwrap();
    place
}

/// The command that starts a run there; it ends on hold.
pub fn start(place: &Place) -> std::process::Command {
    let task = format!("look at it, {SECRET}");
    let words = ["run", &task, "--loop", "small", "--answers", "../answers.json", "--by", "me"];
    place.command(&words)
}

/// Starts a run and returns its name.
pub fn held(place: &Place) -> String {
    finish(start(place), &[]).exit(4);
    newest(place)
}

/// The name of the newest run.
pub fn newest(place: &Place) -> String {
    text_of(&place.run(&["status", "--json"]).exit(0).json()[0], "run_id")
}

/// Lets a run go on to its end.
pub fn approve(place: &Place, run: &str) -> Outcome {
    place.run(&["queue", "approve", run, "--by", "ann", "--reason", "good", "--resume"])
}

fn lines(outcome: &Outcome) -> Vec<Value> {
    outcome.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A watching process, and its lines as they come.
struct Watching {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Watching {
    fn new(place: &Place, words: &[&str]) -> Self {
        let mut child = place.command(words).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().expect("a line").unwrap()).unwrap()
    }

    /// Reads up to an event of this kind; returns the kinds on the way.
    fn until(&mut self, kind: &str) -> Vec<String> {
        let mut kinds = Vec::new();
        while kinds.last().is_none_or(|last| last != kind) {
            kinds.push(text_of(&self.next(), "kind"));
        }
        kinds
    }

    fn interrupt(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        assert_eq!(self.lines.count(), 0, "nothing more is said");
        self.child.wait().unwrap().code()
    }
}

#[test]
fn a_recorded_run_is_shown_whole_and_in_order() {
    let place = place();
    let run = held(&place);
    let shown = lines(&place.run(&["watch", &run, "--json"]).exit(4).quiet());
    let numbers: Vec<u64> =
        shown.iter().map(|line| line["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert!(shown.iter().all(|line| line["run_id"] == run.as_str()));
    assert_eq!(shown[0]["kind"], "started");
    assert_eq!(shown[0]["event"]["run_id"], run.as_str());
    assert_eq!(shown.last().unwrap()["kind"], "held");
    let text = place.run(&["watch", &run]).exit(4).quiet();
    let text = text.says("✓ build").says("back to build (1)").says("(attempt 2)");
    text.says("on hold at ask: ship it? [PERSON_REQUESTED]");
    approve(&place, &run).exit(0);
    place.run(&["watch", &run]).exit(0).says("PASS pass");
    place.run(&["watch", &run, "--follow"]).exit(0).says("PASS pass");
    place.run(&["watch", "run_20200101_000000_00000000"]).fails_with(2, "RUN_NOT_FOUND");
}

#[test]
fn a_run_is_followed_through_its_hold_to_its_end() {
    let place = place();
    let run = held(&place);
    let mut watching = Watching::new(&place, &["watch", &run, "--follow", "--json"]);
    assert_eq!(watching.until("held")[0], "started");
    approve(&place, &run).exit(0);
    assert_eq!(watching.until("ended")[..2], ["voted", "resumed"]);
    assert!(watching.lines.next().is_none());
    assert_eq!(watching.child.wait().unwrap().code(), Some(0));
}

#[test]
fn all_runs_are_followed_from_now_on() {
    let place = place();
    let before = held(&place);
    let mut watching = Watching::new(&place, &["watch", "--follow", "--json"]);
    // Its first look is over when a run that begins later is shown.
    std::thread::sleep(std::time::Duration::from_millis(500));
    finish(start(&place), &[]).exit(4);
    let first = watching.next();
    assert_eq!(first["kind"], "started");
    let after = text_of(&first, "run_id");
    assert_ne!(after, before);
    watching.until("held");
    // One that was on hold before is shown from where it stood.
    approve(&place, &before).exit(0);
    let next = watching.next();
    assert_eq!((next["kind"].as_str(), next["run_id"].as_str()), (Some("voted"), Some(&*before)));
    watching.until("ended");
    assert_eq!(watching.interrupt(), Some(0));
}

#[test]
fn without_work_there_is_nothing_to_watch() {
    let place = place();
    let outcome = place.run(&["watch"]).exit(0).warns("no run is active");
    assert_eq!(outcome.text(), "");
    held(&place);
    assert_eq!(place.run(&["watch", "--json"]).exit(0).quiet().text(), "");
}

#[test]
fn a_run_whose_process_died_is_not_waited_for() {
    let place = place();
    let mut dying = start(&place);
    dying.env("WINDLASS_CRASH_AT", "append.after:6");
    assert_eq!(finish(dying, &[]).code, None);
    let run = newest(&place);
    place.run(&["watch", &run]).exit(1).warns("windlass recover");
    let metrics = place.run(&["status", "--metrics"]).exit(0);
    assert!(!metrics.text().contains("recovery"), "{metrics}");
    place.run(&["recover"]).exit(4);
    place.run(&["status", "--metrics"]).says("windlass_last_recovery_timestamp_seconds ");
}

#[test]
fn logs_tell_every_step_and_no_content() {
    let place = place();
    let mut command = start(&place);
    command.args(["--log", "trace", "--log-format", "json"]);
    let outcome = finish(command, &[]).exit(4);
    let logged: Vec<Value> = outcome
        .stderr
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let count = |message: &str| logged.iter().filter(|line| line["message"] == message).count();
    let entries = place.run(&["watch", &newest(&place), "--json"]).text().lines().count();
    assert_eq!(count("run event"), entries, "{outcome}");
    assert_eq!(count("call"), 1, "{outcome}");
    assert!(count("append") > entries / 2, "{outcome}");
    let call = logged.iter().find(|line| line["message"] == "call").unwrap();
    assert_eq!((&call["tool"], &call["state"]), (&"shell/read".into(), &"COMPLETED".into()));
    assert!(call["duration_ms"].is_u64() && call["trace_id"].is_string());
    let done = logged.iter().find(|line| line["kind"] == "phase_done").unwrap();
    assert_eq!((&done["phase"], &done["attempt"]), (&"build".into(), &1.into()));
    assert!(logged.iter().all(|line| line["target"].as_str().unwrap().starts_with("windlass")));
    let told: String = logged.iter().map(Value::to_string).collect();
    assert!(!told.contains(SECRET), "{told}");
    assert!(!outcome.text().contains("\"level\""), "logs are not data");
}

#[test]
fn logs_are_off_unless_asked_for() {
    let place = place();
    let quiet = finish(start(&place), &[]).exit(4);
    assert!(!quiet.stderr.contains("run event"), "{quiet}");
    let mut command = start(&place);
    command.env("WINDLASS_LOG", "info");
    let loud = finish(command, &[]).exit(4);
    assert!(loud.stderr.contains("run event") && !loud.stderr.contains(" append "), "{loud}");
    place.run_with("WINDLASS_LOG", "loud", &["status"]).exit(2).warns("loud");
    place.run(&["status", "--log", "loud"]).exit(2);
    place.run(&["status", "--log-format", "xml"]).exit(2);
}

#[test]
fn metrics_count_what_there_is() {
    let place = place();
    place.run(&["status", "--metrics"]).exit(0).quiet().says("windlass_holds_waiting 0\n");
    let run = held(&place);
    held(&place);
    approve(&place, &run).exit(0);
    let metrics = place.run(&["status", "--metrics"]).exit(0).quiet();
    for line in [
        r#"windlass_runs{loop="small",state="CHECKPOINT",outcome=""} 1"#,
        r#"windlass_runs{loop="small",state="TERMINAL",outcome="PASS"} 1"#,
        "windlass_holds_waiting 1",
        r#"windlass_calls{state="COMPLETED"} 2"#,
        "windlass_invocations_total 8",
        "windlass_tokens_total 264",
        "windlass_cost_micros_total 660",
        "windlass_runs_unreadable 0",
    ] {
        assert!(metrics.text().lines().any(|other| other == line), "no `{line}` in {metrics}");
    }
    for words in [["--metrics", "--held"], ["--metrics", "--json"], ["--metrics", "x"]] {
        place.run(&[&["status"], &words[..]].concat()).exit(2);
    }
}
