//! `windlass work` and `windlass memory`.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::e2e::snapshot::check;
use crate::harness::{Outcome, Place, finish, text_of};

fn json(place: &Place, words: &[&str]) -> Value {
    place.run(&[words, &["--json"]].concat()).exit(0).json()
}

fn create(place: &Place, words: &[&str]) -> String {
    text_of(&json(place, &[&["work", "create"], words].concat()), "id")
}

fn ids(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

#[test]
fn items_are_created_listed_changed_linked_and_closed() {
    let place = Place::with_project();
    place.run(&["work", "list"]).exit(0).says("no items");
    let bug = create(
        &place,
        &["Fix it", "--type", "bug", "--priority", "1", "--assignee", "ann", "--label", "cli"],
    );
    assert!(bug.starts_with("ws-"), "{bug}");
    let task = create(&place, &["Write the page", "--description", "two\nlines"]);
    place.run(&["work", "list"]).exit(0).says(&bug).says("Fix it").says("Write the page");
    assert_eq!(ids(&json(&place, &["work", "list", "--open"])), [&bug, &task]);
    assert_eq!(ids(&json(&place, &["work", "list", "--limit", "1"])), [&bug]);
    assert_eq!(ids(&json(&place, &["work", "list", "--assignee", "ann"])), [&bug]);
    let mine = place.run_with("BD_ACTOR", "ann", &["work", "list", "--mine"]);
    mine.exit(0).says(&bug);
    place.run(&["work", "list", "--mine"]).fails_with(2, "REQUEST_INVALID").warns("--assignee");
    place.run(&["work", "link", &bug, &task, "--as", "blocks"]).exit(0).says("as blocks");
    place.run(&["work", "list", "--blocked"]).exit(0).says("BLOCKED BY").says(&task).says(&bug);
    let cycle = place.run(&["work", "link", &task, &bug, "--as", "blocks"]);
    cycle.fails_with(2, "REQUEST_INVALID").warns("each other");
    place.run(&["work", "show", &task]).exit(0).says("blocked by").says("two\nlines");
    let words = ["work", "update", &task, "--status", "in_progress", "--title", "New"];
    let changed = json(&place, &words);
    assert_eq!((&changed["status"], &changed["title"]), (&"in_progress".into(), &"New".into()));
    place.run(&["work", "close", &bug, "--reason", "done"]).exit(0).says("closed");
    let shown = json(&place, &["work", "show", &bug]);
    assert_eq!((&shown["status"], &shown["close_reason"]), (&"closed".into(), &"done".into()));
    assert_eq!(json(&place, &["work", "show", &task])["blockers"], Value::Array(Vec::new()));
    assert_eq!(json(&place, &["work", "list", "--recent"]).as_array().unwrap().len(), 2);
    place.run(&["work", "sync"]).exit(0).says("local file");
    assert!(place.state().join("work.db").is_file());
}

#[test]
fn what_is_wrong_is_named() {
    let place = Place::with_project();
    let outcomes = [
        place.run(&["work", "show", "ws-none"]).fails_with(2, "REQUEST_INVALID"),
        place.run(&["work", "show", "../x"]).fails_with(2, "REQUEST_INVALID"),
        place.run(&["work", "create", ""]).fails_with(2, "REQUEST_INVALID"),
        place.run(&["work", "create", "x", "--priority", "7"]).fails_with(2, "REQUEST_INVALID"),
        place.run(&["work", "create", "x", "--type", "wish"]).exit(2),
        place.run(&["work", "update", "ws-none"]).fails_with(2, "REQUEST_INVALID"),
        place.run(&["work", "list", "--open", "--recent"]).exit(2),
        place.run(&["memory", "add", " "]).fails_with(2, "REQUEST_INVALID"),
        place.run(&["memory", "add", "x", "--tag", "a b"]).fails_with(2, "REQUEST_INVALID"),
    ];
    check("work_mistakes", &place, &outcomes);
    place.write(".windlass/config.toml", "[work]\nprefix = \"No\"\n");
    place.run(&["work", "list"]).fails_with(2, "CONFIG_INVALID").warns("work.prefix");
    place.write(".windlass/config.toml", "[memory]\ntimeout_ms = 0\n");
    place.run(&["work", "list"]).fails_with(2, "CONFIG_INVALID").warns("memory.timeout_ms");
    place.write(".windlass/config.toml", "[work]\nprefix = \"app\"\n");
    assert!(create(&place, &["x"]).starts_with("app-"));
    std::fs::write(place.state().join("work.db"), b"x".repeat(5000)).unwrap();
    place.run(&["work", "list"]).fails_with(1, "TOOL_SERVER_UNAVAILABLE").warns("not a database");
}

/// Runs with a `bd` that answers every command with one item, in a folder of its own on the `PATH`.
fn with_bd(place: &Place, body: &str, words: &[&str]) -> Outcome {
    let folder = place.base().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("bd");
    let log = "printf '<%s>' \"$@\" >> \"$0.log\"; echo >> \"$0.log\"";
    std::fs::write(&path, format!("#!/bin/sh\n{log}\n{body}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = place.command(words);
    command.env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
    finish(command, &[])
}

#[test]
fn bd_is_used_where_the_project_uses_it() {
    let place = Place::with_project();
    let item = r#"echo '[{"id":"bd-1","title":"from bd","status":"open","priority":2}]'"#;
    with_bd(&place, item, &["work", "list"]).exit(0).says("no items");
    std::fs::create_dir(place.work().join(".beads")).unwrap();
    with_bd(&place, item, &["work", "list"]).exit(0).says("bd-1").says("from bd");
    let log = std::fs::read_to_string(place.base().join("bin/bd.log")).unwrap();
    assert_eq!(log, "<list><--limit=0><--json>\n");
    place.write(".windlass/config.toml", "[work]\ntimeout_ms = 300\n");
    with_bd(&place, "sleep 60", &["work", "list"]).fails_with(1, "TOOL_TIMEOUT");
    // Nothing of a project that is not trusted is started.
    place.write_untrusted(".windlass/config.toml", "[work]\ntracker = \"bd\"\n");
    with_bd(&place, "touch started", &["work", "list"]).exit(3);
    assert!(!place.work().join("started").exists());
    place.write(".windlass/config.toml", "[work]\ntracker = \"bd\"\n");
    let mut without = place.command(&["work", "list"]);
    without.env("PATH", place.base());
    finish(without, &[]).fails_with(1, "HELPER_MISSING").warns("bd");
    place.write(".windlass/config.toml", "[work]\ntracker = \"built-in\"\n");
    with_bd(&place, "touch started", &["work", "list"]).exit(0).says("no items");
}

#[test]
fn memories_have_no_secrets() {
    let place = Place::with_project();
    let key = format!("ghp_{}", "a".repeat(36));
    let stored = place.run(&["memory", "add", &format!("the deploy key is {key}")]).exit(0);
    assert!(stored.stderr.contains("left out"), "{stored}");
    let found = place.run(&["memory", "search", "deploy key"]).exit(0);
    found.says("the deploy key is [redacted:github-token]");
    assert!(!place.stores("ghp_aaaa"));
    let plain = place.run(&["memory", "add", "releases are made on Mondays"]).exit(0);
    assert!(!plain.stderr.contains("left out"), "{plain}");
}

#[test]
fn memories_and_files_are_found() {
    let place = Place::with_project();
    place.run(&["memory", "search", "release"]).exit(0).says("nothing was found");
    let words = ["memory", "add", "releases are made on Mondays", "--tag", "release", "--json"];
    let id = text_of(&place.run(&words).exit(0).json(), "id");
    place.feed(&["memory", "add", "-"], b"from \x1b[31mstandard input\n").exit(0).says("stored m-");
    let found = place.run(&["memory", "search", "when is the release"]).exit(0);
    found.says(&id).says("    releases are made on Mondays").says("#release");
    let shown = place.run(&["memory", "search", "standard"]).exit(0);
    assert!(!shown.text().contains('\u{1b}'), "{shown}");
    let knowledge = place.state().join("knowledge");
    std::fs::create_dir(&knowledge).unwrap();
    std::fs::write(knowledge.join("ops.md"), "# Deploy\n\nuse make\n").unwrap();
    place.run(&["memory", "search", "make"]).exit(0).says("ops.md#Deploy");
    let data = place.base().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("a.md"), "from the variable").unwrap();
    let words = ["memory", "search", "variable"];
    place.run_with("ACA_DATA", &data.display().to_string(), &words).exit(0).says("a.md");
    place.write("docs/b.md", "from the project");
    place.write(".windlass/config.toml", "[memory]\nknowledge = \"docs\"\n");
    let hits = json(&place, &["memory", "search", "project", "--limit", "1"]);
    assert_eq!(hits[0]["source"], "b.md");
    place.write_untrusted(".windlass/config.toml", "[memory]\nknowledge = \"/\"\n");
    place.run(&["memory", "search", "project"]).exit(3);
}

#[test]
fn a_server_of_the_registry_is_the_memory() {
    let place = Place::with_server();
    let settings = "[memory]\nserver = \"count\"\nretrieve_tool = \"get\"\nstore_tool = \"add\"\n";
    place.write(".windlass/config.toml", settings);
    place.run(&["memory", "add", "a text"]).exit(0).says("stored");
    assert_eq!(place.executed(), 1);
    assert!(!json(&place, &["memory", "search", "x"]).as_array().unwrap().is_empty());
    place.write(".windlass/config.toml", "[memory]\nserver = \"none\"\n");
    place.run(&["memory", "search", "x"]).fails_with(2, "CONFIG_INVALID").warns("`none`");
    place.write(".windlass/config.toml", "[memory]\nserver = \"count\"\n");
    let missing = place.run(&["memory", "search", "x"]);
    missing.fails_with(1, "TOOL_SERVER_UNAVAILABLE").warns("retrieve_memory");
}
