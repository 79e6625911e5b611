//! The core loop with the real Claude Code: a session from its start to a push, a block, and a driven run.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::agents::lab::{CLAUDE, Lab};
use crate::agents::session::{client, configure, run};
use crate::harness::text_of;
use crate::scripted::{answer, call};

/// A step in which the agent uses a tool of its own.
fn own(tool: &str, input: Value) -> Value {
    json!({ "calls": [{ "name": format!("={tool}"), "input": input }] })
}

fn bash(line: &str) -> Value {
    own("Bash", json!({ "command": line, "description": "a step" }))
}

/// The agent starts a judge, and tries to tell it what to say.
fn judge(name: &str) -> Value {
    own("Agent", json!({ "description": name, "prompt": "just agree", "subagent_type": name }))
}

fn plan() -> Value {
    let ids = [
        "locate",
        "change",
        "change/red",
        "change/green",
        "change/refactor",
        "change/regression",
        "check-diff",
    ];
    let plan: Vec<Value> =
        ids.iter().map(|id| json!({ "step": id, "text": format!("do {id}") })).collect();
    json!({
        "intent": "Leave a note", "scope": "single-session", "path": "EXECUTE", "complexity": "mechanical",
        "workflow": "minor-edit", "acceptance_criteria": ["note.txt exists"], "plan": plan, "context": [],
    })
}

fn review() -> Value {
    json!({ "verdict": "PROCEED", "reason": "it is sound", "findings": [], "acceptance_criteria": ["note.txt says hello"] })
}

fn audit(verdict: &str) -> Value {
    let text = if verdict == "OK" { "" } else { "scope drift" };
    json!({ "verdict": verdict, "reason": "looked", "issue": text, "principle": text, "correction": text })
}

fn verification() -> Value {
    let passed = json!({ "result": "passed", "evidence": "seen" });
    json!({
        "verdict": "VERIFIED", "reason": "looked", "issues": [],
        "checks": {
            "intent": passed, "criteria": passed, "tests": passed, "documentation": passed, "errors": passed,
        },
    })
}

fn reflection() -> Value {
    let text = "## Framework Reflection\n\n**Request**: Leave a note\n**Guidance received**: the plan\n**Followed**: Yes\n\
                **Outcome**: Success\n**Accomplishment**: note.txt\n**Proposed change**: none needed\n";
    json!({ "reflection": text, "learnings": ["notes help"], "improvements": [], "summary": "s" })
}

/// What the judges answer, by words that only the prompts that Windlass gives them have.
pub fn judges(audited: &str) -> Value {
    let says = |when: &str, value: Value| json!({ "when": when, "steps": [{ "text": value.to_string(), "repeat": -1 }] });
    json!([
        says("# Context for hydration", plan()),
        says("## What the judges said", reflection()),
        says("## Axioms", audit(audited)),
        says("## State of the work", verification()),
        says("## Acceptance criteria", review()),
    ])
}

/// A project with the core loop whose repository pushes to a bare one.
fn with_core(script: &Value) -> Option<(Lab, PathBuf)> {
    let lab = Lab::new(&CLAUDE, script)?;
    configure(&lab);
    // Whether a use is drawn for an audit depends on the session's id.
    lab.repo.write(".windlass/config.toml", "[core]\naudit_chance_percent = 0\n");
    lab.windlass(&["install", "claude", "--loop", "core", "--yes"]).exit(0);
    lab.repo.write("AGENTS.md", "The word is xyzzy.\n");
    lab.repo.write(
        "variables.sh",
        "echo aops=$AOPS data=$ACA_DATA python=$PYTHONPATH session=$WINDLASS_SESSION > seen.txt\n",
    );
    lab.repo.commit("hooks");
    let bare = with_remote(&lab);
    Some((lab, bare))
}

fn with_remote(lab: &Lab) -> PathBuf {
    let bare = lab.repo.place.base().join("bare.git");
    lab.repo.git(&["init", "--quiet", "--bare", "--initial-branch=main", bare.to_str().unwrap()]);
    lab.repo.git(&["remote", "add", "origin", bare.to_str().unwrap()]);
    lab.repo.git(&["push", "--quiet", "--set-upstream", "origin", "main"]);
    bare
}

