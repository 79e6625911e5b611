//! The user works in the same repository while a command runs.

use windlass_kernel::Code;
use windlass_workspace::TakeOverError;

use crate::cell::Cell;

#[track_caller]
fn conflict(inside: &str, outside: &str) -> String {
    let cell = Cell::new("sha1");
    let base = cell.baseline();
    cell.inside(inside);
    cell.outside(outside);
    let before = cell.view();
    let error = cell.take_over(&base).unwrap_err();
    assert_eq!(error.code(), Code::GitConflict, "{error}");
    assert_eq!(cell.view(), before);
    let TakeOverError::Conflict(name) = error else { panic!("{error}") };
    name
}

const COMMIT: &str = "git commit -q --allow-empty -m inside";

#[test]
fn a_ref_that_both_moved_refuses_all() {
    assert_eq!(conflict(COMMIT, "git commit -q --allow-empty -m outside"), "refs/heads/main");
    assert_eq!(conflict("git branch x v1", "git branch x main"), "refs/heads/x");
    assert_eq!(conflict("git branch -D old", "git branch -f old main"), "refs/heads/old");
    assert_eq!(conflict("git branch -f old main", "git branch -D old"), "refs/heads/old");
    let switch = |branch: &str| format!("git symbolic-ref HEAD refs/heads/{branch}");
    assert_eq!(conflict(&switch("side"), &switch("old")), "HEAD");
}

#[test]
fn a_file_that_both_changed_refuses_all() {
    assert_eq!(conflict("echo x > x && git add x", "echo y > y && git add y"), "index");
    assert_eq!(conflict("echo x > x && git add x", "echo y > .git/index.lock"), "index.lock");
    assert_eq!(conflict("git switch -q --detach", "touch .git/HEAD.lock"), "HEAD.lock");
    assert!(conflict(COMMIT, "touch .git/refs/heads/main.lock").contains("main.lock"));
}

#[test]
fn what_only_the_user_did_stays() {
    let cell = Cell::new("sha1");
    let base = cell.baseline();
    cell.inside(&format!("{COMMIT} && git branch -D packed && git pack-refs --all"));
    cell.outside(
        "git branch mine && git branch -f old side && git tag -d v1 && git pack-refs --all && \
         git update-ref refs/windlass/run/post HEAD^{tree}",
    );
    let taken = cell.take_over(&base).unwrap();
    assert_eq!(taken.protected, Vec::<String>::new());
    let refs = cell.outside("git for-each-ref --format='%(refname)'");
    let expected = "refs/heads/main\nrefs/heads/mine\nrefs/heads/old\nrefs/heads/side\n\
        refs/windlass/run/post\nrefs/windlass/run/pre\n";
    assert_eq!(refs, expected);
    assert_eq!(cell.outside("git rev-parse old"), cell.outside("git rev-parse side"));
    assert_eq!(cell.outside("git log -1 --format=%s"), "inside\n");
    cell.view();
}
