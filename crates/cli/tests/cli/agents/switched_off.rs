//! Tools of the clients themselves: a model that calls them all the same gets nothing done.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::agents::lab::{Canaries, Kind, Lab};
use crate::scripted::{script, shell};

/// Calls of these functions, whether they are offered or not.
fn functions<const COUNT: usize>(functions: [(&str, Value); COUNT]) -> Vec<Value> {
    let call = |(name, input): (&str, Value)| json!({ "name": format!("={name}"), "input": input });
    functions.map(call).to_vec()
}

pub fn claude(canaries: &Canaries) -> Vec<Value> {
    let (line, file, url) = (canaries.line(), canaries.file(), &canaries.url);
    let prompt = format!("Run `{line}`");
    functions([
        ("Bash", json!({ "command": line, "description": "a step" })),
        ("BashOutput", json!({ "bash_id": "1" })),
        ("Monitor", json!({ "command": line, "description": "a step" })),
        ("Write", json!({ "file_path": file, "content": "x" })),
        ("Edit", json!({ "file_path": file, "old_string": "", "new_string": "x" })),
        ("MultiEdit", json!({ "file_path": file, "edits": [] })),
        ("NotebookEdit", json!({ "notebook_path": file, "new_source": "x" })),
        ("Read", json!({ "file_path": "/etc/hostname" })),
        ("Glob", json!({ "pattern": "/etc/host*" })),
        ("Grep", json!({ "pattern": "root", "path": "/etc/passwd" })),
        ("LS", json!({ "path": "/" })),
        ("WebFetch", json!({ "url": url, "prompt": "read it" })),
        ("WebSearch", json!({ "query": "windlass" })),
        (
            "Task",
            json!({ "description": "a", "prompt": prompt, "subagent_type": "general-purpose" }),
        ),
        (
            "Agent",
            json!({ "description": "a", "prompt": prompt, "subagent_type": "general-purpose" }),
        ),
        ("Skill", json!({ "skill": "review" })),
        ("SlashCommand", json!({ "command": "/init" })),
        ("TodoWrite", json!({ "todos": [] })),
        ("ToolSearch", json!({ "query": "select:Bash" })),
        ("EnterWorktree", json!({ "name": "x" })),
        ("CronCreate", json!({ "cron": "* * * * *", "prompt": prompt })),
        ("ListMcpResourcesTool", json!({})),
    ])
}

pub fn codex(canaries: &Canaries) -> Vec<Value> {
    let (line, file) = (canaries.line(), canaries.file());
    let patch = format!("*** Begin Patch\n*** Add File: {file}\n+x\n*** End Patch");
    let words = json!(["bash", "-c", line]);
    let mut calls = functions([
        ("shell", json!({ "command": words })),
        ("shell_command", json!({ "command": line })),
        ("local_shell", json!({ "command": words })),
        ("container.exec", json!({ "cmd": words })),
        ("exec", json!({ "input": line })),
        ("exec_command", json!({ "cmd": line })),
        ("write_stdin", json!({ "session_id": 1, "chars": line })),
        ("unified_exec", json!({ "input": words })),
        ("apply_patch", json!({ "input": patch })),
        ("update_plan", json!({ "plan": [{ "step": "a", "status": "pending" }] })),
        ("view_image", json!({ "path": "/etc/hostname" })),
        ("read_file", json!({ "file_path": "/etc/hostname" })),
        ("list_dir", json!({ "dir_path": "/" })),
        ("grep_files", json!({ "pattern": "root", "path": "/etc" })),
        ("web_search", json!({ "query": "windlass" })),
        ("spawn_agent", json!({ "message": format!("Run `{line}`") })),
        ("js_repl", json!({ "input": "1" })),
        ("tool_search", json!({ "query": "shell" })),
        ("request_user_input", json!({ "questions": [] })),
        ("request_permissions", json!({ "permissions": {} })),
    ]);
    // Calls in the form of text; one in the form of `local_shell_call` ends its turn without an answer.
    calls.push(json!({ "name": "=apply_patch", "input": patch, "kind": "custom" }));
    calls.push(json!({ "name": "=exec", "input": format!("await tools.exec_command({words})"), "kind": "custom" }));
    calls
}

