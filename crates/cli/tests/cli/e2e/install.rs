//! `windlass install` and `windlass uninstall`: hooks in the settings of coding agents.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::harness::{Outcome, Place};

/// Codex is tried apart, because it must be told to trust the hooks.
const CLIENTS: [&str; 3] = ["claude", "gemini", "opencode"];
pub const SCOPES: [&str; 2] = ["--project", "--user"];

/// A place with a project, and the user's own project.
pub fn place() -> Place {
    let place = Place::with_project();
    place.run(&["init", "--user"]).exit(0);
    place
}

/// The file of a client that has the hooks.
pub fn file(place: &Place, client: &str, scope: &str) -> PathBuf {
    let (work, home) = (place.work(), place.home());
    match (client, scope) {
        ("claude", "--project") => work.join(".claude/settings.json"),
        ("claude", _) => home.join(".claude/settings.json"),
        ("codex", "--project") => work.join(".codex/hooks.json"),
        ("codex", _) => home.join(".codex/hooks.json"),
        ("gemini", "--project") => work.join(".gemini/settings.json"),
        ("gemini", _) => home.join(".gemini/settings.json"),
        ("opencode", "--project") => work.join(".opencode/plugin/windlass.js"),
        ("opencode", _) => home.join(".config/opencode/plugin/windlass.js"),
        _ => panic!("{client}"),
    }
}

/// The records of installations in a state folder.
pub fn records(state: &std::path::Path) -> Vec<String> {
    let files = std::fs::read_dir(state.join("installed")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.starts_with('.')).collect()
}

