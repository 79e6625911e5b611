//! Killed from outside, at moments that nobody chose; and the server killed instead.

use std::collections::BTreeMap;
use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use windlass_testkit::{Random, eventually, soak};

use crate::kill::check::{is_sound, is_whole};
use crate::kill::project::{Ended, Project, Transport};
use crate::kill::scene::Tally;

const BATCH: u32 = 3;

/// Lets a process run for a random while, kills it, and tells how it ended.
fn kill_after(mut process: Child, time: Duration, tally: &Tally) -> Ended {
    // Not to wait for anything: the moment is the test.
    std::thread::sleep(time);
    process.kill().unwrap();
    let ended = Ended::of(&process.wait_with_output().unwrap());
    if ended.killed {
        tally.kill();
    }
    ended
}

fn slow(project: &Project, key: &str, ms: u64) -> Child {
    let args = json!({ "ms": ms }).to_string();
    project.start(&["call", "run", "keyed/slow", "--args", &args, "--key", key])
}

#[test]
fn batches_killed_at_random_moments_end_once() {
    let seed = soak::seed(0x5eed_0001);
    let mut random = Random::new(seed);
    let (project, tally) = (Project::new(Transport::Stdio), Tally::default());
    for round in 0..soak::rounds(20) {
        let story = format!("seed {seed}, round {round}");
        let ms = random.below(40);
        let keys: Vec<String> = (0..BATCH).map(|call| format!("round-{round}-{call}")).collect();
        let batch: Vec<Child> = keys.iter().map(|key| slow(&project, key, ms)).collect();
        let mut printed = BTreeMap::new();
        for (key, process) in keys.iter().zip(batch) {
            let ended = kill_after(process, Duration::from_micros(random.below(40_000)), &tally);
            if !ended.killed || ended.text("/state") == "COMPLETED" {
                assert_eq!(ended.text("/state"), "COMPLETED", "{story}: {ended:?}");
                printed.insert(key, ended.out);
            }
        }
        if round % 2 == 0 {
            let time = Duration::from_micros(random.below(60_000));
            kill_after(project.start(&["recover"]), time, &tally);
        }
        let recovered = project.run(&["recover"]);
        assert_eq!(recovered.exit, Some(0), "{story}: {recovered:?}");
        for key in &keys {
            let again = Ended::of(&slow(&project, key, ms).wait_with_output().unwrap());
            assert_eq!(again.text("/state"), "COMPLETED", "{story}: {again:?}");
            assert_eq!(project.executions().get(key), Some(&1), "{story}: {again:?}");
            if let Some(printed) = printed.get(key) {
                for name in ["trace_id", "result", "latest_entry_digest"] {
                    assert_eq!(again.out[name], printed[name], "{story}: {again:?}");
                }
                assert_eq!(again.out["replayed"], true, "{story}");
            }
        }
    }
    is_whole(&project);
    tally.close("kills from outside");
}

/// A killed server's call waits for a person, with its reason, and is not made again.
fn check_waits(project: &Project, ended: &Ended, words: &[&str], reason: &str) {
    assert_eq!(ended.exit, Some(4), "{ended:?}");
    assert_eq!(ended.text("/state"), "EXECUTING", "{ended:?}");
    assert_eq!(ended.text("/hold/question"), "did_it_run", "{ended:?}");
    assert!(ended.text("/hold/reason").contains("[TOOL_SERVER_UNAVAILABLE]"), "{ended:?}");
    assert!(ended.text("/hold/reason").contains(reason), "{ended:?}");
    let again = project.run(words);
    assert_eq!(again.exit, Some(4), "{again:?}");
    assert_eq!(again.out["trace_id"], ended.out["trace_id"]);
    assert_eq!(project.executions(), BTreeMap::from([("once".to_owned(), 1)]));
    is_sound(project);
}

#[test]
fn a_call_whose_server_is_killed_waits_for_a_person() {
    let project = Project::new(Transport::Stdio);
    let words = ["call", "run", "plain/hang", "--key", "once"];
    let call = project.start(&words);
    eventually("the server executes", || project.executions().contains_key("once"));
    let servers = project.children();
    assert_eq!(servers.len(), 1);
    kill_process(Pid::from_raw(servers[0]).unwrap(), Signal::KILL).unwrap();
    let ended = Ended::of(&call.wait_with_output().unwrap());
    check_waits(&project, &ended, &words, "killed by signal 9");
}

#[test]
fn a_call_whose_server_dies_waits_for_a_person() {
    let project = Project::new(Transport::Stdio);
    let words = ["call", "run", "plain/die", "--key", "once"];
    let ended = project.run(&words);
    check_waits(&project, &ended, &words, "it wrote: dying as asked");
}

#[test]
fn a_server_that_honours_keys_is_asked_again_and_acts_once() {
    let project = Project::new(Transport::Stdio);
    let ended = project.run(&["call", "run", "keyed/die", "--key", "once"]);
    assert_eq!((ended.exit, ended.text("/state")), (Some(0), "COMPLETED"), "{ended:?}");
    assert_eq!(ended.out["redispatches"].as_array().unwrap().len(), 1, "{ended:?}");
    assert_eq!(project.executions(), BTreeMap::from([("once".to_owned(), 1)]));
    is_whole(&project);
}

#[test]
fn a_call_whose_http_server_is_killed_waits_for_a_person() {
    let mut project = Project::new(Transport::Http);
    let words = ["call", "run", "plain/hang", "--key", "once"];
    let call = project.start(&words);
    eventually("the server executes", || project.executions().contains_key("once"));
    project.kill_servers();
    let ended = Ended::of(&call.wait_with_output().unwrap());
    check_waits(&project, &ended, &words, "");
}

#[test]
fn a_killed_init_leaves_no_half_project() {
    let seed = soak::seed(0x5eed_0002);
    let mut random = Random::new(seed);
    let tally = Tally::default();
    for round in 0..soak::rounds(15) {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        std::fs::create_dir(&work).unwrap();
        let init = Project::command_in(&work, &["init"]);
        let time = Duration::from_micros(random.below(30_000));
        let ended = kill_after({ init }.spawn().unwrap(), time, &tally);
        let story = format!("seed {seed}, round {round}: {ended:?}");
        let there = work.join(".windlass").exists();
        let again = Ended::of(&Project::command_in(&work, &["init"]).output().unwrap());
        let (exit, code) = if there { (2, "PROJECT_EXISTS") } else { (0, "") };
        assert_eq!((again.exit, again.error_code().as_str()), (Some(exit), code), "{story}");
        crate::kill::race::is_a_project(&work, &story);
    }
}
