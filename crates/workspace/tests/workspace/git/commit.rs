//! Commits and refs.

use std::fs;

use windlass_workspace::{CommitId, GitCause, RefUpdate, Signature};

use crate::git::repository::{Repository, hostile_names, somebody};

fn make(repository: &Repository, message: &str) -> CommitId {
    let git = repository.ours();
    let tree = git.tree_of_worktree().unwrap();
    let parents: Vec<_> = git.head().unwrap().into_iter().collect();
    git.commit_tree(&tree, &parents, message, &somebody(), &somebody(), 1_700_000_000).unwrap()
}

#[test]
fn a_commit_of_the_work_tree_leaves_everything_clean() {
    let repository = Repository::new();
    repository.failing_hooks();
    repository.git(&["config", "commit.gpgSign", "true"]);
    repository.git(&["config", "gpg.program", "/bin/false"]);
    repository.file("staged", "1\n");
    repository.git(&["add", "staged"]);
    repository.file("staged", "2\n");
    for name in hostile_names() {
        repository.file(name, "x");
    }
    let before = repository.head();
    let commit = make(&repository, "our words\n");
    let git = repository.ours();
    assert_eq!(git.update_ref("HEAD", &commit, Some(&before)).unwrap(), RefUpdate::Updated);
    git.reset_index(&commit).unwrap();
    repository.assert_clean();
    assert_eq!(repository.head(), commit);
    assert_eq!(git.branch().unwrap().as_deref(), Some("main"));
    assert_eq!(fs::read(repository.path().join("staged")).unwrap(), b"2\n");
    let shown = repository.git(&["log", "-1", "--format=%an|%ae|%cn|%at|%ct|%B|%P"]);
    let expected = "Some Body|some@body.example|Some Body|1700000000|1700000000|our words\n|";
    assert_eq!(shown.trim_end(), format!("{expected}{before}"));
    // Only `git` of the test itself may have run hooks, and none of these.
    let marks = fs::read_dir(repository.path()).unwrap();
    let marks: Vec<_> = marks
        .map(|entry| entry.unwrap().file_name().into_string().unwrap_or_default())
        .filter(|name| name.ends_with(".ran") && !name.starts_with("post-index-change"))
        .collect();
    assert!(marks.is_empty(), "{marks:?}");
}

#[test]
fn the_first_commit_can_be_ours() {
    let repository = Repository::unborn();
    repository.file("a", "1\n");
    let commit = make(&repository, "first");
    let git = repository.ours();
    assert_eq!(git.update_ref("HEAD", &commit, None).unwrap(), RefUpdate::Updated);
    assert_eq!(git.update_ref("HEAD", &commit, None).unwrap(), RefUpdate::AlreadyThere);
    git.reset_index(&commit).unwrap();
    repository.assert_clean();
}

#[test]
fn the_same_commit_twice_is_one() {
    let repository = Repository::new();
    repository.file("a", "changed\n");
    let one = make(&repository, "message");
    repository.git(&["config", "i18n.commitEncoding", "latin1"]);
    repository.git(&["config", "user.name", "Other"]);
    assert_eq!(make(&repository, "message"), one);
    assert_ne!(make(&repository, "other"), one);
    assert_eq!(repository.git(&["cat-file", "-t", one.as_str()]), "commit\n");
}

#[test]
fn a_ref_moves_only_from_where_it_is_expected() {
    let repository = Repository::new();
    let (git, first) = (repository.ours(), repository.head());
    repository.file("a", "changed\n");
    let second = make(&repository, "second");
    let name = "refs/heads/windlass/one";
    let moved = |actual: Option<&CommitId>| RefUpdate::Moved { actual: actual.cloned() };
    assert_eq!(git.update_ref(name, &first, Some(&second)).unwrap(), moved(None));
    assert_eq!(git.update_ref(name, &first, None).unwrap(), RefUpdate::Updated);
    assert_eq!(git.update_ref(name, &first, None).unwrap(), RefUpdate::AlreadyThere);
    assert_eq!(git.update_ref(name, &second, None).unwrap(), moved(Some(&first)));
    assert_eq!(git.update_ref(name, &second, Some(&first)).unwrap(), RefUpdate::Updated);
    assert_eq!(git.update_ref(name, &first, Some(&first)).unwrap(), moved(Some(&second)));
    assert_eq!(repository.git(&["rev-parse", name]).trim(), second.as_str());
    for bad in ["main", "-d", "", "refs/heads/a b", "refs/heads/x.lock", "refs/../x"] {
        git.update_ref(bad, &first, None).unwrap_err();
    }
}

