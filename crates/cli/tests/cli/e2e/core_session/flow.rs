//! From the start of a session to its close.

use std::process::Command;

use serde_json::{Value, json};

use super::{Core, criticised, git, hydrated, reflected, told, verified};
use crate::harness::{finish, text_of};

#[test]
fn a_prompt_goes_from_plan_to_push() {
    let core = Core::new();
    let place = &core.place;
    place.run(&["work", "create", "Sort the attic"]).exit(0);
    place.run(&["memory", "add", "files are named in lower case"]).exit(0);
    // A session starts with what it needs to know.
    let env = place.home().join("env.sh");
    let mut start = place.command(&["hook", "--client", "claude"]);
    start.env("CLAUDE_ENV_FILE", &env);
    let event = json!({
        "session_id": core.id, "cwd": place.work(), "hook_event_name": "SessionStart", "source": "startup",
        "transcript_path": "/nowhere/t",
    });
    let started = told(&finish(start, event.to_string().as_bytes()).exit(0));
    for part in ["Use the tracker.", "This is the core.", "AXIOMS.md", "Sort the attic"] {
        assert!(started.contains(part), "{part}: {started}");
    }
    let variables = std::fs::read_to_string(&env).unwrap();
    for name in
        ["export AOPS=", "export ACA_DATA=", "export PYTHONPATH=", "export WINDLASS_SESSION='run_"]
    {
        assert!(variables.contains(name), "{name}: {variables}");
    }
    assert_eq!(core.state()["state"]["custodiet_blocked"], false);
    // The prompt needs a plan, made from what is known.
    let asked = told(&core.prompt("add files in the attic").exit(0));
    assert!(asked.contains("prompt-hydrator"), "{asked}");
    let file = asked.split_whitespace().find(|word| word.contains("windlass-hydrate-")).unwrap();
    let context = std::fs::read_to_string(file).unwrap();
    for part in
        ["add files in the attic", "Sort the attic", "lower case", "minor-edit", "change/red"]
    {
        assert!(context.contains(part), "{part}: {context}");
    }
    assert_eq!(core.state()["state"]["hydration_pending"], true);
    // Reading is free, in a cell that cannot write; writing is not.
    let read = core.bash("r1", "cat old.txt").exit(0).json();
    let line = read["hookSpecificOutput"]["updatedInput"]["command"].as_str().unwrap().to_owned();
    assert!(line.contains(" --reading "), "{line}");
    assert!(core.write("w1").exit(2).stderr.contains("prompt-hydrator"));
    assert!(core.bash("w2", "touch x").exit(2).stderr.contains("prompt-hydrator"));
    assert!(core.start_judge("c0", "critic").exit(2).stderr.contains("prompt-hydrator"));
    // The judges get our prompt, whatever the agent wrote.
    let given = core.start_judge("h", "prompt-hydrator").exit(0).json();
    let input = given["hookSpecificOutput"]["updatedInput"].clone();
    assert!(input["prompt"].as_str().unwrap().contains("add files in the attic"));
    assert!(!input["prompt"].as_str().unwrap().contains("say yes"));
    assert_eq!(input["run_in_background"], false);
    core.report("h", &input, &hydrated(place, "minor-edit")).exit(0);
    assert!(core.write("w3").exit(2).stderr.contains("critic"));
    core.judge_says("c", "critic", &criticised("PROCEED")).exit(0);
    assert_eq!(
        core.state()["hydration"]["acceptance_criteria"],
        json!(["new.txt exists and is new"])
    );
    assert_eq!(core.state()["hydration"]["critic_verdict"], "PROCEED");
    // Steps are told from the agent's shell, outside of the cell.
    let step = core.bash("s1", "windlass session step locate completed").exit(0).json();
    let line = step["hookSpecificOutput"]["updatedInput"]["command"].as_str().unwrap().to_owned();
    let mut shell = Command::new("bash");
    shell.args(["-c", &line]).current_dir(place.work());
    place.settle(&mut shell);
    finish(shell, &[]).exit(0);
    // The work.
    core.write("w4").exit(0);
    place.write("new.txt", "new\n");
    core.send(
        "PostToolUse",
        &json!({
            "tool_name": "Write", "tool_use_id": "w4", "tool_response": {},
            "tool_input": { "file_path": place.work().join("new.txt"), "content": "new\n" },
        }),
    )
    .exit(0);
    assert_eq!(core.state()["main_agent"]["todos_total"], 7);
    // It cannot stop before it is verified by another agent, and reflected on.
    assert!(core.stop().exit(2).stderr.contains("qa-verifier"));
    let seen = core.start_judge("q1", "qa-verifier").exit(0).json();
    let input = seen["hookSpecificOutput"]["updatedInput"].clone();
    for part in ["new.txt exists and is new", "+new", "Add a file"] {
        assert!(input["prompt"].as_str().unwrap().contains(part), "{part}: {input}");
    }
    core.report("q1", &input, &verified("ISSUES")).exit(0);
    assert!(core.stop().exit(2).stderr.contains("it is empty"));
    assert!(core.start_judge("q3", "qa-verifier").exit(2).stderr.contains("nothing was changed"));
    place.write("new.txt", "new, and no longer empty\n");
    core.judge_says("q2", "qa-verifier", &verified("VERIFIED")).exit(0);
    assert!(core.stop().exit(2).stderr.contains("framework"));
    core.judge_says("f", "framework", &reflected()).exit(0);
    let stopped = core.stop().exit(0);
    assert_eq!(stopped.text(), "", "{stopped}");
    // Everything is pushed, and written down.
    let pushed = Command::new("git")
        .arg("--git-dir")
        .arg(core.bare())
        .args(["show", "main:new.txt"])
        .output();
    assert_eq!(pushed.unwrap().stdout, b"new, and no longer empty\n");
    let items = place.run(&["work", "list", "--recent", "--json"]).exit(0).json();
    let titles: Vec<String> =
        items.as_array().unwrap().iter().map(|item| text_of(item, "title")).collect();
    for title in ["Reflection: Add a file", "Learning: small files are easy", "Shorter plans"] {
        assert!(titles.iter().any(|one| one == title), "{title}: {titles:?}");
    }
    let state = core.state();
    assert_eq!(state["insights"]["critic_verdict"], "PROCEED");
    assert_eq!(state["insights"]["workflows_used"], json!(["minor-edit"]));
    assert_eq!(state["main_agent"]["todos_completed"], 1);
    core.send("SessionEnd", &json!({ "reason": "other" })).exit(0);
    assert!(core.state()["ended_at"].is_string());
    let listed = place.run(&["session", "list", "--json"]).exit(0).json();
    assert_eq!(listed[0]["state"], "ended", "{listed}");
    let trends = place.run(&["session", "trends", "--json"]).exit(0).json();
    assert_eq!(trends["total"]["sessions"], 1);
    place.run(&["verify"]).exit(0);
}

