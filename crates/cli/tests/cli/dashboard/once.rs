//! A run is started once, also if the server is killed meanwhile.

use std::io::Write as _;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use windlass_testkit::eventually;

use crate::served::{Served, own_token, project_of};
use crate::world::Repo;

/// A program that changes nothing.
const LOOP: &str = r#"---
id: short
title: Short
type: loop
category: test
version: "1"
on_restart: resume
phases:
  - id: work
    doer: { command: [sh, -c, "echo '{\"summary\":\"worked\"}'"] }
---
"#;

fn with_task(served: &Served, token: &str, task: &str) -> Vec<Value> {
    let found = served.call(token, "GET", &format!("/api/v1/runs?text={task}"), &Value::Null);
    found.status(200).json()["runs"].as_array().unwrap().clone()
}

#[test]
fn a_start_is_made_once_although_the_server_is_killed() {
    let repo = Repo::with_loop("short", LOOP);
    let mut served = Served::start(&repo.place, &[]);
    let (token, project) = (own_token(&repo.place), project_of(&repo.place));
    let path = format!("/api/v1/projects/{project}/runs");
    for ms in [0, 20, 60, 120, 400] {
        let task = format!("task-{ms}");
        let body = json!({ "task": task, "loop": "short", "worktree": true, "once": task });
        let text = body.to_string();
        let mut stream = served.connect();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{text}",
            served.address,
            text.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        // Not to wait for anything: the moment is the test.
        std::thread::sleep(Duration::from_millis(ms));
        let pid = Pid::from_raw(i32::try_from(served.pid()).unwrap()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        drop(stream);
        served = Served::start(&repo.place, &[]);
        let first = served.call(&token, "POST", &path, &body).status(200).json();
        let second = served.call(&token, "POST", &path, &body).status(200).json();
        assert_eq!(first["run"], second["run"], "{ms} ms");
        eventually("it is recorded and has ended", || {
            std::thread::sleep(Duration::from_millis(100));
            let found = with_task(&served, &token, &task);
            found.first().is_some_and(|run| run["state"] == "passed")
        });
        let found = with_task(&served, &token, &task);
        assert_eq!(found.len(), 1, "{ms} ms: {found:?}");
        assert_eq!(found[0]["run"], first["run"], "{ms} ms");
    }
    repo.is_whole();
}

#[test]
fn a_word_is_remembered_over_a_restart() {
    let repo = Repo::with_loop("short", LOOP);
    let served = Served::start(&repo.place, &[]);
    let (token, project) = (own_token(&repo.place), project_of(&repo.place));
    let path = format!("/api/v1/projects/{project}/runs");
    let body = json!({ "task": "remembered", "loop": "short", "once": "w" });
    let first = served.call(&token, "POST", &path, &body).status(200).json();
    drop(served);
    let served = Served::start(&repo.place, &[]);
    let second = served.call(&token, "POST", &path, &body).status(200).json();
    assert_eq!(first["run"], second["run"]);
    assert_eq!(with_task(&served, &token, "remembered").len(), 1);
    // What could not be started can be tried again.
    let wrong = json!({ "task": "wrong", "loop": "no-such-loop", "once": "v" });
    served.refuses(&token, &path, &wrong, 404, "LOOP_NOT_FOUND");
    let right = json!({ "task": "right", "loop": "short", "worktree": true, "once": "v" });
    served.call(&token, "POST", &path, &right).status(200);
}
