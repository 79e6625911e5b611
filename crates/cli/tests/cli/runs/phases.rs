//! The loop `phases` from start to end: branches side by side, two consensus gates, one commit.

use serde_json::{Value, json};

use crate::world::{Repo, id_of, sh};

/// An agent that writes a file and says so.
fn wrote(path: &str) -> Value {
    let line = format!("mkdir -p docs/phases && echo {path} > {path}");
    json!([{ "calls": [sh(&line)], "answer": { "summary": "written", "commit_message": "all of it" } }])
}

/// The reviews of an agent, one a time.
fn says(verdicts: &[&str]) -> Value {
    let one = |verdict: &&str| {
        let mut answer = json!({ "verdict": verdict, "reason": "looked at it" });
        if *verdict == "rejected" {
            answer["findings"] = json!(["say how it is tested"]);
        }
        json!({ "answer": answer })
    };
    verdicts.iter().map(one).collect()
}

pub fn answers(first: &[&str]) -> Value {
    let twice = |path: &str| {
        let mut list = wrote(path).as_array().cloned().unwrap();
        let again = format!("echo again >> {path}");
        list.push(json!({ "calls": [sh(&again)], "answer": { "summary": "written" } }));
        json!(list)
    };
    json!({ "phases": {
        "planning": twice("docs/phases/plan.md"),
        "data": twice("docs/phases/data.md"),
        "architecture": twice("docs/phases/architecture.md"),
        "security": twice("docs/phases/security.md"),
        "consensus/skeptic": says(first),
        "consensus/advocate": says(&["approved", "approved"]),
        "development": wrote("price.txt"),
        "qa": [{ "calls": [sh("echo ran > docs/phases/qa.md")], "answer": { "verdict": "pass", "reason": "it ran" } }],
        "acceptance/skeptic": says(&["approved"]),
        "acceptance/advocate": says(&["approved"]),
        "documentation": wrote("docs/phases/release.md"),
        "review": says(&["approved"]),
        "hygiene": [{ "answer": { "summary": "nothing to tidy" } }],
    } })
}

/// Approves as the person whom the loop names.
pub fn owner(repo: &Repo, id: &str) -> crate::harness::Outcome {
    let line = ["queue", "approve", id, "--json", "--resume", "--by", "owner", "--reason", "good"];
    repo.windlass(&line)
}

fn takes(variant: &[&str], first: &[&str], expected: &[&str]) {
    let repo = Repo::new();
    let before = repo.commits();
    let more = [&["--loop", "phases"][..], variant].concat();
    let held = repo.run_with(&answers(first), &more).exit(4);
    let id = id_of(&held);
    assert_eq!(held.json()["hold"]["trigger"], "CONSENSUS_REQUESTED", "{held}");
    // Only those who are asked can answer.
    let stranger = ["queue", "approve", &id, "--by", "ada", "--reason", "good"];
    repo.windlass(&stranger).exit(2).warns("`ada` is not asked; the reviewers are: owner");
    let held = owner(&repo, &id).exit(4);
    assert_eq!(held.json()["hold"]["trigger"], "CONSENSUS_REQUESTED", "{held}");
    let done = owner(&repo, &id).exit(0).json();
    assert_eq!(done["outcome"], "PASS");
    let phases = done["phases"].as_array().unwrap();
    let ids: Vec<&str> = phases.iter().map(|phase| phase["id"].as_str().unwrap()).collect();
    assert_eq!(ids, expected);
    assert!(phases.iter().all(|phase| phase["status"] == "complete"), "{done}");
    assert_eq!((repo.commits(), repo.status()), (before + 1, String::new()));
    let files = repo.git(&["show", "--name-only", "--format=", "HEAD"]);
    for path in ["docs/phases/architecture.md", "docs/phases/release.md", "price.txt"] {
        assert!(files.lines().any(|line| line == path), "{files}");
    }
    repo.is_whole();
}

#[test]
fn a_web_application_goes_through_its_phases() {
    takes(
        &["--variant", "webapp"],
        &["approved"],
        &[
            "intake",
            "planning",
            "architecture",
            "security",
            "consensus",
            "development",
            "qa",
            "acceptance",
            "documentation",
            "review",
            "hygiene",
            "complete",
        ],
    );
}

#[test]
fn a_plan_that_a_reviewer_rejects_is_made_again() {
    takes(
        &[],
        &["rejected", "approved"],
        &[
            "intake",
            "planning",
            "data",
            "architecture",
            "consensus",
            "development",
            "qa",
            "acceptance",
            "documentation",
            "review",
            "hygiene",
            "complete",
        ],
    );
}
