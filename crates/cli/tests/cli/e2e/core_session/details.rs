//! What agents are given and told, and where things are kept.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::{Core, audited, criticised, git, hydrated, reflected, told, verified};
use crate::harness::{finish, text_of};

fn prompt_of(core: &Core, id: &str, judge: &str) -> String {
    let started = core.start_judge(id, judge).exit(0).json();
    started["hookSpecificOutput"]["updatedInput"]["prompt"].as_str().unwrap().to_owned()
}

#[test]
fn judges_have_their_models_checks_and_the_tracker() {
    let core = Core::new();
    for (judge, model, words) in [
        ("prompt-hydrator", "haiku", &["workflow", "acceptance_criteria"][..]),
        (
            "critic",
            "opus",
            &[
                "logical_errors",
                "unstated_assumptions",
                "missing_verification",
                "scope_drift",
                "missing_edge_cases",
                "feasibility",
            ],
        ),
        ("custodiet", "haiku", &["axioms", "scope_drift", "ultra_vires"]),
        (
            "qa-verifier",
            "opus",
            // The last two: how a gate is judged that wants a test first.
            &["intent", "criteria", "tests", "documentation", "errors", "`tdd`", "failed before"],
        ),
        ("framework", "sonnet", &["## Framework Reflection", "Root cause", "Proposed change"]),
    ] {
        let file = core.place.read(&format!(".claude/agents/{judge}.md"));
        assert!(file.contains(&format!("\nmodel: {model}\n")), "{judge}");
        assert!(file.contains("windlass work") && file.contains("JSON"), "{judge}");
        for word in words {
            assert!(file.contains(word), "{judge}: {word}");
        }
    }
    // Taken out, sessions are free again.
    core.place.run(&["uninstall", "claude", "--yes"]).exit(0);
    assert!(!core.place.work().join(".claude/agents/critic.md").exists());
    core.prompt("add a file").exit(0);
    core.write("w").exit(0);
}

