//! Attempts that need more than one cell, or another workspace.

use std::fs;
use std::time::{Duration, Instant};

use windlass_cell::{Access, LimitKind, find_git};

use super::judge::Judge;
use super::runner::{self, Plan};
use super::world::{NOBODY, World, git, give};

/// The users as whom each attempt is made.
fn users() -> Vec<Option<u32>> {
    let ordinary = rustix::process::getuid().is_root().then_some(Some(NOBODY));
    std::iter::once(None).chain(ordinary).collect()
}

/// A workspace of its own that is in no repository.
fn bare(world: &World) -> Plan {
    let folder = world.path("workspace2");
    fs::create_dir_all(folder.join("tools")).unwrap();
    fs::copy(world.workspace().join("tools/attack.py"), folder.join("tools/attack.py")).unwrap();
    if let Some(user) = world.user {
        give(&folder, user);
    }
    Plan { folder, hidden: Vec::new(), ..Plan::new(world, Access::Write) }
}

/// A second project of the user.
fn other_project(world: &World) {
    let folder = world.path("home/other");
    git(&folder, &["init", "-q"]);
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "-qm", "other"]);
    git(&folder, &["worktree", "add", "-q", "../other-linked"]);
    if let Some(user) = world.user {
        give(&world.path("home"), user);
    }
}

/// Runs a line and checks that no secret came out; returns what it printed.
fn safe(world: &World, plan: &Plan, line: &str) -> String {
    let text = match runner::run(world, plan, line) {
        Ok((outcome, changes)) => {
            runner::forget(&changes);
            outcome.text()
        }
        Err(refused) => refused,
    };
    assert!(!text.contains(&world.canary), "{line}: {text}");
    assert!(!text.contains(&format!("breach:{}", world.mark)), "{line}: {text}");
    text
}

#[test]
fn a_forged_link_shows_no_other_repository() {
    for user in users() {
        let world = World::new(user);
        other_project(&world);
        let plan = bare(&world);
        let show = "git log -p --all; cat $H/other/.git/HEAD && echo breach:$MARK; true";
        for forged in [
            "echo gitdir: $H/other/.git > .git",
            "echo gitdir: $H/other/.git/worktrees/other-linked > .git",
            "mkdir -p g; echo $H/other/.git > g/commondir; echo x > g/HEAD; echo gitdir: g > .git",
            "mkdir -p g/worktrees/x; echo ../.. > g/worktrees/x/commondir; echo x > g/HEAD; ln -s $H/other/.git/objects g/objects; echo $PWD/.git > g/worktrees/x/gitdir; echo gitdir: g/worktrees/x > .git",
            "rm -rf g; ln -s $H/other/.git g; echo gitdir: g > .git",
            "ln -s $H/other/.git .git",
        ] {
            safe(&world, &plan, &format!("rm -rf .git; {forged}"));
            safe(&world, &plan, show);
            let _ = fs::remove_file(plan.folder.join(".git"));
        }
        // The links that git itself makes are followed.
        for folder in [world.path("linked"), world.workspace().join("vendor/lib")] {
            assert!(find_git(&folder).unwrap().unwrap().common.starts_with(world.workspace()));
        }
    }
}

#[test]
fn a_repository_around_the_home_folder_does_not_show_it() {
    for user in users() {
        let world = World::new(user);
        git(&world.path("home"), &["init", "-q"]);
        fs::create_dir_all(world.path("home/project")).unwrap();
        if let Some(user) = user {
            give(&world.path("home"), user);
        }
        for folder in ["home/project", "home"] {
            let folder = world.path(folder);
            let plan = Plan { folder, hidden: Vec::new(), ..Plan::new(&world, Access::Write) };
            safe(&world, &plan, "cat $H/.ssh/id_ed25519 ../.netrc .netrc");
        }
    }
}

