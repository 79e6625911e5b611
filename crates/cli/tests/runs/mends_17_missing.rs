//! What a run needs is looked for before it starts.

use crate::world::{Repo, answers, built_once};

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