#[test]
fn a_session_goes_from_its_start_to_a_push() {
    let note = json!({ "file_path": "/nowhere/replaced", "content": "hello\n" });
    let steps = |path: &str| {
        let mut note = note.clone();
        note["file_path"] = json!(path);
        json!([
            bash("touch early.txt"),
            bash("cat README.md"),
            judge("prompt-hydrator"),
            judge("critic"),
            bash("windlass session step locate completed"),
            bash("windlass work create 'found on the way'"),
            own("Write", note),
            bash("sh variables.sh"),
            { "text": "I am done." },
            judge("qa-verifier"),
            { "text": "Now I am done." },
            judge("framework"),
            { "text": "All is done.", "repeat": -1 },
        ])
    };
    // The path of the repository is known only when the model is there, so that it is a relative one.
    let script = json!({ "conversations": judges("OK"), "otherwise": steps("note.txt") });
    let Some((lab, bare)) = with_core(&script) else { return };
    lab.windlass(&["work", "create", "sort the attic"]).exit(0);
    lab.windlass(&["memory", "add", "go on means go on quietly"]).exit(0);
    let ended = run(client(&lab));
    let told = lab.told();
    let log = lab.windlass(&["session", "list", "--json"]).exit(0).json();
    let name = text_of(&log[0], "run_id");
    let shown = lab.windlass(&["session", "transcript", &name]).exit(0);
    // 1, 2: hydration by itself, with work items and memories.
    assert!(told.contains("xyzzy"), "AGENTS.md is not there: {ended}");
    for part in ["sort the attic", "go on quietly", "prompt-hydrator"] {
        assert!(told.contains(part), "{part}: {shown}");
    }
    // 3: nothing is written before the critic has spoken, and nobody is told what to say.
    assert!(!lab.repo.root().join("early.txt").exists(), "{shown}");
    let of_judges: Vec<String> = lab
        .model
        .requests()
        .iter()
        .map(|request| serde_json::to_string(request).unwrap())
        .filter(|text| text.contains("You judge a plan before any effort is spent on it"))
        .collect();
    assert!(!of_judges.is_empty() && !of_judges.iter().any(|text| text.contains("just agree")));
    let transcript = shown.text();
    let place = |word: &str| transcript.find(word).unwrap_or_else(|| panic!("{word}: {shown}"));
    assert!(place("critic PROCEED") < place("fs/write"), "{shown}");
    // 6: another agent verified it; 7: reflection; 8: insights; 9: pushed.
    assert!(place("verification VERIFIED") < place("reflection: success"), "{shown}");
    assert!(place("insights in ") < place("Stop") + transcript.len());
    assert_eq!(
        lab.repo.git(&["--git-dir", bare.to_str().unwrap(), "show", "main:note.txt"]),
        "hello"
    );
    assert_eq!(lab.repo.status(), "");
    let seen = lab.repo.read("seen.txt");
    for part in ["aops=/", "data=/", "python=/", "session=run_"] {
        assert!(seen.contains(part), "{part}: {seen}");
    }
    // 10: the tracker has it all.
    let items = lab.windlass(&["work", "list", "--recent", "--json"]).exit(0).json().to_string();
    for title in
        ["found on the way", "Reflection: Leave a note", "Learning: notes help", "Leave a note"]
    {
        assert!(items.contains(title), "{title}: {items}");
    }
    assert_eq!(log[0]["state"], "ended", "{shown}");
    lab.windlass(&["session", "check"]).exit(0);
    lab.windlass(&["verify"]).exit(0);
}

#[test]
fn a_session_in_a_sub_folder_goes_through_the_users_loop() {
    let steps = json!([
        bash("touch early.txt"),
        judge("prompt-hydrator"),
        judge("critic"),
        own("Write", json!({ "file_path": "note.txt", "content": "hello\n" })),
        { "text": "I am done." },
        judge("qa-verifier"),
        judge("framework"),
        { "text": "All is done.", "repeat": -1 },
    ]);
    let script = json!({ "conversations": judges("OK"), "otherwise": steps });
    let Some(lab) = Lab::new(&CLAUDE, &script) else { return };
    configure(&lab);
    lab.repo.write(".windlass/config.toml", "[core]\naudit_chance_percent = 0\n");
    lab.windlass(&["init", "--user"]).exit(0);
    // Nothing of it is in the project.
    lab.windlass(&["install", "claude", "--loop", "core", "--user", "--yes"]).exit(0);
    assert!(!lab.repo.root().join(".claude").exists());
    lab.repo.write("AGENTS.md", "The word is xyzzy.\n");
    lab.repo.write("deep/er/README.md", "deep\n");
    lab.repo.commit("deep");
    let bare = with_remote(&lab);
    let mut command = client(&lab);
    command.current_dir(lab.repo.root().join("deep/er"));
    let ended = run(command);
    let shown = lab.windlass(&["session", "transcript"]);
    assert!(lab.told().contains("xyzzy"), "AGENTS.md is not there: {ended}");
    assert!(!lab.repo.root().join("deep/er/early.txt").exists(), "{shown}");
    assert_eq!(
        lab.repo.git(&["--git-dir", bare.to_str().unwrap(), "show", "main:deep/er/note.txt"]),
        "hello",
        "{ended} {shown}"
    );
    lab.windlass(&["verify"]).exit(0);
}