pub fn write(path: &std::path::Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

pub fn read(path: &std::path::Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

pub fn install(place: &Place, client: &str, more: &[&str]) -> Outcome {
    place.run(&[&["install", client, "--yes"], more].concat())
}

pub fn uninstall(place: &Place, client: &str, more: &[&str]) -> Outcome {
    place.run(&[&["uninstall", client, "--yes"], more].concat())
}

#[test]
fn hooks_come_and_go_without_a_trace() {
    let place = place();
    for client in CLIENTS {
        for scope in SCOPES {
            let path = file(&place, client, scope);
            let folder = path.parent().unwrap();
            let outcome = install(&place, client, &[scope]).exit(0).says("installed").says("+");
            match (client, scope) {
                ("gemini", "--user") => outcome.warns("told not to trust"),
                ("gemini" | "claude", "--project") => outcome.warns("in a folder below"),
                _ => outcome.quiet(),
            };
            let written = read(&path);
            assert!(written.contains(env!("CARGO_BIN_EXE_windlass")), "{written}");
            let trust = place.home().join(".gemini/trustedFolders.json");
            assert_eq!(trust.exists(), (client, scope) == ("gemini", "--project"));
            install(&place, client, &[scope]).exit(0).says("nothing to change");
            assert_eq!(read(&path), written);
            uninstall(&place, client, &[scope]).exit(0).quiet().says("taken out");
            assert!(!path.exists() && !folder.exists(), "{client} {scope}");
            uninstall(&place, client, &[scope]).exit(0).quiet().says("no hooks of ours");
        }
    }
    assert_eq!(records(&place.state()), Vec::<String>::new());
}

#[test]
fn what_others_wrote_comes_back_byte_for_byte() {
    let place = place();
    let before = "{ \"hooks\" : {\n\t\"PreToolUse\":[{\"hooks\":[{\"type\":\"command\",\"command\":\"mine\"}]}]\n\t},\n\n \
        \"model\":\"x\"}";
    for client in ["claude", "gemini"] {
        for scope in SCOPES {
            let path = file(&place, client, scope);
            write(&path, before);
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
            install(&place, client, &[scope]).exit(0);
            let written = read(&path);
            let value: Value = serde_json::from_str(&written).unwrap();
            assert_eq!(value["hooks"]["PreToolUse"][0]["hooks"][0]["command"], "mine");
            assert_eq!(value["model"], "x");
            let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(), 0o640);
            uninstall(&place, client, &[scope]).exit(0);
            assert_eq!((read(&path).as_str(), mode()), (before, 0o640));
        }
    }
}

#[test]
fn what_was_changed_since_is_kept_and_only_our_hooks_go() {
    let place = place();
    let path = file(&place, "claude", "--project");
    install(&place, "claude", &[]).exit(0);
    write(&path, &read(&path).replacen('{', "{\n  \"model\": \"x\",", 1));
    // What is installed again has the changes of the user before it.
    install(&place, "claude", &[]).exit(0).says("nothing to change");
    uninstall(&place, "claude", &[]).exit(0);
    let left: Value = serde_json::from_str(&read(&path)).unwrap();
    assert_eq!(left, json!({ "model": "x" }));

    write(&path, "{}\n");
    install(&place, "claude", &[]).exit(0);
    let value = read(&path).replacen("\"hooks\"", "\"theme\": \"dark\",\n  \"hooks\"", 1);
    write(&path, &value);
    uninstall(&place, "claude", &[]).exit(0);
    let left: Value = serde_json::from_str(&read(&path)).unwrap();
    assert_eq!(left, json!({ "theme": "dark" }));
}

#[test]
fn without_an_answer_nothing_changes() {
    let place = place();
    let path = file(&place, "claude", "--project");
    for line in [&["install", "claude"][..], &["install", "claude", "--json"]] {
        let outcome = place.run(line).exit(2);
        assert!(outcome.stderr.contains("--yes"), "{outcome}");
        assert!(!path.exists());
    }
    place.run(&["install", "claude", "--dry-run"]).exit(0).says("\"PreToolUse\"");
    let shown = place.run(&["install", "claude", "--dry-run", "--json"]).exit(0).json();
    assert_eq!((&shown["done"], &shown["files"][0]["change"]), (&json!(false), &json!("create")));
    assert!(!path.exists() && records(&place.state()).is_empty());
    let done = place.run(&["install", "claude", "--yes", "--json"]).exit(0).quiet().json();
    let parts = [&done["client"], &done["scope"], &done["done"]];
    assert_eq!(parts, [&json!("claude"), &json!("project"), &json!(true)]);
    assert_eq!(done["warnings"].as_array().map(Vec::len), Some(1), "{done}");
    assert_eq!(done["files"][0]["path"], json!(path.canonicalize().unwrap()));
    let line = ["uninstall", "claude", "--dry-run"];
    place.run(&line).exit(0).says("delete").says("-  \"hooks\"");
    assert!(path.exists());
}

#[test]
fn settings_that_are_damaged_or_switch_hooks_off_are_left_alone() {
    let place = place();
    for (client, text, part) in [
        ("claude", "{ \"hooks\": ", "line 1"),
        ("claude", "{ // mine\n}", "a comment"),
        ("claude", "{\"disableAllHooks\": true}", "`disableAllHooks` is set"),
        ("gemini", "{\"hooksConfig\": {\"enabled\": false}}", "`hooksConfig.enabled` is not true"),
        ("gemini", "[]", "an object"),
        ("opencode", "export const mine = 1\n", "not one of ours"),
    ] {
        for scope in SCOPES {
            let path = file(&place, client, scope);
            write(&path, text);
            install(&place, client, &[scope]).fails_with(2, "CONFIG_INVALID").warns(part);
            assert_eq!(read(&path), text);
            std::fs::remove_file(&path).unwrap();
        }
    }
    // A setting elsewhere can switch them off, too.
    for (client, other, text) in [
        ("claude", place.home().join(".claude/settings.json"), "{\"disableAllHooks\": true}"),
        ("claude", place.work().join(".claude/settings.local.json"), "{\"disableAllHooks\": true}"),
        (
            "gemini",
            place.home().join(".gemini/settings.json"),
            "{\"hooksConfig\":{\"enabled\":false}}",
        ),
    ] {
        write(&other, text);
        let outcome = install(&place, client, &["--project"]);
        outcome.fails_with(2, "CONFIG_INVALID").warns(&other.display().to_string());
        assert!(!file(&place, client, "--project").exists());
        std::fs::remove_file(&other).unwrap();
    }
    assert_eq!(records(&place.state()), Vec::<String>::new());
}

#[test]
fn links_of_the_user_are_kept_and_links_out_of_a_project_refused() {
    let place = place();
    let path = file(&place, "claude", "--user");
    let real = place.home().join("dotfiles/claude.json");
    write(&real, "{\"model\": \"x\"}\n");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink("../dotfiles/claude.json", &path).unwrap();
    install(&place, "claude", &["--user"]).exit(0);
    assert!(path.is_symlink());
    assert!(read(&real).contains("PreToolUse"));
    uninstall(&place, "claude", &["--user"]).exit(0);
    assert!(path.is_symlink());
    assert_eq!(read(&real), "{\"model\": \"x\"}\n");
    // A link that leads nowhere is not followed.
    std::fs::remove_file(&real).unwrap();
    install(&place, "claude", &["--user"]).fails_with(1, "FILE_UNREADABLE").warns("leads nowhere");

    let outside = place.base().join("outside");
    std::fs::create_dir(&outside).unwrap();
    symlink(&outside, place.work().join(".claude")).unwrap();
    install(&place, "claude", &["--project"]).fails_with(3, "PATH_OUTSIDE_WORKSPACE");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    std::fs::remove_file(place.work().join(".claude")).unwrap();
    write(&outside.join("it.json"), "{}");
    std::fs::create_dir(place.work().join(".claude")).unwrap();
    symlink(outside.join("it.json"), file(&place, "claude", "--project")).unwrap();
    install(&place, "claude", &["--project"]).fails_with(3, "PATH_OUTSIDE_WORKSPACE");
    assert_eq!(read(&outside.join("it.json")), "{}");
}

#[test]
fn a_file_that_cannot_be_written_leaves_nothing_half_done() {
    let place = place();
    let path = file(&place, "claude", "--project");
    // A folder in the place of a file is an obstacle for every user.
    std::fs::create_dir_all(&path).unwrap();
    install(&place, "claude", &[]).fails_with(1, "FILE_UNREADABLE");
    std::fs::remove_dir(&path).unwrap();
    std::fs::remove_dir(path.parent().unwrap()).unwrap();
    write(path.parent().unwrap(), "a file");
    let outcome = install(&place, "claude", &[]);
    assert_eq!(outcome.code, Some(1), "{outcome}");
    std::fs::remove_file(path.parent().unwrap()).unwrap();
    assert_eq!(records(&place.state()), Vec::<String>::new());
    if rustix::process::geteuid().is_root() {
        return;
    }
    let folder = path.parent().unwrap();
    write(&path, "{}");
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o500)).unwrap();
    let outcome = install(&place, "claude", &[]);
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o700)).unwrap();
    outcome.fails_with(1, "FILE_UNWRITABLE");
    assert_eq!(read(&path), "{}");
    assert_eq!(records(&place.state()), Vec::<String>::new());
}

