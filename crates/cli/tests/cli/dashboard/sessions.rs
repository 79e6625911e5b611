//! Guarded sessions: the list, and one in full.

use serde_json::{Value, json};

use crate::guarded::session;
use crate::served::{Served, own_token, project_of};
use crate::world::{Repo, id_of, passing};

#[test]
fn a_session_shows_its_prompts_its_calls_and_how_to_go_on() {
    let repo = Repo::new();
    let run = id_of(&repo.run(&passing()).exit(0));
    session(&repo, "s-1");
    session(&repo, "s-2");
    let served = Served::start(&repo.place, &[]);
    let token = own_token(&repo.place);
    let project = project_of(&repo.place);
    let get = |path: &str| served.call(&token, "GET", path, &Value::Null);
    let listed = get("/api/v1/sessions").status(200).json();
    let sessions = listed["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 2, "the run is none: {listed}");
    assert_eq!((&sessions[0]["client"], &sessions[0]["state"]), (&json!("claude"), &json!("open")));
    let name = sessions[1]["run"].as_str().unwrap().to_owned();
    let own = format!("/api/v1/projects/{project}/sessions/{name}");
    let detail = get(&own).status(200).json();
    assert_eq!(detail["session"], "s-1", "{detail}");
    let calls = detail["calls"].as_array().unwrap();
    let states: Vec<&Value> = calls.iter().map(|call| &call["decision"]).collect();
    assert_eq!(states.len(), 3, "only its own: {detail}");
    assert_eq!((states[1], states[2]), (&json!("deny"), &json!("approve")));
    let happenings = detail["happenings"].to_string();
    assert!(happenings.contains("build <it> and push") && happenings.contains("prompt 1"));
    assert_eq!(detail["blocked"], Value::Null);
    let denied = get(&format!("{own}?decision=deny")).status(200).json();
    assert_eq!(denied["calls"].as_array().unwrap().len(), 1);
    let first = get(&format!("{own}?limit=2")).status(200).json();
    let next = first["next"].as_str().unwrap();
    let rest = get(&format!("{own}?limit=2&cursor={next}")).status(200).json();
    assert_eq!(rest["calls"][0], calls[2]);
    get(&format!("/api/v1/projects/{project}/sessions/{run}")).refused(404, "RUN_NOT_FOUND");
    get(&format!("/api/v1/projects/{project}/sessions/none")).refused(404, "RUN_NOT_FOUND");
    for (query, count) in [("state=open", 2), ("state=passed", 0), ("limit=1", 1)] {
        let page = get(&format!("/api/v1/sessions?{query}")).status(200).json();
        assert_eq!(page["sessions"].as_array().unwrap().len(), count, "{query}");
    }

    let cookie = served.enter(&served.link);
    let browse = |path: &str| served.browse(&cookie, "GET", path, "").status(200).body;
    let list = browse("/sessions");
    let address = format!("/sessions/{project}/{name}");
    assert!(list.contains(&address) && !list.contains(&run), "{list}");
    let page = browse(&address);
    assert!(page.contains("build &lt;it&gt; and push") && !page.contains("<it>"), "{page}");
    assert!(page.contains("claude --resume s-1") && page.contains("sudo ls"), "{page}");
    // What stops it is shown, and where to lift it.
    assert!(list.contains(&repo.root().display().to_string()), "the folder is listed: {list}");
    assert_eq!(sessions[1]["folder"], repo.root().display().to_string(), "{listed}");
    assert_eq!(detail["folder"], sessions[1]["folder"], "{detail}");
    assert_eq!(detail["stopped"], Value::Null);
    assert!(page.contains("Stop its tools") && !page.contains("Its tools are stopped"), "{page}");
    repo.windlass(&["stop", &name, "--reason", "look <first>"]).exit(0);
    let stopped = get(&own).status(200).json()["stopped"].clone();
    assert_eq!((&stopped["reason"], &stopped["all"]), (&json!("look <first>"), &json!(false)));
    let page = browse(&address);
    assert!(
        page.contains("Its tools are stopped") && page.contains("look &lt;first&gt;"),
        "{page}"
    );
    assert!(page.contains("Lift the stop") && !page.contains("Stop its tools"), "{page}");
    repo.windlass(&["stop", &name, "--clear"]).exit(0);
    repo.windlass(&["stop", "--reason", "all of it"]).exit(0);
    assert_eq!(get(&own).status(200).json()["stopped"]["all"], true);
    assert!(browse(&address).contains("Everything in the project is stopped"));
    repo.windlass(&["stop", "--clear"]).exit(0);
    assert_eq!(get(&own).status(200).json()["stopped"], Value::Null);
    repo.windlass(&["session", "end", &name, "--reason", "gone"]).exit(0);
    let page = browse(&address);
    assert!(page.contains("ended") && !page.contains("How to go on"), "{page}");
    assert!(page.contains("sudo ls"), "its calls are found after its end");
}
