//! What snapshots borrow from the user's repository is kept there; nothing else of them is in it.

use std::fs;
use std::path::Path;

use windlass_workspace::{Damage, SnapshotError, Snapshots, TreeId};

use crate::snapshot::world::{Kind, World, changing, git_in};

/// Removes all that no ref names.
const FORGET: &str = "git reflog expire --expire=now --all; git gc -q --prune=now";

const REPOSITORIES: [Kind; 4] = [Kind::Repository, Kind::Sha256, Kind::Worktree, Kind::Inside];

/// What is done before a capture and after it, so that objects of the snapshot are in no commit any more.
const DROPS: [(&str, &str); 9] = [
    ("true", "git reset -q --hard HEAD~1"),
    ("echo new > new; echo c >> a", "git checkout -qf HEAD~2; git branch -qf here HEAD"),
    ("true", "echo other >> a; git commit -q --amend -am amended"),
    (
        "git checkout -q -b dropped; echo dropped > a; git commit -qam dropped",
        "git checkout -q here; git branch -qD dropped",
    ),
    (
        "git checkout -q --detach; echo detached > d/b; git commit -qam detached",
        "git checkout -q here",
    ),
    (
        "echo staged > staged; echo staged > a; git add staged a",
        "git rm -q --cached staged; git checkout -q HEAD a; rm staged",
    ),
    (
        "echo stashed > stashed; echo stashed > a; git stash -q -u; git stash pop -q",
        "git checkout -q HEAD a; rm stashed",
    ),
    (
        "git checkout -q --orphan unborn; git rm -rqf .; mkdir -p d; echo unborn > d/x; git add d",
        "git rm -rqf --cached .; git checkout -qf here",
    ),
    (
        "git rebase -q -X theirs --onto HEAD~2 HEAD~1",
        "git checkout -q HEAD~1; git branch -qf here HEAD",
    ),
];

#[test]
fn no_snapshot_loses_what_the_user_drops() {
    for kind in REPOSITORIES {
        for (before, after) in DROPS {
            let world = World::new(kind);
            world.script(
                "git checkout -q -b here; mkdir -p d
                 for n in 1 2 3; do
                     echo $n > a; echo $n > d/b; echo $n > d/$n; git add .; git commit -qm $n
                 done",
            );
            world.script(before);
            let one = world.capture("one");
            let first = world.things();
            world.script(after);
            world.script(FORGET);
            let two = world.capture("two");
            let second = world.things();
            assert_ne!(first, second, "{before}");
            world.script(FORGET);
            assert_eq!(world.open().check().unwrap(), [], "{kind:?}: {before}");
            world.restore(&two, &one);
            assert_eq!(world.things(), first, "{kind:?}: {before}");
            world.restore(&one, &two);
            assert_eq!(world.things(), second, "{kind:?}: {before}");
            world.git(&["fsck", "--strict", "--no-dangling"]);
        }
    }
}

/// The user's refs below `refs/windlass/`, without the name of the project.
fn bases(world: &World) -> Vec<String> {
    let refs = world.git(&["for-each-ref", "--format=%(refname)", "refs/windlass/"]);
    let refs = refs.lines().map(|name| {
        let parts: Vec<&str> = name.split('/').collect();
        assert_eq!((parts[2], parts.len()), ("base", 5), "{name}");
        parts[4].to_owned()
    });
    refs.collect()
}

fn head(world: &World) -> String {
    world.script("git rev-parse HEAD").trim().to_owned()
}

#[test]
fn nothing_is_written_to_the_repository_but_one_ref() {
    for kind in REPOSITORIES {
        let world = World::new(kind);
        world.write("a", "committed");
        world.script("git add -A .; git commit -qm a");
        let objects = world.git(&["count-objects", "-v"]);
        for number in 0..5 {
            world.write("secret", format!("secret {number}"));
            world.mode("secret", 0o600);
            world.capture(&format!("run/{number}"));
        }
        assert_eq!(world.git(&["count-objects", "-v"]), objects, "{kind:?}");
        assert_eq!(bases(&world), [head(&world)]);
        // What is committed is not stored again: there are five of each file and tag, and of the folders.
        let own = git_in(&world.private(), &["count-objects"]);
        let trees = if kind == Kind::Inside { 10 } else { 5 };
        assert_eq!(own.split(' ').next().unwrap(), (10 + trees).to_string(), "{kind:?}");
    }
}

