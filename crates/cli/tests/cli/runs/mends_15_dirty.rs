//! Files of people in a project in which a run waits.

use serde_json::Value;

use crate::world::{Repo, VOICE, escalating, id_of};

/// A run that was approved, and a file that its owner made while it waited.
fn with_own_file() -> (Repo, String) {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(0);
    repo.write("mine.txt", "mine\n");
    (repo, id)
}

#[test]
fn mend_15_what_helps_against_a_file_of_ones_own_is_said() {
    let (repo, id) = with_own_file();
    let refused = repo.windlass(&["resume", &id]).exit(3).warns("REPO_DIRTY").warns("mine.txt");
    let cancel = format!("windlass cancel {id} --reason TEXT");
    refused.warns("out of the project").warns(&cancel).warns("leaves files of your own where");
    // The approval is still there.
    std::fs::rename(repo.root().join("mine.txt"), repo.place.base().join("mine.txt")).unwrap();
    assert_eq!(repo.windlass(&["resume", &id, "--json"]).exit(0).json()["outcome"], "PASS");
    // Where the run's own files have changed, a rollback helps, too.
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(0);
    repo.write("built.txt", "another\n");
    let refused = repo.windlass(&["resume", &id]).exit(3);
    refused.warns("windlass checkpoint rollback").warns("POST_review_v1 --force --reason TEXT");
}

#[test]
fn mend_15_a_file_of_ones_own_is_not_committed_after_a_rollback() {
    let (repo, id) = with_own_file();
    let to = format!("{id}/POST_review_v1");
    let line = ["checkpoint", "rollback", &to, "--force", "--by", "ada", "--reason", "back"];
    repo.windlass(&[&line[..], &["--resume"]].concat()).exit(3).warns("mine.txt");
    repo.windlass(&line).exit(0).warns("`mine.txt` is not the run's");
    let shown = repo.windlass(&["queue", "show", &id, "--json"]).exit(0).json();
    assert_eq!(shown["held"]["change"]["files"], serde_json::json!(["built.txt"]));
    let approve = [&["queue", "approve", &id, "--resume"][..], &VOICE].concat();
    repo.windlass(&approve).exit(3).warns("REPO_DIRTY").warns("mine.txt");
    std::fs::remove_file(repo.root().join("mine.txt")).unwrap();
    let run: Value = repo.windlass(&["resume", &id, "--json"]).json();
    // The reviewer is asked again, or the run passes; either way only the run's file is committed.
    let run = if run["outcome"] == "PASS" { run } else { repo.approve(&id).exit(0).json() };
    assert_eq!(run["outcome"], "PASS", "{run}");
    assert_eq!(repo.git(&["show", "--name-only", "--format=", "HEAD"]), "built.txt");
}
