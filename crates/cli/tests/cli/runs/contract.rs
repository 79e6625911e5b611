//! The acceptance criteria of the loop spine, each by its number.

use std::sync::OnceLock;

use serde_json::Value;
use windlass_formats::yaml;

use crate::world::{Repo, VOICE, escalating, id_of, passing, trace_of};

/// A run that waited, was approved by one person, taken up by another, and passed.
struct Story {
    repo: Repo,
    id: String,
    trace: String,
    open_packet: String,
}

fn story() -> &'static Story {
    static MADE: OnceLock<Story> = OnceLock::new();
    MADE.get_or_init(|| {
        let repo = Repo::new();
        let held = repo.run(&escalating()).exit(4);
        let (id, trace) = (id_of(&held), trace_of(&held));
        let open_packet = repo.artifact(&format!("checkpoints/CP_{id}_4.yaml"));
        repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(0);
        repo.windlass(&["resume", &id, "--by", "bob"]).exit(0);
        Story { repo, id, trace, open_packet }
    })
}

fn read(text: &str) -> Value {
    yaml::read(text.as_bytes(), 1 << 20).unwrap()
}

#[track_caller]
fn is_sorted(text: &str) {
    let keys: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with([' ', '-']))
        .filter_map(|line| Some(line.split_once(':')?.0))
        .collect();
    assert!(keys.len() > 5 && keys.is_sorted(), "{keys:?}");
}

#[test]
fn ac1_a_run_passes_through_the_five_states() {
    let story = story();
    let log = story.repo.windlass(&["trace", "log", &story.trace, "--json"]).exit(0);
    let mut states: Vec<String> = Vec::new();
    for line in log.text().lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let entry = entry.get("entry").unwrap_or(&entry);
        let to = entry["to_state"].as_str().unwrap().to_owned();
        if states.last() != Some(&to) {
            states.push(to);
        }
    }
    assert_eq!(states, ["INIT", "RUNNING", "CHECKPOINT", "RESUMED", "RUNNING", "TERMINAL"]);
}

#[test]
fn ac2_a_hold_packet_has_every_field() {
    let (story, packet) = (story(), read(&story().open_packet));
    assert_eq!(packet["checkpoint_id"], format!("CP_{}_4", story.id));
    assert_eq!(packet["run_id"], story.id.as_str());
    assert_eq!(packet["trigger"], "ESCALATION_REQUESTED");
    assert_eq!(packet["step_index"], 4);
    assert_eq!(packet["task_spec"]["task"], "raise the price");
    assert_eq!(
        (&packet["resolved"], &packet["resolution_decision"]),
        (&false.into(), &Value::Null)
    );
    let hash = story.repo.windlass(&["policy", "hash", "--loop", "spine"]).exit(0);
    assert_eq!(packet["policy_hash"], hash.text().trim());
    assert!(packet["timestamp"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn ac3_a_terminal_packet_has_every_field() {
    let story = story();
    let packet = read(&story.repo.artifact(&format!("terminal/TP_{}.yaml", story.id)));
    assert_eq!((&packet["outcome"], &packet["reason"]), (&"PASS".into(), &"pass".into()));
    assert_eq!(packet["run_id"], story.id.as_str());
    assert_eq!(packet["commit_hash"], story.repo.head());
    let steps = ["hydrate", "policy", "design", "build", "review", "steward"];
    assert_eq!(packet["steps_executed"], serde_json::json!(steps));
    for name in [
        "timestamp",
        "status",
        "start_ts",
        "end_ts",
        "policy_hash",
        "phase_outcomes",
        "gate_results",
        "repo_clean_verified",
        "tokens_consumed",
        "token_accounting_complete",
        "ledger_chain_tip",
        "ledger_attempt_count",
        "packet_hash",
    ] {
        assert!(packet.get(name).is_some(), "{name}: {packet}");
    }
}

#[test]
fn ac4_run_executes_the_chain_and_emits_the_terminal_packet() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&passing()).exit(0));
    let mut expected =
        vec![format!("terminal/TP_{id}.yaml"), "loop_state/attempt_ledger.jsonl".into()];
    let steps = ["hydrate", "policy", "design", "build", "review", "steward"];
    expected.extend(steps.iter().map(|step| format!("steps/{id}_{step}.json")));
    expected.sort();
    assert_eq!(repo.artifacts(), expected);
}

