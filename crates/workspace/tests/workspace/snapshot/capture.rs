//! Captures, and the private index between them.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use windlass_workspace::{Snapshots, TreeId};

use crate::snapshot::world::{KINDS, Kind, World, changing, git_in};

fn names(world: &World, tree: &TreeId) -> Vec<String> {
    let empty = World::new(world.kind).capture("empty");
    let snapshots = world.open();
    // Every git has the empty tree.
    let changes = snapshots.changes(&empty, tree).unwrap();
    changes.into_iter().map(|change| change.path.to_str().unwrap().to_owned()).collect()
}

fn own_files(world: &World, beginning: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(world.private()).unwrap().map(|entry| entry.unwrap().path());
    entries
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(beginning))
        .collect()
}

#[test]
fn nothing_ignored_is_captured_wherever_it_is_said() {
    let world = World::new(Kind::Repository);
    world.write(".gitignore", "one\n!two\n");
    world.write("d/.gitignore", "/three\n");
    fs::write(world.project().join(".git/info/exclude"), "four\ntwo\n").unwrap();
    let everywhere = world.root().join("everywhere");
    fs::write(&everywhere, "five\nsix\n").unwrap();
    world.git(&["config", "core.excludesFile", everywhere.to_str().unwrap()]);
    for name in ["one", "two", "d/three", "three", "four", "five", "d/six", "seven"] {
        world.write(name, name);
    }
    let tree = world.capture("x");
    assert_eq!(names(&world, &tree), [".gitignore", "d/.gitignore", "seven", "three", "two"]);
    // As git itself would have it.
    world.git(&["add", "-A"]);
    assert_eq!(world.git(&["write-tree"]).trim(), tree.as_str());
}

#[test]
fn secrets_that_nobody_has_committed_are_not_captured() {
    for kind in KINDS {
        let world = World::new(kind);
        let before = world.capture("before");
        for name in [".env", "d/server.key", "d/plain"] {
            world.write(name, name);
        }
        world.capture("first");
        // Nor is what changes later, or was staged.
        world.write(".env", "changed");
        if matches!(kind, Kind::Repository | Kind::Inside) {
            world.git(&["add", "-A"]);
        }
        let tree = world.capture("second");
        let changes = world.open().changes(&before, &tree).unwrap();
        let names: Vec<_> = changes.iter().map(|change| change.path.to_str().unwrap()).collect();
        assert_eq!(names, ["d/plain"], "{kind:?}");
        // Going back leaves them alone.
        world.restore(&tree, &before);
        assert!(world.path().join(".env").exists() && !world.path().join("d/plain").exists());
    }
}

#[test]
fn secrets_that_are_committed_are_captured() {
    let world = World::new(Kind::Repository);
    world.write("test.key", "one");
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "a fixture"]);
    let before = world.capture("before");
    world.write("test.key", "two");
    assert_ne!(world.capture("after"), before);
}

#[test]
fn an_outer_ignore_file_counts_for_a_folder_inside() {
    let world = World::new(Kind::Inside);
    fs::write(world.project().join(".gitignore"), "/in ner/one\n").unwrap();
    fs::write(world.project().join("outside"), "x").unwrap();
    world.write("one", "");
    world.write("two", "");
    assert_eq!(names(&world, &world.capture("x")), ["two"]);
    world.remove("two");
    assert_eq!(names(&world, &world.capture("x")), Vec::<String>::new());
}

#[test]
fn what_the_user_tracks_is_captured_though_it_is_ignored() {
    for kind in [Kind::Repository, Kind::Worktree, Kind::Inside] {
        let world = World::new(kind);
        world.write(".gitignore", "ignored*\n");
        world.write("ignored-1", "1");
        world.write("ignored-2", "2");
        assert_eq!(names(&world, &world.capture("x")), [".gitignore"]);
        git_in(&world.path(), &["add", "-f", "ignored-1"]);
        let one = world.capture("x");
        assert_eq!(names(&world, &one), [".gitignore", "ignored-1"]);
        // Removed and created again.
        world.remove("ignored-1");
        assert_eq!(names(&world, &world.capture("x")), [".gitignore"]);
        world.write("ignored-1", "1");
        assert_eq!(world.capture("x"), one);
    }
}

