//! The fields of checkpoints say what happened.

use serde_json::{Value, json};
use windlass_kernel::Digest;

use crate::harness::text_of;
use crate::world::{Repo, answers, build, built_once, id_of, passing, review, sh};

/// The document of a checkpoint.
#[track_caller]
fn checkpoint(repo: &Repo, id: &str, name: &str) -> Value {
    let shown = repo.windlass(&["checkpoint", "show", &format!("{id}/{name}"), "--json"]);
    shown.exit(0).json()
}

/// A loop in which two agents review at the same time as a person.
const AGREE: &str = "---
id: agree
title: Two agents and a person decide
type: loop
category: test
version: \"1\"
on_restart: hold
phases:
  - id: build
    doer: { agent: builder }
  - id: agree
    doer:
      consensus: Is it right?
      reviewers: [{ agent: reviewer }, { agent: designer }, { person: ada }]
      quorum: 3
    needs: [build]
    gate:
      id: agreed
      verdicts:
        approved: continue
        approved_with_conditions: continue
        rejected: block
---
";

fn says(reason: &str, tokens: u64) -> Value {
    json!([{
        "answer": { "verdict": "approved", "reason": reason, "summary": "seen" },
        "usage": { "input_tokens": tokens, "output_tokens": 1 },
    }])
}

/// A run whose reviewers have approved, the person 8 hours after the agents.
fn agreed() -> (Repo, String) {
    let repo = Repo::with_loop("agree", AGREE);
    let answers = json!({ "phases": {
        "build": [built_once()],
        "agree/reviewer": says("the tests are there", 20),
        "agree/designer": says("it is as designed", 30),
    } });
    let id = id_of(&repo.run_with(&answers, &["--loop", "agree"]).exit(4));
    let line = ["queue", "approve", &id, "--by", "ada", "--reason", "good", "--resume"];
    repo.later(8, &line).exit(0);
    (repo, id)
}

#[test]
fn mend_11_a_consensus_has_its_duration_and_each_reviewer_its_summary() {
    let (repo, id) = agreed();
    let post = checkpoint(&repo, &id, "POST_agree");
    let hours = post["duration_ms"].as_u64().unwrap() / 3_600_000;
    assert_eq!(hours, 8, "{post}");
    let agents = &post["agent_states"];
    assert_eq!(agents["reviewer"]["summary"], "the tests are there");
    assert_eq!(agents["designer"]["summary"], "it is as designed");
    assert_eq!(agents["builder"]["summary"], "built");
    assert_eq!(agents["designer"]["token_usage"], json!({ "input": 30, "output": 1 }));
    for name in ["reviewer", "designer", "builder"] {
        assert_eq!(agents[name]["status"], "complete", "{name}");
    }
}

#[test]
fn mend_11_the_phase_of_a_checkpoint_after_it_is_complete() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&passing()).exit(0));
    let completed =
        |name: &str| checkpoint(&repo, &id, name)["orchestrator_state"]["completed_phases"].clone();
    let has = |name: &str, phase: &str| completed(name).as_array().unwrap().contains(&json!(phase));
    assert!(has("POST_build", "build"), "{}", completed("POST_build"));
    assert!(!has("PRE_build", "build"), "{}", completed("PRE_build"));
    assert!(has("POST_review", "review") && has("POST_review", "build"));
    // One that failed is not.
    let repo = Repo::new();
    let id = id_of(&repo.run(&json!({ "phases": {} })));
    let listed = repo.windlass(&["checkpoint", "list", &id, "--json"]).exit(0).json();
    let failed = listed.as_array().unwrap().iter().find(|one| one["kind"] == "failed").unwrap();
    let shown = checkpoint(&repo, &id, failed["name"].as_str().unwrap());
    let complete = shown["orchestrator_state"]["completed_phases"].as_array().unwrap().clone();
    assert!(!complete.contains(&failed["phase"]), "{shown}");
}

