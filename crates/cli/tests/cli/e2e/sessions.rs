//! Sessions of coding agents: what their shells can do, what is kept of them, and who may lift the policy.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Outcome, Place, finish, text_of};

/// A client in a session, in a project.
struct Session<'a> {
    place: &'a Place,
    client: &'static str,
    id: &'static str,
    /// Variables that the client sets for its hooks.
    variables: &'a [(&'a str, &'a str)],
}

impl<'a> Session<'a> {
    const fn new(place: &'a Place) -> Self {
        Self { place, client: "claude", id: "s-1", variables: &[] }
    }

    fn send(&self, name: &str, more: &Value) -> Outcome {
        let mut event = match self.client {
            "claude" => json!({ "permission_mode": "default", "transcript_path": "/nowhere/t" }),
            "codex" => json!({ "model": "m", "permission_mode": "default", "turn_id": "1" }),
            "gemini" => {
                json!({ "timestamp": "2026-01-01T00:00:00Z", "transcript_path": "/nowhere/t" })
            }
            _ => json!({ "client": "opencode" }),
        };
        let fields = event.as_object_mut().unwrap();
        fields.insert("session_id".to_owned(), json!(self.id));
        fields.insert("cwd".to_owned(), json!(self.place.work()));
        fields.insert("hook_event_name".to_owned(), json!(name));
        fields.extend(more.as_object().unwrap().clone());
        let mut command = self.place.command(&["hook", "--client", self.client]);
        command.envs(self.variables.iter().copied());
        finish(command, event.to_string().as_bytes())
    }

    fn before(&self, id: &str, tool: &str, input: &Value) -> Outcome {
        let fields = json!({ "tool_name": tool, "tool_input": input, "tool_use_id": id });
        self.send(self.names().0, &self.without_id(fields))
    }

    fn after(&self, id: &str, tool: &str, input: &Value) -> Outcome {
        let response = json!({ "stdout": "done", "llmContent": "done" });
        let fields = json!({
            "tool_name": tool, "tool_input": input, "tool_use_id": id, "tool_response": response,
        });
        self.send(self.names().1, &self.without_id(fields))
    }

    /// Gemini CLI has no ids of uses.
    fn without_id(&self, mut fields: Value) -> Value {
        if self.client == "gemini" {
            fields.as_object_mut().unwrap().remove("tool_use_id");
        }
        fields
    }

    fn names(&self) -> (&'static str, &'static str) {
        match self.client {
            "gemini" => ("BeforeTool", "AfterTool"),
            "opencode" => ("tool.execute.before", "tool.execute.after"),
            _ => ("PreToolUse", "PostToolUse"),
        }
    }

    fn bash(&self, id: &str, line: &str) -> Outcome {
        self.before(id, "Bash", &json!({ "command": line }))
    }

    fn prompt(&self, text: &str) -> Outcome {
        self.send("UserPromptSubmit", &json!({ "prompt": text }))
    }
}

/// The input that a client is told to use instead of its own.
fn changed_input(client: &str, answer: &Outcome) -> Value {
    let answer = answer.json();
    match client {
        "gemini" => answer["hookSpecificOutput"]["tool_input"].clone(),
        "opencode" => answer["input"].clone(),
        _ => answer["hookSpecificOutput"]["updatedInput"].clone(),
    }
}

/// Runs a line as a client's shell does.
fn shell(place: &Place, line: &str) -> Outcome {
    let mut command = Command::new("bash");
    command.args(["-c", line]).current_dir(place.work());
    place.settle(&mut command);
    finish(command, &[])
}

fn states(place: &Place) -> Vec<String> {
    let all = place.run(&["call", "list", "--json"]).exit(0).json();
    all.as_array().unwrap().iter().rev().map(|call| text_of(call, "current_state")).collect()
}

/// A project whose files are in a repository.
fn repository() -> Place {
    let place = Place::with_project();
    place.write("old.txt", "old\n");
    for args in [&["init", "-q"][..], &["add", "old.txt"], &["commit", "-qm", "old"]] {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b.example"]);
        git.args(args).current_dir(place.work());
        place.settle(&mut git);
        finish(git, &[]).exit(0);
    }
    place
}

