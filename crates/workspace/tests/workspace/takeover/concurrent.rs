//! The user works in the same repository while a command runs.

use windlass_kernel::Code;
use windlass_workspace::TakeOverError;

use crate::takeover::cell::Cell;

#[track_caller]
fn refused(inside: &str, outside: &str) -> TakeOverError {
    let cell = Cell::new("sha1");
    let base = cell.baseline();
    cell.inside(inside);
    cell.outside(outside);
    let before = cell.view();
    let error = cell.take_over(&base).unwrap_err();
    assert_eq!(error.code(), Code::GitConflict, "{error}");
    assert_eq!(cell.view(), before);
    error
}

#[track_caller]
fn conflict(inside: &str, outside: &str) -> String {
    let error = refused(inside, outside);
    let TakeOverError::Conflict(name) = error else { panic!("{error}") };
    name
}

#[track_caller]
fn locked(inside: &str, outside: &str) -> String {
    let error = refused(inside, outside);
    let TakeOverError::Locked(name) = error else { panic!("{error}") };
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
    assert_eq!(locked("echo x > x && git add x", "echo y > .git/index.lock"), "index.lock");
    assert_eq!(locked("git switch -q --detach", "touch .git/HEAD.lock"), "HEAD.lock");
    assert!(locked(COMMIT, "touch .git/refs/heads/main.lock").contains("main.lock"));
}

#[test]
fn whoever_asks_for_the_status_meanwhile_is_in_nobodys_way() {
    let cell = Cell::new("sha1");
    cell.outside("touch -d @1 a");
    let base = cell.baseline();
    cell.inside(&format!("echo x > x && git add x && {COMMIT}"));
    let before = cell.files();
    cell.outside("git status && git diff");
    assert_ne!(cell.files(), before, "the index is refreshed");
    cell.take_over(&base).unwrap();
    assert_eq!(cell.outside("git status --porcelain"), "");
    assert_eq!(cell.outside("git log -1 --format=%s"), "inside\n");
}

#[test]
fn a_lock_that_somebody_holds_for_a_moment_is_waited_for() {
    for lock in [".git/index.lock", ".git/HEAD.lock"] {
        let cell = Cell::new("sha1");
        let base = cell.baseline();
        cell.inside(&format!("echo x > x && git add x && {COMMIT} && git switch -q -c new"));
        cell.outside(&format!("touch {lock} && (sleep 0.3; rm {lock}) > /dev/null 2>&1 &"));
        cell.take_over(&base).unwrap();
        assert_eq!(cell.outside("git status --porcelain --branch"), "## new\n", "{lock}");
    }
}

