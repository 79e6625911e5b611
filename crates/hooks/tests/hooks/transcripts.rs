//! Transcripts that the real clients wrote, with the hook events of the same sessions.
//!
//! Recorded with a scripted model and a hook that refuses commands with `DENY` and changes those with `REWRITE`; then
//! shortened. An `.events.jsonl` has the hook events of the session whose transcript has the same name.

use serde_json::{Value, json};
use windlass_hooks::{
    Client, EventKind, HookEvent, Mapping, ToolTable, ToolUse, Transcript, TranscriptUse,
    UseOutcome, read_transcript,
};

macro_rules! recorded {
    ($name:literal) => {
        include_bytes!(concat!("transcripts/", $name, ".jsonl")).as_slice()
    };
}

/// All transcripts.
pub const ALL: [(Client, &[u8]); 18] = [
    (Client::Claude, recorded!("claude-permissions")),
    (Client::Claude, recorded!("claude-permissions.subagent")),
    (Client::Claude, recorded!("claude-failures")),
    (Client::Claude, recorded!("claude-failures.subagent")),
    (Client::Claude, recorded!("claude-interrupts")),
    (Client::Claude, recorded!("claude-killed")),
    (Client::Claude, recorded!("claude-deferred")),
    (Client::Codex, recorded!("codex-direct")),
    (Client::Codex, recorded!("codex-code")),
    (Client::Codex, recorded!("codex-agents")),
    (Client::Codex, recorded!("codex-agents.subagent")),
    (Client::Codex, recorded!("codex-interrupted")),
    (Client::Codex, recorded!("codex-approvals")),
    (Client::Codex, recorded!("codex-approvals.code")),
    (Client::Gemini, recorded!("gemini-uses")),
    (Client::Gemini, recorded!("gemini-halted")),
    (Client::Gemini, recorded!("gemini-agents")),
    (Client::Gemini, recorded!("gemini-agents.subagent")),
];

fn read(client: Client, bytes: &[u8]) -> Transcript {
    read_transcript(client, bytes).unwrap()
}

/// The tool, the most telling part of the input, and the outcome of each use.
fn shown(transcript: &Transcript) -> Vec<(&str, String, UseOutcome)> {
    let fields = ["command", "file_path", "chars", "t", "path", "script", "query", "task_id"];
    let telling = |input: &Value| {
        let field = fields.iter().find_map(|field| input.get(field)).unwrap_or(input);
        let text = field.as_str().map_or_else(|| field.to_string(), str::to_owned);
        let line = text.lines().find(|line| !line.starts_with("***")).unwrap_or_default();
        line.chars().take(24).collect()
    };
    transcript.uses.iter().map(|u| (u.tool.as_str(), telling(&u.input), u.outcome)).collect()
}

#[track_caller]
fn shows(client: Client, bytes: &[u8], expected: &[(&str, &str, UseOutcome)]) -> Transcript {
    let transcript = read(client, bytes);
    let expected: Vec<_> = expected.iter().map(|(t, i, o)| (*t, (*i).to_owned(), *o)).collect();
    assert_eq!(shown(&transcript), expected);
    assert!(!transcript.is_incomplete);
    transcript
}

/// The tool uses that hooks were asked about, and those that were reported afterwards.
fn events(client: Client, bytes: &[u8]) -> (Vec<ToolUse>, Vec<ToolUse>) {
    let mut uses = (Vec::new(), Vec::new());
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match HookEvent::parse(line, Some(client)).unwrap().kind {
            EventKind::BeforeTool(tool_use) => uses.0.push(tool_use),
            EventKind::AfterTool { tool_use, .. } => uses.1.push(tool_use),
            other => unreachable!("{other:?}"),
        }
    }
    uses
}

fn find<'a>(uses: &'a [TranscriptUse], id: Option<&str>) -> Option<&'a TranscriptUse> {
    uses.iter().find(|tool_use| tool_use.id.as_deref() == id)
}

