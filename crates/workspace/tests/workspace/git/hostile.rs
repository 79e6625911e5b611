//! Hostile repositories.

use windlass_workspace::{Git, GitCause};

use crate::git::repository::Repository;

#[test]
fn a_repository_inside_without_a_commit_is_an_error_not_a_hole() {
    let repository = Repository::new();
    repository.git(&["init", "-q", "inner"]);
    repository.file("inner/hidden", "x");
    let error = repository.ours().tree_of_worktree().unwrap_err();
    assert!(matches!(error.cause, GitCause::Unrecordable(_)), "{error}");
    assert!(error.to_string().contains("`inner` is a repository without a commit"), "{error}");
}

#[test]
fn a_broken_head_is_an_error() {
    let repository = Repository::new();
    repository.file(".git/HEAD", "garbage");
    let error = repository.ours().head().unwrap_err();
    assert!(!error.to_string().contains('\n'), "{error}");
    assert!(repository.ours().status().is_err());
}

#[test]
fn a_broken_index_is_an_error() {
    let repository = Repository::new();
    repository.file(".git/index", "garbage");
    assert!(repository.ours().status().is_err());
    // Our index is a new one.
    repository.ours().tree_of_worktree().unwrap();
}

#[test]
fn errors_are_one_line_and_name_the_operation() {
    let folder = tempfile::tempdir().unwrap();
    let error = Git::new(folder.path()).status().unwrap_err();
    let expected =
        format!("cannot read the status: `{}` is not in a git repository", folder.path().display());
    assert_eq!(error.to_string(), expected);
}
