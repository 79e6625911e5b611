//! The files of a run that did not pass: offered to be put back, or put back by a setting.

use serde_json::json;

use crate::world::{Repo, answers, build, built_once, id_of, passing, review, sh};

fn rejected() -> serde_json::Value {
    answers(&[built_once()], &[review("rejected")])
}

#[test]
fn mend_04_a_run_that_did_not_pass_offers_to_put_its_files_back() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&rejected()).exit(3));
    let offer = format!("windlass close {id} --restore");
    repo.windlass(&["status", &id]).exit(0).says(&offer);
    assert_eq!(repo.run(&passing()).exit(3).error()["code"], "REPO_DIRTY");
    repo.windlass(&["close", &id, "--restore", "--by", "ada"]).exit(0);
    assert_eq!(repo.status(), "");
    let run = repo.stands(&id);
    assert_eq!((&run["outcome"], &run["reason"]), (&json!("BLOCKED"), &json!("review_rejected")));
    // The work is not lost.
    let list = repo.windlass(&["checkpoint", "list", &id, "--json"]).exit(0).json();
    assert!(list.to_string().contains("POST_build_v1"), "{list}");
    let diff = ["checkpoint", "diff"];
    let (from, to) = (format!("{id}/PRE_hydrate_v1"), format!("{id}/POST_build_v1"));
    repo.windlass(&[&diff[..], &[&from, &to]].concat()).exit(0).says("built.txt");
    repo.is_whole();
    repo.run(&passing()).exit(0);
}

#[test]
fn mend_04_a_failed_phase_is_put_back_too() {
    let repo = Repo::new();
    repo.write("kept.txt", "as it was\n");
    repo.commit("a file");
    let fails = build(&[sh("echo new > kept.txt; echo more > more.txt"), sh("exit 7")]);
    let id = id_of(&repo.run(&answers(&[fails], &[])).exit(3));
    assert_ne!(repo.status(), "");
    repo.windlass(&["close", &id, "--restore"]).exit(0);
    assert_eq!((repo.status().as_str(), repo.read("kept.txt").as_str()), ("", "as it was\n"));
}

#[test]
fn mend_04_by_a_setting_they_are_put_back_at_once() {
    let repo = Repo::new();
    repo.place.append(".windlass/config.toml", "\n[runs]\nput_back = true\n");
    repo.commit("a setting");
    let ended = repo.run(&rejected()).exit(3).warns("put back").warns("built.txt");
    assert_eq!(ended.json()["reason"], "review_rejected");
    assert_eq!(repo.status(), "");
    repo.windlass(&["close", &id_of(&ended), "--restore"]).fails_with(1, "CHECKPOINT_UNAVAILABLE");
    repo.run(&passing()).exit(0);
    assert_eq!(repo.read("built.txt"), "built\n", "what has passed stays");
}

#[test]
fn mend_04_files_that_people_changed_since_are_not_put_back() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&rejected()).exit(3));
    repo.write("built.txt", "mine\n");
    repo.windlass(&["close", &id, "--restore"]).fails_with(3, "WORKSPACE_CHANGED");
    assert_eq!(repo.read("built.txt"), "mine\n");
}

/// A repository whose settings put files back.
fn putting_back() -> Repo {
    let repo = Repo::new();
    repo.place.append(".windlass/config.toml", "\n[runs]\nput_back = true\n");
    repo.write("BACKLOG.md", "### P0\n\n- [ ] **Raise the price** — DoD: it is raised — Owner: ada — Context: README.md\n");
    repo.commit("a setting");
    repo
}

#[test]
fn mend_04_the_setting_counts_for_the_backlog_and_after_an_answer() {
    let repo = putting_back();
    let path = repo.answers(&rejected());
    repo.windlass(&["backlog", "run", "--answers", &path, "--by", "ada"]).exit(3);
    assert_eq!(repo.status(), "");
    let script = answers(&[built_once()], &[review("escalate")]);
    let id = id_of(&repo.run(&script).exit(4));
    assert_ne!(repo.status(), "");
    let line = ["queue", "reject", &id, "--by", "ada", "--reason", "no", "--resume"];
    repo.windlass(&line);
    assert_eq!(repo.status(), "");
}

