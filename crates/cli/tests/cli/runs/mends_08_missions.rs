//! Mend 8: missions, which are tasks with names and parameters.

use serde_json::json;

use crate::harness::{Outcome, text_of};
use crate::world::{Repo, answers, build, built_once, id_of, review, sh};

const RAISE: &str = "---
name: raise-price
description: Raise the price of one item.
loop: spine
parameters:
  item: { description: What costs more. }
  price: { description: The new price., default: \"2\" }
context_refs: [\"src/{{item}}.txt\"]
---

Raise the price of {{item}} to {{price}}.
";

fn with_mission(text: &str) -> Repo {
    let repo = Repo::new();
    repo.write(".windlass/missions/raise-price.md", text);
    repo.commit("a mission");
    repo
}

fn run(repo: &Repo, more: &[&str]) -> Outcome {
    let path = repo.answers(&answers(&[built_once()], &[review("approved")]));
    let line = ["run", "--answers", &path, "--by", "ada"];
    repo.windlass(&[&line[..], more].concat())
}

#[test]
fn mend_08_a_mission_is_listed_shown_and_run() {
    let repo = with_mission(RAISE);
    repo.windlass(&["mission", "list"]).exit(0).says("raise-price").says("item [price]");
    let shown = repo.windlass(&["mission", "show", "raise-price", "--json"]).exit(0).json();
    assert_eq!(shown["loop"], "spine");
    repo.windlass(&["mission", "show", "raise-price"]).exit(0).says("Raise the price of {{item}}");
    repo.windlass(&["mission", "check"]).exit(0).says("valid missions: 1");
    let line = ["--mission", "raise-price", "--set", "item=price", "--json"];
    let id = id_of(&run(&repo, &line).exit(0));
    let run = repo.stands(&id);
    assert_eq!(run["mission"]["name"], "raise-price");
    let started = repo.events(&text_of(&run, "trace_id"))[0].clone();
    assert_eq!(started["task"]["task"], "Raise the price of price to 2.");
    assert_eq!(started["task"]["context_refs"], json!(["src/price.txt"]));
    let recorded = &started["options"]["mission"];
    assert_eq!(recorded["digest"], shown["digest"]);
    assert_eq!(recorded["parameters"], json!({ "item": "price", "price": "2" }));
    repo.windlass(&["status", &id]).exit(0).says("mission  raise-price");
}

#[test]
fn mend_08_a_mission_that_cannot_be_run_says_why() {
    let repo = with_mission(RAISE);
    let fails = |more: &[&str], message: &str, hint: &str| {
        run(&repo, more).fails_with(2, "REQUEST_INVALID").warns(message).warns(hint);
    };
    fails(&["--mission", "rise-price"], "no mission `rise-price`", "did you mean `raise-price`?");
    fails(&["--mission", "other"], "no mission `other`", "windlass mission list");
    fails(&["--mission", "raise-price"], "needs `item`", "--set item=VALUE");
    let twice = ["--mission", "raise-price", "--set", "item=a", "--set", "itme=b"];
    fails(&twice, "no parameter `itme`", "did you mean `item`?");
    fails(&["--mission", "raise-price", "--set", "item"], "has no value", "NAME=VALUE");
    assert_eq!(run(&repo, &["--mission", "raise-price", "a task"]).code, Some(2));
    assert_eq!(run(&repo, &["a task", "--set", "item=a"]).code, Some(2));
    let runs = repo.windlass(&["status", "--json"]).exit(0).json();
    assert_eq!(runs, json!([]), "nothing was started");
}

#[test]
fn mend_08_missions_are_checked() {
    for (from, to, code, why) in [
        ("loop: spine", "loop: spin", "LOOP_NOT_FOUND", "did you mean `spine`?"),
        ("of {{item}}", "of {{itme}}", "LOOP_INVALID", "did you mean `item`?"),
        ("name: raise-price", "name: raise", "LOOP_INVALID", "raise-price"),
        ("loop: spine", "loop: spine\nvariant: none", "LOOP_", "none"),
        ("context_refs: [", "context_refs: [\"../secret\", ", "TASK_", "secret"),
    ] {
        let repo = with_mission(&RAISE.replacen(from, to, 1));
        let outcome = repo.windlass(&["mission", "check"]);
        assert_ne!(outcome.code, Some(0), "{to}");
        outcome.warns(code).warns(why);
    }
}

#[test]
fn mend_08_a_changed_mission_does_not_end_its_run() {
    let repo = with_mission(RAISE);
    let path =
        repo.answers(&answers(&[build(&[sh("echo built >> built.txt")])], &[review("escalate")]));
    let line = ["run", "--mission", "raise-price", "--set", "item=price", "--answers", &path];
    let id = id_of(
        &repo.windlass(&[&line[..], &["--json", "--worktree", "--by", "ada"]].concat()).exit(4),
    );
    repo.place.append(".windlass/missions/raise-price.md", "Now.\n");
    assert_eq!(repo.approve(&id).exit(0).json()["outcome"], "PASS");
}
