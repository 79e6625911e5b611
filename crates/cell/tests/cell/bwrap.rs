//! What is different about cells that `bwrap` makes. All other tests of this crate run them too.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use windlass_cell::{Access, Maker, Mount};

use super::common::{World, bind, bwrap};

fn world() -> World {
    let mut world = World::new();
    world.cell.maker = bwrap();
    world
}

#[test]
fn the_root_has_only_what_is_mounted() {
    let world = world();
    let listed = world.output("ls -A /");
    let mut names: Vec<&str> = listed.lines().collect();
    names.retain(|name| !["lib64", "sbin"].contains(name));
    assert_eq!(names, ["bin", "dev", "lib", "proc", "tmp", "usr"]);
    let inside = world.output("ls -A /dev");
    let names =
        ["fd", "full", "null", "random", "shm", "stderr", "stdin", "stdout", "urandom", "zero"];
    assert_eq!(inside.lines().collect::<Vec<_>>(), names);
    assert_eq!(world.output("env | grep IDENT; true"), "");
}

#[test]
fn there_are_no_overlays() {
    let mut world = world();
    let path = world.workspace();
    let folders = ["upper", "work"].map(|name| world.folder.path().join(name));
    for folder in &folders {
        fs::create_dir(folder).unwrap();
    }
    let [upper, work] = folders;
    world.cell.mounts.push(Mount::Overlay { lower: vec![path.clone()], path, upper, work });
    let failure = world.run("true").failure.unwrap().to_string();
    assert!(failure.contains("bwrap has none"), "{failure}");
}

/// A `bwrap` that does something else than it is told.
fn other_bwrap(world: &World, script: &str) -> Maker {
    let program = world.folder.path().join("other-bwrap");
    fs::write(&program, format!("#!/bin/bash\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    Maker::Bwrap { program }
}

#[test]
fn what_bwrap_did_is_checked_before_the_command_starts() {
    let mut world = world();
    let (kept, other) = (world.workspace().join("kept"), world.folder.path().join("other"));
    for folder in [&kept, &other] {
        fs::create_dir(folder).unwrap();
    }
    fs::write(world.workspace().join("secret"), "s3cret").unwrap();
    world.cell.mounts.push(bind(&kept, Access::Read));
    world.cell.mounts.push(Mount::Mask { path: world.workspace().join("secret") });
    let replace = |from: &str, to: &str| {
        format!(
            "a=(); for w in \"$@\"; do a+=(\"${{w/#{from}/{to}}}\"); done; exec /usr/bin/bwrap \"${{a[@]}}\""
        )
    };
    let instead = |from: &Path, to: &Path| {
        let (from, to) = (from.display(), to.display());
        format!(
            "a=(); for w in \"$@\"; do [ \"$p $w\" = '--ro-bind {from}' ] && w={to}; a+=(\"$w\"); p=$w; done; \
             exec /usr/bin/bwrap \"${{a[@]}}\""
        )
    };
    for (script, says) in [
        // What is read-only can be written.
        (replace("--ro-bind", "--bind"), "bwrap has mounted"),
        (replace("--remount-ro", "--dir"), "bwrap has mounted"),
        // Another folder is shown.
        (instead(&kept, &other), "was to be shown"),
        // More is shown.
        ("exec /usr/bin/bwrap --ro-bind /etc /etc \"$@\"".to_owned(), "bwrap has mounted `/etc`"),
        ("exec /usr/bin/bwrap --bind /etc /etc \"$@\"".to_owned(), "bwrap has mounted `/etc`"),
        // It fails.
        ("echo no luck >&2; exit 1".to_owned(), "reported nothing"),
    ] {
        world.cell.maker = other_bwrap(&world, &script);
        let done = world.run("touch ran");
        let failure = done.failure.clone().map(|failure| failure.to_string()).unwrap_or_default();
        assert!(failure.contains(says), "{script}: {done:?}");
        assert!(!world.workspace().join("ran").exists(), "{script}");
    }
    world.cell.maker = other_bwrap(&world, "exec /usr/bin/bwrap \"$@\"");
    assert_eq!(world.output("touch ran; cat secret"), "");
}

#[test]
fn many_hidden_files_are_covered() {
    let mut world = world();
    for number in 0..1500 {
        let path = world.workspace().join(format!("{number}.key"));
        fs::write(&path, "s3cret").unwrap();
        world.cell.mounts.push(Mount::Mask { path });
    }
    assert_eq!(world.output("cat *.key; ls | wc -l").trim(), "1500");
}

#[test]
fn files_and_folders_are_shown_at_other_paths() {
    for mut world in World::by_all() {
        let (base, work) = (world.folder.path().to_owned(), world.workspace());
        for (folder, text) in [(base.join("from"), "shown"), (work.join("at"), "covered")] {
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("file"), text).unwrap();
        }
        fs::write(work.join("one"), "covered").unwrap();
        for (from, path) in [("from", "at"), ("from/file", "one")] {
            let (from, path) = (base.join(from), work.join(path));
            world.cell.mounts.push(Mount::BindAt { from, path, access: Access::Read });
        }
        assert_eq!(world.output("cat at/file one"), "shownshown");
        for line in ["echo x > one", "echo x > at/file", "touch at/new", "mv at x", "rm one"] {
            assert_ne!(world.run(line).code, Some(0), "{line}");
        }
        // A link in the place of a folder above redirects nothing.
        fs::create_dir(work.join("above")).unwrap();
        fs::write(work.join("above/file"), "").unwrap();
        std::os::unix::fs::symlink("above", work.join("link")).unwrap();
        let (from, path) = (base.join("from/file"), work.join("link/file"));
        world.cell.mounts.push(Mount::BindAt { from, path, access: Access::Read });
        assert!(world.run("true").failure.is_some());
    }
}
