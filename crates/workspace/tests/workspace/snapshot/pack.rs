//! The objects of snapshots in one stream, and files written from it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tempfile::TempDir;
use windlass_workspace::{ObjectIndex, TreeId, unpack_files};

use crate::snapshot::world::{KINDS, Kind, World};

fn packed(world: &World, trees: &[TreeId]) -> Vec<u8> {
    let snapshots = world.open();
    let list = snapshots.list_objects(trees, u64::MAX).unwrap();
    assert_eq!((&*list.trees, &*list.missing, &*list.too_large), (trees, &[][..], &[][..]));
    let mut stream = Vec::new();
    snapshots.write_objects(&list, &mut stream).unwrap();
    stream
}

/// The objects of a stream: headers and bytes.
fn objects(mut stream: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    while !stream.is_empty() {
        let end = stream.iter().position(|byte| *byte == b'\n').unwrap();
        let header = String::from_utf8(stream[..end].to_vec()).unwrap();
        let size: usize = header.rsplit(' ').next().unwrap().parse().unwrap();
        let next = end + 1 + size + 1;
        all.insert(header.split(' ').next().unwrap().to_owned(), stream[..next].to_vec());
        stream = &stream[next..];
    }
    all
}

fn filled(kind: Kind) -> World {
    let world = World::new(kind);
    world.write("a.txt", "one");
    world.write("same.txt", "one");
    world.write("d/e/empty", "");
    world.write("d/run.sh", "#!/bin/sh\n");
    world.mode("d/run.sh", 0o755);
    world.link("d/link", "../a.txt");
    world
}

#[test]
fn the_files_of_a_snapshot_come_back_from_its_objects() {
    for kind in KINDS {
        let world = filled(kind);
        let before = world.things();
        let one = world.capture("one");
        world.write("a.txt", "two");
        world.remove("d");
        let after = world.things();
        let two = world.capture("two");
        let stream = packed(&world, &[one.clone(), two.clone()]);
        let index = ObjectIndex::read(&*stream).unwrap();
        index.check([&one, &two]).unwrap();
        for (tree, things) in [(one, before), (two, after)] {
            let folder = TempDir::new().unwrap();
            let files = index.files(&tree).unwrap();
            unpack_files(&*stream, &files, folder.path()).unwrap();
            assert_eq!(World::things_at(folder.path()), things, "{kind:?}");
            assert_eq!(files.count, things.len());
        }
    }
}

#[test]
fn a_stream_with_other_objects_is_refused() {
    let world = filled(Kind::Repository);
    let tree = world.capture("one");
    let all = objects(&packed(&world, std::slice::from_ref(&tree)));
    let root = tree.as_str();
    for missing in all.keys().filter(|id| *id != root) {
        let rest: Vec<u8> = all
            .iter()
            .filter(|(id, _)| *id != missing)
            .flat_map(|(_, bytes)| bytes.clone())
            .collect();
        let index = ObjectIndex::read(&*rest).unwrap();
        let error = index.check([&tree]).unwrap_err();
        // What is below a missing folder is named first if it comes first.
        assert!(error.contains("is missing"), "{error}");
        assert!(index.files(&tree).is_err());
    }
    let whole = all.values().flatten().copied().collect::<Vec<u8>>();
    let other: TreeId = "4".repeat(40).parse().unwrap();
    let error = ObjectIndex::read(&*whole).unwrap().check([&other]).unwrap_err();
    assert!(error.ends_with("belongs to no checkpoint"), "{error}");
    for bad in [
        whole[1..].to_vec(),
        whole[..whole.len() - 1].to_vec(),
        [&whole[..], b"x"].concat(),
        [&whole[..], &whole].concat(),
        all.values().rev().flatten().copied().collect(),
    ] {
        assert!(ObjectIndex::read(&*bad).is_err());
    }
    for at in 0..whole.len() {
        let mut bad = whole.clone();
        bad[at] ^= 1;
        assert!(ObjectIndex::read(&*bad).is_err(), "byte {at}");
    }
}

#[test]
fn permissions_and_empty_folders_come_back_from_the_objects() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = filled(Kind::Repository);
    let plain = world.capture("plain");
    // Two paths of one object, and one that can be read by nobody else.
    for (name, mode) in [("a.txt", 0o600), ("same.txt", 0o440), ("d/run.sh", 0o4710)] {
        world.mode(name, mode);
    }
    fs::create_dir_all(world.path().join("empty/deep")).unwrap();
    let tree = world.capture("one");
    assert_ne!(tree, plain);
    let stream = packed(&world, &[plain.clone(), tree.clone()]);
    let index = ObjectIndex::read(&*stream).unwrap();
    index.check([&plain, &tree]).unwrap();
    let folder = TempDir::new().unwrap();
    unpack_files(&*stream, &index.files(&tree).unwrap(), folder.path()).unwrap();
    assert_eq!(World::things_at(folder.path()), world.things());
    assert!(folder.path().join("empty/deep").is_dir());
    let mode = |name: &str| folder.path().join(name).metadata().unwrap().permissions().mode();
    let modes = ["a.txt", "same.txt", "d/run.sh"].map(|name| mode(name) & 0o7777);
    // A program of somebody else never runs as its owner.
    assert_eq!(modes, [0o600, 0o440, 0o710]);
    let other = TempDir::new().unwrap();
    unpack_files(&*stream, &index.files(&plain).unwrap(), other.path()).unwrap();
    assert!(!other.path().join("empty").exists());
    // Without the snapshot that has them, the stream has an object too many or too few.
    assert!(index.check([&plain]).unwrap_err().contains(tree.as_str()));
    let mut all = objects(&stream);
    let tag = String::from_utf8(all.remove(tree.as_str()).unwrap()).unwrap();
    let rest: Vec<u8> = all.values().flatten().copied().collect();
    assert!(!ObjectIndex::read(&*rest).unwrap().has(&tree));
    all.remove(plain.as_str());
    let header = |bytes: &[u8]| bytes.starts_with(tree.as_str().as_bytes());
    let mut without: Vec<Vec<u8>> = all.into_values().collect();
    without.push(tag.clone().into_bytes());
    without.sort();
    assert!(without.iter().any(|bytes| header(bytes)));
    let index = ObjectIndex::read(&*without.concat()).unwrap();
    assert!(index.check([&tree]).unwrap_err().contains("is missing"));
    assert!(index.files(&tree).is_err());
}

