//! A policy that changes while a run is at work or waits: only what the run uses counts, and it comes first.

use serde_json::json;

use crate::harness::Outcome;
use crate::world::{Repo, UNTIL_GO, VOICE, answers, build, escalating, id_of, review, sh};

const POLICY: &str = ".windlass/policy/default.toml";

/// Requires a run to have ended because of its policy, with its packet.
#[track_caller]
fn has_ended(repo: &Repo, id: &str) {
    let run = repo.stands(id);
    assert_eq!(
        (&run["outcome"], &run["reason"]),
        (&json!("BLOCKED"), &json!("POLICY_CHANGED_MID_RUN"))
    );
    assert_eq!(run["commit"], json!(null));
    let packet = repo.artifact(&format!("terminal/TP_{id}.yaml"));
    assert!(packet.contains("reason: POLICY_CHANGED_MID_RUN"), "{packet}");
}

#[test]
fn mend_02_a_policy_changed_in_the_workspace_of_a_waiting_run_ends_it() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(0);
    repo.place.append(POLICY, "# changed\n");
    repo.windlass(&["resume", &id]).exit(3).warns("[POLICY_CHANGED_MID_RUN]");
    has_ended(&repo, &id);
}

#[test]
fn mend_02_the_policy_comes_before_a_changed_and_a_moved_repository() {
    for moved in [false, true] {
        let repo = Repo::new();
        let id = id_of(&repo.run(&escalating()).exit(4));
        repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(0);
        repo.place.append(POLICY, "# changed\n");
        repo.write("README.md", "changed\n");
        if moved {
            repo.commit("something else");
        }
        repo.windlass(&["resume", &id]).exit(3).warns("[POLICY_CHANGED_MID_RUN]");
        has_ended(&repo, &id);
    }
    // Without it they are what they were.
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(0);
    repo.write("README.md", "changed\n");
    repo.windlass(&["resume", &id]).fails_with(3, "REPO_DIRTY");
    repo.commit("something else");
    repo.windlass(&["resume", &id]).fails_with(3, "REPO_MOVED");
}

/// Changes a file while the build of a run is at work, and returns how the run ended.
fn changed_at_work(path: &str) -> (Repo, Outcome) {
    let repo = Repo::new();
    let answers = answers(&[build(&[sh(UNTIL_GO)])], &[review("approved")]);
    let answers = repo.answers(&answers);
    let line = ["run", "one", "--json", "--worktree", "--answers", &answers];
    let child = repo.place.command(&line).spawn().unwrap();
    let worktrees = repo.place.state().join("worktrees");
    let worktree = || std::fs::read_dir(&worktrees).ok()?.next()?.ok().map(|one| one.path());
    let begun = || worktree().is_some_and(|path| path.join("begun.txt").exists());
    windlass_testkit::eventually("the work has begun", begun);
    repo.place.append(path, "\n");
    std::fs::write(worktree().unwrap().join("go.txt"), "").unwrap();
    (repo, Outcome::of("windlass run".to_owned(), child.wait_with_output().unwrap()))
}

#[test]
fn mend_02_a_policy_changed_while_a_run_is_at_work_ends_it() {
    let paths = [POLICY, ".windlass/loops/spine.md", ".windlass/agents/reviewer.md"];
    for path in paths {
        let (repo, ended) = changed_at_work(path);
        let id = id_of(&ended.exit(3));
        has_ended(&repo, &id);
        let review = &repo.stands(&id)["phases"][4];
        assert_eq!(review["status"], "pending", "{path}: nothing begins under another policy");
    }
}

#[test]
fn mend_02_a_policy_changed_in_the_workspace_of_a_run_at_work_ends_it() {
    let repo = Repo::new();
    let path = repo.answers(&answers(&[build(&[sh(UNTIL_GO)])], &[review("approved")]));
    let child = repo.place.command(&["run", "one", "--json", "--answers", &path]).spawn().unwrap();
    repo.until_begun();
    repo.place.append(POLICY, "# changed\n");
    repo.go();
    let ended = Outcome::of("windlass run".to_owned(), child.wait_with_output().unwrap()).exit(3);
    has_ended(&repo, &id_of(&ended));
}

#[test]
fn mend_02_files_that_a_run_does_not_use_do_not_change_its_policy() {
    let hash = |repo: &Repo, name: &str| {
        let line = ["policy", "hash", "--loop", name];
        repo.windlass(&line).exit(0).text().trim().to_owned()
    };
    let (repo, done) = changed_at_work(".windlass/loops/driver.md");
    assert_eq!(done.exit(0).json()["outcome"], "PASS");
    let other = repo.windlass(&["loop", "list", "--json"]).exit(0).json();
    assert!(other.as_array().unwrap().len() > 1, "there are other loops");
    let before = hash(&repo, "spine");
    repo.write(".windlass/agents/stranger.md", AGENT);
    assert_eq!(hash(&repo, "spine"), before, "an agent that the loop does not name");
    repo.place.append(".windlass/agents/builder.md", "\n");
    assert_ne!(hash(&repo, "spine"), before, "an agent of the loop");
    repo.windlass(&["policy", "hash", "--loop", "none"]).fails_with(2, "LOOP_NOT_FOUND");
}

/// An agent that no loop names.
const AGENT: &str = "---
name: stranger
description: Does something else.
---

Do something else.
";
