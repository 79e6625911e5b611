//! What a hostile agent tries in a cell. Nothing judges its commands: only the kernel holds them.
//!
//! `corpus/*.toml` are the attempts. Each runs in a cell of its own, as the tests' user and as one without
//! rights, with a workspace that can be written to and with one that cannot; `judge.rs` then looks for any
//! forbidden effect, whatever the attempt was. With the variable `ATTACK` only the attempts run whose id
//! contains its value, and their output is shown.

mod judge;
mod runner;
mod sequences;
mod world;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;
use windlass_cell::{Access, Level, Maker};

use judge::Judge;
use runner::Plan;
use world::{NOBODY, World};

/// The files of the corpus.
const CORPUS: [(&str, &str); 6] = [
    ("files", include_str!("corpus/files.toml")),
    ("git", include_str!("corpus/git.toml")),
    ("kernel", include_str!("corpus/kernel.toml")),
    ("network", include_str!("corpus/network.toml")),
    ("processes", include_str!("corpus/processes.toml")),
    ("secrets", include_str!("corpus/secrets.toml")),
];

/// Attempts that get through, and why. The test fails as soon as one of them no longer does.
const KNOWN_GAPS: [(&str, &str); 2] = [
    ("files/setuid/cp /bin/sh s && chmod 2755 s", GROUP),
    (
        "git/links/mv vendor v2; mkdir -p vendor/lib; echo 'gitdir: /tmp/evil' > vendor/lib/.git",
        SUBMODULE,
    ),
];
const GROUP: &str =
    "a filter of calls cannot tell a program from a shared folder, and builds make those";
const SUBMODULE: &str =
    "a folder above a submodule can be moved; whoever ran the command looks for it afterwards";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    attack: Vec<Attack>,
    #[serde(default)]
    lists: std::collections::BTreeMap<String, Vec<String>>,
}

/// One attempt, or one for each of its targets.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attack {
    id: String,
    /// The shell line; `{}` is the target.
    line: String,
    /// What would be a breach.
    breach: String,
    #[serde(default)]
    each: Vec<String>,
    /// The name of a list of targets.
    list: Option<String>,
    /// Whether it runs only where the workspace can be written to.
    #[serde(default)]
    writes: bool,
    /// The processor that its machine code or its call numbers are for.
    arch: Option<String>,
    #[serde(default = "default_seconds")]
    seconds: u64,
    /// Whether several targets are tried in one cell: none of them can hide what another one does.
    #[serde(default)]
    together: bool,
    /// Whether it runs with a small memory limit.
    #[serde(default)]
    limited: bool,
}

const fn default_seconds() -> u64 {
    20
}

/// All attempts, one for each target.
fn corpus() -> Vec<Attack> {
    let mut all = Vec::new();
    for (name, text) in CORPUS {
        let file: File = toml::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        for attack in file.attack {
            let targets = attack.list.as_ref().map_or(&attack.each, |list| &file.lists[list]);
            assert!(!attack.breach.is_empty(), "{}", attack.id);
            if targets.is_empty() {
                all.push(Attack { id: format!("{name}/{}", attack.id), ..attack });
                continue;
            }
            for target in targets {
                let id = format!("{name}/{}/{target}", attack.id);
                let line = attack.line.replace("{}", target);
                all.push(Attack { id, line, ..attack.clone() });
            }
        }
    }
    all
}

#[test]
fn the_corpus_is_large_and_no_attempt_is_there_twice() {
    let all = corpus();
    let ids: std::collections::BTreeSet<&str> =
        all.iter().map(|attack| attack.id.as_str()).collect();
    let lines: std::collections::BTreeSet<&str> =
        all.iter().map(|attack| attack.line.as_str()).collect();
    assert_eq!((ids.len(), lines.len()), (all.len(), all.len()));
    assert!(all.len() >= 300, "{}", all.len());
    for (id, _) in KNOWN_GAPS {
        assert!(ids.contains(id), "{id}");
    }
}

