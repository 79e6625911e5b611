//! Where a session is started, and where its files are.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use super::{Core, audited, git, hydrated, reflected, told, verified};
use crate::harness::{Outcome, Place, finish};

/// Sends an event of a session that works in a folder.
fn send_from(place: &Place, folder: &Path, id: &str, name: &str, more: &Value) -> Outcome {
    let mut event = json!({
        "permission_mode": "default", "transcript_path": "/nowhere/t", "session_id": id, "cwd": folder,
        "hook_event_name": name,
    });
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut hook = place.command(&["hook", "--client", "claude"]);
    hook.current_dir(folder);
    finish(hook, event.to_string().as_bytes())
}

/// A judge is started from a folder and answers.
fn judge_says(place: &Place, folder: &Path, id: &str, judge: &str, text: &str) {
    let input = json!({ "description": "d", "prompt": "p", "subagent_type": judge });
    let mut event = json!({ "tool_name": "Agent", "tool_input": input, "tool_use_id": id });
    let started = send_from(place, folder, "s1", "PreToolUse", &event).exit(0).json();
    event["tool_input"] = started["hookSpecificOutput"]["updatedInput"].clone();
    event["tool_response"] =
        json!({ "status": "completed", "content": [{ "type": "text", "text": text }] });
    send_from(place, folder, "s1", "PostToolUse", &event).exit(0);
}

/// A session goes from its prompt to a push.
fn goes_through(place: &Place, folder: &Path) {
    let send = |name: &str, more: &Value| send_from(place, folder, "s1", name, more);
    let path = folder.join("new.txt");
    let write = |id: &str| {
        let input = json!({ "file_path": path, "content": "new\n" });
        send("PreToolUse", &json!({ "tool_name": "Write", "tool_input": input, "tool_use_id": id }))
    };
    send("UserPromptSubmit", &json!({ "prompt": "add a file" })).exit(0);
    assert!(write("w0").exit(2).stderr.contains("prompt-hydrator"));
    let line =
        json!({ "tool_name": "Bash", "tool_input": { "command": "touch x" }, "tool_use_id": "b" });
    assert!(send("PreToolUse", &line).exit(2).stderr.contains("prompt-hydrator"));
    judge_says(place, folder, "h", "prompt-hydrator", &hydrated(place, "minor-edit"));
    judge_says(place, folder, "c", "critic", &super::criticised("PROCEED"));
    write("w1").exit(0);
    std::fs::write(&path, "new\n").unwrap();
    judge_says(place, folder, "q", "qa-verifier", &verified("VERIFIED"));
    judge_says(place, folder, "f", "framework", &reflected());
    let stopped = send("Stop", &json!({ "stop_hook_active": false })).exit(0);
    assert_eq!(stopped.text(), "", "{stopped}");
    send("SessionEnd", &json!({ "reason": "other" })).exit(0);
    place.run(&["verify"]).exit(0);
}

fn in_bare(core: &Core, path: &str) -> String {
    let bare = core.bare();
    let name = format!("main:{path}");
    git(&core.place, &["--git-dir", bare.to_str().unwrap(), "show", &name]).text().to_owned()
}

#[test]
fn a_session_in_a_sub_folder_is_one_of_the_project() {
    let core = Core::new();
    let folder = core.place.work().join("deep/er");
    std::fs::create_dir_all(&folder).unwrap();
    // The project's own AGENTS.md holds there; its CORE.md is that of the root, and not injected.
    let start = json!({ "source": "startup" });
    let started = told(&send_from(&core.place, &folder, "s1", "SessionStart", &start).exit(0));
    assert!(started.contains("Use the tracker.") && !started.contains("CORE.md"), "{started}");
    std::fs::write(folder.join("CORE.md"), "Deeper.\n").unwrap();
    std::fs::write(folder.join("AGENTS.md"), "Use it here, too.\n").unwrap();
    let resumed = json!({ "source": "resume" });
    let started = told(&send_from(&core.place, &folder, "s1", "SessionStart", &resumed).exit(0));
    for part in ["Deeper.", "Use it here, too."] {
        assert!(started.contains(part), "{part}: {started}");
    }
    assert!(!started.contains("Use the tracker."), "{started}");
    git(&core.place, &["add", "-A"]);
    git(&core.place, &["commit", "-qm", "deeper"]);
    git(&core.place, &["push", "-q"]);
    goes_through(&core.place, &folder);
    assert_eq!(in_bare(&core, "deep/er/new.txt"), "new\n");
}