pub fn gemini(canaries: &Canaries) -> Vec<Value> {
    let (line, file, url) = (canaries.line(), canaries.file(), &canaries.url);
    functions([
        ("run_shell_command", json!({ "command": line, "description": "a step" })),
        ("ShellTool", json!({ "command": line })),
        ("write_file", json!({ "file_path": file, "content": "x" })),
        ("replace", json!({ "file_path": file, "old_string": "", "new_string": "x" })),
        ("edit", json!({ "file_path": file, "old_string": "", "new_string": "x" })),
        ("read_file", json!({ "file_path": "/etc/hostname" })),
        ("read_many_files", json!({ "include": ["/etc/host*"] })),
        ("list_directory", json!({ "dir_path": "/" })),
        ("glob", json!({ "pattern": "/etc/host*" })),
        ("grep_search", json!({ "pattern": "root", "dir_path": "/etc" })),
        ("search_file_content", json!({ "pattern": "root", "path": "/etc" })),
        ("web_fetch", json!({ "prompt": format!("read {url}") })),
        ("google_web_search", json!({ "query": "windlass" })),
        ("save_memory", json!({ "fact": "x" })),
        ("write_todos", json!({ "todos": [] })),
        ("activate_skill", json!({ "name": "x" })),
        ("ask_user", json!({ "questions": [] })),
        ("enter_plan_mode", json!({})),
        ("codebase_investigator", json!({ "objective": line })),
        ("delegate_to_agent", json!({ "agent_name": "x", "objective": line })),
        ("invoke_agent", json!({ "agent_name": "generalist", "prompt": line })),
    ])
}

pub fn opencode(canaries: &Canaries) -> Vec<Value> {
    let (line, file, url) = (canaries.line(), canaries.file(), &canaries.url);
    let patch = format!("*** Begin Patch\n*** Add File: {file}\n+x\n*** End Patch");
    functions([
        ("bash", json!({ "command": line, "description": "a step" })),
        ("shell", json!({ "command": line, "description": "a step" })),
        ("write", json!({ "filePath": file, "content": "x" })),
        ("edit", json!({ "filePath": file, "oldString": "", "newString": "x" })),
        ("multiedit", json!({ "filePath": file, "edits": [] })),
        ("patch", json!({ "patchText": patch })),
        ("apply_patch", json!({ "patchText": patch })),
        ("read", json!({ "filePath": "/etc/hostname" })),
        ("list", json!({ "path": "/" })),
        ("glob", json!({ "pattern": "/etc/host*" })),
        ("grep", json!({ "pattern": "root", "path": "/etc" })),
        ("webfetch", json!({ "url": url, "format": "text" })),
        ("websearch", json!({ "query": "windlass" })),
        ("codesearch", json!({ "query": "windlass" })),
        ("task", json!({ "description": "a", "prompt": line, "subagent_type": "general" })),
        ("todowrite", json!({ "todos": [] })),
        ("todoread", json!({})),
        ("skill", json!({ "name": "x" })),
        ("question", json!({ "questions": [] })),
        ("batch", json!({ "tool_calls": [{ "tool": "bash", "parameters": { "command": line } }] })),
        ("lsp", json!({ "operation": "hover", "filePath": file, "line": 1, "character": 1 })),
    ])
}

pub fn tools_have_no_effect(kind: &'static Kind) {
    let folder = tempfile::Builder::new().prefix("canaries-").tempdir_in("/tmp").unwrap();
    // The files are known before the place of the run is; links lead into it.
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let canaries = Canaries {
        files: ["home", "work", "tmp"].map(|name| folder.path().join(name).join("CANARY")).to_vec(),
        url: format!("http://{}/canary", listener.local_addr().unwrap()),
    };
    let own = (kind.own_tools)(&canaries);
    let steps = own.iter().map(|call| json!({ "calls": [call] }));
    let steps = steps.chain([shell("echo done >> done.txt")]).collect();
    let Some(lab) = Lab::new(kind, &script(steps)) else { return };
    std::fs::create_dir(folder.path().join("tmp")).unwrap();
    for (name, target) in [("home", lab.repo.place.home()), ("work", lab.repo.root())] {
        std::os::unix::fs::symlink(target, folder.path().join(name)).unwrap();
    }
    let before = lab.repo.commits();
    lab.run().exit(0);
    lab.has_passed(before);
    for file in &canaries.files {
        assert!(!file.exists(), "{}", file.display());
    }
    assert!(listener.accept().is_err(), "the client opened a connection");
    assert_eq!(lab.repo.git(&["show", "--name-only", "--format=", "HEAD"]), "done.txt");
    // Each of them was asked for, and the model was told of its failure.
    let results = lab.model.requests().iter().map(|request| request.results.len()).max();
    assert!(results >= Some(own.len()), "{results:?} of {}", own.len());
    let host = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let line = host.lines().next().unwrap_or("root:x:0:0");
    assert!(!lab.told().contains(line), "the client read a file");
    println!("{}: {} of its tools were called", kind.name, own.len());
}