#[test]
fn a_line_of_commits_has_one_ref_and_each_branch_another() {
    let world = World::new(Kind::Repository);
    let commit = |number: usize| {
        world.write("a", number.to_string());
        world.script("git add a; git commit -qm a");
        world.capture(&format!("run/{number}"));
    };
    (0..4).for_each(commit);
    // What is new since the first capture is little, and was copied.
    let first = world.script("git rev-parse HEAD~3").trim().to_owned();
    assert_eq!(bases(&world), [first]);
    world.forget_last_capture();
    commit(4);
    assert_eq!(bases(&world), [head(&world)]);
    world.script("git checkout -q -b other HEAD~3");
    world.forget_last_capture();
    (5..7).for_each(commit);
    assert_eq!(bases(&world).len(), 2);
}

#[test]
fn a_shallow_clone_and_one_with_alternates_keep_what_is_borrowed() {
    let lender = World::new(Kind::Repository);
    lender.script("for n in 1 2 3; do echo $n > a; git add a; git commit -qm $n; done");
    let source = lender.project();
    let url = format!("file://{}", source.display());
    let clones: [&[&str]; 2] = [
        &["clone", "-q", "--depth=2", &url],
        &["clone", "-q", "--shared", source.to_str().unwrap()],
    ];
    for (number, arguments) in clones.into_iter().enumerate() {
        let path = lender.root().join(number.to_string());
        git_in(&lender.root(), &[arguments, &[path.to_str().unwrap()]].concat());
        let snapshots = Snapshots::open(&lender.root().join(format!("s{number}")), &path).unwrap();
        let capture = |name| snapshots.capture(&path, name).unwrap().tree;
        fs::write(path.join("new"), "new").unwrap();
        let one = capture("one");
        git_in(&path, &["reset", "-q", "--hard", "HEAD~1"]);
        git_in(&path, &["update-ref", "-d", "refs/remotes/origin/main"]);
        git_in(&path, &["update-ref", "-d", "refs/remotes/origin/HEAD"]);
        fs::remove_file(path.join("new")).unwrap();
        let two = capture("two");
        git_in(&path, &["reflog", "expire", "--expire=now", "--all"]);
        git_in(&path, &["gc", "-q", "--prune=now"]);
        assert_eq!(snapshots.check().unwrap(), []);
        snapshots.change(&path, &changing(&two, &one)).unwrap();
        assert_eq!(fs::read(path.join("a")).unwrap(), b"3\n");
        snapshots.change(&path, &changing(&one, &two)).unwrap();
        assert_eq!(fs::read(path.join("a")).unwrap(), b"2\n");
    }
}

#[test]
fn a_merge_and_a_combination_keep_what_they_are_made_of() {
    let world = World::new(Kind::Repository);
    world.script("for n in 1 2; do echo $n > a; echo $n > b; git add .; git commit -qm $n; done");
    let base = world.capture("base");
    world.write("ours", "o");
    let ours = world.capture("ours");
    world.remove("ours");
    // The objects of the other side are in a commit that will be dropped.
    world.script("echo theirs > theirs; git add .; git commit -qm theirs");
    let theirs = world.capture("theirs");
    let snapshots = world.open();
    let windlass_workspace::Merged::Clean(merged) = snapshots.merge(&base, &ours, &theirs).unwrap()
    else {
        panic!("nothing conflicts");
    };
    let added = snapshots.with_files(&base, &theirs, &["theirs".into()]).unwrap();
    snapshots.set_reference(&merged, "merged").unwrap();
    snapshots.set_reference(&added, "added").unwrap();
    snapshots.delete_references(&["theirs".to_owned()]).unwrap();
    world.script("git reset -q --hard HEAD~1");
    world.script(FORGET);
    assert_eq!(snapshots.check().unwrap(), []);
    let now = world.capture("now");
    world.restore(&now, &merged);
    assert_eq!(fs::read(world.path().join("theirs")).unwrap(), b"theirs\n");
}

