//! Additional work trees.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use windlass_cell::{Excess, Limits, OnSignal, Program};
use windlass_workspace::{Git, GitCause, OnChanges, RefUpdate, Worktree, WorktreeStatus};

use crate::git::repository::{Repository, somebody};

const BRANCH: &str = "windlass/01890a5d";

#[test]
fn a_run_works_in_its_own_tree_and_its_commit_stays() {
    let repository = Repository::new();
    repository.failing_hooks();
    let (git, base) = (repository.ours(), repository.head());
    let path = repository.beside("trees/new\nline");
    assert_eq!(git.worktree_add(&path, BRANCH, &base).unwrap(), base);
    assert_eq!(git.worktree_add(&path, BRANCH, &base).unwrap(), base);
    let ours = Worktree {
        path: path.clone(),
        head: Some(base.clone()),
        branch: Some(BRANCH.to_owned()),
        ..Worktree::default()
    };
    assert_eq!(git.worktree_list().unwrap().last(), Some(&ours));

    fs::write(path.join("a"), "changed\n").unwrap();
    let inner = Git::new(&path);
    let tree = inner.tree_of_worktree().unwrap();
    let who = somebody();
    let commit = inner.commit_tree(&tree, std::slice::from_ref(&base), "x", &who, &who, 1).unwrap();
    let error = git.worktree_remove(&path, OnChanges::Refuse).unwrap_err();
    assert_eq!(error.cause, GitCause::Dirty(path.clone()));
    assert_eq!(inner.update_ref("HEAD", &commit, Some(&base)).unwrap(), RefUpdate::Updated);
    inner.reset_index(&commit).unwrap();
    assert_eq!(inner.status().unwrap(), WorktreeStatus::Clean);
    git.worktree_remove(&path, OnChanges::Refuse).unwrap();
    git.worktree_remove(&path, OnChanges::Refuse).unwrap();
    assert!(!path.exists());
    assert_eq!(repository.git(&["rev-parse", BRANCH]).trim(), commit.as_str());
    // The user's own work tree was not touched, and the branch keeps its commits.
    assert_eq!(repository.head(), base);
    assert_eq!(git.worktree_add(&path, BRANCH, &base).unwrap(), commit);
}

#[test]
fn changes_are_discarded_only_on_request() {
    let repository = Repository::new();
    let (git, path) = (repository.ours(), repository.beside("w"));
    git.worktree_add(&path, BRANCH, &repository.head()).unwrap();
    fs::write(path.join("new"), "").unwrap();
    git.worktree_remove(&path, OnChanges::Refuse).unwrap_err();
    assert!(path.join("new").exists());
    git.worktree_remove(&path, OnChanges::Discard).unwrap();
    assert!(!path.exists());
    assert_eq!(git.worktree_list().unwrap().len(), 1);
}

#[test]
fn other_folders_are_left_alone() {
    let repository = Repository::new();
    let (git, base) = (repository.ours(), repository.head());
    let taken = repository.beside("taken");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("precious"), "").unwrap();
    let cause = GitCause::Taken(taken.clone());
    assert_eq!(git.worktree_add(&taken, BRANCH, &base).unwrap_err().cause, cause);
    assert_eq!(git.worktree_remove(&taken, OnChanges::Discard).unwrap_err().cause, cause);
    assert!(taken.join("precious").exists());
    // The user's own.
    let own = repository.path();
    git.worktree_remove(&own, OnChanges::Discard).unwrap_err();
    git.worktree_add(&own, BRANCH, &base).unwrap_err();
    assert!(own.join("a").exists());
    // One that a person locked, or that is on another branch.
    let path = repository.beside("w");
    git.worktree_add(&path, BRANCH, &base).unwrap();
    let error = git.worktree_add(&path, "windlass/other", &base).unwrap_err();
    assert_eq!(error.cause, GitCause::Taken(path.clone()));
    repository.git(&["worktree", "lock", "--reason", "mine", path.to_str().unwrap()]);
    git.worktree_remove(&path, OnChanges::Discard).unwrap_err();
    assert!(path.join("a").exists());
    // One whose link to the repository was deleted.
    repository.git(&["worktree", "unlock", path.to_str().unwrap()]);
    fs::remove_file(path.join(".git")).unwrap();
    git.worktree_add(&path, BRANCH, &base).unwrap_err();
    assert!(path.join("a").exists());
}

