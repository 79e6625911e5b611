//! Damaged transcripts: read as far as possible, and never with a panic.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use windlass_hooks::{Client, ToolTable, ToolUse, Transcript, read_transcript};

use crate::transcripts::ALL;

fn read(client: Client, bytes: &[u8]) -> Transcript {
    read_transcript(client, bytes).unwrap()
}

/// A use as its id, tool and input: what a cut transcript still shows, apart from outcomes.
fn keys(transcript: &Transcript) -> Vec<String> {
    transcript.uses.iter().map(|u| format!("{:?} {} {}", u.id, u.tool, u.input)).collect()
}

#[test]
fn a_transcript_that_is_cut_anywhere_shows_the_uses_before_the_cut() {
    for (client, bytes) in ALL {
        let whole = keys(&read(client, bytes));
        let mut shown = 0;
        for end in 0..bytes.len() {
            // Reading all beginnings of a long one takes too long.
            let near_end = bytes[end..].iter().take(3).any(|byte| *byte == b'\n');
            if bytes.len() > 6000 && !near_end && end % 37 != 0 {
                continue;
            }
            let cut = read(client, &bytes[..end]);
            let found = keys(&cut);
            assert!(whole.starts_with(&found), "{client:?} {end}");
            assert!(found.len() >= shown, "{client:?} {end}");
            assert!(!cut.is_incomplete, "{client:?} {end}");
            shown = found.len();
        }
    }
}

#[test]
fn lines_of_other_kinds_change_nothing() {
    let others = [
        json!({ "type": "new-kind", "tool_use": 1, "toolCalls": 2, "payload": "function_call" }),
        json!({ "type": "assistant", "message": { "content": "tool_use" } }),
        json!({ "type": "assistant", "message": { "content": ["tool_use", { "type": "tool_use" }] } }),
        json!({ "type": "user", "message": { "content": [{ "type": "tool_result" }] } }),
        json!({ "type": "response_item", "payload": { "type": "new_call" } }),
        json!({ "type": "event_msg", "payload": { "type": "item_completed", "item": 1 } }),
        json!({ "$set": { "messages": 1, "toolCalls": "sessionId" } }),
    ];
    for (client, bytes) in ALL {
        let expected = read(client, bytes);
        let mut more = Vec::new();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            more.extend_from_slice(line);
            for other in &others {
                more.extend_from_slice(format!("\n{other}\r\n").as_bytes());
            }
        }
        assert_eq!(read(client, &more), expected);
    }
}

#[test]
fn a_damaged_line_is_left_out_and_said() {
    for (client, bytes) in ALL {
        let expected = read(client, bytes);
        let damaged = b"{\"tool_use\",\"toolCalls\",\"function_call\"\n\xff\xfe\n";
        let found = read(client, &[bytes, damaged.as_slice()].concat());
        assert!(found.is_incomplete);
        assert_eq!(found, Transcript { is_incomplete: true, ..expected });
    }
}

#[test]
fn too_long_names_are_left_out_and_said() {
    let name = "n".repeat(300);
    let claude = json!({ "type": "assistant", "sessionId": name, "cwd": "/".repeat(5000), "message": {
        "content": [{ "type": "tool_use", "id": "t", "name": name, "input": {} }]
    }});
    let empty = Transcript { is_incomplete: true, ..Transcript::default() };
    assert_eq!(read(Client::Claude, claude.to_string().as_bytes()), empty);
    let deep = format!("{{\"toolCalls\":{}1{}}}\n", "[".repeat(500), "]".repeat(500));
    assert_eq!(read(Client::Gemini, deep.as_bytes()), empty);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutations_are_read_without_a_panic(
        which in any::<Index>(),
        changes in proptest::collection::vec((any::<Index>(), any::<u8>(), 0..4_u8), 1..8),
    ) {
        let (client, bytes) = ALL[which.index(ALL.len())];
        let mut bytes = bytes.to_vec();
        for (at, byte, kind) in changes {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => drop(bytes.drain(at..(at + usize::from(byte)).min(bytes.len() - 1).max(at))),
                _ => bytes[at] ^= 1 << (byte % 8),
            }
        }
        for other in [client, Client::Claude, Client::Codex, Client::Gemini] {
            let transcript = read(other, &bytes);
            for tool_use in transcript.uses {
                prop_assert!(tool_use.input.is_object());
                prop_assert!(!tool_use.tool.is_empty() && tool_use.tool.len() <= 256);
            }
        }
    }
}

#[test]
fn a_program_that_codex_was_told_to_use_is_seen_in_its_record() {
    let call = |name: &str, arguments: Value| {
        let payload = json!({ "type": "function_call", "name": name, "arguments": arguments.to_string(), "call_id": "c" });
        json!({ "type": "response_item", "payload": payload })
    };
    let item = |program: &str| {
        let item = json!({ "type": "CommandExecution", "id": "c", "command": [program, "-lc", "ls"], "status": "completed" });
        json!({ "type": "event_msg", "payload": { "type": "item_completed", "item": item } })
    };
    let local = |action: Value| {
        let payload = json!({ "type": "local_shell_call", "call_id": "c", "action": action });
        json!({ "type": "response_item", "payload": payload })
    };
    let foreign = |line: Value| {
        let transcript = read_transcript(Client::Codex, line.to_string().as_bytes()).unwrap();
        let [found] = transcript.uses.as_slice() else { unreachable!("{transcript:?}") };
        let used = ToolUse {
            id: None,
            name: found.tool.clone(),
            input: found.input.clone(),
            mcp_server: None,
        };
        ToolTable::shipped().foreign_program(Client::Codex, &used)
    };
    let usual = json!({
        "cmd": "ls", "shell": "/bin/bash", "login": true, "tty": true, "yield_time_ms": 5, "workdir": "/w",
        "max_output_tokens": 9, "justification": "j", "sandbox_permissions": "require_escalated",
    });
    for usual in [
        call("exec_command", usual),
        call("shell", json!({ "command": ["bash", "-lc", "ls"], "timeout_ms": 4 })),
        local(json!({ "type": "exec", "command": ["ls"], "env": null, "working_directory": "/w" })),
        item("/usr/bin/zsh"),
    ] {
        assert_eq!(foreign(usual.clone()), None, "{usual}");
    }
    for other in [
        call("exec_command", json!({ "cmd": "ls", "shell": "/w/x/bash" })),
        call("shell", json!({ "command": ["./x/bash", "-lc", "ls"] })),
        call("shell_command", json!({ "command": "ls", "env": { "PATH": "/w" } })),
        local(json!({ "type": "exec", "command": ["ls"], "env": { "LD_PRELOAD": "x" } })),
        local(json!({ "type": "exec", "command": ["ls"], "user": "other" })),
        item("/w/x/bash"),
    ] {
        assert!(foreign(other.clone()).is_some(), "{other}");
    }
}
