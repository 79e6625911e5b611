//! Changes of a workspace: what they write, what they refuse, and their errors.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use windlass_workspace::{Changed, OnConflict, SnapshotError, WorkspaceChange};

use crate::snapshot::world::{KINDS, Kind, World, changing, empty_folders};

fn paths(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}

#[track_caller]
fn refused(world: &World, outcome: Result<Changed, SnapshotError>, changed: &[&str], way: &[&str]) {
    let error = outcome.unwrap_err();
    let expected = SnapshotError::Changed { changed: paths(changed), in_the_way: paths(way) };
    assert_eq!(error, expected, "{:?}", world.kind);
    assert_eq!(error.code().as_str(), "WORKSPACE_CHANGED");
}

#[test]
fn only_what_differs_is_touched() {
    for kind in KINDS {
        let world = World::new(kind);
        for name in ["same", "changed", "d/gone", "d/e/gone", "mode"] {
            world.write(name, "1");
        }
        let from = world.capture("from");
        world.remove("d");
        world.write("changed", "2");
        world.write("new/er/file", "3");
        world.mode("mode", 0o755);
        let to = world.capture("to");
        world.restore(&to, &from);
        let inode = |name: &str| fs::metadata(world.path().join(name)).unwrap().ino();
        let (same, mode) = (inode("same"), inode("mode"));
        // Neither snapshot has these.
        world.write("foreign", "x");
        world.write("same", "edited meanwhile");
        let restored = world.open().change(&world.path(), &changing(&from, &to)).unwrap();
        let expected = Changed {
            written: paths(&["changed", "mode", "new/er/file"]),
            removed: paths(&["d/e/gone", "d/gone"]),
            ..Changed::default()
        };
        assert_eq!(restored, expected);
        assert_eq!((inode("same"), inode("mode")), (same, mode));
        assert_eq!(fs::read(world.path().join("same")).unwrap(), b"edited meanwhile");
        assert_eq!(fs::read(world.path().join("foreign")).unwrap(), b"x");
        assert_eq!(empty_folders(&world.path()), paths(&[]));
        // A second restore has nothing to do.
        let again = world.open().change(&world.path(), &changing(&from, &to)).unwrap();
        assert_eq!(again, Changed::default());
    }
}

#[test]
fn what_was_changed_since_is_never_overwritten() {
    let world = World::new(Kind::Repository);
    for name in ["a", "b", "c", "d/e", "f"] {
        world.write(name, "1");
    }
    let to = world.capture("to");
    for name in ["a", "b", "c", "d/e", "new"] {
        world.write(name, "2");
    }
    world.remove("f");
    let from = world.capture("from");
    world.write("a", "3");
    world.mode("b", 0o755);
    world.remove("c");
    world.remove("d/e");
    world.link("d/e", "x");
    world.write("new", "4");
    world.write("f", "5");
    let before = world.things();
    let outcome = world.open().change(&world.path(), &changing(&from, &to));
    refused(&world, outcome, &["a", "b", "c", "d/e", "new"], &["f"]);
    assert_eq!(world.things(), before);
}

#[test]
fn files_in_the_way_are_named() {
    let world = World::new(Kind::Folder);
    world.write(".gitignore", "/ignored\n*.log\n/folder/deep/x\n");
    let from = world.capture("from");
    world.write("folder", "file");
    world.write("file/below", "file");
    world.write("empty", "file");
    world.remove(".gitignore");
    world.write("ignored", "file");
    world.write("pipe", "file");
    let to = world.capture("to");
    world.restore(&to, &from);
    world.write("ignored", "mine");
    world.write("folder/deep/x", "mine");
    world.write("folder/other.log", "mine");
    world.write("file", "mine");
    fs::create_dir_all(world.path().join("empty/deep")).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(world.path().join("pipe")).status();
    assert!(fifo.unwrap().success());
    let outcome = world.open().change(&world.path(), &changing(&from, &to));
    let way = ["file", "folder/deep/x", "folder/other.log", "ignored", "pipe"];
    refused(&world, outcome, &[], &way);
    for name in ["ignored", "folder", "file", "pipe"] {
        world.remove(name);
    }
    // Empty folders are nothing to lose.
    world.restore(&from, &to);
    assert_eq!(world.capture("again"), to);
}

