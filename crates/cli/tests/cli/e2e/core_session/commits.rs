//! What an event says is recorded in one commit, in its order, and what lies beside the journal is not believed without it.

use serde_json::{Value, json};

use super::{Core, audited, criticised, hydrated, told, verified};
use crate::harness::{Outcome, finish};

/// Sends an event to a hook that dies when it has come so far.
fn send_dying(core: &Core, at: &str, name: &str, more: &Value) -> Outcome {
    let mut event = json!({
        "permission_mode": "default", "transcript_path": "/nowhere/t", "session_id": core.id,
        "cwd": core.place.work(), "hook_event_name": name,
    });
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut hook = core.place.command(&["hook", "--client", "claude"]);
    hook.env("WINDLASS_CRASH_AT", at);
    finish(hook, event.to_string().as_bytes())
}

/// Sends an event that appends to the journal at most once. Who appends to a trace that is there takes its lease first,
/// which is a transaction, too: the hook would die before the third.
fn send_once(core: &Core, name: &str, more: &Value) -> Outcome {
    let answer = send_dying(core, "append.before:3", name, more);
    assert!(answer.code.is_some(), "{name} appends twice: {more}");
    answer
}

fn use_of(id: &str, tool: &str, input: &Value) -> Value {
    json!({ "tool_name": tool, "tool_input": input, "tool_use_id": id })
}

fn answer_of(id: &str, judge: &str, text: &str) -> Value {
    json!({
        "tool_name": "Agent", "tool_use_id": id, "tool_input": { "subagent_type": judge, "prompt": "p" },
        "tool_response": { "status": "completed", "content": [{ "type": "text", "text": text }] },
    })
}

#[test]
fn what_an_event_says_is_one_commit() {
    let core = Core::new();
    core.send("SessionStart", &json!({ "source": "startup" })).exit(0);
    let judge = |name: &str| json!({ "description": "d", "prompt": "p", "subagent_type": name });
    let path = core.place.work().join("new.txt");
    let file = json!({ "file_path": path, "content": "new\n" });
    // The point is passed: a hook that dies there records nothing and answers nothing.
    let prompt = json!({ "prompt": "add a file" });
    let died = send_dying(&core, "append.before:2", "UserPromptSubmit", &prompt);
    assert!(died.code.is_none() && died.stdout.is_empty(), "{died}");
    let shown = core.place.run(&["session", "show", core.id, "--json"]).exit(0).json();
    assert_eq!(shown["notes"].as_array().unwrap().len(), 1, "{shown}");
    send_once(&core, "UserPromptSubmit", &prompt).exit(0);
    send_once(&core, "SessionStart", &json!({ "source": "resume" })).exit(0);
    send_once(&core, "Notification", &json!({ "message": "m", "notification_type": "n" })).exit(0);
    send_once(&core, "PreCompact", &json!({ "trigger": "auto" })).exit(0);
    // A gate that is closed and its refusal, one that is open and its call, what a judge is given.
    send_once(&core, "PreToolUse", &use_of("w1", "Write", &file)).exit(2);
    let read = json!({ "command": "cat old.txt" });
    send_once(&core, "PreToolUse", &use_of("r1", "Bash", &read)).exit(0);
    send_once(&core, "PreToolUse", &use_of("h", "Agent", &judge("prompt-hydrator"))).exit(0);
    let plan = hydrated(&core.place, "minor-edit");
    send_once(&core, "PostToolUse", &answer_of("h", "prompt-hydrator", &plan)).exit(0);
    send_once(&core, "PreToolUse", &use_of("c", "Agent", &judge("critic"))).exit(0);
    let review = criticised("PROCEED");
    send_once(&core, "PostToolUse", &answer_of("c", "critic", &review)).exit(0);
    send_once(&core, "PreToolUse", &use_of("w2", "Write", &file)).exit(0);
    core.place.write("new.txt", "new\n");
    let mut report = use_of("w2", "Write", &file);
    report["tool_response"] = json!({});
    send_once(&core, "PostToolUse", &report).exit(0);
    // The event and what follows from it: the agent goes on; the answer of a judge in the background.
    send_once(&core, "Stop", &json!({ "stop_hook_active": false })).exit(2);
    core.start_judge("q", "qa-verifier").exit(0);
    let launched = json!({
        "tool_name": "Agent", "tool_use_id": "q", "tool_input": judge("qa-verifier"),
        "tool_response": { "status": "async_launched", "agentId": "b1" },
    });
    send_once(&core, "PostToolUse", &launched).exit(0);
    let ended = json!({
        "agent_id": "b1", "agent_type": "qa-verifier", "stop_hook_active": false,
        "last_assistant_message": verified("VERIFIED"),
    });
    send_once(&core, "SubagentStop", &ended).exit(0);
    assert_eq!(core.state()["subagents"]["qa-verifier"]["result"], "VERIFIED");
    // A block: the verdict, the flag and the log.
    core.start_judge("a", "custodiet").exit(0);
    let block = audited("BLOCK");
    send_once(&core, "PostToolUse", &answer_of("a", "custodiet", &block)).exit(2);
    send_once(&core, "UserPromptSubmit", &json!({ "prompt": "go on" })).exit(2);
    send_once(&core, "SessionStart", &json!({ "source": "resume" })).exit(2);
    send_once(&core, "PreToolUse", &use_of("w3", "Write", &file)).exit(2);
    core.place.run(&["verify"]).exit(0);
}

