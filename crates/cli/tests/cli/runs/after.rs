//! `close` and `export`: what is done after a run.

use crate::world::{Repo, VOICE, escalating, id_of, passing, tree};

#[test]
fn closing_removes_the_work_tree_and_keeps_the_branch() {
    let repo = Repo::new();
    let done = repo.run_with(&passing(), &["--worktree"]).exit(0);
    let (id, commit) = (id_of(&done), done.json()["commit"].as_str().unwrap().to_owned());
    let folder = repo.place.state().join("worktrees").join(&id);
    assert!(folder.exists());
    repo.windlass(&["close", &id]).exit(0).says("removed");
    assert!(!folder.exists());
    assert_eq!(repo.git(&["rev-parse", &format!("windlass/{id}")]), commit);
    // Whoever closes twice has nothing more to lose.
    repo.windlass(&["close", &id]).exit(0);
}

#[test]
fn closing_keeps_what_is_not_committed_or_not_ended() {
    let repo = Repo::new();
    let id = id_of(&repo.run_with(&escalating(), &["--worktree"]).exit(4));
    let built = repo.place.state().join("worktrees").join(&id).join("built.txt");
    repo.windlass(&["close", &id]).fails_with(1, "RUN_CONCURRENT");
    repo.windlass(&[&["queue", "reject", &id][..], &VOICE].concat()).exit(0);
    let kept = repo.windlass(&["close", &id]);
    assert!(kept.code != Some(0) && built.exists(), "{kept}");
    repo.windlass(&["close", &id, "--discard"]).exit(0);
    assert!(!built.exists());
}

#[test]
fn exporting_writes_what_was_deleted_or_edited_as_it_was() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    repo.approve(&id).exit(0);
    let folder = repo.root().join(".windlass/artifacts");
    let before = tree(&folder);
    let terminal = format!("terminal/TP_{id}.yaml");
    std::fs::write(folder.join(&terminal), "outcome: FORGED\n").unwrap();
    std::fs::remove_dir_all(folder.join("checkpoints")).unwrap();
    std::fs::remove_dir_all(folder.join("steps")).unwrap();
    std::fs::remove_file(folder.join("loop_state/attempt_ledger.jsonl")).unwrap();
    repo.windlass(&["export", &id]).exit(0).says(&terminal);
    assert_eq!(tree(&folder), before);
    repo.windlass(&["export", "run_20260101_000000_00000000"]).fails_with(2, "RUN_NOT_FOUND");
}

#[test]
fn exporting_mends_a_packet_that_keeps_a_run_from_going_on() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(0);
    let path = format!(".windlass/artifacts/checkpoints/CP_{id}_4.yaml");
    repo.write(&path, repo.read(&path).replace("by: ada", "by: eve"));
    repo.windlass(&["resume", &id]).fails_with(1, "PACKET_EDITED");
    repo.windlass(&["export", &id]).exit(0);
    repo.windlass(&["resume", &id]).exit(0);
}

/// A repository whose project is a folder of it, with a person's own file beside.
fn in_a_folder() -> Repo {
    let repo = Repo::new();
    let top = repo.root().parent().unwrap().to_owned();
    std::fs::rename(repo.root().join(".git"), top.join(".git")).unwrap();
    repo.git(&["read-tree", "--empty"]);
    repo.git(&["add", "-A", "."]);
    repo.git(&["commit", "-qm", "a folder of its own"]);
    std::fs::write(top.join("mine.txt"), "mine\n").unwrap();
    repo
}

#[test]
fn a_work_tree_of_a_folder_is_worked_in_below_that_folder() {
    let repo = in_a_folder();
    let below = repo.root().file_name().unwrap().to_str().unwrap().to_owned();
    let id = id_of(&repo.run_with(&passing(), &["--worktree"]).exit(0));
    let branch = format!("windlass/{id}");
    let committed = repo.git(&["show", "--format=", "--name-only", &branch]);
    assert_eq!(committed, format!("{below}/built.txt"));
    repo.windlass(&["close", &id, "--merge"]).exit(0);
    assert!(repo.root().join("built.txt").exists());
    assert!(!repo.place.state().join("worktrees").join(&id).exists());
}