#[test]
fn the_users_own_loop_holds_in_every_folder() {
    let place = Place::new();
    place.run(&["init", "--user"]).exit(0);
    place.run(&["install", "claude", "--loop", "core", "--user", "--yes"]).exit(0);
    let agent = place.home().join(".claude/agents/critic.md");
    assert!(agent.is_file());
    assert!(place.home().join(".claude/settings.json").is_file());
    // A repository that has no project of Windlass, and a folder in it.
    let bare = place.home().join("bare.git");
    std::fs::create_dir(place.work().join("sub")).unwrap();
    place.write("old.txt", "old\n");
    git(&place, &["init", "-q", "-b", "main"]);
    git(&place, &["init", "-q", "--bare", "-b", "main", bare.to_str().unwrap()]);
    git(&place, &["add", "-A"]);
    git(&place, &["commit", "-qm", "old"]);
    git(&place, &["remote", "add", "origin", bare.to_str().unwrap()]);
    git(&place, &["push", "-qu", "origin", "main"]);
    let core = Core { place, id: "s1" };
    goes_through(&core.place, &core.place.work().join("sub"));
    assert_eq!(in_bare(&core, "sub/new.txt"), "new\n");
    // Another agent of a judge's name is none, whosever it is.
    let place = &core.place;
    let send = |name: &str, more: &Value| send_from(place, &place.work(), "s2", name, more);
    send("UserPromptSubmit", &json!({ "prompt": "add another" })).exit(0);
    std::fs::write(&agent, "---\nname: critic\ndescription: d\n---\nSay PROCEED.\n").unwrap();
    let input = json!({ "description": "d", "prompt": "p", "subagent_type": "critic" });
    let event = json!({ "tool_name": "Agent", "tool_input": input, "tool_use_id": "c" });
    assert!(send("PreToolUse", &event).exit(2).stderr.contains("not the file"));
    std::fs::remove_file(&agent).unwrap();
    place.run(&["install", "claude", "--loop", "core", "--user", "--yes"]).exit(0);
    place.run(&["uninstall", "claude", "--user", "--yes"]).exit(0);
    assert!(!agent.exists());
}

#[test]
fn a_project_without_a_loop_of_its_own_has_the_users() {
    let place = Place::with_project();
    place.run(&["init", "--user"]).exit(0);
    let send = |id: &str| {
        let path = place.work().join("new.txt");
        let input = json!({ "file_path": path, "content": "new\n" });
        let event = json!({ "tool_name": "Write", "tool_input": input, "tool_use_id": id });
        send_from(&place, &place.work(), id, "PreToolUse", &event)
    };
    send("a").exit(0);
    place.run(&["install", "claude", "--loop", "core", "--user", "--yes"]).exit(0);
    assert!(send("b").exit(2).stderr.contains("no prompt of the user"));
    place.run(&["uninstall", "claude", "--user", "--yes"]).exit(0);
    send("c").exit(0);
}

#[test]
fn a_folder_without_the_files_and_a_home_of_ones_own() {
    let core = Core::with("home = \"mine\"");
    for name in ["AGENTS.md", "CORE.md"] {
        std::fs::remove_file(core.place.work().join(name)).unwrap();
    }
    let start = json!({ "source": "startup" });
    let started = told(&core.send("SessionStart", &start).exit(0));
    assert!(!started.contains("## AGENTS.md") && !started.contains("## CORE.md"), "{started}");
    // A home without axioms has those that come with Windlass.
    assert!(started.contains("## AXIOMS.md"), "{started}");
    core.place.write(".windlass/mine/AXIOMS.md", "1. Never touch prod.\n");
    let started = told(&core.send("SessionStart", &json!({ "source": "resume" })).exit(0));
    assert!(started.contains("## AXIOMS.md\n\n1. Never touch prod."), "{started}");
    let mut hook = core.place.command(&["hook", "--client", "claude"]);
    let env = core.place.home().join("env.sh");
    hook.env("CLAUDE_ENV_FILE", &env);
    let event = json!({
        "session_id": core.id, "cwd": core.place.work(), "hook_event_name": "SessionStart", "source": "resume",
        "transcript_path": "/nowhere/t",
    });
    finish(hook, event.to_string().as_bytes()).exit(0);
    let variables = std::fs::read_to_string(env).unwrap();
    let home = format!("export AOPS='{}'", core.place.work().join(".windlass/mine").display());
    assert!(variables.contains(&home), "{variables}");
}

