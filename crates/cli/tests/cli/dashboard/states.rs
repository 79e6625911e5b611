//! What is said of runs whose processes died, and of holds that nobody answered.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_testkit::eventually;

use crate::served::{Served, own_token, project_of};
use crate::world::{Repo, id_of};

/// A program, or a person who is asked for a few seconds.
const LOOP: &str = r#"---
id: asked
title: Asked
type: loop
category: test
version: "1"
on_restart: resume
hold: { approvals: 1, expires_hours: 0.001 }
phases:
  - id: work
    doer: DOER
---
"#;

#[test]
fn the_phase_of_an_interrupted_run_is_interrupted() {
    let sleeps = "{ command: [sh, -c, \"sleep 60\"] }";
    let repo = Repo::with_loop("asked", &LOOP.replace("DOER", sleeps));
    let served = Served::start(&repo.place, &[]);
    let (token, project) = (own_token(&repo.place), project_of(&repo.place));
    let mut child = repo.place.command(&["run", "x", "--loop", "asked"]).spawn().unwrap();
    let runs = || served.call(&token, "GET", "/api/v1/runs", &Value::Null).status(200).json();
    let of = |run: &str| {
        let path = format!("/api/v1/projects/{project}/runs/{run}");
        let run = served.call(&token, "GET", &path, &Value::Null).status(200).json();
        json!([run["state"], run["phases"][0]["status"]])
    };
    let mut id = String::new();
    eventually("it is at work", || {
        std::thread::sleep(Duration::from_millis(100));
        id = runs()["runs"][0]["run"].as_str().unwrap_or_default().to_owned();
        !id.is_empty() && of(&id) == json!(["running", "running"])
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(of(&id), json!(["interrupted", "interrupted"]));
    let cookie = served.enter(&served.link);
    let page = served.browse(&cookie, "GET", &format!("/runs/{project}/{id}"), "").status(200).body;
    assert!(page.contains("status-interrupted") && !page.contains("status-running"), "{page}");
}

#[test]
fn a_program_whose_process_is_gone_does_not_go_on() {
    let once =
        "{ command: [sh, -c, \"test -e begun || { echo x > begun; sleep 60; }; echo '{}'\"] }";
    let text = LOOP.replace("DOER", once).replace("0.001", "1");
    let repo = Repo::with_loop("asked", &text);
    let served = Served::start(&repo.place, &[]);
    let (token, project) = (own_token(&repo.place), project_of(&repo.place));
    let mut child = repo.place.command(&["run", "x", "--loop", "asked"]).spawn().unwrap();
    let get = |path: &str| served.call(&token, "GET", path, &Value::Null).status(200).json();
    let results = |id: &str| {
        let timeline = get(&format!("/api/v1/projects/{project}/runs/{id}/timeline"));
        let all = timeline["invocations"].as_array().unwrap().clone();
        all.iter().map(|one| one["result"].clone()).collect::<Vec<_>>()
    };
    eventually("it is at work", || {
        std::thread::sleep(Duration::from_millis(100));
        repo.root().join("begun").exists()
    });
    let id = get("/api/v1/runs")["runs"][0]["run"].as_str().unwrap().to_owned();
    assert_eq!(results(&id), [Value::Null]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(results(&id), [json!("interrupted")]);
    // It may have taken effect, so a person is asked whether it is done again.
    repo.windlass(&["resume", &id]).exit(4);
    assert_eq!(results(&id), [json!("interrupted")]);
    repo.windlass(&["people", "add", "ada"]).exit(0);
    let words = ["--by", "ada", "--reason", "again", "--resume"];
    repo.windlass(&[&["queue", "approve", &id][..], &words].concat()).exit(0);
    assert_eq!(results(&id), [json!("interrupted"), json!("success")]);
    let cookie = served.enter(&served.link);
    let page = served.browse(&cookie, "GET", &format!("/runs/{project}/{id}"), "").status(200).body;
    assert!(!page.contains("goes on"), "{page}");
}

#[test]
fn a_server_that_works_ends_runs_that_nobody_answered_in_time() {
    let repo = Repo::with_loop("asked", &LOOP.replace("DOER", "{ person: \"Is it good?\" }"));
    let id = id_of(&repo.windlass(&["run", "x", "--loop", "asked", "--json"]).exit(4));
    let served = Served::start(&repo.place, &["--work"]);
    let token = own_token(&repo.place);
    eventually("it has ended", || {
        std::thread::sleep(Duration::from_millis(300));
        let runs = served.call(&token, "GET", "/api/v1/runs", &Value::Null).status(200).json();
        assert_eq!(runs["runs"][0]["run"], id.as_str());
        runs["runs"][0]["state"] == "failed"
    });
}
