//! Merging branches, and bringing a work tree up to date.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use windlass_workspace::{CommitId, CommitMerge, Git, GitCause};

use crate::git::repository::{Repository, git_in};

/// Commits everything on a new branch that starts here, and goes back.
fn on_branch(repository: &Repository, change: impl FnOnce(&Path)) -> CommitId {
    repository.git(&["checkout", "-q", "-b", "work"]);
    change(&repository.path());
    repository.commit();
    let tip = repository.head();
    repository.git(&["checkout", "-q", "main"]);
    tip
}

#[test]
fn what_is_tracked_gives_way_and_nothing_else_does() {
    for (kind, ignored) in [("folder", false), ("folder", true), ("link", false)] {
        let repository = Repository::new();
        repository.file(".gitignore", "*.log\n");
        match kind {
            "folder" => repository.file("d/x", "x\n"),
            _ => symlink("a", repository.path().join("d")).unwrap(),
        }
        repository.commit();
        let before = repository.head();
        let tip = on_branch(&repository, |top| {
            if kind == "folder" {
                fs::remove_dir_all(top.join("d")).unwrap();
                fs::write(top.join("d"), "a file\n").unwrap();
            } else {
                fs::remove_file(top.join("d")).unwrap();
                fs::create_dir(top.join("d")).unwrap();
                fs::write(top.join("d/x"), "in a folder\n").unwrap();
            }
        });
        let git = repository.ours();
        if ignored {
            repository.file("d/mine.log", "mine\n");
            let error = git.check_advance(&repository.path(), &before, &tip).unwrap_err();
            assert_eq!(error.cause, GitCause::Taken("d".into()), "{kind}");
            assert_eq!(fs::read(repository.path().join("d/mine.log")).unwrap(), b"mine\n");
            continue;
        }
        git.check_advance(&repository.path(), &before, &tip).unwrap();
        git.advance(&repository.path(), &before, &tip).unwrap();
        repository.git(&["update-ref", "refs/heads/main", tip.as_str()]);
        repository.assert_clean();
    }
}

#[test]
fn branches_of_a_shallow_clone_are_merged() {
    let origin = Repository::new();
    origin.file("b", "1\n");
    origin.commit();
    let clone = origin.beside("clone");
    let from = format!("file://{}", origin.path().display());
    origin.git(&["clone", "-q", "--depth", "1", &from, clone.to_str().unwrap()]);
    let commit = |name: &str| {
        fs::write(clone.join(name), "new\n").unwrap();
        git_in(&clone, &["add", "-A"]);
        git_in(&clone, &["commit", "-q", "-m", name]);
        Git::new(&clone).head().unwrap().unwrap()
    };
    git_in(&clone, &["checkout", "-q", "-b", "work"]);
    let theirs = commit("theirs");
    git_in(&clone, &["checkout", "-q", "main"]);
    let ours = commit("ours");
    let merged = Git::new(&clone).merge_commits(&ours, &theirs).unwrap();
    let CommitMerge::Clean(tree) = merged else { panic!("{merged:?}") };
    let names = git_in(&clone, &["ls-tree", "--name-only", tree.as_str()]);
    assert_eq!(names.lines().collect::<Vec<_>>(), ["a", "b", "ours", "theirs"]);
}

#[test]
fn the_own_work_tree_is_listed_wherever_its_git_directory_is() {
    let repository = Repository::new();
    let (apart, objects) = (repository.beside("apart"), repository.beside("apart.git"));
    let words = ["init", "-q", "-b", "main", "--separate-git-dir", objects.to_str().unwrap()];
    repository.git(&[&words[..], &[apart.to_str().unwrap()]].concat());
    let listed = Git::new(&apart).worktree_list().unwrap();
    assert_eq!(listed[0].path, apart);
    let from = repository.path();
    let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add"];
    repository.git(&[&add[..], &[from.to_str().unwrap(), "sub"]].concat());
    let inner = repository.path().join("sub");
    assert_eq!(Git::new(&inner).worktree_list().unwrap()[0].path, inner);
    // Also from another work tree.
    let beside = repository.beside("beside");
    git_in(&inner, &["worktree", "add", "-q", beside.to_str().unwrap(), "-b", "other"]);
    assert_eq!(Git::new(&beside).worktree_list().unwrap()[0].path, inner);
}
