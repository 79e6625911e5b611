//! Permissions and empty folders, which git trees do not have.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use windlass_workspace::{ChangeKind, Merged, PathChange, TreeId};

use crate::snapshot::world::{KINDS, Kind, World};

fn mode(world: &World, name: &str) -> u32 {
    fs::metadata(world.path().join(name)).unwrap().permissions().mode() & 0o7777
}

/// The changes as `kind mode → mode path`.
fn told(changes: &[PathChange]) -> Vec<String> {
    let line = |change: &PathChange| {
        let value = serde_json::to_value(change).unwrap();
        let mode = |name: &str| value[name].as_str().unwrap_or("-").to_owned();
        let (before, after) = (mode("mode_before"), mode("mode_after"));
        format!("{} {before} → {after} {}", change.kind.as_str(), change.path.display())
    };
    changes.iter().map(line).collect()
}

#[test]
fn a_change_of_permissions_alone_comes_back() {
    for kind in KINDS {
        let world = World::new(kind);
        for name in ["closed", "opened", "run.sh", "same"] {
            world.write(name, name);
        }
        for (name, mode) in [("opened", 0o600), ("run.sh", 0o750), ("same", 0o640)] {
            world.mode(name, mode);
        }
        let first = world.capture("first");
        let changed = [("closed", 0o400), ("opened", 0o644), ("run.sh", 0o4755)];
        for (name, mode) in changed {
            world.mode(name, mode);
        }
        let second = world.capture("second");
        assert_ne!(first, second, "{kind:?}");
        let changes = world.open().changes(&first, &second).unwrap();
        assert_eq!(
            told(&changes),
            [
                "modified 100644 → 100400 closed",
                "modified 100600 → 100644 opened",
                "modified 100750 → 104755 run.sh",
            ],
            "{kind:?}"
        );
        assert!(changes.iter().all(|change| change.kind == ChangeKind::ModeChanged));
        world.restore(&second, &first);
        let modes = ["closed", "opened", "run.sh", "same"].map(|name| mode(&world, name));
        assert_eq!(modes, [0o644, 0o600, 0o750, 0o640], "{kind:?}");
        assert_eq!(world.capture("again"), first, "{kind:?}");
        world.restore(&first, &second);
        let modes = changed.map(|(name, _)| mode(&world, name));
        assert_eq!(modes, changed.map(|(_, mode)| mode), "{kind:?}");
        assert_eq!(world.capture("once-more"), second, "{kind:?}");
    }
}

#[test]
fn each_capture_of_the_same_files_has_its_own_permissions() {
    let world = World::new(Kind::Repository);
    world.write("a", "x");
    let plain = world.capture("plain");
    world.mode("a", 0o600);
    let private = world.capture("private");
    world.mode("a", 0o640);
    let shared = world.capture("shared");
    for (from, to, expected) in
        [(&shared, &private, 0o600), (&private, &plain, 0o644), (&plain, &shared, 0o640)]
    {
        world.restore(from, to);
        assert_eq!(mode(&world, "a"), expected);
    }
    // A file with other bytes gets the permissions of its checkpoint, not those of the file that it replaces.
    world.write("a", "y");
    let other = world.capture("other");
    world.restore(&other, &plain);
    assert_eq!(mode(&world, "a"), 0o644);
    world.restore(&plain, &other);
    assert_eq!(mode(&world, "a"), 0o640);
}

#[test]
fn empty_folders_are_compared_and_come_back() {
    for kind in KINDS {
        let world = World::new(kind);
        world.write("a", "x");
        fs::create_dir_all(world.path().join("old/deep")).unwrap();
        let first = world.capture("first");
        fs::remove_dir_all(world.path().join("old")).unwrap();
        fs::create_dir_all(world.path().join("new")).unwrap();
        let second = world.capture("second");
        let changes = world.open().changes(&first, &second).unwrap();
        let expected = ["added - → 040000 new", "removed 040000 → - old/deep"];
        assert_eq!(told(&changes), expected, "{kind:?}");
        world.restore(&second, &first);
        assert!(world.path().join("old/deep").is_dir(), "{kind:?}");
        assert!(!world.path().join("new").exists(), "{kind:?}");
        assert_eq!(world.capture("again"), first, "{kind:?}");
    }
}

#[test]
fn empty_folders_that_are_ignored_are_left_out() {
    for kind in KINDS {
        let world = World::new(kind);
        world.write("new/.gitignore", "out/\n");
        world.write("new/file", "x");
        fs::create_dir_all(world.path().join("new/out/deep")).unwrap();
        fs::create_dir_all(world.path().join("new/kept")).unwrap();
        let first = world.capture("first");
        fs::remove_dir(world.path().join("new/out/deep")).unwrap();
        assert_eq!(world.capture("same"), first, "{kind:?}");
        fs::remove_dir(world.path().join("new/kept")).unwrap();
        let second = world.capture("second");
        let changes = world.open().changes(&first, &second).unwrap();
        assert_eq!(told(&changes), ["removed 040000 → - new/kept"], "{kind:?}");
        world.restore(&second, &first);
        let folders = ["new/kept", "new/out"].map(|name| world.path().join(name).is_dir());
        assert_eq!(folders, [true, true], "{kind:?}");
    }
}

#[test]
fn git_takes_such_a_snapshot_for_a_tree_and_keeps_it() {
    for kind in [Kind::Repository, Kind::Sha256] {
        let world = World::new(kind);
        world.write("a", "x");
        world.mode("a", 0o600);
        let tree = world.capture("one");
        world.write("a", "y");
        world.git(&["reflog", "expire", "--expire=now", "--all"]);
        world.git(&["gc", "-q", "--prune=now"]);
        world.git(&["fsck", "--strict", "--no-dangling"]);
        assert_eq!(world.git_with_snapshots(&["show", &format!("{tree}:a")]), "x");
        // Nothing of it is among the user's commits.
        assert_eq!(world.git(&["log", "--all", "--format=%s"]).trim(), "x");
        assert_eq!(world.open().check().unwrap(), Vec::new());
        let now = world.capture("now");
        world.restore(&now, &tree);
        assert_eq!(mode(&world, "a"), 0o600);
    }
}

