//! What becomes of runs whose processes died: as their loops say.

use serde_json::{Value, json};

use crate::world::{Repo, UNTIL_GO, VOICE};

/// A loop of two calls with a rule for restarts.
fn two_calls(on_restart: &str) -> String {
    format!(
        "---
id: two
title: Two calls
type: workflow
category: test
version: \"1\"
on_restart: {on_restart}
phases:
  - {{ id: a, doer: {{ builtin: call, with: {{ tool: shell/run, args: {{ line: \"echo a >> a.txt\" }} }} }} }}
  - {{ id: b, needs: [a], doer: {{ builtin: call, with: {{ tool: shell/run, args: {{ line: \"echo b >> b.txt\" }} }} }} }}
---
"
    )
}

/// A run that died after its first call was on record, before the second was made; its name.
fn died(on_restart: &str) -> (Repo, String) {
    let repo = Repo::with_loop("two", &two_calls(on_restart));
    let line = ["run", "one", "--loop", "two"];
    let killed = repo.place.run_with("WINDLASS_CRASH_AT", "dispatch.before:2", &line);
    assert_eq!(killed.code, None, "{killed}");
    assert_eq!((repo.read("a.txt").as_str(), repo.read("b.txt").as_str()), ("a\n", ""));
    let list = repo.windlass(&["status", "--json"]).exit(0).json();
    assert_eq!((&list[0]["state"], &list[0]["live"]), (&json!("RUNNING"), &json!(false)));
    let id = list[0]["run_id"].as_str().unwrap().to_owned();
    (repo, id)
}

/// The run among what was recovered.
fn of_run<'a>(recovered: &'a Value, id: &str) -> &'a Value {
    let found = recovered.as_array().unwrap().iter().find(|one| one["run"]["run_id"] == id);
    found.unwrap_or_else(|| panic!("no {id} in {recovered}"))
}

#[test]
fn a_loop_that_resumes_goes_on_by_itself() {
    let (repo, id) = died("resume");
    // The call was announced and may have run: a person has to say so first.
    let recovered = repo.windlass(&["recover", "--json"]).exit(4).json();
    let run = of_run(&recovered, &id);
    assert_eq!(run["on_restart"], "resume");
    assert_eq!(run["run"]["hold"]["trigger"], "CALL_APPROVAL");
    let done = repo.approve(&id).exit(0).json();
    assert_eq!(done["outcome"], "PASS");
    assert_eq!((repo.read("a.txt").as_str(), repo.read("b.txt").as_str()), ("a\n", "b\n"));
    repo.windlass(&["recover"]).exit(0).says("nothing to recover");
    repo.is_whole();
}

#[test]
fn a_loop_that_resumes_ends_where_nothing_is_uncertain() {
    let repo = Repo::with_loop("two", &two_calls("resume"));
    let line = ["run", "one", "--loop", "two"];
    let killed = repo.place.run_with("WINDLASS_CRASH_AT", "append.after:2", &line);
    assert_eq!(killed.code, None, "{killed}");
    let recovered = repo.windlass(&["recover", "--json"]).exit(0).json();
    assert_eq!(recovered[0]["run"]["outcome"], "PASS");
    assert_eq!((repo.read("a.txt").as_str(), repo.read("b.txt").as_str()), ("a\n", "b\n"));
}

#[test]
fn a_loop_that_holds_waits_for_a_person() {
    let (repo, id) = died("hold");
    let recovered = repo.windlass(&["recover", "--json"]).exit(4).json();
    let run = of_run(&recovered, &id);
    assert_eq!(run["on_restart"], "hold");
    assert_eq!(run["run"]["hold"]["trigger"], "RESTART_REQUESTED");
    assert_eq!(run["run"]["outcome"], Value::Null);
    assert_eq!(repo.read("b.txt"), "");
    // It goes on, as far as it can: the call itself is asked about next.
    let again = repo.approve(&id).exit(4).json();
    assert_eq!(again["hold"]["trigger"], "CALL_APPROVAL");
    assert_eq!(repo.approve(&id).exit(0).json()["outcome"], "PASS");
    assert_eq!((repo.read("a.txt").as_str(), repo.read("b.txt").as_str()), ("a\n", "b\n"));
}

#[test]
fn a_loop_that_terminates_ends_blocked() {
    let (repo, id) = died("terminate");
    let recovered = repo.windlass(&["recover", "--json"]).json();
    let run = of_run(&recovered, &id);
    assert_eq!(
        (&run["run"]["outcome"], &run["run"]["reason"]),
        (&json!("BLOCKED"), &json!("TERMINATED"))
    );
    assert_eq!(repo.read("b.txt"), "");
    repo.windlass(&["resume", &id]).fails_with(1, "RUN_ENDED");
    let (repo, id) = died("terminate");
    let ended = repo.windlass(&["resume", &id]).exit(1);
    assert!(ended.stderr.contains("[RUN_ENDED]"), "{ended}");
    assert_eq!(repo.stands(&id)["reason"], "TERMINATED");
}

#[test]
fn one_run_is_recovered_by_its_name_or_its_trace() {
    for by_name in [true, false] {
        let (repo, id) = died("hold");
        let trace = repo.stands(&id)["trace_id"].as_str().unwrap().to_owned();
        let named = if by_name { &id } else { &trace };
        let run = repo.windlass(&["recover", named, "--json"]).exit(4).json();
        assert_eq!(run["run"]["hold"]["trigger"], "RESTART_REQUESTED", "{run}");
        // A second time there is nothing to do.
        repo.windlass(&["recover", named]).exit(4).says("waits for a person");
    }
}

#[test]
fn resuming_a_dead_run_takes_it_up_where_the_journal_ends() {
    let (repo, id) = died("hold");
    let held = repo.windlass(&["resume", &id, "--json", "--by", "bob"]).exit(4).json();
    assert_eq!(held["hold"]["trigger"], "CALL_APPROVAL");
    let line = ["queue", "reject", &id, "--by", "ada", "--reason", "it ran already", "--json"];
    let rejected = repo.windlass(&line).exit(0).json();
    assert_eq!(
        (&rejected["outcome"], &rejected["reason"]),
        (&json!("BLOCKED"), &json!("checkpoint_rejected"))
    );
    assert_eq!(repo.read("b.txt"), "");
    repo.is_whole();
}

#[test]
fn a_live_run_is_left_alone() {
    let line = format!("{UNTIL_GO}; echo b >> b.txt");
    let text = two_calls("terminate").replace("echo b >> b.txt", &line);
    let repo = Repo::with_loop("two", &text);
    let child = repo.place.command(&["run", "one", "--loop", "two"]).spawn().unwrap();
    repo.until_begun();
    // Its call is named as what it is; the run itself is none of recovery's business.
    repo.windlass(&["recover"]).exit(0).says("in use by a live process");
    let id = repo.windlass(&["status", "--json"]).exit(0).json()[0]["run_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let busy = repo.windlass(&["resume", &id]).exit(1);
    let coded = ["[RUN_CONCURRENT]", "[STATE_LOCK_ACQUIRE_FAILED]"];
    assert!(coded.iter().any(|code| busy.stderr.contains(code)), "{busy}");
    let vote = repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(1);
    assert!(vote.stderr.contains("[RUN_NOT_ON_HOLD]"), "{vote}");
    repo.go();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
    assert_eq!(repo.read("b.txt"), "b\n");
}