#[test]
fn a_skill_opens_its_gate_only_after_its_call_is_on_record() {
    let core = Core::new();
    core.prompt("run the skill").exit(0);
    core.judge_says("h", "prompt-hydrator", &hydrated(&core.place, "direct-skill")).exit(0);
    // Call and session are two traces: a hook that dies between them has handed the work to nobody.
    let skill = json!({ "skill": "release" });
    let died = send_dying(&core, "append.after:1", "PreToolUse", &use_of("s1", "Skill", &skill));
    assert!(died.code.is_none(), "{died}");
    assert!(core.write("w1").exit(2).stderr.contains("Skill"));
    core.before("s2", "Skill", &skill).exit(0);
    core.write("w2").exit(0);
}

#[test]
fn a_skill_that_the_policy_refuses_opens_no_gate() {
    let core = Core::new();
    let rule = "[[rule]]\nid = \"no-release\"\nverdict = \"deny\"\nreason = \"not now\"\ntool = \"client/slash-command\"\n\
                matches = [{ tool = \"client/slash-command\", args = { command = \"/release\" } }]\n";
    core.place.write(".windlass/policy/mine.toml", rule);
    core.prompt("run the skill").exit(0);
    core.judge_says("h", "prompt-hydrator", &hydrated(&core.place, "direct-skill")).exit(0);
    let command = json!({ "command": "/release" });
    assert!(core.before("s1", "SlashCommand", &command).exit(2).stderr.contains("not now"));
    assert!(core.write("w1").exit(2).stderr.contains("Skill"));
}

/// Changes the file beside the journal that has the state of the session.
fn change_progress(core: &Core, change: impl Fn(&str) -> String) {
    let folder = core.place.state().join("sessions");
    let files = std::fs::read_dir(folder).unwrap().flatten().map(|file| file.path());
    let mut files = files.filter(|path| path.to_string_lossy().ends_with("progress.json"));
    let path = files.next().expect("the file");
    let text = std::fs::read_to_string(&path).unwrap();
    let changed = change(&text);
    assert_ne!(changed, text);
    std::fs::write(&path, changed).unwrap();
}

/// The same progress with a value put in at a path of keys.
fn with(text: &str, keys: &[&str], value: Value) -> String {
    let mut all: Value = serde_json::from_str(text.trim_end()).unwrap();
    let mut place = &mut all["progress"];
    for key in keys {
        place = &mut place[*key];
    }
    assert_ne!(*place, value);
    *place = value;
    all.to_string()
}

