//! Hostile workspaces, and folders that cannot be changed.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};

use windlass_workspace::{OnConflict, SnapshotError, WorkspaceChange};

use crate::snapshot::kill::{Role, child};
use crate::snapshot::world::{KINDS, Kind, World, changing, git_in};

/// The user id of `nobody`.
const NOBODY: u32 = 65_534;

#[test]
fn a_folder_that_became_a_link_does_not_lead_outside() {
    for kind in KINDS {
        let world = World::new(kind);
        let outside = world.root().join("outside");
        fs::create_dir(&outside).unwrap();
        world.write("d/x", "1");
        let one = world.capture("one");
        world.write("d/x", "2");
        world.write("d/new", "2");
        let two = world.capture("two");
        // It even looks right from inside.
        fs::write(outside.join("x"), "2").unwrap();
        fs::write(outside.join("new"), "2").unwrap();
        world.remove("d");
        world.link("d", &outside);
        let error = world.open().change(&world.path(), &changing(&two, &one)).unwrap_err();
        let changed = vec![PathBuf::from("d/x")];
        assert_eq!(error, SnapshotError::Changed { changed, in_the_way: Vec::new() });
        for name in ["x", "new"] {
            assert_eq!(fs::read(outside.join(name)).unwrap(), b"2");
        }
        // What the link leads to is not captured as if it were here.
        let tree = world.capture("linked");
        assert_eq!(world.open().read(&tree, "d/x".as_ref(), 9).unwrap(), None);
        // Even if it is overwritten, only the link is.
        let change = changing(&two, &one);
        let forced = WorkspaceChange { on_conflict: OnConflict::Overwrite, ..change };
        world.open().change(&world.path(), &forced).unwrap();
        for name in ["x", "new"] {
            assert_eq!(fs::read(outside.join(name)).unwrap(), b"2");
        }
        assert_eq!(fs::read(world.path().join("d/x")).unwrap(), b"1");
    }
}

#[test]
fn an_ignored_link_does_not_lead_outside_either() {
    let world = World::new(Kind::Repository);
    let outside = world.root().join("outside");
    fs::create_dir(&outside).unwrap();
    world.write("d/x", "1");
    world.write("keep", "");
    let full = world.capture("full");
    world.remove("d");
    let empty = world.capture("empty");
    fs::write(world.project().join(".git/info/exclude"), "/d\n").unwrap();
    world.link("d", &outside);
    let error = world.open().change(&world.path(), &changing(&empty, &full)).unwrap_err();
    let in_the_way = vec![PathBuf::from("d")];
    assert_eq!(error, SnapshotError::Changed { changed: Vec::new(), in_the_way });
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    // A tracked file behind such a link is gone, whatever the link leads to.
    world.remove("d");
    world.write("d/x", "1");
    fs::write(world.project().join(".git/info/exclude"), "").unwrap();
    assert_eq!(world.capture("full"), full);
    fs::write(world.project().join(".git/info/exclude"), "/d\n").unwrap();
    fs::write(outside.join("x"), "1").unwrap();
    world.remove("d");
    world.link("d", &outside);
    assert_eq!(world.capture("empty"), empty);
}

#[test]
fn nothing_that_a_repository_names_is_started() {
    let world = World::new(Kind::Repository);
    let mark = world.root().join("ran");
    let command = format!("touch '{}'; cat", mark.display());
    let arm = |folder: &Path| {
        for name in ["filter.x.clean", "filter.x.smudge", "core.fsmonitor", "diff.x.command"] {
            git_in(folder, &["config", name, &command]);
        }
        let hooks = folder.join(".git/hooks");
        for name in ["reference-transaction", "post-index-change", "post-checkout"] {
            fs::create_dir_all(&hooks).unwrap();
            fs::write(hooks.join(name), format!("#!/bin/sh\n{command}\n")).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(hooks.join(name), mode).unwrap();
        }
    };
    world.write("in/a", "1");
    let inner = world.path().join("in");
    git_in(&inner, &["init", "-q"]);
    git_in(&inner, &["add", "-A"]);
    git_in(&inner, &["commit", "-q", "-m", "x"]);
    for folder in [world.path(), inner.clone()] {
        fs::write(folder.join(".gitattributes"), "* filter=x diff=x\n").unwrap();
        arm(&folder);
    }
    let mut trees = Vec::new();
    for number in 0..3 {
        world.write("a", number.to_string());
        // Same size, other times: git would have to look into it.
        fs::write(inner.join("a"), number.to_string()).unwrap();
        trees.push(world.capture(&format!("{number}")));
    }
    let snapshots = world.open();
    snapshots.change(&world.path(), &changing(&trees[2], &trees[0])).unwrap();
    snapshots.text_diff(&trees[0], &trees[2], &[], 9999).unwrap();
    snapshots.merge(&trees[0], &trees[1], &trees[0]).unwrap();
    snapshots.check().unwrap();
    snapshots.delete_references(&["0".to_owned()]).unwrap();
    assert!(!mark.exists());
}

