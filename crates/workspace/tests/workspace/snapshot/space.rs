//! The private git directory stays small, and loses nothing that a snapshot needs.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use crate::snapshot::world::{KINDS, Kind, World, changing, git_in};

/// More files than objects may be loose.
const MANY: usize = 6500;

/// The ids of all objects in the private git directory.
fn objects(world: &World) -> BTreeSet<String> {
    let format = ["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"];
    git_in(&world.private(), &format).lines().map(str::to_owned).collect()
}

fn loose(world: &World) -> usize {
    let counted = git_in(&world.private(), &["count-objects"]);
    counted.split(' ').next().unwrap().parse().unwrap()
}

fn bases(world: &World) -> String {
    world.git(&["for-each-ref", "refs/windlass/"])
}

#[test]
fn snapshots_without_a_reference_are_removed_in_the_end() {
    for kind in KINDS {
        let world = World::new(kind);
        let snapshots = world.open();
        world.write("same", "always");
        let names: Vec<String> = (0..4).map(|number| format!("run/{number}")).collect();
        let mut trees = Vec::new();
        for name in &names {
            world.write("a", name);
            world.write(format!("d/{name}"), name);
            world.mode("a", 0o600);
            trees.push((world.capture(name), world.things()));
        }
        let before = objects(&world);
        snapshots.delete_references(&names[..3]).unwrap();
        snapshots.free_space().unwrap();
        assert_eq!(objects(&world), before, "{kind:?}: they are young");
        snapshots.free_space_older_than(Duration::ZERO).unwrap();
        let left = objects(&world);
        assert!(left.len() < before.len() && left.is_subset(&before), "{kind:?}");
        assert_eq!(loose(&world), 0);
        for (tree, _) in &trees[..3] {
            assert!(!snapshots.has_tree(tree).unwrap());
        }
        assert_eq!(snapshots.check().unwrap(), []);
        world.write("a", "now");
        world.remove("d");
        let now = world.capture("now");
        world.restore(&now, &trees[3].0);
        assert_eq!(world.things(), trees[3].1);
        snapshots.delete_references(&["now".to_owned(), "run/3".to_owned()]).unwrap();
        snapshots.free_space_older_than(Duration::ZERO).unwrap();
        assert_eq!(objects(&world), BTreeSet::new(), "{kind:?}");
        if kind != Kind::Folder {
            assert_eq!(bases(&world), "", "{kind:?}");
        }
        // The private index names objects that are gone.
        assert_eq!(world.capture("again"), trees[3].0);
        assert_eq!(snapshots.check().unwrap(), []);
    }
}

#[test]
fn a_commit_is_protected_as_long_as_a_snapshot_borrows_from_it() {
    let world = World::new(Kind::Repository);
    let commit = |branch: &str, from: &str| {
        world.script(&format!("git checkout -q -b {branch} {from}; echo {branch} > a; git add a"));
        world.script("git commit -qm a");
    };
    commit("one", "main");
    let one = world.capture("one");
    let first = world.things();
    commit("two", "main");
    world.forget_last_capture();
    world.capture("two");
    assert_eq!(bases(&world).lines().count(), 2);
    let snapshots = world.open();
    snapshots.delete_references(&["two".to_owned()]).unwrap();
    snapshots.free_space_older_than(Duration::ZERO).unwrap();
    let left = bases(&world);
    assert!(left.starts_with(world.git(&["rev-parse", "one"]).trim()), "{left}");
    assert_eq!(left.lines().count(), 1);
    world.script("git checkout -q main; git branch -D one two");
    world.script("git reflog expire --expire=now --all; git gc -q --prune=now");
    let now = world.capture("now");
    world.restore(&now, &one);
    assert_eq!(world.things(), first);
}