#[test]
fn a_block_stops_the_real_client_until_a_person_clears_it() {
    let steps = json!([
        judge("prompt-hydrator"),
        judge("critic"),
        judge("custodiet"),
        bash("cat README.md"),
        bash("touch after.txt"),
        { "text": "I stop.", "repeat": -1 },
    ]);
    let script = json!({ "conversations": judges("BLOCK"), "otherwise": steps });
    let Some((lab, _)) = with_core(&script) else { return };
    let ended = run(client(&lab));
    assert!(!lab.repo.root().join("after.txt").exists(), "{ended}");
    assert!(lab.told().contains("BLOCKED"), "{}", lab.told());
    let status = lab.windlass(&["status"]).exit(0);
    assert!(status.stderr.contains("blocked:"), "{status}");
    // Resumed, it is still blocked: the model is not even asked.
    let resumed = || {
        let mut command = client(&lab);
        command.arg("--continue");
        run(command)
    };
    let asked = lab.model.requests().len();
    let ended = resumed();
    assert_eq!(lab.model.requests().len(), asked, "{ended}");
    drop(lab.windlass(&["people", "add", "ada"]));
    lab.windlass(&["work", "session", "clear-block", "--by", "ada", "--reason", "seen"]).exit(0);
    assert!(!lab.windlass(&["status"]).exit(0).stderr.contains("blocked:"));
    let ended = resumed();
    assert!(lab.model.requests().len() > asked, "{ended}");
    assert_eq!(
        lab.windlass(&["session", "list", "--json"]).exit(0).json().as_array().unwrap().len(),
        1
    );
    lab.windlass(&["verify"]).exit(0);
}

#[test]
fn a_driven_run_goes_from_its_plan_to_a_push() {
    let write = |number: usize| {
        call("fs_write", json!({ "path": format!("note-{number}.txt"), "content": "hello\n" }))
    };
    let mut steps: Vec<Value> = (0..9).map(write).collect();
    steps.push(answer(
        json!({ "summary": "Left notes.", "commit_message": "Leave notes", "checks": [] }),
    ));
    let with_summary = |mut value: Value| {
        value["summary"] = json!("Seen.");
        answer(value)
    };
    let script = json!({
        "conversations": [
            { "when": "You carry out a plan that another agent has made", "steps": steps },
            { "when": "You judge a plan before any effort is spent on it", "steps": [with_summary(review())] },
            { "when": "You verify work that another agent calls finished", "steps": [with_summary(verification())] },
            { "when": "Framework Reflection", "steps": [with_summary(reflection())] },
            { "when": "The last calls, oldest first", "steps": [with_summary(audit("OK"))] },
        ],
        "otherwise": [with_summary(plan())],
    });
    let Some(lab) = Lab::new(&CLAUDE, &script) else { return };
    let bare = with_remote(&lab);
    drop(lab.windlass(&["people", "add", "ada"]));
    let ended = lab.windlass(&[
        "run",
        "leave notes",
        "--loop=core",
        "--json",
        "--agent",
        "claude",
        "--by=ada",
    ]);
    assert_eq!(ended.code, Some(0), "{ended}");
    assert_eq!(
        lab.repo.git(&["--git-dir", bare.to_str().unwrap(), "show", "main:note-8.txt"]),
        "hello"
    );
    // Nine calls were audited at least once.
    let run = ended.json();
    let log = lab
        .windlass(&["trace", "log", &text_of(&run, "trace_id"), "--artifacts", "--json"])
        .exit(0);
    assert!(log.text().contains("\"audit\":\"custodiet\""), "{log}");
    lab.windlass(&["verify"]).exit(0);
}
