//! Every entry of the table is reached, and fits no other client's input by accident.

use serde_json::{Map, Value, json};
use windlass_hooks::{Client, MappedCall, Mapping, ToolTable, with_command};

use crate::fixtures::tool;

const PATCH: &str = "*** Begin Patch\n*** Delete File: a\n*** End Patch";

/// The entries as they stand in the file.
fn entries() -> Vec<Value> {
    serde_json::from_str(include_str!("../../src/tools.json")).unwrap()
}

/// An input that fits an entry: the first name of every field, with a value of its type.
fn sample(form: &Value) -> Value {
    let mut input = Map::new();
    let Some((_, fields)) = form.as_object().and_then(|form| form.iter().next()) else {
        return json!({});
    };
    let list = fields.get("list").is_some();
    for (field, names) in fields.as_object().unwrap() {
        let Some(name) = names.get(0).and_then(Value::as_str) else { continue };
        if list && matches!(field.as_str(), "old" | "new" | "all") {
            continue;
        }
        let value = match field.as_str() {
            "line" => json!("ls"),
            "shell" => json!("/bin/bash"),
            "text" => json!(PATCH),
            "all" | "ignore_case" | "ignored" => json!(true),
            "list" => json!([{
                fields["old"][0].as_str().unwrap(): "a", fields["new"][0].as_str().unwrap(): "b",
            }]),
            _ => json!("a"),
        };
        input.insert(name.to_owned(), value);
    }
    Value::Object(input)
}

#[test]
fn every_entry_is_reached() {
    let mut reached = 0;
    for entry in entries() {
        let client = Client::named(entry["client"].as_str().unwrap()).unwrap();
        let form = &entry["as"];
        for name in entry["tools"].as_array().unwrap() {
            let name = name.as_str().unwrap();
            let used = tool(name, sample(form));
            let mapping = ToolTable::shipped().map(client, &used, "/w");
            let expected = form.as_object().and_then(|form| form.keys().next()).map(String::as_str);
            let (server, ours) = match expected {
                None => {
                    assert_eq!(mapping, Mapping::Internal, "{name}");
                    reached += 1;
                    continue;
                }
                Some("command") => ("shell", "run"),
                Some("own") => ("client", form["own"]["tool"].as_str().unwrap()),
                Some("find") => ("fs", "search"),
                Some("notebook") => ("fs", "edit"),
                Some("patch") => ("fs", "write"),
                Some(same) => ("fs", same),
            };
            let Mapping::Calls(calls) = mapping else { unreachable!("{name} {mapping:?}") };
            let [MappedCall { server: found, tool, .. }] = calls.as_slice() else {
                unreachable!("{name} {calls:?}")
            };
            assert_eq!((found.as_str(), tool.as_str()), (server, ours), "{name}");
            let rewritten = with_command(client, &used, "pwd").is_some();
            assert_eq!(rewritten, expected == Some("command"), "{name}");
            reached += 1;
        }
    }
    assert_eq!(reached, 112);
}

#[test]
fn names_of_other_clients_and_other_spellings_are_unknown() {
    let map = |client, name: &str| {
        ToolTable::shipped().map(client, &tool(name, json!({ "command": "ls" })), "/w")
    };
    for (client, name) in [
        (Client::Claude, "bash"),
        (Client::Claude, "Bash "),
        (Client::Claude, "run_shell_command"),
        (Client::Claude, "PowerShell"),
        (Client::Codex, "write_stdin"),
        (Client::Codex, "exec"),
        (Client::Gemini, "Bash"),
        (Client::Gemini, "codebase_investigator"),
        (Client::OpenCode, "Bash"),
        (Client::OpenCode, "batch"),
        (Client::OpenCode, "mcp__a__b"),
    ] {
        assert_eq!(map(client, name), Mapping::Unknown, "{name}");
    }
}
