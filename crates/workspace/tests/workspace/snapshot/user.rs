//! The user's repository: what is never changed, and what the user may do to it.

use std::fs;
use std::time::Duration;

use windlass_workspace::{SnapshotError, Snapshots};

use crate::snapshot::world::{Kind, World, changing, git_in};

#[test]
fn the_users_own_state_is_left_alone() {
    for kind in [Kind::Repository, Kind::Sha256, Kind::Worktree] {
        let world = World::new(kind);
        world.write("staged", "1");
        world.write("tracked", "1");
        git_in(&world.path(), &["add", "-A"]);
        git_in(&world.path(), &["commit", "-q", "-m", "x"]);
        world.write("staged", "2");
        git_in(&world.path(), &["add", "staged"]);
        world.write("staged", "3");
        world.write("new", "1");
        let look = || {
            (
                git_in(&world.path(), &["status", "--porcelain=v2", "--branch"]),
                git_in(&world.path(), &["ls-files", "-s", "--debug"]),
                git_in(&world.path(), &["for-each-ref", "refs/heads", "refs/tags", "refs/stash"]),
                git_in(&world.path(), &["log", "--all", "--oneline"]),
                git_in(&world.path(), &["reflog", "--all"]),
            )
        };
        let before = look();
        let one = world.capture("one");
        assert_eq!(look(), before);
        world.write("tracked", "2");
        let two = world.capture("two");
        world.restore(&two, &one);
        world.restore(&one, &two);
        world.restore(&two, &one);
        // The file is a new one, with other times; git must look at it again.
        git_in(&world.path(), &["update-index", "-q", "--refresh"]);
        let after = look();
        assert_eq!(
            (&after.0, &after.2, &after.3, &after.4),
            (&before.0, &before.2, &before.3, &before.4)
        );
        assert_eq!(git_in(&world.path(), &["fsck", "--strict"]), "");
    }
}

#[test]
fn cleaning_up_loses_nothing() {
    for kind in [Kind::Repository, Kind::Sha256, Kind::Worktree] {
        let world = World::new(kind);
        let mut kept = Vec::new();
        for number in 0..5 {
            world.write("a", format!("{number}\n").repeat(1000));
            world.write(format!("d/{number}"), number.to_string());
            kept.push((world.capture(&format!("run/{number}")), world.things()));
        }
        world.git(&["gc", "-q", "--prune=now"]);
        world.git(&["repack", "-adfq"]);
        assert_eq!(world.open().check().unwrap(), []);
        let mut from = kept[4].0.clone();
        for (tree, things) in &kept {
            world.restore(&from, tree);
            assert_eq!(world.things(), *things);
            from = tree.clone();
        }
        assert_eq!(world.capture("again"), from);
    }
}

#[test]
fn what_was_pruned_after_it_was_forgotten_is_captured_anew() {
    let world = World::new(Kind::Repository);
    world.write("a", "1");
    world.write("d/b", "2");
    let tree = world.capture("x");
    world.open().delete_references(&["x".to_owned()]).unwrap();
    world.open().free_space_older_than(Duration::ZERO).unwrap();
    assert!(!world.open().has_tree(&tree).unwrap());
    // The private index still names objects that were pruned.
    assert_eq!(world.capture("y"), tree);
    assert_eq!(world.open().check().unwrap(), []);
    world.open().delete_references(&["y".to_owned()]).unwrap();
    world.open().free_space_older_than(Duration::ZERO).unwrap();
    world.write("a", "other");
    let other = world.capture("z");
    assert_eq!(world.open().check().unwrap(), []);
    assert_ne!(other, tree);
}

#[test]
fn borrowed_objects_keep_working() {
    let lender = World::new(Kind::Repository);
    lender.write("a", "from the lender\n");
    lender.git(&["add", "-A"]);
    lender.git(&["commit", "-q", "-m", "x"]);
    let path = lender.root().join("borrower");
    let project = lender.project();
    let arguments = ["clone", "-q", "--shared", project.to_str().unwrap(), path.to_str().unwrap()];
    git_in(&lender.root(), &arguments);
    let snapshots = Snapshots::open(&path.join(".windlass/s"), &path).unwrap();
    let one = snapshots.capture(&path, "one").unwrap().tree;
    // What the lender has is not stored again.
    assert!(git_in(&path, &["count-objects"]).starts_with("0 "));
    fs::write(path.join("a"), "changed").unwrap();
    let two = snapshots.capture(&path, "two").unwrap().tree;
    snapshots.change(&path, &changing(&two, &one)).unwrap();
    assert_eq!(fs::read(path.join("a")).unwrap(), b"from the lender\n");
    assert_eq!(snapshots.check().unwrap(), []);
}

#[test]
fn a_folder_that_becomes_a_repository_keeps_its_snapshots() {
    let world = World::new(Kind::Folder);
    world.write("a", "1");
    let one = world.capture("one");
    world.git(&["init", "-q"]);
    world.write("a", "2");
    let two = world.capture("two");
    world.restore(&two, &one);
    assert_eq!(fs::read(world.path().join("a")).unwrap(), b"1");
    assert_eq!(world.open().references().unwrap().len(), 2);
}

#[test]
fn a_workspace_of_another_repository_is_refused() {
    let (world, other) = (World::new(Kind::Repository), World::new(Kind::Repository));
    let error = world.open().capture(&other.path(), "x").unwrap_err();
    assert_eq!(error, SnapshotError::OutsideProject(other.path()));
}

#[test]
fn work_trees_share_what_they_keep() {
    let world = World::new(Kind::Worktree);
    let snapshots = world.open();
    world.write("a", "1");
    fs::write(world.project().join("a"), "2").unwrap();
    let beside = snapshots.capture(&world.path(), "beside").unwrap().tree;
    let main = snapshots.capture(&world.project(), "main").unwrap().tree;
    let found = snapshots.references().unwrap();
    assert_eq!(found, [("beside".to_owned(), beside.clone()), ("main".to_owned(), main.clone())]);
    // One can be restored to the snapshot of the other.
    snapshots.change(&world.path(), &changing(&beside, &main)).unwrap();
    assert_eq!(fs::read(world.path().join("a")).unwrap(), b"2");
}
