//! Rules that work is measured by, and variants, from outside.

use serde_json::json;

use crate::world::{Repo, answers, build, passing, review, sh};

const COVERAGE: &str = r#"level = "project"
[[gate]]
id = "coverage"
phases = ["build"]
on_failure = "block"
remediation = "write tests"
metric = { command = ["cat", "coverage.json"], pointer = "/total", at_least = 80 }
"#;

#[test]
fn a_phase_that_leaves_a_private_key_is_blocked() {
    let repo = Repo::new();
    let before = repo.head();
    // In one piece it would be refused as a secret in the task of the run.
    let line = "printf -- '-----BEGIN RSA %s KEY-----\\n' PRIVATE > notes.txt";
    let run = repo.run(&answers(&[build(&[sh(line)])], &[])).exit(3).json();
    assert_eq!((&run["outcome"], &run["reason"]), (&json!("BLOCKED"), &json!("mission_failed")));
    let text = run.to_string();
    assert!(
        text.contains("no-private-keys") && text.contains("remove the key from the file"),
        "{text}"
    );
    assert_eq!(repo.head(), before);
    repo.is_whole();
}

#[test]
fn a_metric_of_the_project_decides() {
    let repo = Repo::new();
    repo.write(".windlass/policy/governance/ours.toml", COVERAGE);
    repo.commit("a rule");
    let measured = |percent: u32| {
        let line = format!("echo '{{\"total\": {percent}}}' > coverage.json");
        answers(&[build(&[sh(&line)])], &[review("approved")])
    };
    repo.run(&measured(81)).exit(0);
    let run = repo.run(&measured(79)).exit(3).json();
    assert!(run.to_string().contains("79, expected at least 80 (write tests)"), "{run}");
    let listed = repo.windlass(&["policy", "gates", "--json"]).exit(0).json();
    let listed: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["rule"]["id"].as_str().unwrap().to_owned(), one["levels"].clone()))
        .collect();
    let expected = [
        ("coverage".to_owned(), json!(["project"])),
        ("no-conflict-markers".to_owned(), json!(["universal"])),
        ("no-private-keys".to_owned(), json!(["universal"])),
    ];
    assert_eq!(listed, expected);
    repo.windlass(&["policy", "gates"]).exit(0).says("/total of `cat coverage.json` at least 80");
}

#[test]
fn a_loop_cannot_loosen_a_rule_and_a_run_does_not_start_then() {
    let repo = Repo::with_spine(
        "phases:\n  - id: hydrate",
        "governance: { gates: [{ id: coverage, on_failure: block, remediation: r, metric: { command: \
         [cat, coverage.json], pointer: /total, at_least: 70 } }] }\nphases:\n  - id: hydrate",
    );
    repo.write(".windlass/policy/governance/ours.toml", COVERAGE);
    repo.commit("a rule");
    repo.windlass(&["policy", "check"]).exit(0);
    for line in [&["loop", "check"][..], &["policy", "gates", "--loop", "spine"]] {
        let refused = repo.windlass(line).fails_with(2, "GOVERNANCE_INVALID");
        refused.warns("70 instead of 80").warns("policy/governance/ours.toml:3:6");
    }
    repo.run(&passing()).exit(2).warns("GOVERNANCE_INVALID");
    assert_eq!(repo.traces(), 0);
}

#[test]
fn variants_are_listed_shown_and_asked_for_by_name() {
    let repo = Repo::new();
    let loops = repo.windlass(&["loop", "list", "--json"]).exit(0).json();
    let phases = loops.as_array().unwrap().iter().find(|one| one["id"] == "phases").unwrap();
    assert_eq!(phases["variants"], json!(["analytics", "ml", "optimization", "webapp"]));
    let shown = |more: &[&str]| {
        let line = [&["loop", "show", "phases", "--json"][..], more].concat();
        let plan = repo.windlass(&line).exit(0).json()["plan"].clone();
        let ids = plan["phases"].as_array().unwrap().iter().map(|phase| phase["id"].clone());
        (plan["variant"].clone(), ids.collect::<Vec<_>>())
    };
    let (variant, ids) = shown(&["--variant", "webapp"]);
    assert_eq!(variant, "webapp");
    assert!(ids.contains(&json!("security")) && !ids.contains(&json!("data")));
    let (variant, ids) = shown(&["--with", "security"]);
    assert!(variant.is_null() && ids.contains(&json!("security")) && ids.contains(&json!("data")));
    repo.windlass(&["loop", "show", "phases", "--variant", "ml"]).exit(0).says("phases (ml): ");
    for line in [
        &["loop", "show", "phases", "--variant", "webap"][..],
        &["run", "x", "--loop", "phases", "--variant", "webap"],
    ] {
        let refused = repo.windlass(line).fails_with(2, "LOOP_NOT_FOUND");
        refused.warns("did you mean `webapp`?");
    }
    assert_eq!(repo.traces(), 0);
}
