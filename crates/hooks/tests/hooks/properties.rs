//! Damaged events are refused or mean the same, and no text in a reason turns a refusal into something else.

use std::mem::discriminant;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use windlass_hooks::{
    Answer, Client, EventError, EventKind, HookEvent, Mapping, ToolTable, refuse_unreadable, render,
};

use crate::fixtures;
use crate::readers::{Taken, taken};

/// All documented events, with what they are read as.
static EVENTS: LazyLock<Vec<(Value, HookEvent)>> = LazyLock::new(|| {
    let read = |(client, event): (Client, Value)| {
        let read = HookEvent::parse(event.to_string().as_bytes(), Some(client)).unwrap();
        (event, read)
    };
    fixtures::all().into_iter().map(read).collect()
});

/// A way to damage an event.
#[derive(Clone, Debug)]
enum Damage {
    Flip(Index, u8),
    Insert(Index, u8),
    Truncate(Index),
    Remove(Index),
    Replace(Index, Value),
    Nest(Index, usize),
    Repeat(Index),
    Lengthen(Index, usize),
}

fn damages() -> impl Strategy<Value = Damage> {
    let values = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        ".{0,20}".prop_map(Value::String),
        Just(json!([])),
        Just(json!({})),
        Just(json!(["Bash", { "command": "ls" }])),
        Just(json!({ "command": "ls", "name": "x" })),
    ];
    let index = any::<Index>;
    prop_oneof![
        (index(), 0..8_u8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        (index(), any::<u8>()).prop_map(|(at, byte)| Damage::Insert(at, byte)),
        index().prop_map(Damage::Truncate),
        index().prop_map(Damage::Remove),
        (index(), values).prop_map(|(at, value)| Damage::Replace(at, value)),
        (index(), 1..400_usize).prop_map(|(at, depth)| Damage::Nest(at, depth)),
        index().prop_map(Damage::Repeat),
        (index(), 1..10_000_usize).prop_map(|(at, length)| Damage::Lengthen(at, length)),
    ]
}

/// The event's text with this damage, and whether it certainly cannot be read.
fn damaged(event: &Value, damage: &Damage) -> (Vec<u8>, bool) {
    let text = event.to_string();
    let mut bytes = text.clone().into_bytes();
    let mut fields = event.as_object().unwrap().clone();
    let key =
        |at: &Index| event.as_object().unwrap().keys().nth(at.index(fields.len())).unwrap().clone();
    let written = |fields| (Value::Object(fields).to_string().into_bytes(), false);
    match damage {
        Damage::Flip(at, bit) => {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            (bytes, false)
        }
        Damage::Insert(at, byte) => {
            bytes.insert(at.index(bytes.len()), *byte);
            (bytes, false)
        }
        Damage::Truncate(at) => {
            bytes.truncate(at.index(bytes.len()));
            (bytes, true)
        }
        Damage::Remove(at) => {
            let key = key(at);
            fields.remove(&key);
            written(fields)
        }
        Damage::Replace(at, value) => {
            fields.insert(key(at), value.clone());
            written(fields)
        }
        Damage::Nest(at, depth) => {
            let nested = format!("{}{}", "[".repeat(*depth), "]".repeat(*depth));
            let key = key(at);
            fields.remove(&key);
            let rest = Value::Object(fields).to_string();
            let rest = rest.strip_prefix('{').unwrap();
            let comma = if rest == "}" { "" } else { "," };
            (format!("{{{}:{nested}{comma}{rest}", json!(key)).into_bytes(), *depth > 128)
        }
        Damage::Repeat(at) => {
            let key = key(at);
            let again = format!("{{{}:{},", json!(key), event[&key]);
            (text.replacen('{', &again, 1).into_bytes(), true)
        }
        Damage::Lengthen(at, length) => {
            fields.insert(key(at), json!("x".repeat(*length)));
            written(fields)
        }
    }
}

/// Whether the client waits for a decision.
fn decides(kind: &EventKind) -> bool {
    match kind {
        EventKind::BeforeTool(_)
        | EventKind::PermissionRequested(_)
        | EventKind::Prompted { .. } => true,
        EventKind::SessionStarted { .. }
        | EventKind::SessionEnded { .. }
        | EventKind::AfterTool { .. }
        | EventKind::SubagentStarted
        | EventKind::SubagentStopped { .. }
        | EventKind::Stopped { .. }
        | EventKind::SettingsChanged { .. }
        | EventKind::Other { .. } => false,
    }
}

/// Whether a refusal of an unreadable event holds at the events that ask about tools and prompts.
fn is_refused(client: Client, given: Option<Client>, error: &EventError) -> bool {
    let output = refuse_unreadable(given, &error.to_string());
    let events: &[&str] = match client {
        Client::Claude => &["PreToolUse", "UserPromptSubmit", "ConfigChange"],
        Client::Codex => &["PreToolUse", "UserPromptSubmit", "PermissionRequest"],
        Client::Gemini => &["BeforeTool", "BeforeAgent"],
        Client::OpenCode => &["tool.execute.before", "chat.message"],
    };
    let all = events.iter().all(|event| taken(client, event, &output) == Taken::Refused);
    all && output.exit_code == 2 && !output.stderr.trim().is_empty()
}

