//! Calls that lead nowhere are broken off, and the attempt fails by the loop's ordinary path.

use serde_json::{Value, json};

use crate::harness::Outcome;
use crate::world::{Repo, answers, build, review, sh};

/// A call that policy denies.
fn denied(number: usize) -> Value {
    let line = format!("frobnicate {number}");
    json!({ "tool": "shell/read", "args": { "line": line }, "intent": "a step of the test", "expect": "DENIED" })
}

/// Runs builds that make these calls; each attempt makes the same.
fn run(repo: &Repo, calls: &[Value]) -> Outcome {
    let builds: Vec<Value> = (0..3).map(|_| build(calls)).collect();
    repo.run(&answers(&builds, &[review("approved")]))
}

/// The failures of the attempts of `build`.
fn failures(repo: &Repo, outcome: &Outcome) -> Vec<String> {
    let trace = outcome.json()["trace_id"].as_str().unwrap().to_owned();
    let events = repo.events(&trace);
    let done =
        events.iter().filter(|event| event["phase"] == "build" && event["kind"] == "phase_done");
    done.filter_map(|event| event["done"]["failure"]["reason"].as_str())
        .map(str::to_owned)
        .collect()
}

/// The numbers of calls in the state, and of those with the code.
fn count(repo: &Repo, state: &str, code: &str) -> (usize, usize) {
    let calls = repo.windlass(&["call", "list", "--json", "--limit", "1000"]).exit(0).json();
    let calls: Vec<Value> = calls.as_array().unwrap().clone();
    let ids = calls.iter().map(|call| call["trace_id"].as_str().unwrap());
    let shown: Vec<Value> =
        ids.map(|id| repo.windlass(&["call", "show", id, "--json"]).json()).collect();
    let in_state = shown.iter().filter(|call| call["state"] == state).count();
    let with_code = shown.iter().filter(|call| call["refusal"]["code"] == code).count();
    (in_state, with_code)
}

#[test]
fn the_same_call_too_often_in_a_row_fails_the_attempt() {
    let repo = Repo::new();
    let outcome = run(&repo, &vec![sh("echo x >> built.txt"); 8]);
    assert_ne!(outcome.code, Some(0), "{outcome}");
    let failures = failures(&repo, &outcome);
    let (completed, broken) = count(&repo, "COMPLETED", "CALLS_REPEATED");
    assert!(!failures.is_empty());
    assert!(
        failures.iter().all(|why| why.starts_with("[CALLS_REPEATED] this call was made 5 times"))
    );
    assert!(failures.iter().all(|why| why.contains("change the arguments")), "{failures:?}");
    assert_eq!((completed, broken), (5 * failures.len(), failures.len()));
    assert_eq!(repo.read("built.txt").lines().count(), completed);
    repo.is_whole();
}

#[test]
fn other_calls_in_between_start_the_count_anew() {
    let repo = Repo::new();
    let one = vec![sh("echo x >> built.txt"); 5];
    let calls = [&one[..], &[sh("echo y >> built.txt")], &one].concat();
    run(&repo, &calls).exit(0);
    assert_eq!(repo.read("built.txt").lines().count(), 11);
}

#[test]
fn too_many_denials_in_a_row_fail_the_attempt() {
    let repo = Repo::new();
    let calls: Vec<Value> = (0..14).map(denied).collect();
    let outcome = run(&repo, &calls);
    assert_ne!(outcome.code, Some(0), "{outcome}");
    let failures = failures(&repo, &outcome);
    assert!(!failures.is_empty());
    assert!(failures.iter().all(|why| why.starts_with("[DENIALS_REPEATED] 10 calls in a row")));
    let (denied, broken) = count(&repo, "DENIED", "DENIALS_REPEATED");
    assert_eq!((denied, broken), (11 * failures.len(), failures.len()));
}

#[test]
fn the_limits_are_settings_and_can_be_turned_off() {
    let repo = Repo::new();
    repo.write(".windlass/config.toml", "[calls]\nidentical_max = 0\ndenied_max = 0\n");
    repo.commit("settings");
    let calls = [vec![sh("echo x >> built.txt"); 8], (0..14).map(denied).collect()].concat();
    run(&repo, &calls).exit(0);
    let repo = Repo::new();
    repo.write(".windlass/config.toml", "[calls]\nidentical_max = 2\n");
    repo.commit("settings");
    let outcome = run(&repo, &vec![sh("echo x >> built.txt"); 3]);
    assert!(failures(&repo, &outcome).iter().all(|why| why.contains("made 2 times")));
    repo.write(".windlass/config.toml", "[calls]\nidentical_max = -1\n");
    repo.windlass(&["run", "one"]).fails_with(2, "CONFIG_INVALID");
}

#[test]
fn a_crash_neither_doubles_calls_nor_forgets_the_count() {
    let repo = Repo::new();
    // A read is made again after a crash; a write would wait for a person.
    let read = json!({ "tool": "shell/read", "args": { "line": "cat README.md" }, "intent": "a step of the test" });
    let builds: Vec<Value> = (0..3).map(|_| build(&vec![read.clone(); 8])).collect();
    let path = repo.answers(&answers(&builds, &[review("approved")]));
    let line = ["run", "raise the price", "--json", "--answers", &path, "--by", "ada"];
    let crashed = repo.place.run_with("WINDLASS_CRASH_AT", "dispatch.before:3", &line);
    assert_eq!(crashed.code, None, "{crashed}");
    let runs = repo.windlass(&["status", "--json"]).exit(0).json();
    let id = runs[0]["run_id"].as_str().unwrap().to_owned();
    repo.windlass(&["recover"]);
    let outcome = repo.approve(&id);
    let failures = failures(&repo, &outcome);
    let (completed, broken) = count(&repo, "COMPLETED", "CALLS_REPEATED");
    assert_eq!(broken, failures.len(), "{outcome}");
    assert_eq!(completed, 5 * failures.len());
}
