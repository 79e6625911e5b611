//! The six scenarios of the loop spine.

use serde_json::{Value, json};

use crate::world::{
    Repo, VOICE, answers, build, built_once, escalating, id_of, passing, review, sh, trace_of,
};

#[test]
fn s1_a_single_chain_passes_and_is_committed() {
    let repo = Repo::new();
    let before = repo.commits();
    let done = repo.run(&passing()).exit(0);
    let (run, id) = (done.json(), id_of(&done));
    assert_eq!((&run["outcome"], &run["reason"]), (&json!("PASS"), &json!("pass")));
    assert_eq!(run["state"], "TERMINAL");
    let phases: Vec<&str> = run["phases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|phase| phase["id"].as_str().unwrap())
        .collect();
    assert_eq!(phases, ["hydrate", "policy", "design", "build", "review", "steward"]);
    assert!(run["phases"].as_array().unwrap().iter().all(|phase| phase["status"] == "complete"));
    assert_eq!(repo.read("built.txt"), "built\n");
    assert_eq!((repo.commits(), repo.status()), (before + 1, String::new()));
    assert_eq!(run["commit"], repo.head());
    assert_eq!(repo.git(&["show", "--name-only", "--format=", "HEAD"]), "built.txt");
    let message = repo.git(&["log", "-1", "--format=%B"]);
    assert!(message.starts_with("price: raised\n"), "{message}");
    assert!(message.contains(&format!("Windlass-Run: {id}")), "{message}");
    let packet = repo.artifact(&format!("terminal/TP_{id}.yaml"));
    assert!(packet.contains("outcome: PASS") && packet.contains(&repo.head()), "{packet}");
    repo.is_whole();
}

#[test]
fn s1_a_rejected_change_ends_blocked_and_is_not_committed() {
    let repo = Repo::new();
    let before = repo.head();
    let done = repo.run(&answers(&[built_once()], &[review("rejected")])).exit(3);
    let (run, id) = (done.json(), id_of(&done));
    assert_eq!((&run["outcome"], &run["commit"]), (&json!("BLOCKED"), &Value::Null));
    assert_eq!(run["reason"], "review_rejected");
    assert_eq!(repo.head(), before);
    let packet = repo.artifact(&format!("terminal/TP_{id}.yaml"));
    assert!(
        packet.contains("outcome: BLOCKED") && packet.contains("commit_hash: null"),
        "{packet}"
    );
    assert!(packet.contains("status: CLEAN_FAIL"), "{packet}");
}

#[test]
fn s1_a_phase_that_fails_ends_blocked() {
    let repo = Repo::new();
    let failed = json!({ "fail": { "class": "test_failure", "reason": "two tests fail" } });
    let run = repo.run(&answers(&[failed], &[])).exit(3).json();
    assert_eq!(run["outcome"], "BLOCKED");
    let build = &run["phases"][3];
    assert_eq!(
        (&build["status"], &build["failure"]["class"]),
        (&json!("failed"), &json!("test_failure"))
    );
    assert_eq!(run["phases"][4]["status"], "pending");
}

#[test]
fn s2_a_hold_pauses_and_the_process_ends() {
    let repo = Repo::new();
    let held = repo.run(&escalating()).exit(4);
    let (run, id) = (held.json(), id_of(&held));
    assert_eq!((&run["state"], &run["outcome"]), (&json!("CHECKPOINT"), &Value::Null));
    assert_eq!(run["hold"]["trigger"], "ESCALATION_REQUESTED");
    assert_eq!(run["hold"]["phase"], "review");
    let packet = repo.artifact(&format!("checkpoints/CP_{id}_4.yaml"));
    assert!(packet.contains("resolved: false") && packet.contains("resolution_decision: null"));
    assert!(!repo.artifacts().iter().any(|name| name.starts_with("terminal/")));
    assert_eq!(repo.read("built.txt"), "built\n");
}

#[test]
fn s3_resume_goes_on_and_does_nothing_twice() {
    let repo = Repo::new();
    let held = repo.run(&escalating()).exit(4);
    let (id, trace) = (id_of(&held), trace_of(&held));
    let calls = repo.traces();
    repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(0).says("approved");
    let done = repo.windlass(&["resume", &id, "--json", "--by", "bob"]).exit(0).json();
    assert_eq!(done["outcome"], "PASS");
    assert_eq!(repo.read("built.txt"), "built\n", "the edit was made once");
    assert_eq!(repo.traces(), calls, "no call was made again");
    let events = repo.events(&trace);
    for phase in ["hydrate", "policy", "design", "build", "review", "steward"] {
        let begun = |event: &&Value| event["kind"] == "phase_started" && event["phase"] == phase;
        assert_eq!(events.iter().filter(begun).count(), 1, "{phase}");
    }
    let resumed = events.iter().find(|event| event["kind"] == "resumed").unwrap();
    assert_eq!(resumed["by"], "bob");
    repo.is_whole();
}

#[test]
fn s4_a_changed_policy_ends_the_run_blocked() {
    let repo = Repo::new();
    // In a work tree of its own, so that the change is not the workspace's.
    let id = id_of(&repo.run_with(&escalating(), &["--worktree"]).exit(4));
    repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(0);
    let comment = "# a comment decides nothing, but a changed file is a changed file\n";
    repo.place.append(".windlass/policy/default.toml", comment);
    let refused = repo.windlass(&["resume", &id]).exit(3);
    assert!(refused.stderr.contains("[POLICY_CHANGED_MID_RUN]"), "{refused}");
    let run = repo.stands(&id);
    assert_eq!(
        (&run["outcome"], &run["reason"]),
        (&json!("BLOCKED"), &json!("POLICY_CHANGED_MID_RUN"))
    );
    assert_eq!(run["hold"], Value::Null, "it waits no longer");
    let packet = repo.artifact(&format!("terminal/TP_{id}.yaml"));
    assert!(packet.contains("reason: POLICY_CHANGED_MID_RUN"), "{packet}");
    repo.windlass(&["resume", &id]).fails_with(1, "RUN_ENDED");
    assert_eq!(
        repo.git(&["log", "-1", "--format=%s", &format!("windlass/{id}")]),
        "a small project"
    );
}

#[test]
fn s4_every_file_that_decides_is_part_of_it() {
    let repo = Repo::new();
    let hash = || repo.windlass(&["policy", "hash"]).exit(0).text().trim().to_owned();
    let mut seen = vec![hash()];
    assert_eq!(seen[0], hash(), "it is the same for the same files");
    for file in
        ["config.toml", "tools.toml", "policy/default.toml", "loops/spine.md", "agents/builder.md"]
    {
        repo.place.append(&format!(".windlass/{file}"), "\n");
        let now = hash();
        assert!(!seen.contains(&now), "{file} does not count");
        seen.push(now);
    }
}

/// A dirty repository starts nothing and is left as it is.
#[track_caller]
fn refuses(repo: &Repo) {
    let (files, status) = (repo.snapshot(), repo.status());
    assert!(!status.is_empty());
    let refused = repo.run(&passing()).exit(3);
    assert_eq!(refused.error()["code"], "REPO_DIRTY", "{refused}");
    assert!(refused.stdout.is_empty());
    assert_eq!((repo.snapshot(), repo.status()), (files, status));
    assert_eq!((repo.traces(), repo.artifacts()), (0, Vec::<String>::new()));
}

#[test]
fn s5_a_changed_file_starts_nothing() {
    let repo = Repo::new();
    repo.write("README.md", "changed\n");
    refuses(&repo);
}

#[test]
fn s5_an_untracked_file_starts_nothing() {
    let repo = Repo::new();
    repo.write("new/notes.txt", "a note\n");
    refuses(&repo);
}

#[test]
fn s5_a_staged_file_starts_nothing() {
    let repo = Repo::new();
    repo.write("README.md", "staged\n");
    repo.git(&["add", "README.md"]);
    refuses(&repo);
}

#[test]
fn s5_a_deleted_file_starts_nothing() {
    let repo = Repo::new();
    std::fs::remove_file(repo.root().join("README.md")).unwrap();
    refuses(&repo);
}

#[test]
fn s5_a_repository_changed_during_a_hold_is_not_gone_on_in() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(0);
    let edits: [(&str, &str); 3] =
        [("built.txt", "forged\n"), ("README.md", "changed\n"), ("more.txt", "untracked\n")];
    for (path, text) in edits {
        let old = repo.read(path);
        repo.write(path, text);
        let (entries, files) = (repo.stands(&id)["entries"].clone(), repo.snapshot());
        let refused = repo.windlass(&["resume", &id]).fails_with(3, "REPO_DIRTY");
        assert!(refused.stderr.contains(path), "{refused}");
        assert_eq!((&repo.stands(&id)["entries"], repo.snapshot()), (&entries, files));
        match old.as_str() {
            "" => std::fs::remove_file(repo.root().join(path)).unwrap(),
            old => drop(repo.write(path, old)),
        }
    }
    // As the run left it, it goes on.
    repo.windlass(&["resume", &id]).exit(0);
    assert_eq!(repo.read("built.txt"), "built\n");
}

