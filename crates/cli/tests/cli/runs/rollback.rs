//! Rollbacks from outside: of runs that have ended, with people's files in the way, after crashes.

use serde_json::{Value, json};

use crate::harness::Outcome;
use crate::world::{Repo, answers, build, id_of, review, sh};

const WHY: [&str; 4] = ["--by", "ada", "--reason", "once more"];

fn roll_back(repo: &Repo, to: &str, more: &[&str]) -> Outcome {
    repo.windlass(&[&["checkpoint", "rollback", to][..], &WHY, more].concat())
}

/// The lines of the ledger, which must be valid: their type, or what an attempt led to.
fn ledger(repo: &Repo) -> Vec<String> {
    let text = repo.artifact("loop_state/attempt_ledger.jsonl");
    windlass_formats::check_ledger(text.as_bytes()).unwrap();
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line.get("type").unwrap_or(&line["next_action"]).as_str().unwrap().to_owned()
    };
    text.lines().map(line).collect()
}

fn terminal(repo: &Repo, id: &str) -> Option<String> {
    let path = format!("terminal/TP_{id}.yaml");
    repo.artifacts().contains(&path).then(|| repo.artifact(&path))
}

/// Requires that the files are those of the journal, and that all commands still work.
fn is_shown(repo: &Repo, id: &str) {
    let before = repo.snapshot();
    repo.windlass(&["export", id]).exit(0);
    assert_eq!(repo.snapshot(), before, "the files were not up to date");
    repo.windlass(&["recover"]).exit(0);
    repo.is_whole();
}

fn twice() -> Value {
    let once = build(&[sh("echo hello > hello.txt")]);
    answers(&[once.clone(), once], &[review("escalate"), review("approved"), review("approved")])
}

#[test]
fn a_run_that_passed_goes_on_after_rollbacks_and_its_files_show_it() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&twice()).exit(4));
    assert_eq!(repo.approve(&id).exit(0).json()["outcome"], "PASS");
    let first = terminal(&repo, &id).unwrap();
    assert_eq!(ledger(&repo).last().unwrap(), "terminate");
    roll_back(&repo, &format!("{id}/POST_design"), &[]).exit(0);
    assert!(!repo.root().join("hello.txt").exists());
    assert_eq!(terminal(&repo, &id), None, "the run has not ended any more");
    roll_back(&repo, &format!("{id}/POST_build_v1"), &[]).exit(0);
    assert_eq!(repo.read("hello.txt"), "hello\n");
    let lines = ledger(&repo);
    assert_eq!(lines[lines.len() - 3..], ["terminate", "rollback", "rollback"]);
    is_shown(&repo, &id);
    let done = repo.approve(&id).exit(0).json();
    assert_eq!(done["outcome"], "PASS", "{done}");
    let lines = ledger(&repo);
    assert_eq!(lines.iter().filter(|line| *line == "terminate").count(), 2, "{lines:?}");
    assert_eq!(lines.last().unwrap(), "terminate");
    let second = terminal(&repo, &id).unwrap();
    assert_ne!(second, first);
    assert!(second.contains("terminal_outcome: PASS") || second.contains("PASS"), "{second}");
    repo.windlass(&["resume", &id]).fails_with(1, "RUN_ENDED");
    is_shown(&repo, &id);
}

#[test]
fn a_run_that_was_blocked_goes_on_after_a_rollback() {
    let repo = Repo::new();
    let once = build(&[sh("echo hello > hello.txt")]);
    let all = answers(&[once.clone(), once], &[review("rejected"), review("approved")]);
    let outcome = repo.run(&all);
    let id = id_of(&outcome);
    assert_eq!(outcome.exit(3).json()["outcome"], "BLOCKED");
    assert!(terminal(&repo, &id).unwrap().contains("BLOCKED"));
    // It is continued at once, and passes this time.
    let done = roll_back(&repo, &format!("{id}/POST_design"), &["--resume", "--json"]).exit(0);
    assert_eq!(done.json()["outcome"], "PASS", "{done}");
    assert!(terminal(&repo, &id).unwrap().contains("PASS"));
    assert_eq!(repo.git(&["show", "--name-only", "--format=", "HEAD"]), "hello.txt");
    is_shown(&repo, &id);
}

#[test]
fn a_run_of_the_phases_goes_on_after_it_passed() {
    let repo = Repo::new();
    let mut all = crate::runs::phases::answers(&["approved"]);
    let again = all["phases"]["documentation"][0].clone();
    all["phases"]["documentation"] = json!([again, again]);
    let approved = json!({ "answer": { "verdict": "approved", "reason": "looked at it" } });
    all["phases"]["review"] = json!([approved, approved]);
    let tidy = json!({ "answer": { "summary": "nothing to tidy" } });
    all["phases"]["hygiene"] = json!([tidy, tidy]);
    let id = id_of(&repo.run_with(&all, &["--loop", "phases"]).exit(4));
    crate::runs::phases::owner(&repo, &id).exit(4);
    assert_eq!(crate::runs::phases::owner(&repo, &id).exit(0).json()["outcome"], "PASS");
    roll_back(&repo, &format!("{id}/POST_acceptance"), &[]).exit(0);
    assert_eq!(terminal(&repo, &id), None);
    let done = repo.approve(&id).exit(0).json();
    assert_eq!(done["outcome"], "PASS", "{done}");
    assert!(terminal(&repo, &id).is_some());
    is_shown(&repo, &id);
}