#[test]
fn lines_of_every_clients_shell_run_in_a_cell() {
    let tools = [
        ("claude", "Bash", "command"),
        ("codex", "Bash", "command"),
        ("gemini", "run_shell_command", "command"),
        ("opencode", "bash", "command"),
    ];
    for (client, tool, field) in tools {
        let place = Place::with_project();
        let session = Session { client, ..Session::new(&place) };
        let input = json!({ field: "hostname; echo it\\'s > made" });
        let allowed = session.before("t2", tool, &input).exit(0);
        let changed = changed_input(client, &allowed);
        let line = changed[field].as_str().unwrap_or_else(|| panic!("{client}: {allowed}"));
        assert!(line.contains(" cell --session run_"), "{line}");
        let ran = shell(&place, line);
        assert_eq!(ran.text(), "cell\n", "{client}: {ran}");
        assert_eq!(place.read("made"), "it's\n", "{client}");
        // The client reports the line that it ran.
        session.after("t2", tool, &changed).exit(0);
        assert_eq!(states(&place), ["COMPLETED"], "{client}");
        place.run(&["verify"]).exit(0);
    }
}

#[test]
fn a_cell_has_neither_the_keys_nor_the_journal_and_passes_streams_and_exit_codes_on() {
    let place = Place::with_project();
    let cell = |line: &str, stdin: &[u8]| finish(place.command(&["cell", "--", line]), stdin);
    cell("cat; echo err >&2; exit 7", b"in").exit(7).says("in").warns("err");
    cell(&format!("test -e {}", place.state_root().display()), &[]).exit(1);
    cell("windlass call approve x --reason y || echo refused", &[]).exit(0).says("refused");
    cell("echo x > made && cat made", &[]).exit(0).says("x");
    assert!(place.work().join("made").exists());
    cell("kill -9 $$", &[]).exit(137);
    let outside = {
        let mut command =
            place.command(&["-C", place.work().to_str().unwrap(), "cell", "--", "ls"]);
        command.current_dir("/");
        finish(command, &[])
    };
    outside.fails_with(1, "SANDBOX_UNAVAILABLE");
}

#[test]
fn files_are_kept_at_each_prompt_and_come_back_whatever_changed_them() {
    let place = repository();
    let session = Session::new(&place);
    session.prompt("first").exit(0);
    place.write("new.txt", "new\n");
    std::fs::remove_file(place.work().join("old.txt")).unwrap();
    session.prompt("second").exit(0);
    let rewind = |args: &[&str]| place.run(&[&["session", "rewind"][..], args].concat());
    rewind(&["--to", "1", "--dry-run"]).exit(0).says("remove    new.txt").says("restore   old.txt");
    assert!(place.work().join("new.txt").exists());
    rewind(&["--to", "1", "--reason", "the agent was wrong"]).exit(0);
    assert_eq!(place.read("old.txt"), "old\n");
    assert!(!place.work().join("new.txt").exists());
    // The agent is told at the next prompt, once.
    session.prompt("third").exit(0).says("brought the files back");
    session.prompt("fourth").exit(0).quiet();
    rewind(&["--to", "0", "--reason", "after all"]).exit(0);
    assert!(place.work().join("new.txt").exists() && !place.work().join("old.txt").exists());
    rewind(&["--to", "9", "--reason", "x"]).fails_with(1, "CHECKPOINT_UNAVAILABLE");
    let shown = place.run(&["session", "show", "s-1", "--json"]).exit(0).json();
    assert_eq!(shown["client"], "claude");
    assert_eq!(shown["notes"].as_array().unwrap().len(), 6, "{shown}");
    place
        .run(&["session", "transcript"])
        .exit(0)
        .says("prompt 2: second")
        .says("the agent was wrong");
    place.run(&["verify"]).exit(0);
}

