//! Mend 15: hints that work, pages of codes, and commands that need no project.

use windlass_kernel::Code;

use crate::harness::{Outcome, Place};
use crate::world::{Repo, VOICE, answers, built_once, escalating, id_of, passing, review};

fn approve(repo: &Repo, id: &str) -> Outcome {
    repo.windlass(&[&["queue", "approve", id][..], &VOICE].concat())
}

/// The words of the first command in backticks in an error's hint.
fn hinted(outcome: &Outcome) -> Vec<String> {
    let hint = outcome.stderr.split("hint: ").nth(1).unwrap_or_else(|| panic!("{outcome}"));
    let line = hint.split("`windlass ").nth(1).and_then(|rest| rest.split('`').next());
    let line = line.unwrap_or_else(|| panic!("no command in the hint\n{outcome}"));
    line.split(' ').map(str::to_owned).collect()
}

fn follow(repo: &Repo, outcome: &Outcome) -> Outcome {
    let words = hinted(outcome);
    repo.windlass(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn mend_15_every_code_is_explained_without_a_project() {
    let place = Place::new();
    for code in Code::ALL {
        let page = format!("{}/../../docs/errors/{code}.md", env!("CARGO_MANIFEST_DIR"));
        let page = std::fs::read_to_string(page).unwrap();
        let shown = place.run(&["explain", code.as_str()]).exit(0).quiet();
        assert_eq!(shown.text(), page, "{code}");
    }
    let lower = place.run(&["explain", "[run_not_found]"]).exit(0);
    assert!(lower.text().starts_with("# RUN_NOT_FOUND\n"), "{lower}");
    let all = place.run(&["explain"]).exit(0);
    assert_eq!(all.text().lines().count(), Code::ALL.len() + 1);
    for line in all.text().lines().skip(1) {
        assert!(line.ends_with('.'), "a whole sentence: {line}");
    }
    let json = place.run(&["explain", "REPO_DIRTY", "--json"]).exit(0).json();
    assert_eq!((&json["code"], &json["exit_code"]), (&"REPO_DIRTY".into(), &3.into()));
    place
        .run(&["explain", "NO_SUCH_CODE"])
        .fails_with(2, "REQUEST_INVALID")
        .warns("windlass explain");
}

#[test]
fn mend_15_loops_are_listed_and_checked_without_a_project() {
    let place = Place::new();
    let project = Place::with_project();
    let listed = place.run(&["loop", "list", "--json"]).exit(0).quiet().json();
    assert_eq!(listed, project.run(&["loop", "list", "--json"]).exit(0).json());
    let shown = place.run(&["loop", "show", "spine"]).exit(0);
    assert_eq!(shown.text(), project.run(&["loop", "show", "spine"]).exit(0).text());
    let spine = std::fs::read(project.work().join(".windlass/loops/spine.md")).unwrap();
    place.write("spine.md", spine);
    place.run(&["loop", "check", "spine.md"]).exit(0).says("spine.md");
    place.write("spine.md", "---\nid: spine\n---\n");
    place.run(&["loop", "check", "spine.md"]).fails_with(2, "LOOP_INVALID");
    // A project that is named must be there.
    place.run(&["loop", "list", "-C", "nowhere"]).fails_with(2, "PROJECT_MISSING");
}

#[test]
fn mend_15_a_missing_or_edited_packet_is_written_again_as_its_hint_says() {
    for damage in [None, Some("edited: true\n")] {
        let repo = Repo::new();
        let id = id_of(&repo.run(&escalating()).exit(4));
        approve(&repo, &id).exit(0);
        let path = repo.root().join(format!(".windlass/artifacts/checkpoints/CP_{id}_4.yaml"));
        match damage {
            None => std::fs::remove_file(&path).unwrap(),
            Some(text) => {
                let old = std::fs::read_to_string(&path).unwrap();
                std::fs::write(&path, format!("{old}{text}")).unwrap();
            }
        }
        let refused = repo.windlass(&["resume", &id]).exit(1);
        assert_eq!(hinted(&refused), ["export", &id]);
        follow(&repo, &refused).exit(0);
        repo.windlass(&["resume", &id]).exit(0);
    }
}

#[test]
fn mend_15_a_stop_request_is_cleared_as_its_hint_says() {
    let repo = Repo::new();
    repo.windlass(&["stop"]).exit(0);
    let path = repo.answers(&passing());
    let refused = repo.windlass(&["run", "one", "--answers", &path]).fails_with(3, "RUN_STOPPED");
    assert_eq!(hinted(&refused), ["stop", "--clear"]);
    follow(&repo, &refused).exit(0);
    repo.windlass(&["run", "one", "--answers", &path]).exit(0);
    let id = id_of(&repo.run(&escalating()).exit(4));
    approve(&repo, &id).exit(0);
    repo.windlass(&["stop", &id]).exit(0);
    let refused = repo.windlass(&["resume", &id]).fails_with(3, "RUN_STOPPED");
    assert_eq!(hinted(&refused), ["stop", &id, "--clear"]);
    follow(&repo, &refused).exit(0);
    repo.windlass(&["resume", &id]).exit(0);
}

#[test]
fn mend_15_changed_files_are_put_back_as_the_hint_of_a_resume_says() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    approve(&repo, &id).exit(0);
    repo.write("built.txt", "something else\n");
    let refused = repo.windlass(&["resume", &id]).fails_with(3, "REPO_DIRTY");
    let refused = refused.warns("a commit or a stash would take the run's own work, too");
    assert_eq!(hinted(&refused), ["resume", &id]);
    let (_, second) = refused.stderr.split_once("`windlass checkpoint ").unwrap();
    let words = second.split('`').next().unwrap().split(' ');
    let words: Vec<&str> = std::iter::once("checkpoint").chain(words).collect();
    repo.windlass(&words).exit(0);
    assert_eq!(repo.read("built.txt"), "built\n");
    goes_on(&repo, &id);
}

/// Approves the hold after a rollback, and what it leads to.
fn goes_on(repo: &Repo, id: &str) {
    let resume = [&["queue", "approve", id, "--resume"][..], &VOICE].concat();
    repo.windlass(&resume).exit(4);
    repo.windlass(&resume).exit(0);
    assert_eq!(repo.stands(id)["outcome"], "PASS");
}

#[test]
fn mend_15_a_lost_work_tree_is_made_again_as_its_hint_says() {
    let repo = Repo::new();
    let id = id_of(&repo.run_with(&escalating(), &["--worktree"]).exit(4));
    approve(&repo, &id).exit(0);
    let tree = repo.place.state().join("worktrees").join(&id);
    std::fs::remove_dir_all(&tree).unwrap();
    let refused = repo.windlass(&["resume", &id]).fails_with(1, "REPO_MISSING");
    let refused = refused.warns(&format!("`{}`", tree.display())).warns("is gone");
    for line in refused.stderr.split("hint: ").nth(1).unwrap().split('`') {
        if let Some(words) = line.strip_prefix("git ") {
            repo.git(&words.split(' ').collect::<Vec<_>>());
        }
    }
    follow(&repo, &refused).exit(0);
    assert_eq!(std::fs::read_to_string(tree.join("built.txt")).unwrap(), "built\n");
    goes_on(&repo, &id);
}

#[test]
fn mend_15_a_run_that_is_in_the_way_is_found_as_the_hint_says() {
    let repo = Repo::new();
    let slow = crate::world::build(&[crate::world::sh(crate::world::UNTIL_GO)]);
    let approved = crate::world::review("approved");
    let path = repo.answers(&crate::world::answers(&[slow], &[approved]));
    let child = repo.place.command(&["run", "one", "--answers", &path]).spawn().unwrap();
    repo.until_begun();
    let refused = repo.windlass(&["run", "two", "--answers", &path]);
    let shown = follow(&repo, &refused);
    repo.go();
    assert!(child.wait_with_output().unwrap().status.success());
    let refused = refused.fails_with(1, "RUN_CONCURRENT").warns("`windlass run --worktree TASK`");
    assert_eq!(hinted(&refused), ["status", "--open"]);
    let shown = shown.exit(0);
    assert!(shown.text().contains("one"), "{shown}");
}

#[test]
fn mend_15_a_wrong_approver_is_told_who_can_answer() {
    let repo = Repo::with_spine("approvals: 1", "approvals: 2");
    let id = id_of(&repo.run(&escalating()).exit(4));
    // Ada started the run.
    let refused = approve(&repo, &id).fails_with(3, "APPROVER_NOT_COUNTED");
    let refused =
        refused.warns("`windlass people list`").warns("windlass people add NAME --passphrase");
    assert_eq!(hinted(&refused)[..2], ["queue", "approve"]);
    let unknown = ["queue", "approve", &id, "--by", "nobody-here", "--reason", "x"];
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(unknown);
    repo.place.settle(&mut command);
    let unknown = crate::harness::finish(command, &[]).fails_with(3, "PERSON_UNKNOWN");
    assert_eq!(hinted(&unknown), ["people", "list"]);
    let alone = repo.windlass(&["people", "add", "eve", "--passphrase"]);
    alone.fails_with(3, "PERSON_LOCKED").warns("`--passphrase-file FILE`");
}

/// A run that has ended without passing, and left its changes.
fn failed(repo: &Repo) -> String {
    id_of(&repo.run(&answers(&[built_once()], &[review("rejected")])).exit(3))
}

#[test]
fn mend_15_what_an_ended_run_left_is_put_back_as_the_hint_of_the_next_run_says() {
    let repo = Repo::new();
    let id = failed(&repo);
    let path = repo.answers(&passing());
    let refused = repo.windlass(&["run", "two", "--answers", &path]).fails_with(3, "REPO_DIRTY");
    assert_eq!(hinted(&refused), ["close", &id, "--restore"]);
    follow(&repo, &refused).exit(0);
    repo.windlass(&["run", "two", "--answers", &path]).exit(0);
    // Changes of people alone are theirs to settle.
    repo.write("mine.txt", "mine\n");
    let refused = repo.windlass(&["run", "three", "--answers", &path]).fails_with(3, "REPO_DIRTY");
    assert!(!refused.stderr.contains("--restore"), "{refused}");
}

#[test]
fn mend_15_changed_files_are_put_back_by_close_as_its_hint_says() {
    let repo = Repo::new();
    let id = failed(&repo);
    repo.write("built.txt", "mine\n");
    let refused = repo.windlass(&["close", &id, "--restore"]).fails_with(3, "WORKSPACE_CHANGED");
    assert_eq!(hinted(&refused), ["close", &id, "--restore", "--dry-run"]);
    follow(&repo, &refused).exit(0).says("built.txt");
    assert_eq!(repo.read("built.txt"), "mine\n");
    drop(refused.warns(&format!("`windlass close {id} --restore --force`")));
    repo.windlass(&["close", &id, "--restore", "--force"]).exit(0);
    assert_eq!((repo.read("built.txt"), repo.status()), (String::new(), String::new()));
}

#[test]
fn mend_15_a_run_is_given_up_as_hints_say() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let refused = repo.windlass(&["close", &id]).fails_with(1, "RUN_CONCURRENT");
    assert_eq!(hinted(&refused), ["cancel", &id, "--reason", "TEXT"]);
    approve(&repo, &id).exit(0);
    repo.windlass(&["stop", &id]).exit(0);
    let stopped = repo.windlass(&["resume", &id]).fails_with(3, "RUN_STOPPED");
    drop(stopped.warns(&format!("`windlass cancel {id} --reason TEXT`")));
    repo.windlass(&["stop", &id, "--clear"]).exit(0);
    repo.git(&["commit", "--quiet", "--allow-empty", "-m", "elsewhere"]);
    let moved = repo.windlass(&["resume", &id]).fails_with(3, "REPO_MOVED");
    assert_eq!(hinted(&moved), ["cancel", &id, "--reason", "TEXT"]);
    follow(&repo, &moved).exit(0);
    assert_eq!(repo.stands(&id)["reason"], "cancelled");
}