#[test]
fn linked_work_trees_and_submodules_are_protected_too() {
    for user in users() {
        let mut world = World::new(user);
        for name in ["linked", "workspace/vendor/lib"] {
            let folder = world.path(name);
            let plan = Plan { folder, hidden: Vec::new(), ..Plan::new(&world, Access::Write) };
            let mut judge = Judge::new(&world);
            for line in [
                "git config core.fsmonitor evil; git config --worktree core.fsmonitor evil",
                "rm -rf .git; echo 'gitdir: /tmp/x' > .git; mv .git x",
                "d=$(git rev-parse --git-dir); echo x > $d/gitdir; echo x > $d/commondir; rm -rf $d/*",
                "d=$(git rev-parse --git-common-dir); echo x > $d/config; rm -rf $d/* $d",
                "d=$(git rev-parse --git-common-dir); mv $d $d.x; mv $d/hooks $d/h; echo x > $d/hooks/x",
                "git commit -q --allow-empty -m x; git gc -q --prune=now; git tag -d v1",
                "cat $W/.env $W/server.key $H/.netrc",
            ] {
                let (outcome, changes) = runner::run(&world, &plan, line).unwrap();
                let wrong = judge.judge(&mut world, &outcome, &changes, Access::Read);
                runner::forget(&changes);
                assert!(wrong.is_empty(), "{name}: {line}: {wrong:?}\n{}", outcome.text());
            }
        }
    }
}

#[test]
fn a_swap_while_a_second_cell_starts_shows_nothing_else() {
    let world = World::new(None);
    let plan = bare(&world);
    // `.windlass` is a folder at one moment, and a link to secrets at the next.
    let swap = "mkdir .windlass; ln -s $H/.ssh evil; PYTHONPATH=tools exec python3 -c \"
from attack import *
open('ready', 'w').close()
while True: call(316 if X86 else 276, -100, ctypes.c_char_p(b'.windlass'), -100, ctypes.c_char_p(b'evil'), 2)
\"";
    let swapping = runner::start(&world, &plan, swap).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !plan.folder.join("ready").exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(plan.folder.join("ready").exists());
    for _ in 0..100 {
        safe(&world, &plan, "cat .windlass/id_ed25519 evil/id_ed25519");
    }
    let (outcome, changes) = swapping.finish(Duration::ZERO);
    runner::forget(&changes);
    assert!(outcome.refused.is_none() && !outcome.lingers, "{outcome:?}");
}

/// A known gap: which files are hidden is decided by path before the cell is made. A second cell of the same
/// workspace that runs at that moment can move the folder of such a file and leave another file in its place.
/// (Whoever makes the list finds files that were moved before.)
#[test]
fn known_gap_a_hidden_file_can_be_moved_between_the_listing_and_the_start() {
    let world = World::new(None);
    let plan = Plan::new(&world, Access::Write);
    let (_, changes) =
        runner::run(&world, &plan, "mv sub moved; mkdir sub; touch sub/deploy.key").unwrap();
    runner::forget(&changes);
    // The list is that of before.
    let (outcome, changes) = runner::run(&world, &plan, "cat moved/deploy.key").unwrap();
    runner::forget(&changes);
    assert!(outcome.text().contains(&world.canary), "no longer a gap: {outcome:?}");
}

/// A known gap: a socket that somebody outside makes in the workspace while a command runs can be reached.
#[test]
fn known_gap_a_socket_that_appears_in_the_workspace_can_be_reached() {
    let world = World::new(None);
    let plan = Plan::new(&world, Access::Read);
    let line = "python3 -c \"
from attack import *
for _ in range(1000):
    if connect(socket.AF_UNIX, socket.SOCK_STREAM, 'late.sock'): break
    time.sleep(0.01)
\"";
    let running = runner::start(&world, &plan, line).unwrap();
    let listener =
        std::os::unix::net::UnixListener::bind(world.workspace().join("late.sock")).unwrap();
    listener.set_nonblocking(true).unwrap();
    let (outcome, changes) = running.finish(Duration::from_secs(20));
    runner::forget(&changes);
    assert!(listener.accept().is_ok(), "no longer a gap: {outcome:?}");
}

#[test]
fn cells_do_not_see_each_other() {
    for user in users() {
        let world = World::new(user);
        let plan = Plan::new(&world, Access::Write);
        let first = "echo $MARK > /tmp/mine; echo $MARK > /dev/shm/mine; echo $MARK > $H/mine; touch $W/ready; exec sleep 100";
        let running = runner::start(&world, &plan, first).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while !world.workspace().join("ready").exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        safe(
            &world,
            &plan,
            "cat /tmp/mine /dev/shm/mine $H/mine && echo breach:$MARK; grep -sl sleep /proc/*/comm && echo breach:$MARK; kill -9 -1; cat /proc/*/roo[t]/tmp/mine && echo breach:$MARK; ipcs; true",
        );
        let (outcome, changes) = running.finish(Duration::ZERO);
        runner::forget(&changes);
        assert!(!outcome.lingers && outcome.limit != Some(LimitKind::Memory), "{outcome:?}");
    }
}
