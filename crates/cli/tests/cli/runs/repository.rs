//! What runs do to a repository: work trees, branches, names, and files of our own.

use std::collections::BTreeSet;

use serde_json::json;

use crate::harness::Outcome;
use crate::world::{
    Repo, UNTIL_GO, VOICE, answers, build, escalating, id_of, passing, review, sh, tree,
};

#[test]
fn a_work_tree_leaves_the_main_tree_alone() {
    let repo = Repo::new();
    let (head, files) = (repo.head(), repo.snapshot());
    let done = repo.run_with(&passing(), &["--worktree"]).exit(0);
    let (run, id) = (done.json(), id_of(&done));
    let mut after = repo.snapshot();
    after.retain(|name, _| {
        let recorded = [
            "state/worktrees",
            ".windlass/artifacts",
            ".windlass/checkpoints",
            "state/snapshots.git",
            "state/blobs",
            "state/cells",
        ];
        !recorded.iter().any(|folder| name.starts_with(folder))
    });
    after.retain(|name, _| !name.starts_with(".git/"));
    let before = files.into_iter().filter(|(name, _)| !name.starts_with(".git/")).collect();
    assert_eq!(after, before);
    assert_eq!((repo.head(), repo.status()), (head, String::new()));
    let branch = format!("windlass/{id}");
    assert_eq!(run["commit"], repo.git(&["rev-parse", &branch]));
    assert_eq!(repo.git(&["show", &format!("{branch}:built.txt")]), "built");
    // Whoever removes the work tree does not lose the commit.
    let folder = repo.place.state().join("worktrees").join(&id);
    std::fs::remove_dir_all(folder).unwrap();
    repo.git(&["worktree", "prune"]);
    assert_eq!(run["commit"], repo.git(&["rev-parse", &branch]));
    assert_eq!(
        repo.git(&[
            "branch",
            "--contains",
            run["commit"].as_str().unwrap(),
            "--format=%(refname:short)"
        ]),
        branch
    );
}

#[test]
fn a_hold_keeps_the_work_tree_and_goes_on_in_it() {
    let repo = Repo::new();
    let held = repo.run_with(&escalating(), &["--worktree"]).exit(4);
    let id = id_of(&held);
    let built = repo.place.state().join("worktrees").join(&id).join("built.txt");
    assert_eq!(std::fs::read_to_string(&built).unwrap(), "built\n");
    // Meanwhile the main tree is anybody's.
    repo.write("README.md", "changed meanwhile\n");
    assert_eq!(repo.approve(&id).exit(0).json()["outcome"], "PASS");
    assert_eq!(repo.git(&["show", &format!("windlass/{id}:built.txt")]), "built");
    assert_eq!(repo.read("README.md"), "changed meanwhile\n");
    assert!(!repo.root().join("built.txt").exists());
}

#[test]
fn a_work_tree_needs_a_clean_repository_too() {
    let repo = Repo::new();
    repo.write("README.md", "changed\n");
    let refused = repo.run_with(&passing(), &["--worktree"]).exit(3);
    assert_eq!(refused.error()["code"], "REPO_DIRTY");
    assert_eq!(repo.git(&["branch", "--list", "windlass/*"]), "");
}

#[test]
fn without_a_repository_a_run_says_what_is_missing() {
    let place = crate::harness::Place::with_project();
    place.run(&["run", "one"]).fails_with(1, "REPO_MISSING");
    assert_eq!(place.ids(), Vec::<String>::new());
}

#[test]
fn without_a_commit_a_run_says_what_is_missing() {
    let repo = Repo::new();
    std::fs::remove_dir_all(repo.root().join(".git")).unwrap();
    repo.git(&["init", "--quiet"]);
    repo.windlass(&["run", "one"]).fails_with(1, "REPO_MISSING");
    assert_eq!(repo.traces(), 0);
}

#[test]
fn our_own_files_never_make_the_repository_dirty() {
    let repo = Repo::new();
    let held = id_of(&repo.run_with(&escalating(), &["--worktree"]).exit(4));
    repo.run(&passing()).exit(0);
    repo.windlass(&["stop", &held]).exit(0);
    repo.windlass(&["stop", &held, "--clear"]).exit(0);
    repo.approve(&held).exit(0);
    assert_eq!(repo.status(), "");
    repo.run(&passing()).exit(0);
    assert_eq!(repo.status(), "");
}

#[test]
fn packets_elsewhere_in_the_repository_are_ignored_there() {
    let repo = Repo::new();
    let config = ".windlass/config.toml";
    repo.place.replace(
        config,
        "artifacts_root = \".windlass/artifacts\"",
        "artifacts_root = \"artifacts\"",
    );
    repo.commit("packets elsewhere");
    let id = id_of(&repo.run(&passing()).exit(0));
    assert!(repo.root().join(format!("artifacts/terminal/TP_{id}.yaml")).exists());
    // They are neither committed by the run that they show, nor do they keep the next from starting.
    assert_eq!(
        (repo.git(&["ls-files", "artifacts"]), repo.status()),
        (String::new(), String::new())
    );
    repo.run(&passing()).exit(0);
    assert_eq!(repo.status(), "");
}

