//! A call of a run works in the workspace for which it was requested, or not at all.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_testkit::{Random, soak};

use crate::harness::text_of;
use crate::world::{Repo, VOICE, answers, build, escalating, id_of, review, sh};

/// A loop of one call.
fn one_call(on_restart: &str, tool: &str, line: &str) -> String {
    format!(
        "---\nid: one\ntitle: One call\ntype: workflow\ncategory: test\nversion: \"1\"\non_restart: {on_restart}\n\
         require: [repo]\nphases:\n  - {{ id: a, doer: {{ builtin: call, with: {{ tool: {tool}, args: {{ line: \"{line}\" }} }} }} }}\n---\n"
    )
}

/// A tool that may be called again after a crash.
const AGAIN: &str = r#"
[server.shell.tool.again]
class = "write"
shell_line = "/line"
idempotent = true
on_uncertain = "retry"
argv = ["bash", "--noprofile", "--norc", "-c", "--", { arg = "/line", dash = true }]
"#;

fn with_tool(text: &str) -> Repo {
    let repo = Repo::new();
    repo.place.append(".windlass/tools.toml", AGAIN);
    repo.write(".windlass/loops/one.md", text);
    repo.commit("a loop");
    repo.place.trust();
    repo
}

const RUN: [&str; 6] = ["run", "one", "--loop", "one", "--worktree", "--json"];

/// The only run, its work tree and its first call.
fn only_run(repo: &Repo) -> (String, PathBuf, String) {
    let runs = repo.windlass(&["status", "--json"]).exit(0).json();
    let id = text_of(&runs[0], "run_id");
    let calls = repo.windlass(&["call", "list", "--json"]).exit(0).json();
    let call = text_of(calls.as_array().unwrap().last().unwrap(), "trace_id");
    let folder = repo.place.state().join("worktrees").join(&id);
    (id, folder, call)
}

/// A run in a work tree of its own that was killed before its call was dispatched.
fn killed(text: &str) -> (Repo, String, PathBuf, String) {
    let repo = with_tool(text);
    let killed = repo.place.run_with("WINDLASS_CRASH_AT", "dispatch.before:1", &RUN);
    assert_eq!(killed.code, None, "{killed}");
    let (id, folder, call) = only_run(&repo);
    (repo, id, folder, call)
}

fn lines(folder: &std::path::Path) -> usize {
    std::fs::read_to_string(folder.join("a.txt")).unwrap_or_default().lines().count()
}

#[test]
fn an_interrupted_call_of_a_work_tree_is_only_settled_through_its_run() {
    let (repo, id, folder, call) = killed(&one_call("resume", "shell/run", "echo a >> a.txt"));
    repo.windlass(&["recover"]).exit(4);
    for words in [&["approve"][..], &["deny"], &["settle", "--not-run"], &["settle", "--ran"]] {
        let line = [&["call"], words, &[&call], &VOICE].concat();
        repo.windlass(&line).fails_with(3, "CALL_OF_RUN").warns(&id).warns("windlass queue list");
    }
    repo.windlass(&["recover", &call]).fails_with(3, "CALL_OF_RUN");
    assert_eq!((lines(&repo.root()), lines(&folder)), (0, 0));
    // The refused decisions are on record.
    let refused = repo.windlass(&["call", "list", "--json"]).exit(0).json();
    let refused =
        refused.as_array().unwrap().iter().filter(|call| call["current_state"] == "DENIED");
    assert_eq!(refused.count(), 4);
    assert_eq!(repo.approve(&id).exit(0).json()["outcome"], "PASS");
    assert_eq!((lines(&repo.root()), lines(&folder)), (0, 1));
    repo.is_whole();
}

#[test]
fn a_call_that_may_be_repeated_is_repeated_in_its_work_tree_by_its_run() {
    let (repo, id, folder, call) = killed(&one_call("hold", "shell/again", "echo a >> a.txt"));
    // Neither does any other call recover it on its way.
    repo.place.shell("shell/run", "true", &["--key", "other"]).exit(0);
    repo.windlass(&["recover"]).exit(4);
    assert_eq!((lines(&repo.root()), lines(&folder)), (0, 0));
    let shown = repo.windlass(&["call", "show", &call, "--json"]).exit(0).json();
    assert_eq!(shown["state"], "EXECUTING");
    assert_eq!(shown["request"]["proposal"]["workspace"], json!(format!("worktrees/{id}")));
    assert_eq!(repo.approve(&id).exit(0).json()["outcome"], "PASS");
    assert_eq!((lines(&repo.root()), lines(&folder)), (0, 1));
    repo.is_whole();
}

