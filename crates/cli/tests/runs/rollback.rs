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
    let mut all = crate::phases::answers(&["approved"]);
    let again = all["phases"]["documentation"][0].clone();
    all["phases"]["documentation"] = json!([again, again]);
    let approved = json!({ "answer": { "verdict": "approved", "reason": "looked at it" } });
    all["phases"]["review"] = json!([approved, approved]);
    let tidy = json!({ "answer": { "summary": "nothing to tidy" } });
    all["phases"]["hygiene"] = json!([tidy, tidy]);
    let id = id_of(&repo.run_with(&all, &["--loop", "phases"]).exit(4));
    crate::phases::owner(&repo, &id).exit(4);
    assert_eq!(crate::phases::owner(&repo, &id).exit(0).json()["outcome"], "PASS");
    roll_back(&repo, &format!("{id}/POST_acceptance"), &[]).exit(0);
    assert_eq!(terminal(&repo, &id), None);
    let done = repo.approve(&id).exit(0).json();
    assert_eq!(done["outcome"], "PASS", "{done}");
    assert!(terminal(&repo, &id).is_some());
    is_shown(&repo, &id);
}