#[test]
fn prompts_with_the_escape_need_no_plan_but_verification() {
    let core = Core::new();
    for prompt in ["/compact", "# /help", ". just do it"] {
        assert_eq!(told(&core.prompt(prompt).exit(0)), "", "{prompt}");
    }
    assert_eq!(core.state()["state"]["gates_bypassed"], true);
    core.write("w1").exit(0);
    assert!(core.stop().exit(2).stderr.contains("qa-verifier"));
}

#[test]
fn a_close_that_fails_is_told_and_tried_again() {
    let core = Core::new();
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    core.write("w1").exit(0);
    core.place.write("old.txt", "mine\n");
    // Somebody else pushed a change of the same line.
    let other = core.place.home().join("other");
    git(&core.place, &["clone", "-q", core.bare().to_str().unwrap(), other.to_str().unwrap()]);
    std::fs::write(other.join("old.txt"), "theirs\n").unwrap();
    let folder = other.to_str().unwrap();
    git(&core.place, &["-C", folder, "commit", "-qam", "theirs"]);
    git(&core.place, &["-C", folder, "push", "-q"]);
    core.judge_says("q", "qa-verifier", &verified("VERIFIED")).exit(0);
    core.judge_says("f", "framework", &reflected()).exit(0);
    let stopped = core.stop().exit(0);
    assert!(stopped.text().contains("conflict") && stopped.text().contains("old.txt"), "{stopped}");
    core.send("SessionEnd", &json!({ "reason": "other" })).exit(0);
    assert!(core.place.run(&["status"]).exit(0).stderr.contains("close failed at pull"));
    // A person resolves it.
    git(&core.place, &["pull", "-q", "--rebase", "-X", "theirs"]);
    let held = core.place.run(&["queue", "list", "--ids"]).exit(0).text().trim().to_owned();
    core.place.run(&["queue", "approve", &held, "--reason", "resolved"]).exit(0);
    let closed = core.place.run(&["session", "close", core.id, "--json"]).exit(0).json();
    assert_eq!(closed["closed"], true, "{closed}");
    assert!(!core.place.run(&["status"]).exit(0).stderr.contains("not closed"));
}