#[test]
fn a_record_without_hooks_is_what_a_crash_leaves() {
    let place = place();
    let path = file(&place, "claude", "--project");
    write(&path, "{\"model\": \"x\"}\n");
    install(&place, "claude", &[]).exit(0);
    let (record, written) = (place.state().join("installed/claude-project.json"), read(&path));
    assert_eq!(std::fs::metadata(&record).unwrap().permissions().mode() & 0o777, 0o600);
    // Killed before the file was written: it is as it was, or the user has changed it since.
    for before in ["{\"model\": \"x\"}\n", "{\"model\": \"y\"}\n"] {
        let kept = read(&record);
        write(&path, before);
        uninstall(&place, "claude", &[]).exit(0).says("no hooks of ours");
        assert_eq!(read(&path), before);
        assert!(!record.exists());
        write(&record, &kept);
        install(&place, "claude", &[]).exit(0).says("installed");
        assert_eq!(read(&path).replace("\"y\"", "\"x\""), written);
        uninstall(&place, "claude", &[]).exit(0);
        assert_eq!(read(&path), before);
        write(&record, &kept);
    }
    // Killed after the file was given back, before the record was removed.
    uninstall(&place, "claude", &[]).exit(0).says("no hooks of ours");
    assert!(!record.exists());
    // Hooks without a record: those of a clone, or of a state that was lost.
    write(&path, &written);
    uninstall(&place, "claude", &[]).exit(0).says("taken out");
    let left: Value = serde_json::from_str(&read(&path)).unwrap();
    assert_eq!(left, json!({ "model": "x" }));
    write(&record, "{");
    install(&place, "claude", &[]).fails_with(5, "STATE_DAMAGED");
}