#[test]
fn what_was_captured_stays_captured_when_it_becomes_ignored() {
    let world = World::new(Kind::Folder);
    world.write("a", "1");
    let before = world.capture("before");
    world.write(".gitignore", "a\n");
    world.write("a", "2");
    let after = world.capture("after");
    assert_eq!(names(&world, &after), [".gitignore", "a"]);
    own_files(&world, "index-").iter().for_each(|index| fs::remove_file(index).unwrap());
    assert_eq!(world.capture("again"), after);
    world.restore(&after, &before);
    assert_eq!(fs::read(world.path().join("a")).unwrap(), b"1");
    world.restore(&before, &after);
    assert_eq!(fs::read(world.path().join("a")).unwrap(), b"2");
    assert_eq!(world.capture("again"), after);
}

#[test]
fn quick_edits_of_the_same_size_are_seen() {
    let world = World::new(Kind::Repository);
    let snapshots = world.open();
    let mut seen = Vec::new();
    for number in 0..40 {
        world.write("a", format!("{number:4}"));
        let tree = snapshots.capture_unreferenced(&world.path()).unwrap().tree;
        let read = snapshots.read(&tree, "a".as_ref(), 10).unwrap().unwrap();
        assert_eq!(read, format!("{number:4}").into_bytes());
        seen.push(tree);
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 40);
}

#[test]
fn an_index_that_is_not_ours_any_more_is_made_anew() {
    let world = World::new(Kind::Repository);
    world.write("a", "1");
    world.write("d/b", "2");
    let tree = world.capture("x");
    for spoil in [
        (|index: &PathBuf| fs::write(index, "garbage").unwrap()) as fn(&PathBuf),
        |index| fs::write(index, "").unwrap(),
        |index| fs::remove_file(index).unwrap(),
        |index| fs::write(index.with_extension("lock"), "").unwrap(),
        |index| {
            let mut lock = index.clone().into_os_string();
            lock.push(".lock");
            fs::write(lock, "").unwrap();
        },
    ] {
        own_files(&world, "index-").iter().for_each(spoil);
        assert_eq!(world.capture("y"), tree);
        world.write("a", "other");
        assert_ne!(world.capture("y"), tree);
        world.write("a", "1");
        assert_eq!(world.capture("y"), tree);
    }
    for state in own_files(&world, "state-") {
        fs::write(state, "{}").unwrap();
    }
    assert_eq!(world.capture("y"), tree);
    fs::write(world.private().join("config"), "[core]\nautocrlf = true\n").unwrap();
    fs::remove_file(world.private().join("info/attributes")).unwrap();
    assert_eq!(world.capture("y"), tree);
    assert_eq!(world.open().check().unwrap(), []);
}

#[test]
fn an_index_that_names_another_content_is_not_believed() {
    let world = World::new(Kind::Repository);
    world.write("a", "1");
    world.write("b", "2");
    // Old enough for git to trust its times.
    let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1 << 30);
    let file = fs::File::options().write(true).open(world.path().join("a")).unwrap();
    file.set_modified(long_ago).unwrap();
    world.capture("x");
    let id = |text: &str| -> Vec<u8> {
        world.write("c", text);
        let hex = world.git(&["hash-object", "c"]);
        let hex = hex.trim().as_bytes();
        hex.chunks(2)
            .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    };
    let (one, two) = (id("1"), id("2"));
    let index = own_files(&world, "index-").remove(0);
    let mut bytes = fs::read(&index).unwrap();
    let place = bytes.windows(20).position(|window| window == one).unwrap();
    bytes[place..place + 20].copy_from_slice(&two);
    fs::write(&index, bytes).unwrap();
    // Git does not notice: size and times are right, and the content is there.
    let tree = world.capture("y");
    assert_eq!(world.open().read(&tree, "a".as_ref(), 9).unwrap().unwrap(), b"1");
}

#[test]
fn captures_at_once_agree() {
    for kind in KINDS {
        let world = World::new(kind);
        for number in 0..50 {
            world.write(format!("d{}/{number}", number % 7), number.to_string());
        }
        let path = world.path();
        let trees: Vec<TreeId> = std::thread::scope(|scope| {
            let captures: Vec<_> = (0..6)
                .map(|number| {
                    let (world, path) = (&world, &path);
                    scope.spawn(move || {
                        let snapshots = Snapshots::open(&world.private(), &world.project());
                        snapshots.unwrap().capture(path, &format!("at-once/{number}")).unwrap().tree
                    })
                })
                .collect();
            captures.into_iter().map(|capture| capture.join().unwrap()).collect()
        });
        assert!(trees.iter().all(|tree| *tree == trees[0]), "{kind:?}");
        let kept = world.open().references().unwrap();
        assert_eq!(kept.len(), 6);
        assert!(kept.iter().all(|(_, tree)| *tree == trees[0]));
    }
}

