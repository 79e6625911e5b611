//! The backlog: what is next, what waits for what, and starting a task.

use serde_json::{Value, json};

use crate::served::{Served, own_token, person, project_of};
use crate::world::Repo;

const LIST: &str = "# What is to be done

### P0
- [x] **Old** — DoD: done — Owner: ada
- [ ] **Raise <it>** — DoD: it is higher — Owner: bob

### P1
- [ ] **Lower it** — DoD: it is lower — Owner: bob — Context: depends on Raise <it>
- [ ] **Wait** — DoD: it rains — Owner: bob — Context: blocked by the weather
- [ ] **Dream** — DoD: x — Owner: ada
";

/// A loop without an agent.
const LOOP: &str = "---
id: plain
title: Plain
type: loop
category: test
version: \"1\"
on_restart: resume
require: [repo]
phases:
  - id: build
    doer: { command: [sh, -c, \"echo '{\\\"summary\\\":\\\"done\\\"}'\"] }
---
";

#[test]
fn tasks_are_shown_with_what_they_wait_for_and_one_is_started() {
    let repo = Repo::with_loop("plain", LOOP);
    let served = Served::start(&repo.place, &[]);
    let token = own_token(&repo.place);
    let project = project_of(&repo.place);
    let path = format!("/api/v1/projects/{project}/backlog");
    let get = || served.call(&token, "GET", &path, &Value::Null).status(200).json();
    let cookie = served.enter(&served.link);
    let browse = |path: &str| served.browse(&cookie, "GET", path, "").status(200).body;
    assert_eq!(get(), json!({ "items": null }));
    assert!(browse("/backlog").contains("has no backlog"));
    repo.write("BACKLOG.md", LIST);
    repo.commit("a backlog");
    let items = get()["items"].as_array().unwrap().clone();
    let states: Vec<&str> = items.iter().map(|item| item["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["done", "next", "blocked", "blocked", "open"]);
    assert_eq!(
        (&items[2]["waits_for"], &items[3]["waits_for"]),
        (&json!(["Raise <it>"]), &json!([]))
    );
    let page = browse("/backlog");
    assert!(page.contains("Raise &lt;it&gt;") && !page.contains("<it>"), "{page}");
    assert!(page.contains("waits for") && page.contains("Start this"), "{page}");

    let start = format!("{path}/start");
    let viewer = person(&repo.place, "vic", "viewer");
    let dream = json!({ "digest": items[4]["digest"], "loop": "plain" });
    served.call(&viewer, "POST", &start, &dream).refused(403, "REQUEST_INVALID");
    let post = |body: &Value| served.call(&token, "POST", &start, body);
    let refused = |digest: &Value, status: u16, code: &str| {
        served.refuses(&token, &start, &json!({ "digest": digest }), status, code)
    };
    refused(&json!("0".repeat(64)), 409, "BACKLOG_LINE_CHANGED");
    refused(&items[0]["digest"], 409, "BACKLOG_LINE_CHANGED");
    let waits = refused(&items[2]["digest"], 422, "REQUEST_INVALID");
    assert!(waits.body.contains("Raise <it>"), "{waits:?}");
    // Not the next one: the one that was named.
    let begun = post(&dream).status(200).json();
    let run = format!("/api/v1/projects/{project}/runs/{}", begun["run"].as_str().unwrap());
    assert_eq!(begun["recorded"], true);
    served.call(&token, "GET", &run, &Value::Null).status(200);
    windlass_testkit::eventually("the task is done", || {
        repo.read("BACKLOG.md").contains("- [x] **Dream**")
    });
    assert_eq!(get()["items"][4]["state"], "done");
    assert!(repo.read("BACKLOG.md").contains("- [ ] **Raise <it>**"));
    let digest = items[1]["digest"].as_str().unwrap();
    let form = format!("digest={digest}&loop=plain");
    let start = format!("/backlog/{project}/start");
    let reply = served.browse(&cookie, "POST", &start, &form).status(303);
    let run = reply.header("location").to_owned();
    assert!(run.starts_with(&format!("/runs/{project}/run_")), "{run}");
    served.browse(&cookie, "GET", &run, "").status(200);
    windlass_testkit::eventually("that is done, too", || {
        repo.read("BACKLOG.md").contains("- [x] **Raise <it>**")
    });
    repo.is_whole();
}

#[test]
fn a_task_is_started_once_however_many_ask_at_once() {
    let slow = LOOP.replace("echo '", "sleep 5; echo '");
    let repo = Repo::with_loop("plain", &slow);
    repo.write("BACKLOG.md", LIST);
    repo.commit("a backlog");
    let served = Served::start(&repo.place, &[]);
    let (token, project) = (own_token(&repo.place), project_of(&repo.place));
    let path = format!("/api/v1/projects/{project}/backlog");
    let items = served.call(&token, "GET", &path, &Value::Null).status(200).json();
    let digest = &items["items"][4]["digest"];
    let body = json!({ "digest": digest, "loop": "plain", "worktree": true });
    let start = format!("{path}/start");
    let replies = std::thread::scope(|scope| {
        let asking = [(); 4].map(|()| scope.spawn(|| served.call(&token, "POST", &start, &body)));
        asking.map(|asking| asking.join().unwrap())
    });
    let started = replies.iter().filter(|reply| reply.status == 200).count();
    assert_eq!(started, 1, "{replies:?}");
    for refused in replies.into_iter().filter(|reply| reply.status != 200) {
        refused.refused(409, "BACKLOG_LINE_CHANGED");
    }
    let runs = served.call(&token, "GET", "/api/v1/runs", &Value::Null).status(200).json();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "{runs}");
}