use UseOutcome::{MayHaveRun, Ran, Refused, Unknown};

#[test]
fn claude_tells_what_was_refused_by_hooks_permissions_and_checks_of_input() {
    let transcript = shows(
        Client::Claude,
        recorded!("claude-permissions"),
        &[
            ("Bash", "echo one > a.txt", Refused),
            ("Bash", "echo DENY", Refused),
            ("Bash", "echo DENYJSON", Refused),
            ("Bash", "echo REWRITE", Ran),
            ("Bash", "exit 3", Refused),
            ("Bash", "curl x", Refused),
            ("Bash", "touch /etc/zzz", Refused),
            ("Read", "/nonexistent/zzz", Refused),
            ("Bash", "{\"nocommand\":1}", Refused),
            ("Nonesuch", "{\"x\":1}", Refused),
            ("Bash", "sleep 1; echo bg", Ran),
            ("Bash", "echo ASKME", Refused),
            ("Bash", "sleep 5", Ran),
            ("Write", "/etc/zzz", Refused),
            ("Bash", "echo DENY p1", Refused),
            ("Bash", "echo p2", Ran),
            ("Bash", "exit 4", Refused),
            ("Agent", "{\"description\":\"sub\",\"pr", Ran),
        ],
    );
    assert_eq!(transcript.session.as_deref(), Some("cc9cef0f-a30d-4de1-bafc-cd423f4a6cc1"));
    assert_eq!(transcript.cwd.as_deref(), Some("/srv/project"));
    assert!(transcript.uses.iter().all(|tool_use| !tool_use.subagent));
}

#[test]
fn a_failed_tool_of_claude_ran_even_if_it_prints_what_the_client_says_of_refused_ones() {
    shows(
        Client::Claude,
        recorded!("claude-failures"),
        &[
            ("Bash", "exit 3", Ran),
            ("Read", "/nonexistent/zzz", Ran),
            ("Edit", "/nonexistent/zzz", Refused),
            ("Read", "PROJ/bin.exe", Refused),
            ("WebFetch", "{\"prompt\":\"p\",\"url\":\"htt", Ran),
            ("Grep", "{\"pattern\":\"(\"}", Refused),
            ("TaskOutput", "zz", Refused),
            ("TaskStop", "zz", Refused),
            ("Skill", "{\"skill\":\"nonesuch\"}", Refused),
            ("mcp__m__fail", "{}", Ran),
            ("mcp__m__echo", "x", Ran),
            ("Agent", "{\"description\":\"sub\",\"pr", Ran),
            ("ToolSearch", "select:WebFetch", Ran),
            ("Bash", "sleep 1; exit 5", Ran),
            ("Bash", "sleep 3; echo p2", Ran),
            ("Bash", "sleep 3; echo p3", Ran),
            ("Agent", "{\"description\":\"sub\",\"pr", Ran),
            ("Bash", "sleep 2", Ran),
            ("Bash", "echo HALT", Refused),
            ("Bash", "echo sib", Ran),
        ],
    );
    // Without the client's decision, as other versions write it: the client's own record has no tag.
    let line = |own: &str| {
        let call = json!({ "type": "assistant", "message": { "content": [
            { "type": "tool_use", "id": "t", "name": "mcp__m__x", "input": {} }
        ]}});
        let result = json!({ "type": "user", "toolUseResult": own, "message": { "content": [
            { "type": "tool_result", "tool_use_id": "t", "is_error": true,
              "content": "<tool_use_error>No such tool</tool_use_error>" }
        ]}});
        read(Client::Claude, format!("{call}\n{result}\n").as_bytes()).uses[0].outcome
    };
    assert_eq!(line("Error: No such tool"), Refused);
    assert_eq!(line("Error: <tool_use_error>No such tool</tool_use_error>"), Ran);
}