#[test]
fn a_call_on_hold_in_a_work_tree_is_only_approved_through_its_run() {
    let repo = with_tool(&one_call("resume", "shell/run", "eval 'echo a >> a.txt'"));
    let id = id_of(&repo.windlass(&RUN).exit(4));
    let (_, folder, call) = only_run(&repo);
    let approve = [&["call", "approve", &call][..], &VOICE].concat();
    repo.windlass(&approve).fails_with(3, "CALL_OF_RUN");
    assert_eq!((lines(&repo.root()), lines(&folder)), (0, 0));
    let done = repo.approve(&id).exit(0).json();
    assert_eq!(done["outcome"], "PASS");
    assert_eq!((lines(&repo.root()), lines(&folder)), (0, 1));
    repo.is_whole();
}

#[test]
fn what_an_ended_run_left_open_can_be_closed_and_not_run() {
    let (repo, id, folder, call) = killed(&one_call("terminate", "shell/run", "echo a >> a.txt"));
    repo.windlass(&["recover"]).exit(0);
    assert_eq!(repo.stands(&id)["outcome"], "BLOCKED");
    let settle =
        |word: &str| repo.windlass(&[&["call", "settle", word, &call], &VOICE[..]].concat());
    settle("--not-run").fails_with(3, "CALL_OF_RUN");
    settle("--failed").exit(0);
    assert_eq!((lines(&repo.root()), lines(&folder)), (0, 0));
    repo.is_whole();
}

/// Two phases with branches of their own, and one after them.
const BRANCHES: &str = "---
id: one
title: Branches
type: workflow
category: test
version: \"1\"
on_restart: resume
concurrency: parallel
checkpoints: true
require: [repo]
phases:
  - { id: a, branch: true, doer: { agent: builder } }
  - { id: b, branch: true, doer: { agent: developer } }
  - { id: c, needs: [a, b], doer: { agent: builder } }
---
";

/// What their agents do.
fn branch_answers(first: &str, second: &str) -> Value {
    let does = |line: &str| json!([{ "calls": [sh(line)], "answer": { "summary": "done" } }]);
    json!({ "phases": {
        "a": does(first),
        "b": does(second),
        "c": does("cat a.txt b.txt > c.txt"),
    } })
}

/// Approves holds until the run ends.
fn approve_all(repo: &Repo, id: &str) -> Value {
    for _ in 0..8 {
        let stands = repo.stands(id);
        if !stands["outcome"].is_null() {
            return stands;
        }
        // An approval counts even if its command was killed before the run took it up.
        let asks = !stands["hold"].is_null() && stands["hold"]["resolution"].is_null();
        let outcome = match asks {
            true => repo.approve(id),
            false => repo.windlass(&["resume", id, "--json"]),
        };
        assert!(matches!(outcome.code, Some(0 | 4)), "{outcome}");
    }
    repo.stands(id)
}

#[test]
fn a_call_of_a_branch_that_is_approved_later_works_in_the_branch() {
    let repo = Repo::with_loop("one", BRANCHES);
    let answers = branch_answers("eval 'pwd > a.txt'", "eval 'pwd > b.txt'");
    let id = id_of(&repo.run_with(&answers, &["--loop", "one"]).exit(4));
    let shown = repo.windlass(&["queue", "show", &id, "--json"]).exit(0).json();
    let folder = text_of(&shown["call"], "folder");
    assert!(folder.contains(&format!("worktrees/{id}.")), "{shown}");
    assert_eq!(approve_all(&repo, &id)["outcome"], "PASS");
    let (first, second) = (repo.read("a.txt"), repo.read("b.txt"));
    assert!(first.trim_end().ends_with(&format!("{id}.a.1")), "{first}");
    assert!(second.trim_end().ends_with(&format!("{id}.b.1")), "{second}");
    assert_eq!(repo.read("c.txt"), first + &second);
    repo.is_whole();
}