#[test]
fn mend_04_the_setting_counts_for_recovery() {
    let repo = putting_back();
    let script = answers(&[built_once()], &[review("escalate")]);
    let id = id_of(&repo.run(&script).exit(4));
    assert_ne!(repo.status(), "");
    // Nobody answers in time.
    repo.later(24 * 365, &["recover"]);
    assert!(repo.stands(&id)["outcome"].is_string());
    assert_eq!(repo.status(), "");
    // A rejection may end a run, too.
    let id = id_of(&repo.run(&script).exit(4));
    let line = ["queue", "reject", &id, "--by", "ada", "--reason", "no"];
    repo.windlass(&line).exit(0);
    assert_eq!(repo.stands(&id)["outcome"], "BLOCKED");
    assert_eq!(repo.status(), "");
}

/// A loop whose only command waits until the test lets it go on.
const SLOW: &str = "---
id: slow
title: Slow
type: loop
category: test
version: \"1\"
on_restart: hold
phases:
  - id: one
    doer: { command: [sh, -c, \"echo work > work.txt; touch begun.txt; timeout 60 sh -c 'until [ -f go.txt ]; do sleep 0.05; done'; echo '{}'\"] }
  - id: two
    needs: [one]
    doer: { command: [\"true\"] }
---
";

/// A live run whose policy somebody changes while it is at work, with a file of their own.
fn changed_while_at_work(settings: &str) -> (Repo, crate::harness::Outcome) {
    let repo = Repo::with_loop("slow", SLOW);
    repo.place.append(".windlass/config.toml", settings);
    repo.write(".gitignore", "begun.txt\ngo.txt\n");
    repo.commit("a setting");
    let ended = std::thread::scope(|scope| {
        let run = scope.spawn(|| repo.windlass(&["run", "wait", "--loop", "slow", "--json"]));
        repo.until_begun();
        repo.place.append(".windlass/policy/default.toml", "# mine\n");
        repo.write("mine.txt", "mine\n");
        repo.go();
        run.join().expect("the run")
    });
    let ended = ended.exit(3);
    assert_eq!(ended.json()["reason"], "POLICY_CHANGED_MID_RUN", "{ended}");
    (repo, ended)
}

/// What a person has done in [`changed_while_at_work`] is still there.
fn keeps_what_is_mine(repo: &Repo) {
    assert!(repo.read(".windlass/policy/default.toml").ends_with("# mine\n"));
    assert_eq!(repo.read("mine.txt"), "mine\n");
}

#[test]
fn mend_04_what_people_did_meanwhile_is_not_put_back_by_itself() {
    let (repo, ended) = changed_while_at_work("\n[runs]\nput_back = true\n");
    keeps_what_is_mine(&repo);
    ended.warns("mine.txt").warns("work.txt").warns("WORKSPACE_CHANGED").warns("--restore --force");
}

#[test]
fn mend_04_what_people_did_meanwhile_is_named_and_their_settings_stay() {
    let (repo, ended) = changed_while_at_work("");
    let id = id_of(&ended);
    let refused = repo.windlass(&["close", &id, "--restore"]).exit(3).warns("WORKSPACE_CHANGED");
    refused.warns("`.windlass/policy/default.toml`").warns("`mine.txt`").warns("--dry-run");
    keeps_what_is_mine(&repo);
    let plan = repo.windlass(&["close", &id, "--restore", "--dry-run"]).exit(0);
    let plan = plan.says("- mine.txt").says("- work.txt");
    plan.says("not changed: .windlass/policy/default.toml");
    keeps_what_is_mine(&repo);
    let forced = repo.windlass(&["close", &id, "--restore", "--force"]).exit(0);
    forced.says("- mine.txt").says("- work.txt").says("not changed: .windlass/policy/default.toml");
    assert!(repo.read(".windlass/policy/default.toml").ends_with("# mine\n"));
    assert_eq!((repo.read("mine.txt"), repo.read("work.txt")), (String::new(), String::new()));
    let again = repo.windlass(&["close", &id, "--restore", "--force"]);
    again.fails_with(1, "CHECKPOINT_UNAVAILABLE");
    let shown = repo.windlass(&["status", &id]).exit(0);
    assert!(!shown.text().contains("--restore"), "{shown}");
    repo.is_whole();
}