#[test]
fn s5_a_branch_that_moved_during_a_hold_is_not_gone_on_on() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(0);
    repo.git(&["commit", "--quiet", "--allow-empty", "--message", "by somebody else"]);
    repo.windlass(&["resume", &id]).fails_with(3, "REPO_MOVED");
    repo.git(&["reset", "--quiet", "--soft", "HEAD~1"]);
    repo.windlass(&["resume", &id]).exit(0);
}

#[test]
fn s6_an_approved_hold_is_gone_on_from() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    assert_eq!(repo.approve(&id).exit(0).json()["outcome"], "PASS");
    let packet = repo.artifact(&format!("checkpoints/CP_{id}_4.yaml"));
    for line in ["resolved: true", "resolution_decision: APPROVED", "by: ada", "looked at it"] {
        assert!(packet.contains(line), "{packet}");
    }
}

#[test]
fn s6_a_rejected_hold_ends_the_run() {
    let repo = Repo::new();
    let before = repo.head();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let line = ["queue", "reject", &id, "--by", "ada", "--reason", "not now"];
    repo.windlass(&line).exit(0).says("BLOCKED");
    let run = repo.stands(&id);
    assert_eq!(
        (&run["outcome"], &run["reason"]),
        (&json!("BLOCKED"), &json!("checkpoint_rejected"))
    );
    assert_eq!(run["detail"], "rejected by ada: not now");
    assert_eq!(repo.head(), before);
    let packet = repo.artifact(&format!("checkpoints/CP_{id}_4.yaml"));
    assert!(packet.contains("resolution_decision: REJECTED"), "{packet}");
    repo.windlass(&["resume", &id]).fails_with(1, "RUN_ENDED");
}

#[test]
fn s6_an_open_hold_waits_and_nothing_changes() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let (entries, files) = (repo.stands(&id)["entries"].clone(), repo.snapshot());
    for _ in 0..2 {
        repo.windlass(&["resume", &id]).fails_with(4, "RUN_ON_HOLD");
    }
    assert_eq!((&repo.stands(&id)["entries"], repo.snapshot()), (&entries, files));
}

#[test]
fn completed_calls_of_an_interrupted_try_are_not_made_again() {
    let repo = Repo::new();
    // The second call waits for a person; the first has been made by then.
    let calls =
        [sh("echo one >> count.txt"), sh("eval 'chmod +x count.txt'"), sh("echo two >> count.txt")];
    let held = repo.run(&answers(&[build(&calls)], &[review("approved")])).exit(4);
    assert_eq!(held.json()["hold"]["trigger"], "CALL_APPROVAL");
    assert_eq!(repo.read("count.txt"), "one\n");
    let done = repo.approve(&id_of(&held)).exit(0).json();
    assert_eq!(done["outcome"], "PASS");
    assert_eq!(repo.read("count.txt"), "one\ntwo\n");
    assert_eq!(repo.git(&["ls-files", "--stage", "count.txt"])[..6], *"100755");
}
