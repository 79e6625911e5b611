//! The kill switch: before, between and during, for one run and for all.

use serde_json::json;

use crate::harness::Outcome;
use crate::world::{Repo, UNTIL_GO, VOICE, answers, build, escalating, id_of, passing, review, sh};

#[test]
fn nothing_starts_while_the_switch_is_on() {
    let repo = Repo::new();
    let line = ["stop", "--by", "ada", "--reason", "enough"];
    repo.windlass(&line).exit(0).says("will stop");
    let refused = repo.run(&passing()).exit(3);
    assert_eq!(refused.error()["code"], "RUN_STOPPED");
    assert!(refused.stderr.contains("ada") && refused.stderr.contains("enough"), "{refused}");
    assert_eq!((repo.traces(), repo.status()), (0, String::new()));
    repo.windlass(&["stop", "--clear"]).exit(0).says("stop cleared");
    repo.windlass(&["stop", "--clear"]).exit(0).says("not stopped");
    repo.run(&passing()).exit(0);
}

#[test]
fn a_run_on_hold_does_not_go_on_while_it_is_stopped() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(0);
    for what in [Some(id.as_str()), None] {
        let named: Vec<&str> = what.into_iter().collect();
        repo.windlass(&[&["stop"][..], &named].concat()).exit(0);
        repo.windlass(&["resume", &id]).fails_with(3, "RUN_STOPPED");
        repo.windlass(&[&["stop", "--clear"][..], &named].concat()).exit(0);
    }
    // Another run's switch is nobody else's.
    repo.windlass(&["resume", &id]).exit(0);
}

/// Starts a run, waits until its build has begun, stops, and lets it end.
fn stopped_while_at_work(calls: &[serde_json::Value]) -> (Repo, Outcome) {
    let repo = Repo::new();
    let path = repo.answers(&answers(&[build(calls)], &[review("approved")]));
    let line = ["run", "one", "--json", "--answers", &path];
    let child = repo.place.command(&line).spawn().unwrap();
    repo.until_begun();
    repo.windlass(&["stop", "--by", "ada", "--reason", "enough"]).exit(0);
    repo.go();
    let ended = Outcome::of("windlass run".to_owned(), child.wait_with_output().unwrap());
    (repo, ended)
}

#[test]
fn a_run_stops_between_two_calls() {
    let (repo, ended) = stopped_while_at_work(&[sh(UNTIL_GO), sh("echo never >> never.txt")]);
    let run = ended.exit(3).json();
    assert_eq!(
        (&run["outcome"], &run["reason"]),
        (&json!("BLOCKED"), &json!("kill_switch_active"))
    );
    assert_eq!(run["detail"], "stopped by ada: enough");
    assert!(!repo.root().join("never.txt").exists());
    assert_eq!(repo.traces(), 2, "the run, and the call that was under way");
    repo.is_whole();
}

#[test]
fn a_run_stops_between_two_phases() {
    let (repo, ended) = stopped_while_at_work(&[sh(UNTIL_GO)]);
    let run = ended.exit(3).json();
    assert_eq!(run["reason"], "kill_switch_active");
    assert_eq!(run["phases"][4]["status"], "pending", "the review was not begun");
    assert_eq!(repo.commits(), Repo::new().commits());
}

#[test]
fn the_switch_works_where_nothing_else_does() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    repo.write(".windlass/policy/default.toml", "nonsense");
    repo.write(".windlass/loops/spine.md", "nonsense");
    repo.windlass(&["stop", "--reason", "enough"]).exit(0);
    repo.windlass(&["stop", &id]).exit(0);
    assert!(repo.place.state().join("stop/ALL").exists());
    assert!(repo.place.state().join("stop").join(&id).exists());
    repo.windlass(&["stop", "--clear"]).exit(0);
    repo.windlass(&["stop", &id, "--clear"]).exit(0);
}

#[test]
fn only_a_run_that_there_is_can_be_stopped() {
    let repo = Repo::new();
    repo.windlass(&["stop", "run_20260101_000000_00000000"]).fails_with(2, "RUN_NOT_FOUND");
    repo.windlass(&["stop", "../../ALL"]).fails_with(2, "RUN_NOT_FOUND");
    assert!(!repo.place.state().join("stop").exists());
}

#[test]
fn an_unreadable_switch_is_on() {
    let repo = Repo::new();
    repo.place.write_state("stop/ALL", "not a request");
    assert_eq!(repo.run(&passing()).exit(3).error()["code"], "RUN_STOPPED");
}
