//! Holds that expire, are rejected, or wait to be taken up; and budgets of time.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::world::{
    Repo, VOICE, answers, build, built_once, escalating, id_of, review, sh, trace_of,
};

#[test]
fn mend_03_whoever_looks_next_ends_a_run_whose_hold_has_expired() {
    let looks: [&[&str]; 4] =
        [&["queue", "list"], &["status"], &["status", "--metrics"], &["recover"]];
    for look in looks {
        let repo = Repo::new();
        let id = id_of(&repo.run(&escalating()).exit(4));
        repo.windlass(look).exit(0);
        assert_eq!(repo.stands(&id)["state"], "CHECKPOINT", "{look:?}: it is not yet time");
        let looked = repo.later(25, look).exit(0);
        let run = repo.stands(&id);
        assert_eq!(
            (&run["outcome"], &run["reason"]),
            (&json!("BLOCKED"), &json!("checkpoint_expired")),
            "{look:?}"
        );
        let packet = repo.artifact(&format!("terminal/TP_{id}.yaml"));
        assert!(packet.contains("reason: checkpoint_expired"), "{packet}");
        match look {
            ["queue", "list"] => assert!(looked.text().contains("no run waits"), "{looked}"),
            ["status"] => assert!(looked.text().contains("checkpoint_expired"), "{looked}"),
            ["recover"] => assert!(looked.text().contains(&id), "{looked}"),
            _ => assert!(looked.text().contains("windlass_holds_waiting 0"), "{looked}"),
        }
    }
}

#[test]
fn mend_03_an_answer_in_time_cannot_be_withdrawn_when_the_time_is_over() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(0);
    let revoke = [&["queue", "revoke", &id][..], &VOICE].concat();
    repo.later(25, &revoke).fails_with(2, "REQUEST_INVALID").warns("the time to answer is over");
    assert_eq!(repo.later(25, &["resume", &id, "--json"]).exit(0).json()["outcome"], "PASS");
}

#[test]
fn mend_03_a_run_that_is_shown_has_expired() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let shown = repo.later(25, &["status", &id, "--json"]).exit(0).json();
    assert_eq!(shown["reason"], "checkpoint_expired");
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    repo.later(25, &["queue", "show", &id]).exit(1).warns("[RUN_NOT_ON_HOLD]");
}

#[test]
fn mend_03_a_hold_says_until_when_it_can_be_answered() {
    let repo = Repo::new();
    repo.run(&escalating()).exit(4);
    let list = repo.windlass(&["queue", "list", "--json"]).exit(0).json();
    assert_eq!(list[0]["hold"]["expired"], false);
    assert!(list[0]["hold"]["expires_at"].is_string());
}

#[test]
fn mend_03_a_budget_of_time_interrupts_a_command_of_an_agent() {
    let budget = "budget: { attempts: 5, tokens: 100000, wall_minutes: 30, changed_lines: 500 }";
    let repo = Repo::with_spine(budget, "budget: { wall_minutes: 0.05 }");
    let slow = build(&[sh("sleep 60; echo never >> never.txt"), sh("echo built >> built.txt")]);
    let began = Instant::now();
    let held = repo.run(&answers(&[slow], &[review("approved")])).exit(4);
    assert!(began.elapsed() < Duration::from_secs(45), "{:?}", began.elapsed());
    let run = held.json();
    assert_eq!(run["hold"]["trigger"], "BUDGET_EXHAUSTED", "{held}");
    assert!(run["hold"]["question"].as_str().unwrap().contains("wall_ms"), "{held}");
    assert_eq!((repo.read("never.txt"), repo.read("built.txt")), (String::new(), String::new()));
    // What was interrupted has failed, and is not made again: it may have taken effect.
    let after = repo.approve(&id_of(&held)).exit(3).json();
    assert!(after["detail"].as_str().unwrap().contains("TOOL_TIMEOUT"), "{after}");
    assert_eq!(repo.read("never.txt"), "");
}