#[test]
fn a_damaged_state_is_made_anew_from_the_journal() {
    let core = Core::with("audit_every = 1");
    core.prompt("add a file").exit(0);
    assert!(core.write("w1").exit(2).stderr.contains("prompt-hydrator"));
    change_progress(&core, |text| {
        with(text, &["core", "state", "plan"], json!({ "is": "skipped", "reason": "r" }))
    });
    assert!(core.write("w2").exit(2).stderr.contains("prompt-hydrator"));
    core.plan("minor-edit");
    // An audit that is due stays so, and one that could not be read is none.
    core.bash("r1", "cat old.txt").exit(0);
    core.judge_says("a1", "custodiet", "I think it is OK").exit(0);
    for id in ["w3", "w4"] {
        change_progress(&core, |text| with(text, &["core", "counters", "audit_due"], json!(false)));
        assert!(core.write(id).exit(2).stderr.contains("custodiet"));
    }
    core.judge_says("a2", "custodiet", &audited("BLOCK")).exit(2);
    change_progress(&core, |text| with(text, &["core", "state", "blocked"], Value::Null));
    assert!(core.bash("r2", "cat old.txt").exit(2).stderr.contains("BLOCKED"));
    // Half of a file, as a process that died may leave it.
    change_progress(&core, |text| text[..text.len() / 2].to_owned());
    assert!(core.bash("r3", "cat old.txt").exit(2).stderr.contains("BLOCKED"));
    core.place.run(&["session", "clear-block", core.id, "--reason", "seen"]).exit(0);
    // What was counted goes on where the journal has it.
    change_progress(&core, |_| "{}".to_owned());
    core.prompt("again").exit(0);
    let shown = core.place.run(&["session", "show", core.id, "--json"]).exit(0).json();
    let prompts: Vec<&Value> =
        shown["notes"].as_array().unwrap().iter().map(|note| &note["note"]).collect();
    let numbers: Vec<&Value> = prompts
        .iter()
        .filter(|note| note["note"] == "prompt")
        .map(|note| &note["number"])
        .collect();
    assert_eq!(numbers, [1, 2], "{shown}");
}

#[test]
fn an_audit_that_nobody_can_read_ends_with_a_person() {
    let core = Core::with("audit_every = 1\nrefusals_max = 2");
    core.prompt("add a file").exit(0);
    core.plan("minor-edit");
    core.bash("r1", "cat old.txt").exit(0);
    for round in 0..2 {
        let said = told(&core.judge_says(&format!("a{round}"), "custodiet", "fine").exit(0));
        assert!(said.contains("cannot be used") && said.contains("custodiet"), "{said}");
        assert!(core.write(&format!("w{round}")).exit(2).stderr.contains("custodiet"));
    }
    core.judge_says("a9", "custodiet", "fine").exit(0);
    let asked = core.write("w9").exit(2);
    assert!(asked.stderr.contains("windlass call approve"), "{asked}");
    // Reading stays free.
    core.bash("r2", "cat old.txt").exit(0);
}

#[test]
fn a_session_with_a_waiting_call_is_shown_as_not_closed() {
    let core = Core::with("refusals_max = 0");
    core.prompt("what is this?").exit(0);
    core.judge_says("h", "prompt-hydrator", &hydrated(&core.place, "simple-question")).exit(0);
    assert!(core.write("w").exit(2).stderr.contains("windlass call approve"));
    core.stop().exit(0);
    // While it goes on it is not left.
    assert!(!core.place.run(&["status"]).exit(0).stderr.contains("not closed"));
    core.send("SessionEnd", &json!({ "reason": "other" })).exit(0);
    let status = core.place.run(&["status"]).exit(0);
    assert!(status.stderr.contains("not closed: run_"), "{status}");
    assert!(status.stderr.contains("a call waits for a person's decision"), "{status}");
    let next = Core { place: core.place, id: "another-1" };
    let started = told(&next.send("SessionStart", &json!({ "source": "startup" })).exit(0));
    assert!(started.contains("a call waits for a person's decision"), "{started}");
    let calls = next.place.run(&["call", "list", "--json"]).exit(0).json();
    let waiting = calls.as_array().unwrap().iter().find(|call| call["current_state"] == "PENDING");
    let id = waiting.expect("the call")["trace_id"].as_str().unwrap().to_owned();
    next.place.run(&["call", "deny", &id, "--reason", "no"]).exit(0);
    assert!(!next.place.run(&["status"]).exit(0).stderr.contains("not closed"));
}
