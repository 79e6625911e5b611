//! Many processes at once over one journal.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Child;

use serde_json::{Value, json};
use windlass_testkit::{Random, eventually, soak};

use crate::kill::check::is_whole;
use crate::kill::project::{Ended, Project, Transport};
use crate::kill::scene::{Word, trace_of};

const PROCESSES: usize = 8;
const KEYS: usize = 100;

fn add(tool: &str, key: &str) -> Vec<String> {
    let args = json!({ "text": key }).to_string();
    let words = ["call", "run", tool, "--args", &args, "--key", key];
    words.map(str::to_owned).to_vec()
}

fn run(project: &Project, words: &[String]) -> Ended {
    project.run(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

fn keys() -> Vec<String> {
    (0..KEYS).map(|key| format!("key-{key}")).collect()
}

fn once_each() -> BTreeMap<String, u32> {
    keys().into_iter().map(|key| (key, 1)).collect()
}

/// Makes all calls, in an order of its own.
fn make_all(project: &Project, seed: u64) -> BTreeMap<String, Value> {
    let mut keys = keys();
    Random::new(seed).shuffle(&mut keys);
    let make = |key: String| {
        let ended = run(project, &add("plain/add", &key));
        assert_eq!((ended.exit, ended.text("/state")), (Some(0), "COMPLETED"), "{ended:?}");
        (key, ended.out)
    };
    keys.into_iter().map(make).collect()
}

#[test]
fn eight_race_for_a_hundred_keys() {
    let project = Project::new(Transport::Http);
    let answers: Vec<BTreeMap<String, Value>> = std::thread::scope(|scope| {
        // Two by two in the same order: these meet at every key.
        let start = |process: u64| {
            scope.spawn({
                let project = &project;
                move || make_all(project, process / 2)
            })
        };
        let racers: Vec<_> = (0..8).map(start).collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect()
    });
    assert_eq!(answers.len(), PROCESSES);
    assert_eq!(project.executions(), once_each());
    for key in keys() {
        let told: Vec<&Value> = answers.iter().map(|answer| &answer[&key]).collect();
        for name in ["trace_id", "result", "tool_call_id", "latest_entry_digest"] {
            assert!(told.iter().all(|one| one[name] == told[0][name]), "{key}: {told:#?}");
        }
        let made = told.iter().filter(|one| one["replayed"] == false).count();
        assert_eq!(made, 1, "{key}: {told:#?}");
    }
    let traces = project.run(&["trace", "list", "--limit", "1000"]);
    assert_eq!(traces.out.as_array().unwrap().len(), KEYS);
    is_whole(&project);
}

#[test]
fn eight_recover_a_hundred_calls() {
    let project = Project::new(Transport::Http);
    // Killed under a rule that lets the next process leave them alone.
    for (number, key) in keys().iter().enumerate() {
        let words = add("plain/add_hold", key);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let point = if number % 2 == 0 { "dispatch.before" } else { "dispatch.after" };
        assert!(project.run_to(&words, point, 1).killed);
    }
    assert_eq!(project.executions().len(), KEYS / 2);
    project.let_holds_be_probed();
    let racers: Vec<Child> = (0..PROCESSES).map(|_| project.start(&["recover"])).collect();
    let mut taken_up: BTreeMap<String, u32> = BTreeMap::new();
    for racer in racers {
        let ended = Ended::of(&racer.wait_with_output().unwrap());
        assert_eq!(ended.exit, Some(0), "{ended:?}");
        for recovered in ended.out.as_array().unwrap() {
            if recovered["report"]["tool"] == "plain/add_hold" && recovered["plan"] == "probe" {
                *taken_up.entry(trace_of(recovered).to_owned()).or_default() += 1;
            } else if let Some(error) = recovered.get("error") {
                assert_eq!(error["code"], "STATE_LOCK_ACQUIRE_FAILED", "{recovered}");
            } else {
                // Listed while open, taken when done; or a probe of another's, taken when done.
                assert_eq!(recovered["plan"], "nothing", "{recovered}");
            }
        }
    }
    assert_eq!(taken_up.len(), KEYS);
    assert!(taken_up.values().all(|times| *times == 1), "{taken_up:?}");
    assert_eq!(project.executions(), once_each());
    is_whole(&project);
}

fn decide(project: &Project, trace: &str, word: Word) -> Child {
    let shown = project.run(&["call", "show", trace]);
    let voice = [trace, "--by", "a person", "--reason", "a race"];
    let is_interrupted = shown.out["hold"]["question"] == "did_it_run";
    project.start(&[&["call"][..], word.answer(is_interrupted), &voice].concat())
}

/// Lets one approve and one deny the same call at once; tells who won.
fn approve_and_deny(project: &Project, trace: &str, first: Word) -> Word {
    let second = if first == Word::Approve { Word::Deny } else { Word::Approve };
    let racers = [first, second].map(|word| (word, decide(project, trace, word)));
    let ended = racers.map(|(word, racer)| (word, Ended::of(&racer.wait_with_output().unwrap())));
    let (won, lost): (Vec<_>, Vec<_>) = ended.iter().partition(|(_, one)| one.exit == Some(0));
    assert_eq!((won.len(), lost.len()), (1, 1), "{ended:?}");
    let code = lost[0].1.error_code();
    assert!(
        ["DECISION_ALREADY_MADE", "STATE_LOCK_ACQUIRE_FAILED"].contains(&code.as_str()),
        "{ended:?}"
    );
    won[0].0
}

#[test]
fn one_of_two_answers_wins() {
    let project = Project::new(Transport::Http);
    let mut winners = BTreeSet::new();
    for round in 0..soak::rounds(12) {
        let first = if round % 2 == 0 { Word::Approve } else { Word::Deny };
        let key = format!("asked-{round}");
        let asked = run(&project, &add("plain/add_ask", &key));
        assert_eq!(asked.exit, Some(4), "{asked:?}");
        let won = approve_and_deny(&project, trace_of(&asked.out), first);
        let made = project.executions().contains_key(&key);
        assert_eq!(made, won == Word::Approve, "round {round}: {won:?}");
        let shown = project.run(&["call", "show", trace_of(&asked.out)]);
        let state = if made { "COMPLETED" } else { "DENIED" };
        assert_eq!(shown.text("/state"), state, "round {round}: {shown:?}");
        winners.insert(format!("{won:?}"));
    }
    println!("answers that won: {winners:?}");
    is_whole(&project);
}

#[test]
fn one_of_two_answers_to_an_interrupted_call_wins() {
    let project = Project::new(Transport::Http);
    for round in 0..soak::rounds(12) {
        let first = if round % 2 == 0 { Word::Approve } else { Word::Deny };
        let key = format!("held-{round}");
        let words = add("plain/add_hold", &key);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert!(project.run_to(&words, "dispatch.before", 1).killed);
        let held = project.run(&["call", "list", "--held"]);
        let won = approve_and_deny(&project, trace_of(&held.out[0]), first);
        let made = project.executions().get(&key).copied().unwrap_or_default();
        assert_eq!(made, u32::from(won == Word::Approve), "round {round}: {won:?}");
        let shown = project.run(&["call", "show", trace_of(&held.out[0])]);
        let state = if made == 1 { "COMPLETED" } else { "FAILED" };
        assert_eq!(shown.text("/state"), state, "round {round}: {shown:?}");
    }
    is_whole(&project);
}

#[test]
fn a_live_holder_is_not_robbed_and_a_dead_one_is_free_at_once() {
    for transport in [Transport::Stdio, Transport::Http] {
        let project = Project::new(transport);
        let words = ["call", "run", "plain/slow", "--args", r#"{"ms":55000}"#, "--key", "long"];
        let mut holder = project.start(&words);
        eventually("the server executes", || project.executions().contains_key("long"));
        let open = project.run(&["call", "list", "--open"]);
        let trace = trace_of(&open.out[0]).to_owned();
        assert_eq!(open.out[0]["in_use"], true, "{open:?}");
        for _ in 0..3 {
            let recovered = project.run(&["recover"]);
            assert_eq!(recovered.exit, Some(0), "{recovered:?}");
            assert_eq!(recovered.text("/0/error/code"), "STATE_LOCK_ACQUIRE_FAILED");
            for word in [Word::Approve, Word::Deny] {
                let decided = decide(&project, &trace, word).wait_with_output().unwrap();
                let decided = Ended::of(&decided);
                assert_eq!(decided.error_code(), "DECISION_ALREADY_MADE", "{decided:?}");
            }
        }
        holder.kill().unwrap();
        holder.wait().unwrap();
        let recovered = project.run(&["recover"]);
        assert_eq!(recovered.exit, Some(4), "{recovered:?}");
        assert_eq!(recovered.text("/0/report/hold/question"), "did_it_run", "{recovered:?}");
        let denied = decide(&project, &trace, Word::Deny).wait_with_output().unwrap();
        assert_eq!(Ended::of(&denied).text("/state"), "FAILED");
        assert_eq!(project.executions(), BTreeMap::from([("long".to_owned(), 1)]));
        is_whole(&project);
    }
}

/// Whether a folder holds a whole project and nothing beside it, with one state and nothing beside that.
pub fn is_a_project(folder: &Path, story: &str) {
    let names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names, [".windlass"], "{story}");
    let states = folder.parent().unwrap().join("home/.local/state/windlass");
    // The people of the account are there as soon as one could be added.
    let entries = std::fs::read_dir(&states).unwrap().map(|entry| entry.unwrap().file_name());
    let count = entries.filter(|name| name != ".people").count();
    assert_eq!(count, 2, "a state and the lock: {story}");
    for words in [["policy", "check"].as_slice(), &["verify"]] {
        let ended = Ended::of(&Project::command_in(folder, words).output().unwrap());
        assert_eq!(ended.exit, Some(0), "{story}: {ended:?}");
    }
}

#[test]
fn one_of_eight_inits_makes_the_project() {
    for round in 0..soak::rounds(5) {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        std::fs::create_dir(&work).unwrap();
        let start = |_| Project::command_in(&work, &["init"]).spawn().unwrap();
        let racers: Vec<Child> = (0..PROCESSES).map(start).collect();
        let ended: Vec<Ended> =
            racers.into_iter().map(|racer| Ended::of(&racer.wait_with_output().unwrap())).collect();
        let (made, others): (Vec<_>, Vec<_>) = ended.iter().partition(|one| one.exit == Some(0));
        assert_eq!(made.len(), 1, "round {round}: {ended:?}");
        for other in others {
            let told = (other.exit, other.error_code());
            assert_eq!(told, (Some(2), "PROJECT_EXISTS".to_owned()), "round {round}: {other:?}");
        }
        is_a_project(&work, &format!("round {round}"));
    }
}