/// A tag of the empty tree with these extras, as a stream.
fn tag_of(extras: &str) -> (TreeId, Vec<u8>) {
    let git = |args: &[&str], input: &str| {
        use std::io::Write as _;
        use std::process::{Command, Stdio};
        let mut command = Command::new("git");
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().trim().to_owned()
    };
    let tree = git(&["hash-object", "-t", "tree", "--stdin"], "");
    let text = format!(
        "object {tree}\ntype tree\ntag windlass-snapshot\ntagger windlass <> 0 +0000\n\n{extras}\n"
    );
    let id = git(&["hash-object", "--literally", "-t", "tag", "--stdin"], &text);
    let mut parts = [format!("{tree} tree 0\n\n"), format!("{id} tag {}\n{text}\n", text.len())];
    parts.sort();
    (id.parse().unwrap(), parts.concat().into_bytes())
}

#[test]
fn folders_that_lead_elsewhere_are_refused() {
    let hex = |name: &str| name.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let folder = |name: &str| format!(r#"{{"folders":["{}"],"modes":{{}}}}"#, hex(name));
    let (good, stream) = tag_of(&folder("a/b"));
    ObjectIndex::read(&*stream).unwrap().check([&good]).unwrap();
    for name in ["..", "a/../../b", "/a", "", "a//b", ".git/hooks", "a/.GIT", "git~1"] {
        assert!(ObjectIndex::read(&*tag_of(&folder(name)).1).is_err(), "{name}");
    }
    let long = "a/".repeat(2500) + "a";
    assert!(ObjectIndex::read(&*tag_of(&folder(&long)).1).is_err());
    assert!(ObjectIndex::read(&*tag_of("{}").1).is_err());
}

/// A tree with one entry, as a stream.
fn tree_of(mode: &str, name: &str, content: &[u8]) -> (TreeId, Vec<u8>) {
    let folder = TempDir::new().unwrap();
    let git = |args: &[&str], input: &[u8]| {
        use std::io::Write as _;
        use std::process::{Command, Stdio};
        let mut child = Command::new("git")
            .args(args)
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{args:?}");
        output.stdout
    };
    git(&["init", "-q"], b"");
    let hash = |kind: &str, bytes: &[u8]| {
        let args = ["hash-object", "-w", "--literally", "-t", kind, "--stdin"];
        String::from_utf8(git(&args, bytes)).unwrap().trim().to_owned()
    };
    let blob = hash("blob", content);
    let raw: Vec<u8> =
        (0..20).map(|at| u8::from_str_radix(&blob[2 * at..2 * at + 2], 16).unwrap()).collect();
    let tree = hash("tree", &[format!("{mode} {name}\0").as_bytes(), &raw].concat());
    let mut ids = [blob, tree.clone()];
    ids.sort();
    let stream = git(&["cat-file", "--batch"], format!("{}\n{}\n", ids[0], ids[1]).as_bytes());
    (tree.parse().unwrap(), stream)
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let (good, stream) = tree_of("100644", "a", b"x");
    ObjectIndex::read(&*stream).unwrap().check([&good]).unwrap();
    for name in ["..", ".", "", "a/b", "/a", ".git", ".GIT", "git~1"] {
        let (_, stream) = tree_of("100644", name, b"x");
        assert!(ObjectIndex::read(&*stream).is_err(), "{name}");
    }
    for mode in ["100600", "0", "140000"] {
        assert!(ObjectIndex::read(&*tree_of(mode, "a", b"x").1).is_err(), "{mode}");
    }
}

#[test]
fn a_snapshot_that_is_too_large_or_gone_is_left_out_as_a_whole() {
    let world = World::new(Kind::Repository);
    world.write("small", "1");
    let small = world.capture("small");
    world.write("large", "x".repeat(5000));
    let large = world.capture("large");
    let gone: TreeId = "4".repeat(40).parse().unwrap();
    let snapshots = world.open();
    let list = snapshots.list_objects(&[small.clone(), large.clone(), gone.clone()], 4000).unwrap();
    assert_eq!((list.trees.clone(), &*list.missing), (vec![small.clone()], &[gone][..]));
    assert_eq!(list.too_large, [large]);
    let mut stream = Vec::new();
    snapshots.write_objects(&list, &mut stream).unwrap();
    ObjectIndex::read(&*stream).unwrap().check([&small]).unwrap();
}

#[test]
fn nothing_is_written_through_a_link() {
    // A link and a file whose path leads through it cannot both be in a tree; two snapshots never mix.
    let (tree, stream) = tree_of("120000", "out", b"/tmp");
    let index = ObjectIndex::read(&*stream).unwrap();
    let folder = TempDir::new().unwrap();
    unpack_files(&*stream, &index.files(&tree).unwrap(), folder.path()).unwrap();
    assert_eq!(fs::read_link(folder.path().join("out")).unwrap(), Path::new("/tmp"));
}
