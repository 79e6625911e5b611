//! `windlass demo`: the whole story, told to its end.

use crate::harness::Place;

#[test]
fn the_demonstration_passes_and_leaves_what_it_names() {
    let place = Place::new();
    let mut command = place.command(&["demo", "show", "--json"]);
    // Its tools may need more of the environment than ours do.
    for name in ["HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.env("WINDLASS_STATE", place.state_root());
    let told = crate::harness::finish(command, &[]).exit(0);
    let end = told.json();
    // Nothing of it stays in the account, so that it can be seen again.
    let left = place.run(&["people", "list", "--json"]).exit(0).json();
    assert_eq!(left.as_array().map(Vec::len), Some(0), "{left}");
    assert!(!place.state_root().join("sums").exists());
    let state = end["state"].as_str().unwrap();
    for packet in end["packets"].as_array().unwrap() {
        assert!(std::path::Path::new(packet.as_str().unwrap()).exists(), "{packet}");
    }
    let id = end["run_id"].as_str().unwrap();
    let repository = place.work().join("show/sums");
    let folder = repository.display().to_string();
    let inside = |arguments: &[&str]| {
        let mut command = place.command(&[&["-C", &folder], arguments].concat());
        command.env("WINDLASS_STATE", state);
        crate::harness::finish(command, &[])
    };
    let run = inside(&["status", id, "--json"]).exit(0).json();
    assert_eq!(run["outcome"], "PASS");
    inside(&["verify"]).exit(0);
    // The edit was made once, and by one call.
    let mut log = std::process::Command::new("git");
    log.args(["-C", &folder, "log", "--format=%s", "--numstat", "-1"]);
    let log = String::from_utf8(log.output().unwrap().stdout).unwrap();
    assert!(log.contains("1\t1\t"), "{log}");
    let calls = inside(&["call", "list", "--json"]).exit(0).json();
    let edits = calls.as_array().unwrap().iter();
    let edits = edits.filter(|call| {
        let id = call["trace_id"].as_str().unwrap();
        inside(&["call", "show", id]).text().contains("sed -i")
    });
    assert_eq!(edits.count(), 1, "{calls}");
    for word in ["killed", "interrupted", "waits for a person", "PASS"] {
        assert!(told.stderr.contains(word), "no `{word}`\n{told}");
    }
    place.run(&["demo", "show"]).fails_with(2, "PROJECT_EXISTS");
}
