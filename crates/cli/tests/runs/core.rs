//! The core loop, driven: plan, review, work under audit, verification, reflection, insights, close.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Outcome, text_of};
use crate::world::Repo;

/// A repository that pushes to a bare one.
fn with_remote() -> (Repo, PathBuf) {
    let repo = Repo::new();
    let bare = repo.place.base().join("bare.git");
    repo.git(&["init", "--quiet", "--bare", "--initial-branch=main", bare.to_str().unwrap()]);
    repo.git(&["remote", "add", "origin", bare.to_str().unwrap()]);
    repo.git(&["push", "--quiet", "--set-upstream", "origin", "main"]);
    (repo, bare)
}

/// What a file is in the bare repository.
fn pushed(bare: &PathBuf, path: &str) -> String {
    let shown = Command::new("git")
        .arg("--git-dir")
        .arg(bare)
        .args(["show", &format!("main:{path}")])
        .output();
    String::from_utf8(shown.unwrap().stdout).unwrap()
}

fn plan(repo: &Repo) -> Value {
    plan_to(repo, "Note the price")
}

/// A plan with another intent: the same one twice is no progress.
fn plan_to(repo: &Repo, intent: &str) -> Value {
    let shown =
        repo.windlass(&["workflow", "show", "minor-edit", "--plan", "--json"]).exit(0).json();
    let steps = shown["steps"].as_array().or(shown["plan"].as_array()).unwrap().clone();
    let plan: Vec<Value> = steps
        .iter()
        .map(|step| json!({ "step": step["id"], "text": step["description"] }))
        .collect();
    json!({ "answer": {
        "intent": intent, "scope": "single-session", "path": "EXECUTE", "complexity": "mechanical",
        "workflow": "minor-edit", "acceptance_criteria": ["notes.txt exists"], "plan": plan, "context": [],
    }})
}

fn review(verdict: &str) -> Value {
    let findings = match verdict {
        "PROCEED" => json!([]),
        _ => json!([{ "check": "feasibility", "problem": "no tests" }]),
    };
    json!({ "answer": {
        "verdict": verdict, "reason": "because", "findings": findings, "acceptance_criteria": ["notes.txt exists"],
    }})
}

/// The worker writes so many files.
fn work(files: std::ops::Range<usize>) -> Value {
    let calls: Vec<Value> = files
        .map(|number| {
            let path = if number == 0 { "notes.txt".to_owned() } else { format!("notes-{number}.txt") };
            json!({ "tool": "fs/write", "args": { "path": path, "content": "noted\n" }, "intent": "write a note for it" })
        })
        .collect();
    json!({ "calls": calls, "answer": {
        "summary": "noted", "commit_message": "Note the price", "steps": [], "checks": [], "left": [],
    }})
}

fn audit(verdict: &str) -> Value {
    let text = if verdict == "OK" { "" } else { "scope drift" };
    json!({ "answer": {
        "verdict": verdict, "reason": "looked", "issue": text, "principle": text, "correction": text,
    }})
}

fn verification(verdict: &str) -> Value {
    let check = |result: &str| json!({ "result": result, "evidence": "seen" });
    let (result, issues) = match verdict {
        "VERIFIED" => ("passed", json!([])),
        _ => (
            "failed",
            json!([{ "dimension": "output_quality", "severity": "major", "problem": "too short" }]),
        ),
    };
    json!({ "answer": {
        "verdict": verdict, "reason": "looked", "issues": issues,
        "checks": {
            "intent": check(result), "criteria": check("passed"), "tests": check("passed"),
            "documentation": check("passed"), "errors": check("passed"),
        },
    }})
}

fn reflection() -> Value {
    let text = "## Framework Reflection\n\n**Request**: Note the price\n**Guidance received**: the plan\n**Followed**: Yes\n\
                **Outcome**: Success\n**Accomplishment**: notes.txt\n**Proposed change**: none needed\n";
    json!({ "answer": {
        "reflection": text, "learnings": ["notes help"], "improvements": [], "summary": "s",
    }})
}

/// Answers that go through.
fn answers(repo: &Repo) -> Value {
    json!({ "phases": {
        "hydrate": [plan(repo)],
        "critic": [review("PROCEED")],
        "execute": [work(0..1)],
        "execute/custodiet": [audit("OK")],
        "qa": [verification("VERIFIED")],
        "reflect": [reflection()],
    }})
}

fn run(repo: &Repo, answers: &Value) -> Outcome {
    let path = repo.answers(answers);
    repo.windlass(&[
        "run",
        "note the price",
        "--loop",
        "core",
        "--json",
        "--by",
        "ada",
        "--answers",
        &path,
    ])
}

