//! The artifact contract of the loop spine: names, fields, sorted keys, stable bytes.

use serde_json::{Value, json};
use windlass_formats::{
    Outcome, PACKET_BYTES_MAX, PhaseStatus, RunStatus, StepSummary, TerminalReason, check_ledger,
    read_hold, read_terminal, yaml,
};
use windlass_kernel::Digest;
use windlass_kernel::run::{Event, VoteDecision};

use crate::world::{
    Script, World, built, failed, name, passing, policy_changed, spine, tree_of, verdict,
};

const STEPS: [&str; 6] = ["hydrate", "policy", "design", "build", "review", "steward"];

/// Compares a tree with the pinned one; `WINDLASS_SNAPSHOTS=update` pins it anew.
fn is_pinned(tree: &std::collections::BTreeMap<String, String>, scenario: &str) {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/projection");
    let root = root.join(scenario);
    if std::env::var("WINDLASS_SNAPSHOTS").as_deref() == Ok("update") {
        for (name, text) in tree {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }
    assert_eq!(*tree, tree_of(&root));
}

fn redone() -> Script {
    Script::from([
        (("build", 1), built(1)),
        (("review", 1), verdict("needs_revision")),
        (("build", 2), built(2)),
        (("review", 2), verdict("escalate")),
    ])
}

#[test]
fn s1_a_run_that_passes_leaves_exactly_its_files() {
    let mut world = World::new();
    let files = world.files();
    let recorder = world.run(&files, &passing());
    let run = name(&recorder);
    let mut expected: Vec<String> = ["audit"]
        .iter()
        .chain(&STEPS)
        .map(|step| format!("steps/{run}_{step}.json"))
        .chain([format!("terminal/TP_{run}.yaml"), "loop_state/attempt_ledger.jsonl".to_owned()])
        .collect();
    expected.sort();
    let tree = world.tree();
    assert_eq!(tree.keys().cloned().collect::<Vec<_>>(), expected);
    is_pinned(&tree, "pass");
}

#[test]
fn s1_the_terminal_packet_tells_the_whole_run() {
    let mut world = World::new();
    let files = world.files();
    let recorder = world.run(&files, &passing());
    let run = name(&recorder);
    let packet = read_terminal(world.read(&format!("terminal/TP_{run}.yaml")).as_bytes()).unwrap();
    assert_eq!(packet.run_id.as_str(), run);
    assert_eq!((packet.outcome, packet.reason.as_str()), (Outcome::Pass, "pass"));
    assert_eq!(packet.status, Some(RunStatus::Success));
    assert_eq!(packet.steps_executed, STEPS);
    let of = |step: &str| packet.phase_outcomes[&step.parse().unwrap()];
    assert!(STEPS.iter().all(|step| of(step) == PhaseStatus::Complete));
    assert_eq!(of("audit"), PhaseStatus::Skipped);
    let gates: Vec<(&str, &str, bool, &str)> = packet
        .gate_results
        .iter()
        .map(|gate| (gate.phase.as_str(), gate.name.as_str(), gate.pass, gate.reason.as_str()))
        .collect();
    assert_eq!(
        gates,
        [
            ("build", "scope", true, "in_scope: 3 files of 3"),
            ("review", "review", true, "approved: it is approved"),
        ]
    );
    // Six steps and one check.
    assert_eq!(packet.tokens_consumed, Some(77));
    assert_eq!(packet.token_accounting_complete, Some(true));
    assert_eq!(packet.repo_clean_verified, Some(true));
    assert_eq!(packet.task_ref.as_deref(), Some("T-12"));
    assert_eq!(packet.policy_hash, Some(Digest::of(b"policy")));
    assert_eq!(packet.end_ts, Some(packet.timestamp));
    assert!(packet.start_ts.unwrap() < packet.timestamp);
    let ledger = check_ledger(world.read("loop_state/attempt_ledger.jsonl").as_bytes()).unwrap();
    assert_eq!(packet.ledger_chain_tip, Some(ledger.runs[0].tip));
    assert_eq!(packet.ledger_attempt_count, Some(6));
    assert_eq!(ledger.runs[0].attempts, 6);
    assert_eq!(ledger.runs[0].terminal_reason, Some(TerminalReason::Pass));
}

#[test]
fn s1_a_commit_is_named_by_a_run_that_passes_only() {
    for (last, expected) in [("approved", Some("c0ffee")), ("rejected", None)] {
        let mut world = World::new();
        let files = world.files();
        let mut recorder = world.start(&files, spine()).unwrap();
        recorder.append(Event::Begun {}).unwrap();
        let [branch, commit, parent, tree] = ["main", "c0ffee", "p", "t"].map(str::to_owned);
        let prepared = Event::CommitPrepared { branch, commit, parent, tree };
        recorder.append(prepared).unwrap();
        let script = Script::from([(("review", 1), verdict(last))]);
        recorder.drive(&script).unwrap();
        let packet = world.read(&format!("terminal/TP_{}.yaml", name(&recorder)));
        assert_eq!(read_terminal(packet.as_bytes()).unwrap().commit_hash.as_deref(), expected);
    }
}

#[test]
fn s1_a_run_that_fails_ends_blocked() {
    for (script, reason, status) in [
        (Script::from([(("build", 1), failed("timeout"))]), "mission_failed", "build"),
        (Script::from([(("review", 1), verdict("rejected"))]), "review_rejected", ""),
        (Script::from([(("review", 1), verdict("perhaps"))]), "unsupported_verdict", ""),
    ] {
        let mut world = World::new();
        let files = world.files();
        let recorder = world.run(&files, &script);
        let packet = world.read(&format!("terminal/TP_{}.yaml", name(&recorder)));
        let packet = read_terminal(packet.as_bytes()).unwrap();
        assert_eq!((packet.outcome, packet.reason.as_str()), (Outcome::Blocked, reason));
        assert_eq!(packet.status, Some(RunStatus::CleanFail));
        let failed: Vec<String> = packet
            .phase_outcomes
            .iter()
            .filter(|(_, status)| **status == PhaseStatus::Failed)
            .map(|(step, _)| step.to_string())
            .collect();
        assert_eq!(failed.concat(), status);
        assert!(!packet.steps_executed.iter().any(|step| step == "steward"));
        let gates = packet.gate_results.last();
        assert_eq!(gates.is_some_and(|gate| !gate.pass), status.is_empty());
    }
}

#[test]
fn s2_a_hold_leaves_its_packet_and_no_end() {
    let mut world = World::new();
    let files = world.files();
    let recorder = world.run(&files, &redone());
    let run = name(&recorder);
    let tree = world.tree();
    is_pinned(&tree, "hold");
    assert!(!tree.keys().any(|path| path.starts_with("terminal")));
    let packet = &tree[&format!("checkpoints/CP_{run}_4.yaml")];
    let read = read_hold(packet.as_bytes()).unwrap();
    let hold = recorder.run().hold.as_ref().unwrap();
    assert_eq!(read.checkpoint_id.to_string(), format!("CP_{run}_4"));
    assert_eq!(read.trigger, "ESCALATION_REQUESTED");
    assert_eq!((read.step_index, read.step_name.as_deref()), (4, Some("review")));
    assert_eq!(read.policy_hash, Digest::of(b"policy"));
    assert_eq!(Value::Object(read.task_spec), recorder.run().started.as_ref().unwrap().task);
    assert_eq!(read.resolution, None);
    assert_eq!(read.shown_digest, Some(hold.shown));
    assert_eq!(read.expires_at, hold.held.expires_at.map(Into::into));
    let value = yaml::read(packet.as_bytes(), PACKET_BYTES_MAX).unwrap();
    assert_eq!((&value["resolved"], &value["resolution_decision"]), (&json!(false), &Value::Null));
}

#[test]
fn s3_what_was_done_before_a_hold_is_not_shown_as_done_again() {
    let mut world = World::new();
    let files = world.files();
    let script = Script::from([(("review", 1), verdict("escalate"))]);
    let mut recorder = world.run(&files, &script);
    let before = world.tree();
    recorder.vote("bob", VoteDecision::Approved).unwrap();
    recorder.resume().unwrap();
    recorder.drive(&script).unwrap();
    let after = world.tree();
    for (path, content) in before.iter().filter(|(path, _)| path.starts_with("steps")) {
        assert_eq!(&after[path], content, "{path}");
    }
    let packet = world.read(&format!("terminal/TP_{}.yaml", name(&recorder)));
    let packet = read_terminal(packet.as_bytes()).unwrap();
    assert_eq!(packet.steps_executed, STEPS);
    assert_eq!(packet.outcome, Outcome::Pass);
    let review: Vec<(bool, &str)> = packet
        .gate_results
        .iter()
        .filter(|gate| gate.phase == "review")
        .map(|gate| (gate.pass, gate.reason.as_str()))
        .collect();
    assert_eq!(
        review,
        [(false, "escalate: it is escalate"), (true, "let pass by bob: bob has seen it")]
    );
}

#[test]
fn s4_a_changed_policy_ends_blocked_and_resolves_nothing() {
    let mut world = World::new();
    let files = world.files();
    let mut recorder = world.run(&files, &Script::from([(("review", 1), verdict("escalate"))]));
    let hold = format!("checkpoints/CP_{}_4.yaml", name(&recorder));
    let before = world.read(&hold);
    recorder.append(policy_changed()).unwrap();
    let packet = world.read(&format!("terminal/TP_{}.yaml", name(&recorder)));
    let packet = read_terminal(packet.as_bytes()).unwrap();
    assert_eq!(packet.outcome, Outcome::Blocked);
    assert_eq!(packet.reason, "POLICY_CHANGED_MID_RUN");
    assert_eq!(world.read(&hold), before);
}

#[test]
fn s5_without_a_run_there_is_not_even_a_folder() {
    let world = World::new();
    drop(world.files());
    assert!(!world.root().exists());
}

#[test]
fn s6_each_answer_is_shown() {
    for (decision, text) in
        [(VoteDecision::Approved, "APPROVED"), (VoteDecision::Rejected, "REJECTED")]
    {
        let mut world = World::new();
        let files = world.files();
        let mut recorder = world.run(&files, &Script::from([(("review", 1), verdict("escalate"))]));
        recorder.vote("bob", decision).unwrap();
        let packet = world.read(&format!("checkpoints/CP_{}_4.yaml", name(&recorder)));
        let packet = read_hold(packet.as_bytes()).unwrap();
        let resolution = packet.resolution.unwrap();
        assert_eq!(resolution.decision.as_str(), text);
        assert_eq!(resolution.by.as_deref(), Some("bob"));
        assert_eq!(resolution.reason.as_deref(), Some("bob has seen it"));
        assert_eq!(resolution.at, Some(recorder.run().last_at.unwrap().into()));
        assert_eq!(packet.approvals.len(), usize::from(decision == VoteDecision::Approved));
    }
}

#[test]
fn the_newest_try_has_the_plain_name() {
    let mut world = World::new();
    let files = world.files();
    let recorder = world.run(&files, &redone());
    let run = name(&recorder);
    for step in ["design", "build", "review"] {
        for (file, attempt) in [(step.to_owned(), 2), (format!("{step}.attempt-1"), 1)] {
            let bytes = world.read(&format!("steps/{run}_{file}.json"));
            let summary = StepSummary::read(bytes.as_bytes()).unwrap();
            assert_eq!((summary.step_name.as_str(), summary.attempt), (step, Some(attempt)));
        }
    }
    assert!(!world.root().join(format!("steps/{run}_hydrate.attempt-1.json")).exists());
}

#[test]
fn keys_are_sorted_in_every_file() {
    let mut world = World::new();
    let files = world.files();
    let mut recorder = world.run(&files, &redone());
    recorder.vote("bob", VoteDecision::Approved).unwrap();
    recorder.resume().unwrap();
    recorder.drive(&redone()).unwrap();
    let mut seen = 0;
    for (path, content) in world.tree() {
        let top: Vec<&str> = if path.ends_with(".yaml") {
            let keys = content.lines().filter(|line| !line.starts_with([' ', '-']));
            keys.filter_map(|line| Some(line.split_once(':')?.0)).collect()
        } else if path.ends_with(".json") {
            let keys = content.lines().filter_map(|line| line.strip_prefix("  \""));
            keys.filter_map(|line| Some(line.split_once("\":")?.0)).collect()
        } else {
            continue;
        };
        assert!(top.len() >= 4 && top.is_sorted(), "{path}: {top:?}");
        seen += 1;
    }
    assert_eq!(seen, 12);
}