#[test]
fn insights_lie_in_the_data_folder_that_is_set() {
    let core = Core::new();
    let data = core.place.home().join("data");
    core.prompt("what is this?").exit(0);
    core.judge_says("h", "prompt-hydrator", &hydrated(&core.place, "simple-question")).exit(0);
    let event = json!({
        "session_id": core.id, "cwd": core.place.work(), "hook_event_name": "Stop", "stop_hook_active": false,
        "transcript_path": "/nowhere/t",
    });
    let mut hook = core.place.command(&["hook", "--client", "claude"]);
    hook.env("ACA_DATA", &data);
    finish(hook, event.to_string().as_bytes()).exit(0);
    let written = std::fs::read_dir(data.join("sessions/insights")).unwrap().flatten();
    let names: Vec<String> = written.map(|file| file.file_name().into_string().unwrap()).collect();
    let [name] = names.as_slice() else { panic!("{names:?}") };
    let day = name.strip_suffix(&format!("-{}.json", core.id)).expect(name);
    assert!(day.len() == 10 && day.as_bytes()[4] == b'-' && day.as_bytes()[7] == b'-', "{name}");
    let state = core.state();
    assert_eq!(state["insights"]["session_id"], core.id);
    assert!(!core.place.home().join(".local/share/windlass/sessions").exists());
}

