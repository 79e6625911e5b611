//! What a run needs is looked for before it starts.

use serde_json::json;

use crate::world::{Repo, answers, built_once, passing};

/// A loop that starts a program.
fn with_program(program: &str) -> Repo {
    let text = format!(
        "---
id: measured
title: Measured by a program
type: loop
category: test
version: \"1\"
on_restart: hold
phases:
  - id: build
    doer: {{ agent: builder }}
  - id: measure
    doer: {{ command: [{program}] }}
    needs: [build]
---
"
    );
    Repo::with_loop("measured", &text)
}

#[test]
fn mend_17_a_program_that_is_missing_is_told_before_the_run_starts() {
    let answers = answers(&[built_once()], &[]);
    let repo = with_program("no-such-program");
    let refused = repo.run_with(&answers, &["--loop", "measured"]).exit(1);
    let error = refused.error();
    assert_eq!(error["code"], "TOOL_SERVER_UNAVAILABLE", "{refused}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("`no-such-program`") && message.contains("`measure`"), "{message}");
    assert_eq!((repo.traces(), repo.status()), (0, String::new()), "nothing was started");
    // What has a path may be made by the run itself.
    let repo = with_program("./made-later");
    repo.run_with(&answers, &["--loop", "measured"]).exit(3);
    assert!(repo.traces() > 0);
}

#[test]
fn mend_17_a_runner_that_is_missing_is_told_before_the_run_starts() {
    let repo = Repo::new();
    let refused = repo.windlass(&["run", "one", "--json", "--agent", "codex"]).exit(1);
    assert_eq!(refused.error()["code"], "AGENT_UNAVAILABLE", "{refused}");
    assert_eq!((repo.traces(), repo.status()), (0, String::new()), "nothing was started");
}

/// A loop that calls a tool by itself.
fn calling(tool: &str) -> String {
    format!(
        "---
id: calling
title: Calls a tool
type: loop
category: test
version: \"1\"
on_restart: hold
phases:
  - id: look
    doer: {{ builtin: call, with: {{ tool: {tool}, args: {{ line: ls }}, intent: look at the files }} }}
---
"
    )
}

#[test]
fn mend_17_a_tool_that_is_not_registered_is_told_before_the_run_starts() {
    let none = json!({ "phases": {} });
    let repo = Repo::with_loop("calling", &calling("nosuch/tool"));
    let error = repo.run_with(&none, &["--loop", "calling"]).exit(3).error();
    assert_eq!(error["code"], "TOOL_UNCLASSIFIED_DENIED", "{error}");
    let message = error["message"].as_str().unwrap().to_owned();
    assert!(message.contains("`nosuch/tool`") && message.contains("`look`"), "{message}");
    assert_eq!((repo.traces(), repo.status()), (0, String::new()), "nothing was started");
    let path = ".windlass/loops/calling.md";
    for check in [&["loop", "check"][..], &["loop", "check", path]] {
        repo.windlass(check).fails_with(3, "TOOL_UNCLASSIFIED_DENIED").warns("tools.toml");
    }
    let repo = Repo::with_loop("calling", &calling("shell/read"));
    repo.windlass(&["loop", "check", path]).exit(0).says("1 phase");
    repo.run_with(&none, &["--loop", "calling"]).exit(0);
}

#[test]
fn mend_17_the_program_of_a_rule_is_looked_for_before_the_run_starts() {
    let rule = |on_failure: &str, phases: &str| {
        format!(
            "level = \"project\"\n\n[[gate]]\nid = \"covered\"\n{phases}on_failure = \"{on_failure}\"\nremediation = \"write tests\"\n\
             metric = {{ command = [\"nosuchcov\"], pointer = \"/total\", at_least = 80 }}\n"
        )
    };
    let repo = Repo::new();
    let write = |text: String| {
        repo.write(".windlass/policy/governance/ours.toml", text);
        repo.commit("a rule");
    };
    write(rule("block", ""));
    let error = repo.run(&passing()).exit(1).error();
    assert_eq!(error["code"], "TOOL_SERVER_UNAVAILABLE", "{error}");
    let message = error["message"].as_str().unwrap().to_owned();
    assert!(message.contains("`covered`") && message.contains("`nosuchcov`"), "{message}");
    assert_eq!((repo.traces(), repo.status()), (0, String::new()), "nothing was started");
    // A rule that only warns, or is for a phase that the loop does not have, stops nothing.
    write(rule("warn", ""));
    repo.run(&passing()).exit(0);
    write(rule("block", "phases = [\"elsewhere\"]\n"));
    repo.run(&passing()).exit(0);
}

#[test]
fn mend_17_the_runner_of_an_import_is_looked_for_before_it_starts() {
    let repo = Repo::new();
    let file = repo.place.base().join("state.json");
    let state = json!({
        "current_phase": "data", "completed_phases": ["planning"], "phase_artifacts": {},
        "status": "running", "task": "raise the price",
    });
    std::fs::write(&file, state.to_string()).unwrap();
    let path = file.display().to_string();
    let line = ["import", "v1", &path, "--by", "ada"];
    repo.windlass(&line).fails_with(1, "AGENT_UNAVAILABLE").warns("--agent claude");
    assert_eq!(repo.traces(), 0, "nothing was started");
    repo.windlass(&[&line[..], &["--agent", "person"]].concat()).exit(4);
}