#[test]
fn an_interrupted_use_of_claude_may_have_run() {
    // The first was refused by a person, the next two ran for seconds, the last waited for permission: the client
    // writes the same for these three.
    let interrupted = [
        ("Bash", "echo ASKUSER-deny", Refused),
        ("Bash", "sleep 20", MayHaveRun),
        ("Bash", "sleep 21", MayHaveRun),
        ("Bash", "echo pending", MayHaveRun),
    ];
    shows(Client::Claude, recorded!("claude-interrupts"), &interrupted);
    let killed = [
        ("Bash", "echo first", Ran),
        ("Bash", "sleep 15", MayHaveRun),
        ("Bash", "sleep 16", MayHaveRun),
    ];
    shows(Client::Claude, recorded!("claude-killed"), &killed);
    shows(Client::Claude, recorded!("claude-deferred"), &[("Bash", "echo DEFER", Unknown)]);
}

#[test]
fn subagents_of_claude_are_told_apart() {
    for bytes in [recorded!("claude-permissions.subagent"), recorded!("claude-failures.subagent")] {
        let expected = [("Bash", "echo sub", Ran), ("Bash", "echo DENY sub", Refused)];
        let transcript = shows(Client::Claude, bytes, &expected);
        assert!(transcript.uses.iter().all(|tool_use| tool_use.subagent));
        assert!(transcript.session.is_some());
    }
}

#[test]
fn codex_tells_what_was_refused_by_hooks_and_checks_of_input() {
    let transcript = shows(
        Client::Codex,
        recorded!("codex-direct"),
        &[
            ("Bash", "echo one > a.txt", Ran),
            ("Bash", "echo DENY", Refused),
            ("Bash", "echo DENYJSON", Refused),
            ("Bash", "echo REWRITE", Ran),
            ("Bash", "exit 3", Ran),
            ("Bash", "touch /etc/zzz-no", Ran),
            ("apply_patch", "+hello", Ran),
            ("apply_patch", "+DENY", Refused),
            ("apply_patch", "@@", Ran),
            ("exec_command", "{\"nocmd\":1}", Refused),
            ("nonesuch", "{\"x\":1}", Refused),
            ("Bash", "cat", Ran),
            ("write_stdin", "hello", Refused),
            ("write_stdin", "hello", Ran),
            ("Bash", "sleep 3; echo bg", Ran),
            ("view_image", "/nonexistent.png", Ran),
            ("Bash", "[\"bash\",\"-lc\",\"echo shel", Refused),
            ("Bash", "echo shellcmd", Refused),
            ("Bash", "[\"bash\",\"-lc\",\"echo ls\"]", Unknown),
        ],
    );
    assert_eq!(transcript.session.as_deref(), Some("01a1ea1f-b48b-7660-b510-c1b1dee0f49a"));
    assert_eq!(transcript.cwd.as_deref(), Some("/srv/project"));
}

#[test]
fn scripts_of_codex_show_the_tools_that_ran_in_them() {
    shows(
        Client::Codex,
        recorded!("codex-code"),
        &[
            ("Bash", "echo one > a.txt", Ran),
            ("Bash", "echo rewritten", Ran),
            ("Bash", "exit 3", Ran),
            ("apply_patch", "{\"changes\":{\"/srv/projec", Ran),
            ("write_stdin", "const r = await tools.ex", MayHaveRun),
            // The client's own approval was missing.
            ("mcp__m__echo", "x", Refused),
            ("sleep", "{\"seconds\":1}", Refused),
            ("spawn_agent", "{\"agent_type\":\"default\",", Refused),
            ("wait_agent", "{}", Refused),
            ("Bash", "cat", Ran),
        ],
    );
}