#[test]
fn a_ref_that_is_locked_is_no_success() {
    let repository = Repository::new();
    let (git, first) = (repository.ours(), repository.head());
    repository.file("a", "changed\n");
    let second = make(&repository, "second");
    repository.file(".git/refs/heads/main.lock", "");
    let error = git.update_ref("refs/heads/main", &second, Some(&first)).unwrap_err();
    assert!(matches!(error.cause, GitCause::Locked(_)), "{error}");
    assert_eq!(repository.head(), first);
}

#[test]
fn an_index_that_is_held_is_said_and_can_be_done_later() {
    let repository = Repository::new();
    repository.file("a", "changed\n");
    let (git, first, second) = (repository.ours(), repository.head(), make(&repository, "x"));
    git.update_ref("HEAD", &second, Some(&first)).unwrap();
    repository.file(".git/index.lock", "");
    let error = git.reset_index(&second).unwrap_err();
    assert!(matches!(error.cause, GitCause::Locked(_)), "{error}");
    fs::remove_file(repository.path().join(".git/index.lock")).unwrap();
    git.reset_index(&second).unwrap();
    repository.assert_clean();
}

#[test]
fn names_that_git_would_change_are_refused() {
    let repository = Repository::new();
    let (git, tree) = (repository.ours(), repository.ours().tree_of_worktree().unwrap());
    for name in ["", "a\nb", "a <b>", " a", "a\0"] {
        let bad = Signature { name: name.to_owned(), ..somebody() };
        git.commit_tree(&tree, &[], "x", &bad, &somebody(), 0).unwrap_err();
        git.commit_tree(&tree, &[], "x", &somebody(), &bad, 0).unwrap_err();
    }
    git.commit_tree(&tree, &[], "x\0y", &somebody(), &somebody(), 0).unwrap_err();
}

#[test]
fn whatever_a_command_left_in_the_index_the_commit_becomes_the_present_one() {
    for commands in [
        &[&["update-index", "--skip-worktree", "a"][..]][..],
        &[&["update-index", "--assume-unchanged", "a"]],
        &[&["update-index", "--skip-worktree", "a"], &["update-index", "--assume-unchanged", "b"]],
        &[&["update-index", "--split-index"], &["update-index", "--skip-worktree", "a", "b"]],
        &[&["add", "--intent-to-add", "new"]],
        &[&["update-index", "--index-version", "4"], &["update-index", "--untracked-cache"]],
        &[&["update-index", "--fsmonitor"], &["update-index", "--fsmonitor-valid", "a"]],
        &[&["rm", "-q", "--cached", "a"]],
        &[&[
            "update-index",
            "--add",
            "--cacheinfo",
            "100644,0123456789012345678901234567890123456789,x",
        ]],
    ] {
        let repository = Repository::new();
        repository.file("b", "b\n");
        repository.commit();
        repository.file("a", "changed\n");
        repository.file("new", "new\n");
        for command in commands {
            repository.git(command);
        }
        fs::remove_file(repository.path().join("b")).unwrap();
        let (git, first, second) = (repository.ours(), repository.head(), make(&repository, "x"));
        git.update_ref("HEAD", &second, Some(&first)).unwrap();
        git.reset_index(&second).unwrap();
        repository.assert_clean();
        // `H` is an entry without flags.
        assert_eq!(repository.git(&["ls-files", "-v"]), "H a\nH new\n", "{commands:?}");
        assert_eq!(repository.git(&["diff", "--cached", "--name-only"]), "", "{commands:?}");
    }
}

#[test]
fn a_lock_that_we_left_in_a_crash_is_taken_up() {
    let repository = Repository::new();
    let head = repository.head();
    let at = |name: &str| repository.path().join(".git").join(name);
    fs::write(at("tmp_windlass_x"), "the index of a process that died").unwrap();
    fs::hard_link(at("tmp_windlass_x"), at("index.lock")).unwrap();
    repository.ours().reset_index(&head).unwrap();
    repository.assert_clean();
    assert!(!at("index.lock").exists() && !at("tmp_windlass_x").exists());
    // Another file of the same content is somebody else's.
    fs::write(at("tmp_windlass_x"), "").unwrap();
    fs::write(at("index.lock"), "").unwrap();
    let error = repository.ours().reset_index(&head).unwrap_err();
    assert!(matches!(error.cause, GitCause::Locked(_)), "{error}");
}
