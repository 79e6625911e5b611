//! Mend 18: file systems that cannot be written to, and clocks that are wrong.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::harness::{Outcome, Place, finish};
use crate::world::{Repo, answers, build, escalating, id_of, review, sh};

/// A clock that is wrong by `WRONG_CLOCK` seconds, from the reading number `WRONG_AFTER` on.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <sys/syscall.h>
#include <unistd.h>
static long readings;
int clock_gettime(clockid_t id, struct timespec *now) {
    long failed = syscall(SYS_clock_gettime, id, now);
    const char *wrong = getenv("WRONG_CLOCK"), *after = getenv("WRONG_AFTER");
    if (!failed && id == CLOCK_REALTIME && wrong
        && __atomic_add_fetch(&readings, 1, __ATOMIC_RELAXED) > (after ? atol(after) : 0))
        now->tv_sec += atol(wrong);
    return (int)failed;
}
"#;

/// The commands that only read.
const READING: [&[&str]; 13] = [
    &["verify"],
    &["status"],
    &["status", "--json"],
    &["status", "last"],
    &["queue", "list"],
    &["queue", "list", "--json"],
    &["trace", "list"],
    &["trace", "list", "--json"],
    &["queue", "show", "last"],
    &["checkpoint", "list", "last"],
    &["checkpoint", "show", "last/POST_build"],
    &["checkpoint", "diff", "last/PRE_build", "last/POST_build"],
    &["grant", "list"],
];

/// Runs a line where the whole place is mounted read-only; `None` where nothing can be mounted.
fn read_only(place: &Place, line: &[&str]) -> Option<Outcome> {
    let script = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" || exit 99; cd \"$0/work\" && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    command.arg(place.base()).arg(env!("CARGO_BIN_EXE_windlass")).args(line);
    place.settle(&mut command);
    let outcome = finish(command, &[]);
    let is_refused = outcome.code == Some(99) || outcome.stderr.starts_with("unshare:");
    (!is_refused).then_some(outcome)
}

#[test]
fn mend_18_what_reads_works_on_a_read_only_file_system() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let trace = repo.windlass(&["trace", "list", "--json"]).exit(0).json();
    let trace = trace[0]["trace_id"].as_str().unwrap().to_owned();
    for line in
        READING.into_iter().chain([&["trace", "log", &trace][..], &["trace", "show", &trace]])
    {
        let usual = repo.windlass(line).exit(0);
        let Some(outcome) = read_only(&repo.place, line) else {
            windlass_testkit::skipped("no file system can be mounted");
            return;
        };
        let outcome = outcome.exit(0);
        // Git cannot store the files of the work tree to compare them.
        let (told, usual) = match line {
            ["queue", "show", ..] => {
                let before =
                    |text: &str| text.split("  diff ").next().unwrap_or_default().to_owned();
                assert!(outcome.text().contains("  diff     cannot be made here"), "{outcome}");
                (before(outcome.text()), before(usual.text()))
            }
            _ => (outcome.text().to_owned(), usual.text().to_owned()),
        };
        assert_eq!(told, usual, "{line:?}");
    }
    // What would write says why it cannot.
    let outcome = read_only(&repo.place, &["resume", &id]).unwrap();
    assert_ne!(outcome.code, Some(0), "{outcome}");
    assert!(outcome.stderr.contains("error: "), "{outcome}");
}

/// Takes the right to write from all folders and files, or gives it back to the owner.
fn chmod(path: &Path, writable: bool) {
    let found = path.symlink_metadata().unwrap();
    if found.is_symlink() {
        return;
    }
    let mode = found.permissions().mode();
    let mode = if writable { mode | 0o200 } else { mode & !0o222 };
    let rights = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, rights).unwrap();
    if found.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            chmod(&entry.unwrap().path(), writable);
        }
    }
}

#[test]
fn mend_18_what_reads_works_where_the_state_cannot_be_written_to() {
    let repo = Repo::new();
    repo.run(&escalating()).exit(4);
    let state = repo.place.state_root();
    chmod(&state, false);
    // Root may write all the same.
    let is_root = std::fs::write(state.join("probe"), "").is_ok();
    let outcomes: Vec<_> = READING.into_iter().map(|line| repo.windlass(line)).collect();
    chmod(&state, true);
    if is_root {
        windlass_testkit::skipped("root may write to everything");
    }
    for outcome in outcomes {
        drop(outcome.exit(0));
    }
}

/// The library with the wrong clock.
fn clock(place: &Place) -> std::path::PathBuf {
    let (source, library) = (place.base().join("clock.c"), place.base().join("clock.so"));
    std::fs::write(&source, CLOCK).unwrap();
    let mut cc = Command::new("cc");
    let built = cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(built.unwrap().success(), "what links Rust programs builds this, too");
    library
}

fn at_clock(place: &Place, wrong: &str, after: &str, line: &[&str]) -> Outcome {
    let library = clock(place);
    let mut command = place.command(line);
    command.env("LD_PRELOAD", library).env("WRONG_CLOCK", wrong).env("WRONG_AFTER", after);
    finish(command, &[])
}

/// Two hundred years ago.
const LONG_AGO: &str = "-6311390400";

#[test]
fn mend_18_a_clock_before_1970_is_no_panic() {
    let place = Place::with_project();
    let call = ["call", "run", "shell/read", "--args", r#"{"line":"ls"}"#, "--json"];
    for line in [
        &call[..],
        &call,
        &["verify"],
        &["status"],
        &["trace", "list"],
        &["queue", "list"],
        &["recover"],
    ] {
        let outcome = at_clock(&place, LONG_AGO, "0", line);
        assert!(!outcome.stderr.contains("panicked"), "{outcome}");
        let outcome = outcome.exit(0);
        if line == call {
            assert_eq!(outcome.json()["state"], "COMPLETED");
        }
    }
    let new = Place::new();
    at_clock(&new, LONG_AGO, "0", &["init"]).exit(0);
    place.run(&["verify"]).exit(0);
}

#[test]
fn mend_18_a_clock_that_jumps_uses_up_no_wall_budget() {
    for (wrong, after) in [("86400", "40"), ("86400", "120"), ("-86400", "40")] {
        let repo = Repo::new();
        assert!(repo.read(".windlass/loops/spine.md").contains("wall_minutes: 30"));
        let path =
            repo.answers(&answers(&[build(&[sh("echo x >> built.txt")])], &[review("approved")]));
        let line = ["run", "one", "--answers", &path, "--json"];
        let run = at_clock(&repo.place, wrong, after, &line).exit(0).json();
        assert_eq!(run["outcome"], "PASS", "{run}");
        assert!(run["spent"]["wall_ms"].as_u64().unwrap() < 600_000, "{run}");
        assert_eq!(run["spent"]["accounted"], json!(true), "{run}");
    }
}