#[test]
fn mend_15_a_run_that_the_policy_ended_names_how_its_files_are_put_back() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    approve(&repo, &id).exit(0);
    repo.place.append(".windlass/policy/default.toml", "\n# changed\n");
    let ended = repo.windlass(&["resume", &id]).exit(3).warns("[POLICY_CHANGED_MID_RUN]");
    assert_eq!(hinted(&ended), ["close", &id, "--restore"]);
}

/// A loop that asks one person, who is somebody else.
const ASKS_ANN: &str = "---
id: asks
title: Asks one person
type: loop
category: test
version: \"1\"
on_restart: hold
phases:
  - id: agree
    doer:
      consensus: Is it right?
      reviewers: [{ person: ann }]
      quorum: 1
    gate:
      id: agreed
      verdicts:
        approved: continue
        approved_with_conditions: continue
        rejected: block
---
";

#[test]
fn mend_15_a_reviewer_who_is_not_asked_is_told_who_is() {
    let repo = Repo::with_loop("asks", ASKS_ANN);
    let path = repo.answers(&serde_json::json!({ "phases": {} }));
    let line = ["run", "one", "--loop", "asks", "--answers", &path, "--by", "ada"];
    let held = repo.windlass(&line).exit(4);
    let offer = held.text().lines().find(|line| line.starts_with("approve:")).unwrap().to_owned();
    let id = offer.split(' ').find(|word| word.starts_with("run_")).unwrap().to_owned();
    assert!(offer.ends_with(&format!("approve {id} --by ann --reason TEXT --resume")), "{offer}");
    let refused = approve(&repo, &id).fails_with(2, "REQUEST_INVALID");
    assert_eq!(hinted(&refused), ["queue", "approve", &id, "--by", "ann", "--reason", "TEXT"]);
    follow(&repo, &refused).exit(0);
    repo.windlass(&["resume", &id]).exit(0);
}

#[test]
fn mend_15_a_run_that_needs_two_people_says_so() {
    let repo = Repo::with_spine("approvals: 1", "approvals: 2");
    let id = id_of(&repo.run(&escalating()).exit(4));
    repo.windlass(&["status", &id]).exit(0).says("0 of 2 approvals are given");
}
