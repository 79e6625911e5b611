//! Fetching, putting commits on top of those of others, and pushing, with a real bare repository.

use std::fs;
use std::path::{Path, PathBuf};

use windlass_workspace::{CommitId, Git, Pushed, Rebased, RefUpdate, Upstream};

use crate::git::repository::{Repository, somebody};

fn origin() -> Upstream {
    Upstream { remote: "origin".to_owned(), branch: "main".to_owned() }
}

/// A repository with a bare one that it pushes to.
fn with_remote() -> (Repository, PathBuf) {
    let repository = Repository::new();
    let bare = repository.beside("bare.git");
    repository.git(&["init", "-q", "--bare", "-b", "main", bare.to_str().unwrap()]);
    repository.git(&["remote", "add", "origin", bare.to_str().unwrap()]);
    repository.git(&["push", "-q", "origin", "main"]);
    (repository, bare)
}

/// Commits a file in the way that Windlass does.
fn commit(git: &Git, repository: &Repository, name: &str, text: &str) {
    repository.file(name, text);
    let head = git.head().unwrap().unwrap();
    let tree = git.tree_of_worktree().unwrap();
    let parents = std::slice::from_ref(&head);
    let commit =
        git.commit_tree(&tree, parents, "a change\n", &somebody(), &somebody(), 1_700_000_000);
    let commit = commit.unwrap();
    assert_eq!(git.update_ref("HEAD", &commit, Some(&head)).unwrap(), RefUpdate::Updated);
    git.reset_index(&commit).unwrap();
}

/// Puts the commits of the branch on top of another one, and moves the branch there.
fn rebase(git: &Git, onto: &CommitId) -> Rebased {
    let head = git.head().unwrap().unwrap();
    let rebased = git.rebased_onto(onto).unwrap();
    assert_eq!(git.head().unwrap().as_ref(), Some(&head), "nothing moves before");
    if let Rebased::Done(tip) = &rebased {
        git.check_move_to(&head, tip).unwrap();
        git.move_branch_to(&head, tip).unwrap();
    }
    rebased
}

/// Somebody else pushes a file.
fn push_as_other(repository: &Repository, bare: &Path, name: &str, text: &str) {
    let other = repository.beside("other");
    drop(fs::remove_dir_all(&other));
    repository.git(&["clone", "-q", bare.to_str().unwrap(), other.to_str().unwrap()]);
    fs::write(other.join(name), text).unwrap();
    let folder = other.to_str().unwrap();
    repository.git(&["-C", folder, "add", "-A"]);
    repository.git(&["-C", folder, "commit", "-q", "-m", "theirs"]);
    repository.git(&["-C", folder, "push", "-q"]);
}

#[test]
fn commits_go_on_top_of_those_of_others_and_are_pushed() {
    let (repository, bare) = with_remote();
    let git = repository.ours();
    assert_eq!(git.upstream().unwrap(), Some(origin()));
    commit(&git, &repository, "mine", "1\n");
    commit(&git, &repository, "mine", "2\n");
    push_as_other(&repository, &bare, "theirs", "x\n");
    // Without their commits it is refused, and nothing of theirs is lost.
    let before = git.remote_tip(&origin()).unwrap().unwrap();
    assert!(matches!(
        git.push(&origin(), &git.head().unwrap().unwrap()).unwrap(),
        Pushed::Refused(_)
    ));
    assert_eq!(git.remote_tip(&origin()).unwrap(), Some(before.clone()));
    git.fetch(&origin()).unwrap();
    let Rebased::Done(tip) = rebase(&git, &before) else { panic!("not rebased") };
    assert_eq!(git.head().unwrap(), Some(tip.clone()));
    repository.assert_clean();
    assert_eq!(fs::read(repository.path().join("mine")).unwrap(), b"2\n");
    assert_eq!(fs::read(repository.path().join("theirs")).unwrap(), b"x\n");
    let log = repository.git(&["log", "--format=%s", "-n", "3"]);
    assert_eq!(log.lines().collect::<Vec<_>>(), ["a change", "a change", "theirs"]);
    assert_eq!(git.push(&origin(), &tip).unwrap(), Pushed::Done);
    assert_eq!(git.remote_tip(&origin()).unwrap(), Some(tip.clone()));
    assert_eq!(rebase(&git, &before), Rebased::Already);
}

