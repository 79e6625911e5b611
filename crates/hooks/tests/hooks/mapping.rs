//! Inputs of tools become the arguments of our calls.

use serde_json::{Value, json};
use windlass_hooks::{Client, MappedCall, Mapping, ToolTable, with_command};

use crate::fixtures::tool;

pub fn map(client: Client, name: &str, input: Value) -> Mapping {
    ToolTable::shipped().map(client, &tool(name, input), "/w")
}

/// The only call that a tool use stands for.
fn call(client: Client, name: &str, input: Value) -> (String, Value) {
    only(map(client, name, input))
}

fn only(mapping: Mapping) -> (String, Value) {
    match mapping {
        Mapping::Calls(mut calls) if calls.len() == 1 => {
            let MappedCall { server, tool, args } = calls.remove(0);
            (format!("{server}/{tool}"), args)
        }
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn commands_become_lines() {
    let line = |line: &str| ("shell/run".to_owned(), json!({ "line": line }));
    let input = json!({ "command": "ls -a", "description": "look", "timeout": 5 });
    assert_eq!(call(Client::Claude, "Bash", input.clone()), line("ls -a"));
    assert_eq!(call(Client::OpenCode, "bash", input), line("ls -a"));
    let input = json!({ "command": "ls -a", "timeout": 5 });
    assert_eq!(call(Client::Codex, "Bash", input), line("ls -a"));
    let input = json!({ "command": "ls -a", "description": "look", "is_background": true });
    assert_eq!(call(Client::Gemini, "run_shell_command", input), line("ls -a"));
    let shell = |words: Value| call(Client::Codex, "shell", json!({ "command": words }));
    assert_eq!(shell(json!(["bash", "-lc", "ls | wc"])), line("ls | wc"));
    assert_eq!(shell(json!(["/bin/sh", "-c", "ls"])), line("ls"));
    assert_eq!(shell(json!(["rm", "a b", "it's", ""])), line(r"rm 'a b' 'it'\''s' ''"));
    assert_eq!(shell(json!(["bash", "-c", "ls", "x"])), line("bash -c ls x"));
    assert_eq!(shell(json!(["python3", "-c", "ls"])), line("python3 -c ls"));
    let input = json!({ "cmd": "ls", "shell": "/usr/bin/zsh" });
    assert_eq!(call(Client::Codex, "exec_command", input), line("ls"));
}

#[test]
fn a_line_that_runs_elsewhere_gets_a_cd() {
    let gemini = |folder: &str| {
        let input = json!({ "command": "a & b", "dir_path": folder });
        call(Client::Gemini, "run_shell_command", input).1["line"].as_str().unwrap().to_owned()
    };
    assert_eq!(gemini("/w"), "a & b");
    assert_eq!(gemini("."), "a & b");
    assert_eq!(gemini("/w/src"), "cd src\na & b");
    assert_eq!(gemini("/etc"), "cd /etc\na & b");
    assert_eq!(gemini("-x"), "cd ./-x\na & b");
    assert_eq!(gemini("a b'"), "cd 'a b'\\'''\na & b");
    let used = tool("Bash", json!({ "command": "ls" }));
    let within = |cwd: &str| {
        only(ToolTable::shipped().map_within(Client::Claude, &used, "/w/", cwd)).1["line"].clone()
    };
    assert_eq!(within("/w"), json!("ls"));
    assert_eq!(within("/w/sub/"), json!("cd sub\nls"));
    assert_eq!(within("/elsewhere"), json!("cd /elsewhere\nls"));
}

#[test]
fn paths_below_the_workspace_become_relative() {
    let read =
        |path: &str| call(Client::Claude, "Read", json!({ "file_path": path })).1["path"].clone();
    for (theirs, ours) in [
        ("/w/src/a.rs", "src/a.rs"),
        ("/w", "."),
        ("/w/", "."),
        ("/w//a", "a"),
        ("/wx/a", "/wx/a"),
        ("/etc/passwd", "/etc/passwd"),
        ("//w/a", "//w/a"),
        ("/w/../etc/passwd", "../etc/passwd"),
        ("../x", "../x"),
        ("a/b", "a/b"),
    ] {
        assert_eq!(read(theirs), json!(ours), "{theirs}");
    }
    let within = |path: &str, cwd: &str| {
        let used = tool("read", json!({ "filePath": path }));
        only(ToolTable::shipped().map_within(Client::OpenCode, &used, "/w", cwd)).1["path"].clone()
    };
    assert_eq!(within("a", "/w/sub"), json!("sub/a"));
    assert_eq!(within("a", "/x"), json!("/x/a"));
    assert_eq!(within("/w/a", "/x"), json!("a"));
    let used = tool("read", json!({ "filePath": "/etc/x" }));
    let mapped = ToolTable::shipped().map(Client::OpenCode, &used, "/");
    assert_eq!(only(mapped).1, json!({ "path": "etc/x" }));
}

#[test]
fn files_are_read_listed_and_searched() {
    let fs = |tool: &str, args: Value| (format!("fs/{tool}"), args);
    assert_eq!(
        call(Client::Claude, "Read", json!({ "file_path": "a", "offset": 0, "limit": 9 })),
        fs("read", json!({ "path": "a", "limit": 9 }))
    );
    assert_eq!(
        call(Client::Gemini, "read_file", json!({ "absolute_path": "/w/a", "offset": 3 })),
        fs("read", json!({ "path": "a" }))
    );
    assert_eq!(call(Client::OpenCode, "list", json!({})), fs("list", json!({ "path": "." })));
    assert_eq!(
        call(Client::Gemini, "list_directory", json!({ "path": "/w/src" })),
        fs("list", json!({ "path": "src" }))
    );
    assert_eq!(
        call(
            Client::Claude,
            "Grep",
            json!({ "pattern": "a.b", "glob": "*.rs", "-i": true, "-n": true, "head_limit": 3 })
        ),
        fs("search", json!({ "pattern": "a.b", "path": ".", "glob": "*.rs", "ignore_case": true }))
    );
    assert_eq!(
        call(Client::Gemini, "grep_search", json!({ "pattern": "x", "dir_path": "src" })),
        fs("search", json!({ "pattern": "x", "path": "src" }))
    );
}

#[test]
fn a_pattern_of_names_starts_in_its_own_folder() {
    let find = |pattern: &str, path: Value| {
        call(Client::Claude, "Glob", json!({ "pattern": pattern, "path": path })).1
    };
    for (pattern, path, ours, glob) in [
        ("**/*.rs", Value::Null, ".", "**/*.rs"),
        ("src/**/*.rs", Value::Null, "src", "**/*.rs"),
        ("src/**", json!("/w/a"), "a/src", "**"),
        ("/etc/*", json!("/w/a"), "/etc", "*"),
        ("/*", Value::Null, "/", "*"),
        ("/w/x/*.md", Value::Null, "x", "*.md"),
        ("../../*", Value::Null, "../..", "*"),
        ("Cargo.toml", Value::Null, ".", "Cargo.toml"),
        ("src/", Value::Null, "src", "*"),
    ] {
        assert_eq!(find(pattern, path), json!({ "path": ours, "glob": glob }), "{pattern}");
    }
    for pattern in
        ["*/../../etc", "{/etc,a}/*", "{a,/etc}/*", "@(/etc|a)", "~/*", "", "*\\..", "{~,a}"]
    {
        let mapping = map(Client::Gemini, "glob", json!({ "pattern": pattern }));
        assert!(matches!(mapping, Mapping::Invalid { .. }), "{pattern} {mapping:?}");
    }
    for glob in ["../*", "/etc/*", "{/etc,x}"] {
        let mapping = map(Client::Claude, "Grep", json!({ "pattern": "x", "glob": glob }));
        assert!(matches!(mapping, Mapping::Invalid { .. }), "{glob}");
    }
}

#[test]
fn files_are_written_and_edited() {
    let fs = |tool: &str, args: Value| (format!("fs/{tool}"), args);
    assert_eq!(
        call(Client::Gemini, "write_file", json!({ "file_path": "/w/a", "content": "" })),
        fs("write", json!({ "path": "a", "content": "" }))
    );
    assert_eq!(
        call(
            Client::Claude,
            "Edit",
            json!({ "file_path": "a", "old_string": "x", "new_string": "y", "replace_all": true })
        ),
        fs("edit", json!({ "path": "a", "edits": [{ "old": "x", "new": "y", "all": true }] }))
    );
    let edits = json!([
        { "old_string": "x", "new_string": "y" },
        { "old_string": "y", "new_string": "z", "replace_all": false },
    ]);
    assert_eq!(
        call(Client::Claude, "MultiEdit", json!({ "file_path": "a", "edits": edits })),
        fs(
            "edit",
            json!({ "path": "a", "edits": [{ "old": "x", "new": "y" }, { "old": "y", "new": "z" }] })
        )
    );
    assert_eq!(
        call(
            Client::OpenCode,
            "edit",
            json!({ "filePath": "a", "oldString": "x", "newString": "y" })
        ),
        fs("edit", json!({ "path": "a", "edits": [{ "old": "x", "new": "y" }] }))
    );
    assert_eq!(
        call(
            Client::Claude,
            "NotebookEdit",
            json!({ "notebook_path": "/w/n.ipynb", "cell_id": "c", "new_source": "print()" })
        ),
        fs("edit", json!({ "path": "n.ipynb", "edits": [{ "old": "", "new": "print()" }] }))
    );
}

#[test]
fn tools_that_only_the_client_has_keep_their_input() {
    let input = json!({ "url": "https://example.org", "prompt": "p" });
    let expected = ("client/web-fetch".to_owned(), input.clone());
    assert_eq!(call(Client::Claude, "WebFetch", input.clone()), expected);
    assert_eq!(call(Client::OpenCode, "webfetch", input), expected);
}

#[test]
fn a_command_is_replaced_where_it_stands() {
    let rewritten =
        |client, name: &str, input: Value| with_command(client, &tool(name, input), "L");
    assert_eq!(
        rewritten(Client::Claude, "Bash", json!({ "command": "ls", "timeout": 5 })),
        Some(json!({ "command": "L", "timeout": 5 }))
    );
    assert_eq!(
        rewritten(Client::Gemini, "run_shell_command", json!({ "command": "ls" })),
        Some(json!({ "command": "L" }))
    );
    assert_eq!(
        rewritten(Client::Codex, "shell", json!({ "command": ["zsh", "-lc", "ls"] })),
        Some(json!({ "command": ["/bin/zsh", "-lc", "L"] }))
    );
    assert_eq!(
        rewritten(Client::Codex, "shell", json!({ "command": ["ls", "-a"] })),
        Some(json!({ "command": ["/bin/bash", "-c", "L"] }))
    );
    assert_eq!(
        rewritten(Client::Codex, "exec_command", json!({ "cmd": "ls" })),
        Some(json!({ "cmd": "L" }))
    );
    assert_eq!(
        rewritten(
            Client::Codex,
            "exec_command",
            json!({ "cmd": "ls", "shell": "bash", "login": true })
        ),
        Some(json!({ "cmd": "L", "shell": "/bin/bash", "login": true }))
    );
    assert_eq!(
        rewritten(Client::Codex, "exec_command", json!({ "cmd": "ls", "shell": "/w/x/bash" })),
        None
    );
    assert_eq!(
        rewritten(Client::Codex, "shell", json!({ "command": ["./x/bash", "-lc", "ls"] })),
        None
    );
    assert_eq!(
        rewritten(Client::Codex, "exec_command", json!({ "cmd": "a", "command": "b" })),
        None
    );
    assert_eq!(rewritten(Client::Claude, "Read", json!({ "command": "ls" })), None);
    assert_eq!(rewritten(Client::Claude, "Bash", json!({})), None);
    assert_eq!(rewritten(Client::Claude, "Bash", json!({ "command": 1 })), None);
    assert_eq!(rewritten(Client::Claude, "mcp__a__b", json!({ "command": "ls" })), None);
}