/// A loop whose command takes too long the first time.
const LATE: &str = "---
id: late
title: Late
type: loop
category: test
version: \"1\"
on_restart: hold
budget: { wall_minutes: 0.05 }
phases:
  - id: one
    doer: { command: [sh, -c, \"if [ -f again ]; then echo '{}'; else touch again; sleep 60; fi\"] }
---
";

#[test]
fn mend_03_a_budget_of_time_that_runs_out_in_a_command_of_a_phase_is_asked_about() {
    let repo = Repo::with_loop("late", LATE);
    let held = repo.windlass(&["run", "wait", "--loop", "late", "--json"]).exit(4);
    let run = held.json();
    assert_eq!(run["hold"]["trigger"], "BUDGET_EXHAUSTED", "{held}");
    let question = run["hold"]["question"].as_str().unwrap();
    assert!(question.contains("wall_ms") && question.contains("`sh` was interrupted"), "{held}");
    assert_eq!(repo.approve(&id_of(&held)).exit(0).json()["outcome"], "PASS");
}

/// A loop whose plan is approved by two of three people, and can be rejected by two.
const PEOPLE: &str = "---
id: people
title: Decided by people
type: loop
category: test
version: \"1\"
on_restart: hold
phases:
  - id: build
    doer: { agent: builder }
  - id: agree
    doer:
      consensus: Is it right?
      reviewers: [{ person: ada }, { person: bob }, { person: cid }]
      quorum: 2
    needs: [build]
    gate:
      id: agreed
      verdicts:
        approved: continue
        approved_with_conditions: continue
        rejected: block
---
";

#[test]
fn mend_03_a_rejection_is_not_told_as_an_approval() {
    let repo = Repo::with_loop("people", PEOPLE);
    let held = repo.run_with(&answers(&[built_once()], &[]), &["--loop", "people"]).exit(4);
    let id = id_of(&held);
    let bob = repo.place.protect("bob");
    let vote = |word: &str, by: &[&str]| {
        repo.windlass(&[&["queue", word, &id, "--reason", "seen"][..], by].concat())
    };
    let no = vote("reject", &["--by", "ada"]).exit(0);
    assert!(no.text().contains("1 of 2 rejections, 0 of 2 approvals"), "{no}");
    let hold = &repo.stands(&id)["hold"];
    assert_eq!((&hold["approvals"], &hold["rejections"]), (&json!(0), &json!(1)));
    let yes = vote("approve", &bob).exit(0);
    assert!(yes.text().contains("1 of 2 rejections, 1 of 2 approvals"), "{yes}");
}

#[test]
fn mend_03_recover_takes_up_a_hold_that_was_approved() {
    for one in [true, false] {
        let repo = Repo::new();
        let held = repo.run(&escalating()).exit(4);
        let id = id_of(&held);
        repo.windlass(&["recover"]).exit(0).says("nothing to recover");
        repo.windlass(&[&["queue", "approve", &id][..], &VOICE].concat()).exit(0);
        let line: &[&str] = if one { &["recover", &id] } else { &["recover"] };
        repo.windlass(line).exit(0).says("PASS");
        assert_eq!(repo.stands(&id)["outcome"], "PASS");
        assert_eq!(repo.counts(&trace_of(&held))["resumed"], 1);
    }
}

/// A loop whose plan is approved by an agent.
const AGENTS: &str = "---
id: agree
title: Decided by an agent
type: loop
category: test
version: \"1\"
on_restart: hold
phases:
  - id: build
    doer: { agent: builder }
  - id: agree
    doer:
      consensus: Is it right?
      reviewers: [{ agent: reviewer }]
    needs: [build]
    gate:
      id: agreed
      verdicts:
        approved: continue
        approved_with_conditions: continue
        rejected: block
---
";

#[test]
fn mend_03_an_approval_with_conditions_needs_conditions() {
    let with = |conditions: Value| {
        let repo = Repo::with_loop("agree", AGENTS);
        let answer = json!({ "answer": {
            "verdict": "approved_with_conditions", "conditions": conditions,
            "reason": "nearly", "summary": "seen",
        }});
        let answers = json!({ "phases": { "build": [built_once()], "agree/reviewer": [answer] } });
        repo.run_with(&answers, &["--loop", "agree"])
    };
    assert_eq!(with(json!(["tests are added"])).exit(0).json()["outcome"], "PASS");
    for none in [json!([]), json!([" "])] {
        let run = with(none).exit(3);
        assert_eq!(run.json()["outcome"], "BLOCKED", "{run}");
    }
}