#[test]
fn a_branch_that_was_switched_during_a_hold_is_not_committed_to() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let head = repo.head();
    repo.git(&["switch", "--quiet", "-c", "other"]);
    let approve = ["queue", "approve", &id, "--resume"];
    let refused = repo.windlass(&[&approve[..], &VOICE].concat());
    refused.fails_with(3, "REPO_MOVED").warns("`other`").warns("`main`");
    assert_eq!(repo.git(&["rev-parse", "other", "main"]), format!("{head}\n{head}"));
    repo.git(&["switch", "--quiet", "main"]);
    repo.windlass(&["resume", &id]).exit(0);
    assert_eq!(repo.git(&["rev-parse", "main~1", "other"]), format!("{head}\n{head}"));
    repo.is_whole();
}

#[test]
fn an_agent_that_switches_the_branch_does_not_make_the_run_commit_to_it() {
    let repo = Repo::new();
    let lines = [sh("echo built > built.txt"), sh("git checkout -q -b sneaky")];
    let answers = answers(&[build(&lines)], &[review("approved")]);
    let head = repo.head();
    let outcome = repo.run(&answers);
    assert_ne!(outcome.code, Some(0), "{outcome}");
    assert!(outcome.to_string().contains("sneaky"), "{outcome}");
    assert_eq!(repo.git(&["rev-parse", "sneaky", "main"]), format!("{head}\n{head}"));
}

/// Kills a run in work trees and branches at random moments until it ends, and looks at what it did.
#[test]
fn runs_in_work_trees_and_branches_that_are_killed_do_each_call_once_in_its_place() {
    let seed = soak::seed(15);
    let mut random = Random::new(seed);
    for round in 0..soak::rounds(4) {
        let about = format!("seed {seed}, round {round}");
        let own = random.below(2) == 0;
        let ask = random.below(2) == 0;
        let line = |name: &str| match ask {
            true => format!("eval 'pwd >> {name}.txt'"),
            false => format!("pwd >> {name}.txt"),
        };
        let repo = Repo::with_loop("one", BRANCHES);
        let path = repo.answers(&branch_answers(&line("a"), &line("b")));
        let words = ["run", "one", "--loop", "one", "--answers", &path, "--worktree"];
        let words = if own { &words[..] } else { &words[..6] };
        let mut next: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let mut kills = 0;
        let id = loop {
            let words: Vec<&str> = next.iter().map(String::as_str).collect();
            let mut child = repo.place.command(&words);
            child.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
            let mut child = child.spawn().unwrap();
            std::thread::sleep(Duration::from_millis(5 + random.below(400) + kills * 20));
            child.kill().unwrap();
            child.wait().unwrap();
            kills += 1;
            assert!(kills < 100, "{about}: no run begins");
            let runs = repo.windlass(&["status", "--json"]).exit(0).json();
            let Some(run) = runs.as_array().unwrap().first() else { continue };
            let id = text_of(run, "run_id");
            if kills > 4 {
                break id;
            }
            next = match random.below(3) {
                0 => vec!["recover".to_owned()],
                1 => vec!["resume".to_owned(), id],
                _ => [&["queue", "approve", &id, "--resume"][..], &VOICE]
                    .concat()
                    .iter()
                    .map(|word| (*word).to_owned())
                    .collect(),
            };
        };
        let stands = approve_all(&repo, &id);
        assert_eq!(stands["outcome"], "PASS", "{about}: {stands}");
        let folder = repo.place.state().join("worktrees").join(&id);
        let root = if own { folder } else { repo.root() };
        for name in ["a", "b"] {
            let text =
                std::fs::read_to_string(root.join(format!("{name}.txt"))).unwrap_or_default();
            // A call that a person let go on after a crash may have run before it as well.
            let places: std::collections::BTreeSet<&str> = text.lines().collect();
            assert_eq!(places.len(), 1, "{about}: {text}");
            assert!(text.trim_end().ends_with(&format!("{id}.{name}.1")), "{about}: {text}");
        }
        if own {
            assert_eq!(repo.status(), "", "{about}");
        }
        repo.is_whole();
    }
}
