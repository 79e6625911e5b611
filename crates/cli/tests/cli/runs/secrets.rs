//! What programs, checks and agents of a run print is recorded and shown without secrets.

use serde_json::json;

use crate::harness::{Outcome, finish};
use crate::world::{Repo, answers, build, id_of, review, tree};

const SECRET: &str = "hunter2-and-more-of-it";

/// `SECRET` in base64.
const ENCODED: &str = "aHVudGVyMi1hbmQtbW9yZS1vZi1pdA==";

/// A phase whose program fails at first and prints secrets, and a check that prints them too.
const LEAKY: &str = r#"---
id: leaky
title: A loop that prints secrets
type: workflow
category: test
version: "1"
on_restart: resume
phases:
  - id: work
    doer: { command: [bash, leak.sh] }
    checks:
      - id: measure
        at: after
        doer: { command: [bash, -c, "cat leak >&2; false"] }
        verdicts:
          pass: continue
          fail: { hold: ESCALATION_REQUESTED }
---
"#;

/// Whether any file that shows or records the runs holds these bytes. The work tree itself does.
fn stores(repo: &Repo, secret: &str) -> Vec<String> {
    let holds = |bytes: &[u8]| bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
    let mut files = tree(&repo.root().join(".windlass"));
    files.extend(tree(&repo.place.state()));
    files.into_iter().filter(|(_, bytes)| holds(bytes)).map(|(name, _)| name).collect()
}

fn token() -> String {
    format!("gh{}{}", "p_", "a1B2".repeat(9))
}

fn run(repo: &Repo, args: &[&str]) -> Outcome {
    let mut command = repo.place.command(args);
    command.env("SERVICE_TOKEN", SECRET);
    finish(command, &[])
}

/// Your settings have a secret of the environment.
fn with_secret(repo: &Repo) {
    repo.place.settings("[secrets]\nSERVICE = { env = \"SERVICE_TOKEN\" }\n");
}

#[test]
fn what_programs_and_checks_print_is_recorded_without_secrets() {
    let repo = Repo::with_loop("leaky", LEAKY);
    with_secret(&repo);
    let padding = "x".repeat(1490);
    // The end of the check's output is recorded: the cut goes through the first line.
    repo.write("leak", format!("{SECRET} {ENCODED} {}\n{padding}\n", token()));
    let line = format!("{SECRET} {ENCODED} {}", token());
    let printed = json!({ "summary": line, "facts": { "fact": SECRET }, "more": [ENCODED] });
    repo.write("answer.json", printed.to_string());
    repo.write("leak.sh", "cat answer.json\n");
    repo.commit("leaks");
    let held = run(&repo, &["run", "one", "--loop", "leaky", "--json"]).exit(4);
    let id = id_of(&held);
    let shown = run(&repo, &["queue", "show", &id]).exit(0);
    let log = run(&repo, &["status", &id, "--json"]).exit(0);
    for outcome in [&held, &shown, &log] {
        for secret in [SECRET, "and-more-of-it", ENCODED, "a1B2a1B2"] {
            assert!(!outcome.text().contains(secret), "{secret}\n{outcome}");
            assert!(!outcome.stderr.contains(secret), "{secret}\n{outcome}");
        }
    }
    let events = repo.events(held.json()["trace_id"].as_str().unwrap());
    let done = events.iter().find(|event| event["kind"] == "phase_done").unwrap();
    assert_eq!(
        done["done"]["answer"],
        json!({
            "summary": "[redacted:SERVICE] [redacted:SERVICE] [redacted:github-token]",
            "facts": { "fact": "[redacted:SERVICE]" },
            "more": ["[redacted:SERVICE]"],
        })
    );
    assert_eq!(done["done"]["facts"], json!({ "fact": "[redacted:SERVICE]" }));
    for secret in [SECRET, "d-more-of-it", ENCODED, "a1B2a1B2"] {
        assert_eq!(stores(&repo, secret), Vec::<String>::new(), "{secret}");
    }
    repo.is_whole();
}

#[test]
fn what_agents_answer_is_recorded_without_secrets() {
    let repo = Repo::new();
    with_secret(&repo);
    repo.write("leak", SECRET);
    repo.commit("a leak");
    // The answers are part of the run's beginning: only what a tool prints can bring a secret in.
    let leaking = json!({
        "tool": "shell/read", "args": { "line": "cat leak; false" }, "intent": "a step of the test",
        "expect": "FAILED",
    });
    let path = repo.answers(&answers(&[build(&[leaking])], &[review("escalate")]));
    let held = run(&repo, &["run", "one", "--json", "--answers", &path]).exit(4);
    let line = ["queue", "approve", &id_of(&held), "--by", "ada", "--reason", SECRET];
    run(&repo, &line).exit(0);
    assert_eq!(stores(&repo, SECRET), Vec::<String>::new());
    repo.is_whole();
}

#[test]
fn a_task_with_a_secret_is_refused() {
    let repo = Repo::new();
    with_secret(&repo);
    for task in [SECRET, ENCODED, &token()] {
        let task = format!("deploy with {task}");
        let outcome = run(&repo, &["run", &task]).fails_with(3, "SECRET_IN_REQUEST");
        assert!(!outcome.stderr.contains("deploy with"), "{outcome}");
    }
    assert_eq!(repo.traces(), 0);
    assert_eq!(stores(&repo, SECRET), Vec::<String>::new());
}

#[test]
fn answers_with_a_secret_are_refused_wherever_it_is_and_however_it_is_escaped() {
    let repo = Repo::new();
    with_secret(&repo);
    let step = |line: &str| json!({ "tool": "shell/read", "args": { "line": line }, "intent": "a step of the test" });
    let escaped = |text: String| {
        let all = SECRET.chars().map(|one| format!("\\u{:04x}", u32::from(one)));
        let all: String = all.collect();
        assert!(text.contains(SECRET));
        text.replace(SECRET, &all)
    };
    let scripts = [
        answers(&[build(&[step(&format!("echo {SECRET}"))])], &[review("pass")]),
        json!({ "phases": { "build": [{ "answer": { "summary": SECRET } }] } }),
        json!({ "phases": { "build": [{ "fail": { "class": "unknown", "reason": SECRET } }] } }),
        json!({ "phases": { SECRET: [] } }),
        json!({ "model": SECRET, "phases": {} }),
    ];
    for script in scripts {
        for text in [script.to_string(), escaped(script.to_string())] {
            let path = repo.answers(&json!({}));
            std::fs::write(&path, &text).unwrap();
            run(&repo, &["run", "one", "--answers", &path]).fails_with(3, "SECRET_IN_REQUEST");
        }
    }
    assert_eq!(repo.traces(), 0);
    assert_eq!(stores(&repo, SECRET), Vec::<String>::new());
}
