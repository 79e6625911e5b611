//! Ctrl-C, `SIGTERM` and a closed terminal while something runs.

use std::process::{Child, Command};
use std::time::Duration;

use serde_json::json;
use windlass_testkit::eventually;

use crate::harness::Outcome;
use crate::world::{Repo, UNTIL_GO, id_of};

/// A loop whose first phase waits until it may go on.
fn waiting() -> String {
    format!(
        "---
id: waiting
title: A phase that waits
type: workflow
category: test
version: \"1\"
on_restart: resume
phases:
  - id: work
    doer: {{ command: [bash, -c, \"echo again >> tries.txt; {UNTIL_GO}; echo '{{}}'\"] }}
---
"
    )
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

fn end(child: Child) -> Outcome {
    Outcome::of("windlass".to_owned(), child.wait_with_output().unwrap())
}

/// Starts a call of a shell line and waits until it has begun.
fn call(repo: &Repo, line: &str, through: &[&str]) -> Child {
    let args = json!({ "line": line }).to_string();
    let words = ["call", "run", "shell/run", "--new-key", "--json", "--args", &args];
    let mut command = repo.place.command(&words);
    if let [program, more @ ..] = through {
        let binary = command.get_program().to_owned();
        command = Command::new(program);
        command.args(more).arg(binary).args(words);
        repo.place.settle(&mut command);
    }
    let child = command.spawn().unwrap();
    repo.until_begun();
    child
}

/// Fails if something still writes to `ticks.txt`.
#[track_caller]
fn assert_still(repo: &Repo) {
    let before = repo.read("ticks.txt");
    assert!(!before.is_empty());
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(repo.read("ticks.txt"), before);
}

/// Starts `make tick`, which leaves a process behind that writes on and on and ignores every polite signal.
fn ticking(repo: &Repo) -> Child {
    repo.write("Makefile", "tick:\n\tbash tick.sh\n");
    repo.write(
        "tick.sh",
        "trap '' INT TERM HUP
         setsid bash -c 'while :; do echo x >> ticks.txt; sleep 0.05; done' &
         sleep 0.2; touch begun.txt; wait\n",
    );
    call(repo, "make tick", &[])
}

#[test]
fn an_interrupted_run_says_so_and_goes_on_later() {
    for (name, exit) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let repo = Repo::with_loop("waiting", &waiting());
        let child = repo.place.command(&["run", "one", "--loop", "waiting"]).spawn().unwrap();
        repo.until_begun();
        signal(&child, name);
        let ended = end(child).exit(exit).warns("INTERRUPTED").warns("windlass resume");
        assert!(ended.stderr.contains(&format!("SIG{name}")), "{ended}");
        let list = repo.windlass(&["status", "--json"]).exit(0).json();
        assert_eq!((&list[0]["state"], &list[0]["live"]), (&json!("RUNNING"), &json!(false)));
        let id = list[0]["run_id"].as_str().unwrap();
        let trace = list[0]["trace_id"].as_str().unwrap();
        let last = repo.events(trace).pop().unwrap();
        assert_eq!(
            (&last["kind"], &last["what"]),
            (&json!("noted"), &json!("interrupt")),
            "{last}"
        );
        assert_eq!(last["body"]["signal"], format!("SIG{name}"));
        repo.go();
        // The command may have had an effect: a person says that it may be repeated.
        let held = repo.windlass(&["resume", id, "--json"]).exit(4).json();
        assert_eq!(held["hold"]["trigger"], "UNCERTAIN_EFFECT", "{held}");
        assert_eq!(id_of(&repo.approve(id).exit(0)), id);
        assert_eq!(repo.read("tries.txt"), "again\nagain\n");
        repo.is_whole();
    }
}

#[test]
fn an_interrupted_call_is_ended_with_all_its_processes_and_may_have_run() {
    let repo = Repo::new();
    let child = ticking(&repo);
    signal(&child, "INT");
    let ended = end(child).exit(130);
    assert_eq!(ended.error()["code"], "INTERRUPTED", "{ended}");
    assert_still(&repo);
    let open = repo.windlass(&["call", "list", "--json"]).exit(0).json();
    assert_eq!(open[0]["current_state"], "EXECUTING", "{open}");
    // Whether it ran is a person's to say.
    repo.windlass(&["recover"]).exit(4);
    repo.is_whole();
}

#[test]
fn a_second_signal_ends_windlass_at_once() {
    let repo = Repo::new();
    let child = ticking(&repo);
    signal(&child, "INT");
    std::thread::sleep(Duration::from_millis(100));
    signal(&child, "INT");
    let ended = end(child).exit(130);
    assert_eq!(ended.stderr, "windlass: SIGINT came again, so it ends at once\n", "{ended}");
    // It does not wait for the end of its cell, which the kernel sees to.
    eventually("its cell has ended", || {
        let before = repo.read("ticks.txt");
        std::thread::sleep(Duration::from_millis(300));
        repo.read("ticks.txt") == before
    });
    repo.is_whole();
}

#[test]
fn an_interrupted_recovery_is_no_result() {
    for json in [&[][..], &["--json"]] {
        let repo = Repo::with_loop("waiting", &waiting());
        let line = ["run", "one", "--loop", "waiting"];
        let killed = repo.place.run_with("WINDLASS_CRASH_AT", "append.after:2", &line);
        assert_eq!(killed.code, None, "{killed}");
        let child = repo.place.command(&[&["recover"], json].concat()).spawn().unwrap();
        repo.until_begun();
        signal(&child, "HUP");
        let ended = end(child).exit(129).warns("INTERRUPTED").warns("SIGHUP");
        let printed = if json.is_empty() { "" } else { "[]" };
        assert_eq!(ended.text().trim(), printed, "{ended}");
        std::fs::remove_file(repo.root().join("begun.txt")).unwrap();
        let id = repo.windlass(&["status", "--json"]).exit(0).json()[0]["run_id"].clone();
        let id = id.as_str().unwrap();
        // One run by its name is held first, since its work may have had an effect.
        repo.windlass(&[&["recover", id], json].concat()).exit(4);
        repo.is_whole();
    }
}

/// Whether a program that this process has started has these words among its arguments.
fn has_child(parent: &Child, words: &[&str]) -> bool {
    let parent = format!(" {} ", parent.id());
    let folders = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    folders.into_iter().any(|folder| {
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        // The parent follows the state, behind the name in parentheses.
        let stat = read("stat");
        let is_child = stat.rsplit(')').next().is_some_and(|rest| {
            rest.trim_start().get(1..).is_some_and(|rest| rest.starts_with(&parent))
        });
        let arguments = read("cmdline");
        is_child && words.iter().all(|word| arguments.split('\0').any(|found| found == *word))
    })
}

#[test]
fn a_signal_ends_the_inspection_of_a_huge_file() {
    let file = waiting().replace(UNTIL_GO, "truncate -s 15G huge.bin; touch begun.txt");
    let repo = Repo::with_loop("waiting", &file);
    let child = repo.place.command(&["run", "one", "--loop", "waiting"]).spawn().unwrap();
    repo.until_begun();
    eventually("git reads the file", || has_child(&child, &["update-index", "--add"]));
    signal(&child, "TERM");
    end(child).exit(143).warns("INTERRUPTED").warns("SIGTERM");
    let list = repo.windlass(&["status", "--json"]).exit(0).json();
    let events = repo.events(list[0]["trace_id"].as_str().unwrap());
    let kinds: Vec<&str> = events.iter().filter_map(|event| event["kind"].as_str()).collect();
    // Git would have needed minutes, and then the phase would be done.
    assert_eq!(kinds.last(), Some(&"noted"), "{kinds:?}");
    assert!(!kinds.contains(&"phase_done"), "{kinds:?}");
    std::fs::remove_file(repo.root().join("huge.bin")).unwrap();
    repo.git(&["fsck", "--strict"]);
    repo.is_whole();
}

#[test]
fn a_signal_that_was_ignored_stays_ignored() {
    let repo = Repo::new();
    let child = call(&repo, UNTIL_GO, &["env", "--ignore-signal=HUP"]);
    signal(&child, "HUP");
    std::thread::sleep(Duration::from_millis(200));
    repo.go();
    end(child).exit(0);
}

#[test]
fn git_goes_on_until_its_step_is_done() {
    // The work of a run is committed by our own git, which a signal must not leave half done.
    let repo = Repo::with_loop("waiting", &waiting());
    let child = repo.place.command(&["run", "one", "--loop", "waiting"]).spawn().unwrap();
    repo.until_begun();
    repo.go();
    signal(&child, "TERM");
    let ended = end(child);
    assert!(matches!(ended.code, Some(0 | 143)), "{ended}");
    repo.git(&["fsck", "--strict"]);
    repo.is_whole();
}