#[test]
fn a_subagent_of_codex_does_not_show_what_it_copied() {
    let main = shows(
        Client::Codex,
        recorded!("codex-agents"),
        &[
            ("mcp__m__echo", "x", Ran),
            // It failed with the words of a refusal by a hook.
            ("mcp__m__fail", "{}", Ran),
            ("list_mcp_resources", "{}", Ran),
            ("write_stdin", "const r = await tools.ex", MayHaveRun),
            ("Bash", "cat", Ran),
            ("collaborationspawn_agent", "{\"agent_type\":\"default\",", Ran),
            ("collaborationwait_agent", "{}", Ran),
        ],
    );
    let expected = [("collaborationwait_agent", "{}", Ran)];
    let subagent = shows(Client::Codex, recorded!("codex-agents.subagent"), &expected);
    assert_eq!(subagent.session, main.session);
    assert!(subagent.uses[0].subagent);
    assert!(!main.uses[0].subagent);
}

#[test]
fn an_interrupted_command_of_codex_ran_if_an_item_says_so() {
    let recorded = recorded!("codex-interrupted");
    let expected = [("Bash", "sleep 20", Ran), ("Bash", "sleep 21", Ran)];
    shows(Client::Codex, recorded, &expected);
    let text = std::str::from_utf8(recorded).unwrap();
    let lines = text.split_inclusive('\n').filter(|line| !line.contains("item_completed"));
    let expected = [("Bash", "sleep 20", MayHaveRun), ("Bash", "sleep 21", MayHaveRun)];
    shows(Client::Codex, lines.collect::<String>().as_bytes(), &expected);
}

#[test]
fn what_a_person_refuses_in_codex_did_not_run() {
    // The third was refused by ending the turn, for which Codex writes the same as for a command that ran.
    let direct = [
        ("Bash", "touch q1.txt", Refused),
        ("apply_patch", "+hello", MayHaveRun),
        ("Bash", "touch q2.txt", MayHaveRun),
    ];
    shows(Client::Codex, recorded!("codex-approvals"), &direct);
    // A refused command in a script leaves no trace.
    let in_scripts = [("apply_patch", "{\"changes\":{\"/srv/projec", MayHaveRun)];
    shows(Client::Codex, recorded!("codex-approvals.code"), &in_scripts);
}

#[test]
fn what_a_person_enters_in_codex_is_no_use_of_the_agent() {
    let item = |source: &str| {
        let line = json!({ "type": "event_msg", "payload": { "type": "item_completed", "item": {
            "type": "CommandExecution", "id": "c", "command": ["/bin/bash", "-lc", "ls"],
            "source": source, "status": "completed",
        }}});
        let transcript = read(Client::Codex, line.to_string().as_bytes());
        transcript.uses.first().map(|tool_use| (tool_use.tool.clone(), tool_use.input.clone()))
    };
    let found = |tool: &str| Some((tool.to_owned(), json!({ "command": "ls" })));
    assert_eq!(item("user_shell"), None);
    assert_eq!(item("unified_exec_startup"), found("Bash"));
    assert_eq!(item("unified_exec_interaction"), found("write_stdin"));
}

#[test]
fn gemini_tells_what_was_refused_by_hooks_policy_and_checks_of_input() {
    let transcript = shows(
        Client::Gemini,
        recorded!("gemini-uses"),
        &[
            ("run_shell_command", "echo one > a.txt", Ran),
            ("run_shell_command", "echo DENY", Refused),
            ("run_shell_command", "echo DENYJSON", Refused),
            ("run_shell_command", "echo rewritten", Ran),
            ("run_shell_command", "exit 3", Ran),
            ("read_file", "nonexistent.txt", Ran),
            ("run_shell_command", "{\"nocommand\":1}", Refused),
            ("nonesuch", "{\"x\":1}", Refused),
            ("write_file", "w.txt", Ran),
            ("write_file", "/etc/zzz", Refused),
            ("run_shell_command", "curl x", Refused),
            ("run_shell_command", "sleep 2; echo bg", Ran),
            ("mcp_m_echo", "x", Ran),
            ("mcp_m_fail", "{}", Ran),
            ("read_file", "a.txt", Ran),
            ("run_shell_command", "echo DENY p1", Refused),
            ("run_shell_command", "echo p2", Ran),
            ("invoke_agent", "{\"agent_name\":\"generalis", Ran),
        ],
    );
    assert_eq!(transcript.session.as_deref(), Some("8881b7b8-8480-459a-ba1b-e5ea0259cf14"));
    assert_eq!(transcript.cwd, None);
    let halted =
        [("run_shell_command", "echo HALT", MayHaveRun), ("run_shell_command", "echo after", Ran)];
    shows(Client::Gemini, recorded!("gemini-halted"), &halted);
}

