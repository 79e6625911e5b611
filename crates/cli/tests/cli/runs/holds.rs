//! Holds: answered once, by the right number of people, in time, for what was shown.

use serde_json::json;

use crate::world::{
    Repo, VOICE, answers, build, built_once, escalating, id_of, review, sh, trace_of,
};

#[test]
fn a_hold_is_answered_once_and_taken_up_once() {
    let repo = Repo::new();
    let held = repo.run(&escalating()).exit(4);
    let id = id_of(&held);
    repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(0);
    for word in ["approve", "reject"] {
        let again = ["queue", word, &id, "--by", "bob", "--reason", "me too"];
        repo.windlass(&again).fails_with(3, "HOLD_ALREADY_RESOLVED");
    }
    repo.windlass(&["resume", &id]).exit(0);
    let commits = repo.commits();
    repo.windlass(&["resume", &id]).fails_with(1, "RUN_ENDED");
    repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).fails_with(1, "RUN_ENDED");
    assert_eq!((repo.commits(), repo.read("built.txt").as_str()), (commits, "built\n"));
    let counts = repo.counts(&trace_of(&held));
    assert_eq!((counts["held"], counts["voted"], counts["resumed"]), (1, 1, 1));
}

#[test]
fn two_at_once_take_a_hold_up_once() {
    let repo = Repo::new();
    let held = repo.run(&escalating()).exit(4);
    let id = id_of(&held);
    repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(0);
    let children: Vec<_> =
        (0..4).map(|_| repo.place.command(&["resume", &id]).spawn().unwrap()).collect();
    let codes: Vec<_> =
        children.into_iter().map(|child| child.wait_with_output().unwrap().status.code()).collect();
    assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "{codes:?}");
    assert!(codes.iter().all(|code| matches!(code, Some(0 | 1))), "{codes:?}");
    assert_eq!(repo.counts(&trace_of(&held))["resumed"], 1);
    assert_eq!(repo.read("built.txt"), "built\n");
}

#[test]
fn a_resumed_run_can_wait_again() {
    let repo = Repo::new();
    let calls = [sh("eval 'chmod +x README.md'")];
    let held = repo.run(&answers(&[build(&calls)], &[review("escalate")])).exit(4);
    let id = id_of(&held);
    assert_eq!(held.json()["hold"]["phase"], "build");
    let again = repo.approve(&id).exit(4).json();
    assert_eq!((&again["hold"]["phase"], &again["outcome"]), (&json!("review"), &json!(null)));
    assert_eq!(repo.approve(&id).exit(0).json()["outcome"], "PASS");
    for step in [3, 4] {
        let packet = repo.artifact(&format!("checkpoints/CP_{id}_{step}.yaml"));
        assert!(packet.contains("resolution_decision: APPROVED"), "{packet}");
    }
    repo.is_whole();
}

#[test]
fn two_revisions_are_made_and_the_third_is_a_persons() {
    let repo = Repo::new();
    let builds: Vec<_> =
        (1..=3).map(|turn| build(&[sh(&format!("echo {turn} >> built.txt"))])).collect();
    let reviews: Vec<_> = (0..3).map(|_| review("needs_revision")).collect();
    let held = repo.run(&answers(&builds, &reviews)).exit(4);
    let run = held.json();
    assert_eq!(run["hold"]["trigger"], "ESCALATION_REQUESTED");
    assert_eq!(run["phases"][2]["attempt"], 3);
    assert_eq!(repo.read("built.txt"), "1\n2\n3\n");
    let counts = repo.counts(&trace_of(&held));
    assert_eq!((counts["sent_back"], counts["held"]), (2, 1));
    assert!(repo.artifacts().iter().any(|name| name.ends_with("_build.attempt-1.json")));
    assert_eq!(repo.approve(&id_of(&held)).exit(0).json()["outcome"], "PASS");
}

#[test]
fn the_same_change_twice_ends_the_revisions_early() {
    let repo = Repo::new();
    let reviews: Vec<_> = (0..3).map(|_| review("needs_revision")).collect();
    let same = build(&[sh("echo same > built.txt")]);
    let ended = repo.run(&answers(&[same.clone(), same.clone(), same], &reviews)).exit(3).json();
    assert_eq!((&ended["outcome"], &ended["reason"]), (&json!("BLOCKED"), &json!("no_progress")));
}

