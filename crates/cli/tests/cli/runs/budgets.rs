//! Budgets: each of them, the warning at four fifths, and time that is not billed.

use serde_json::{Value, json};

use crate::harness::Outcome;
use crate::world::{
    Repo, VOICE, answers, build, built_once, escalating, id_of, review, sh, trace_of,
};

const BUDGET: &str =
    "budget: { attempts: 5, tokens: 100000, wall_minutes: 30, changed_lines: 500 }";

fn with_budget(budget: &str) -> Repo {
    Repo::with_spine(BUDGET, &format!("budget: {{ {budget} }}"))
}

#[track_caller]
fn is_exhausted(held: Outcome, resource: &str) -> String {
    let held = held.exit(4);
    let run = held.json();
    assert_eq!(run["hold"]["trigger"], "BUDGET_EXHAUSTED", "{held}");
    let question = run["hold"]["question"].as_str().unwrap();
    assert!(question.contains(resource), "{question}");
    assert_eq!(run["outcome"], Value::Null, "a run on hold has not failed");
    id_of(&held)
}

/// How often a resource was warned about.
fn warnings(repo: &Repo, trace: &str, resource: &str) -> usize {
    let warned = |event: &&Value| event["kind"] == "warned" && event["resource"] == resource;
    repo.events(trace).iter().filter(warned).count()
}

#[test]
fn tokens_are_limited_and_an_approval_grants_as_much_again() {
    let repo = with_budget("tokens: 110");
    let held = repo.run(&answers(&[built_once()], &[review("approved")]));
    let trace = trace_of(&held);
    let id = is_exhausted(held, "tokens");
    assert_eq!(warnings(&repo, &trace, "tokens"), 1);
    let done = repo.approve(&id).exit(0).json();
    assert_eq!((&done["outcome"], &done["spent"]["tokens"]), (&json!("PASS"), &json!(110)));
    assert_eq!(repo.read("built.txt"), "built\n");
}

#[test]
fn cost_is_limited() {
    let repo = with_budget("cost: 0.000005");
    is_exhausted(repo.run(&answers(&[built_once()], &[review("approved")])), "cost");
}

/// A loop of one phase.
const SINGLE: &str = "---
id: single
title: One phase
type: loop
category: test
version: \"1\"
on_restart: hold
budget: { cost: 0.000004 }
phases:
  - id: build
    doer: { agent: builder }
---
";

#[test]
fn a_last_phase_that_costs_too_much_does_not_pass_without_a_person() {
    let repo = Repo::with_loop("single", SINGLE);
    let held = repo.run_with(&answers(&[built_once()], &[]), &["--loop", "single"]);
    let id = is_exhausted(held, "cost");
    let done = repo.approve(&id).exit(0).json();
    assert_eq!((&done["outcome"], &done["spent"]["cost_micros"]), (&json!("PASS"), &json!(5)));
}

#[test]
fn changed_lines_are_limited() {
    let repo = with_budget("changed_lines: 3");
    let lines = build(&[sh("seq 4 > many.txt")]);
    is_exhausted(repo.run(&answers(&[lines], &[review("approved")])), "changed_lines");
}

#[test]
fn attempts_are_limited() {
    let repo = with_budget("attempts: 2");
    let builds: Vec<_> =
        (1..=3).map(|turn| build(&[sh(&format!("echo {turn} >> built.txt"))])).collect();
    let reviews: Vec<_> = (0..3).map(|_| review("needs_revision")).collect();
    is_exhausted(repo.run(&answers(&builds, &reviews)), "attempts");
    assert_eq!(repo.read("built.txt"), "1\n2\n");
}

#[test]
fn working_time_is_limited() {
    // A tenth of a second, and a command that takes longer.
    let repo = with_budget("wall_minutes: 0.02");
    let slow = build(&[sh("sleep 1.3; echo built >> built.txt")]);
    is_exhausted(repo.run(&answers(&[slow], &[review("approved")])), "wall_ms");
}

#[test]
fn one_warning_comes_at_four_fifths() {
    let repo = with_budget("tokens: 137");
    let done = repo.run(&answers(&[built_once()], &[review("approved")])).exit(0);
    // 110 of 137 are more than four fifths.
    assert_eq!(warnings(&repo, &trace_of(&done), "tokens"), 1);
    let repo = with_budget("tokens: 138");
    let done = repo.run(&answers(&[built_once()], &[review("approved")])).exit(0);
    assert_eq!(warnings(&repo, &trace_of(&done), "tokens"), 0);
}

#[test]
fn a_warning_is_told_to_the_person() {
    let repo = with_budget("tokens: 120");
    let path = repo.answers(&answers(&[built_once()], &[review("approved")]));
    let done = repo.windlass(&["run", "one", "--answers", &path]).exit(0);
    assert!(done.stderr.contains("110 of 120 tokens used"), "{done}");
}

#[test]
fn tokens_that_were_not_counted_end_a_run_that_limits_them() {
    let repo = Repo::new();
    let mut silent = built_once();
    silent["usage"] = json!({ "unaccounted": true });
    let run = repo.run(&answers(&[silent], &[review("approved")])).exit(3).json();
    assert_eq!(run["reason"], "token_accounting_unavailable");
}

#[test]
fn time_on_hold_is_not_billed() {
    let repo = Repo::new();
    let held = repo.run(&escalating()).exit(4);
    let before = held.json()["spent"]["wall_ms"].as_u64().unwrap();
    let id = id_of(&held);
    let stands = repo.later(3, &["status", &id, "--json"]).exit(0).json();
    assert_eq!(stands["spent"]["wall_ms"], before);
    let began = std::time::Instant::now();
    let line = [&["queue", "approve", &id, "--json", "--resume"][..], &VOICE].concat();
    let after = repo.later(3, &line).exit(0).json()["spent"]["wall_ms"].as_u64().unwrap();
    let worked = u64::try_from(began.elapsed().as_millis()).unwrap();
    assert!(after >= before && after - before <= worked, "{before}, {after}, {worked}");
}