/// Texts that look like answers, and any others.
fn texts() -> impl Strategy<Value = String> {
    let looks = [
        "",
        "{}",
        "null",
        "true",
        "0",
        "\"x\"",
        "[]",
        r#"{"decision":"allow"}"#,
        r#"{"continue":true,"decision":"approve"}"#,
        r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}"#,
        r#""{\"decision\":\"allow\"}""#,
        "\u{feff}{\"decision\":\"allow\"}",
        "x\n{\"decision\":\"allow\"}",
        "\u{2028}",
    ];
    prop_oneof![
        proptest::sample::select(looks.to_vec()).prop_map(str::to_owned),
        any::<String>(),
        "(?s).{0,40}",
        "[ \\t\\n\\x00-\\x1f\u{feff}\u{200b}]{0,10}",
        (any::<char>(), 1..3000_usize).prop_map(|(char, count)| char.to_string().repeat(count)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_events_mean_the_same_or_are_refused(
        which in any::<Index>(),
        damage in damages(),
        is_given in any::<bool>(),
    ) {
        let (event, whole) = which.get(&EVENTS);
        let client = whole.client;
        let given = is_given.then_some(client);
        let (bytes, is_unreadable) = damaged(event, &damage);
        match HookEvent::parse(&bytes, given) {
            Err(error) => prop_assert!(is_refused(client, given, &error), "{error}"),
            Ok(read) => {
                prop_assert!(!is_unreadable);
                let same = discriminant(&read.kind) == discriminant(&whole.kind);
                let is_other = matches!(read.kind, EventKind::Other { .. });
                prop_assert!(same || is_other && !decides(&whole.kind), "{:?}", read.kind);
                if let EventKind::BeforeTool(used) = &read.kind {
                    prop_assert_eq!(read.client, client);
                    let mapping = ToolTable::shipped().map(client, used, "/w");
                    prop_assert!(mapping != Mapping::Internal, "{:?}", used);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for client in Client::ALL {
            let error = HookEvent::parse(&bytes, Some(client)).unwrap_err();
            prop_assert!(is_refused(client, Some(client), &error));
        }
    }

    #[test]
    fn a_refusal_is_one_for_any_reason(reason in texts()) {
        let refusals = |reason: &String| [
            (Answer::Deny { reason: reason.clone() }, Taken::Refused),
            (Answer::Ask { reason: reason.clone(), input: None }, Taken::Asked),
            (Answer::Defer { reason: reason.clone() }, Taken::Deferred),
            (Answer::Halt { reason: reason.clone() }, Taken::Halted),
        ];
        let questions = [
            (Client::Claude, "PreToolUse"),
            (Client::Claude, "UserPromptSubmit"),
            (Client::Claude, "ConfigChange"),
            (Client::Claude, "PermissionRequest"),
            (Client::Codex, "PreToolUse"),
            (Client::Codex, "PermissionRequest"),
            (Client::Gemini, "BeforeTool"),
            (Client::Gemini, "BeforeAgent"),
            (Client::OpenCode, "tool.execute.before"),
        ];
        for (client, event) in questions {
            for (answer, named) in refusals(&reason) {
                let output = render(client, event, &answer);
                let found = taken(client, event, &output);
                let expected = match (client, event, named) {
                    // Silence: the prompt appears that is about to.
                    (Client::Claude, "PermissionRequest", Taken::Asked) => Taken::Nothing,
                    (Client::Claude, "PreToolUse", named) => named,
                    (Client::Claude | Client::Gemini, _, Taken::Halted) => Taken::Halted,
                    (Client::Claude | Client::Codex | Client::Gemini | Client::OpenCode, ..) => {
                        Taken::Refused
                    }
                };
                prop_assert_eq!(found, expected, "{:?} {} {:?}", client, event, output);
                prop_assert!(output.stderr.len() <= 4096);
                prop_assert!(!output.stderr.chars().any(char::is_control));
                prop_assert!(output.exit_code == 0 || !output.stderr.trim().is_empty());
            }
        }
    }

    #[test]
    fn a_message_is_never_a_decision(text in texts()) {
        for client in Client::ALL {
            for event in ["PreToolUse", "PermissionRequest", "BeforeTool", "Stop", "AfterTool"] {
                let output = render(client, event, &Answer::Tell { text: text.clone() });
                let expected = match client {
                    Client::OpenCode => Taken::Allowed(None),
                    Client::Claude | Client::Codex | Client::Gemini => Taken::Nothing,
                };
                prop_assert_eq!(taken(client, event, &output), expected);
                prop_assert_eq!((output.exit_code, output.stderr), (0, String::new()));
            }
        }
    }

    #[test]
    fn a_changed_input_arrives_or_the_call_is_refused(
        command in any::<String>(),
        skip_prompt in any::<bool>(),
    ) {
        let input = json!({ "command": command });
        let answer = Answer::Allow { input: Some(input.clone()), skip_prompt };
        for (client, event) in [
            (Client::Claude, "PreToolUse"),
            (Client::Codex, "PreToolUse"),
            (Client::Gemini, "BeforeTool"),
            (Client::OpenCode, "tool.execute.before"),
        ] {
            let found = taken(client, event, &render(client, event, &answer));
            prop_assert_eq!(found, Taken::Allowed(Some(input.clone())));
        }
        for (client, event) in [
            (Client::Claude, "UserPromptSubmit"),
            (Client::Codex, "PermissionRequest"),
            (Client::Gemini, "BeforeAgent"),
        ] {
            let found = taken(client, event, &render(client, event, &answer));
            prop_assert_eq!(found, Taken::Refused);
        }
    }
}