#[test]
fn a_changed_policy_is_an_entry_and_not_an_end() {
    let place = Place::with_project();
    let session = Session::new(&place);
    session.bash("t1", "git status").exit(0);
    place.append(".windlass/policy/default.toml", "\n# changed\n");
    session.bash("t2", "git log").exit(0);
    session.bash("t3", "git diff").exit(0);
    let runs = place.run(&["session", "list", "--json"]).exit(0).json();
    assert_eq!(runs.as_array().unwrap().len(), 1, "{runs}");
    let shown = place.run(&["session", "transcript"]).exit(0);
    assert_eq!(shown.text().matches("the policy changed").count(), 1, "{shown}");
    place.run(&["verify"]).exit(0);
}

#[test]
fn calls_that_lead_nowhere_are_broken_off_until_the_person_speaks() {
    let place = Place::with_project();
    let session = Session::new(&place);
    for number in 0..5 {
        session.bash(&format!("t{number}"), "git status").exit(0);
    }
    session.bash("t5", "git status").exit(2).warns("CALLS_REPEATED");
    session.bash("t6", "git log").exit(0);
    for number in 0..10 {
        session.bash(&format!("d{number}"), &format!("frobnicate {number}")).exit(2);
    }
    session.bash("t7", "git diff").exit(2).warns("DENIALS_REPEATED");
    session.prompt("go on").exit(0);
    session.bash("t8", "git diff").exit(0);
}

#[test]
fn the_stop_switch_stops_a_session() {
    let place = Place::with_project();
    let session = Session::new(&place);
    session.bash("t1", "git status").exit(0);
    place.run(&["stop", "--reason", "lunch"]).exit(0);
    session.bash("t2", "git log").exit(2).warns("lunch").says("\"continue\":false");
    session.prompt("go on").exit(2).warns("lunch");
    assert_eq!(states(&place), ["EXECUTING"]);
}

#[test]
fn claude_code_asks_with_its_own_prompt_or_pauses() {
    let place = Place::with_project();
    let line = "npm install left-pad";
    let attended = [("CLAUDE_CODE_ENTRYPOINT", "cli")];
    let session = Session { variables: &attended, ..Session::new(&place) };
    let asked = session.bash("t1", line).exit(0).json()["hookSpecificOutput"].clone();
    assert_eq!(asked["permissionDecision"], "ask");
    assert!(asked["updatedInput"]["command"].as_str().unwrap().contains(" cell "), "{asked}");
    assert_eq!(states(&place), ["EXECUTING"]);
    let shown = place.run(&["session", "show", "--json"]).exit(0).json();
    assert_eq!(shown["calls"][0]["decided_by"], "prompt");
    let skipping = json!({
        "permission_mode": "dontAsk", "tool_name": "Bash", "tool_input": { "command": line },
        "tool_use_id": "t2",
    });
    session.send("PreToolUse", &skipping).exit(2).warns("windlass call approve");
    // Without a person at the terminal it pauses, and goes on when it is resumed.
    let place = Place::with_project();
    let alone = [("CLAUDE_CODE_ENTRYPOINT", "sdk-cli")];
    let session = Session { variables: &alone, ..Session::new(&place) };
    let paused = session.bash("t1", line).exit(0).json();
    assert_eq!(paused["hookSpecificOutput"]["permissionDecision"], "defer");
    session.send("SessionEnd", &json!({ "reason": "other" })).exit(0);
    place.run(&["session", "list"]).exit(0).says("open");
    let id = place.run(&["call", "list", "--held", "--ids"]).exit(0).text().trim().to_owned();
    let voice = ["--by", "ada", "--reason", "looked at it"];
    place.run(&[&["call", "approve", &id][..], &voice].concat()).exit(0);
    let resumed = session.bash("t1", line).exit(0).json();
    assert_eq!(resumed["hookSpecificOutput"]["permissionDecision"], "allow");
    session.after("t1", "Bash", &json!({ "command": line })).exit(0);
    session.send("SessionEnd", &json!({ "reason": "other" })).exit(0);
    place.run(&["session", "list"]).exit(0).says("ended");
    assert_eq!(states(&place), ["COMPLETED"]);
    place.run(&["verify"]).exit(0);
}

