//! Runs of the spine loop by a scripted model: the script, what a person does when they stand still, and what they
//! must have done. The tests of the real clients use it, too.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::{Outcome, text_of};
use crate::world::{Repo, VOICE};

/// One call as a step of a script.
pub fn call(name: &str, input: Value) -> Value {
    json!({ "calls": [{ "name": name, "input": input }] })
}

/// A step that runs a shell line.
pub fn shell(line: &str) -> Value {
    call("shell_run", json!({ "line": line }))
}

/// Steps that each write a line of `count.txt`.
pub fn count(lines: usize) -> Vec<Value> {
    (0..lines).map(|number| shell(&format!("echo line {number} >> count.txt"))).collect()
}

/// A step that answers; an agent that learns of nothing else answers again.
pub fn answer(answer: Value) -> Value {
    json!({ "calls": [{ "name": "finish", "input": answer }], "repeat": -1 })
}

/// The script of a run whose builder takes these steps before it answers.
pub fn script(mut build: Vec<Value>) -> Value {
    let planned = json!({ "summary": "Add a file.", "steps": [], "checks": [], "risks": [] });
    let built = json!({ "summary": "Added it.", "commit_message": "Add a file", "checks": [] });
    let verdict = json!({ "verdict": "approved", "reason": "It is right.", "summary": "Seen." });
    build.push(answer(built));
    json!({
        "conversations": [
            { "when": "You plan one change", "steps": [answer(planned)] },
            { "when": "You carry out the plan", "steps": build },
        ],
        "otherwise": [answer(verdict)],
    })
}

/// The calls in a journal, oldest first, as tool, arguments and state.
pub fn calls(repo: &Repo) -> Vec<(String, Value, String)> {
    let mut calls = Vec::new();
    for id in repo.place.ids().iter().rev() {
        let log = repo.windlass(&["trace", "log", id, "--artifacts", "--json"]).exit(0);
        let entries: Vec<Value> =
            log.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let Some(proposal) = entries[0].pointer("/artifact/proposal") else { continue };
        let [server, tool] = ["tool_server", "tool_name"].map(|key| text_of(proposal, key));
        let state = text_of(&entries.last().expect("an entry")["entry"], "to_state");
        calls.push((format!("{server}/{tool}"), proposal["args"].clone(), state));
    }
    calls
}

/// What a person does with the newest run if it stands still; nothing if there is no run yet.
pub fn next_command(repo: &Repo, outcome: &Outcome) -> Option<Vec<String>> {
    let runs = repo.windlass(&["status", "--json"]).exit(0).json();
    let run = runs.as_array()?.first()?;
    let id = run["run_id"].as_str().expect("an id").to_owned();
    if run["state"] != "CHECKPOINT" {
        assert!(matches!(outcome.code, None | Some(4)), "{outcome}\n{run}");
        return Some(["resume", &id, "--json"].map(str::to_owned).to_vec());
    }
    let shown = repo.windlass(&["queue", "show", &id, "--json"]).exit(0).json();
    let mut words: Vec<String> =
        ["queue", "approve", &id, "--resume", "--json"].map(str::to_owned).to_vec();
    words.extend(VOICE.map(str::to_owned));
    // A call that was interrupted: a person looks whether it had its effect.
    if let Some(line) = line_of(&shown) {
        let has_run = repo.read("count.txt").lines().any(|written| written == line);
        words.extend(has_run.then(|| "--ran".to_owned()));
    }
    Some(words)
}

/// The line that the call on hold writes.
fn line_of(shown: &Value) -> Option<String> {
    let text = shown.to_string();
    let (_, rest) = text.split_once("echo line ")?;
    let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some(format!("line {number}"))
}

/// Each line of `count.txt` was written by one call that is recorded once.
pub fn is_done_once(repo: &Repo) {
    let mut made: BTreeMap<String, usize> = BTreeMap::new();
    for (tool, args, _) in calls(repo) {
        if tool == "shell/run" {
            *made.entry(args["line"].to_string()).or_default() += 1;
        }
    }
    assert!(made.values().all(|count| *count == 1), "{made:?}");
    let written = repo.read("count.txt");
    let mut lines: Vec<&str> = written.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), written.lines().count(), "{written}");
    assert_eq!(lines.len(), made.len(), "{written}\n{made:?}");
    println!("{} lines were written", lines.len());
}