#[test]
fn files_folders_and_links_take_each_others_place() {
    for kind in KINDS {
        let world = World::new(kind);
        world.write("a", "file");
        world.write("b/c/d", "deep");
        world.link("l", "b");
        let from = (world.capture("from"), world.things());
        for name in ["a", "b", "l"] {
            world.remove(name);
        }
        world.write("a/b/c", "deep");
        world.link("b", "a");
        world.write("l/x", "file");
        let to = (world.capture("to"), world.things());
        for (one, other) in [(&to, &from), (&from, &to), (&to, &from)] {
            world.restore(&one.0, &other.0);
            assert_eq!(world.things(), other.1);
        }
    }
}

#[test]
fn a_private_file_stays_private() {
    let world = World::new(Kind::Repository);
    world.write("secret", "1");
    world.mode("secret", 0o600);
    let one = world.capture("one");
    world.write("secret", "2");
    world.mode("secret", 0o700);
    let two = world.capture("two");
    world.restore(&two, &one);
    let mode = || fs::metadata(world.path().join("secret")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    world.restore(&one, &two);
    assert_eq!(mode(), 0o700);
}

#[test]
fn what_is_neither_is_overwritten_only_on_demand_and_kept() {
    for kind in KINDS {
        let world = World::new(kind);
        world.write(".gitignore", "ignored\n");
        for name in ["a", "b", "gone"] {
            world.write(name, "1");
        }
        let from = world.capture("from");
        world.write("a", "2");
        world.write("b", "2");
        world.remove("gone");
        let to = (world.capture("to"), world.things());
        world.restore(&to.0, &from);
        world.write("a", "mine");
        world.write("gone", "mine too");
        world.remove("b");
        let snapshots = world.open();
        let change = changing(&from, &to.0);
        refused(&world, snapshots.change(&world.path(), &change), &["a", "b", "gone"], &[]);
        let forced = WorkspaceChange { on_conflict: OnConflict::Overwrite, ..change };
        let changed = snapshots.change(&world.path(), &forced).unwrap();
        assert_eq!(world.things(), to.1);
        assert_eq!(world.capture("again"), to.0);
        let found = changed.found.unwrap();
        let references = snapshots.references().unwrap();
        let kept = (format!("{}/found-1", change.keep), found.clone());
        assert!(references.contains(&kept), "{references:?}");
        let read = |name: &str| snapshots.read(&found, name.as_ref(), 9).unwrap();
        assert_eq!(read("a").unwrap(), b"mine");
        assert_eq!(read("gone").unwrap(), b"mine too");
        assert_eq!(read("b"), None);
        // Where everything is as expected, nothing was found.
        let back = snapshots.change(&world.path(), &changing(&to.0, &from)).unwrap();
        assert_eq!(back.found, None);
    }
}

#[test]
fn both_sides_of_a_file_are_merged() {
    let lines = |one: &str, five: &str| format!("{one}\n2\n3\n4\n{five}\n");
    for kind in KINDS {
        let world = World::new(kind);
        world.write("file", lines("1", "5"));
        let from = world.capture("from");
        world.write("file", lines("one", "5"));
        world.write("new", "new");
        let to = world.capture("to");
        world.restore(&to, &from);
        world.write("file", lines("1", "five"));
        world.write("mine", "mine");
        let change = changing(&from, &to);
        let snapshots = world.open();
        snapshots.prepare_change(&world.path(), &change).unwrap();
        let read = |name: &str| fs::read_to_string(world.path().join(name)).unwrap();
        assert_eq!(read("file"), lines("1", "five"), "a decision changes nothing");
        let changed = snapshots.change(&world.path(), &change).unwrap();
        assert!(changed.found.is_some());
        // A second time it does the same.
        for _ in 0..2 {
            assert_eq!(read("file"), lines("one", "five"));
            assert_eq!((read("new").as_str(), read("mine").as_str()), ("new", "mine"));
            snapshots.change(&world.path(), &change).unwrap();
        }
    }
}

#[test]
fn permissions_that_a_person_took_away_stay_away() {
    let world = World::new(Kind::Repository);
    world.write("key", "1");
    world.write("tool", "1");
    let from = world.capture("from");
    world.write("key", "2");
    world.mode("tool", 0o755);
    let to = world.capture("to");
    world.restore(&to, &from);
    world.mode("key", 0o600);
    world.mode("tool", 0o640);
    world.open().change(&world.path(), &changing(&from, &to)).unwrap();
    let mode =
        |name: &str| fs::metadata(world.path().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("key"), mode("tool")), (0o600, 0o750));
}

