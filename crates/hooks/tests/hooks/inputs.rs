//! Inputs that do not fit are invalid, never guessed.

use serde_json::{Value, json};
use windlass_hooks::{Client, Mapping};

use crate::mapping::map;

fn reason(client: Client, name: &str, input: Value) -> String {
    match map(client, name, input) {
        Mapping::Invalid { reason } => reason,
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn missing_and_wrong_fields_are_named() {
    for (name, input, expected) in [
        ("Bash", json!({}), "`Bash`: it has no `command`"),
        ("Bash", json!({ "command": 1 }), "`Bash`: `command` is not text"),
        ("Bash", json!({ "command": null }), "`Bash`: it has no `command`"),
        ("Bash", json!({ "command": [1] }), "`Bash`: `command` is not a list of words"),
        (
            "Bash",
            json!({ "command": " \n" }),
            "`Bash`: its command is empty or has a null character",
        ),
        (
            "Bash",
            json!({ "command": "a\0b" }),
            "`Bash`: its command is empty or has a null character",
        ),
        ("Read", json!({ "file_path": ["a"] }), "`Read`: `file_path` is not text"),
        ("Write", json!({ "file_path": "a" }), "`Write`: it has no `content`"),
        ("Edit", json!({ "file_path": "a", "old_string": "x" }), "`Edit`: it has no `new_string`"),
        (
            "Edit",
            json!({ "file_path": "a", "old_string": "x", "new_string": "y", "replace_all": "no" }),
            "`Edit`: `replace_all` is not true or false",
        ),
        ("MultiEdit", json!({ "file_path": "a" }), "`MultiEdit`: it has no `edits`"),
        (
            "MultiEdit",
            json!({ "file_path": "a", "edits": [] }),
            "`MultiEdit`: `edits` is not a list of edits",
        ),
        (
            "MultiEdit",
            json!({ "file_path": "a", "edits": [1] }),
            "`MultiEdit`: it has no `new_string`",
        ),
        ("Grep", json!({ "path": "a" }), "`Grep`: it has no `pattern`"),
    ] {
        assert_eq!(reason(Client::Claude, name, input), expected);
    }
}

#[test]
fn a_field_under_two_names_is_refused() {
    let input = json!({ "file_path": "a", "absolute_path": "/etc/passwd" });
    let expected = "`read_file`: it has both `file_path` and `absolute_path`";
    assert_eq!(reason(Client::Gemini, "read_file", input), expected);
    let input = json!({ "cmd": "ls", "command": "rm x" });
    let expected = "`exec_command`: it has both `cmd` and `command`";
    assert_eq!(reason(Client::Codex, "exec_command", input), expected);
}

#[test]
fn paths_that_clients_understand_in_several_ways_are_refused() {
    for path in [
        "",
        "~/x",
        "~root/x",
        " /etc/passwd",
        "a ",
        "a\nb",
        "a\0",
        "file:///etc/passwd",
        "\u{feff}/x",
    ] {
        reason(Client::Claude, "Read", json!({ "file_path": path }));
    }
    reason(Client::Claude, "Read", json!({ "file_path": "x".repeat(4097) }));
    let input = json!({ "command": "ls", "dir_path": "~" });
    reason(Client::Gemini, "run_shell_command", input);
}

#[test]
fn lines_of_other_shells_are_refused() {
    for shell in ["python3", "/usr/bin/fish", "", "bash/"] {
        reason(Client::Codex, "exec_command", json!({ "cmd": "ls", "shell": shell }));
    }
}

#[test]
fn a_shell_that_is_not_the_systems_is_refused() {
    for shell in [
        "/w/x/bash",
        "./bash",
        "x/sh",
        "/home/me/bin/zsh",
        "/tmp/bash",
        "//bin/bash",
        "/bin/../w/bash",
    ] {
        let expected = format!("the shell `{shell}` is not one of the system");
        let input = json!({ "cmd": "ls", "shell": shell });
        let found = reason(Client::Codex, "exec_command", input);
        assert_eq!(found, format!("`exec_command`: {expected} that is understood"));
        for option in ["-c", "-lc"] {
            let input = json!({ "command": [shell, option, "ls"] });
            assert_eq!(reason(Client::Codex, "shell", input), format!("`shell`: {expected}"));
        }
    }
}

#[test]
fn a_field_that_is_not_known_is_refused_and_named() {
    for (client, name, input, field) in [
        (Client::Codex, "shell", json!({ "command": "ls", "env": { "PATH": "/w/x" } }), "env"),
        (Client::Codex, "local_shell", json!({ "command": "ls", "user": "root" }), "user"),
        (
            Client::Codex,
            "exec_command",
            json!({ "cmd": "ls", "environment_id": "x" }),
            "environment_id",
        ),
        (
            Client::Claude,
            "Bash",
            json!({ "command": "ls", "_simulatedSedEdit": {} }),
            "_simulatedSedEdit",
        ),
        (Client::Claude, "Grep", json!({ "pattern": "a", "paths": ["/etc"] }), "paths"),
        (Client::Gemini, "run_shell_command", json!({ "command": "ls", "PATH": "/w" }), "PATH"),
        (Client::OpenCode, "bash", json!({ "command": "ls", "shell": "/w/bash" }), "shell"),
        (Client::OpenCode, "read", json!({ "filePath": "a", "files": ["b"] }), "files"),
    ] {
        let expected = format!("`{name}`: the field `{field}` is not known");
        assert_eq!(reason(client, name, input), expected);
    }
}
