//! Files that other programs obey, links and special files.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use windlass_gate::{Allowed, Asked, History, Mark, RelPath, Tips};

use crate::world::{NoCommits, World};

const NOTHING: [&str; 0] = [];

#[test]
fn work_passes() {
    let world = World::new();
    world.write("src/main.rs", "old");
    world.write(".vscode/settings.json", "{}");
    let held = world.held(|| {
        world.write("src/main.rs", "new");
        world.write("src/deep/er/new.rs", "new");
        world.write("src/link", "");
        world.link("../src/main.rs", "src/inner");
        world.link("missing", "src/dangling");
        world.link(world.outside().join("bin/python"), "python");
        world.link(world.at("src"), "absolute");
        world.link("/dev/null", "ignored.log");
        // Written anew, with the same contents.
        world.write(".vscode/settings.json", "{}");
    });
    assert_eq!(held, NOTHING);
    assert_eq!(world.read("src/main.rs").as_deref(), Some("new"));
}

#[test]
fn what_others_obey_is_held_back_and_what_was_there_is_back() {
    let world = World::new();
    world.write(".vscode/settings.json", "{}");
    // Long ones, of one length, in a folder that is replaced.
    world.write(".claude/settings.json", &"a".repeat(20_000));
    world.write(".claude/agents/judge.md", "judge well");
    world.write("CLAUDE.md", "rules");
    world.write(".mcp.json", "{}");
    let held = world.held(|| {
        world.write(".vscode/settings.json", "{\"a\": 1}");
        world.write(".vscode/tasks.json", "run x");
        fs::rename(world.at(".claude"), world.at("aside")).unwrap();
        world.write(".claude/settings.json", &"b".repeat(20_000));
        fs::remove_file(world.at("CLAUDE.md")).unwrap();
        world.write("a/b.code-workspace", "x");
        world.write(".github/workflows/new.yml", "x");
        world.write("src/main.rs", "work");
        fs::set_permissions(world.at(".mcp.json"), fs::Permissions::from_mode(0o755)).unwrap();
    });
    assert_eq!(
        held,
        [
            ".claude/agents/judge.md",
            ".claude/settings.json",
            ".github/workflows/new.yml",
            ".mcp.json",
            ".vscode/settings.json",
            ".vscode/tasks.json",
            "CLAUDE.md",
            "a/b.code-workspace",
        ]
    );
    assert_eq!(world.read(".vscode/settings.json").as_deref(), Some("{}"));
    assert_eq!(world.read(".claude/settings.json"), Some("a".repeat(20_000)));
    assert_eq!(world.read(".claude/agents/judge.md").as_deref(), Some("judge well"));
    assert_eq!(world.read("CLAUDE.md").as_deref(), Some("rules"));
    assert_eq!(world.read(".vscode/tasks.json"), None);
    assert_eq!(world.read("src/main.rs").as_deref(), Some("work"));
    let mode = fs::metadata(world.at(".mcp.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    // It is as before: nothing is found again.
    assert_eq!(world.held(|| ()), NOTHING);
}

#[test]
fn a_change_that_keeps_size_and_time_is_seen() {
    let world = World::new();
    world.write(".vscode/settings.json", "one");
    std::thread::sleep(std::time::Duration::from_millis(150));
    let held = world.held(|| {
        let path = world.at(".vscode/settings.json");
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, "two").unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    });
    assert_eq!(held, [".vscode/settings.json"]);
    assert_eq!(world.read(".vscode/settings.json").as_deref(), Some("one"));
}

#[test]
fn a_folder_that_became_a_link_is_held_back() {
    let world = World::new();
    world.write(".claude/settings.json", "mine");
    world.write("src/main.rs", "");
    let held = world.held(|| {
        fs::rename(world.at(".claude"), world.at("moved")).unwrap();
        world.write("fake/settings.json", "theirs");
        world.link("fake", ".claude");
    });
    assert_eq!(held, [".claude", ".claude/settings.json"]);
    assert!(!world.at(".claude").is_symlink());
    assert_eq!(world.read(".claude/settings.json").as_deref(), Some("mine"));
    assert_eq!(world.read("fake/settings.json").as_deref(), Some("theirs"));
    // A file in its place, too.
    let held = world.held(|| {
        fs::rename(world.at(".claude"), world.at("again")).unwrap();
        world.write(".claude", "x");
    });
    assert_eq!(held, [".claude", ".claude/settings.json"]);
    assert_eq!(world.read(".claude/settings.json").as_deref(), Some("mine"));
}

#[test]
fn links_that_lead_out_and_special_files_are_held_back() {
    let world = World::new();
    world.write("deep/er/file", "");
    let held = world.held(|| {
        world.link("/etc/passwd", "a");
        world.link("../../elsewhere", "deep/b");
        world.link(".", "here");
        world.link("here/../../elsewhere", "c");
        world.link("here/../x", "d");
        world.link("deep/er/../er/file", "fine");
        world.run("mkfifo", &[".gitignore"]);
        std::os::unix::net::UnixListener::bind(world.at("socket")).unwrap();
        let odd = world.at("").join(OsStr::from_bytes(b"odd\xff"));
        fs::create_dir(&odd).unwrap();
        std::os::unix::fs::symlink("/etc/shadow", odd.join("e")).unwrap();
    });
    assert_eq!(held, [".gitignore", "a", "c", "d", "deep/b", "odd\u{fffd}/e"]);
    assert!(world.at("fine").is_symlink() && world.at("socket").symlink_metadata().is_ok());
}

/// A repository whose commit has the files of workspaces.
struct Workspaces;

impl History for Workspaces {
    fn committed(&self, asked: &[Asked<'_>], _: &BTreeSet<String>) -> BTreeSet<RelPath> {
        let has = |(path, mark): &&Asked<'_>| {
            path.text() == "x.code-workspace" && matches!(mark, Some(Mark::File { .. }))
        };
        asked.iter().filter(has).map(|(path, _)| (*path).clone()).collect()
    }

    fn brought(&self, _: &Tips, _: &dyn Fn(&RelPath) -> bool) -> io::Result<BTreeSet<String>> {
        Ok(BTreeSet::new())
    }

    fn present(&self, _: &BTreeSet<String>, _: &BTreeMap<RelPath, Mark>) -> BTreeSet<String> {
        BTreeSet::new()
    }
}

#[test]
fn what_the_line_named_or_the_commit_has_passes() {
    let world = World::new();
    let allowed = Allowed {
        paths: [".vscode".to_owned(), "CLAUDE.md".to_owned()].into(),
        ..Allowed::default()
    };
    let (watch, _) = world.gate().watch(allowed, None, &NoCommits).unwrap();
    world.write(".vscode/tasks.json", "x");
    world.write("CLAUDE.md", "x");
    world.write(".husky/pre-commit", "x");
    world.write("x.code-workspace", "x");
    let held = watch.look(&Workspaces).unwrap();
    assert_eq!(world.names(&held), [".husky/pre-commit"]);
    // What passed is what was accepted.
    drop(watch);
    assert_eq!(world.held(|| ()), NOTHING);
}

#[test]
fn people_may_change_what_they_like_between_commands() {
    let world = World::new();
    world.write("CLAUDE.md", "one");
    assert_eq!(world.held(|| ()), NOTHING);
    world.write("CLAUDE.md", "two");
    fs::create_dir_all(world.at(".vscode")).unwrap();
    world.link("/etc/hosts", "hosts");
    assert_eq!(world.held(|| world.write("CLAUDE.md", "three")), ["CLAUDE.md"]);
    assert_eq!(world.read("CLAUDE.md").as_deref(), Some("two"));
    assert!(world.at("hosts").is_symlink());
}

#[test]
fn the_folder_of_windlass_is_not_made_by_a_command() {
    let world = World::new();
    let held = world.held(|| world.write(".windlass/policy/default.toml", "x"));
    assert_eq!(held, [".windlass"]);
    let held = world.held(|| world.link("src", ".windlass"));
    assert_eq!(held, [".windlass"]);
}

#[test]
fn another_name_of_a_file_is_held_back_with_the_file() {
    let world = World::new();
    world.write("CLAUDE.md", "one");
    let held = world.held(|| fs::hard_link(world.at("CLAUDE.md"), world.at("notes.md")).unwrap());
    assert_eq!(held, ["CLAUDE.md"]);
    world.write("notes.md", "planted");
    assert_eq!(world.read("CLAUDE.md").as_deref(), Some("one"));
}

#[test]
fn a_folder_that_nobody_may_enter_stops_nothing() {
    let world = World::new();
    let shut = |path: &str, mode| {
        fs::set_permissions(world.at(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    let held = world.held(|| {
        world.write("a/.vscode/tasks.json", "x");
        shut("a/.vscode", 0o555);
        world.write("sub/.vscode/tasks.json", "x");
    });
    assert_eq!(held, ["a/.vscode/tasks.json", "sub/.vscode/tasks.json"]);
    assert_eq!(world.held(|| ()), NOTHING);
}

#[test]
fn a_folder_that_a_command_has_shut_is_opened_as_it_was_and_looked_into() {
    let world = World::new();
    world.write("src/main.rs", "a person's work");
    world.write("src/deep/x", "");
    let mode = |path: &str| fs::metadata(world.at(path)).unwrap().permissions().mode() & 0o777;
    let before = (mode("src"), mode(""));
    world.held(|| ());
    let held = world.held(|| {
        world.write("src/deep/.vscode/tasks.json", "planted");
        for path in ["src", ""] {
            fs::set_permissions(world.at(path), fs::Permissions::from_mode(0o444)).unwrap();
        }
    });
    assert_eq!(held, ["src/deep/.vscode/tasks.json"]);
    assert_eq!((mode("src"), mode("")), before);
    assert_eq!(world.read("src/main.rs").as_deref(), Some("a person's work"));
}

#[test]
fn what_is_written_through_memory_is_seen() {
    let world = World::new();
    world.write(".vscode/settings.json", "one");
    std::thread::sleep(std::time::Duration::from_millis(150));
    world.held(|| ());
    // As a mapped page does it: no time changes.
    let held = world.held(|| {
        world.run(
            "python3",
            &["-c", "import mmap; f = open('.vscode/settings.json', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0:3] = b'two'; m.flush() if False else None"],
        );
    });
    assert_eq!(held, [".vscode/settings.json"]);
    assert_eq!(world.read(".vscode/settings.json").as_deref(), Some("one"));
}

#[test]
fn what_is_held_back_is_moved_to_another_file_system_whole() {
    let shared = Path::new("/dev/shm");
    let world = World::with_state_in(shared);
    let device = |path: &Path| fs::metadata(path).unwrap().dev();
    if device(shared) == device(&world.at("")) {
        return;
    }
    let long = "x".repeat(17 << 20);
    let held = world.held(|| {
        world.write(".vscode/long.json", &long);
        world.run("git", &["init", "-q", "--bare", ".git"]);
        world.run("mkfifo", &["pipe"]);
    });
    assert_eq!(held, ["pipe", ".git", ".vscode/long.json"]);
    assert!(!world.at(".git").exists() && !world.at(".vscode/long.json").exists());
    assert_eq!(world.held(|| ()), NOTHING);
    assert_eq!(fs::read_dir(world.at(".vscode")).unwrap().count(), 0);
}
