//! Random workspaces and random edits: every capture comes back exactly, in any order.

use crate::seed;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use windlass_workspace::TreeId;

use crate::snapshot::world::{
    KINDS, Kind, Things, World, changing, empty_folders, git_in, is_ignored,
};

#[derive(Clone, Debug)]
enum Edit {
    Write { place: usize, content: Content },
    Link { place: usize, target: usize },
    Remove { place: usize },
    Executable { place: usize, on: bool },
    Rename { from: usize, to: usize },
    Touch { place: usize },
}

#[derive(Clone, Debug)]
enum Content {
    Empty,
    Text(u8),
    Crlf,
    Keyword,
    Bytes(Vec<u8>),
    Big(u8),
}

impl Content {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Empty => Vec::new(),
            // The same size each time, so that only the times and the bytes tell them apart.
            Self::Text(number) => format!("line {number:3}\n").into_bytes(),
            Self::Crlf => b"one\r\ntwo\nthree\r\n".to_vec(),
            Self::Keyword => b"$Id$ $Id: 1234 $\n\xff\xfea\0b\0".to_vec(),
            Self::Bytes(bytes) => bytes.clone(),
            Self::Big(number) => vec![*number; 300_000],
        }
    }
}

/// Few paths, so that files, links and folders replace each other.
fn places() -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = [
        "a",
        "a/b",
        "a/b/c",
        "d",
        "d/e",
        "d/f.txt",
        "x.txt",
        "ignored.log",
        "d/ignored/x",
        "é",
        "git~1",
        "e\u{301}",
        "new\nline",
        "-option",
        ":(glob)**",
        "with space ",
        "\"quoted\"\\",
        "deep/er/and/er",
        ".gitattributes",
        "d/.gitattributes",
    ]
    .map(PathBuf::from)
    .to_vec();
    places.push(Path::new(OsStr::from_bytes(b"not \xff\xfe utf-8/\xc3\x28")).to_owned());
    places
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let place = 0..places().len();
    let content = prop_oneof![
        Just(Content::Empty),
        any::<u8>().prop_map(Content::Text),
        Just(Content::Crlf),
        Just(Content::Keyword),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Content::Bytes),
        any::<u8>().prop_map(Content::Big),
    ];
    let edit = prop_oneof![
        5 => (place.clone(), content).prop_map(|(place, content)| Edit::Write { place, content }),
        2 => (place.clone(), place.clone()).prop_map(|(place, target)| Edit::Link { place, target }),
        2 => place.clone().prop_map(|place| Edit::Remove { place }),
        1 => (place.clone(), any::<bool>()).prop_map(|(place, on)| Edit::Executable { place, on }),
        1 => (place.clone(), place.clone()).prop_map(|(from, to)| Edit::Rename { from, to }),
        1 => place.prop_map(|place| Edit::Touch { place }),
    ];
    prop::collection::vec(edit, 1..8)
}

