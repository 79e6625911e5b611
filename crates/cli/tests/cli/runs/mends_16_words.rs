//! What commands show: times, verdicts, folders; names where ids are taken; no mixture of logs and progress.

use serde_json::{Value, json};

use crate::world::{Repo, answers, build, built_once, escalating, id_of, passing, review, sh};

#[test]
fn mend_16_queue_show_tells_diff_evidence_reason_and_expiry() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let shown = repo.windlass(&["queue", "show", &id]).exit(0);
    for words in ["+built", "\"verdict\": \"escalate\"", "it is escalate", "until    20", "since"] {
        assert!(shown.text().contains(words), "no {words}: {shown}");
    }
}

#[test]
fn mend_16_status_tells_times_and_verdicts() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&passing()).exit(0));
    let shown = repo.windlass(&["status", &id]).exit(0).says("review  approved: seen");
    for name in ["started", "ended"] {
        let line = shown.text().lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        assert!(line.ends_with('Z'), "{line}");
    }
    let run = repo.stands(&id);
    assert_eq!(run["phases"][4]["verdict"], "approved");
    assert!(run["ended_at"].is_string() && run["phases"][4]["started_at"].is_string(), "{run}");
}

#[test]
fn mend_16_trace_takes_the_names_of_runs() {
    let repo = Repo::new();
    let done = repo.run(&passing()).exit(0).json();
    let (id, trace) = (done["run_id"].as_str().unwrap(), done["trace_id"].as_str().unwrap());
    for command in ["show", "log"] {
        let by_name = repo.windlass(&["trace", command, id, "--json"]).exit(0);
        let by_id = repo.windlass(&["trace", command, trace, "--json"]).exit(0);
        assert_eq!(by_name.text(), by_id.text());
    }
    repo.windlass(&["trace", "show", "run_20260101_000000_00000000"])
        .fails_with(2, "RUN_NOT_FOUND");
    // As other commands do: by a beginning, or as the last one.
    for command in ["show", "log"] {
        let by_id = repo.windlass(&["trace", command, trace, "--json"]).exit(0);
        for name in ["last", &id[..12], &id[..20]] {
            let by_name = repo.windlass(&["trace", command, name, "--json"]).exit(0);
            assert_eq!(by_name.text(), by_id.text(), "{name}");
        }
    }
    repo.windlass(&["trace", "show", "nothing"]).fails_with(2, "ID_INVALID");
}

#[test]
fn mend_16_errors_beside_log_lines_for_programs_are_json() {
    let repo = Repo::new();
    let line = ["status", "run_20260101_000000_00000000", "--log", "info", "--log-format", "json"];
    let refused = repo.windlass(&line).exit(2);
    for line in refused.stderr.lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "{refused}");
    }
    assert_eq!(refused.error()["code"], "RUN_NOT_FOUND", "{refused}");
}

#[test]
fn mend_16_log_lines_for_programs_are_not_mixed_with_progress() {
    let repo = Repo::new();
    let path = repo.answers(&passing());
    let line = ["run", "one", "--answers", &path, "--log", "info"];
    let ran = repo.windlass(&[&line[..], &["--log-format", "json"]].concat()).exit(0);
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert!(lines.len() > 10, "{ran}");
    for line in lines {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
    }
    let repo = Repo::new();
    let path = repo.answers(&passing());
    let line = ["run", "one", "--answers", &path, "--log", "info"];
    assert!(repo.windlass(&line).exit(0).stderr.contains("✓ build"), "text goes with text");
}

/// Two phases side by side that change the same line.
const BRANCHES: &str = "---
id: branches
title: Two branches
type: loop
category: test
version: \"1\"
on_restart: hold
checkpoints: true
concurrency: parallel
phases:
  - id: one
    branch: true
    doer: { agent: builder }
  - id: two
    branch: true
    doer: { agent: builder }
---
";

#[test]
fn mend_16_a_merge_conflict_names_the_folder_to_mend() {
    let repo = Repo::with_loop("branches", BRANCHES);
    let writes = |text: &str| json!([build(&[sh(&format!("echo {text} > src/price.txt"))])]);
    let answers = json!({ "phases": { "one": writes("1 of one"), "two": writes("2 of two") } });
    let held = repo.run_with(&answers, &["--loop", "branches"]).exit(4);
    assert_eq!(held.json()["hold"]["trigger"], "MERGE_CONFLICT", "{held}");
    let id = id_of(&held);
    let folder = repo.windlass(&["queue", "show", &id, "--json"]).exit(0).json();
    let folder = folder["conflict_folder"].as_str().unwrap().to_owned();
    let file = std::path::Path::new(&folder).join("src/price.txt");
    assert!(std::fs::read_to_string(&file).unwrap().contains("<<<<<<<"), "{folder}");
    repo.windlass(&["queue", "show", &id]).exit(0).says(&format!("mend in  {folder}"));
}