#[test]
fn what_no_snapshot_can_have_is_never_overwritten() {
    let world = World::new(Kind::Folder);
    world.write(".gitignore", "/ignored\n");
    world.write("a", "1");
    let from = world.capture("from");
    world.write(".gitignore", "");
    world.write("a", "2");
    world.write("ignored", "file");
    let to = world.capture("to");
    world.restore(&to, &from);
    world.write("ignored", "mine");
    let forced = WorkspaceChange { on_conflict: OnConflict::Overwrite, ..changing(&from, &to) };
    refused(&world, world.open().change(&world.path(), &forced), &[], &["ignored"]);
    assert_eq!(fs::read(world.path().join("ignored")).unwrap(), b"mine");
    assert_eq!(fs::read(world.path().join("a")).unwrap(), b"1");
}

#[test]
fn a_large_file_goes_through() {
    let world = World::new(Kind::Repository);
    // More than the output limit of other commands.
    let size = 80 * 1024 * 1024;
    world.write("large", "");
    let small = world.capture("small");
    let file = fs::File::create(world.path().join("large")).unwrap();
    file.set_len(size).unwrap();
    std::io::Write::write_all(&mut &file, b"beginning").unwrap();
    let large = world.capture("large");
    world.restore(&large, &small);
    world.restore(&small, &large);
    let read = fs::read(world.path().join("large")).unwrap();
    assert!(read.len() as u64 == size && read.starts_with(b"beginning\0"));
}

#[test]
fn a_snapshots_own_lists_say_what_is_ignored() {
    for kind in KINDS {
        let world = World::new(kind);
        let snapshots = world.open();
        world.write(".gitignore", "*.local\n/build/\n");
        world.write("sub/.gitignore", "!kept.local\nother\n");
        let then = snapshots.capture(&world.path(), "then").unwrap().tree;
        world.write(".gitignore", "none\n");
        world.remove("sub/.gitignore");
        let ask = ["dev.local", "a.txt", "build/x/y", "sub/kept.local", "sub/other", "x/other"];
        let ask: Vec<PathBuf> = ask.iter().map(PathBuf::from).collect();
        let ignored = snapshots.ignored(&world.path(), &then, &ask).unwrap();
        let ignored: Vec<&str> = ignored.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(ignored, ["build/x/y", "dev.local", "sub/other"], "{kind:?}");
        assert!(snapshots.ignored(&world.path(), &then, &[]).unwrap().is_empty());
        if kind == Kind::Inside {
            // A list above the workspace counts as it is now: a restore does not change it.
            std::fs::write(world.project().join(".gitignore"), "*.txt\n").unwrap();
            let ignored = snapshots.ignored(&world.path(), &then, &ask).unwrap();
            assert!(ignored.contains(Path::new("a.txt")), "{ignored:?}");
        }
        if kind == Kind::Repository {
            std::fs::create_dir_all(world.project().join(".git/info")).unwrap();
            std::fs::write(world.project().join(".git/info/exclude"), "a.txt\n").unwrap();
            let ignored = snapshots.ignored(&world.path(), &then, &ask).unwrap();
            assert!(ignored.contains(Path::new("a.txt")), "{ignored:?}");
        }
    }
}

#[test]
fn nothing_is_deleted_while_something_is_stored() {
    let world = World::new(Kind::Repository);
    let (one, two) = (world.open(), world.open());
    let storing = one.lock_for_storing().unwrap();
    // Others may store at the same time.
    drop(two.lock_for_storing().unwrap());
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let deleting = two.lock_for_deletion().unwrap();
            sender.send("deleted").unwrap();
            drop(deleting);
        });
        sender.send("stored").unwrap();
        drop(storing);
    });
    assert_eq!(receiver.recv(), Ok("stored"));
    assert_eq!(receiver.recv(), Ok("deleted"));
    drop(one.lock_for_storing().unwrap());
}