/// Makes the edit, unless the file system refuses it.
fn perform(world: &World, edit: &Edit) {
    let places = places();
    let at = |place: &usize| world.path().join(&places[*place]);
    match edit {
        Edit::Write { place, content } => {
            clear(world, &places[*place]);
            world.write(&places[*place], content.bytes());
        }
        Edit::Link { place, target } => {
            // Attribute files that are links are not followed by git either.
            clear(world, &places[*place]);
            fs::create_dir_all(at(place).parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(&places[*target], at(place)).unwrap();
        }
        Edit::Remove { place } if at(place).symlink_metadata().is_ok() => {
            world.remove(&places[*place]);
        }
        Edit::Executable { place, on } if at(place).is_file() && !at(place).is_symlink() => {
            world.mode(&places[*place], if *on { 0o755 } else { 0o644 });
        }
        Edit::Rename { from, to } if from != to && at(from).symlink_metadata().is_ok() => {
            let aside = world.root().join("aside");
            fs::rename(at(from), &aside).unwrap();
            clear(world, &places[*to]);
            fs::create_dir_all(at(to).parent().unwrap()).unwrap();
            fs::rename(&aside, at(to)).unwrap();
        }
        Edit::Touch { place } if at(place).is_file() && !at(place).is_symlink() => {
            let bytes = fs::read(at(place)).unwrap();
            fs::write(at(place), bytes).unwrap();
        }
        Edit::Remove { .. }
        | Edit::Executable { .. }
        | Edit::Rename { .. }
        | Edit::Touch { .. } => {}
    }
}

/// Removes what is at a path, and every file or link where a folder must be.
fn clear(world: &World, place: &Path) {
    let mut above: Vec<&Path> = place.ancestors().collect();
    above.reverse();
    for part in above.into_iter().filter(|part| !part.as_os_str().is_empty()) {
        let path = world.path().join(part);
        let folder = path.is_dir() && !path.is_symlink();
        if path.symlink_metadata().is_ok() && (!folder || part == place) {
            world.remove(part);
        }
    }
}

/// Settings and attributes that would change files if they applied.
fn disturb(world: &World) {
    world.write(".gitignore", "ignored*\n");
    if world.kind == Kind::Folder {
        return;
    }
    for (name, value) in [
        ("core.autocrlf", "true"),
        ("core.safecrlf", "true"),
        ("core.fileMode", "false"),
        ("core.symlinks", "false"),
        ("filter.break.clean", "sed s/line/broken/"),
        ("filter.break.smudge", "sed s/line/broken/"),
        ("filter.break.required", "true"),
    ] {
        world.git(&["config", name, value]);
    }
    let attributes =
        "* text=auto eol=crlf ident filter=break\n*.txt working-tree-encoding=UTF-16\n";
    fs::write(world.project().join(".git/info/attributes"), attributes).unwrap();
    world.write("sub/.gitattributes", attributes);
    world.write("sub/x.txt", "plain\r\n$Id$\n");
}

fn nested(world: &World) {
    let inner = world.path().join("nested");
    fs::create_dir(&inner).unwrap();
    git_in(&inner, &["init", "-q"]);
    fs::write(inner.join("file"), "of its own").unwrap();
    git_in(&inner, &["add", "-A"]);
    git_in(&inner, &["commit", "-q", "-m", "x"]);
}

fn steps(kind: Kind, steps: &[Vec<Edit>], order: &[prop::sample::Index]) {
    let world = World::new(kind);
    disturb(&world);
    nested(&world);
    let snapshots = world.open();
    let mut kept: Vec<(TreeId, Things)> = Vec::new();
    for (number, edits) in steps.iter().enumerate() {
        edits.iter().for_each(|edit| perform(&world, edit));
        let before = world.things();
        let capture = snapshots.capture(&world.path(), &format!("run/{number}")).unwrap();
        assert_eq!(world.things(), before);
        assert_eq!(capture.nested, [PathBuf::from("nested")]);
        kept.push((capture.tree, world.captured()));
    }
    // A fresh index gives the same.
    let last = kept.last().unwrap().0.clone();
    for entry in fs::read_dir(world.private()).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().as_bytes().starts_with(b"index-") {
            fs::remove_file(path).unwrap();
        }
    }
    assert_eq!(snapshots.capture_unreferenced(&world.path()).unwrap().tree, last);
    let mut current = kept.len() - 1;
    for index in order {
        let to = index.index(kept.len());
        let (from_tree, to_tree) = (&kept[current].0, &kept[to].0);
        let ignored = || -> Things {
            world.things().into_iter().filter(|(path, _)| is_ignored(path)).collect()
        };
        let untouched = ignored();
        match snapshots.change(&world.path(), &changing(from_tree, to_tree)) {
            Ok(restored) => {
                assert_eq!(restored.nested, Vec::<PathBuf>::new());
                assert_eq!(world.captured(), kept[to].1);
                let now = snapshots.capture_unreferenced(&world.path()).unwrap().tree;
                assert_eq!(now, *to_tree);
                current = to;
            }
            // An ignored file keeps its folder, where a file is to be.
            Err(windlass_workspace::SnapshotError::Changed { changed, in_the_way }) => {
                assert_eq!(changed, Vec::<PathBuf>::new());
                assert!(!in_the_way.is_empty());
                assert!(in_the_way.iter().all(|path| is_ignored(path)), "{in_the_way:?}");
                assert_eq!(world.captured(), kept[current].1);
            }
            Err(error) => panic!("{error}"),
        }
        assert_eq!(ignored(), untouched);
    }
    assert_eq!(fs::read(world.path().join("nested/file")).unwrap(), b"of its own");
    assert_eq!(snapshots.check().unwrap(), []);
    assert!(empty_folders(&world.path()).len() <= steps.iter().map(Vec::len).sum::<usize>());
}

fn run(kind: Kind) {
    let strategy = (
        prop::collection::vec(edits(), 2..6),
        prop::collection::vec(any::<prop::sample::Index>(), 2..8),
    );
    TestRunner::new(seed::config(32))
        .run(&strategy, |(edits, order)| {
            steps(kind, &edits, &order);
            Ok(())
        })
        .unwrap();
}

#[test]
fn in_a_repository() {
    run(KINDS[0]);
}

#[test]
fn in_a_repository_with_long_names() {
    run(KINDS[1]);
}

#[test]
fn in_a_work_tree() {
    run(KINDS[2]);
}

#[test]
fn in_a_plain_folder() {
    run(KINDS[3]);
}

#[test]
fn in_a_folder_inside_a_repository() {
    run(KINDS[4]);
}