#[test]
fn a_task_goes_from_plan_to_push() {
    let (repo, bare) = with_remote();
    let ended = run(&repo, &answers(&repo)).exit(0).json();
    assert_eq!(ended["outcome"], "PASS", "{ended}");
    assert_eq!(pushed(&bare, "notes.txt"), "noted\n");
    assert_eq!(repo.git(&["log", "-1", "--format=%s"]), "Note the price");
    assert_eq!(repo.status(), "");
    let items = repo.windlass(&["work", "list", "--recent", "--json"]).exit(0).json();
    let titles: Vec<String> =
        items.as_array().unwrap().iter().map(|item| text_of(item, "title")).collect();
    for title in ["Reflection: Note the price", "Learning: notes help", "Note the price"] {
        assert!(titles.iter().any(|one| one == title), "{title}: {titles:?}");
    }
    let trends = repo.windlass(&["session", "trends", "--json"]).exit(0).json();
    assert_eq!(trends["total"]["critic_verdicts"]["PROCEED"], 1, "{trends}");
    repo.windlass(&["verify"]).exit(0);
}

#[test]
fn an_audit_blocks_the_run_before_the_next_call() {
    let (repo, bare) = with_remote();
    let mut script = answers(&repo);
    script["phases"]["execute"] = json!([work(0..12)]);
    script["phases"]["execute/custodiet"] = json!([audit("BLOCK")]);
    let ended = run(&repo, &script).exit(3).json();
    assert_eq!(ended["outcome"], "BLOCKED", "{ended}");
    assert!(ended.to_string().contains("scope drift"), "{ended}");
    // At the latest the eighth call is audited before it is made.
    assert!(!repo.root().join("notes-8.txt").exists());
    assert_eq!(pushed(&bare, "notes.txt"), "");
    repo.windlass(&["verify"]).exit(0);
}

#[test]
fn an_audit_that_cannot_be_read_blocks_too() {
    let (repo, _) = with_remote();
    let mut script = answers(&repo);
    script["phases"]["execute"] = json!([work(0..12)]);
    script["phases"]["execute/custodiet"] =
        json!([{ "answer": { "verdict": "ok, I think", "reason": "OK" } }]);
    assert_eq!(run(&repo, &script).exit(3).json()["outcome"], "BLOCKED");
}

#[test]
fn plans_are_revised_and_work_is_mended_at_most_twice() {
    let (repo, bare) = with_remote();
    let mut script = answers(&repo);
    script["phases"]["hydrate"] = json!([plan_to(&repo, "one"), plan(&repo)]);
    script["phases"]["critic"] = json!([review("REVISE"), review("PROCEED")]);
    script["phases"]["execute"] = json!([work(0..1), work(1..2)]);
    script["phases"]["execute/custodiet"] = json!([audit("OK"), audit("OK")]);
    script["phases"]["qa"] = json!([verification("ISSUES"), verification("VERIFIED")]);
    assert_eq!(run(&repo, &script).exit(0).json()["outcome"], "PASS");
    assert_eq!(pushed(&bare, "notes-1.txt"), "noted\n");
    // Three times is a person's decision.
    let (repo, _) = with_remote();
    let mut script = answers(&repo);
    script["phases"]["hydrate"] =
        json!([plan_to(&repo, "one"), plan_to(&repo, "two"), plan_to(&repo, "three")]);
    script["phases"]["critic"] = json!([review("REVISE"), review("REVISE"), review("REVISE")]);
    run(&repo, &script).exit(4);
    let (repo, _) = with_remote();
    let mut script = answers(&repo);
    script["phases"]["critic"] = json!([review("HALT")]);
    run(&repo, &script).exit(4);
}

#[test]
fn answers_without_their_form_are_asked_for_again() {
    let (repo, _) = with_remote();
    let mut script = answers(&repo);
    let mut short = plan(&repo);
    short["answer"]["plan"].as_array_mut().unwrap().pop();
    script["phases"]["hydrate"] = json!([short, plan(&repo)]);
    let mut failed = verification("VERIFIED");
    failed["answer"]["checks"]["tests"]["result"] = json!("failed");
    script["phases"]["qa"] = json!([failed, verification("VERIFIED")]);
    assert_eq!(run(&repo, &script).exit(0).json()["outcome"], "PASS");
}

#[test]
fn a_conflict_with_others_becomes_a_hold() {
    let (repo, bare) = with_remote();
    let other = repo.place.base().join("other");
    repo.git(&["clone", "--quiet", bare.to_str().unwrap(), other.to_str().unwrap()]);
    std::fs::write(other.join("notes.txt"), "theirs\n").unwrap();
    let folder = other.to_str().unwrap();
    repo.git(&["-C", folder, "add", "notes.txt"]);
    repo.git(&[
        "-C",
        folder,
        "-c",
        "user.name=b",
        "-c",
        "user.email=b@x.example",
        "commit",
        "-qm",
        "theirs",
    ]);
    repo.git(&["-C", folder, "push", "--quiet"]);
    let held = run(&repo, &answers(&repo)).exit(4);
    assert!(held.to_string().contains("notes.txt"), "{held}");
    assert_eq!(pushed(&bare, "notes.txt"), "theirs\n");
}
