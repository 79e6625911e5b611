//! Restores that are killed with SIGKILL: continuing gives exactly the snapshot.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use windlass_workspace::Snapshots;

use crate::snapshot::world::{KINDS, Kind, Things, World, changing, empty_folders};

const PROJECT: &str = "WINDLASS_TEST_PROJECT";
const PRIVATE: &str = "WINDLASS_TEST_PRIVATE";
const WORKSPACE: &str = "WINDLASS_TEST_WORKSPACE";
const FROM: &str = "WINDLASS_TEST_FROM";
const TO: &str = "WINDLASS_TEST_TO";

/// How many files of each kind there are.
const FILES: usize = 60;
/// How many restores are killed.
const ROUNDS: usize = 16;

/// What a child process restores, and as which user.
pub struct Role<'a> {
    pub from: &'a str,
    pub to: &'a str,
    pub user: Option<u32>,
}

/// Starts this test program again, to run a restore.
pub fn child(world: &World, role: &Role<'_>) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "snapshot::kill::plays_its_role", "--nocapture", "--test-threads=1"])
        .env(PROJECT, world.project())
        .env(PRIVATE, world.private())
        .env(WORKSPACE, world.path())
        .env(FROM, role.from)
        .env(TO, role.to)
        .env("HOME", world.root())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(user) = role.user {
        command.uid(user).gid(user);
    }
    command
}

/// Not a test: the child processes of other tests run it.
#[test]
fn plays_its_role() {
    let path = |name| std::env::var_os(name).map(PathBuf::from);
    let Some(project) = path(PROJECT) else { return };
    let id = |name| std::env::var(name).unwrap().parse().unwrap();
    let tell = |line: String| {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(format!("\n@{line}\n").as_bytes()).unwrap();
        stdout.flush().unwrap();
    };
    let snapshots = Snapshots::open(&path(PRIVATE).unwrap(), &project).unwrap();
    let workspace = path(WORKSPACE).unwrap();
    match snapshots.change(&workspace, &changing(&id(FROM), &id(TO))) {
        Ok(_) => tell("restored".to_owned()),
        Err(error) => tell(error.to_string()),
    }
}

/// Two states that differ in many ways.
fn states(world: &World) -> [Things; 2] {
    for number in 0..FILES {
        world.write(format!("changed/{number}"), format!("{number}\n").repeat(500));
        world.write(format!("gone/{}/{number}", number % 5), "x");
        world.write(format!("same/{number}"), "x");
        world.write(format!("swap{number}"), "file");
    }
    let one = world.things();
    world.capture("one");
    world.remove("gone");
    for number in 0..FILES {
        world.write(format!("changed/{number}"), format!("{number} more\n").repeat(700));
        world.write(format!("new/{number}/file"), "x");
        world.remove(format!("swap{number}"));
        world.write(format!("swap{number}/deep/file"), "x");
    }
    world.capture("two");
    [one, world.things()]
}

/// The inode of a path, to notice that its file was replaced.
fn which(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|found| found.ino())
}

/// Starts a restore and kills it as soon as a path has changed, or it has ended.
fn kill_at(world: &World, role: &Role<'_>, path: &Path) {
    let before = which(path);
    let mut child = child(world, role).spawn().unwrap();
    while which(path) == before && child.try_wait().unwrap().is_none() {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

fn kills(kind: Kind) {
    let world = World::new(kind);
    let things = states(&world);
    let snapshots = world.open();
    let trees: Vec<_> = snapshots.references().unwrap().into_iter().map(|(_, tree)| tree).collect();
    let mut current = 1;
    let mut cut = 0;
    for round in 0..ROUNDS {
        let (from, to) = (current, 1 - current);
        let role = Role { from: trees[from].as_str(), to: trees[to].as_str(), user: None };
        let differs: Vec<&PathBuf> = things[from]
            .keys()
            .chain(things[to].keys())
            .filter(|path| things[from].get(*path) != things[to].get(*path))
            .collect();
        let at = differs[differs.len() * round / ROUNDS];
        kill_at(&world, &role, &world.path().join(at));
        let now = world.things();
        for path in things[0].keys().chain(things[1].keys()).chain(now.keys()) {
            let states = [things[from].get(path), things[to].get(path)];
            assert!(states.contains(&now.get(path)), "{} is neither", path.display());
        }
        if now != things[from] && now != things[to] {
            cut += 1;
        }
        let changed = snapshots.change(&world.path(), &changing(&trees[from], &trees[to])).unwrap();
        assert_eq!(changed.found, None, "every path is as one of the two");
        assert_eq!(world.things(), things[to]);
        assert_eq!(empty_folders(&world.path()), Vec::<PathBuf>::new());
        assert_eq!(snapshots.capture_unreferenced(&world.path()).unwrap().tree, trees[to]);
        current = to;
    }
    assert_eq!(snapshots.check().unwrap(), []);
    assert!(cut > 0, "no restore was cut in the middle");
}

#[test]
fn a_killed_restore_is_finished_in_a_repository() {
    kills(KINDS[0]);
}

#[test]
fn a_killed_restore_is_finished_in_a_folder() {
    kills(Kind::Folder);
}