#[test]
fn a_branch_that_is_about_something_else_is_refused() {
    let repository = Repository::new();
    let (git, first) = (repository.ours(), repository.head());
    repository.git(&["branch", BRANCH]);
    repository.file("a", "changed\n");
    repository.commit();
    let path = repository.beside("w");
    let error = git.worktree_add(&path, BRANCH, &repository.head()).unwrap_err();
    assert_eq!(error.cause, GitCause::Diverged(BRANCH.to_owned()));
    assert!(!path.exists());
    assert_eq!(git.worktree_add(&path, BRANCH, &first).unwrap(), first);
    for bad in ["", "-b", "a b", "a..b"] {
        git.worktree_add(&repository.beside("x"), bad, &first).unwrap_err();
    }
}

#[test]
fn a_branch_without_its_tree_is_finished() {
    let repository = Repository::new();
    // As a crash between the two leaves it.
    repository.git(&["branch", BRANCH]);
    let (git, path) = (repository.ours(), repository.beside("w"));
    git.worktree_add(&path, BRANCH, &repository.head()).unwrap();
    // And a tree whose folder is gone.
    fs::remove_dir_all(&path).unwrap();
    git.worktree_add(&path, BRANCH, &repository.head()).unwrap();
    assert!(path.join("a").exists());
    fs::remove_dir_all(&path).unwrap();
    git.worktree_remove(&path, OnChanges::Refuse).unwrap();
    assert_eq!(git.worktree_list().unwrap().len(), 1);
    // And one with nothing but its first file.
    fs::create_dir(&path).unwrap();
    fs::write(path.join(".git"), "gitdir: /nowhere\n").unwrap();
    git.worktree_add(&path, BRANCH, &repository.head()).unwrap();
    assert!(path.join("a").exists());
}

/// Kills a real `git worktree add` while it checks files out.
fn killed_while_adding(repository: &Repository, path: &Path) {
    repository.file("z", "last\n");
    repository.file(".gitattributes", "z filter=slow\n");
    repository.commit();
    let mark = repository.beside("started");
    let slow = format!("touch '{}'; sleep 1000", mark.display());
    repository.git(&["config", "filter.slow.smudge", &slow]);
    let mut add = Command::new("git")
        .args(["worktree", "add", "-q", "-b", BRANCH])
        .arg(path)
        .current_dir(repository.path())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let start = Instant::now();
    while !mark.exists() {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(5));
    }
    let group = format!("-{}", add.id());
    assert!(Command::new("kill").args(["-KILL", "--", &group]).status().unwrap().success());
    add.wait().unwrap();
    repository.git(&["config", "--unset", "filter.slow.smudge"]);
    assert!(path.exists() && !path.join("z").exists());
}

#[test]
fn a_tree_that_was_half_made_is_made_again() {
    let repository = Repository::new();
    let (git, path) = (repository.ours(), repository.beside("w"));
    killed_while_adding(&repository, &path);
    assert_eq!(git.worktree_add(&path, BRANCH, &repository.head()).unwrap(), repository.head());
    assert_eq!(fs::read(path.join("z")).unwrap(), b"last\n");
    assert_eq!(Git::new(&path).status().unwrap(), WorktreeStatus::Clean);
    assert_eq!(git.worktree_list().unwrap().len(), 2);
}

