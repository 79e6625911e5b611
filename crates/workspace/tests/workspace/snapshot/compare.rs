//! Differences between snapshots.

use std::path::{Path, PathBuf};

use windlass_workspace::{ChangeKind, Entry, EntryMode, PathChange};

use crate::snapshot::world::{KINDS, Kind, World};

#[test]
fn every_kind_of_change_is_reported() {
    for kind in KINDS {
        let world = World::new(kind);
        for name in ["gone", "modified", "mode", "type", "same"] {
            world.write(name, "1\n");
        }
        let from = world.capture("from");
        world.remove("gone");
        world.write("modified", "22\n");
        world.mode("mode", 0o755);
        world.remove("type");
        world.link("type", "same");
        world.write("new\n", "333\n");
        let to = world.capture("to");
        let changes = world.open().changes(&from, &to).unwrap();
        let told: Vec<_> = changes
            .iter()
            .map(|change| {
                let facts = |entry: &Option<Entry>| {
                    entry.as_ref().map(|entry| (entry.mode, entry.size.unwrap()))
                };
                let path = change.path.to_str().unwrap();
                (path, change.kind, facts(&change.before), facts(&change.after))
            })
            .collect();
        let file = |size| Some((EntryMode::File, size));
        let executable = Some((EntryMode::Executable, 2));
        let expected = [
            ("gone", ChangeKind::Removed, file(2), None),
            ("mode", ChangeKind::ModeChanged, file(2), executable),
            ("modified", ChangeKind::Modified, file(2), file(3)),
            ("new\n", ChangeKind::Added, None, file(4)),
            ("type", ChangeKind::TypeChanged, file(2), Some((EntryMode::Symlink, 4))),
        ];
        assert_eq!(told, expected);
        assert_eq!(world.open().changes(&to, &to).unwrap(), Vec::<PathChange>::new());
    }
}

#[test]
fn a_difference_as_text_is_limited_and_names_binary_files() {
    let world = World::new(Kind::Repository);
    world.write("a", "1\n2\n");
    world.write("b", b"\0\x01");
    world.write(".gitattributes", "a binary\nb diff\n*.x diff=odd\n");
    world.git(&["config", "diff.odd.command", "/bin/false"]);
    world.git(&["config", "diff.external", "/bin/false"]);
    let from = world.capture("from");
    world.write("a", "1\nzwei\n");
    world.write("b", b"\0\x02");
    world.write("d/c.x", "x\n");
    let to = world.capture("to");
    let snapshots = world.open();
    let diff = |paths: &[&Path], most| {
        let diff = snapshots.text_diff(&from, &to, paths, most).unwrap();
        (String::from_utf8(diff.bytes).unwrap(), diff.truncated)
    };
    let (all, truncated) = diff(&[], 10_000);
    assert!(!truncated);
    assert!(all.contains("\n-2\n+zwei\n") && all.contains("\n+x\n"), "{all}");
    assert!(all.contains("Binary files a/b and b/b differ"), "{all}");
    let (some, _) = diff(&["d".as_ref()], 10_000);
    assert!(some.starts_with("diff --git a/d/c.x b/d/c.x\n") && !some.contains("zwei"), "{some}");
    assert_eq!(diff(&[], 40), (all[..40].to_owned(), true));
    assert_eq!(diff(&["*".as_ref()], 10_000).0, "");
}

#[test]
fn a_file_is_read_up_to_a_limit() {
    let world = World::new(Kind::Folder);
    world.write("d/a", "12345");
    world.link("l", "d/a");
    let tree = world.capture("x");
    let snapshots = world.open();
    let read = |path: &str, most| snapshots.read(&tree, path.as_ref(), most);
    assert_eq!(read("d/a", 5).unwrap().unwrap(), b"12345");
    assert_eq!(read("./d//a", 5).unwrap(), None);
    assert_eq!(read("l", 5).unwrap().unwrap(), b"d/a");
    let error = read("d/a", 4).unwrap_err();
    assert_eq!(error.code().as_str(), "SNAPSHOT_FAILED");
    for nothing in ["d", "x", "../project/d/a", "/etc/passwd", "", "d/a/b", "*"] {
        assert_eq!(read(nothing, 5).unwrap(), None, "{nothing}");
    }
    assert_eq!(PathBuf::from("d//a").components().count(), 2);
}
