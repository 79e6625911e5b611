//! Snapshots that an earlier version left in the user's repository are moved, whatever happens meanwhile.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use windlass_workspace::TreeId;

use crate::snapshot::world::{Kind, Things, World};

const FORGET: &str = "git reflog expire --expire=now --all; git gc -q --prune=now";

/// Makes it look as if an earlier version had made the private git directory.
fn mark_as_earlier(world: &World) {
    let path = world.private().join("config");
    let config = fs::read_to_string(&path).unwrap();
    assert!(config.contains("objects = borrowed"));
    fs::write(path, config.replace("objects = borrowed", "objects = repository")).unwrap();
}

/// Moves all that was captured to the user's repository, where an earlier version has it.
fn make_earlier(world: &World) {
    let private = world.private();
    let script = format!(
        "own='{}'
         git --git-dir=\"$own\" for-each-ref --format='create %(refname) %(objectname)' > ../refs
         export GIT_ALTERNATE_OBJECT_DIRECTORIES=\"$PWD/.git/objects\"
         git --git-dir=\"$own\" rev-list --objects --all --no-object-names > ../ids
         git --git-dir=\"$own\" pack-objects -q --stdout < ../ids > ../pack
         unset GIT_ALTERNATE_OBJECT_DIRECTORIES
         git index-pack --stdin < ../pack
         git update-ref --stdin < ../refs
         git for-each-ref --format='delete %(refname)' refs/windlass/base | git update-ref --stdin
         rm -rf \"$own\"/objects/?? \"$own\"/objects/pack/* \"$own\"/refs/windlass \"$own\"/packed-refs
         rm -rf \"$own\"/ledger \"$own\"/name",
        private.display()
    );
    let mut shell = Command::new("sh");
    shell.args(["-euc", &script]).current_dir(world.project()).stdout(Stdio::null());
    assert!(shell.status().unwrap().success());
    mark_as_earlier(world);
}

fn names(of: &[&str]) -> BTreeSet<String> {
    of.iter().map(ToString::to_string).collect()
}

fn users_refs(world: &World) -> Vec<String> {
    let refs = world.git(&["for-each-ref", "--format=%(refname)", "refs/windlass/"]);
    refs.lines().filter(|name| !name.contains("/base/")).map(str::to_owned).collect()
}

/// Three snapshots: of committed files, of others, and of one with permissions.
fn captured(world: &World) -> Vec<(TreeId, Things)> {
    let mut kept = Vec::new();
    world.write("a", "committed");
    world.script("git checkout -q -b here; git add .; git commit -qm a");
    kept.push((world.capture("one/1"), world.things()));
    world.write("a", "changed");
    world.write("d/new", "new");
    kept.push((world.capture("one/2"), world.things()));
    world.mode("d/new", 0o600);
    world.script("git commit -qam b; echo more > more");
    kept.push((world.capture("two/1"), world.things()));
    kept
}

fn assert_all_work(world: &World, kept: &[(TreeId, Things)]) {
    let snapshots = world.open();
    assert_eq!(snapshots.check().unwrap(), []);
    let mut from = world.capture("now");
    for (tree, things) in kept {
        world.restore(&from, tree);
        assert_eq!(world.things(), *things);
        from = tree.clone();
    }
    snapshots.delete_references(&["now".to_owned()]).unwrap();
}

#[test]
fn snapshots_of_an_earlier_version_are_moved_and_those_of_others_stay() {
    for kind in [Kind::Repository, Kind::Sha256, Kind::Worktree] {
        let world = World::new(kind);
        let kept = captured(&world);
        make_earlier(&world);
        world.script("git update-ref refs/windlass/one/commit HEAD");
        // They are used where they are.
        assert_all_work(&world, &kept);
        let snapshots = world.open();
        assert_eq!(
            snapshots.earlier_references().unwrap(),
            Some(names(&["one/1", "one/2", "two/1"]))
        );
        let all = names(&["one/1", "one/2", "one/commit", "two/1"]);
        assert_eq!(snapshots.reference_names().unwrap(), all);
        let of_one = names(&["one/1", "one/2", "one/commit"]);
        assert_eq!(snapshots.reference_names_in("one").unwrap(), of_one);
        assert_eq!(snapshots.move_earlier(&names(&["one/1", "one/2", "never"])).unwrap(), 2);
        assert_eq!(snapshots.earlier_references().unwrap(), None);
        assert_eq!(users_refs(&world), ["refs/windlass/one/commit", "refs/windlass/two/1"]);
        assert_eq!(snapshots.reference_names().unwrap(), all);
        assert_eq!(snapshots.reference_names_in("one").unwrap(), names(&["one/1", "one/2"]));
        world.script(FORGET);
        assert_all_work(&world, &kept);
        // Those of another project are as they were.
        snapshots.delete_references(&["one/commit".to_owned(), "two/1".to_owned()]).unwrap();
        assert_eq!(users_refs(&world), Vec::<String>::new());
        world.script("git checkout -q -B here HEAD~2");
        world.script(FORGET);
        assert_all_work(&world, &kept[..2]);
    }
}

#[test]
fn a_move_that_was_killed_is_done_again() {
    let world = World::new(Kind::Repository);
    let kept = captured(&world);
    make_earlier(&world);
    let all = names(&["one/1", "one/2", "two/1"]);
    let before = world.git(&["for-each-ref", "--format=create %(refname) %(objectname)"]);
    assert_eq!(world.open().move_earlier(&all).unwrap(), 3);
    // It was killed before it deleted the user's refs.
    for line in before.lines().filter(|line| line.contains("refs/windlass/")) {
        let words: Vec<&str> = line.split(' ').collect();
        world.git(&["update-ref", words[1], words[2]]);
    }
    mark_as_earlier(&world);
    assert_eq!(world.open().move_earlier(&all).unwrap(), 3);
    assert_eq!(users_refs(&world), Vec::<String>::new());
    world.script(FORGET);
    assert_all_work(&world, &kept);
}

#[test]
fn a_damaged_snapshot_of_an_earlier_version_stays_and_the_others_are_moved() {
    let world = World::new(Kind::Repository);
    let kept = captured(&world);
    make_earlier(&world);
    let id = "1".repeat(40);
    let tree = format!("printf '100644 blob {id}\tx\n' | git mktree --missing");
    let tree = world.script(&tree);
    world.git(&["update-ref", "refs/windlass/one/bad", tree.trim()]);
    let all = names(&["one/1", "one/2", "one/bad", "two/1"]);
    assert_eq!(world.open().move_earlier(&all).unwrap(), 3);
    assert_eq!(users_refs(&world), ["refs/windlass/one/bad"]);
    world.git(&["update-ref", "-d", "refs/windlass/one/bad"]);
    world.script(FORGET);
    assert_all_work(&world, &kept);
}

#[test]
fn thousands_are_moved_at_once() {
    let world = World::new(Kind::Repository);
    let kept = captured(&world);
    make_earlier(&world);
    let id = &kept[1].0;
    let input: String =
        (0..5000).map(|number| format!("create refs/windlass/run-{number}/pre {id}\n")).collect();
    fs::write(world.root().join("input"), input).unwrap();
    world.script("git update-ref --stdin < ../input; git pack-refs --all");
    let snapshots = world.open();
    let all = snapshots.earlier_references().unwrap().unwrap();
    assert_eq!(snapshots.move_earlier(&all).unwrap(), 5003);
    assert_eq!(users_refs(&world), Vec::<String>::new());
    assert_eq!(snapshots.references().unwrap().len(), 5003);
    world.script(FORGET);
    assert_all_work(&world, &kept);
}