#[test]
fn breaking_glass_is_signed_recorded_shown_and_ends() {
    let place = Place::with_project();
    let session = Session::new(&place);
    session.bash("t1", "frobnicate").exit(2);
    session.before("t2", "Teleport", &json!({ "to": "Mars" })).exit(2);
    let allow = ["session", "allow-all", "--minutes", "5", "--by", "ada", "--reason", "fire"];
    let grant = place.run(&[&allow[..], &["--json"]].concat()).exit(0).json();
    session.bash("t3", "frobnicate").exit(0).says(" cell ");
    session.before("t4", "Teleport", &json!({ "to": "Mars" })).exit(0);
    let shown = place.run(&["session", "show", "--json"]).exit(0).json();
    let by: Vec<&Value> =
        shown["calls"].as_array().unwrap().iter().map(|call| &call["decided_by"]).collect();
    assert_eq!(by, ["policy", "policy", "grant", "grant"]);
    place.run(&["status"]).exit(0).warns("every tool");
    place.run(&["grant", "list"]).exit(0).says("**");
    let id = text_of(&grant, "grant");
    place.run(&["grant", "revoke", &id, "--by", "ada", "--reason", "out"]).exit(0);
    session.bash("t5", "frobnicate").exit(2);
    place
        .run(&["session", "allow-all", "--minutes", "2000", "--by", "ada", "--reason", "fire"])
        .fails_with(2, "REQUEST_INVALID");
    place.run(&["verify"]).exit(0);
}

#[test]
fn no_agent_breaks_the_glass() {
    let place = Place::with_project();
    Session::new(&place).bash("t1", "git status").exit(0);
    let line = "windlass session allow-all --minutes 5 --reason mine; windlass session rewind --to 1 --reason mine";
    let mut command = place.command(&["cell", "--", line]);
    let path = std::path::Path::new(env!("CARGO_BIN_EXE_windlass")).parent().unwrap();
    command.env("PATH", format!("{}:/usr/bin:/bin", path.display()));
    let outcome = finish(command, &[]);
    assert_ne!(outcome.code, Some(0), "{outcome}");
    let grants = place.run(&["grant", "list", "--all", "--json"]).exit(0).json();
    assert_eq!(grants, json!([]));
    // Where shells have no cell, a key that every process can use does not do.
    let tools = place.read(".windlass/tools.toml");
    let open = tools.replace("[server.shell.tool.run]", "[server.shell.tool.run]\nsandbox = false");
    place.write(".windlass/tools.toml", open);
    let allow = ["session", "allow-all", "--minutes", "5", "--by", "ada", "--reason", "fire"];
    place.run(&allow).fails_with(3, "PERSON_LOCKED").warns("passphrase");
    Session::new(&place).bash("t2", "npm install left-pad").exit(2);
    let id = place.run(&["call", "list", "--held", "--ids"]).exit(0).text().trim().to_owned();
    let approve = ["call", "approve", &id, "--reason", "looked at it"];
    place.run(&[&approve[..], &["--by", "ada"]].concat()).fails_with(3, "PERSON_LOCKED");
    place.run(&["people", "revoke", "ada"]).exit(0);
    place.run(&[&approve[..], &place.protect("ada")[..]].concat()).exit(0);
}

/// A record of Claude Code in which a tool was used.
fn record(place: &Place, session: &str, uses: &[(&str, &str)]) -> std::path::PathBuf {
    let root = place.work().canonicalize().unwrap();
    let name: String = root
        .to_str()
        .unwrap()
        .chars()
        .map(|one| if one.is_ascii_alphanumeric() { one } else { '-' })
        .collect();
    let folder = place.home().join(".claude/projects").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let mut lines = String::new();
    for (id, line) in uses {
        let common = json!({ "sessionId": session, "cwd": root, "isSidechain": false });
        let mut used = common.clone();
        used["type"] = json!("assistant");
        used["message"] = json!({ "role": "assistant", "content": [
            { "type": "tool_use", "id": id, "name": "Bash", "input": { "command": line } },
        ]});
        let mut result = common;
        result["type"] = json!("user");
        result["permissionDecision"] = json!({ "decision": "accept" });
        result["message"] = json!({ "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": id, "content": "done", "is_error": false },
        ]});
        lines += &format!("{used}\n{result}\n");
    }
    let path = folder.join(format!("{session}.jsonl"));
    std::fs::write(&path, lines).unwrap();
    path
}