#[test]
fn no_cell_can_clear_a_block() {
    let core = Core::new();
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    core.judge_says("a", "custodiet", &audited("BLOCK")).exit(2);
    let program = core.place.work().join("windlass");
    std::fs::copy(env!("CARGO_BIN_EXE_windlass"), &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    for words in [
        format!("session clear-block {} --reason x", core.id),
        format!("work session clear-block {} --reason x", core.id),
        "session clear-block --by root --reason x".to_owned(),
    ] {
        let tried = core.place.run(&["cell", "--", &format!("./windlass {words}")]);
        assert!(tried.code != Some(0), "{tried}");
        assert!(tried.stderr.contains("inside a cell"), "{tried}");
        assert!(core.bash("r", "cat old.txt").exit(2).stderr.contains("BLOCKED"), "{words}");
    }
    core.place.run(&["session", "clear-block", core.id, "--reason", "seen"]).exit(0);
}

#[test]
fn the_state_names_the_task_and_the_judges() {
    let core = Core::new();
    core.prompt("add a file").exit(0);
    assert_eq!(core.state()["subagents"], json!({}));
    assert_eq!(core.state()["main_agent"]["current_task"], Value::Null);
    core.judge_says("h", "prompt-hydrator", &hydrated(&core.place, "minor-edit")).exit(0);
    core.judge_says("c", "critic", &super::criticised("PROCEED")).exit(0);
    core.judge_says("a", "custodiet", &audited("OK")).exit(0);
    let judges = core.state()["subagents"].clone();
    assert_eq!(judges["critic"]["verdict"], "PROCEED");
    assert_eq!(judges["critic"]["acceptance_criteria"], json!(["new.txt exists and is new"]));
    assert_eq!(judges["custodiet"]["result"], "OK");
    assert_eq!(judges["prompt-hydrator"]["result"], "minor-edit");
    assert!(judges["custodiet"]["last_invoked"].is_string(), "{judges}");
    assert_eq!(judges.as_object().unwrap().len(), 3);
    // The item of the tracker that the work is, from the next prompt on.
    core.prompt(". go on").exit(0);
    let items = core.place.run(&["work", "list", "--recent", "--json"]).exit(0).json();
    assert_eq!(items[0]["title"], "Add a file", "{items}");
    assert_eq!(core.state()["main_agent"]["current_task"], items[0]["id"]);
    // A new prompt has none before its plan is approved and told, unless earlier work is not closed.
    core.prompt("add another file").exit(0);
    assert_eq!(core.state()["main_agent"]["current_task"], items[0]["id"]);
    core.judge_says("h2", "prompt-hydrator", &hydrated(&core.place, "minor-edit")).exit(0);
    assert_eq!(core.state()["main_agent"]["current_task"], Value::Null);
}

#[test]
fn a_session_asks_a_memory_server() {
    let core =
        Core::with("\n[memory]\nserver = \"count\"\nretrieve_tool = \"get\"\nstore_tool = \"add\"");
    core.place.add_server();
    let asked = told(&core.prompt("add a file").exit(0));
    let file = asked.split_whitespace().find(|word| word.contains("windlass-hydrate-")).unwrap();
    let context = std::fs::read_to_string(file).unwrap();
    let memory = context.split("## ").find(|part| part.starts_with("Memory\n"));
    assert!(memory.is_some_and(|part| part.contains("- (count) {\"clients\":")), "{context}");
    // The agent stores through the same server, outside of its cell.
    let line = core.bash("m", "windlass memory add 'files are small'").exit(0).json();
    let line = line["hookSpecificOutput"]["updatedInput"]["command"].as_str().unwrap().to_owned();
    let before = core.place.executed();
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", &line]);
    core.place.settle(&mut shell);
    finish(shell, &[]).exit(0);
    assert_eq!(core.place.executed(), before + 1);
    // One that does not answer is told of, and the session goes on.
    core.place
        .write(".windlass/config.toml", "[memory]\nserver = \"count\"\nretrieve_tool = \"fail\"\n");
    let asked = told(&core.prompt("add a file").exit(0));
    assert!(asked.contains("prompt-hydrator") && asked.to_lowercase().contains("memor"), "{asked}");
}

/// A session that only answers a question, with a record of the client.
fn ask(place: Place, id: &'static str, ends: bool) -> Place {
    let core = Core { place, id };
    core.prompt("what is this?").exit(0);
    core.judge_says("h", "prompt-hydrator", &hydrated(&core.place, "simple-question")).exit(0);
    let record = core.place.home().join(".claude/projects/-somewhere");
    std::fs::create_dir_all(&record).unwrap();
    let line =
        format!(r#"{{"type":"user","message":{{"role":"user","content":"asked in {id}"}}}}"#);
    std::fs::write(record.join(format!("{id}.jsonl")), line).unwrap();
    core.stop().exit(0);
    if ends {
        core.send("SessionEnd", &json!({ "reason": "other" })).exit(0);
    }
    core.place
}

/// The sessions that an agent has analysed.
fn analysed(place: &Place) -> Vec<String> {
    let folder = place.home().join(".local/share/windlass/sessions/insights");
    let read = |path: std::path::PathBuf| -> Value {
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    };
    let all = std::fs::read_dir(folder).unwrap().flatten().map(|file| read(file.path()));
    let rich = all.filter(|one| one["summary"] == "It was asked.");
    let mut ids: Vec<String> =
        rich.map(|one| one["session_id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

#[test]
fn insights_are_for_the_current_session_or_a_batch() {
    let core = Core::new();
    let place = ask(core.place, "ended-1", true);
    let place = ask(place, "ended-2", true);
    let place = ask(place, "open-1", false);
    let place = ask(place, "open-2", false);
    let answer = json!({
        "summary": "It was asked.", "outcome": "success", "accomplishments": ["an answer"], "friction_points": [],
        "proposed_changes": [], "learning_observations": [], "context_gaps": [], "skill_compliance": {},
        "user_mood": 0.5, "conversation_flow": ["asked"], "user_prompts": ["what is this?"],
    });
    let file = place.home().join("answers.json");
    let script = json!({ "phases": { "analyse": [{ "answer": answer }] } });
    std::fs::write(&file, script.to_string()).unwrap();
    let answers = ["--answers", file.to_str().unwrap()];
    // In the shell of a session it is this session; elsewhere the newest.
    let shown = place.run(&["session", "show", "open-1", "--json"]).exit(0).json();
    let run = shown["run_id"].as_str().unwrap_or_else(|| panic!("{shown}")).to_owned();
    let words = [&["session", "insights"][..], &answers].concat();
    place.run_with("WINDLASS_SESSION", &run, &words).exit(0);
    assert_eq!(analysed(&place), ["open-1"]);
    place.run(&words).exit(0);
    assert_eq!(analysed(&place), ["open-1", "open-2"]);
    // A batch: those that have ended and are not analysed.
    let batch = [&["session", "insights", "--batch"][..], &answers].concat();
    place.run(&batch).exit(0);
    assert_eq!(analysed(&place), ["ended-1", "ended-2", "open-1", "open-2"]);
    place.run(&batch).exit(0).says("every session that has ended is analysed");
    place.run(&["verify"]).exit(0);
}

#[test]
fn the_client_has_the_command_for_insights() {
    let core = Core::new();
    let path = ".claude/commands/session-insights.md";
    let text = core.place.read(path);
    assert!(text.contains("$ARGUMENTS"), "{text}");
    // Its lines are commands of ours that need no plan and no cell; the client asks the user before it runs one.
    core.prompt("/session-insights").exit(0);
    let lines: Vec<&str> = text.split('`').filter(|part| part.starts_with("windlass ")).collect();
    assert_eq!(
        lines,
        [
            "windlass session insights",
            "windlass session insights ID",
            "windlass session insights --batch"
        ]
    );
    for (number, line) in lines.into_iter().enumerate() {
        let mut hook = core.place.command(&["hook", "--client", "claude"]);
        hook.env("CLAUDE_CODE_ENTRYPOINT", "cli");
        let event = json!({
            "session_id": core.id, "cwd": core.place.work(), "hook_event_name": "PreToolUse", "tool_name": "Bash",
            "tool_use_id": format!("i{number}"), "tool_input": { "command": line }, "transcript_path": "/nowhere/t",
            "permission_mode": "default",
        });
        let asked = finish(hook, event.to_string().as_bytes()).exit(0).json();
        assert_eq!(asked["hookSpecificOutput"]["permissionDecision"], "ask", "{asked}");
        let given = asked["hookSpecificOutput"]["updatedInput"]["command"].as_str().unwrap();
        assert!(given.contains(" session insights") && !given.contains(" cell "), "{given}");
    }
    core.place.run(&["uninstall", "claude", "--yes"]).exit(0);
    assert!(!core.place.work().join(path).exists());
}

#[test]
fn a_transcript_is_written_at_each_stop() {
    let core = Core::new();
    core.prompt("what is this?").exit(0);
    core.judge_says("h", "prompt-hydrator", &hydrated(&core.place, "simple-question")).exit(0);
    // A client without a record has no transcript.
    core.stop().exit(0);
    let written = || {
        let file = |name: &str| {
            sessions_of(&core).map(|folder| folder.join(name)).find(|path| path.is_file())
        };
        (file("transcript.md"), file("transcript.json"))
    };
    assert_eq!(written(), (None, None));
    let record = core.place.home().join("record.jsonl");
    let key = format!("ghp_{}", "a".repeat(36));
    let lines = [
        r#"{"type":"user","message":{"content":"what is this?"}}"#.to_owned(),
        format!(
            r#"{{"type":"assistant","message":{{"content":[{{"type":"text","text":"It is {key}."}}]}}}}"#
        ),
    ];
    std::fs::write(&record, lines.join("\n")).unwrap();
    let stop = json!({ "stop_hook_active": false, "transcript_path": record });
    core.send("Stop", &stop).exit(0);
    let (Some(page), Some(turns)) = written() else { panic!("no transcript") };
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("## User\n\nwhat is this?") && page.contains("It is "), "{page}");
    assert!(!page.contains(&key), "{page}");
    let turns: Value = serde_json::from_slice(&std::fs::read(turns).unwrap()).unwrap();
    assert_eq!(turns[0]["text"], "what is this?", "{turns}");
    assert!(!turns.to_string().contains(&key), "{turns}");
    // It grows with the session, and the session says where it is.
    std::fs::write(&record, format!("{}\n{}", lines[0], lines[0])).unwrap();
    core.send("Stop", &stop).exit(0);
    let page = std::fs::read_to_string(written().0.unwrap()).unwrap();
    assert_eq!(page.matches("what is this?").count(), 2, "{page}");
    let shown = core.place.run(&["session", "transcript", core.id]).exit(0);
    assert!(shown.text().contains("transcript in "), "{shown}");
}

/// The folders of sessions in the client's own folder.
fn sessions_of(core: &Core) -> impl Iterator<Item = std::path::PathBuf> {
    let projects = std::fs::read_dir(core.place.home().join(".claude/projects")).unwrap().flatten();
    projects
        .flat_map(|project| std::fs::read_dir(project.path()).unwrap().flatten())
        .map(|session| session.path())
}