#[test]
fn commits_whose_changes_are_there_are_not_made_again() {
    let (repository, bare) = with_remote();
    let git = repository.ours();
    commit(&git, &repository, "same", "1\n");
    push_as_other(&repository, &bare, "same", "1\n");
    let tip = git.remote_tip(&origin()).unwrap().unwrap();
    git.fetch(&origin()).unwrap();
    assert_eq!(rebase(&git, &tip), Rebased::Done(tip.clone()));
    assert_eq!(git.head().unwrap(), Some(tip));
    repository.assert_clean();
}

#[test]
fn a_conflict_changes_nothing() {
    let (repository, bare) = with_remote();
    let git = repository.ours();
    commit(&git, &repository, "same", "mine\n");
    push_as_other(&repository, &bare, "same", "theirs\n");
    let head = git.head().unwrap();
    git.fetch(&origin()).unwrap();
    let tip = git.remote_tip(&origin()).unwrap().unwrap();
    assert_eq!(rebase(&git, &tip), Rebased::Conflict(vec!["same".into()]));
    assert_eq!(git.head().unwrap(), head);
    repository.assert_clean();
    assert_eq!(fs::read(repository.path().join("same")).unwrap(), b"mine\n");
}

#[test]
fn programs_that_the_repository_names_do_not_run() {
    let (repository, _) = with_remote();
    let git = repository.ours();
    let mark = repository.beside("mark");
    let trap = format!("touch {}", mark.display());
    repository.failing_hooks();
    for (name, value) in [
        ("core.sshCommand", trap.as_str()),
        ("credential.helper", &format!("!{trap}")),
        ("remote.origin.uploadpack", &format!("{trap}; git-upload-pack")),
        ("remote.origin.receivepack", &format!("{trap}; git-receive-pack")),
        ("remote.ext.url", &format!("ext::sh -c {trap}")),
    ] {
        repository.git(&["config", name, value]);
    }
    commit(&git, &repository, "mine", "1\n");
    let head = git.head().unwrap().unwrap();
    drop(git.push(&origin(), &head));
    let ssh = Upstream { remote: "ssh://localhost:1/x".to_owned(), ..origin() };
    git.remote_tip(&ssh).unwrap_err();
    let ext = Upstream { remote: "ext".to_owned(), ..origin() };
    git.fetch(&ext).unwrap_err();
    assert!(!mark.exists(), "a program of the repository ran");
}

#[test]
fn a_remote_in_the_work_tree_runs_no_hooks() {
    let (repository, _) = with_remote();
    let git = repository.ours();
    let mark = repository.beside("mark");
    let inner = repository.path().join("inner.git");
    repository.git(&["init", "-q", "--bare", inner.to_str().unwrap()]);
    let hook = inner.join("hooks/pre-receive");
    fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", mark.display())).unwrap();
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(&inner, repository.beside("link")).unwrap();
    let head = git.head().unwrap().unwrap();
    let link = repository.beside("link");
    for url in ["inner.git", "./inner.git", inner.to_str().unwrap(), link.to_str().unwrap()] {
        for url in [url.to_owned(), format!("file://{url}")] {
            repository.git(&["config", "remote.origin.url", &url]);
            let error = git.push(&origin(), &head).unwrap_err();
            assert!(error.to_string().contains("lies in the work tree"), "{url}: {error}");
            git.fetch(&origin()).unwrap_err();
            git.remote_tip(&origin()).unwrap_err();
        }
    }
    let direct = Upstream { remote: "inner.git".to_owned(), ..origin() };
    git.push(&direct, &head).unwrap_err();
    assert!(!mark.exists());
}