#[test]
fn a_tree_that_was_half_made_can_be_removed() {
    let repository = Repository::new();
    let (git, path) = (repository.ours(), repository.beside("w"));
    killed_while_adding(&repository, &path);
    git.worktree_remove(&path, OnChanges::Refuse).unwrap();
    assert!(!path.exists());
    assert_eq!(git.worktree_list().unwrap().len(), 1);
}

/// Leaves a part of a work tree as a killed git does, whose repository knows it or not.
fn part_of_tree(repository: &Repository, path: &Path, is_known: bool, link: Option<&str>) {
    repository.git(&["worktree", "add", "-q", "--detach", path.to_str().unwrap()]);
    let own = fs::read_to_string(path.join(".git")).unwrap();
    fs::remove_file(path.join("a")).unwrap();
    fs::remove_file(path.join(".git")).unwrap();
    fs::write(path.join("partly"), "written\n").unwrap();
    if let Some(link) = link {
        fs::write(path.join(".git"), link).unwrap();
    }
    if !is_known {
        let folder = own.trim_end().strip_prefix("gitdir: ").unwrap();
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn a_part_of_a_tree_of_ours_is_made_anew_or_removed() {
    let lock = tempfile::tempfile().unwrap();
    for (is_known, link) in [(true, None), (false, None), (false, Some("gitdir: /nowhere\n"))] {
        let repository = Repository::new();
        let (git, path) = (repository.ours(), repository.beside("w"));
        part_of_tree(&repository, &path, is_known, link);
        // It may be anybody's, so nothing but its own owner may take it away.
        let refused = git.worktree_add(&path, BRANCH, &repository.head()).unwrap_err();
        assert!(matches!(refused.cause, GitCause::Taken(_)), "{refused:?}");
        git.worktree_add_detached(&path, &repository.head(), &lock).unwrap();
        assert_eq!(Git::new(&path).status().unwrap(), WorktreeStatus::Clean);
        assert!(path.join("a").exists() && !path.join("partly").exists());
        git.worktree_remove_detached(&path, &lock).unwrap();
        part_of_tree(&repository, &path, is_known, link);
        git.worktree_remove_detached(&path, &lock).unwrap();
        assert!(!path.exists());
        assert_eq!(git.worktree_list().unwrap().len(), 1);
        git.worktree_remove_detached(&path, &lock).unwrap();
    }
    // A repository of its own is nobody's part.
    let repository = Repository::new();
    let (git, path) = (repository.ours(), repository.beside("w"));
    fs::create_dir_all(path.join(".git")).unwrap();
    git.worktree_add_detached(&path, &repository.head(), &lock).unwrap_err();
    git.worktree_remove_detached(&path, &lock).unwrap_err();
    assert!(path.join(".git").exists());
}

#[test]
fn a_program_holds_the_lock_until_it_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("worktrees.lock");
    let lock = fs::File::create(&place).unwrap();
    lock.lock().unwrap();
    // Its standard input is the locked file, so that the lock outlives whoever started it.
    let try_it = "flock -n \"$1\" true || echo held";
    let argv = ["sh", "-c", try_it, "sh", place.to_str().unwrap()].map(OsStr::new);
    let limits = Limits { timeout: Duration::from_secs(60), output_bytes_max: 1000 };
    let program = Program {
        argv: argv.to_vec(),
        stdin: None,
        env: Vec::new(),
        cwd: folder.path(),
        limits,
        confined: None,
        excess: Excess::End,
        on_signal: OnSignal::End,
    };
    let ended = windlass_cell::run_holding(&program, &lock).unwrap();
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "held\n");
    let shown =
        Program { argv: ["readlink", "/proc/self/fd/0"].map(OsStr::new).to_vec(), ..program };
    let ended = windlass_cell::run_holding(&shown, &lock).unwrap();
    assert_eq!(String::from_utf8_lossy(&ended.stdout).trim(), place.to_str().unwrap());
    let ended = windlass_cell::run(&shown).unwrap();
    assert_eq!(String::from_utf8_lossy(&ended.stdout).trim(), "/dev/null");
}