#[test]
fn mend_11_tokens_of_superseded_tries_count() {
    let repo = Repo::new();
    let builds = [build(&[sh("echo 1 > a.txt")]), build(&[sh("echo 2 > a.txt")])];
    let tries = answers(&builds, &[review("needs_revision"), review("approved")]);
    let id = id_of(&repo.run(&tries).exit(0));
    let tokens =
        |name: &str| checkpoint(&repo, &id, name)["agent_states"]["builder"]["token_usage"].clone();
    assert_eq!(tokens("POST_build_v1"), json!({ "input": 100, "output": 10 }));
    assert_eq!(tokens("PRE_build_v2"), json!({ "input": 100, "output": 10 }));
    assert_eq!(tokens("POST_build_v2"), json!({ "input": 200, "output": 20 }));
    assert_eq!(tokens("POST_review_v2"), json!({ "input": 200, "output": 20 }));
}

/// A loop whose only phase leaves a file and fails.
const BROKEN: &str = "---
id: broken
title: Fails half-way
type: loop
category: test
version: \"1\"
on_restart: hold
phases:
  - id: half
    doer: { command: [sh, -c, \"printf half > half.txt; exit 3\"] }
---
";

#[test]
fn mend_11_changed_files_are_artifacts_also_of_a_failed_phase() {
    let repo = Repo::new();
    let line =
        "printf new > new.md; echo 'price = 2' > src/price.txt; rm README.md; ln -s new.md link";
    let id = id_of(&repo.run(&answers(&[build(&[sh(line)])], &[review("approved")])).exit(0));
    let artifacts = checkpoint(&repo, &id, "POST_build")["artifacts"].clone();
    let paths: Vec<&String> = artifacts.as_object().unwrap().keys().collect();
    assert_eq!(paths, ["new.md", "src/price.txt"], "what is gone or a link has no content");
    let expected = json!({
        "artifact_type": "md", "hash": Digest::of(b"new"), "path": "new.md", "size_bytes": 3,
    });
    assert_eq!(artifacts["new.md"], expected);
    assert_eq!(checkpoint(&repo, &id, "POST_review")["artifacts"], json!({}), "it changed nothing");
    assert_eq!(checkpoint(&repo, &id, "PRE_review")["artifacts"], json!({}));
    repo.windlass(&["checkpoint", "check"]).exit(0);
    let repo = Repo::with_loop("broken", BROKEN);
    let id = id_of(&repo.run_with(&json!({ "phases": {} }), &["--loop", "broken"]).exit(3));
    let post = checkpoint(&repo, &id, "POST_half");
    assert_eq!(post["metadata"]["kind"], "failed");
    assert_eq!(post["artifacts"]["half.txt"]["hash"], json!(Digest::of(b"half")));
}

/// A loop whose only phase leaves many files.
const MANY: &str = "---
id: many
title: Many files
type: loop
category: test
version: \"1\"
on_restart: hold
phases:
  - id: all
    doer: { command: [sh, -c, \"mkdir d; for i in $(seq 1 300); do echo $i > d/$i; done; echo '{}'\"] }
---
";

#[test]
fn mend_11_many_changed_files_are_counted_and_not_all_stored() {
    let repo = Repo::with_loop("many", MANY);
    let id = id_of(&repo.run_with(&json!({ "phases": {} }), &["--loop", "many"]).exit(0));
    let post = checkpoint(&repo, &id, "POST_all");
    assert_eq!(post["artifacts"].as_object().unwrap().len(), 256);
    assert_eq!(post["metadata"]["artifacts_left_out"], 44);
}

#[test]
fn mend_11_what_was_not_measured_has_not_passed() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&passing()).exit(0));
    let governance = |name: &str| checkpoint(&repo, &id, name)["governance_results"].clone();
    let nothing = json!({
        "compliance_checks": [], "passed": null, "quality_gates": [], "status": "not_measured",
    });
    assert_eq!(governance("PRE_build"), nothing);
    let built = governance("POST_build");
    assert_eq!((&built["passed"], &built["status"]), (&json!(true), &json!("passed")));
    repo.windlass(&["checkpoint", "show", &format!("{id}/PRE_build")]).exit(0).says("not_measured");
    let listed = repo.windlass(&["checkpoint", "list", &id, "--json"]).exit(0).json();
    let passed = |name: &str| {
        let mut all = listed.as_array().unwrap().iter();
        all.find(|one| one["name"] == name).unwrap()["passed"].clone()
    };
    assert_eq!((passed("PRE_build_v1"), passed("POST_build_v1")), (Value::Null, json!(true)));
    // Reviewers approve, and no rule is evaluated.
    let (repo, id) = agreed();
    let agreed = checkpoint(&repo, &id, "POST_agree");
    assert_eq!(agreed["metadata"]["kind"], "approved");
    assert_eq!(agreed["governance_results"], nothing);
}

#[test]
fn mend_11_a_difference_has_modes_hashes_and_renames() {
    let repo = Repo::new();
    repo.write("old.txt", "one\ntwo\nthree\n");
    repo.commit("a file to rename");
    let line = "mv old.txt moved.txt; chmod +x src/price.txt";
    let id = id_of(&repo.run(&answers(&[build(&[sh(line)])], &[review("approved")])).exit(0));
    let (from, to) = (format!("{id}/PRE_build"), format!("{id}/POST_build"));
    let diff = repo.windlass(&["checkpoint", "diff", &from, &to, "--json"]).exit(0).json();
    let rename = json!({ "from": "old.txt", "similarity_percent": 100, "to": "moved.txt" });
    assert_eq!(diff["renames"], json!([rename]));
    let files = diff["files"].as_array().unwrap();
    let of = |path: &str| files.iter().find(|one| one["path"] == path).unwrap();
    let price = of("src/price.txt");
    assert_eq!((&price["mode_before"], &price["mode_after"]), (&json!("100644"), &json!("100755")));
    let hash = repo.git(&["hash-object", "moved.txt"]);
    let (moved, old) = (of("moved.txt"), of("old.txt"));
    assert_eq!((&moved["hash_before"], &moved["hash_after"]), (&Value::Null, &json!(hash)));
    assert_eq!((&old["hash_before"], &old["mode_after"]), (&json!(hash), &Value::Null));
    repo.windlass(&["checkpoint", "diff", &from, &to])
        .exit(0)
        .says("old.txt → moved.txt (100 % the same)");
}

/// A loop of two programs: the first makes two files, the second removes one of them and makes another.
const TWO: &str = "---
id: two
title: Two programs
type: loop
category: test
version: \"1\"
on_restart: hold
phases:
  - id: one
    doer: { command: [sh, -c, \"echo 1 > kept; echo 2 > gone; echo '{}'\"] }
  - id: two
    doer: { command: [sh, -c, \"rm gone; echo 3 > new; echo '{}'\"] }
    needs: [one]
---
";

#[test]
fn mend_11_a_file_that_a_phase_left_alone_is_not_removed() {
    let repo = Repo::with_loop("two", TWO);
    let id = id_of(&repo.run_with(&json!({ "phases": {} }), &["--loop", "two"]).exit(0));
    let [from, to] = ["one", "two"].map(|phase| format!("{id}/POST_{phase}"));
    let diff = repo.windlass(&["checkpoint", "diff", &from, &to, "--json"]).exit(0).json();
    let paths = |key: &str| -> Vec<String> {
        diff[key].as_array().unwrap().iter().map(|one| text_of(one, "path")).collect()
    };
    assert_eq!((paths("removed"), paths("added")), (vec!["gone".into()], vec!["new".into()]));
    let told = repo.windlass(&["checkpoint", "diff", &from, &to]).exit(0);
    assert!(!told.text().contains("kept"), "{told}");
    // The other way round as well.
    let diff = repo.windlass(&["checkpoint", "diff", &to, &from, "--json"]).exit(0).json();
    assert_eq!(diff["added"][0]["path"], "gone", "{diff}");
    assert_eq!(diff["removed"].as_array().unwrap().len(), 1, "{diff}");
}