#[test]
fn hooks_that_were_taken_out_or_changed_are_noticed() {
    let place = place();
    place.run(&["status"]).exit(0);
    for (client, scope) in
        [("claude", "--project"), ("gemini", "--user"), ("opencode", "--project")]
    {
        install(&place, client, &[scope]).exit(0);
        let (path, name) = (file(&place, client, scope), format!("hooks of {client}"));
        let written = read(&path);
        let healthy = place.run(&["doctor"]);
        let line = healthy.text().lines().find(|line| line.contains(&name)).unwrap().to_owned();
        assert!(line.contains(&path.canonicalize().unwrap().display().to_string()), "{line}");
        let status = place.run(&["status", "--json"]).exit(0).quiet();
        assert_eq!(status.json(), json!([]));
        let changed = written.replacen("30", "1", 1).replacen("10 * 60", "1", 1);
        for damage in [None, Some(""), Some("{}"), Some(&*changed)] {
            match damage {
                None => std::fs::remove_file(&path).unwrap(),
                Some(text) => write(&path, text),
            }
            let again = format!("`windlass install {client} {scope}`");
            place.run(&["status"]).exit(0).warns(&name).warns(&again);
            place.run(&["status", "--json"]).exit(0).warns(&name);
            place.run(&["doctor"]).exit(1).says(&again);
            write(&path, &written);
        }
        place.run(&["status", "--json"]).exit(0).quiet();
        // What others add beside ours is no harm.
        if client != "opencode" {
            write(&path, &written.replacen('{', "{ \"x\": 1,", 1));
            place.run(&["status", "--json"]).exit(0).quiet();
        }
        uninstall(&place, client, &[scope]).exit(0);
        place.run(&["status", "--json"]).exit(0).quiet();
    }
    install(&place, "claude", &[]).exit(0);
    place.write(".claude/settings.local.json", "{\"disableAllHooks\": true}");
    place.run(&["status"]).exit(0).warns("settings.local.json").warns("disableAllHooks");
}

#[test]
fn the_scope_is_the_project_if_there_is_one() {
    let place = Place::new();
    let missing = install(&place, "claude", &[]).fails_with(2, "PROJECT_MISSING");
    missing.warns("windlass init --user");
    install(&place, "claude", &["--user"])
        .fails_with(2, "PROJECT_MISSING")
        .warns("windlass init --user");
    place.run(&["init", "--user"]).exit(0);
    install(&place, "claude", &["--project"]).fails_with(2, "PROJECT_MISSING");
    install(&place, "claude", &[]).exit(0);
    assert!(file(&place, "claude", "--user").exists());
    place.run(&["init"]).exit(0);
    let deep = place.work().join("a/b");
    std::fs::create_dir_all(&deep).unwrap();
    for more in [&["--project"][..], &[]] {
        let mut command = place.command(&[&["install", "claude", "--yes"], more].concat());
        let outcome = crate::harness::finish(
            {
                command.current_dir(&deep);
                command
            },
            &[],
        );
        outcome.exit(0);
        assert!(file(&place, "claude", "--project").exists());
        uninstall(&place, "claude", &["--project", "."]).exit(0).says("taken out");
    }
    install(&place, "claude", &["--user", "--project"]).fails_with(2, "REQUEST_INVALID");
    place.run_with("WINDLASS_PROJECT", ".", &["install", "claude", "--user", "--yes"]).exit(0);
}

