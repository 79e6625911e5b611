//! The core loop, driven: plan, review, work under audit, verification, reflection, insights, close.

mod closing;

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use windlass_kernel::Digest;

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
    plan_by(repo, "minor-edit", intent)
}

/// A plan by a workflow.
fn plan_by(repo: &Repo, workflow: &str, intent: &str) -> Value {
    let shown = repo.windlass(&["workflow", "show", workflow, "--plan", "--json"]).exit(0).json();
    let steps = shown["steps"].as_array().or(shown["plan"].as_array()).unwrap().clone();
    let plan: Vec<Value> = steps
        .iter()
        .map(|step| json!({ "step": step["id"], "text": step["description"] }))
        .collect();
    json!({ "answer": {
        "intent": intent, "scope": "single-session", "path": "EXECUTE", "complexity": "mechanical",
        "workflow": workflow, "acceptance_criteria": ["notes.txt exists"], "plan": plan, "context": [],
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
    work_saying(files, &json!([]))
}

/// The worker writes so many files and says which steps it has done.
fn work_saying(files: std::ops::Range<usize>, steps: &Value) -> Value {
    let calls: Vec<Value> = files
        .map(|number| {
            let path = if number == 0 { "notes.txt".to_owned() } else { format!("notes-{number}.txt") };
            json!({ "tool": "fs/write", "args": { "path": path, "content": "noted\n" }, "intent": "write a note for it" })
        })
        .collect();
    json!({ "calls": calls, "answer": {
        "summary": "noted", "commit_message": "Note the price", "steps": steps, "checks": [], "left": [],
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

/// The item of the tracker with a title.
fn item(repo: &Repo, title: &str) -> Value {
    let items = repo.windlass(&["work", "list", "--recent", "--json"]).exit(0).json();
    let found: Vec<&Value> =
        items.as_array().unwrap().iter().filter(|item| item["title"] == title).collect();
    assert_eq!(found.len(), 1, "{title}: {items}");
    found[0].clone()
}

#[test]
fn the_tracker_has_the_steps_and_the_block_of_a_run() {
    let (repo, _) = with_remote();
    let mut script = answers(&repo);
    let steps = json!([
        { "step": "locate", "status": "completed" }, { "step": "change", "status": "completed" },
        { "step": "check-diff", "status": "not_done" }, { "step": "nowhere", "status": "completed" },
    ]);
    script["phases"]["execute"] = json!([work_saying(0..1, &steps)]);
    run(&repo, &script).exit(0);
    let noted = item(&repo, "Note the price");
    let text = text_of(&noted, "description");
    assert_eq!(noted["status"], "closed");
    assert_eq!(text.matches("- locate: completed").count(), 1, "{text}");
    assert!(text.contains("- change: completed"), "{text}");
    assert!(!text.contains("check-diff:") && !text.contains("nowhere"), "{text}");
    // A block says what was wrong, and belongs to the work that was approved.
    let (repo, _) = with_remote();
    let mut script = answers(&repo);
    script["phases"]["execute"] = json!([work(0..12)]);
    script["phases"]["execute/custodiet"] = json!([audit("BLOCK")]);
    run(&repo, &script).exit(3);
    assert_eq!(item(&repo, "Note the price")["status"], "open");
    let block = item(&repo, "Blocked: scope drift");
    for part in
        ["Prompt: note the price", "0 of 7 steps", "Principle: scope drift", "Reason: looked"]
    {
        assert!(text_of(&block, "description").contains(part), "{part}: {block}");
    }
    assert_eq!(block["priority"], 0, "{block}");
}

#[test]
fn a_block_that_cannot_be_written_waits_for_a_session() {
    let (repo, _) = with_remote();
    let database = repo.place.state().join("work.db");
    std::fs::create_dir_all(&database).unwrap();
    let mut script = answers(&repo);
    script["phases"]["execute"] = json!([work(0..12)]);
    script["phases"]["execute/custodiet"] = json!([audit("BLOCK")]);
    run(&repo, &script).exit(3);
    std::fs::remove_dir(&database).unwrap();
    repo.windlass(&["install", "claude", "--loop", "core", "--yes"]).exit(0);
    let event = json!({
        "session_id": "s1", "cwd": repo.root(), "hook_event_name": "SessionStart", "source": "startup",
        "transcript_path": "/nowhere/t",
    });
    let hook = repo.place.command(&["hook", "--client", "claude"]);
    crate::harness::finish(hook, event.to_string().as_bytes()).exit(0);
    item(&repo, "Blocked: scope drift");
}

#[test]
fn runs_use_the_template_and_the_audits_of_the_project() {
    let (repo, _) = with_remote();
    repo.place.write(".windlass/core/hydration-context.md", "MINE {{prompt}} {{workflows}}\n");
    repo.place
        .write(".windlass/config.toml", "[core]\naudit_every = 2\naudit_chance_percent = 0\n");
    repo.git(&["add", "-A"]);
    repo.git(&["commit", "-qm", "settings"]);
    repo.git(&["push", "-q"]);
    let mut script = answers(&repo);
    script["phases"]["execute"] = json!([work(0..6)]);
    script["phases"]["execute/custodiet"] = json!([audit("BLOCK")]);
    let ended = run(&repo, &script).exit(3);
    let events = Value::Array(repo.events(&crate::world::trace_of(&ended))).to_string();
    assert!(events.contains("MINE note the price"), "{events}");
    // The third call is audited before it is made.
    assert!(repo.root().join("notes-1.txt").exists());
    assert!(!repo.root().join("notes-2.txt").exists());
    // Zero is never.
    let (repo, bare) = with_remote();
    repo.place
        .write(".windlass/config.toml", "[core]\naudit_every = 0\naudit_chance_percent = 0\n");
    repo.git(&["commit", "-qam", "settings"]);
    repo.git(&["push", "-q"]);
    let mut script = answers(&repo);
    script["phases"]["execute"] = json!([work(0..12)]);
    script["phases"]["execute/custodiet"] = json!([audit("BLOCK")]);
    run(&repo, &script).exit(0);
    assert_eq!(pushed(&bare, "notes-11.txt"), "noted\n");
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
fn the_seed_of_the_audits_is_the_projects() {
    let (repo, _) = with_remote();
    repo.place.write(
        ".windlass/config.toml",
        "[core]\naudit_every = 0\naudit_chance_percent = 25\naudit_seed = \"apples\"\n",
    );
    repo.git(&["add", "-A"]);
    repo.git(&["commit", "-qm", "settings"]);
    repo.git(&["push", "-q"]);
    let mut script = answers(&repo);
    script["phases"]["execute"] = json!([work(0..60)]);
    script["phases"]["execute/custodiet"] = json!([audit("BLOCK")]);
    let ended = run(&repo, &script).exit(3);
    let trace = crate::world::trace_of(&ended);
    // The same for everybody who knows the seed and the run: the first call that is drawn is not made.
    let seed = Digest::of(b"apples");
    let is_drawn = |number: &usize| {
        let digest = Digest::of(format!("{seed}/{trace}/1/{number}").as_bytes());
        let drawn =
            digest.as_bytes()[..4].iter().fold(0_u32, |all, byte| (all << 8) | u32::from(*byte));
        drawn % 100 < 25
    };
    let first = (2..=60).find(is_drawn).expect("one of sixty");
    let made = std::fs::read_dir(repo.root()).unwrap().flatten();
    let made = made.filter(|file| file.file_name().to_string_lossy().starts_with("notes"));
    assert_eq!(made.count(), first - 1, "{trace}");
}

#[test]
fn workflows_have_their_gates_in_runs_too() {
    // Information only: what was written goes back, and a person decides when it is not put back.
    let (repo, bare) = with_remote();
    let mut script = answers(&repo);
    script["phases"]["hydrate"] = json!([plan_by(&repo, "simple-question", "Say the price")]);
    script["phases"]["execute"] = json!([work(0..1), work(1..2), work(2..3)]);
    script["phases"]["execute/custodiet"] = json!([audit("OK"), audit("OK"), audit("OK")]);
    let held = run(&repo, &script).exit(4);
    assert!(held.to_string().contains("information only"), "{held}");
    assert_eq!(pushed(&bare, "notes.txt"), "");
    // Without writing it goes through.
    let (repo, bare) = with_remote();
    let before = repo.git(&["rev-parse", "HEAD"]);
    let mut script = answers(&repo);
    script["phases"]["hydrate"] = json!([plan_by(&repo, "simple-question", "Say the price")]);
    script["phases"]["execute"] = json!([work(0..0)]);
    assert_eq!(run(&repo, &script).exit(0).json()["outcome"], "PASS");
    assert_eq!(repo.git(&["rev-parse", "HEAD"]), before);
    assert_eq!(pushed(&bare, "notes.txt"), "");
    // A run has no skill to hand the work to: another workflow is selected.
    let (repo, bare) = with_remote();
    let mut script = answers(&repo);
    script["phases"]["hydrate"] =
        json!([plan_by(&repo, "direct-skill", "Run the skill"), plan(&repo)]);
    let ended = run(&repo, &script).exit(0);
    let events = Value::Array(repo.events(&crate::world::trace_of(&ended))).to_string();
    assert!(
        events.contains("hands the work to a skill or command, and a run has none"),
        "{events}"
    );
    assert_eq!(pushed(&bare, "notes.txt"), "noted\n");
    // All items of a batch: what is left open goes back.
    let (repo, _) = with_remote();
    let mut script = answers(&repo);
    let batch = plan_by(&repo, "batch-processing", "Note all prices");
    let steps = batch["answer"]["plan"].as_array().unwrap().iter();
    let all: Vec<Value> =
        steps.map(|step| json!({ "step": step["step"], "status": "completed" })).collect();
    let some = json!(all[1..]);
    script["phases"]["hydrate"] = json!([batch]);
    script["phases"]["execute"] = json!([work_saying(0..1, &some), work_saying(1..2, &json!(all))]);
    script["phases"]["execute/custodiet"] = json!([audit("OK"), audit("OK")]);
    let ended = run(&repo, &script).exit(0);
    let events = Value::Array(repo.events(&crate::world::trace_of(&ended))).to_string();
    assert!(events.contains("all steps of the batch must be completed"), "{events}");
}

#[test]
fn a_run_waits_for_others_who_write_to_the_tracker() {
    let (repo, bare) = with_remote();
    let folder = repo.place.state().join("deliveries");
    std::fs::create_dir_all(&folder).unwrap();
    let held = std::fs::File::create(folder.join("lock")).unwrap();
    held.lock().unwrap();
    assert_eq!(run(&repo, &answers(&repo)).exit(0).json()["outcome"], "PASS");
    assert_eq!(pushed(&bare, "notes.txt"), "noted\n");
    let titles = || -> Vec<String> {
        let items = repo.windlass(&["work", "list", "--recent", "--json"]).exit(0).json();
        items.as_array().unwrap().iter().map(|item| text_of(item, "title")).collect()
    };
    assert_eq!(titles(), [] as [String; 0]);
    drop(held);
    // What waited is written with what the next run has to tell.
    let mut script = answers(&repo);
    script["phases"]["hydrate"] = json!([plan_to(&repo, "Note it again")]);
    script["phases"]["execute"] = json!([work(1..2)]);
    run(&repo, &script).exit(0);
    let titles = titles();
    for title in ["Note the price", "Note it again"] {
        assert_eq!(titles.iter().filter(|one| *one == title).count(), 1, "{titles:?}");
    }
    let left = std::fs::read_dir(&folder).unwrap().flatten().map(|file| file.file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["lock"]);
}
