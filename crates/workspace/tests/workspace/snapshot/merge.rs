//! Merges of snapshots.

use std::path::PathBuf;

use windlass_workspace::{Merged, TreeId};

use crate::snapshot::world::{KINDS, Kind, World};

/// Three snapshots of a file of ten lines: as it was, with the first line changed, and with another.
fn sides(world: &World, place: usize) -> [TreeId; 3] {
    let text = |place: usize, word: &str| {
        (1..=10)
            .map(|line| if line == place { format!("{word}\r\n") } else { format!("{line}\n") })
            .collect::<String>()
    };
    world.write("a", text(0, ""));
    let base = world.capture("base");
    world.write("a", text(1, "ours"));
    world.write("only-ours", "x");
    let ours = world.capture("ours");
    world.remove("only-ours");
    world.write("a", text(place, "theirs"));
    let theirs = world.capture("theirs");
    [base, ours, theirs]
}

#[test]
fn changes_that_fit_are_put_together() {
    for kind in KINDS {
        let world = World::new(kind);
        let [base, ours, theirs] = sides(&world, 10);
        let snapshots = world.open();
        let merged = snapshots.merge(&base, &ours, &theirs).unwrap();
        let Merged::Clean(tree) = merged.clone() else { panic!("{merged:?}") };
        let read = snapshots.read(&tree, "a".as_ref(), 100).unwrap().unwrap();
        assert_eq!(read, b"ours\r\n2\n3\n4\n5\n6\n7\n8\n9\ntheirs\r\n");
        assert_eq!(snapshots.read(&tree, "only-ours".as_ref(), 9).unwrap().unwrap(), b"x");
        assert_eq!(snapshots.merge(&base, &ours, &theirs).unwrap(), merged);
        assert_eq!(snapshots.references().unwrap().len(), 3);
    }
}

#[test]
fn changes_that_do_not_fit_are_marked() {
    let world = World::new(Kind::Repository);
    // None of these may change the result.
    world.write(".gitattributes", "* merge=odd\na merge=union -text\n");
    world.git(&["config", "merge.odd.driver", "touch ran; exit 0"]);
    world.git(&["config", "merge.default", "union"]);
    world.git(&["config", "merge.conflictStyle", "diff3"]);
    let [base, ours, theirs] = sides(&world, 1);
    let snapshots = world.open();
    let merged = snapshots.merge(&base, &ours, &theirs).unwrap();
    let Merged::Conflict { tree_with_markers, paths, messages } = merged.clone() else {
        panic!("{merged:?}")
    };
    assert_eq!(paths, [PathBuf::from("a")]);
    assert!(messages.iter().any(|message| message.contains("CONFLICT")), "{messages:?}");
    let read = snapshots.read(&tree_with_markers, "a".as_ref(), 999).unwrap().unwrap();
    let text = String::from_utf8(read).unwrap();
    let expected = "<<<<<<< ours\nours\r\n=======\ntheirs\r\n>>>>>>> theirs\n2\n";
    assert!(text.starts_with(expected), "{text}");
    assert_eq!(snapshots.merge(&base, &ours, &theirs).unwrap(), merged);
    assert!(!world.path().join("ran").exists());
    assert!(
        std::fs::read_dir(world.private())
            .unwrap()
            .all(|entry| { !entry.unwrap().file_name().to_str().unwrap().starts_with("merge-") })
    );
}