#[test]
fn a_repository_that_is_gone_or_replaced_is_named_in_the_error() {
    let replace = |world: &World| {
        world.git(&["init", "-q", "-b", "main"]);
        world.git(&["commit", "-q", "--allow-empty", "-m", "x"]);
    };
    let leave = |_: &World| {};
    let ways: [&dyn Fn(&World); 2] = [&replace, &leave];
    for again in ways {
        let world = World::new(Kind::Repository);
        world.write("a", "1");
        world.script("git add a; git commit -qm a");
        let head = head(&world);
        world.write("b", "2");
        let one = world.capture("one");
        fs::remove_dir_all(world.project().join(".git")).unwrap();
        again(&world);
        let snapshots = world.open();
        let damaged = snapshots.check().unwrap();
        assert_eq!(damaged[0].damage, Damage::Base(head.parse().unwrap()));
        // What is captured from now on is complete.
        let two = world.capture("two");
        assert_eq!(snapshots.check().unwrap().len(), usize::from(two != one));
        world.write("a", "2");
        let three = world.capture("three");
        assert_ne!(three, two);
        world.remove("a");
        let four = world.capture("four");
        world.restore(&four, &three);
        assert_eq!(fs::read(world.path().join("a")).unwrap(), b"2");
    }
}

#[test]
fn a_snapshot_of_a_repository_that_was_replaced_is_not_restored_in_part() {
    let world = World::new(Kind::Repository);
    world.write("a", "1");
    world.write("c", "1");
    world.script("git add .; git commit -qm a");
    let base = head(&world).parse().unwrap();
    let one = world.capture("one");
    fs::remove_dir_all(world.project().join(".git")).unwrap();
    world.git(&["init", "-q", "-b", "main"]);
    for name in ["a", "c"] {
        world.write(name, "2");
    }
    let snapshots = world.open();
    let now = world.capture("now");
    let error = snapshots.change(&world.path(), &changing(&now, &one)).unwrap_err();
    assert_eq!(error, SnapshotError::BaseGone { tree: one, base });
    assert!(error.to_string().contains("deleted or replaced"), "{error}");
    assert_eq!(fs::read(world.path().join("a")).unwrap(), b"2");
}

#[test]
fn a_repository_with_other_ids_in_the_place_of_the_old_one_is_refused() {
    let world = World::new(Kind::Repository);
    world.write("a", "1");
    world.capture("one");
    fs::remove_dir_all(world.project().join(".git")).unwrap();
    world.git(&["init", "-q", "--object-format=sha256"]);
    let error = Snapshots::open(&world.private(), &world.project()).unwrap_err();
    assert!(error.to_string().contains("another kind"), "{error}");
}

#[test]
fn a_project_that_was_moved_borrows_from_where_it_is() {
    let world = World::new(Kind::Repository);
    world.write("a", "1");
    world.script("git add a; git commit -qm a");
    let one: TreeId = world.capture("one");
    let moved = world.root().join("moved \"to\" here");
    fs::rename(world.project(), &moved).unwrap();
    let private = moved.join(world.private().strip_prefix(world.project()).unwrap());
    let snapshots = Snapshots::open(&private, &moved).unwrap();
    assert_eq!(snapshots.check().unwrap(), []);
    fs::write(moved.join("a"), "2").unwrap();
    let two = snapshots.capture(&moved, "two").unwrap().tree;
    snapshots.change(&moved, &changing(&two, &one)).unwrap();
    assert_eq!(fs::read(moved.join(Path::new("a"))).unwrap(), b"1");
}
