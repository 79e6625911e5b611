//! Giving a run up, wherever it stands; and what `stop` says about itself.

use serde_json::json;

use crate::harness::Outcome;
use crate::world::{
    Repo, UNTIL_GO, VOICE, answers, build, escalating, id_of, passing, review, sh, trace_of,
};

const WORDS: [&str; 4] = ["--by", "ada", "--reason", "not needed any more"];

fn cancel(repo: &Repo, id: &str) -> Outcome {
    repo.windlass(&[&["cancel", id][..], &WORDS].concat())
}

/// Requires a run to have been given up, with its packet.
#[track_caller]
fn is_given_up(repo: &Repo, id: &str) {
    let run = repo.stands(id);
    assert_eq!((&run["outcome"], &run["reason"]), (&json!("BLOCKED"), &json!("cancelled")));
    assert_eq!(run["detail"], "cancelled by ada: not needed any more");
    assert_eq!(run["hold"], json!(null), "it waits no longer");
    let packet = repo.artifact(&format!("terminal/TP_{id}.yaml"));
    assert!(packet.contains("reason: cancelled"), "{packet}");
    repo.windlass(&["resume", id]).fails_with(1, "RUN_ENDED");
    repo.windlass(&["queue", "list"]).exit(0).says("no run waits");
    repo.is_whole();
}

#[test]
fn mend_01_a_run_on_hold_is_given_up() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    cancel(&repo, &id).exit(0).says("BLOCKED");
    is_given_up(&repo, &id);
    cancel(&repo, &id).fails_with(1, "RUN_ENDED");
}

#[test]
fn mend_01_an_approved_run_is_given_up() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(0);
    cancel(&repo, &id).exit(0);
    is_given_up(&repo, &id);
}

#[test]
fn mend_01_a_run_whose_repository_moved_is_given_up() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    repo.commit("something else");
    repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(0);
    repo.windlass(&["resume", &id]).fails_with(3, "REPO_MOVED");
    cancel(&repo, &id).exit(0);
    is_given_up(&repo, &id);
}

#[test]
fn mend_01_a_run_whose_work_tree_is_lost_is_given_up() {
    let repo = Repo::new();
    let id = id_of(&repo.run_with(&escalating(), &["--worktree"]).exit(4));
    std::fs::remove_dir_all(repo.place.state().join("worktrees").join(&id)).unwrap();
    cancel(&repo, &id).exit(0);
    is_given_up(&repo, &id);
}

#[test]
fn mend_01_a_stopped_run_is_given_up() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    repo.windlass(&["stop", &id]).exit(0).says("--clear");
    cancel(&repo, &id).exit(0);
    assert!(!repo.place.state().join("stop").join(&id).exists(), "nothing is left to clear");
    is_given_up(&repo, &id);
}

#[test]
fn mend_01_a_run_at_work_is_given_up_before_its_next_effect() {
    let repo = Repo::new();
    let calls = [sh(UNTIL_GO), sh("echo never >> never.txt")];
    let path = repo.answers(&answers(&[build(&calls)], &[review("approved")]));
    let child = repo.place.command(&["run", "one", "--json", "--answers", &path]).spawn().unwrap();
    repo.until_begun();
    let runs = repo.windlass(&["status", "--json"]).exit(0).json();
    let id = runs[0]["run_id"].as_str().unwrap().to_owned();
    let line = [&["cancel", &id, "--json"][..], &WORDS].concat();
    let cancelling = repo.place.command(&line).spawn().unwrap();
    let asked = repo.place.state().join("stop").join(&id);
    windlass_testkit::eventually("the request is there", || asked.exists());
    repo.go();
    let ended = Outcome::of("windlass run".to_owned(), child.wait_with_output().unwrap()).exit(3);
    assert_eq!(ended.json()["reason"], "cancelled");
    let cancelled =
        Outcome::of("windlass cancel".to_owned(), cancelling.wait_with_output().unwrap()).exit(0);
    assert_eq!(cancelled.json()["reason"], "cancelled");
    assert!(!repo.root().join("never.txt").exists());
    assert!(!asked.exists(), "the request has done its work");
    is_given_up(&repo, &id);
}

#[test]
fn mend_01_a_run_that_has_ended_or_never_was_cannot_be_given_up() {
    let repo = Repo::new();
    let done = repo.run(&passing()).exit(0);
    cancel(&repo, &id_of(&done)).fails_with(1, "RUN_ENDED");
    cancel(&repo, "run_20260101_000000_00000000").fails_with(2, "RUN_NOT_FOUND");
    assert_eq!(repo.counts(&trace_of(&done))["ended"], 1);
}

#[test]
fn mend_01_stop_says_what_it_does_and_is_shown() {
    let repo = Repo::new();
    let help = repo.windlass(&["stop", "--help"]).exit(0);
    for words in ["--clear", "cancel", "a run at work ends"] {
        assert!(help.text().contains(words), "{help}");
    }
    let id = id_of(&repo.run(&escalating()).exit(4));
    let clear = format!("windlass stop {id} --clear");
    repo.windlass(&["stop", &id, "--by", "ada", "--reason", "lunch"]).exit(0).says(&clear);
    for look in [&["status"][..], &["status", &id], &["queue", "list"]] {
        let told = repo.windlass(look).exit(0);
        told.warns(&format!("{id} is stopped by ada: lunch")).warns(&clear);
    }
    let refused = repo.windlass(&["resume", &id]).exit(3);
    assert!(refused.stderr.contains("windlass cancel"), "{refused}");
    repo.windlass(&["stop", &id, "--clear"]).exit(0);
    repo.windlass(&["status"]).exit(0).quiet();
    repo.approve(&id).exit(0);
    repo.windlass(&["stop", "--by", "ada", "--reason", "lunch"]).exit(0).says("end BLOCKED");
    repo.windlass(&["queue", "list"]).exit(0).warns("all runs are stopped by ada: lunch");
}

#[test]
fn mend_01_stop_of_a_run_at_work_says_that_it_ends() {
    let repo = Repo::new();
    let calls = [sh(UNTIL_GO), sh("echo never >> never.txt")];
    let path = repo.answers(&answers(&[build(&calls)], &[review("approved")]));
    let child = repo.place.command(&["run", "one", "--json", "--answers", &path]).spawn().unwrap();
    repo.until_begun();
    let said = repo.windlass(&["stop", "last"]).exit(0).says("it ends BLOCKED");
    assert!(!said.text().contains("cannot go on until"), "{said}");
    repo.go();
    let ended = Outcome::of("windlass run".to_owned(), child.wait_with_output().unwrap());
    assert_eq!(ended.exit(3).json()["reason"], "kill_switch_active");
}