#[test]
fn a_file_that_was_ignored_at_the_checkpoint_is_never_touched() {
    let repo = Repo::new();
    repo.write(".gitignore", "*.local\n");
    repo.commit("ignore what is local");
    repo.write("dev.local", "my settings\n");
    // The agent no longer ignores it, so that later checkpoints have it.
    let rewrites = build(&[sh("echo nothing > .gitignore; echo made > made.local")]);
    let id = id_of(&repo.run(&answers(&[rewrites], &[review("escalate")])).exit(4));
    repo.windlass(&["checkpoint", "diff", &format!("{id}/PRE_build"), &format!("{id}/POST_build")])
        .exit(0)
        .says("+ dev.local");
    let to = format!("{id}/PRE_build_v1");
    let plan =
        repo.windlass(&["checkpoint", "rollback", &to, "--dry-run", "--json"]).exit(0).json();
    assert_eq!(plan["left_alone"], json!(["dev.local", "made.local"]));
    // Whoever changes it meanwhile is not in the way: it is not touched.
    repo.write("dev.local", "my other settings\n");
    roll_back(&repo, &to, &[]).exit(0);
    assert_eq!(repo.read(".gitignore"), "*.local\n");
    assert_eq!(repo.read("dev.local"), "my other settings\n");
    assert_eq!(repo.status(), "");
    // Nor is it touched by the next one, or on the way forward.
    repo.write("dev.local", "my last settings\n");
    roll_back(&repo, &format!("{id}/PRE_design_v1"), &["--force"]).exit(0);
    assert_eq!(repo.read("dev.local"), "my last settings\n");
    repo.is_whole();
}

#[test]
fn after_a_crash_in_a_phase_nothing_is_discarded_unless_forced() {
    let repo = Repo::new();
    let path = repo.answers(&twice());
    let line = ["run", "raise the price", "--json", "--answers", &path, "--by", "ada"];
    let died = repo.place.run_with("WINDLASS_CRASH_AT", "dispatch.after", &line);
    assert_eq!(died.code, None, "{died}");
    assert_eq!(repo.read("hello.txt"), "hello\n");
    let runs = repo.windlass(&["status", "--json"]).exit(0).json();
    let id = crate::harness::text_of(&runs[0], "run_id");
    repo.write("src/price.txt", "price = 2\n");
    repo.write("notes.txt", "mine\n");
    let to = format!("{id}/PRE_build_v1");
    for attempt in 0..2 {
        let refused = roll_back(&repo, &to, &[]).fails_with(3, "WORKSPACE_CHANGED");
        for part in ["`src/price.txt`", "`notes.txt`", "phase `build` is not done"] {
            assert!(refused.stderr.contains(part), "attempt {attempt}: {refused}");
        }
        assert_eq!(repo.read("src/price.txt"), "price = 2\n");
        assert_eq!(repo.read("notes.txt"), "mine\n");
        // The same once the run waits for a person.
        repo.windlass(&["recover"]).exit(if attempt == 0 { 4 } else { 0 });
    }
    let forced = roll_back(&repo, &to, &["--force"]).exit(0);
    let tree = forced.stderr.split("kept in the snapshot ").nth(1).unwrap();
    let tree = tree.split_whitespace().next().unwrap();
    assert_eq!(repo.read("src/price.txt"), "price = 1\n");
    assert!(!repo.root().join("hello.txt").exists(), "what the phase left is gone");
    repo.git(&["gc", "--quiet", "--prune=now"]);
    for (path, text) in
        [("src/price.txt", "price = 2"), ("notes.txt", "mine"), ("hello.txt", "hello")]
    {
        assert_eq!(repo.git_with_snapshots(&["show", &format!("{tree}:{path}")]), text);
    }
    repo.is_whole();
}

/// A run of two phases and a person; the second phase replaces a folder by a file, or the other way.
fn replacing(first: &str, second: &str) -> Repo {
    let text = format!(
        "---
id: replacing
title: Replace a file
type: loop
category: test
version: \"1\"
on_restart: hold
phases:
  - id: one
    doer: {{ command: [sh, -c, \"{first}; echo '{{}}'\"] }}
  - id: two
    needs: [one]
    doer: {{ command: [sh, -c, \"{second}; echo '{{}}'\"] }}
  - id: sign
    needs: [two]
    doer: {{ person: \"is it good?\" }}
---
"
    );
    Repo::with_loop("replacing", &text)
}

#[test]
fn a_file_of_a_person_in_the_way_refuses_a_rollback_and_is_kept_when_forced() {
    for (first, second, mine) in
        [("echo one > b", "rm b", "b/x"), ("mkdir b; echo one > b/x", "rm -r b", "b")]
    {
        let repo = replacing(first, second);
        let run = ["run", "replace it", "--loop", "replacing", "--by", "ada", "--json"];
        let id = id_of(&repo.windlass(&run).exit(4));
        repo.write(mine, "mine\n");
        let to = format!("{id}/POST_one_v1");
        roll_back(&repo, &to, &[]).fails_with(3, "WORKSPACE_CHANGED").warns(&format!("`{mine}`"));
        assert_eq!(repo.read(mine), "mine\n");
        let forced = roll_back(&repo, &to, &["--force"]).exit(0);
        let theirs = if mine == "b" { "b/x" } else { "b" };
        assert_eq!(repo.read(theirs), "one\n");
        let tree = forced.stderr.split("kept in the snapshot ").nth(1).unwrap();
        let tree = tree.split_whitespace().next().unwrap();
        assert_eq!(repo.git_with_snapshots(&["show", &format!("{tree}:{mine}")]), "mine");
        repo.is_whole();
    }
}
