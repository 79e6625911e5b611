//! The close of a driven run: conflicts, races and what was there before.

use std::path::Path;

use super::{answers, pushed, run, with_remote};
use crate::harness::text_of;
use crate::world::Repo;

/// Somebody else pushes a file.
fn push_as_other(repo: &Repo, bare: &Path, name: &str) {
    let other = repo.place.base().join("other");
    repo.git(&["clone", "--quiet", bare.to_str().unwrap(), other.to_str().unwrap()]);
    std::fs::write(other.join(name), "theirs\n").unwrap();
    let folder = other.to_str().unwrap();
    repo.git(&["-C", folder, "add", name]);
    let who = ["-c", "user.name=b", "-c", "user.email=b@x.example"];
    repo.git(&[&["-C", folder][..], &who, &["commit", "-qm", "theirs"]].concat());
    repo.git(&["-C", folder, "push", "--quiet"]);
}

/// The commit that the bare repository's branch is at.
fn remote_tip(repo: &Repo, bare: &Path) -> String {
    repo.git(&["--git-dir", bare.to_str().unwrap(), "rev-parse", "main"])
}

#[test]
fn a_conflict_with_others_waits_until_the_remote_has_the_commit() {
    let (repo, bare) = with_remote();
    push_as_other(&repo, &bare, "notes.txt");
    let held = run(&repo, &answers(&repo)).exit(4);
    assert!(held.to_string().contains("notes.txt"), "{held}");
    assert_eq!(pushed(&bare, "notes.txt"), "theirs\n");
    let id = text_of(&held.json(), "run_id");
    // Whoever approves what is not resolved is asked again.
    let held = repo.approve(&id).exit(4);
    assert!(held.to_string().contains("notes.txt"), "{held}");
    repo.git(&["pull", "--quiet", "--rebase", "-X", "theirs"]);
    let ended = repo.approve(&id).exit(0).json();
    assert_eq!(ended["outcome"], "PASS", "{ended}");
    assert_eq!(pushed(&bare, "notes.txt"), "noted\n");
    assert_eq!(repo.git(&["rev-parse", "HEAD"]), remote_tip(&repo, &bare));
    repo.windlass(&["verify"]).exit(0);
}

/// Lets somebody else be faster than the next pushes, as often as told.
fn race(bare: &Path, times: usize) {
    let hook = bare.join("hooks/update");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let text = format!(
        "#!/bin/sh\nread done < raced || done=0\n[ \"${{done:=0}}\" -lt {times} ] || exit 0\n\
         done=$((done + 1))\necho $done > raced\nexport GIT_INDEX_FILE=$PWD/theirs.index\n\
         git read-tree refs/heads/main\nblob=$(echo theirs | git hash-object -w --stdin)\n\
         git update-index --add --cacheinfo 100644,$blob,theirs-$done.txt\n\
         new=$(git -c user.name=b -c user.email=b@x.example commit-tree $(git write-tree) -p refs/heads/main -m theirs)\n\
         git update-ref refs/heads/main $new\nexit 1\n"
    );
    std::fs::write(&hook, text).unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn a_push_that_loses_a_race_is_tried_again_on_top_of_theirs() {
    let (repo, bare) = with_remote();
    race(&bare, 2);
    let ended = run(&repo, &answers(&repo)).exit(0).json();
    assert_eq!(ended["outcome"], "PASS", "{ended}");
    for (name, text) in
        [("notes.txt", "noted\n"), ("theirs-1.txt", "theirs\n"), ("theirs-2.txt", "theirs\n")]
    {
        assert_eq!(pushed(&bare, name), text, "{name}");
    }
    assert_eq!(repo.git(&["rev-parse", "HEAD"]), remote_tip(&repo, &bare));
    assert_eq!(repo.git(&["show", "--format=", "--name-only", "HEAD"]), "notes.txt");
    assert_eq!(repo.status(), "");
}

#[test]
fn a_push_that_loses_every_race_leaves_nothing_of_others_to_undo() {
    let (repo, bare) = with_remote();
    race(&bare, 3);
    let held = run(&repo, &answers(&repo)).exit(4);
    let id = text_of(&held.json(), "run_id");
    assert_eq!(pushed(&bare, "notes.txt"), "");
    assert!(!repo.root().join("theirs-1.txt").exists());
    // The files of the run are put back, and those of others stay where they are.
    repo.windlass(&["queue", "reject", &id, "--by", "bea", "--reason", "no"]).exit(0);
    repo.windlass(&["close", &id, "--restore"]).exit(0);
    assert!(!repo.root().join("notes.txt").exists());
    for name in ["theirs-1.txt", "theirs-2.txt", "theirs-3.txt"] {
        assert_eq!(pushed(&bare, name), "theirs\n");
    }
    // Whoever approves lets it be tried again.
    let (repo, bare) = with_remote();
    race(&bare, 3);
    let held = run(&repo, &answers(&repo)).exit(4);
    let id = text_of(&held.json(), "run_id");
    let ended = repo.approve(&id).exit(0).json();
    assert_eq!(ended["outcome"], "PASS", "{ended}");
    assert_eq!(pushed(&bare, "notes.txt"), "noted\n");
    assert_eq!(pushed(&bare, "theirs-3.txt"), "theirs\n");
}

#[test]
fn what_was_not_committed_before_the_run_is_not_pushed() {
    let (repo, bare) = with_remote();
    repo.write("mine.txt", "password\n");
    repo.write("local.txt", "shared\n");
    repo.git(&["add", "local.txt"]);
    repo.git(&["commit", "-qm", "local"]);
    repo.git(&["push", "-q"]);
    repo.git(&["update-index", "--skip-worktree", "local.txt"]);
    repo.write("local.txt", "password\n");
    let ended = run(&repo, &answers(&repo)).exit(0).json();
    assert_eq!(ended["outcome"], "PASS", "{ended}");
    assert_eq!(repo.git(&["show", "--format=", "--name-only", "HEAD"]), "notes.txt");
    assert_eq!(pushed(&bare, "mine.txt"), "");
    assert_eq!(pushed(&bare, "local.txt"), "shared\n");
    assert_eq!(repo.status(), "?? mine.txt");
    assert_eq!(repo.read("local.txt"), "password\n");
}