#[test]
fn the_variable_of_a_client_names_its_folder() {
    let place = place();
    let run = |name: &str, value: &str, line: &[&str]| place.run_with(name, value, line);
    let line = ["install", "claude", "--user", "--yes"];
    let elsewhere = place.base().join("elsewhere");
    let folder = elsewhere.display().to_string();
    run("CLAUDE_CONFIG_DIR", "relative", &line).fails_with(2, "CONFIG_INVALID");
    run("CLAUDE_CONFIG_DIR", &folder, &line).exit(0);
    assert!(elsewhere.join("settings.json").exists());
    // Where they are is on record.
    install(&place, "claude", &["--user"]).fails_with(2, "REQUEST_INVALID").warns("elsewhere");
    uninstall(&place, "claude", &["--user"]).exit(0);
    assert!(!elsewhere.exists());
}

#[test]
fn a_project_that_was_moved_keeps_its_hooks() {
    let place = place();
    let path = file(&place, "claude", "--project");
    write(&path, "{\"model\": \"x\"}\n");
    install(&place, "claude", &[]).exit(0);
    let moved = place.base().join("moved");
    std::fs::rename(place.work(), &moved).unwrap();
    let run = |line: &[&str]| {
        let mut command = place.command(line);
        command.current_dir(&moved);
        crate::harness::finish(command, &[])
    };
    std::fs::create_dir(place.work()).unwrap();
    run(&["state", "move"]).exit(0);
    run(&["status"]).exit(0).warns("is gone");
    run(&["install", "claude", "--yes"]).exit(0).says("nothing to change");
    run(&["status", "--json"]).exit(0).quiet();
    run(&["uninstall", "claude", "--yes"]).exit(0).says("taken out");
    assert_eq!(read(&moved.join(".claude/settings.json")), "{\"model\": \"x\"}\n");
}

#[test]
fn what_an_agent_could_replace_is_told() {
    let place = place();
    let copy = place.work().join("windlass");
    std::fs::copy(env!("CARGO_BIN_EXE_windlass"), &copy).unwrap();
    let run = |line: &[&str]| {
        let mut command = std::process::Command::new(&copy);
        place.settle(command.args(line));
        crate::harness::finish(command, &[])
    };
    let line = ["install", "claude", "--yes"];
    run(&line).exit(0).warns("lies in the project");
    run(&["install", "gemini", "--yes", "--user"]).exit(0).warns("temporary files");
    // Another program's path replaces it.
    install(&place, "claude", &[]).exit(0).says("installed");
    std::fs::remove_file(&copy).unwrap();
    place.run(&["status"]).exit(0).warns("hooks of gemini").warns("which is gone");
    place.write_untrusted(".windlass/policy/more.toml", "");
    install(&place, "claude", &[]).exit(0).warns("PROJECT_UNTRUSTED");
}

#[test]
fn a_client_that_would_ask_twice_has_hooks_once() {
    let place = place();
    for client in ["claude", "gemini"] {
        for scope in SCOPES {
            install(&place, client, &[scope]).exit(0);
        }
    }
    for scopes in [SCOPES, ["--user", "--project"]] {
        install(&place, "opencode", &[scopes[0]]).exit(0);
        let again = format!("windlass uninstall opencode {}", scopes[0]);
        let outcome = install(&place, "opencode", &[scopes[1]]);
        outcome.fails_with(2, "REQUEST_INVALID").warns(&again);
        install(&place, "opencode", &[scopes[0]]).exit(0).says("nothing to change");
        uninstall(&place, "opencode", &[scopes[0]]).exit(0);
    }
    // Installed from elsewhere, where nobody could know.
    install(&place, "opencode", &["--project"]).exit(0);
    let mut command = place.command(&["install", "opencode", "--user", "--yes"]);
    command.current_dir(place.home());
    crate::harness::finish(command, &[]).exit(0);
    place.run(&["status"]).exit(0).warns("asks twice");
}