#[test]
fn a_snapshot_with_permissions_that_is_damaged_is_told() {
    let world = World::new(Kind::Repository);
    world.write("a", "x");
    world.mode("a", 0o600);
    let tree = world.capture("one");
    let id = tree.as_str();
    let path = world.private().join("objects").join(&id[..2]).join(&id[2..]);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&path, "x").unwrap();
    let damaged = world.open().check().unwrap();
    assert_eq!(damaged.len(), 1, "{damaged:?}");
    let other: TreeId = world.git(&["rev-parse", "HEAD^{tree}"]).trim().parse().unwrap();
    assert!(world.open().changes(&other, &tree).is_err());
}

#[test]
fn permissions_kept_beside_an_older_snapshot_are_used() {
    let world = World::new(Kind::Repository);
    world.write("a", "x");
    let tree = world.capture("one");
    // As it was kept before snapshots had it themselves; 61 is `a`.
    let beside = world.private().join("extras");
    fs::create_dir_all(&beside).unwrap();
    let text = r#"{"folders":["656d707479"],"modes":{"61":384}}"#;
    fs::write(beside.join(tree.as_str()), text).unwrap();
    let now = world.capture("now");
    assert_ne!(now, tree);
    world.restore(&now, &tree);
    assert_eq!(mode(&world, "a"), 0o600);
    assert!(world.path().join("empty").is_dir());
    world.restore(&tree, &now);
    assert_eq!(mode(&world, "a"), 0o644);
    // It goes with its snapshot.
    world.open().delete_references(&["one".to_owned()]).unwrap();
    assert!(!beside.join(tree.as_str()).exists());
}

#[test]
fn no_number_of_files_drops_permissions() {
    let world = World::new(Kind::Folder);
    let names: Vec<String> =
        (0..10_050).map(|number| format!("d{}/{number}", number % 7)).collect();
    for name in names.iter().chain([&"zz-key".to_owned()]) {
        world.write(name, "x");
        world.mode(name, 0o600);
    }
    let one = world.capture("one");
    world.write("zz-key", "y");
    world.remove("d3");
    let two = world.capture("two");
    world.restore(&two, &one);
    for name in names.iter().filter(|name| name.starts_with("d3/")) {
        assert_eq!(mode(&world, name), 0o600, "{name}");
    }
    assert_eq!(mode(&world, "zz-key"), 0o600);
}

#[test]
fn a_merge_has_the_permissions_of_both_sides() {
    let world = World::new(Kind::Repository);
    for name in ["both", "gone", "ours", "theirs"] {
        world.write(name, "x");
    }
    world.mode("gone", 0o600);
    fs::create_dir(world.path().join("filled")).unwrap();
    fs::create_dir(world.path().join("kept")).unwrap();
    let base = world.capture("base");
    world.mode("ours", 0o600);
    world.mode("both", 0o640);
    fs::remove_dir(world.path().join("kept")).unwrap();
    let ours = world.capture("ours");
    world.restore(&ours, &base);
    world.mode("theirs", 0o400);
    world.mode("both", 0o604);
    world.remove("gone");
    world.write("filled/file", "x");
    fs::create_dir(world.path().join("made")).unwrap();
    let theirs = world.capture("theirs");
    let merged = world.open().merge(&base, &ours, &theirs).unwrap();
    let Merged::Clean(merged) = merged else { panic!("{merged:?}") };
    world.restore(&theirs, &merged);
    let modes = ["both", "ours", "theirs"].map(|name| mode(&world, name));
    assert_eq!(modes, [0o600, 0o600, 0o400]);
    let folders = ["filled", "kept", "made"].map(|name| world.path().join(name).is_dir());
    assert_eq!(folders, [true, false, true]);
    assert_eq!(world.capture("merged"), merged);
}

#[test]
fn files_added_to_a_snapshot_keep_their_permissions() {
    let world = World::new(Kind::Repository);
    world.write("a", "x");
    world.mode("a", 0o640);
    let first = world.capture("first");
    world.write("b", "x");
    world.mode("b", 0o600);
    world.mode("a", 0o600);
    fs::create_dir(world.path().join("made")).unwrap();
    let second = world.capture("second");
    let paths = ["b".into(), "made".into()];
    let combined = world.open().with_files(&first, &second, &paths).unwrap();
    world.restore(&second, &combined);
    assert_eq!((mode(&world, "a"), mode(&world, "b")), (0o640, 0o600));
    assert!(world.path().join("made").is_dir());
    assert_eq!(world.capture("third"), combined);
}

#[test]
fn a_difference_as_text_has_permissions() {
    let world = World::new(Kind::Repository);
    world.write("a", "x\n");
    let first = world.capture("first");
    world.mode("a", 0o600);
    let second = world.capture("second");
    let text = |from, to, max| world.open().text_diff(from, to, &[], max).unwrap();
    let whole = text(&first, &second, 1000);
    let expected = "diff --git a/a b/a\nold mode 100644\nnew mode 100600\n";
    assert_eq!(
        (String::from_utf8(whole.bytes).unwrap().as_str(), whole.truncated),
        (expected, false)
    );
    let part = text(&first, &second, 10);
    assert_eq!((part.bytes, part.truncated), (expected.as_bytes()[..10].to_vec(), true));
}