#[test]
fn a_repository_in_the_way_is_never_written_into() {
    for commit in [false, true] {
        let world = World::new(Kind::Repository);
        world.write("d/x", "1");
        let full = world.capture("full");
        world.remove("d");
        let inner = world.path().join("d");
        fs::create_dir(&inner).unwrap();
        git_in(&inner, &["init", "-q"]);
        if commit {
            git_in(&inner, &["commit", "-q", "--allow-empty", "-m", "x"]);
        }
        let empty = world.capture("nested");
        let error = world.open().change(&world.path(), &changing(&empty, &full)).unwrap_err();
        let in_the_way = vec![PathBuf::from("d")];
        assert_eq!(error, SnapshotError::Changed { changed: Vec::new(), in_the_way });
        assert!(!inner.join("x").exists());
    }
}

#[test]
fn a_path_that_git_cannot_hold_fails_and_is_named() {
    let world = World::new(Kind::Folder);
    world.write("a/.GIT/x", "1");
    let refused = |name: &str| {
        let error = world.open().capture(&world.path(), "x").unwrap_err();
        assert_eq!(error.code().as_str(), "SNAPSHOT_FAILED");
        let expected = format!("cannot capture `{name}`: git keeps this name for itself");
        assert_eq!(error.to_string(), expected);
    };
    refused("a/.GIT/x");
    world.remove("a");
    world.write("a", "");
    world.link(".gitmodules", "a");
    refused(".gitmodules");
    assert_eq!(world.open().references().unwrap(), []);
}

/// Runs a restore as the user `nobody`.
fn as_nobody(world: &World, from: &str, to: &str) -> String {
    let role = Role { from, to, user: Some(NOBODY) };
    let output = child(world, &role).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = stdout.lines().find_map(|line| line.strip_prefix('@'));
    line.unwrap_or_else(|| panic!("{stdout}{}", String::from_utf8_lossy(&output.stderr))).to_owned()
}

fn give_to_nobody(path: &Path) {
    std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        for entry in fs::read_dir(path).unwrap() {
            give_to_nobody(&entry.unwrap().path());
        }
    }
}

/// Whether the test can change owners: only root can, and without it no operation is refused.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_folder_that_cannot_be_changed_is_refused_before_anything_is_touched() {
    if !is_root() {
        windlass_testkit::skipped("only root can change owners");
        return;
    }
    let world = World::new(Kind::Folder);
    world.write("a", "1");
    world.write("locked/b", "1");
    let one = world.capture("one");
    world.write("a", "2");
    world.write("locked/b", "2");
    let two = world.capture("two");
    give_to_nobody(&world.root());
    world.mode("locked", 0o555);
    let message = as_nobody(&world, two.as_str(), one.as_str());
    assert_eq!(message, "cannot change `locked/b`: permission denied");
    for name in ["a", "locked/b"] {
        assert_eq!(fs::read(world.path().join(name)).unwrap(), b"2");
    }
    world.mode("locked", 0o755);
    assert_eq!(as_nobody(&world, two.as_str(), one.as_str()), "restored");
}

#[test]
fn a_failure_half_way_is_reported_and_finished_later() {
    if !is_root() {
        windlass_testkit::skipped("only root can change owners");
        return;
    }
    let world = World::new(Kind::Folder);
    world.write("a", "1");
    world.write("sticky/b", "1");
    world.write("z", "1");
    let one = (world.capture("one"), world.things());
    for name in ["a", "sticky/b", "z"] {
        world.write(name, "2");
    }
    let two = world.capture("two");
    give_to_nobody(&world.root());
    // All users may write here, but only the owner may replace a file.
    let locked = world.path().join("sticky");
    chown(&locked, Some(0), Some(0)).unwrap();
    chown(locked.join("b"), Some(0), Some(0)).unwrap();
    world.mode("sticky", 0o1777);
    let message = as_nobody(&world, two.as_str(), one.0.as_str());
    let expected = "the restore stopped at `sticky/b` after 1 paths: Operation not permitted";
    assert!(message.starts_with(expected), "{message}");
    let read = |name: &str| fs::read(world.path().join(name)).unwrap();
    assert_eq!((read("a"), read("sticky/b"), read("z")), (b"1".into(), b"2".into(), b"2".into()));
    give_to_nobody(&world.root());
    assert_eq!(as_nobody(&world, two.as_str(), one.0.as_str()), "restored");
    assert_eq!(world.things(), one.1);
}

#[test]
fn a_private_directory_may_be_elsewhere() {
    let world = World::new(Kind::Repository);
    let real = world.root().join("elsewhere");
    fs::create_dir_all(&real).unwrap();
    symlink(&real, world.private()).unwrap();
    world.write("a", "1");
    world.capture("x");
    assert!(real.join("HEAD").is_file());
    assert_eq!(world.open().check().unwrap(), []);
}
