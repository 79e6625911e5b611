//! Calls of runs that name whole folders, and the files that people approve with them.

use serde_json::json;

use crate::world::{Repo, VOICE, answers, build, id_of, review, sh};

/// A loop that can work in a repository with changes.
const LOOSE: &str = "---
id: loose
title: Works anywhere
type: loop
category: test
version: \"1\"
on_restart: hold
phases:
  - id: build
    doer: { agent: builder }
---
";

#[test]
fn mend_16_a_call_that_names_the_whole_folder_can_be_approved() {
    for line in ["eval ls *", "eval ls ."] {
        for more in [&[][..], &["--worktree"]] {
            let repo = Repo::new();
            let calls = [build(&[sh(line)])];
            let held = repo.run_with(&answers(&calls, &[review("approved")]), more).exit(4);
            let id = id_of(&held);
            let shown = repo.windlass(&["queue", "show", &id]).exit(0);
            assert!(!shown.text().contains("has changed"), "{line} {more:?}: {shown}");
            assert!(!shown.text().contains("/steps/"), "{line} {more:?}: {shown}");
            let line = ["queue", "approve", &id, "--reason", "ok", "--resume", "--json"];
            let run = repo.windlass(&line).exit(0).json();
            assert_eq!(run["outcome"], "PASS", "{run}");
        }
    }
}

#[test]
fn mend_16_files_of_its_own_in_the_folder_of_run_files_are_still_named() {
    let repo = Repo::new();
    let root = "artifacts_root = \".windlass/artifacts\"";
    repo.place.replace(".windlass/config.toml", root, "artifacts_root = \"docs\"");
    repo.write("docs/guide.md", "a guide\n");
    repo.commit("files of runs beside documents");
    let calls = [build(&[sh("eval ls *")])];
    let held = repo.run(&answers(&calls, &[review("approved")])).exit(4);
    let shown = repo.windlass(&["queue", "show", &id_of(&held)]).exit(0);
    assert!(shown.text().contains("docs/guide.md"), "{shown}");
    assert!(!shown.text().contains("docs/steps"), "{shown}");
    assert_eq!(repo.approve(&id_of(&held)).exit(0).json()["outcome"], "PASS");
}

#[test]
fn mend_16_files_that_change_after_the_answer_are_asked_about_again() {
    let repo = Repo::with_loop("loose", LOOSE);
    let calls = [build(&[sh("eval cat README.md > read.txt")])];
    let held = repo.run_with(&answers(&calls, &[]), &["--loop", "loose"]).exit(4);
    let id = id_of(&held);
    repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(0);
    repo.write("README.md", "another text\n");
    let again = repo.windlass(&["resume", &id, "--json"]).exit(4).json();
    assert_eq!(again["hold"]["trigger"], "CALL_APPROVAL", "{again}");
    assert_eq!(again["hold"]["resolution"], json!(null), "{again}");
    assert_eq!(repo.read("read.txt"), "", "nothing ran");
    let waiting = repo.windlass(&["call", "list", "--held", "--ids"]).exit(0);
    assert_eq!(waiting.text().lines().count(), 1, "{waiting}");
    // The new question is about the file as it is now.
    let run = repo.approve(&id).exit(0).json();
    assert_eq!(run["outcome"], "PASS", "{run}");
    assert_eq!(repo.read("read.txt"), "another text\n");
    repo.is_whole();
}

/// A run that waits for a call.
fn waiting_for_a_call() -> (Repo, String) {
    let repo = Repo::new();
    let script = answers(&[build(&[sh("eval ls README.md")])], &[review("approved")]);
    let id = id_of(&repo.run(&script).exit(4));
    let waiting = repo.windlass(&["call", "list", "--held", "--ids"]).exit(0);
    assert_eq!(waiting.text().lines().count(), 1, "{waiting}");
    (repo, id)
}

/// Ends a run.
type End = fn(&Repo, &str);

#[test]
fn mend_16_no_call_of_a_run_that_has_ended_waits() {
    let ends: [(&str, End); 3] = [
        ("cancelled by ada", |repo, id| {
            repo.windlass(&[&["cancel", id][..], &VOICE].concat()).exit(0);
        }),
        ("nobody answered the hold in time", |repo, _| {
            repo.later(25, &["queue", "list"]).exit(0);
        }),
        ("its policy has changed", |repo, id| {
            repo.windlass(&[&["queue", "approve", id][..], &VOICE].concat()).exit(0);
            repo.place.append(".windlass/policy/default.toml", "# changed\n");
            repo.windlass(&["resume", id]).exit(3).warns("POLICY_CHANGED_MID_RUN");
        }),
    ];
    for (why, end) in ends {
        let (repo, id) = waiting_for_a_call();
        let call = repo.windlass(&["call", "list", "--held", "--ids"]).exit(0).text().to_owned();
        end(&repo, &id);
        assert_eq!(repo.stands(&id)["outcome"], "BLOCKED", "{why}");
        let waiting = repo.windlass(&["call", "list", "--held", "--ids"]).exit(0);
        assert_eq!(waiting.text(), "", "{why}");
        let shown = repo.windlass(&["call", "show", call.trim()]).exit(0);
        assert!(shown.text().contains("DENIED") && shown.text().contains(why), "{why}: {shown}");
        repo.is_whole();
    }
}
