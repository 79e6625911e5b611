//! What users and other runs do in the repository while a run is at work.

use crate::world::{Repo, UNTIL_GO, id_of, passing};

/// A loop that runs a script of the project.
const SCRIPT: &str = r#"---
id: script
title: A script
type: loop
category: test
version: "1"
on_restart: resume
require: [repo]
phases:
  - { id: work, doer: { command: [sh, line.sh] } }
---
"#;

/// Runs lines in the project's own folder, with what somebody does outside between two of them; the run passes.
#[track_caller]
fn meanwhile(repo: &Repo, before: &str, outside: &dyn Fn(&Repo), after: &str) {
    let lines = ["set -e", before, UNTIL_GO, "rm go.txt begun.txt", after];
    let says = r#"echo '{"summary":"done"}'"#;
    repo.write("line.sh", format!("{}\n{says}\n", lines.join("\n")));
    repo.commit("the script");
    let child = repo.place.command(&["run", "one", "--loop", "script"]).spawn().unwrap();
    repo.until_begun();
    outside(repo);
    repo.go();
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{lines:?}");
    repo.is_whole();
}

fn stash(repo: &Repo, text: &str) {
    repo.write("line.sh", text);
    repo.git(&["stash", "push", "-q", "-m", text]);
}

#[test]
fn mend_21_what_the_user_does_to_refs_and_stashes_is_not_undone() {
    let repo = Repo::with_loop("script", SCRIPT);
    repo.git(&["branch", "kept"]);
    repo.git(&["branch", "moved"]);
    let kept = repo.head();
    let tidy = "git gc -q && git reflog expire --expire=all --all";
    meanwhile(
        &repo,
        "git pack-refs --all",
        &|repo| {
            repo.git(&["branch", "-D", "kept"]);
            repo.git(&["branch", "new"]);
            stash(repo, "precious");
        },
        tidy,
    );
    repo.git(&["branch", "kept", &kept]);
    meanwhile(
        &repo,
        tidy,
        &|repo| {
            repo.git(&["branch", "-f", "moved", "HEAD"]);
            stash(repo, "more precious");
            repo.git(&["pack-refs", "--all"]);
        },
        "echo built > built.txt && git pack-refs --all",
    );
    let names = repo.git(&["branch", "--format=%(refname:short)"]);
    assert_eq!(names, "kept\nmain\nmoved\nnew");
    assert_eq!(repo.git(&["rev-parse", "moved"]), repo.head());
    let stashes = repo.git(&["stash", "list", "--format=%gs"]);
    assert_eq!(stashes, "On main: more precious\nOn main: precious");
}

#[test]
fn mend_21_asking_for_the_status_does_not_end_a_run() {
    let repo = Repo::with_loop("script", SCRIPT);
    let outside = |repo: &Repo| {
        let file = std::fs::File::options().write(true).open(repo.root().join("README.md"));
        file.unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        repo.git(&["status"]);
    };
    meanwhile(&repo, "echo new > new.txt && git add new.txt", &outside, "true");
    assert_eq!(repo.read("new.txt"), "new\n");
}

#[test]
fn mend_21_a_merge_waits_for_the_run_that_works_in_the_project() {
    let repo = Repo::with_loop("script", SCRIPT);
    let id = id_of(&repo.run_with(&passing(), &["--worktree"]).exit(0));
    let merge = ["close", &id, "--merge"];
    meanwhile(
        &repo,
        "echo other > other.txt",
        &|repo| {
            let head = repo.head();
            repo.windlass(&merge).fails_with(1, "RUN_CONCURRENT");
            assert_eq!(repo.head(), head);
        },
        "true",
    );
    repo.windlass(&merge).exit(0);
    assert_eq!(
        (repo.read("built.txt"), repo.read("other.txt")),
        ("built\n".into(), "other\n".into())
    );
}

#[test]
fn mend_21_work_that_commits_a_part_is_merged_only_if_the_rest_is_given_up() {
    let repo = Repo::with_loop("script", SCRIPT);
    let lines = "echo a > a.txt; git add a.txt; git commit -qm a; echo b > b.txt";
    repo.write("line.sh", format!("set -e\n{lines}\necho '{{\"summary\":\"done\"}}'\n"));
    repo.commit("the script");
    let run = repo.windlass(&["run", "one", "--loop", "script", "--worktree", "--json"]).exit(0);
    let id = id_of(&run);
    let head = repo.head();
    repo.windlass(&["close", &id, "--merge"]).fails_with(3, "CHANGE_UNREVIEWED").warns("--discard");
    assert_eq!(repo.head(), head);
    repo.windlass(&["close", &id, "--merge", "--discard"]).exit(0);
    assert_eq!(repo.read("a.txt"), "a\n");
    assert!(!repo.root().join("b.txt").exists());
    repo.is_whole();
}