#[test]
fn a_verdict_that_is_not_one_of_the_gates_never_passes() {
    for verdict in ["Approved", "approved ", "ok", ""] {
        let repo = Repo::new();
        let run = repo.run(&answers(&[built_once()], &[review(verdict)])).exit(3).json();
        assert_eq!(
            (&run["outcome"], &run["commit"]),
            (&json!("BLOCKED"), &json!(null)),
            "{verdict:?}"
        );
    }
}

#[test]
fn two_people_approve_where_two_are_asked_for() {
    let repo = Repo::with_spine("approvals: 1", "approvals: 2");
    let id = id_of(&repo.run(&escalating()).exit(4));
    let vote = |by: &[&str]| {
        let words = ["queue", "approve", &id, "--reason", "fine", "--resume"];
        repo.windlass(&[&words, by].concat())
    };
    vote(&["--by", "eve"]).exit(0).says("1 of 2 approvals");
    repo.windlass(&["resume", &id]).fails_with(4, "RUN_ON_HOLD");
    let twice = vote(&["--by", "eve"]).exit(3);
    assert!(twice.stderr.contains("another person"), "{twice}");
    vote(&["--by", " Eve "]).fails_with(3, "APPROVER_NOT_COUNTED");
    // Every process of the account can use this key too.
    vote(&["--by", "cid"]).fails_with(3, "APPROVER_NOT_COUNTED").warns("count as one approver");
    let bob = repo.place.protect("bob");
    vote(&bob).exit(0).says("PASS");
    let packet = repo.artifact(&format!("checkpoints/CP_{id}_4.yaml"));
    assert!(packet.contains("by: eve") && packet.contains("by: bob"), "{packet}");
}

#[test]
fn one_rejection_is_enough_where_two_approvals_are_asked_for() {
    let repo = Repo::with_spine("approvals: 1", "approvals: 2");
    let id = id_of(&repo.run(&escalating()).exit(4));
    repo.windlass(&["queue", "approve", &id, "--by", "eve", "--reason", "yes"]).exit(0);
    repo.windlass(&["queue", "reject", &id, "--by", "bob", "--reason", "no"])
        .exit(0)
        .says("BLOCKED");
    assert_eq!(repo.stands(&id)["reason"], "checkpoint_rejected");
}

#[test]
fn an_answer_to_something_else_is_refused() {
    let repo = Repo::new();
    let calls = [sh("eval 'chmod +x README.md'")];
    let held = repo.run(&answers(&[build(&calls)], &[review("escalate")])).exit(4);
    let id = id_of(&held);
    let first = held.json()["hold"]["shown"].as_str().unwrap().to_owned();
    let line = |shown: &str| {
        let line = ["queue", "approve", &id, "--shown", shown, "--resume"];
        repo.windlass(&[&line[..], &VOICE].concat())
    };
    line(&"0".repeat(64)).fails_with(3, "HOLD_STALE");
    line("nonsense").fails_with(2, "REQUEST_INVALID");
    line(&first).exit(4);
    // It waits again, for something else: what was shown before does not answer it.
    line(&first).fails_with(3, "HOLD_STALE");
    let second = repo.stands(&id)["hold"]["shown"].as_str().unwrap().to_owned();
    line(&second).exit(0).says("PASS");
}

#[test]
fn a_hold_that_nobody_answers_in_time_ends_the_run() {
    for how in ["approve", "resume"] {
        let repo = Repo::new();
        let id = id_of(&repo.run(&escalating()).exit(4));
        let late = match how {
            "approve" => repo.later(25, &[&["queue", "approve", &id][..], &VOICE].concat()),
            _ => repo.later(25, &["resume", &id]),
        };
        assert!(late.exit(3).stderr.contains("[HOLD_EXPIRED]"));
        let run = repo.stands(&id);
        assert_eq!(
            (&run["outcome"], &run["reason"]),
            (&json!("BLOCKED"), &json!("checkpoint_expired"))
        );
        let packet = repo.artifact(&format!("checkpoints/CP_{id}_4.yaml"));
        assert!(packet.contains("resolved: false"), "{packet}");
    }
}

#[test]
fn an_answer_needs_a_name_and_a_reason() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    for (by, reason) in
        [("", "why"), (" ", "why"), ("ada", ""), ("a\nb", "why"), ("ada", "\u{1b}[2J")]
    {
        let line = ["queue", "approve", &id, "--by", by, "--reason", reason];
        repo.windlass(&line).fails_with(2, "REQUEST_INVALID");
    }
    assert_eq!(repo.stands(&id)["hold"]["approvals"], 0);
}
