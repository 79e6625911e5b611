//! Sessions from the database of the real OpenCode, with the hook events of the same sessions.
//!
//! Recorded with a scripted model and our plugin, whose program refuses commands with `DENY` and changes those with
//! `REWRITE`. Each line of a file is the column `data` of a part.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_hooks::{Client, EventKind, HookEvent, OpenCodeReader, Transcript, UseOutcome};

const USES: &str = include_str!("transcripts/opencode-uses.jsonl");
const SUBAGENT: &str = include_str!("transcripts/opencode-uses.subagent.jsonl");
const ABORTED: &str = include_str!("transcripts/opencode-aborted.jsonl");
const KILLED: &str = include_str!("transcripts/opencode-killed.jsonl");
const EVENTS: &str = include_str!("transcripts/opencode-uses.events.jsonl");

fn read(parts: &str) -> Transcript {
    let mut reader = OpenCodeReader::new("ses_1", "/srv/project", false);
    parts.lines().for_each(|part| reader.part(part));
    reader.finish()
}

#[track_caller]
fn shows(parts: &str, expected: &[(&str, &str, UseOutcome)]) {
    let transcript = read(parts);
    let telling = |input: &Value| {
        let field =
            ["command", "filePath", "tool", "prompt"].iter().find_map(|name| input.get(name));
        field.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let shown = transcript.uses.iter().map(|one| (&*one.tool, telling(&one.input), one.outcome));
    let expected =
        expected.iter().map(|(tool, input, outcome)| (*tool, (*input).to_owned(), *outcome));
    assert_eq!(shown.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    assert!(!transcript.is_incomplete);
}

#[test]
fn uses_run_are_refused_by_us_or_the_client_or_fail() {
    use UseOutcome::{Ran, Refused};
    shows(
        USES,
        &[
            ("bash", "echo one", Ran),
            ("bash", "echo CHANGED", Ran),
            ("bash", "exit 3", Ran),
            ("bash", "echo DENY", Refused),
            ("bash", "git push", Refused),
            ("bash", "", Refused),
            ("invalid", "teleport", Refused),
            ("read", "/srv/project/missing.txt", Ran),
            ("write", "/srv/project/a.txt", Ran),
            ("edit", "/srv/project/a.txt", Ran),
            ("task", "SUBTASK please", Ran),
            ("bash", "echo p1", Ran),
            ("read", "/srv/project/a.txt", Ran),
            ("bash", "git pull", Refused),
        ],
    );
    shows(SUBAGENT, &[("bash", "echo sub", Ran)]);
}

#[test]
fn a_use_that_was_broken_off_while_it_ran_did_run() {
    shows(ABORTED, &[("bash", "sleep 60", UseOutcome::Ran)]);
    shows(KILLED, &[("bash", "sleep 97", UseOutcome::Ran)]);
}

#[test]
fn each_use_has_the_id_of_its_hook_events() {
    let mut asked = BTreeSet::new();
    for line in EVENTS.lines() {
        let event = HookEvent::parse(line.as_bytes(), Some(Client::OpenCode)).unwrap();
        if let EventKind::BeforeTool(tool_use) = event.kind {
            asked.insert((tool_use.name, tool_use.id.unwrap()));
        }
    }
    let uses = [USES, SUBAGENT].into_iter().flat_map(|parts| read(parts).uses);
    let shown: BTreeSet<_> = uses.map(|one| (one.tool, one.id.unwrap())).collect();
    assert_eq!(shown, asked);
}

#[test]
fn states_without_an_end_are_told_apart() {
    let outcome = |state: Value| {
        let part = json!({ "type": "tool", "tool": "bash", "callID": "c", "state": state });
        let transcript = read(&part.to_string());
        assert_eq!(transcript.uses[0].input, json!({}));
        transcript.uses[0].outcome
    };
    // The client writes these words; it adds the sign to whatever the tool has told.
    let aborted = |metadata: Value| {
        outcome(
            json!({ "status": "error", "error": "Tool execution aborted", "metadata": metadata }),
        )
    };
    assert_eq!(aborted(json!({ "interrupted": true })), UseOutcome::MayHaveRun);
    assert_eq!(aborted(json!({ "interrupted": true, "output": "" })), UseOutcome::Ran);
    assert_eq!(aborted(Value::Null), UseOutcome::MayHaveRun);
    assert_eq!(outcome(json!({ "status": "pending", "input": {} })), UseOutcome::Unknown);
    assert_eq!(outcome(json!({ "status": "running" })), UseOutcome::Unknown);
    assert_eq!(outcome(json!({ "status": "a new one" })), UseOutcome::Unknown);
    assert_eq!(outcome(json!({ "status": "error" })), UseOutcome::Ran);
    assert_eq!(outcome(json!(7)), UseOutcome::Unknown);
}

#[test]
fn what_cannot_be_read_is_said() {
    let whole = json!({ "type": "tool", "tool": "bash", "callID": "c", "state": {} }).to_string();
    for damaged in ["", "[]", "{\"type\":\"tool\"}", &whole[..20], &"[".repeat(10_000)] {
        let mut reader = OpenCodeReader::new("ses_1", "/srv/project", true);
        reader.part(damaged);
        reader.part(&whole);
        let transcript = reader.finish();
        assert!(transcript.is_incomplete, "{damaged}");
        assert_eq!(transcript.uses.len(), 1, "{damaged}");
        assert!(transcript.uses[0].subagent);
    }
    let transcript = read("{\"type\":\"text\",\"text\":\"a tool\"}");
    assert_eq!((transcript.uses.len(), transcript.is_incomplete), (0, false));
    assert_eq!(transcript.session.as_deref(), Some("ses_1"));
    assert_eq!(transcript.cwd.as_deref(), Some("/srv/project"));
    let long = json!({ "type": "tool", "tool": "b".repeat(9000), "callID": "c", "state": {} });
    assert!(read(&long.to_string()).is_incomplete);
}
