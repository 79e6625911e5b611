//! `queue`, `status` and `loop`: what people look at.

use serde_json::{Value, json};

use crate::world::{Repo, VOICE, escalating, id_of, passing};

#[test]
fn the_queue_lists_what_waits_oldest_first() {
    let repo = Repo::new();
    repo.windlass(&["queue", "list"]).exit(0).quiet().says("no run waits for a decision");
    let ids: Vec<String> =
        (0..3).map(|_| id_of(&repo.run_with(&escalating(), &["--worktree"]).exit(4))).collect();
    let list = repo.windlass(&["queue", "list", "--json"]).exit(0).json();
    let listed: Vec<&str> =
        list.as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap()).collect();
    assert_eq!(listed, ids);
    let limited = repo.windlass(&["queue", "list", "--limit", "1"]).exit(0);
    assert!(limited.text().contains(&ids[0]) && !limited.text().contains(&ids[1]), "{limited}");
    assert!(limited.stderr.contains("2 more"), "{limited}");
    // What was answered no longer waits for a person.
    repo.windlass(&[&["queue", "approve", &ids[0]][..], &VOICE].concat()).exit(0);
    repo.windlass(&["queue", "reject", &ids[1], "--by", "a", "--reason", "b"]).exit(0);
    let list = repo.windlass(&["queue", "list", "--json"]).exit(0).json();
    let resolutions: Vec<(&Value, &Value)> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|run| (&run["run_id"], &run["hold"]["resolution"]))
        .collect();
    let (first, last) = (json!(ids[0]), json!(ids[2]));
    assert_eq!(resolutions, [(&first, &json!("APPROVED")), (&last, &Value::Null)]);
    repo.windlass(&["queue", "list"]).exit(0).says("approved, not yet resumed");
    let open = repo.windlass(&["status", "--open", "--json"]).exit(0).json();
    assert_eq!(open.as_array().unwrap().len(), 2);
    let held = repo.windlass(&["status", "--held", "--limit", "1", "--json"]).exit(0).json();
    assert_eq!(held.as_array().unwrap().len(), 1);
}

#[test]
fn the_queue_shows_what_a_person_needs_to_decide() {
    let repo = Repo::new();
    let held = repo.run(&escalating()).exit(4);
    let id = id_of(&held);
    let shown = held.json()["hold"]["shown"].as_str().unwrap().to_owned();
    let page = repo.windlass(&["queue", "show", &id]).exit(0).quiet();
    for part in
        ["raise the price", "ESCALATION_REQUESTED", "it is escalate", "1 line in built.txt", &shown]
    {
        assert!(page.text().contains(part), "no `{part}`\n{page}");
    }
    assert!(!page.text().contains("\\n"), "{page}");
    let value = repo.windlass(&["queue", "show", &id, "--json"]).exit(0).json();
    assert_eq!(value["held"]["change"]["files"], json!(["built.txt"]));
    repo.approve(&id).exit(0);
    repo.windlass(&["queue", "show", &id]).fails_with(1, "RUN_NOT_ON_HOLD");
}

#[test]
fn status_tells_where_runs_stand() {
    let repo = Repo::new();
    repo.windlass(&["status"]).exit(0).says("no runs");
    let done = repo.run(&passing()).exit(0);
    let id = id_of(&done);
    repo.windlass(&["status"]).exit(0).says(&id).says("PASS");
    let page = repo.windlass(&["status", &id]).exit(0).quiet().says("steward").says("PASS");
    assert!(page.text().contains("110 of 100000 tokens"), "{page}");
    // What decides need not be readable to see what was decided.
    let broken = repo.place.work().join(".windlass/loops/broken.md");
    std::fs::write(&broken, "---\nid: [\n---\n").unwrap();
    repo.windlass(&["loop", "list"]).fails_with(2, "LOOP_INVALID");
    repo.windlass(&["status"]).exit(0).says(&id).says("PASS");
    repo.windlass(&["queue", "list"]).exit(0).says("no run waits for a decision");
    std::fs::remove_file(broken).unwrap();
    // A run is found by its trace too; a call is not a run.
    let trace = done.json()["trace_id"].as_str().unwrap().to_owned();
    assert_eq!(repo.stands(&trace)["run_id"], id.as_str());
    let call = repo.place.ids().into_iter().find(|one| *one != trace).unwrap();
    repo.windlass(&["status", &call]).fails_with(2, "RUN_NOT_FOUND");
    for name in ["", "run_", "../x", "run_20260101_000000_0000000g", "\u{1b}[2J"] {
        let missing = repo.windlass(&["status", name]).fails_with(2, "RUN_NOT_FOUND");
        assert!(!missing.stderr.contains('\u{1b}'), "{missing}");
    }
}

#[test]
fn an_empty_queue_and_no_runs_are_empty_lists() {
    let repo = Repo::new();
    for line in [&["status", "--json"][..], &["queue", "list", "--json"]] {
        assert_eq!(repo.windlass(line).exit(0).quiet().json(), json!([]));
    }
}

#[test]
fn loops_are_listed_drawn_and_checked() {
    let repo = Repo::new();
    repo.windlass(&["loop", "list"]).exit(0).quiet().says("spine").says("Build one change");
    let list = repo.windlass(&["loop", "list", "--json"]).exit(0).json();
    let loops: Vec<_> =
        list.as_array().unwrap().iter().map(|one| (&one["id"], &one["phases"])).collect();
    let expected = [("core", 8), ("driver", 14), ("insights", 3), ("phases", 12), ("spine", 6)];
    let expected = expected.map(|(id, n)| (json!(id), json!(n)));
    assert!(loops.into_iter().eq(expected.iter().map(|(id, count)| (id, count))), "{list}");
    let text = repo.windlass(&["loop", "show", "spine"]).exit(0).quiet();
    for phase in ["hydrate", "policy", "design", "build", "review", "steward"] {
        assert!(text.text().contains(phase), "{text}");
    }
    repo.windlass(&["loop", "show", "spine", "--as", "mermaid"]).exit(0).says("flowchart");
    let svg = repo.windlass(&["loop", "show", "spine", "--as", "svg"]).exit(0);
    assert!(svg.text().starts_with("<svg") && svg.text().trim_end().ends_with("</svg>"), "{svg}");
    assert_eq!(
        repo.windlass(&["loop", "show", "spine", "--json"]).exit(0).json()["plan"]["id"],
        "spine"
    );
    repo.windlass(&["loop", "show", "none"]).fails_with(2, "LOOP_NOT_FOUND");
    repo.windlass(&["loop", "check"]).exit(0).says("5 loops");
    repo.windlass(&["loop", "check", ".windlass/loops/spine.md"]).exit(0).says("6 phases");
    repo.windlass(&["loop", "check", "none.md"]).fails_with(1, "FILE_UNREADABLE");
    repo.windlass(&["run", "one", "--loop", "none"]).fails_with(2, "LOOP_NOT_FOUND");
}

#[test]
fn a_run_on_hold_is_none_of_the_calls_that_wait() {
    let repo = Repo::new();
    repo.run(&escalating()).exit(4);
    assert_eq!(repo.windlass(&["call", "list", "--held", "--ids"]).exit(0).text(), "");
    assert!(!repo.windlass(&["trace", "list", "--held", "--ids"]).exit(0).text().is_empty());
}
