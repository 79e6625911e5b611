//! Changes that are cut off after any number of writes and made again: the end is always the same, and nothing is lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tempfile::TempDir;

use windlass_workspace::{OnConflict, SnapshotError, Snapshots, WorkspaceChange, die_after};

use crate::seed;

/// Few paths, so that files and folders replace each other.
const PATHS: [&str; 7] = ["a", "a/b", "a/b/c", "d/e", "d/f", "g", "ignored"];

/// The lines of a file; those of two sides can be merged if they differ far apart.
type Lines = [u8; 3];
type Files = BTreeMap<PathBuf, String>;

fn text(lines: Lines) -> String {
    let gap = "-\n".repeat(4);
    lines.map(|line| format!("{line}\n")).join(&gap)
}

fn write(root: &Path, name: &str, lines: Option<Lines>) {
    let path = root.join(name);
    // What lies on the way or in the place gives way.
    for above in Path::new(name).ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
        if root.join(above).is_file() {
            fs::remove_file(root.join(above)).unwrap();
        }
    }
    if path.is_dir() {
        fs::remove_dir_all(&path).unwrap();
    }
    match lines {
        Some(lines) => {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text(lines)).unwrap();
        }
        None => drop(fs::remove_file(&path)),
    }
}

fn files(root: &Path) -> Files {
    let mut found = Files::new();
    let mut open = vec![PathBuf::new()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            if root.join(&path).is_dir() {
                open.push(path);
            } else {
                let text = fs::read_to_string(root.join(&path)).unwrap();
                found.insert(path, text);
            }
        }
    }
    found
}

type Edits = Vec<(usize, Option<Lines>)>;

fn edits() -> impl Strategy<Value = Edits> {
    let line = 0_u8..3;
    let lines = prop::option::weighted(0.8, [line.clone(), line.clone(), line]);
    prop::collection::vec((0..PATHS.len(), lines), 1..6)
}

fn edit(root: &Path, edits: &Edits) {
    for (place, lines) in edits {
        write(root, PATHS[*place], *lines);
    }
}

fn run([start, made, mine]: [&Edits; 3], overwrites: bool) {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("project");
    fs::create_dir(&root).unwrap();
    let snapshots = Snapshots::open(&folder.path().join("private"), &root).unwrap();
    let capture = |name: &str| snapshots.capture(&root, name).unwrap().tree;
    fs::write(root.join(".gitignore"), "ignored\n").unwrap();
    edit(&root, start);
    let expected = capture("expected");
    edit(&root, made);
    let wanted = capture("wanted");
    let on_conflict = if overwrites { OnConflict::Overwrite } else { OnConflict::Refuse };
    let lay = |number: usize| {
        let keep = format!("lay-{number}");
        let now = snapshots.capture_unreferenced(&root).unwrap().tree;
        let back = WorkspaceChange { expected: &now, wanted: &expected, keep: &keep, on_conflict };
        // An ignored file in the way of the setup ends the case.
        let is_laid = snapshots.change(&root, &back).is_ok();
        edit(&root, mine);
        is_laid
    };
    if !lay(0) {
        return;
    }
    let before = files(&root);
    let (keep, expected, wanted) = ("whole", &expected, &wanted);
    let whole_change = WorkspaceChange { expected, wanted, keep, on_conflict };
    let whole = snapshots.change(&root, &whole_change);
    let end = files(&root);
    let is_refused = match whole {
        Ok(_) => false,
        Err(SnapshotError::Changed { .. }) => true,
        Err(error) => panic!("{error}"),
    };
    if is_refused {
        assert_eq!(end, before, "a refused change changes nothing");
        return;
    }
    // Whatever was there and is not any more is in a snapshot with a reference.
    let kept: Vec<_> = snapshots.references().unwrap();
    for (path, text) in before.iter().filter(|(path, text)| end.get(*path) != Some(*text)) {
        let read = |tree| snapshots.read(tree, path, 9999).unwrap();
        let is_kept = kept
            .iter()
            .filter(|(name, _)| name.starts_with("whole/"))
            .any(|(_, tree)| read(tree).as_deref() == Some(text.as_bytes()));
        assert!(is_kept, "{} is lost", path.display());
    }
    for dies_after in 0..12 {
        if !lay(dies_after + 1) || files(&root) != before {
            return;
        }
        let keep = format!("cut-{dies_after}");
        die_after(Some(dies_after));
        let change = WorkspaceChange { keep: &keep, ..whole_change };
        let cut = snapshots.change(&root, &change);
        die_after(None);
        // The process that goes on knows nothing of the one that died.
        let next = Snapshots::open(&folder.path().join("private"), &root).unwrap();
        next.change(&root, &change).unwrap();
        assert_eq!(files(&root), end, "cut after {dies_after} writes");
        if cut.is_ok() {
            return;
        }
    }
}

#[test]
fn a_change_that_is_cut_off_comes_to_the_same_end() {
    let strategy = (edits(), edits(), edits(), any::<bool>());
    TestRunner::new(seed::config(8))
        .run(&strategy, |(start, made, mine, overwrites)| {
            run([&start, &made, &mine], overwrites);
            Ok(())
        })
        .unwrap();
}
