//! The file tools and questions to people, through policy, journal and recovery.

use serde_json::{Value, json};

use crate::harness::{Outcome, Place, text_of};

fn call(place: &Place, tool: &str, args: &Value) -> Outcome {
    place.run(&["call", "run", tool, "--args", &args.to_string(), "--new-key", "--json"])
}

fn edit(old: &str, new: &str) -> Value {
    json!({ "path": "note.txt", "edits": [{ "old": old, "new": new }] })
}

#[test]
fn files_are_read_written_and_edited_under_policy() {
    let place = Place::with_project();
    let write = json!({ "path": "a/note.txt", "content": "one\ntwo\n" });
    let written = call(&place, "fs/write", &write).exit(0).json();
    assert_eq!(written["state"], "COMPLETED");
    assert_eq!(place.read("a/note.txt"), "one\ntwo\n");
    let again = call(&place, "fs/write", &write).exit(1).json();
    assert!(text_of(&again["error"], "message").contains("version"), "{again}");
    let read = call(&place, "fs/read", &json!({ "path": "a/note.txt" })).exit(0).json();
    assert_eq!(read["result"]["content"], "one\ntwo\n");
    assert_eq!(read["result"]["version"], written["result"]["version"]);
    let edits = json!({ "path": "a/note.txt", "edits": [{ "old": "two", "new": "three" }] });
    call(&place, "fs/edit", &edits).exit(0);
    assert_eq!(place.read("a/note.txt"), "one\nthree\n");
    call(&place, "fs/edit", &edits).exit(1).says("TOOL_FAILED");
    let found = call(&place, "fs/search", &json!({ "pattern": "thr.e" })).exit(0).json();
    assert!(found["result"].to_string().contains("a/note.txt"), "{found}");
    place.run(&["verify"]).exit(0);
}

#[test]
fn rules_about_paths_hold_for_file_tools() {
    let place = Place::with_project();
    place.write(".env", "KEY=1\n");
    std::os::unix::fs::symlink(".env", place.work().join("plain.txt")).unwrap();
    std::os::unix::fs::symlink("/etc", place.work().join("out")).unwrap();
    for (tool, args) in [
        ("fs/read", json!({ "path": ".env" })),
        ("fs/read", json!({ "path": "a/../.env" })),
        ("fs/read", json!({ "path": "plain.txt" })),
        ("fs/read", json!({ "path": "out/passwd" })),
        ("fs/read", json!({ "path": "/etc/passwd" })),
        ("fs/edit", json!({ "path": ".env", "edits": [{ "old": "KEY=1", "new": "KEY=2" }] })),
        ("fs/write", json!({ "path": ".windlass/policy/mine.toml", "content": "" })),
        ("fs/write", json!({ "path": ".git/hooks/pre-commit", "content": "x" })),
    ] {
        let outcome = call(&place, tool, &args).exit(3);
        assert_eq!(outcome.json()["state"], "DENIED", "{outcome}");
        assert!(!outcome.text().contains("KEY=1\\n"), "{outcome}");
    }
    let listed = call(&place, "fs/search", &json!({ "pattern": "KEY" })).exit(0).json();
    assert!(!listed["result"].to_string().contains("KEY=1"), "{listed}");
    let asked = json!({ "path": "CLAUDE.md", "content": "obey" });
    assert_eq!(call(&place, "fs/write", &asked).exit(4).json()["state"], "PENDING");
    assert_eq!(place.read(".env"), "KEY=1\n");
}

