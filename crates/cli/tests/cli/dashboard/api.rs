//! The API: what it says, and what it does.

use serde_json::{Value, json};
use windlass_testkit::eventually;

use crate::served::{Served, own_token, person, project_of};
use crate::world::{Repo, escalating, id_of, passing};

#[test]
fn runs_are_listed_by_pages_newest_first() {
    let repo = Repo::new();
    let served = Served::start(&repo.place, &[]);
    let token = own_token(&repo.place);
    let empty = served.call(&token, "GET", "/api/v1/runs", &Value::Null).status(200).json();
    assert_eq!(empty, json!({ "next": null, "runs": [], "unusable": [] }));
    let mut names: Vec<String> = (0..5).map(|_| id_of(&repo.run(&passing()).exit(0))).collect();
    names.reverse();
    let mut found = Vec::new();
    let mut path = "/api/v1/runs?limit=2".to_owned();
    for page in 0.. {
        assert!(page < 4, "the pages do not end");
        let page = served.call(&token, "GET", &path, &Value::Null).status(200).json();
        let runs = page["runs"].as_array().unwrap();
        assert!(runs.len() <= 2);
        found.extend(runs.iter().map(|run| run["run"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/runs?limit=2&cursor={next}");
    }
    assert_eq!(found, names);
    for (query, count) in [
        ("text=RAISE%20the", 5),
        ("text=other", 0),
        ("state=passed", 5),
        ("state=failed", 0),
        ("project=nothing", 0),
        (format!("text={}", names[0]).as_str(), 1),
    ] {
        let path = format!("/api/v1/runs?{query}");
        let page = served.call(&token, "GET", &path, &Value::Null).status(200).json();
        assert_eq!(page["runs"].as_array().unwrap().len(), count, "{query}");
    }
    for query in ["limit=0", "limit=x", "limit=201", "cursor=x"] {
        let path = format!("/api/v1/runs?{query}");
        served.call(&token, "GET", &path, &Value::Null).refused(422, "REQUEST_INVALID");
    }
}

#[test]
fn a_run_is_shown_in_full_and_its_hold_is_decided_by_what_was_shown() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let served = Served::start(&repo.place, &[]);
    let token = own_token(&repo.place);
    let project = project_of(&repo.place);
    let get = |path: &str| served.call(&token, "GET", path, &Value::Null).status(200).json();
    let run = get(&format!("/api/v1/projects/{project}/runs/{id}"));
    assert_eq!((&run["state"], &run["loop"]), (&json!("on_hold"), &json!("spine")));
    assert_eq!(run["phases"].as_array().unwrap().len(), 6);
    assert_eq!(run["hold"]["phase"], "review");
    let holds = get("/api/v1/holds");
    assert_eq!(holds["holds"][0]["run"], id.as_str());
    let hold = format!("/api/v1/projects/{project}/holds/{id}");
    let seen = get(&hold);
    assert!(seen["diff"].as_str().unwrap().contains("+built"), "{seen}");

    let approve = format!("{hold}/approve");
    let stale = json!({ "shown": "0".repeat(64), "reason": "looked at it" });
    let refused = served.call(&token, "POST", &approve, &stale).status(409).json();
    assert_eq!(refused["code"], "HOLD_STALE", "{refused}");
    let decision = json!({ "shown": seen["shown"], "reason": "looked at it" });
    // A person whose decisions can be signed, named as the one who is logged in.
    repo.windlass(&["people", "add", "ada"]);
    served.call(&token, "POST", &approve, &decision).status(200);
    served.call(&token, "POST", &approve, &decision).refused(409, "HOLD_ALREADY_RESOLVED");
    let run = get(&format!("/api/v1/projects/{project}/runs/{id}"));
    assert_eq!(run["state"], "answered");
    let resume = format!("/api/v1/projects/{project}/runs/{id}/resume");
    served.call(&token, "POST", &resume, &Value::Null).status(200);
    eventually("the run passes", || repo.stands(&id)["outcome"] == "PASS");
    assert_eq!(repo.read("built.txt"), "built\n");
    repo.is_whole();
}

#[test]
fn a_run_is_started_stopped_and_given_up() {
    let repo = Repo::new();
    let served = Served::start(&repo.place, &[]);
    let token = own_token(&repo.place);
    let project = project_of(&repo.place);
    let runs = format!("/api/v1/projects/{project}/runs");
    let post = |path: &str, body: Value| served.call(&token, "POST", path, &body);
    post(&runs, json!({ "task": " " })).refused(422, "REQUEST_INVALID");
    let no_loop = json!({ "task": "x", "loop": "none" });
    served.refuses(&token, &runs, &no_loop, 404, "LOOP_NOT_FOUND");
    post(&runs, json!({ "task": "x", "what": 1 })).refused(422, "REQUEST_INVALID");
    // A task that looks like a file is a task all the same.
    // There is no agent here: the run fails before it starts, and says so.
    served.refuses(&token, &runs, &json!({ "task": "README.md" }), 409, "AGENT_UNAVAILABLE");
    assert_eq!(repo.windlass(&["status", "--json"]).exit(0).json(), json!([]));

    let id = id_of(&repo.run(&escalating()).exit(4));
    let run = format!("{runs}/{id}");
    post(&format!("{run}/stop"), json!({ "reason": "wait a moment" })).status(200);
    post(&format!("{run}/clear-stop"), Value::Null).status(200);
    post(&format!("{run}/cancel"), json!({ "reason": "no longer wanted" })).status(200);
    assert_eq!(repo.stands(&id)["reason"], "cancelled");
    let ended = served.call(&token, "GET", &run, &Value::Null).status(200).json();
    let review = ended["phases"].as_array().unwrap().iter().find(|one| one["id"] == "review");
    assert_eq!(review.unwrap()["status"], "not finished", "{ended}");
    post(&format!("{run}/cancel"), json!({ "reason": "again" })).refused(409, "RUN_ENDED");
    post(&format!("{runs}/run_20200101_000000_00000000/cancel"), json!({ "reason": "x" }))
        .refused(404, "RUN_NOT_FOUND");
}

#[test]
fn checkpoints_entries_and_the_journal() {
    let repo = Repo::new();
    let id = id_of(&repo.run(&escalating()).exit(4));
    let served = Served::start(&repo.place, &[]);
    let token = own_token(&repo.place);
    let project = project_of(&repo.place);
    let run = format!("/api/v1/projects/{project}/runs/{id}");
    let get = |path: &str| served.call(&token, "GET", path, &Value::Null);
    let checkpoints = get(&format!("{run}/checkpoints")).status(200).json();
    assert_eq!(checkpoints[0]["name"], "PRE_hydrate_v1");
    let compared = get(&format!("{run}/compare?from=POST_design_v1&to=POST_build_v1")).status(200);
    assert!(compared.json()["diff"].as_str().unwrap().contains("+built"), "{compared:?}");
    get(&format!("{run}/compare?from=POST_design_v1")).refused(422, "REQUEST_INVALID");
    get(&format!("{run}/compare?from=../x&to=POST_build_v1")).refused(422, "REQUEST_INVALID");
    let preview = get(&format!("{run}/rollback?checkpoint=POST_design_v1")).status(200).json();
    assert_eq!(preview["files"][0]["path"], "built.txt");
    assert_eq!(repo.read("built.txt"), "built\n", "a preview changes nothing");
    let entries = get(&format!("{run}/entries")).status(200).json();
    assert!(entries["entries"].as_array().unwrap().len() > 20, "{entries}");
    let body = json!({ "checkpoint": "POST_design_v1", "reason": "once more" });
    served.call(&token, "POST", &format!("{run}/rollback"), &body).status(200);
    assert_eq!(repo.read("built.txt"), "");
    let verify = format!("/api/v1/projects/{project}/verify");
    let verified = served.call(&token, "POST", &verify, &Value::Null).status(200).json();
    assert_eq!(verified["chain_valid"], true);
    repo.is_whole();
}

#[test]
fn roles_hold_for_every_route() {
    let repo = Repo::new();
    let served = Served::start(&repo.place, &[]);
    let description = served
        .call(&own_token(&repo.place), "GET", "/api/v1/openapi.json", &Value::Null)
        .status(200)
        .json();
    let tokens = ["viewer", "approver", "operator"].map(|role| person(&repo.place, role, role));
    let paths = description["paths"].as_object().unwrap();
    let mut tried = 0;
    // The stream does not end; that strangers and holders of links get none of it is tested with the others.
    assert!(paths.contains_key("/api/v1/events") && paths.contains_key("/api/v1/openapi.json"));
    for (path, methods) in paths.iter().filter(|(path, _)| *path != "/api/v1/events") {
        for (method, operation) in methods.as_object().unwrap() {
            let needed = operation["description"].as_str().unwrap();
            let needed =
                ["viewer", "approver", "operator"].iter().position(|r| needed.contains(r)).unwrap();
            let path = path.replace("{project}", "none").replace("{run}", "none");
            for (has, token) in tokens.iter().enumerate() {
                let body = json!({ "reason": "x", "shown": "x", "task": "x" });
                let reply = served.call(token, &method.to_uppercase(), &path, &body);
                assert_eq!(reply.status == 403, has < needed, "{method} {path}: {reply:?}");
                assert!(reply.status < 500, "{method} {path}: {reply:?}");
                tried += 1;
            }
        }
    }
    assert!(tried >= 30, "{tried}");
}
