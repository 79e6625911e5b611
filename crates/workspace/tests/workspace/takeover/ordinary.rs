//! Ordinary work in the cell: afterwards the repository is as if there had been no cell.

use windlass_workspace::TakenOver;

use crate::takeover::cell::{Cell, View};

/// Scripts, each of which starts where the one before it ended.
const WORK: [(&str, &str); 20] = [
    ("add", "echo new > new && git add new"),
    ("commit", "git commit -q -m three && echo more >> a && git commit -q -a -m four"),
    ("switch", "git switch -q side && git switch -q -c other && echo x > x"),
    ("stash", "git add x && git stash -q && echo y > y && git stash -q -u && git stash list"),
    ("stash pop", "git stash pop -q"),
    ("tag", "git tag -a -m message v2 && git tag v3 && git tag -d v1"),
    ("delete branches", "git branch -D packed && git branch -D old && git branch -m side sides"),
    ("reset", "git reset -q --hard && git clean -qfd"),
    ("conflict", "echo 5 > a && git commit -q -a -m five && ! git merge -q main"),
    ("resolve", "printf '1\\n5\\n' > a && git add a && git commit -q -m merged"),
    ("cherry-pick", "git switch -q main && ! git cherry-pick other~1"),
    ("abort", "git cherry-pick --abort"),
    (
        "rebase stops",
        "git switch -q -c topic sides && echo 6 > a && git commit -q -a -m six && ! git rebase -q main",
    ),
    ("rebase goes on", "echo 7 > a && git add a && git rebase --continue"),
    ("bisect", "git bisect start && git bisect bad && git bisect good v3~1"),
    ("bisect ends", "git bisect reset"),
    (
        "worktree",
        "git worktree add -q inner -b inner && cd inner && echo i > i && git add i && git commit -q -m i",
    ),
    (
        "worktree again",
        "cd inner && echo j > j && git add j && git commit -q -m j && git worktree list",
    ),
    ("worktree removed", "git worktree remove inner"),
    ("gc", "git gc -q --prune=now && git switch -q --detach main && git submodule status"),
];

#[track_caller]
fn compare(cell: &Cell, plain: &Cell, branch: &str) {
    for (name, script) in WORK {
        let script = &script.replace("main", branch);
        plain.outside(script);
        let taken = cell.run(script);
        let (ours, theirs): (View, View) = (cell.view(), plain.view());
        assert_eq!(ours, theirs, "{name}: {taken:?}");
        assert_eq!(taken.protected, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn work_in_the_cell_is_as_work_outside() {
    compare(&Cell::new("sha1"), &Cell::new("sha1"), "main");
}

#[test]
fn work_in_a_repository_with_sha256() {
    compare(&Cell::new("sha256"), &Cell::new("sha256"), "main");
}

#[test]
fn work_in_a_linked_work_tree() {
    compare(&Cell::linked(), &Cell::linked(), "linked");
}

#[test]
fn many_objects_arrive_as_a_pack() {
    let (cell, plain) = (Cell::new("sha1"), Cell::new("sha1"));
    let script = "for n in $(seq 300); do echo $n > n$n; done; git add -A; git commit -q -m many";
    plain.outside(script);
    cell.run(script);
    assert_eq!(cell.view(), plain.view());
    assert!(cell.outside("git count-objects -v").contains("packs: 1"));
}

#[test]
fn the_first_commit_and_an_orphan_branch_are_taken_over() {
    let cell = Cell::new("sha1");
    cell.run("git switch -q --orphan fresh && echo f > f && git add f && git commit -q -m fresh");
    assert_eq!(cell.outside("git log --format=%s"), "fresh\n");
    cell.view();
    cell.run("git switch -q --orphan unborn");
    assert_eq!(cell.outside("git symbolic-ref HEAD"), "refs/heads/unborn\n");
}

#[test]
fn a_submodule_is_seen_in_the_cell() {
    let cell = Cell::new("sha1");
    cell.outside(
        "git init -q ../sub && git -C ../sub commit -q --allow-empty -m s && \
         git submodule add -q ../sub sub && git commit -q -m sub",
    );
    let inside = cell.inside("git submodule status");
    assert_eq!(inside, cell.outside("git submodule status"));
    assert!(inside.contains(" sub (heads/"), "{inside}");
}

#[test]
fn a_workspace_can_be_a_submodule() {
    let (cell, plain) = (Cell::submodule(), Cell::submodule());
    let script = "echo x > x && git add x && git commit -q -m x && git branch y";
    plain.outside(script);
    cell.run(script);
    assert_eq!(cell.view(), plain.view());
}

#[test]
fn nothing_done_is_nothing_taken_over() {
    let cell = Cell::new("sha1");
    let before = cell.files();
    assert_eq!(cell.run("git --no-optional-locks status -s && git log -1"), TakenOver::default());
    assert_eq!(cell.files(), before);
}

#[test]
fn a_stop_at_any_point_leaves_a_valid_repository_and_the_rest_follows() {
    let script = "git switch -q -c next && echo n > n && git add n && git commit -q -m n && \
        git tag t && git branch -D old && git worktree add -q inner && echo z > z && \
        git add z && git stash -q";
    let expected = {
        let plain = Cell::new("sha1");
        plain.outside(script);
        plain.view()
    };
    let mut stop = 0;
    loop {
        let cell = Cell::new("sha1");
        let base = cell.baseline();
        cell.inside(script);
        let mut step = 0;
        let taken = windlass_workspace::take_over_in_steps(
            &cell.common(),
            &cell.upper(),
            &cell.workspace(),
            &base,
            &mut |_| {
                step += 1;
                if step > stop {
                    Err(windlass_workspace::TakeOverError::Conflict("stopped".to_owned()))
                } else {
                    Ok(())
                }
            },
        );
        cell.outside("git fsck --strict 2>&1");
        let ended = taken.is_ok();
        // The baseline is what a new process has read.
        let base = serde_json::from_str(&serde_json::to_string(&base).unwrap()).unwrap();
        cell.take_over(&base).unwrap();
        assert_eq!(cell.view(), expected, "stopped after {stop} steps");
        assert_eq!(cell.take_over(&base).unwrap().taken, Vec::<String>::new());
        if ended {
            assert!(stop > 10, "{stop}");
            return;
        }
        stop += 1;
    }
}
