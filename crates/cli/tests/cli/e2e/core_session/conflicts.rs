//! A conflict with what others have pushed waits for a person's decision.

use std::process::Command;

use serde_json::json;

use super::{Core, git, reflected, verified};
use crate::harness::text_of;

/// A session whose work is verified and changes a line that somebody else has changed and pushed.
fn with_conflict() -> Core {
    let core = Core::new();
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    core.write("w1").exit(0);
    core.place.write("old.txt", "mine\n");
    let other = core.place.home().join("other");
    git(&core.place, &["clone", "-q", core.bare().to_str().unwrap(), other.to_str().unwrap()]);
    std::fs::write(other.join("old.txt"), "theirs\n").unwrap();
    let folder = other.to_str().unwrap();
    git(&core.place, &["-C", folder, "commit", "-qam", "theirs"]);
    git(&core.place, &["-C", folder, "push", "-q"]);
    core.judge_says("q", "qa-verifier", &verified("VERIFIED")).exit(0);
    core.judge_says("f", "framework", &reflected()).exit(0);
    core
}

fn run_of(core: &Core) -> String {
    let held = core.place.run(&["queue", "list", "--json"]).exit(0).json();
    assert_eq!(held.as_array().map(Vec::len), Some(1), "{held}");
    text_of(&held[0], "run_id")
}

fn pushed(core: &Core) -> String {
    let mut show = Command::new("git");
    show.arg("--git-dir").arg(core.bare()).args(["show", "main:old.txt"]);
    String::from_utf8(show.output().unwrap().stdout).unwrap()
}

#[test]
fn a_conflict_at_the_close_is_a_hold_until_a_person_approves() {
    let core = with_conflict();
    let stopped = core.stop().exit(0);
    assert!(stopped.text().contains("old.txt"), "{stopped}");
    assert!(stopped.text().contains("windlass queue show run_"), "{stopped}");
    let listed = core.place.run(&["queue", "list"]).exit(0);
    assert!(listed.text().contains("MERGE_CONFLICT"), "{listed}");
    let run = run_of(&core);
    let shown = core.place.run(&["queue", "show", &run, "--json"]).exit(0).json();
    assert_eq!(shown["held"]["evidence"], json!({ "paths": ["old.txt"] }), "{shown}");
    // The session goes on and stays open, and nothing is closed before the person has decided.
    core.prompt("what is this?").exit(0);
    core.bash("r1", "cat old.txt").exit(0);
    core.prompt(". go on").exit(0);
    assert!(core.stop().exit(0).text().contains("windlass queue show"));
    core.place.run(&["session", "close", core.id]).fails_with(4, "RUN_ON_HOLD");
    core.place.run(&["resume", &run]).fails_with(2, "REQUEST_INVALID");
    core.send("SessionEnd", &json!({ "reason": "other" })).exit(0);
    assert!(core.place.run(&["status"]).exit(0).stderr.contains("close failed at pull"));
    // One who approves what is not resolved is asked again.
    core.place.run(&["queue", "approve", &run, "--reason", "go on"]).exit(0);
    core.place.run(&["session", "close", core.id]).exit(1);
    assert_eq!(run_of(&core), run);
    assert_eq!(pushed(&core), "theirs\n");
    git(&core.place, &["pull", "-q", "--rebase", "-X", "theirs"]);
    let approved = core.place.run(&["queue", "approve", &run, "--reason", "resolved"]).exit(0);
    assert!(approved.text().contains("windlass session close"), "{approved}");
    let closed = core.place.run(&["session", "close", core.id, "--json"]).exit(0).json();
    assert_eq!(closed["closed"], true, "{closed}");
    assert_eq!(pushed(&core), "mine\n");
    let listed = core.place.run(&["session", "list", "--json"]).exit(0).json();
    assert_eq!(listed[0]["state"], "ended", "{listed}");
    core.place.run(&["verify"]).exit(0);
}

#[test]
fn an_approved_hold_is_left_by_the_next_stop_or_by_the_approval_itself() {
    for by_hand in [false, true] {
        let core = with_conflict();
        core.stop().exit(0);
        let run = run_of(&core);
        git(&core.place, &["pull", "-q", "--rebase", "-X", "theirs"]);
        if by_hand {
            core.place.run(&["queue", "approve", &run, "--reason", "resolved", "--resume"]).exit(0);
        } else {
            core.place.run(&["queue", "approve", &run, "--reason", "resolved"]).exit(0);
            assert_eq!(core.stop().exit(0).text(), "");
        }
        assert_eq!(pushed(&core), "mine\n", "by hand: {by_hand}");
        core.send("SessionEnd", &json!({ "reason": "other" })).exit(0);
        core.place.run(&["verify"]).exit(0);
    }
}

#[test]
fn a_rejected_conflict_ends_the_session_without_a_push() {
    let core = with_conflict();
    core.stop().exit(0);
    let run = run_of(&core);
    core.place.run(&["queue", "reject", &run, "--reason", "theirs is right"]).exit(0);
    let runs = core.place.run(&["status", "--json"]).exit(0).json();
    assert_eq!(runs[0]["outcome"], "BLOCKED", "{runs}");
    assert_eq!(pushed(&core), "theirs\n");
    // What the client sends then begins a session of its own.
    core.prompt("go on").exit(0);
    core.place.run(&["verify"]).exit(0);
    // A person can also end one that waits.
    let core = with_conflict();
    core.stop().exit(0);
    core.place.run(&["session", "end", core.id]).exit(0);
    let runs = core.place.run(&["status", "--json"]).exit(0).json();
    assert_eq!(runs[0]["outcome"], "BLOCKED", "{runs}");
    core.place.run(&["verify"]).exit(0);
}
