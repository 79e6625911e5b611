//! The ledger, packets and summaries of a run tell what happened.

use serde_json::{Value, json};

use crate::world::{Repo, answers, build, built_once, escalating, id_of, passing, review, sh};

/// The attempts in the ledger: whether they succeeded, and what followed.
fn attempts(repo: &Repo) -> Vec<(bool, String)> {
    let text = repo.artifact("loop_state/attempt_ledger.jsonl");
    windlass_formats::check_ledger(text.as_bytes()).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let attempts = lines.filter(|line| line["attempt_id"].is_number());
    let facts = |line: Value| {
        (line["success"].as_bool().unwrap(), line["next_action"].as_str().unwrap().to_owned())
    };
    attempts.map(facts).collect()
}

/// The newest summary of a phase.
fn summary(repo: &Repo, phase: &str) -> Value {
    let end = format!("_{phase}.json");
    let name = repo.artifacts().into_iter().find(|name| name.ends_with(&end)).unwrap();
    serde_json::from_str(&repo.artifact(&name)).unwrap()
}

#[test]
fn mend_07_no_retry_follows_a_success() {
    let repo = Repo::new();
    repo.run(&passing()).exit(0);
    let all = attempts(&repo);
    assert!(all.iter().all(|(success, action)| *success && action != "retry"), "{all:?}");
    assert_eq!(all.last().unwrap().1, "terminate");
    assert_eq!(all.iter().filter(|(_, action)| action == "continue").count(), all.len() - 1);
    // A build that is sent back is made again.
    let repo = Repo::new();
    let builds = [build(&[sh("echo 1 > a.txt")]), build(&[sh("echo 2 > a.txt")])];
    repo.run(&answers(&builds, &[review("needs_revision"), review("approved")])).exit(0);
    let all = attempts(&repo);
    assert_eq!(all.iter().filter(|(_, action)| action == "retry").count(), 1, "{all:?}");
    assert!(all.contains(&(false, "retry".to_owned())), "{all:?}");
}

#[test]
fn mend_07_changed_files_are_among_the_artifacts() {
    let repo = Repo::new();
    repo.run(&passing()).exit(0);
    assert_eq!(summary(&repo, "build")["artifacts"], json!(["built.txt"]));
    assert_eq!(summary(&repo, "review")["artifacts"], json!([]), "it changed nothing");
}

/// A loop in which a person decides.
const PERSON: &str = "---
id: asked
title: A person decides
type: loop
category: test
version: \"1\"
on_restart: hold
phases:
  - id: build
    doer: { agent: builder }
  - id: decide
    doer: { person: \"Is it right?\" }
    needs: [build]
    gate:
      id: decided
      verdicts:
        approved: continue
        rejected: block
---
";

#[test]
fn mend_07_the_answer_and_who_gave_it_are_there() {
    let repo = Repo::with_loop("asked", PERSON);
    let held = repo.run_with(&answers(&[built_once()], &[]), &["--loop", "asked"]).exit(4);
    let id = id_of(&held);
    let line = ["queue", "approve", &id, "--by", "ada", "--reason", "it is right", "--resume"];
    repo.windlass(&line).exit(0);
    assert_eq!(summary(&repo, "decide")["summary"], "approved by ada: it is right");
    let packet = repo.artifact(&format!("terminal/TP_{id}.yaml"));
    assert!(packet.contains("approved by ada: it is right"), "{packet}");
}

/// A loop that can work in a repository with changes, and fails.
const LOOSE: &str = "---
id: loose
title: Works anywhere
type: loop
category: test
version: \"1\"
on_restart: hold
phases:
  - id: look
    doer: { command: [sh, -c, \"echo '{}'\"] }
  - id: build
    needs: [look]
    doer: { agent: builder }
---
";

#[test]
fn mend_07_what_differed_before_a_run_is_not_told_as_its_work() {
    let repo = Repo::with_loop("loose", LOOSE);
    repo.write("mine.txt", "mine\n");
    repo.write("README.md", "another text\n");
    let loose =
        |calls: &[Value]| repo.run_with(&answers(&[build(calls)], &[]), &["--loop", "loose"]);
    let files = || -> Vec<Value> {
        let text = repo.artifact("loop_state/attempt_ledger.jsonl");
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines
            .filter(|line| line["attempt_id"].is_number())
            .map(|line| line["changed_files"].clone())
            .collect()
    };
    // One that changes nothing.
    let failed = id_of(&loose(&[sh("exit 7")]).exit(3));
    assert!(files().iter().all(|files| *files == json!([])), "{:?}", files());
    let shown = repo.windlass(&["status", &failed]).exit(0);
    assert!(!shown.text().contains("still in the project"), "{shown}");
    // One that does, and waits.
    let held = loose(&[sh("echo work > work.txt"), sh("eval ls README.md")]).exit(4);
    let shown = repo.windlass(&["queue", "show", &id_of(&held)]).exit(0).says("work.txt");
    assert!(!shown.text().contains("mine.txt"), "{shown}");
    repo.windlass(&["cancel", &id_of(&held), "--by", "ada", "--reason", "no"]).exit(0);
    let shown = repo.windlass(&["status", &id_of(&held)]).exit(0).says("still in the project:");
    assert!(!shown.text().contains("refuse the next run"), "{shown}");
    repo.is_whole();
}

#[test]
fn mend_07_the_packet_of_a_cancelled_run_tells_by_whom_and_why() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    repo.windlass(&["cancel", &id, "--by", "ada", "--reason", "not needed any more"]).exit(0);
    let packet = repo.artifact(&format!("terminal/TP_{id}.yaml"));
    windlass_formats::read_terminal(packet.as_bytes()).unwrap();
    assert!(packet.contains("cancelled by ada: not needed any more"), "{packet}");
    assert!(!packet.contains("running"), "nothing is under way in a run that has ended\n{packet}");
}