#[test]
fn ac5_resume_checks_the_policy_and_goes_on() {
    let story = story();
    let run = story.repo.stands(&story.id);
    assert_eq!((&run["outcome"], &run["state"]), (&"PASS".into(), &"TERMINAL".into()));
    let counts = story.repo.counts(&story.trace);
    assert_eq!((counts["resumed"], counts["continued"], counts["ended"]), (1, 1, 1));
}

#[test]
fn ac6_a_verdict_triggers_the_hold() {
    let story = story();
    let events = story.repo.events(&story.trace);
    let held = events.iter().position(|event| event["kind"] == "held").unwrap();
    assert_eq!(events[held]["trigger"], "ESCALATION_REQUESTED");
    assert_eq!(events[held - 1]["kind"], "checkpointed", "the end of the phase is kept with it");
    assert_eq!(events[held - 2]["kind"], "phase_done", "nothing is done between them");
    assert_eq!(events[held + 1]["kind"], "voted", "nothing is done until a person answers");
}

#[test]
fn ac7_a_hold_packet_is_yaml_with_sorted_keys() {
    is_sorted(&story().open_packet);
}

#[test]
fn ac8_a_hold_packet_is_checked_when_it_is_read() {
    let story = story();
    let packet = story.repo.artifact(&format!("checkpoints/CP_{}_4.yaml", story.id));
    windlass_formats::read_hold(packet.as_bytes()).unwrap();
    let edited = packet.replace("step_index: 4", "step_index: 5");
    assert_ne!(packet, edited);
    windlass_formats::read_hold(edited.as_bytes()).unwrap_err();
}

#[test]
fn ac9_a_resolution_says_whether_what_by_whom_and_why() {
    let story = story();
    let packet = read(&story.repo.artifact(&format!("checkpoints/CP_{}_4.yaml", story.id)));
    assert_eq!(packet["resolved"], true);
    assert_eq!(packet["resolution_decision"], "APPROVED");
    let vote = story.repo.events(&story.trace).into_iter().find(|event| event["kind"] == "voted");
    let vote = vote.unwrap();
    assert_eq!((&vote["by"]["name"], &vote["reason"]), (&"ada".into(), &"looked at it".into()));
    let before = read(&story.open_packet);
    assert_eq!(
        (&before["resolved"], &before["resolution_decision"]),
        (&false.into(), &Value::Null)
    );
}

#[test]
fn ac10_a_terminal_packet_is_yaml_with_sorted_keys() {
    let story = story();
    is_sorted(&story.repo.artifact(&format!("terminal/TP_{}.yaml", story.id)));
}

#[test]
fn ac11_the_policy_hash_is_the_same_for_the_same_files() {
    let (one, two) = (Repo::new(), Repo::new());
    let hash = |repo: &Repo| repo.windlass(&["policy", "hash"]).exit(0).text().trim().to_owned();
    assert_eq!(hash(&one), hash(&two));
    assert!(hash(&one).len() == 64 && hash(&one).bytes().all(|byte| byte.is_ascii_hexdigit()));
}

#[test]
fn ac16_the_files_are_the_same_bytes_when_they_are_written_again() {
    let repo = Repo::new();
    let held = repo.run(&escalating()).exit(4);
    let id = id_of(&held);
    let folder = repo.root().join(".windlass/artifacts");
    let before = crate::world::tree(&folder);
    // What was deleted comes back with the next step, and only that step is new.
    std::fs::remove_dir_all(folder.join("steps")).unwrap();
    std::fs::remove_dir_all(folder.join("loop_state")).unwrap();
    repo.approve(&id).exit(0);
    let after = crate::world::tree(&folder);
    for (name, bytes) in &before {
        if name.starts_with("steps/") {
            assert_eq!(after.get(name), Some(bytes), "{name}");
        }
    }
    let json = repo.artifact(&format!("steps/{id}_build.json"));
    let value: Value = serde_json::from_str(&json).unwrap();
    let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
    for name in ["artifacts", "duration_ms", "outcome", "step_name"] {
        assert!(keys.iter().any(|key| *key == name), "{name}: {json}");
    }
    let places: Vec<usize> =
        keys.iter().map(|key| json.find(&format!("\"{key}\"")).unwrap()).collect();
    assert!(places.is_sorted(), "{json}");
}
