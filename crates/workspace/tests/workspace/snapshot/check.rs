//! Damage is found and reported; the rest still works.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use windlass_workspace::{Damage, DamagedSnapshot, Git, SnapshotError};

use crate::snapshot::world::{KINDS, Kind, World, changing};

/// How an object's file is damaged.
type Way = fn(Vec<u8>) -> Option<Vec<u8>>;

fn object(world: &World, id: &str) -> PathBuf {
    let place = |objects: PathBuf| objects.join(&id[..2]).join(&id[2..]);
    let own = place(world.private().join("objects"));
    if own.exists() { own } else { place(world.project().join(".git/objects")) }
}

fn spoil(path: &PathBuf, how: Way) {
    let bytes = fs::read(path).unwrap();
    fs::remove_file(path).unwrap();
    if let Some(bytes) = how(bytes) {
        fs::write(path, bytes).unwrap();
    }
}

#[test]
fn one_damaged_snapshot_is_named_and_the_others_work() {
    let ways: [Way; 4] = [
        |_| None,
        |_| Some(b"garbage".to_vec()),
        |_| Some(Vec::new()),
        |mut bytes| {
            let last = bytes.len() - 2;
            bytes[last] ^= 0x55;
            Some(bytes)
        },
    ];
    for (number, kind) in KINDS.into_iter().enumerate() {
        let world = World::new(kind);
        let snapshots = world.open();
        world.write("d/a", "one\n");
        world.write("same", "always here\n");
        let one = world.capture("run/1");
        world.write("d/a", "two\n");
        let two = world.capture("run/2");
        world.write("d/a", "three\n");
        let three = world.capture("run/3");
        assert_eq!(snapshots.check().unwrap(), []);
        let bad = snapshots.changes(&one, &two).unwrap()[0].after.clone().unwrap().object;
        spoil(&object(&world, &bad), ways[number % ways.len()]);
        let fault =
            DamagedSnapshot { reference: "run/2".into(), damage: Damage::Object(bad.clone()) };
        assert_eq!(snapshots.check().unwrap(), [fault]);
        let before = world.things();
        let error = snapshots.change(&world.path(), &changing(&three, &two)).unwrap_err();
        assert_eq!(error, SnapshotError::Corrupt { tree: two.clone(), object: bad.clone() });
        assert_eq!(error.code().as_str(), "SNAPSHOT_CORRUPT");
        assert_eq!(world.things(), before);
        snapshots.read(&two, "d/a".as_ref(), 100).unwrap_err();
        world.restore(&three, &one);
        assert_eq!(fs::read(world.path().join("d/a")).unwrap(), b"one\n");
    }
}

#[test]
fn a_content_in_another_ones_place_is_found() {
    let world = World::new(Kind::Repository);
    world.write("a", "one\n");
    let one = world.capture("1");
    world.write("a", "two\n");
    let two = world.capture("2");
    let change = world.open().changes(&one, &two).unwrap().remove(0);
    let (before, after) = (change.before.unwrap().object, change.after.unwrap().object);
    let path = object(&world, &before);
    fs::remove_file(&path).unwrap();
    // Well compressed, of the right size, but it does not match its id.
    fs::copy(object(&world, &after), path).unwrap();
    let fault = DamagedSnapshot { reference: "1".into(), damage: Damage::Object(before) };
    assert_eq!(world.open().check().unwrap(), [fault]);
    world.open().change(&world.path(), &changing(&two, &one)).unwrap_err();
    assert_eq!(fs::read(world.path().join("a")).unwrap(), b"two\n");
}

#[test]
fn a_damaged_tree_is_damage_to_everything_that_needs_it() {
    let world = World::new(Kind::Repository);
    let snapshots = world.open();
    world.write("a", "one\n");
    let one = world.capture("1");
    world.write("a", "two\n");
    let two = world.capture("2");
    spoil(&object(&world, one.as_str()), |_| Some(b"x".to_vec()));
    let fault =
        DamagedSnapshot { reference: "1".into(), damage: Damage::Object(one.as_str().to_owned()) };
    assert_eq!(snapshots.check().unwrap(), [fault]);
    let expected = SnapshotError::Corrupt { tree: one.clone(), object: one.as_str().to_owned() };
    assert_eq!(snapshots.changes(&two, &one).unwrap_err(), expected);
    assert_eq!(snapshots.text_diff(&two, &one, &[], 1000).unwrap_err(), expected);
    assert_eq!(snapshots.merge(&one, &two, &two).unwrap_err(), expected);
    assert_eq!(snapshots.read(&one, "a".as_ref(), 9).unwrap_err(), expected);
}

#[test]
fn a_broken_name_is_reported() {
    for kind in [Kind::Repository, Kind::Folder] {
        let world = World::new(kind);
        let snapshots = world.open();
        let one = world.capture("run/1");
        world.capture("run/2");
        fs::write(world.private().join("refs/windlass/run/2"), "garbage").unwrap();
        let fault = DamagedSnapshot { reference: "run/2".into(), damage: Damage::Reference };
        assert_eq!(snapshots.check().unwrap(), [fault]);
        assert_eq!(snapshots.references().unwrap(), [("run/1".to_owned(), one)]);
    }
}

#[test]
fn snapshots_that_are_stored_during_a_check_are_no_damage() {
    let world = World::new(Kind::Repository);
    let snapshots = world.open();
    world.write("a", "one\n");
    let tree = world.capture("run/0");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 1;
            while !done.load(Ordering::SeqCst) {
                snapshots.set_reference(&tree, &format!("run/{number}")).unwrap();
                number += 1;
            }
        });
        let checks: Vec<_> = (0..30).map(|_| snapshots.check()).collect();
        done.store(true, Ordering::SeqCst);
        for check in checks {
            assert_eq!(check, Ok(Vec::new()));
        }
    });
}

#[test]
fn a_kept_commit_is_no_damage_until_its_files_are_gone() {
    let world = World::new(Kind::Repository);
    let snapshots = world.open();
    world.write("a", "one\n");
    world.git(&["add", "a"]);
    world.git(&["commit", "-q", "-m", "a"]);
    let git = Git::new(world.project());
    let head = git.head().unwrap().unwrap();
    git.keep_commit("run/commit", &head).unwrap();
    assert_eq!(snapshots.check(), Ok(Vec::new()));
    let blob = world.git(&["rev-parse", "HEAD:a"]);
    spoil(&object(&world, blob.trim()), |_| None);
    let damaged = snapshots.check().unwrap();
    assert_eq!(damaged[0].reference, "run/commit");
    git.release_commit("run/commit").unwrap();
    git.release_commit("run/commit").unwrap();
    assert_eq!(snapshots.check(), Ok(Vec::new()));
    // A ref to nothing would stop each later garbage collection.
    let gone = "1".repeat(40).parse().unwrap();
    git.keep_commit("run/commit", &gone).unwrap_err();
    assert_eq!(snapshots.check(), Ok(Vec::new()));
}

#[test]
fn a_capture_whose_objects_were_pruned_is_made_again() {
    let world = World::new(Kind::Repository);
    let snapshots = world.open();
    world.write("a", "one\n");
    snapshots.capture_unreferenced(&world.path()).unwrap();
    world.write("b", "two\n");
    world.git(&["gc", "-q", "--prune=now"]);
    snapshots.capture(&world.path(), "run/1").unwrap();
    assert_eq!(snapshots.check(), Ok(Vec::new()));
    world.git(&["gc", "-q", "--prune=now"]);
    assert_eq!(snapshots.check(), Ok(Vec::new()));
}