#[test]
fn what_a_client_did_without_asking_is_found_and_can_block() {
    let place = Place::with_project();
    let session = Session::new(&place);
    session.bash("t1", "git status").exit(0);
    session.bash("t2", "frobnicate").exit(2);
    let asked = [("t1", "git status")];
    let path = record(&place, "s-1", &asked);
    place.run(&["session", "check"]).exit(0).says("is on record");
    let stop = |path: &std::path::Path| {
        session.send("Stop", &json!({ "stop_hook_active": false, "transcript_path": path }))
    };
    stop(&path).exit(0).quiet();
    // One was never asked about, one was refused.
    let path = record(&place, "s-1", &[asked[0], ("t2", "frobnicate"), ("t3", "git log")]);
    let found = place.run(&["session", "check", "--json"]).exit(1).json();
    let ids: Vec<&str> = found[0]["unguarded"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["t2", "t3"], "{found}");
    // Wherever it is asked from, and whatever the folder is called there.
    let link = place.base().join("link");
    std::os::unix::fs::symlink(place.work(), &link).unwrap();
    for folder in [".", "../work", link.to_str().unwrap()] {
        let same = place.run(&["-C", folder, "session", "check", "--json"]).exit(1).json();
        assert_eq!(same, found, "{folder}");
        place.run(&["-C", folder, "session", "show"]).exit(0);
    }
    // It is told once, at the next prompt, and stays on record.
    stop(&path).exit(0);
    let event = json!({ "prompt": "go on", "transcript_path": path });
    session.send("UserPromptSubmit", &event).exit(0).says("UNGUARDED");
    session.send("UserPromptSubmit", &event).exit(0).quiet();
    let shown = place.run(&["session", "show"]).exit(0);
    assert_eq!(shown.text().matches("UNGUARDED").count(), 2, "{shown}");
    session.bash("t4", "git diff").exit(0);
    place.replace(".windlass/config.toml", "unguarded = \"tell\"", "unguarded = \"block\"");
    session.bash("t5", "git diff HEAD").exit(2).warns("may use no more");
    // A session of which no hook told anything is found when the next one begins.
    record(&place, "s-2", &[("u1", "rm -rf x")]);
    let other = Session { id: "s-3", ..Session::new(&place) };
    let told = other
        .send("SessionStart", &json!({ "source": "startup", "transcript_path": "/nowhere/t" }));
    told.exit(0).says("UNGUARDED");
    // Once, and it blocks no other session.
    other.bash("v1", "git log --oneline").exit(0);
    let next = Session { id: "s-4", ..Session::new(&place) };
    let start = json!({ "source": "startup", "transcript_path": "/nowhere/t" });
    next.send("SessionStart", &start).exit(0).quiet();
    place.run(&["session", "check"]).exit(1);
    place.run(&["verify"]).exit(0);
}