/// Puts attempts that can share a cell into one line.
fn shared(attacks: Vec<Attack>) -> Vec<Attack> {
    let mut all: Vec<(usize, Attack)> = Vec::new();
    for attack in attacks {
        let kind = |id: &str| id.splitn(3, '/').take(2).collect::<Vec<_>>().join("/");
        match all.last_mut() {
            Some((count, last))
                if attack.together && *count < TOGETHER && kind(&last.id) == kind(&attack.id) =>
            {
                *count += 1;
                last.line = format!("{}\n(\n{}\n)", last.line, attack.line);
            }
            Some(_) | None => all.push((1, attack)),
        }
    }
    all.into_iter().map(|(_, attack)| attack).collect()
}

/// How many attempts share a cell at most.
const TOGETHER: usize = 12;
/// How many worlds are attacked at once: most of the time is spent waiting for the kernel.
const WORLDS: usize = 3;
/// The memory limit of those who try to get around it.
const SMALL_BYTES: u64 = 128 << 20;

/// The attempts that the level with Landlock alone holds: writing, signals and sockets outside. It hides nothing, and
/// what lies in the workspace is left to the look at the end of a command.
const LANDLOCK: [&str; 13] = [
    "files/overwrite/",
    "files/remove/",
    "files/rename/",
    "files/leave-a-file/",
    "files/standard-descriptors/",
    "network/tcp/",
    "network/udp/",
    "network/unix-socket/",
    "network/family/",
    "network/raw/",
    "network/netlink/",
    "processes/signal/",
    "processes/other-process/",
];

/// Targets of these that it does not hold: the workspace, shared memory, and what only tells of a process.
const NOT_WITH_LANDLOCK: [&str; 4] = ["/$W", "/dev/shm/", "'getsid'", "'pidfd_open'"];

fn holds_with_landlock(attack: &Attack) -> bool {
    LANDLOCK.iter().any(|start| attack.id.starts_with(start))
        && !NOT_WITH_LANDLOCK.iter().any(|target| attack.id.contains(target))
}

/// Runs all attempts; on cells by `bwrap` one half as each of the users.
fn attack(user: Option<u32>, maker: &Maker, level: Level) {
    let only = std::env::var("ATTACK").unwrap_or_default();
    // What a read-class tool has less of is the workspace.
    let about_files = |attack: &Attack| {
        ["files/", "git/", "secrets/hidden", "network/unix-socket-through"]
            .iter()
            .any(|start| attack.id.starts_with(start))
    };
    let writing: Vec<Attack> = corpus()
        .into_iter()
        .filter(|attack| attack.id.contains(&only))
        .filter(|attack| level == Level::Full || holds_with_landlock(attack))
        .filter(|attack| attack.arch.as_deref().is_none_or(|arch| arch == std::env::consts::ARCH))
        .collect();
    let reading = writing.iter().filter(|_| level == Level::Full);
    let reading = reading.filter(|attack| about_files(attack) && !attack.writes).cloned();
    // Where nothing can be changed, no attempt hides another.
    let reading = reading.map(|attack| Attack { together: true, ..attack }).collect();
    let attacks = shared(writing).into_iter().map(|attack| (Access::Write, attack));
    let attacks = attacks.chain(shared(reading).into_iter().map(|attack| (Access::Read, attack)));
    let is_half = *maker != Maker::Own && only.is_empty() && rustix::process::getuid().is_root();
    let (first, step) = if is_half { (usize::from(user.is_some()), 2) } else { (0, 1) };
    let attacks: Vec<(Access, Attack)> = attacks.skip(first).step_by(step).collect();
    let next = AtomicUsize::new(0);
    let make = || {
        let mut world = World::new(user);
        (world.maker, world.level) = (maker.clone(), level);
        world
    };
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let one = || attack_one_world(make(), &attacks, &next, !only.is_empty());
        let threads: Vec<_> = (0..WORLDS).map(|_| scope.spawn(one)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{} got through:\n{}", wrong.len(), wrong.join("\n"));
}

/// Holds the right to take shared memory, which is counted for the whole machine: one at a time.
struct Alone {
    _lock: std::fs::File,
    shared_bytes: u64,
}

impl Alone {
    fn new() -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("memory.lock");
        let file = std::fs::File::create(path).unwrap();
        file.lock().unwrap();
        Self { _lock: file, shared_bytes: shared_bytes() }
    }
}

