//! Our files for workspaces that no longer exist.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use windlass_workspace::Snapshots;

use crate::snapshot::world::{Kind, World};

/// The names of our files for workspaces.
fn own_files(world: &World) -> Vec<String> {
    let entries = fs::read_dir(world.private()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_own = |name: &String| {
        name.len() > 32
            && ["index-", "state-", "stage-", "lock-", "tree-"]
                .iter()
                .any(|start| name.starts_with(start))
    };
    let mut names: Vec<String> = names.filter(is_own).collect();
    names.sort();
    names
}

/// Adds a work tree with a file, captures it, and returns our files for it.
fn captured(world: &World, snapshots: &Snapshots, name: &str) -> (PathBuf, Vec<String>) {
    let before = own_files(world);
    let path = world.root().join(name);
    world.git(&["worktree", "add", "-q", "--detach", path.to_str().unwrap()]);
    fs::write(path.join("a"), "x").unwrap();
    snapshots.capture(&path, &format!("run/{name}")).unwrap();
    let new = own_files(world).into_iter().filter(|file| !before.contains(file)).collect();
    (path, new)
}

fn remove(world: &World, path: &Path) {
    world.git(&["worktree", "remove", "--force", path.to_str().unwrap()]);
}

fn age(path: &Path) {
    let old = SystemTime::now() - Duration::from_secs(40 * 24 * 60 * 60);
    File::open(path).unwrap().set_modified(old).unwrap();
}

#[test]
fn what_belongs_to_a_removed_work_tree_is_swept_and_nothing_else() {
    let world = World::new(Kind::Repository);
    let snapshots = world.open();
    world.write("a", "x");
    world.capture("run/main");
    let kept = own_files(&world);
    let (path, files) = captured(&world, &snapshots, "one");
    assert_eq!(files.len(), 3, "{files:?}");
    let tree = files.iter().find(|file| file.starts_with("index-")).unwrap();
    fs::write(world.private().join(tree.replace("index-", "tree-")), "x").unwrap();
    assert_eq!(snapshots.sweep_workspaces().unwrap(), 0);
    remove(&world, &path);
    assert_eq!(snapshots.sweep_workspaces().unwrap(), 1);
    assert_eq!(own_files(&world), kept);
    assert_eq!(snapshots.sweep_workspaces().unwrap(), 0);
    assert_eq!(snapshots.check(), world.open().check());
    // It may come again.
    let (_, again) = captured(&world, &snapshots, "one");
    assert_eq!(again, files);
}

#[test]
fn a_new_work_tree_sweeps_what_the_last_one_left() {
    let world = World::new(Kind::Repository);
    let snapshots = world.open();
    for number in 0..5 {
        let (path, _) = captured(&world, &snapshots, &format!("tree-{number}"));
        fs::remove_dir_all(path).unwrap();
    }
    assert_eq!(own_files(&world).len(), 3, "{:?}", own_files(&world));
}

#[test]
fn whatever_a_crash_left_is_swept() {
    let world = World::new(Kind::Repository);
    let snapshots = world.open();
    let (path, files) = captured(&world, &snapshots, "one");
    let index = files.iter().find(|file| file.starts_with("index-")).unwrap();
    let writing = world.private().join(format!("{index}.lock"));
    let stage = world.private().join(index.replace("index-", "stage-"));
    remove(&world, &path);
    // A sweep removes the lock last; a capture makes it first.
    for left in [&files[..], &files[1..], &files[2..]] {
        for file in &files {
            fs::write(world.private().join(file), "").unwrap();
        }
        let lock = files.iter().find(|file| file.starts_with("lock-")).unwrap();
        fs::write(world.private().join(lock), path.to_str().unwrap()).unwrap();
        for file in files.iter().filter(|file| !left.contains(file) && !file.starts_with("lock-")) {
            fs::remove_file(world.private().join(file)).unwrap();
        }
        fs::write(&writing, "").unwrap();
        fs::create_dir_all(stage.join("folder")).unwrap();
        assert_eq!(snapshots.sweep_workspaces().unwrap(), 1, "{left:?}");
        assert_eq!(own_files(&world), Vec::<String>::new());
    }
}

#[test]
fn what_a_live_process_uses_is_left_alone() {
    let world = World::new(Kind::Repository);
    let snapshots = world.open();
    let (path, files) = captured(&world, &snapshots, "one");
    remove(&world, &path);
    let lock = files.iter().find(|file| file.starts_with("lock-")).unwrap();
    let held = File::open(world.private().join(lock)).unwrap();
    held.lock().unwrap();
    assert_eq!(snapshots.sweep_workspaces().unwrap(), 0);
    assert_eq!(own_files(&world), files);
    // Whoever waits for a lock that is removed meanwhile gets the new one.
    world.git(&["worktree", "add", "-q", "--detach", path.to_str().unwrap()]);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| snapshots.capture(&path, "run/again").unwrap());
        fs::remove_file(world.private().join(lock)).unwrap();
        drop(held);
        waiting.join().unwrap();
    });
    assert_eq!(fs::read(world.private().join(lock)).unwrap(), path.to_str().unwrap().as_bytes());
}

#[test]
fn what_says_not_whose_it_is_stays_until_it_is_old() {
    let world = World::new(Kind::Repository);
    let snapshots = world.open();
    world.write("a", "x");
    snapshots.capture(&world.path(), "run/main").unwrap();
    let main = own_files(&world);
    let (path, files) = captured(&world, &snapshots, "one");
    remove(&world, &path);
    // As versions before left it, and with the name of another folder.
    for text in ["", "/nowhere"] {
        for file in main.iter().chain(&files).filter(|file| file.starts_with("lock-")) {
            fs::write(world.private().join(file), text).unwrap();
        }
        assert_eq!(world.open().sweep_workspaces().unwrap(), 0);
    }
    for file in main.iter().chain(&files) {
        age(&world.private().join(file));
    }
    // What a process was writing when it was killed.
    let [old, new] = [".tmpold", ".tmpnew"].map(|name| world.private().join(name));
    fs::write(&old, "").unwrap();
    fs::write(&new, "").unwrap();
    age(&old);
    assert_eq!(world.open().sweep_workspaces().unwrap(), 1);
    assert_eq!(own_files(&world), main, "the project is there");
    assert!(!old.exists() && new.exists());
}

#[test]
fn a_work_tree_on_a_disk_that_is_not_there_is_not_gone() {
    let world = World::new(Kind::Repository);
    let snapshots = world.open();
    fs::create_dir(world.root().join("disk")).unwrap();
    let (path, files) = captured(&world, &snapshots, "disk/one");
    fs::rename(world.root().join("disk"), world.root().join("elsewhere")).unwrap();
    assert_eq!(snapshots.sweep_workspaces().unwrap(), 0);
    fs::rename(world.root().join("elsewhere"), world.root().join("disk")).unwrap();
    assert_eq!(snapshots.sweep_workspaces().unwrap(), 0);
    assert_eq!(own_files(&world), files);
    assert!(path.exists());
}