#[test]
fn a_subagent_of_gemini_names_no_session() {
    let subagent = shows(
        Client::Gemini,
        recorded!("gemini-agents.subagent"),
        &[
            ("run_shell_command", "echo sub", Ran),
            ("run_shell_command", "echo DENY sub", Refused),
            ("complete_task", "{\"response\":\"done\",\"resu", Refused),
        ],
    );
    assert_eq!((subagent.session, subagent.cwd.as_deref()), (None, Some("/srv/project")));
    assert!(subagent.uses.iter().all(|tool_use| tool_use.subagent));
}

#[test]
fn a_session_of_gemini_may_be_one_object_and_may_be_written_again() {
    let call = |status: &str| {
        json!({ "id": "m", "type": "gemini", "toolCalls": [
            { "id": "c", "name": "glob", "args": { "pattern": "*" }, "status": status }
        ]})
    };
    let one = json!({ "sessionId": "s", "messages": [call("success")] });
    let one = serde_json::to_vec_pretty(&one).unwrap();
    shows(Client::Gemini, &one, &[("glob", "{\"pattern\":\"*\"}", Ran)]);
    let set = json!({ "$set": { "messages": [call("success")] } });
    let again = format!("{}\n{}\n{set}\n", json!({ "sessionId": "s" }), call("executing"));
    shows(Client::Gemini, again.as_bytes(), &[("glob", "{\"pattern\":\"*\"}", Ran)]);
}

#[test]
fn every_use_that_a_hook_of_claude_was_asked_about_is_found_by_its_id() {
    let sessions: [(&[u8], &[&[u8]]); 5] = [
        (
            recorded!("claude-permissions.events"),
            &[recorded!("claude-permissions"), recorded!("claude-permissions.subagent")],
        ),
        (
            recorded!("claude-failures.events"),
            &[recorded!("claude-failures"), recorded!("claude-failures.subagent")],
        ),
        (recorded!("claude-interrupts.events"), &[recorded!("claude-interrupts")]),
        (recorded!("claude-killed.events"), &[recorded!("claude-killed")]),
        (recorded!("claude-deferred.events"), &[recorded!("claude-deferred")]),
    ];
    for (recorded, transcripts) in sessions {
        let (before, after) = events(Client::Claude, recorded);
        let uses: Vec<TranscriptUse> =
            transcripts.iter().flat_map(|bytes| read(Client::Claude, bytes).uses).collect();
        for event in &before {
            let found = find(&uses, event.id.as_deref()).unwrap();
            let mut input = event.input.clone();
            if event.name == "ToolSearch" {
                // A default value, which the transcript lacks.
                assert_eq!(input.as_object_mut().unwrap().remove("max_results"), Some(json!(5)));
            }
            assert_eq!((&found.tool, &found.input), (&event.name, &input));
        }
        for event in &after {
            assert_eq!(find(&uses, event.id.as_deref()).unwrap().outcome, Ran);
        }
        for tool_use in uses.iter().filter(|tool_use| tool_use.outcome == Ran) {
            assert!(before.iter().any(|event| event.id == tool_use.id), "{tool_use:?}");
        }
    }
}