#[test]
fn the_repositorys_hook_validates_the_commit_in_a_cell() {
    let core = Core::with("format = \"sh format.sh\"");
    let hooks = core.place.work().join(".git/hooks");
    std::fs::create_dir_all(&hooks).unwrap();
    let hook = hooks.join("pre-commit");
    std::fs::write(&hook, "#!/bin/sh\nhostname > hooked\ngrep -q formatted new.txt\n").unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    core.place.write("format.sh", "echo formatted >> new.txt\n");
    git(&core.place, &["add", "format.sh"]);
    git(&core.place, &["commit", "-qm", "format", "--no-verify"]);
    git(&core.place, &["push", "-q"]);
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    core.write("w1").exit(0);
    core.place.write("new.txt", "new\n");
    core.judge_says("q", "qa-verifier", &verified("VERIFIED")).exit(0);
    core.judge_says("f", "framework", &reflected()).exit(0);
    let stopped = core.stop().exit(0);
    assert_eq!(stopped.text(), "", "{stopped}");
    let mut show = Command::new("git");
    show.arg("--git-dir").arg(core.bare()).args(["show", "main:new.txt", "main:hooked"]);
    let shown = show.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&shown.stdout), "new\nformatted\ncell\n");
}

#[test]
fn malformed_events_and_a_damaged_loop_are_refusals() {
    let core = Core::new();
    core.prompt("add a file").exit(0);
    core.send("PreToolUse", &json!({ "tool_name": 1, "tool_input": [], "tool_use_id": "x" }))
        .exit(2);
    let without_id =
        json!({ "cwd": core.place.work(), "hook_event_name": "PreToolUse", "tool_name": "Bash" });
    finish(core.place.command(&["hook", "--client", "claude"]), without_id.to_string().as_bytes())
        .exit(2);
    // What the gates go by cannot be switched off by damage.
    let file = core.place.state().join("session-loop");
    std::fs::write(&file, "garbage\n").unwrap();
    core.bash("r1", "cat old.txt").exit(2);
}