impl Drop for Alone {
    /// Waits until the kernel has freed what the cell had: it does so after the last process has exited, and what
    /// becomes free while the next cell takes memory would hide it.
    fn drop(&mut self) {
        let end = std::time::Instant::now() + Duration::from_secs(5);
        while shared_bytes() > self.shared_bytes + (8 << 20) && std::time::Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The shared memory of the machine.
fn shared_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Shmem:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Runs the attempts that no other thread takes, and returns those that got through.
fn attack_one_world(
    mut world: World,
    attacks: &[(Access, Attack)],
    next: &AtomicUsize,
    is_shown: bool,
) -> Vec<String> {
    let mut judge = Judge::new(&world);
    let mut wrong = Vec::new();
    while let Some((access, attack)) = attacks.get(next.fetch_add(1, Ordering::Relaxed)) {
        let mut plan = Plan::new(&world, *access);
        plan.timeout = Duration::from_secs(attack.seconds);
        let alone = attack.limited.then(Alone::new);
        if alone.is_some() {
            plan.limits.memory_bytes = SMALL_BYTES;
        }
        let started = std::time::Instant::now();
        let (mut outcome, mut changes) = runner::run(&world, &plan, &attack.line).unwrap();
        if outcome.refused.is_some() && started.elapsed() >= plan.timeout {
            // On a busy machine the time can be over before the cell stands.
            runner::forget(&changes);
            plan.timeout *= 5;
            (outcome, changes) = runner::run(&world, &plan, &attack.line).unwrap();
        }
        let ran = started.elapsed();
        drop(alone);
        let found = judge.judge(&mut world, &outcome, &changes, *access);
        runner::forget(&changes);
        if is_shown {
            let (limit, judged) = (outcome.limit, started.elapsed());
            println!("{}: {}\n{}", attack.id, attack.line, outcome.text());
            println!("{limit:?} {ran:?} {judged:?}\n");
        }
        let is_gap = KNOWN_GAPS.iter().any(|(id, _)| *id == attack.id);
        if is_gap && found.is_empty() && *access == Access::Write {
            wrong.push(format!("{} is no longer a gap", attack.id));
        } else if !is_gap && !found.is_empty() {
            let (line, why) = (&attack.line, found.join("\n  "));
            let what = format!("{} ({access:?}; must not: {})", attack.id, attack.breach);
            wrong.push(format!("{what}: {line}\n  {why}"));
        }
    }
    wrong.extend(judge.compare(&world));
    wrong
}

#[test]
fn nothing_gets_out_of_a_cell() {
    attack(None, &Maker::Own, Level::Full);
}

/// Tests that do not run as root have only their own user.
#[test]
fn nothing_gets_out_of_a_cell_of_an_ordinary_user() {
    if rustix::process::getuid().is_root() {
        attack(Some(NOBODY), &Maker::Own, Level::Full);
    } else {
        windlass_testkit::skipped("all tests run as an ordinary user");
    }
}

#[test]
fn nothing_gets_out_of_a_cell_that_bwrap_makes() {
    attack(None, &bwrap(), Level::Full);
}

#[test]
fn nothing_gets_out_of_a_cell_that_bwrap_makes_for_an_ordinary_user() {
    if rustix::process::getuid().is_root() {
        attack(Some(NOBODY), &bwrap(), Level::Full);
    } else {
        windlass_testkit::skipped("all tests run as an ordinary user");
    }
}

/// As a user without rights, also in tests that run as root: what this level does not hold, the machine must.
#[test]
fn nothing_is_written_or_reached_with_landlock_alone() {
    let count = corpus().iter().filter(|attack| holds_with_landlock(attack)).count();
    assert!(count >= 50, "{count}");
    let user = rustix::process::getuid().is_root().then_some(NOBODY);
    attack(user, &Maker::Own, Level::Landlock);
}

fn bwrap() -> Maker {
    Maker::Bwrap { program: "/usr/bin/bwrap".into() }
}