#[test]
fn every_use_of_codex_that_a_hook_was_asked_about_is_found_by_its_id_unless_it_is_in_a_script() {
    let sessions: [(&[u8], &[&[u8]]); 4] = [
        (recorded!("codex-direct.events"), &[recorded!("codex-direct")]),
        (recorded!("codex-code.events"), &[recorded!("codex-code")]),
        (
            recorded!("codex-agents.events"),
            &[recorded!("codex-agents"), recorded!("codex-agents.subagent")],
        ),
        (recorded!("codex-interrupted.events"), &[recorded!("codex-interrupted")]),
    ];
    for (recorded, transcripts) in sessions {
        let (before, after) = events(Client::Codex, recorded);
        let uses: Vec<TranscriptUse> =
            transcripts.iter().flat_map(|bytes| read(Client::Codex, bytes).uses).collect();
        for event in &before {
            let in_script = event.id.as_deref().is_some_and(|id| id.starts_with("exec-"));
            let Some(found) = find(&uses, event.id.as_deref()) else {
                assert!(in_script, "{event:?}");
                continue;
            };
            let changed = after.iter().find(|later| later.id == event.id);
            let input = if in_script { &changed.unwrap_or(event).input } else { &event.input };
            assert_eq!(found.tool, event.name);
            if !(in_script && found.tool == "apply_patch") {
                assert_eq!(&found.input, input);
            }
        }
        for event in &after {
            // The sandbox stopped it, and Codex wrote no item.
            let is_missing = event.input == json!({ "command": "touch /etc/zzz-no" });
            let found = find(&uses, event.id.as_deref());
            assert!(found.is_some_and(|found| found.outcome == Ran) || is_missing, "{event:?}");
        }
        for tool_use in uses.iter().filter(|tool_use| tool_use.outcome == Ran) {
            let is_asked = before.iter().any(|event| event.id == tool_use.id);
            assert!(is_asked || tool_use.tool == "write_stdin", "{tool_use:?}");
        }
    }
}

#[test]
fn every_use_of_gemini_that_ran_is_found_by_tool_and_changed_input() {
    let sessions: [(&[u8], &[&[u8]]); 3] = [
        (recorded!("gemini-uses.events"), &[recorded!("gemini-uses")]),
        (recorded!("gemini-halted.events"), &[recorded!("gemini-halted")]),
        (
            recorded!("gemini-agents.events"),
            &[recorded!("gemini-agents"), recorded!("gemini-agents.subagent")],
        ),
    ];
    for (recorded, transcripts) in sessions {
        let (_, after) = events(Client::Gemini, recorded);
        let uses = transcripts.iter().flat_map(|bytes| read(Client::Gemini, bytes).uses);
        let ran = uses.filter(|tool_use| tool_use.outcome == Ran);
        let key = |tool: &str, input: &Value| format!("{tool} {input}");
        let mut found: Vec<_> = ran.map(|u| key(&u.tool, &u.input)).collect();
        let mut reported: Vec<_> = after.iter().map(|u| key(&u.name, &u.input)).collect();
        found.sort();
        reported.sort();
        assert_eq!(found, reported);
    }
}

#[test]
fn tools_are_in_the_table_by_the_names_that_transcripts_give_them() {
    let unknown = |client, bytes| -> Vec<String> {
        let uses = read(client, bytes).uses.into_iter().filter(|u| u.outcome == Ran);
        let tools =
            uses.map(|u| ToolUse { id: u.id, name: u.tool, input: u.input, mcp_server: None });
        let map = |u: &ToolUse| ToolTable::shipped().map(client, u, "/srv/project");
        tools.filter(|u| map(u) == Mapping::Unknown).map(|u| u.name).collect()
    };
    assert_eq!(unknown(Client::Claude, recorded!("claude-permissions")), [""; 0]);
    assert_eq!(unknown(Client::Codex, recorded!("codex-direct")), ["write_stdin"]);
    assert_eq!(unknown(Client::Codex, recorded!("codex-code")), [""; 0]);
    assert_eq!(unknown(Client::Codex, recorded!("codex-agents")), [""; 0]);
}
