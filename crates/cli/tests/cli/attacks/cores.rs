//! Crashes: neither Windlass nor a command in a cell leaves a core dump, in which all secrets of the process would lie.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Signal, kill_process};
use windlass_testkit::{eventually, soak};

use crate::e2e::sandbox::Lab;
use crate::harness::{Place, finish};
use crate::world::tree;

const SECRET: &str = "hunter2-and-more-of-it";

/// The signals that end a process with a dump; QUIT is often ignored where tests run.
const SIGNALS: [(&str, Signal); 9] = [
    ("ABRT", Signal::ABORT),
    ("SEGV", Signal::SEGV),
    ("BUS", Signal::BUS),
    ("FPE", Signal::FPE),
    ("ILL", Signal::ILL),
    ("TRAP", Signal::TRAP),
    ("SYS", Signal::SYS),
    ("XCPU", Signal::XCPU),
    ("XFSZ", Signal::XFSZ),
];

/// Commands that go on until they are told something, or for a minute.
const LINGERING: [(&str, &[&str]); 6] = [
    ("a server", &["serve", "--listen", "127.0.0.1:0"]),
    ("a server that works", &["serve", "--listen", "127.0.0.1:0", "--work"]),
    ("tools for a client", &["mcp", "serve"]),
    ("a hook", &["hook", "--client", "claude"]),
    ("a command in a cell", &["call", "run", "shell/run", "--args", r#"{"line":"sleep 60"}"#]),
    ("what follows events", &["watch", "--json"]),
];

/// Ways to let a process have dumps, in a shell.
const RAISED: [&str; 6] = [
    "ulimit -c unlimited",
    "ulimit -Sc unlimited",
    "ulimit -Hc unlimited; ulimit -Sc unlimited",
    "prlimit --pid $BASHPID --core=unlimited:unlimited",
    "prlimit --pid $PPID --core=unlimited:unlimited",
    "echo 0x7f > /proc/self/coredump_filter; ulimit -c unlimited",
];

fn place() -> Place {
    let place = Place::with_project();
    place.settings("[secrets]\nSERVICE = { env = \"SERVICE_TOKEN\" }\n");
    place
}

/// Windlass as started by a user who wants to have dumps of everything.
fn dumping(place: &Place, words: &[&str]) -> Command {
    let mut command = Command::new("bash");
    let raise = "ulimit -c \"$(ulimit -Hc)\"; exec \"$@\"";
    command.args(["-c", raise, "bash", env!("CARGO_BIN_EXE_windlass")]).args(words);
    place.settle(&mut command);
    command.env("SERVICE_TOKEN", SECRET);
    command
}

/// Files that hold the secret, or that are called as dumps are.
fn dumps(place: &Place) -> Vec<String> {
    let holds = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
    let is_dump = |name: &str| {
        let name = name.rsplit('/').next().and_then(|name| name.strip_prefix("core"));
        let rest = name.map(|rest| rest.trim_start_matches('.'));
        rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let files = tree(place.base()).into_iter();
    files.filter(|(name, bytes)| is_dump(name) || holds(bytes)).map(|(name, _)| name).collect()
}

#[test]
fn a_windlass_that_crashes_leaves_no_dump() {
    let rows: Vec<_> =
        LINGERING.iter().flat_map(|one| SIGNALS.iter().map(move |signal| (one, signal))).collect();
    assert!(rows.len() >= 50);
    let maximum = rustix::process::getrlimit(Resource::Core).maximum;
    let none = if maximum == Some(0) { "0" } else { "1" };
    let place = place();
    for ((name, words), (signal, number)) in soak::chosen(&rows, 8, 0) {
        let mut command = dumping(&place, words);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        // The limit with which the kernel makes no dump, neither a file nor for a program of the machine.
        let limits = format!("/proc/{}/limits", child.id());
        eventually(&format!("{name} has no dumps"), || {
            let text = std::fs::read_to_string(&limits).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with("Max core file size"));
            line.and_then(|line| line.split_whitespace().nth(4)) == Some(none)
        });
        kill_process(Pid::from_child(&child), *number).unwrap();
        let _ = kill_process(Pid::from_child(&child), Signal::CONT);
        // Some signals end it in an orderly way.
        drop(child.stdin.take());
        let began = Instant::now();
        while child.try_wait().unwrap().is_none() && began.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(child.kill());
        child.wait().unwrap();
        assert_eq!(dumps(&place), Vec::<String>::new(), "{name}: {signal}");
    }
}

#[test]
fn a_command_that_crashes_in_a_cell_leaves_no_dump() {
    let lab = Lab::new();
    lab.place.replace(
        ".windlass/tools.toml",
        "[server.lab]\nconnector = \"command\"",
        "[server.lab]\nconnector = \"command\"\nenv = [\"SERVICE_TOKEN\"]",
    );
    let mut script = String::new();
    let mut count = 0;
    for raise in RAISED {
        for (name, _) in SIGNALS {
            count += 1;
            script.push_str(&format!(
                "mkdir d{count}; (cd d{count}; {{ {raise}; }} 2>/dev/null; exec bash -c 'kill -{name} $$; sleep 9')\n\
                 [ $? -ge 128 ] && echo died\n"
            ));
        }
    }
    assert!(count >= 50);
    script.push_str("for d in d[0-9]*; do rmdir \"$d\" || echo \"left: $(ls $d)\"; done\n");
    lab.place.write("lab.sh", script);
    let mut command = dumping(&lab.place, &["call", "run", "lab/confined", "--new-key", "--json"]);
    lab.equip(&mut command);
    let report = finish(command, &[]).exit(0).json();
    let said = report["result"]["stdout"].as_str().unwrap();
    assert_eq!(said, "died\n".repeat(count), "{report}");
    assert_eq!(dumps(&lab.place), Vec::<String>::new());
}