#[test]
fn a_snapshot_without_a_reference_lasts_as_long_as_it_is_young() {
    let world = World::new(Kind::Repository);
    let snapshots = world.open();
    world.write("a", "1");
    let one = world.capture("one");
    let things = world.things();
    world.write("b", "2");
    let unnamed = snapshots.capture_unreferenced(&world.path()).unwrap().tree;
    let all = world.things();
    snapshots.delete_references(&["one".to_owned()]).unwrap();
    // Its objects are old, but it is not.
    let old = SystemTime::now() - Duration::from_secs(3600);
    for id in objects(&world) {
        let path = world.private().join("objects").join(&id[..2]).join(&id[2..]);
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
    }
    snapshots.free_space_older_than(Duration::from_secs(1800)).unwrap();
    world.remove("a");
    world.remove("b");
    let now = world.capture("now");
    snapshots.change(&world.path(), &changing(&now, &unnamed)).unwrap();
    assert_eq!(world.things(), all);
    snapshots.change(&world.path(), &changing(&unnamed, &one)).unwrap();
    assert_eq!(world.things(), things);
}

#[test]
fn many_objects_are_packed_and_none_is_left_to_the_user() {
    let world = World::new(Kind::Repository);
    for number in 0..MANY {
        world.write(format!("d/{number}"), number.to_string());
    }
    let one = world.capture("one");
    let things = world.things();
    assert_eq!(loose(&world), 0);
    // The user commits the same files, and git packs them.
    world.script("git checkout -q -b here; git add .; git commit -qm x; git gc -q");
    for number in 0..MANY {
        world.write(format!("d/{number}"), format!("other {number}"));
    }
    let two = world.capture("two");
    assert_eq!(loose(&world), 0);
    world.script("git checkout -qf main; git branch -D here");
    world.script("git reflog expire --expire=now --all; git gc -q --prune=now");
    let snapshots = world.open();
    assert_eq!(snapshots.check().unwrap(), []);
    snapshots.delete_references(&["two".to_owned()]).unwrap();
    snapshots.free_space_older_than(Duration::ZERO).unwrap();
    assert!(!snapshots.has_tree(&two).unwrap());
    let now = world.capture("now");
    world.restore(&now, &one);
    assert_eq!(world.things(), things);
}

#[test]
fn many_references_are_packed() {
    let world = World::new(Kind::Repository);
    let snapshots = world.open();
    world.write("a", "1");
    let tree = world.capture("run/first");
    for number in 0..300 {
        snapshots.set_reference(&tree, &format!("run/{number}")).unwrap();
    }
    let loose = fs::read_dir(world.private().join("refs/windlass/run")).unwrap().count();
    assert!(loose < 100, "{loose}");
    assert_eq!(snapshots.references().unwrap().len(), 301);
    assert_eq!(snapshots.reference_names_in("run").unwrap().len(), 301);
}

#[test]
fn what_killed_processes_left_is_removed() {
    let world = World::new(Kind::Repository);
    world.write("a", "1");
    world.capture("one");
    let objects = world.private().join("objects");
    let old = SystemTime::now() - Duration::from_secs(30 * 24 * 60 * 60);
    for name in ["pack/tmp_pack_x", "pack/tmp_idx_x", "ab/tmp_obj_x", "pack/pack-1.idx"] {
        let path = objects.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        File::create(&path).unwrap().set_modified(old).unwrap();
    }
    fs::write(objects.join("pack/tmp_pack_young"), "").unwrap();
    world.open().free_space().unwrap();
    let left: Vec<_> = fs::read_dir(objects.join("pack"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.contains("tmp_") || name.contains("-1."))
        .collect();
    assert_eq!(left, ["tmp_pack_young"]);
    assert!(!objects.join("ab/tmp_obj_x").exists());
    assert_eq!(world.open().check().unwrap(), []);
}

#[test]
fn captures_and_removals_at_the_same_time_lose_nothing() {
    for kind in [Kind::Repository, Kind::Folder] {
        let world = World::new(kind);
        let snapshots = world.open();
        std::thread::scope(|scope| {
            let removing = scope.spawn(|| {
                for _ in 0..12 {
                    world.open().free_space_older_than(Duration::ZERO).unwrap();
                }
            });
            let mut number = 0;
            while !removing.is_finished() {
                world.write("a", (number % 3).to_string());
                world.write(format!("d/{}", number % 2), number.to_string());
                snapshots.capture(&world.path(), &format!("run/{number}")).unwrap();
                if number > 0 {
                    let last = format!("run/{}", number - 1);
                    snapshots.delete_references(&[last]).unwrap();
                }
                number += 1;
            }
        });
        assert_eq!(snapshots.check().unwrap(), []);
        assert_eq!(snapshots.references().unwrap().len(), 1);
    }
}