#[test]
fn names_keep_and_forget() {
    for kind in KINDS {
        let world = World::new(kind);
        let snapshots = world.open();
        world.write("a", "1");
        let one = world.capture("run/pre");
        world.write("a", "2");
        let two = world.capture("run/post");
        let expected = [("run/post".to_owned(), two.clone()), ("run/pre".to_owned(), one.clone())];
        assert_eq!(snapshots.references().unwrap(), expected);
        world.capture("run2/pre");
        let of_run = ["run/post", "run/pre"].map(str::to_owned);
        assert_eq!(snapshots.reference_names_in("run").unwrap(), BTreeSet::from(of_run));
        assert_eq!(snapshots.reference_names_in("ru").unwrap(), BTreeSet::new());
        assert_eq!(snapshots.reference_names().unwrap().len(), 3);
        snapshots.reference_names_in("../heads").unwrap_err();
        snapshots.delete_references(&["run2/pre".to_owned()]).unwrap();
        snapshots.set_reference(&one, "run/post").unwrap();
        snapshots.delete_references(&["run/pre".to_owned()]).unwrap();
        snapshots.delete_references(&["run/never".to_owned()]).unwrap();
        assert_eq!(snapshots.references().unwrap(), [("run/post".to_owned(), one.clone())]);
        let missing: TreeId = "1".repeat(one.as_str().len()).parse().unwrap();
        snapshots.set_reference(&missing, "run/post").unwrap_err();
        snapshots.set_reference(&one, "../heads/main").unwrap_err();
        assert_eq!(snapshots.references().unwrap().len(), 1);
    }
}

#[test]
fn a_repository_inside_is_named_and_never_lost() {
    let world = World::new(Kind::Repository);
    world.write("in/file", "1");
    let inner = world.path().join("in");
    git_in(&inner, &["init", "-q"]);
    let snapshots = world.open();
    let capture = |name: &str| snapshots.capture(&world.path(), name).unwrap();
    // Without a commit there is nothing to point at.
    let unborn = capture("a");
    assert_eq!(unborn.nested, [PathBuf::from("in")]);
    assert_eq!(names(&world, &unborn.tree), Vec::<String>::new());
    assert_eq!(world.open().nested(&unborn.tree).unwrap(), [PathBuf::from("in")]);
    git_in(&inner, &["add", "-A"]);
    git_in(&inner, &["commit", "-q", "-m", "x"]);
    let born = capture("b");
    assert_eq!(born.nested, [PathBuf::from("in")]);
    assert_eq!(names(&world, &born.tree), ["in"]);
    assert_eq!(world.open().nested(&born.tree).unwrap(), [PathBuf::from("in")]);
    assert_eq!(capture("b"), born);
    git_in(&inner, &["commit", "-q", "--allow-empty", "-m", "y"]);
    let moved = capture("c");
    assert_ne!(moved.tree, born.tree);
    let restored = snapshots.change(&world.path(), &changing(&moved.tree, &unborn.tree)).unwrap();
    assert_eq!(restored.nested, [PathBuf::from("in")]);
    assert_eq!(fs::read(inner.join("file")).unwrap(), b"1");
    // Once it is no repository, its files are the workspace's.
    fs::remove_dir_all(inner.join(".git")).unwrap();
    let plain = capture("d");
    assert_eq!(plain.nested, Vec::<PathBuf>::new());
    assert_eq!(names(&world, &plain.tree), ["in/file"]);
    // And stay so when it becomes one again.
    git_in(&inner, &["init", "-q"]);
    git_in(&inner, &["add", "-A"]);
    git_in(&inner, &["commit", "-q", "-m", "x"]);
    world.write("in/file", "2");
    world.write("in/new", "2");
    let again = capture("e");
    assert_eq!(names(&world, &again.tree), ["in/file", "in/new"]);
    world.restore(&again.tree, &plain.tree);
    assert_eq!(fs::read(inner.join("file")).unwrap(), b"1");
    assert!(inner.join(".git").is_dir() && !inner.join("new").exists());
    world.restore(&plain.tree, &again.tree);
    assert_eq!(capture("e"), again);
}