#[test]
fn tools_that_only_clients_have_are_judged_too() {
    let place = Place::with_project();
    let session = Session::new(&place);
    session.before("t1", "Skill", &json!({ "skill": "review" })).exit(0);
    session
        .before("t2", "WebFetch", &json!({ "url": "https://example.com" }))
        .exit(2)
        .warns("approve");
    // A server of a client is not the server of ours with the same name.
    let read = json!({ "path": "README.md" });
    session.before("t3", "mcp__fs__read", &read).exit(2).warns("name that is reserved");
    session.before("t4", "mcp__github__create_issue", &json!({})).exit(2).warns("UNCLASSIFIED");
    let tools = place.read(".windlass/tools.toml");
    let more = "[server.github]\nconnector = \"client\"\n[server.github.tool.create_issue]\nclass = \"write\"\n";
    place.write(".windlass/tools.toml", format!("{tools}\n{more}"));
    let rule = "[[rule]]\nid = \"issues\"\nverdict = \"allow\"\nreason = \"fine\"\ntool = \"github/*\"\n\
                matches = [{ tool = \"github/create_issue\", args = {} }]\n\
                misses = [{ tool = \"fs/read\", args = { path = \"a\" } }]\n";
    place.write(".windlass/policy/more.toml", rule);
    session.before("t5", "mcp__github__create_issue", &json!({})).exit(0);
    let command = "[server.mine]\nconnector = \"command\"\n[server.mine.tool.list]\nclass = \"read\"\nargv = [\"ls\"]\n";
    place.append(".windlass/tools.toml", command);
    session.before("t6", "mcp__mine__list", &json!({})).exit(2).warns("has the name of a server");
    // Windlass itself has no such tool.
    let made = place.run(&["call", "run", "client/skill", "--args", "{\"skill\":\"review\"}"]);
    made.exit(1).says("TOOL_SERVER_UNAVAILABLE");
}

#[test]
fn every_tool_that_only_clients_have_is_registered() {
    let place = Place::with_project();
    let tools = crate::harness::repository("crates/hooks/src/tools.json");
    let tools: Value = serde_json::from_slice(&std::fs::read(tools).unwrap()).unwrap();
    let own = tools.as_array().unwrap().iter().filter_map(|one| one["as"]["own"]["tool"].as_str());
    let registry = place.read(".windlass/tools.toml");
    for tool in own {
        assert!(registry.contains(&format!("[server.client.tool.{tool}]")), "{tool}");
    }
}

#[test]
fn without_a_project_the_users_own_serves() {
    let place = Place::new();
    place.run(&["init", "--user"]).exit(0);
    let session = Session::new(&place);
    let input = json!({ "file_path": place.work().join("a.txt"), "content": "x" });
    session.before("t1", "Write", &input).exit(0);
    let line = session.bash("t2", "touch made").exit(0);
    let changed = changed_input("claude", &line);
    shell(&place, changed["command"].as_str().unwrap()).exit(0);
    assert!(place.work().join("made").exists());
    let outside = json!({ "file_path": "/etc/hosts", "content": "x" });
    session.before("t3", "Write", &outside).exit(2);
    session.prompt("go on").exit(0);
    // The folder with all keys and journals is not one to work in.
    let event = json!({ "cwd": place.home(), "tool_name": "Bash", "tool_input": { "command": "ls" }, "tool_use_id": "t" });
    session.send("PreToolUse", &event).exit(2).warns("journals and keys");
}

/// The files in which clients have their hooks cannot be changed from the shell of an agent, not even by a program that
/// no judgement has seen.
#[test]
fn a_shell_cannot_switch_the_hooks_off() {
    let place = Place::with_project();
    place.run(&["install", "claude", "--yes"]).exit(0);
    let before = place.read(".claude/settings.json");
    place.write("off.sh", "echo '{\"disableAllHooks\":true}' > .claude/settings.json\n");
    place.write("local.sh", "echo '{\"disableAllHooks\":true}' > .claude/settings.local.json\n");
    place.write(
        "moved.sh",
        "mv .claude away && mkdir .claude && echo '{}' > .claude/settings.json\n",
    );
    let session = Session::new(&place);
    for (number, script) in ["off.sh", "local.sh", "moved.sh"].into_iter().enumerate() {
        let allowed = session.bash(&format!("t{number}"), &format!("sh {script}")).exit(0);
        let line = changed_input("claude", &allowed)["command"].as_str().unwrap().to_owned();
        let ran = shell(&place, &line);
        assert_ne!(ran.code, Some(0), "{script}: {ran}");
        let now =
            std::fs::read_to_string(place.work().join(".claude/settings.json")).unwrap_or_default();
        assert!(now == before || now.is_empty(), "{script}: {now}");
        assert!(!place.work().join(".claude/settings.local.json").exists(), "{script}");
    }
    // What is missing is noticed.
    if !place.work().join(".claude/settings.json").exists() {
        assert!(place.run(&["status"]).exit(0).stderr.contains("warning:"));
    }
}