#[test]
fn what_close_removes_of_a_branch_is_stored() {
    let repo = Repo::with_loop("branches", BRANCHES);
    let writes = |text: &str| json!([build(&[sh(&format!("echo {text} > src/price.txt"))])]);
    let answers = json!({ "phases": { "one": writes("1 of one"), "two": writes("2 of two") } });
    let held = repo.run_with(&answers, &["--loop", "branches"]).exit(4);
    let id = id_of(&held);
    let folder = repo.windlass(&["queue", "show", &id, "--json"]).exit(0).json();
    let folder = std::path::PathBuf::from(folder["conflict_folder"].as_str().unwrap());
    // The work of a person who gives up.
    std::fs::write(folder.join("src/price.txt"), "3 of both\n").unwrap();
    std::fs::write(folder.join("notes.txt"), "mine\n").unwrap();
    repo.windlass(&["cancel", &id, "--reason", "not now"]).exit(0);
    let closed = repo.windlass(&["close", &id]).exit(0);
    assert!(!folder.exists());
    let tree = closed.stderr.split("kept in the snapshot ").nth(1).unwrap();
    let tree = tree.split_whitespace().next().unwrap();
    for (path, text) in [("src/price.txt", "3 of both"), ("notes.txt", "mine")] {
        assert_eq!(repo.git_with_snapshots(&["show", &format!("{tree}:{path}")]), text);
    }
    repo.is_whole();
}

#[test]
fn mend_16_the_text_of_tasks_and_names_is_escaped() {
    let repo = Repo::new();
    // A task with control characters is refused; agents can say what they like.
    let task = "raise it \u{1b}[2J\u{7}now";
    repo.windlass(&["run", task]).fails_with(2, "TASK_INVALID");
    let mut seen = review("escalate");
    seen["answer"]["reason"] = json!("look \u{1b}[2J\u{7}here");
    seen["answer"]["summary"] = json!("seen \u{1b}]0;title\u{7}");
    let id = id_of(&repo.run(&answers(&[built_once()], &[seen])).exit(4));
    let looks: [&[&str]; 4] =
        [&["status"], &["status", &id], &["queue", "list"], &["queue", "show", &id]];
    for look in looks {
        let shown = repo.windlass(look).exit(0);
        assert!(!shown.text().contains(['\u{1b}', '\u{7}']), "{look:?}: {shown}");
        assert!(!shown.stderr.contains(['\u{1b}', '\u{7}']), "{look:?}: {shown}");
    }
}

#[test]
fn mend_16_long_lists_of_files_are_cut() {
    let repo = Repo::new();
    for number in 0..30 {
        repo.write(&format!("{}/file-{number}.txt", "long".repeat(40)), "x");
    }
    let refused = repo.run(&passing()).exit(3);
    let message = refused.error()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("30 changed or untracked files"), "{message}");
    assert!(message.ends_with("and 25 more"), "{message}");
    assert!(message.len() < 800, "{message}");
}

#[test]
fn mend_16_too_few_open_files_are_no_internal_error() {
    let repo = Repo::new();
    for limit in 8..40 {
        let mut command = std::process::Command::new("sh");
        let script = format!("ulimit -n {limit}; exec \"$0\" \"$@\"");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_windlass")]);
        command.args(["call", "run", "shell/read", "--args", r#"{"line":"ls"}"#]);
        command.args(["--intent", "look at the files"]);
        repo.place.settle(&mut command);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("[INTERNAL]"), "{limit}: {said}");
        assert_ne!(output.status.code(), Some(70), "{limit}: {said}");
    }
}

#[test]
fn mend_16_lists_say_that_there_is_more() {
    let repo = Repo::new();
    repo.run(&passing()).exit(0);
    repo.windlass(&["status", "--limit", "1"]).exit(0).quiet();
    let task = "a".repeat(80);
    let path = repo.answers(&passing());
    repo.windlass(&["run", &task, "--answers", &path]).exit(0);
    let cut = repo.windlass(&["status", "--limit", "1"]).exit(0).warns("--limit");
    assert!(cut.text().contains(&format!("{}…", "a".repeat(49))), "{cut}");
    repo.windlass(&["status", "--limit", "2"]).exit(0).quiet();
}

/// A loop in which a person is asked a long question.
const LONG: &str = "---
id: long
title: A long question
type: loop
category: test
version: \"1\"
on_restart: hold
phases:
  - id: ask
    doer: { person: \"Is this what was meant when somebody asked for it last week, or is it not?\" }
---
";

#[test]
fn mend_16_a_question_that_is_cut_ends_with_an_ellipsis() {
    let repo = Repo::with_loop("long", LONG);
    let id = id_of(&repo.run_with(&json!({ "phases": {} }), &["--loop", "long"]).exit(4));
    repo.windlass(&["queue", "list"]).exit(0).says("…");
    let shown = repo.windlass(&["queue", "show", &id]).exit(0);
    assert!(!shown.text().contains(" lines in"), "{shown}");
}