#[test]
fn packets_outside_of_the_repository_are_nobodys_business() {
    let repo = Repo::new();
    let config = ".windlass/config.toml";
    repo.place.replace(
        config,
        "artifacts_root = \".windlass/artifacts\"",
        "artifacts_root = \"../shown\"",
    );
    repo.commit("packets outside");
    let id = id_of(&repo.run(&escalating()).exit(4));
    repo.approve(&id).exit(0);
    assert_eq!(repo.status(), "");
    let shown = tree(&repo.place.base().join("shown"));
    assert!(shown.contains_key(&format!("terminal/TP_{id}.yaml")), "{:?}", shown.keys());
}

#[test]
fn runs_side_by_side_have_names_and_branches_of_their_own() {
    let repo = Repo::with_loop("quick", QUICK);
    const COUNT: usize = 50;
    let line = ["run", "one", "--loop", "quick", "--worktree", "--json"];
    let started: Vec<_> = (0..COUNT).map(|_| repo.place.command(&line).spawn().unwrap()).collect();
    let ended: Vec<_> = started
        .into_iter()
        .map(|child| {
            Outcome::of("windlass run".to_owned(), child.wait_with_output().unwrap()).exit(0)
        })
        .collect();
    let names: BTreeSet<String> = ended.iter().map(id_of).collect();
    assert_eq!(names.len(), COUNT);
    let branches =
        repo.git(&["for-each-ref", "--format=%(refname:lstrip=3)", "refs/heads/windlass"]);
    assert_eq!(branches.lines().map(str::to_owned).collect::<BTreeSet<_>>(), names);
    assert_eq!(repo.traces(), COUNT);
    repo.is_whole();
}

const QUICK: &str = "---
id: quick
title: Nothing much
type: workflow
category: test
version: \"1\"
on_restart: resume
phases: [{ id: a, doer: { builtin: hydrate } }]
---
";

#[test]
fn one_workspace_is_one_runs_at_a_time() {
    let repo = Repo::new();
    let slow = build(&[sh(UNTIL_GO)]);
    let path = repo.answers(&answers(&[slow], &[review("approved")]));
    let child = repo.place.command(&["run", "one", "--answers", &path]).spawn().unwrap();
    repo.until_begun();
    let second = repo.windlass(&["run", "two", "--answers", &path]);
    let (one, live) = (child, repo.windlass(&["status"]).exit(0));
    repo.go();
    second.fails_with(1, "RUN_CONCURRENT");
    assert!(live.text().contains("running"), "{live}");
    assert_eq!(one.wait_with_output().unwrap().status.code(), Some(0));
    assert_eq!(repo.traces(), 2, "a run and its call");
}

#[test]
fn nothing_changed_is_nothing_committed() {
    let repo = Repo::new();
    let before = repo.head();
    let run = repo.run(&answers(&[build(&[])], &[review("approved")])).exit(0).json();
    assert_eq!((&run["outcome"], &run["commit"]), (&json!("PASS"), &json!(null)));
    assert_eq!(repo.head(), before);
}

#[test]
fn a_project_in_a_folder_of_the_repository_works_there() {
    let repo = Repo::new();
    let parts = repo.root().join("part");
    std::fs::create_dir(&parts).unwrap();
    std::fs::write(parts.join("a.txt"), "a\n").unwrap();
    repo.windlass(&["-C", "part", "init"]).exit(0);
    repo.commit("a project inside");
    let done = repo.run_with(&passing(), &["-C", "part"]).exit(0).json();
    assert_eq!(done["outcome"], "PASS");
    assert_eq!((repo.read("part/built.txt").as_str(), repo.status()), ("built\n", String::new()));
    let id = id_of(&repo.run_with(&escalating(), &["-C", "part"]).exit(4));
    repo.windlass(&[&["-C", "part", "queue", "approve", &id, "--resume"][..], &VOICE].concat())
        .exit(0);
    assert_eq!(repo.status(), "");
}

#[test]
fn without_a_git_user_a_run_is_committed_all_the_same() {
    let repo = Repo::new();
    for name in ["user.name", "user.email"] {
        repo.git(&["config", "--unset", name]);
    }
    repo.run(&answers(&[build(&[sh("echo built > built.txt")])], &[review("approved")])).exit(0);
    assert_eq!(repo.git(&["log", "-1", "--format=%an <%ae>"]), "Windlass <>");
}