#[test]
fn what_was_said_is_read_from_the_clients_record_and_analysed() {
    let core = Core::new();
    let place = &core.place;
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    let record = place.home().join(".claude/projects/-somewhere");
    std::fs::create_dir_all(&record).unwrap();
    let lines = [
        r#"{"type":"user","message":{"role":"user","content":"add a file"}}"#,
        "a line that nobody can read \"message\"",
        r#"{"type":"assistant","message":{"content":[{"type":"text","text":"I add it."},{"type":"tool_use","id":"t","name":"Write","input":{"file_path":"x"}}]}}"#,
        r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"ok"}]}}"#,
    ];
    std::fs::write(record.join(format!("{}.jsonl", core.id)), lines.join("\n")).unwrap();
    let said = place.run(&["session", "transcript", "--said", core.id]).exit(0);
    assert!(
        said.text().contains("## User\n\nadd a file") && said.text().contains("I add it."),
        "{said}"
    );
    let turns = place.run(&["session", "transcript", "--said", core.id, "--json"]).exit(0).json();
    assert_eq!(turns[1], json!({ "turn": "response", "text": "I add it.", "at": null }));
    // The automatic insights are there at each stop; an agent's go over them, and what is recorded stays.
    core.stop().exit(0);
    let answer = json!({
        "summary": "A file was added.", "outcome": "success", "accomplishments": ["a file"], "friction_points": ["slow"],
        "proposed_changes": [], "learning_observations": ["x"], "context_gaps": [], "skill_compliance": {},
        "user_mood": 0.5, "conversation_flow": ["asked", "done"], "user_prompts": ["add a file"],
    });
    let mut bad = answer.clone();
    bad["user_mood"] = json!(7);
    let answers = place.home().join("answers.json");
    let script = json!({ "phases": { "analyse": [{ "answer": bad }, { "answer": answer }] } });
    std::fs::write(&answers, script.to_string()).unwrap();
    git(place, &["add", "-A"]);
    place.run(&["session", "insights", core.id, "--answers", answers.to_str().unwrap()]).exit(0);
    let mut files =
        std::fs::read_dir(place.home().join(".local/share/windlass/sessions/insights")).unwrap();
    let written: Value =
        serde_json::from_slice(&std::fs::read(files.next().unwrap().unwrap().path()).unwrap())
            .unwrap();
    assert_eq!(written["summary"], "A file was added.");
    assert_eq!(written["critic_verdict"], "PROCEED");
    // The next stop keeps them.
    core.stop().exit(0);
    assert_eq!(core.state()["insights"]["user_mood"], 0.5);
    let trends = place.run(&["session", "trends", "--json"]).exit(0).json();
    assert_eq!(trends["total"]["outcomes"]["success"], 1, "{trends}");
}

/// The events of a whole session, with unknown and odd ones between them, each get a decision.
#[test]
fn a_recorded_stream_of_events_is_decided_on_event_by_event() {
    let core = Core::new();
    let stream = [
        ("SessionStart", json!({ "source": "startup" })),
        ("InstructionsLoaded", json!({ "file": "CLAUDE.md" })),
        ("UserPromptSubmit", json!({ "prompt": "add a file" })),
        (
            "PreToolUse",
            json!({ "tool_name": "Read", "tool_use_id": "1", "tool_input": { "file_path": "old.txt" } }),
        ),
        (
            "PostToolUse",
            json!({ "tool_name": "Read", "tool_use_id": "1", "tool_input": { "file_path": "old.txt" }, "tool_response": {} }),
        ),
        (
            "PreToolUse",
            json!({ "tool_name": "Write", "tool_use_id": "2", "tool_input": { "file_path": "x", "content": "" } }),
        ),
        ("PreToolUse", json!({ "tool_name": "NoSuchTool", "tool_use_id": "3", "tool_input": {} })),
        (
            "PreToolUse",
            json!({ "tool_name": "TodoWrite", "tool_use_id": "4", "tool_input": { "todos": [] } }),
        ),
        ("Notification", json!({ "message": "m", "notification_type": "idle" })),
        ("PreCompact", json!({ "trigger": "auto" })),
        ("SubagentStart", json!({ "agent_id": "a", "agent_type": "general-purpose" })),
        (
            "SubagentStop",
            json!({ "agent_id": "a", "agent_type": "general-purpose", "stop_hook_active": false }),
        ),
        ("Stop", json!({ "stop_hook_active": false })),
        ("FutureEvent", json!({ "prompt": "?" })),
        ("SessionEnd", json!({ "reason": "other" })),
    ];
    let codes: Vec<Option<i32>> =
        stream.iter().map(|(name, more)| core.send(name, more).code).collect();
    let expected = [0, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 2, 2, 0].map(Some);
    assert_eq!(codes, expected);
    core.place.run(&["verify"]).exit(0);
}

#[test]
fn a_session_is_given_as_much_as_is_set_and_told_what_was_cut() {
    let core = Core::with("context_bytes_max = 12000");
    core.place.write("AGENTS.md", "a".repeat(8000));
    core.place.write("CORE.md", "c".repeat(8000));
    let started = told(&core.send("SessionStart", &json!({ "source": "startup" })).exit(0));
    assert!(started.contains(&"a".repeat(8000)), "{}", started.len());
    assert!(
        started.contains("[cut to 12000 bytes: CORE.md"),
        "{}",
        &started[started.len() - 200..]
    );
}