#[test]
fn locks_of_others_do_not_hinder_a_command() {
    let cell = Cell::new("sha1");
    let base = cell.baseline();
    let locks = ".git/packed-refs.lock .git/index.lock .git/HEAD.lock .git/refs/heads/new.lock";
    cell.outside(&format!("touch {locks}"));
    let own = format!("echo x > x && git add x && {COMMIT} && git pack-refs --all");
    cell.inside(&format!("{own} && git switch -q -c new && git branch -D old && git gc -q"));
    cell.outside(&format!("rm {locks}"));
    let taken = cell.take_over(&base).unwrap();
    assert_eq!(taken.protected, Vec::<String>::new());
    assert_eq!(cell.outside("git status --porcelain --branch"), "## new\n");
    cell.view();
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

/// What git does to all refs and logs at once.
const TIDY: [&str; 4] = [
    "git gc -q --prune=now",
    "git reflog expire --expire=all --all",
    "git reflog expire --expire=all --all && git repack -adq && git pack-refs --all",
    "git pack-refs --all && git prune",
];

#[test]
fn what_the_user_stashes_and_commits_meanwhile_stays_in_the_logs() {
    for tidy in TIDY {
        for cell in [Cell::new("sha1"), Cell::linked()] {
            cell.outside("echo first >> a && git stash -q");
            let base = cell.baseline();
            cell.inside(tidy);
            cell.outside(
                "echo precious >> a && git stash -q && git branch -f old side && git branch mine",
            );
            let before = cell.view();
            cell.take_over(&base).unwrap();
            let after = cell.view();
            for part in ["stash", "refs", "log"] {
                assert_eq!(after[part], before[part], "{tidy}");
            }
            assert_eq!(after["stash"].matches("stash@").count(), 2, "{tidy}");
            let log = cell.outside("git log -g --format=%gs refs/heads/old");
            assert!(log.contains("branch: Reset to side"), "{tidy}: {log}");
        }
    }
}

#[test]
fn logs_have_the_lines_of_both() {
    let cell = Cell::new("sha1");
    let base = cell.baseline();
    cell.inside(&format!("git reflog expire --expire=all --all && {COMMIT}"));
    cell.outside("git reflog expire --expire=all refs/heads/main");
    cell.take_over(&base).unwrap();
    assert_eq!(cell.outside("git log -1 --format=%s"), "inside\n");
    assert_eq!(cell.outside("git log -g --format=%gs refs/heads/main"), "commit: inside\n");
    cell.view();
}

#[test]
fn the_log_of_head_has_what_the_user_did_meanwhile() {
    let cell = Cell::new("sha1");
    let base = cell.baseline();
    cell.inside(COMMIT);
    cell.outside("git switch -q -c mine && git switch -q main");
    cell.take_over(&base).unwrap();
    let log = cell.outside("git log -g -3 --format=%gs HEAD");
    let moves = "checkout: moving from mine to main\ncheckout: moving from main to mine\n";
    assert_eq!(log, format!("commit: inside\n{moves}"));
    cell.view();
}

#[test]
fn a_commit_is_taken_over_also_if_somebody_packs_the_refs_before_the_command_does() {
    for tidy in ["git pack-refs --all", "git gc -q"] {
        for cell in [Cell::new("sha1"), Cell::linked()] {
            let base = cell.baseline();
            cell.outside("git pack-refs --all");
            cell.inside(&format!("{COMMIT} && {tidy}"));
            cell.take_over(&base).unwrap();
            assert_eq!(cell.outside("git log -1 --format=%s"), "inside\n", "{tidy}");
            cell.view();
        }
    }
}

#[test]
fn a_ref_that_the_command_only_packed_stays_as_the_user_left_it() {
    let cell = Cell::new("sha1");
    let base = cell.baseline();
    cell.outside("git branch -f old side && git branch new v1 && git branch -D packed");
    cell.inside(&format!("git pack-refs --all && git branch -D side && {COMMIT}"));
    cell.outside("git branch -f old main && git branch -f new main && git pack-refs --all");
    cell.take_over(&base).unwrap();
    let at = |name: &str| cell.outside(&format!("git rev-parse {name}"));
    assert_eq!((at("old"), at("new")), (at("main~"), at("main~")));
    let refs = cell.outside("git for-each-ref --format='%(refname:short)' refs/heads");
    assert_eq!(refs, "main\nnew\nold\n");
    cell.view();
}

/// What a user does before and after a command has packed all refs.
const THERE_AND_BACK: [(&str, &str); 9] = [
    ("git commit -q --allow-empty -m 1", "git commit -q --allow-empty -m 2"),
    ("git commit -q --allow-empty -m 1", "git reset -q --hard HEAD~1"),
    ("git branch new", "git branch -D new"),
    ("git tag new", "git tag -d new"),
    ("git branch -m old older", "git branch -m older old"),
    ("git branch -D old", "git branch old v1"),
    ("git branch -f old main", "git branch -f old v1"),
    ("echo x >> a && git stash -q", "git stash pop -q"),
    ("git worktree add -q ../other -b o", "git worktree remove ../other && git branch -D o"),
];

#[test]
fn what_the_user_does_to_refs_meanwhile_is_not_the_commands() {
    for (first, second) in THERE_AND_BACK {
        for tidy in ["git gc -q", "git pack-refs --all", "git pack-refs --all && git branch own"] {
            let cell = Cell::new("sha1");
            let base = cell.baseline();
            cell.outside(first);
            cell.inside(tidy);
            cell.outside(second);
            let before = cell.view();
            let taken = cell.take_over(&base).unwrap();
            assert_eq!(taken.protected, Vec::<String>::new(), "{first}; {tidy}; {second}");
            if tidy.ends_with("own") {
                cell.outside("git branch -D own");
            }
            let after = cell.view();
            for part in ["refs", "stash", "log", "worktrees", "status"] {
                assert_eq!(after[part], before[part], "{first}; {tidy}; {second}");
            }
        }
    }
}

#[test]
fn a_command_sees_the_refs_as_they_were_when_it_began() {
    let cell = Cell::new("sha1");
    cell.outside(
        "git update-ref refs/remotes/origin/main v1 && \
         git symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/main && \
         git update-ref refs/bisect/bad main && git tag -a -m x annotated",
    );
    let list = "git for-each-ref; git show-ref -d; git symbolic-ref refs/remotes/origin/HEAD";
    let before = cell.outside(list);
    let seen = before.lines().filter(|line| !line.contains("refs/windlass/"));
    let seen: String = seen.flat_map(|line| [line, "\n"]).collect();
    assert_ne!(seen, before, "there are refs of snapshots, too");
    let base = cell.baseline();
    cell.outside("git branch mine && git branch -D side && git pack-refs --all");
    assert_eq!(cell.inside(list), seen);
    cell.take_over(&base).unwrap();
    let names = cell.outside("git for-each-ref --format='%(refname)' refs/heads");
    assert_eq!(names, "refs/heads/main\nrefs/heads/mine\nrefs/heads/old\nrefs/heads/packed\n");
}

#[test]
fn a_work_tree_that_somebody_removes_meanwhile_is_not_the_commands() {
    let add = "git worktree add -q ../other -b other";
    for (before, during) in [(add, "true"), ("true", add)] {
        let cell = Cell::new("sha1");
        cell.outside(before);
        let base = cell.baseline();
        cell.outside(during);
        cell.inside("git reflog expire --expire=all --all && git gc -q");
        cell.outside("git worktree remove ../other");
        let taken = cell.take_over(&base).unwrap();
        assert_eq!(taken.protected, Vec::<String>::new());
        assert_eq!(cell.outside("git worktree list").lines().count(), 1);
        cell.view();
    }
}
