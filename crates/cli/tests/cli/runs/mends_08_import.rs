//! Mend 8: states of version 1.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Outcome, text_of};
use crate::world::{Repo, VOICE, answers, build, id_of, sh};

/// A loop as version 1 had it: three phases with agents, of which the last is judged.
const LOOP: &str = "---
id: old
title: The phases of version 1
type: loop
category: test
version: \"1\"
on_restart: resume
phases:
  - id: planning
    doer: { agent: designer }
    outputs: [\"docs/plan.md\"]
  - id: consensus
    needs: [planning]
    doer: { agent: reviewer }
  - id: development
    needs: [consensus]
    doer: { agent: builder }
  - id: qa
    needs: [development]
    doer: { agent: reviewer }
---
";

fn with_old() -> Repo {
    let repo = Repo::with_loop("old", LOOP);
    repo.write("docs/plan.md", "the plan\n");
    repo.write("src/half.txt", "half done\n");
    repo.commit("the work of version 1");
    repo
}

/// Imports a state of version 1 with answers for all phases.
fn import(repo: &Repo, state: &Value, more: &[&str]) -> Outcome {
    let path = repo.place.base().join("state.json");
    fs::write(&path, state.to_string()).unwrap();
    let step = |line: &str| build(&[sh(line)]);
    let mut script = answers(&[], &[]);
    script["phases"] = json!({
        "planning": [step("echo planning >> ran.txt")],
        "consensus": [step("echo consensus >> ran.txt")],
        "development": [step("echo development >> ran.txt")],
        "qa": [step("echo qa >> ran.txt")],
    });
    let script = repo.answers(&script);
    let path = path.display().to_string();
    let line =
        ["import", "v1", &path, "--loop", "old", "--json", "--answers", &script, "--by", "ada"];
    repo.windlass(&[&line[..], more].concat())
}

fn state(current: Option<&str>, completed: &[&str], status: &str) -> Value {
    json!({
        "current_phase": current,
        "completed_phases": completed,
        "phase_artifacts": {
            "planning": ["docs/plan.md", "docs/gone.md"],
            "development": ["src/half.txt"],
        },
        "status": status,
        "task": "raise the price",
    })
}

#[test]
fn mend_08_an_imported_run_goes_on_at_the_phase_of_its_state_with_answers() {
    for (current, completed, status, ran) in [
        (Some("development"), &["planning"][..], "running", "development\nqa\n"),
        (Some("planning"), &[], "awaiting_consensus", "consensus\ndevelopment\nqa\n"),
        (Some("development"), &["planning", "consensus", "development"], "running", "qa\n"),
        (
            Some("planning"),
            &["planning", "consensus", "development"],
            "needs_revision",
            "planning\nconsensus\ndevelopment\nqa\n",
        ),
        (None, &[], "idle", "planning\nconsensus\ndevelopment\nqa\n"),
    ] {
        let repo = with_old();
        let id = id_of(&import(&repo, &state(current, completed, status), &[]).exit(4));
        assert_eq!(repo.read("ran.txt"), "", "nothing runs before a person says so");
        let line = ["queue", "approve", &id, "--json", "--resume"];
        let ended = repo.windlass(&[&line[..], &VOICE].concat()).exit(0).json();
        assert_eq!(ended["outcome"], "PASS", "{status}");
        assert_eq!(repo.read("ran.txt"), ran, "{status}");
        repo.is_whole();
    }
}

#[test]
fn mend_08_a_completed_and_an_aborted_state_run_nothing() {
    let repo = with_old();
    let ended = import(&repo, &state(None, &["planning"], "completed"), &[]).exit(0).json();
    assert_eq!(ended["outcome"], "PASS");
    let ended = import(&repo, &state(Some("qa"), &["planning"], "aborted"), &[]).exit(3).json();
    assert_eq!((&ended["outcome"], &ended["reason"]), (&json!("BLOCKED"), &json!("aborted")));
    assert_eq!(repo.read("ran.txt"), "");
    let unknown = state(Some("nowhere"), &[], "running");
    let refused = import(&repo, &unknown, &[]).exit(2).warns("nowhere");
    assert_eq!(refused.error()["code"], "IMPORT_INVALID");
}

#[test]
fn mend_08_an_import_keeps_its_artifacts() {
    let repo = with_old();
    let imported = import(&repo, &state(Some("development"), &["planning"], "running"), &[]);
    let id = id_of(&imported.exit(4));
    let trace = text_of(&repo.stands(&id), "trace_id");
    let started = repo.events(&trace)[0].clone();
    let kept = &started["options"]["imported"];
    assert_eq!(kept["phase_artifacts"]["planning"], json!(["docs/plan.md", "docs/gone.md"]));
    let hash = |path: &str| text_of(&kept["artifacts"][path], "hash");
    let inherited = &started["inherited"]["planning"]["outputs"]["docs/plan.md"];
    assert_eq!(inherited, &json!(hash("docs/plan.md")));
    // The files are stored, also those of the phase that is under way, and a purge leaves them.
    let stored = |hash: &str| {
        let digest = hash.rsplit(':').next().unwrap().to_owned();
        let blobs = crate::world::tree(&repo.place.state().join("blobs"));
        blobs.keys().any(|name| name.replace('/', "").contains(&digest))
    };
    repo.later(24 * 90, &["checkpoint", "purge", "--days", "1", "--keep", "0"]).exit(0);
    for path in ["docs/plan.md", "src/half.txt"] {
        assert!(stored(&hash(path)), "{path}");
    }
}

#[test]
fn mend_08_version_2_is_written_beside_version_1() {
    let repo = with_old();
    let old = state(Some("development"), &["planning"], "running");
    let id = id_of(&import(&repo, &old, &["--beside"]).exit(4));
    let base = repo.place.base();
    assert_eq!(fs::read_to_string(base.join("state.json")).unwrap(), old.to_string());
    let text = fs::read(base.join("state.v2.json")).unwrap();
    let new: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!((&new["type"], &new["phase"]), (&json!("POST"), &json!("consensus")));
    let at = &new["orchestrator_state"];
    assert_eq!(at["completed_phases"], json!(["planning", "consensus"]));
    assert_eq!((&at["current_phase"], &at["run_id"]), (&json!("development"), &json!(id)));
    assert_eq!(new["artifacts"]["docs/plan.md"]["size_bytes"], 9);
    assert_eq!(new["metadata"]["missing"], json!(["docs/gone.md"]));
    // It is not replaced, and then nothing is imported.
    let runs = || repo.windlass(&["status", "--json"]).exit(0).json().as_array().unwrap().len();
    let before = runs();
    let refused = import(&repo, &old, &["--beside"]).exit(1);
    assert_eq!(refused.error()["code"], "FILE_UNWRITABLE");
    assert_eq!(runs(), before);
    assert_eq!(fs::read(base.join("state.v2.json")).unwrap(), text);
    let other = base.join("other.json").display().to_string();
    import(&repo, &old, &["--output", &other]).exit(4);
    assert!(base.join("other.json").exists());
    let mut left = fs::read_dir(base).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!left.any(|name| name.to_string_lossy().contains("windlass-import")));
}