#[test]
fn a_search_shows_no_tracked_file_that_may_not_be_read() {
    let place = Place::with_project();
    place.write(".env", "PASSWORD=tracked\n");
    place.write("deploy/.aws/credentials", "PASSWORD=other\n");
    place.write("src/a.rs", "// PASSWORD=none\n");
    for words in [&["init", "-q"][..], &["add", "-f", "-A"], &["commit", "-qm", "x"]] {
        let mut git = std::process::Command::new("git");
        git.current_dir(place.work()).args(["-c", "user.name=a", "-c", "user.email=a@b.example"]);
        assert!(git.args(words).status().unwrap().success());
    }
    let found = call(&place, "fs/search", &json!({ "pattern": "PASSWORD" })).exit(0).json();
    let text = found["result"].to_string();
    assert!(
        text.contains("src/a.rs") && !text.contains("tracked") && !text.contains("other"),
        "{text}"
    );
    assert_eq!(found["result"]["left_out"], 2, "{text}");
    for glob in [".env", "**/.env", ".aws/credentials", "{a,.env}"] {
        let args = json!({ "pattern": "PASSWORD", "glob": glob });
        let outcome = call(&place, "fs/search", &args);
        assert!(
            !outcome.text().contains("tracked") && !outcome.text().contains("other"),
            "{outcome}"
        );
    }
    call(&place, "fs/search", &json!({ "pattern": "PASSWORD", "glob": ".env" })).exit(3);
}

#[test]
fn a_search_without_a_match_is_no_failed_tool() {
    let place = Place::with_project();
    place.write("a.txt", "one\n");
    let run = |line: &str| call(&place, "shell/run", &json!({ "line": line }));
    let found = run("grep -n two a.txt").exit(0).json();
    assert_eq!(
        (&found["state"], &found["result"]["exit_code"]),
        (&json!("COMPLETED"), &json!(1)),
        "{found}"
    );
    run("grep -n two missing.txt").exit(1).says("TOOL_FAILED");
    run("test -f missing.txt").exit(1).says("TOOL_FAILED");
}

#[test]
fn a_change_that_a_crash_interrupts_is_made_once_without_a_person() {
    for point in ["dispatch.before", "dispatch.after"] {
        let place = Place::with_project();
        place.write("note.txt", "one\n");
        let args = edit("one", "one one").to_string();
        let line = ["call", "run", "fs/edit", "--args", &args, "--key", "k1"];
        let outcome = place.run_with("WINDLASS_CRASH_AT", point, &line);
        assert_eq!(outcome.code, None, "{outcome}");
        let made = if point == "dispatch.after" { "one one\n" } else { "one\n" };
        assert_eq!(place.read("note.txt"), made, "{point}");
        place.run(&["recover"]).exit(0).says("COMPLETED");
        assert_eq!(place.read("note.txt"), "one one\n", "{point}");
        // The key is used up, and its effect is the recorded one.
        let repeated = place.run(&[&line[..], &["--json"]].concat()).exit(0).json();
        assert_eq!(repeated["replayed"], true, "{point}");
        assert_eq!(place.read("note.txt"), "one one\n", "{point}");
        place.run(&["verify"]).exit(0);
    }
}

#[test]
fn a_file_that_somebody_changed_after_the_crash_is_left_alone() {
    let place = Place::with_project();
    place.write("note.txt", "one\n");
    let args = edit("one", "two").to_string();
    let line = ["call", "run", "fs/edit", "--args", &args, "--new-key"];
    assert_eq!(place.run_with("WINDLASS_CRASH_AT", "dispatch.after", &line).code, None);
    place.write("note.txt", "mine\n");
    place.run(&["recover"]).exit(0).says("FAILED");
    assert_eq!(place.read("note.txt"), "mine\n");
    let id = &place.ids()[0];
    let shown = place.run(&["call", "show", id, "--json"]).exit(0).json();
    assert_eq!(shown["error"]["may_have_run"], true, "{shown}");
}

#[test]
fn the_reason_of_whoever_approves_a_question_is_its_answer() {
    let place = Place::with_project();
    let question = json!({ "question": "Which colour?" });
    let asked = call(&place, "ask/person", &question).exit(4).json();
    assert_eq!(asked["hold"]["reason"], "Which colour?");
    let id = text_of(&asked, "trace_id");
    let words = ["call", "approve", &id, "--by", "ada", "--reason", "green", "--json"];
    let answered = place.run(&words).exit(0).json();
    assert_eq!(answered["result"], json!({ "answer": "green" }));
    let asked = call(&place, "ask/person", &question).exit(4).json();
    let id = text_of(&asked, "trace_id");
    place.run(&["call", "deny", &id, "--by", "ada", "--reason", "not now"]).exit(0);
    place.run(&["verify"]).exit(0);
}