#[test]
fn the_hydrator_is_given_work_memory_and_conversation() {
    let core = Core::new();
    let place = &core.place;
    let create = |title: &str, more: &[&str]| {
        let words = [&["work", "create", "--json"][..], more, &[title]].concat();
        text_of(&place.run(&words).exit(0).json(), "id")
    };
    let user = std::env::var("USER").unwrap_or_else(|_| "root".to_owned());
    create("assigned to me", &["--assignee", &user]);
    let (first, second) = (create("comes first", &[]), create("comes second", &[]));
    place.run(&["work", "link", &first, &second, "--as", "blocks"]).exit(0);
    let record = place.home().join("record.jsonl");
    let lines = [
        r#"{"type":"user","message":{"content":"an earlier wish"}}"#,
        r#"{"type":"assistant","message":{"content":[{"type":"text","text":"an earlier answer"},{"type":"tool_use","id":"t","name":"Grep","input":{"pattern":"xyz"}}]}}"#,
    ];
    std::fs::write(&record, lines.join("\n")).unwrap();
    let event = json!({ "prompt": "go on", "transcript_path": record });
    core.send("UserPromptSubmit", &event).exit(0);
    let given = prompt_of(&core, "h", "prompt-hydrator");
    for part in [
        "comes second",
        &format!("blocked by {first}"),
        "an earlier wish",
        "an earlier answer",
        "Grep",
    ] {
        assert!(given.contains(part), "{part}: {given}");
    }
    // The agent is told the plan when it is made.
    let said = told(
        &core
            .report(
                "h",
                &json!({ "subagent_type": "prompt-hydrator" }),
                &hydrated(place, "minor-edit"),
            )
            .exit(0),
    );
    for part in ["Plan recorded: Add a file", "new.txt exists", "[change/red]", "Next: ", "critic"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn contexts_are_removed_after_an_hour_and_needed_for_a_prompt() {
    let core = Core::new();
    let folder = core.place.home().join("tmp");
    std::fs::create_dir(&folder).unwrap();
    let old = folder.join("windlass-hydrate-old.md");
    std::fs::write(&old, "old").unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(7200);
    std::fs::File::open(&old).unwrap().set_modified(long_ago).unwrap();
    let send = |folder: &std::path::Path| {
        let event = json!({
            "session_id": core.id, "cwd": core.place.work(), "hook_event_name": "UserPromptSubmit", "prompt": "p",
            "transcript_path": "/nowhere/t",
        });
        let mut command = core.place.command(&["hook", "--client", "claude"]);
        command.env("TMPDIR", folder);
        finish(command, event.to_string().as_bytes())
    };
    send(&folder).exit(0);
    assert!(!old.exists());
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    assert!(send(&folder.join("missing")).exit(2).stderr.contains("could not be written"));
}

#[test]
fn a_home_and_a_data_folder_of_ones_own_are_used() {
    let core = Core::with("home = \"mine\"");
    let place = &core.place;
    place.write(".windlass/mine/AXIOMS.md", "1. Never touch prod.\n");
    place.write(".windlass/mine/hydration-context.md", "MINE {{prompt}} {{workflows}}\n");
    let data = place.home().join("data");
    let with_data = |name: &str, more: Value| {
        let mut event = json!({
            "session_id": core.id, "cwd": place.work(), "hook_event_name": name, "transcript_path": "/nowhere/t",
        });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut command = place.command(&["hook", "--client", "claude"]);
        command.env("ACA_DATA", &data);
        finish(command, event.to_string().as_bytes())
    };
    let started = told(&with_data("SessionStart", json!({ "source": "startup" })).exit(0));
    assert!(
        started.contains("Never touch prod.") && started.contains("The core loop"),
        "{started}"
    );
    with_data("UserPromptSubmit", json!({ "prompt": "what?" })).exit(0);
    assert!(prompt_of(&core, "h", "prompt-hydrator").contains("MINE what?"));
    core.report(
        "h",
        &json!({ "subagent_type": "prompt-hydrator" }),
        &hydrated(place, "simple-question"),
    )
    .exit(0);
    with_data("Stop", json!({ "stop_hook_active": false })).exit(0);
    assert_eq!(std::fs::read_dir(data.join("sessions/insights")).unwrap().count(), 1);
}

#[test]
fn the_tracker_has_steps_blocks_and_what_was_learned() {
    let core = Core::new();
    let place = &core.place;
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    place.run(&["session", "step", "locate", "in_progress"]).exit(0);
    place.run(&["session", "step", "nowhere", "completed"]).fails_with(2, "REQUEST_INVALID");
    core.write("w1").exit(0);
    place.write("new.txt", "new\n");
    // Commits that are not pushed are work that the verifier sees.
    git(place, &["add", "new.txt"]);
    git(place, &["commit", "-qm", "by the agent"]);
    assert!(prompt_of(&core, "q0", "qa-verifier").contains("+new"));
    core.judge_says("q", "qa-verifier", &verified("VERIFIED")).exit(0);
    core.judge_says("f", "framework", &reflected()).exit(0);
    core.stop().exit(0);
    let items = place.run(&["work", "list", "--recent", "--json"]).exit(0).json();
    let find = |title: &str| {
        let all = items.as_array().unwrap();
        all.iter()
            .find(|item| item["title"] == title)
            .unwrap_or_else(|| panic!("{title}: {items}"))
            .clone()
    };
    let work = find("Add a file");
    assert_eq!(work["status"], "closed");
    assert!(text_of(&work, "description").contains("locate: in_progress"), "{work}");
    assert_eq!(
        find("Shorter plans")["type"].as_str().or(find("Shorter plans")["kind"].as_str()),
        Some("feature")
    );
    assert!(find("Reflection: Add a file")["labels"].to_string().contains("session-run_"));
    // The next reflection is given the earlier ones, and what was said.
    core.prompt("again").exit(0);
    let record = place.home().join("r.jsonl");
    std::fs::write(&record, r#"{"type":"user","message":{"content":"the user said this"}}"#)
        .unwrap();
    let input = json!({ "description": "d", "prompt": "p", "subagent_type": "framework" });
    let event = json!({ "tool_name": "Agent", "tool_input": input, "tool_use_id": "f2", "transcript_path": record });
    let started = core.send("PreToolUse", &event).exit(0).json();
    let given =
        started["hookSpecificOutput"]["updatedInput"]["prompt"].as_str().unwrap().to_owned();
    assert!(
        given.contains("Reflection: Add a file") && given.contains("the user said this"),
        "{given}"
    );
    // A block says what was done and what is wrong.
    core.plan("minor-edit");
    core.judge_says("a", "custodiet", &audited("BLOCK")).exit(2);
    place.run(&["session", "clear-block", core.id, "--reason", "seen"]).exit(0);
    core.prompt("go on").exit(0);
    let items = place.run(&["work", "list", "--recent", "--json"]).exit(0).json();
    let block = items
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item["title"] == "Blocked: scope drift")
        .unwrap()
        .clone();
    for part in ["Prompt: again", "0 of 7 steps", "Principle: scope", "Correction: go back"] {
        assert!(text_of(&block, "description").contains(part), "{part}: {block}");
    }
}

#[test]
fn a_skill_opens_its_workflow_and_a_failing_hook_keeps_the_session_open() {
    let core = Core::new();
    core.prompt("run the skill").exit(0);
    core.judge_says("h", "prompt-hydrator", &hydrated(&core.place, "direct-skill")).exit(0);
    core.write("w1").exit(2);
    core.before("s", "Skill", &json!({ "skill": "release" })).exit(0);
    core.write("w2").exit(0);
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    core.place.write("new.txt", "new\n");
    let hook = core.place.work().join(".git/hooks/pre-commit");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, "#!/bin/sh\necho not like this; exit 1\n").unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    core.judge_says("q", "qa-verifier", &verified("VERIFIED")).exit(0);
    core.judge_says("f", "framework", &reflected()).exit(0);
    let stopped = core.stop().exit(0);
    assert!(
        stopped.text().contains("commit failed") && stopped.text().contains("not like this"),
        "{stopped}"
    );
    // An agent cannot clear a block, and what it says to the critic changes nothing.
    assert!(
        core.bash("b", "windlass session clear-block --reason x").exit(2).stderr.contains("person")
    );
    assert!(criticised("PROCEED").contains("PROCEED"));
}
