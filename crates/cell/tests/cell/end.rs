//! Nothing outlives its call.

use std::fs;
use std::time::{Duration, Instant};

use windlass_cell::{Confined, Ending, Excess, Limits, OnSignal, Program};

use super::common::World;

/// Whether a file stops growing.
fn stops(path: &std::path::Path) -> bool {
    let size = || fs::metadata(path).map_or(0, |metadata| metadata.len());
    let before = size();
    std::thread::sleep(Duration::from_millis(300));
    size() == before
}

const TICKER: &str = "while :; do echo x >> ticks; sleep 0.05; done";

#[test]
fn children_end_with_the_command() {
    for world in World::by_all() {
        for line in [
            format!("setsid sh -c '{TICKER}' & sleep 0.2"),
            format!("(setsid sh -c '({TICKER}) &' &) ; sleep 0.2"),
            format!("nohup sh -c '{TICKER}' >/dev/null 2>&1 & sleep 0.2"),
        ] {
            world.output(&line);
            assert!(fs::metadata(world.workspace().join("ticks")).unwrap().len() > 0, "{line}");
            assert!(stops(&world.workspace().join("ticks")), "{line}");
        }
    }
}

#[test]
fn a_cell_ends_when_its_socket_is_closed() {
    for world in World::by_all() {
        let (mut launcher, child) = world.start(&format!("setsid sh -c '{TICKER}'"));
        let ticks = world.workspace().join("ticks");
        let deadline = Instant::now() + Duration::from_secs(20);
        while !ticks.exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(ticks.exists());
        drop(child);
        launcher.wait().unwrap();
        assert!(stops(&ticks));
    }
}

#[test]
fn a_cell_ends_when_its_launcher_is_killed() {
    for world in World::by_all() {
        let (mut launcher, child) = world.start(&format!("setsid sh -c '{TICKER}'"));
        let ticks = world.workspace().join("ticks");
        let deadline = Instant::now() + Duration::from_secs(20);
        while !ticks.exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        launcher.kill().unwrap();
        launcher.wait().unwrap();
        assert!(stops(&ticks));
        drop(child);
    }
}

fn run(world: &World, line: &str, timeout: Duration) -> windlass_cell::Finished {
    run_with(world, line, timeout, Excess::End)
}

fn run_with(
    world: &World,
    line: &str,
    timeout: Duration,
    excess: Excess,
) -> windlass_cell::Finished {
    let argv = ["/bin/sh", "-c", line].map(std::ffi::OsStr::new).to_vec();
    let launcher = std::path::Path::new(env!("CARGO_BIN_EXE_cell-launcher"));
    let limits = Limits { timeout, output_bytes_max: 1000 };
    let confined = Some(Confined { launcher, cell: &world.cell });
    let program = Program {
        argv,
        stdin: Some(b"in"),
        env: Vec::new(),
        cwd: &world.workspace(),
        limits,
        confined,
        excess,
        on_signal: OnSignal::Continue,
    };
    windlass_cell::run(&program).unwrap()
}

#[test]
fn what_a_command_prints_beyond_the_limit_is_counted_and_dropped() {
    for world in World::by_all() {
        let line =
            "head -c 5000 /dev/zero | tr '\\0' o; head -c 1001 /dev/zero | tr '\\0' e >&2; exit 3";
        let done = run_with(&world, line, Duration::from_secs(60), Excess::Drop);
        assert_eq!((done.ending, done.status.unwrap().code()), (Ending::Exited, Some(3)));
        assert_eq!((done.stdout, done.stderr), (vec![b'o'; 1000], vec![b'e'; 1000]));
        assert_eq!((done.stdout_dropped, done.stderr_dropped), (4000, 1));
        // One that never ends is ended by its time.
        let endless = run_with(&world, "yes", Duration::from_secs(1), Excess::Drop);
        assert_eq!((endless.ending, endless.stdout.len()), (Ending::TimedOut, 1000));
        assert!(endless.stdout_dropped > 1 << 20);
    }
}

#[test]
fn a_command_is_run_to_its_end() {
    for world in World::by_all() {
        let minute = Duration::from_secs(60);
        let done = run(&world, "cat; echo err >&2; exit 3", minute);
        assert_eq!((done.ending, done.status.unwrap().code()), (Ending::Exited, Some(3)));
        assert_eq!((done.stdout.as_slice(), done.stderr.as_slice()), (&b"in"[..], &b"err\n"[..]));
        let killed = run(&world, "kill -KILL $$", minute);
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&killed.status.unwrap()), Some(9));
        let large = run(&world, "head -c 5000 /dev/zero", minute);
        assert_eq!(large.ending, Ending::TooLarge("stdout"));
    }
}

#[test]
fn a_command_out_of_time_may_clean_up_and_is_then_ended() {
    for world in World::by_all() {
        let line = format!(
            "trap 'echo bye; exit 0' TERM; setsid sh -c '{TICKER}' & while :; do sleep 0.05; done"
        );
        let done = run(&world, &line, Duration::from_secs(1));
        assert_eq!(done.ending, Ending::TimedOut);
        assert_eq!(done.stdout, b"bye\n");
        assert!(stops(&world.workspace().join("ticks")));
    }
}

#[test]
fn a_command_that_cannot_start_is_reported() {
    let world = World::new();
    let launcher = std::path::Path::new(env!("CARGO_BIN_EXE_cell-launcher"));
    let start = |program: &str, launcher: &std::path::Path| {
        windlass_cell::run(&Program {
            argv: vec![program.as_ref()],
            stdin: None,
            env: Vec::new(),
            cwd: &world.workspace(),
            limits: Limits { timeout: Duration::from_secs(60), output_bytes_max: 1000 },
            confined: Some(Confined { launcher, cell: &world.cell }),
            excess: Excess::End,
            on_signal: OnSignal::Continue,
        })
        .unwrap_err()
    };
    assert!(matches!(start("/no/such", launcher), windlass_cell::ProcessError::NotStarted(_)));
    for other in ["/bin/true", "/bin/false", "/bin/cat", "/no/such/launcher"] {
        let error = start("/bin/true", std::path::Path::new(other));
        assert!(matches!(error, windlass_cell::ProcessError::NotConfined(_)), "{other}: {error:?}");
    }
}
