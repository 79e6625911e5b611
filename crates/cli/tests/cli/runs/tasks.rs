//! The forms of a task: a file, inline JSON, a sentence.

use serde_json::{Value, json};

use crate::world::{Repo, answers, built_once, passing, review};

/// Starts a run of a task, and returns the task as recorded.
fn recorded(repo: &Repo, task: &str) -> Value {
    let path = repo.answers(&passing());
    repo.windlass(&["run", task, "--json", "--answers", &path]).exit(0).json()["task"].clone()
}

#[test]
fn a_task_comes_from_a_json_file_a_yaml_file_inline_json_or_a_sentence() {
    let beside = |repo: &Repo, name: &str, text: &str| {
        let path = repo.place.base().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let repo = Repo::new();
    let json =
        beside(&repo, "t.json", r#"{"task":"one","task_ref":"T-1","context_refs":["README.md"]}"#);
    let one = recorded(&repo, &json);
    assert_eq!((&one["task"], &one["task_ref"]), (&json!("one"), &json!("T-1")));
    let yaml = beside(&repo, "t.yaml", "task: two\nconstraints:\n  allowed_paths: [built.txt]\n");
    let two = recorded(&repo, &yaml);
    assert_eq!(
        (&two["task"], &two["constraints"]["allowed_paths"]),
        (&json!("two"), &json!(["built.txt"]))
    );
    let three = recorded(&repo, r#"{"task":"three"}"#);
    assert_eq!(three["task"], "three");
    let four = recorded(&repo, "make it four");
    assert_eq!(four["task"], "make it four");
    assert_eq!(repo.read("built.txt"), "built\n".repeat(4));
}

#[test]
fn a_reference_that_is_missing_ends_the_run_before_anything_is_done() {
    let repo = Repo::new();
    let path = repo.answers(&passing());
    let task = r#"{"task":"one","context_refs":["docs/missing.md"]}"#;
    let run = repo.windlass(&["run", task, "--json", "--answers", &path]).exit(3).json();
    assert_eq!(run["outcome"], "BLOCKED");
    assert_eq!(run["phases"][0]["status"], "failed");
    assert!(run["phases"][0]["failure"]["reason"].as_str().unwrap().contains("docs/missing.md"));
    assert_eq!(repo.status(), "");
}

#[test]
fn without_anybody_to_perform_an_agent_the_run_says_what_is_missing() {
    let repo = Repo::new();
    let refused = repo.windlass(&["run", "one"]).fails_with(1, "AGENT_UNAVAILABLE");
    refused.warns("builder").warns("--answers");
    assert_eq!(repo.place.ids(), Vec::<String>::new(), "nothing is recorded");
}

#[test]
fn a_change_outside_of_the_task_asks_for_a_waiver() {
    let repo = Repo::new();
    let path = repo.answers(&answers(&[built_once()], &[review("approved")]));
    let task = r#"{"task":"one","constraints":{"allowed_paths":["src"]}}"#;
    let held = repo.windlass(&["run", task, "--json", "--answers", &path]).exit(4);
    let run = held.json();
    assert_eq!(run["hold"]["trigger"], "WAIVER_REQUESTED");
    assert_eq!(run["hold"]["phase"], "build");
    let id = run["run_id"].as_str().unwrap();
    repo.windlass(&["queue", "show", id]).exit(0).says("built.txt");
    let packet = repo.artifact(&format!("checkpoints/CP_{id}_3.yaml"));
    assert!(packet.contains("trigger: WAIVER_REQUESTED"), "{packet}");
}

#[test]
fn a_denied_path_and_too_many_lines_ask_for_a_waiver() {
    for constraints in [json!({"denied_paths": ["built.txt"]}), json!({"max_diff_lines": 1})] {
        let repo = Repo::new();
        let line = crate::world::sh("echo a >> built.txt; echo b >> built.txt");
        let path = repo.answers(&answers(&[crate::world::build(&[line])], &[]));
        let task = json!({ "task": "one", "constraints": constraints }).to_string();
        let run = repo.windlass(&["run", &task, "--json", "--answers", &path]).exit(4).json();
        assert_eq!(run["hold"]["trigger"], "WAIVER_REQUESTED", "{constraints}");
    }
}
