//! Whatever the settings are, only our entries come and go.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use windlass_hooks::{Client, Content, InstallState, Removal, diff, install, state, uninstall};

use crate::install::{BINARY, content};

/// Any JSON.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z\"\\\\/\n\t é😀{}\\[\\],:]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z/\"]{0,4}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A group of hooks, of others or in part ours.
fn group() -> impl Strategy<Value = Value> {
    let ours = json!({ "type": "command", "command": "/x hook --client codex" });
    let ours_too = json!({ "command": "/y", "args": ["hook", "--client", "claude"] });
    let hook = prop_oneof![
        6 => value(),
        1 => Just(ours),
        1 => Just(ours_too),
        2 => Just(json!({ "type": "command", "command": "lint" })),
    ];
    prop_oneof![
        2 => value(),
        5 => prop::collection::vec(hook, 0..3).prop_map(|hooks| json!({ "hooks": hooks })),
    ]
}

/// Settings whose containers are of the right type.
fn settings() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "PreToolUse",
        "Stop",
        "SessionStart",
        "BeforeTool",
        "SessionEnd",
        "Other",
        "PreCompact",
    ]);
    let groups = prop::collection::vec(group(), 0..4).prop_map(Value::from);
    let events = prop::collection::btree_map(names.prop_map(str::to_owned), groups, 0..5);
    let hooks = prop::option::of(events.prop_map(|map| Value::Object(map.into_iter().collect())));
    let rest = prop::collection::btree_map("[a-z]{1,6}", value(), 0..4);
    (hooks, rest).prop_map(|(hooks, rest)| {
        let mut map: Map<String, Value> = rest.into_iter().collect();
        map.remove("hooks");
        map.extend(hooks.map(|hooks| ("hooks".to_owned(), hooks)));
        Value::Object(map)
    })
}

/// Which client, and how its file is laid out.
fn layout() -> impl Strategy<Value = (Client, Vec<u8>)> {
    let client = prop::sample::select(vec![Client::Claude, Client::Codex, Client::Gemini]);
    (client, prop::collection::vec(any::<u8>(), 1..40))
}

/// Writes JSON with the next space of a list between all parts. For Gemini CLI there are comments too.
struct Writer<'a> {
    text: String,
    spaces: std::iter::Cycle<std::slice::Iter<'a, u8>>,
    comments: bool,
}

impl Writer<'_> {
    fn space(&mut self) {
        let choice = self.spaces.next().copied().unwrap_or(0);
        self.text.push_str(match (choice % 16, self.comments) {
            (0..8, _) => "",
            (8, _) => " ",
            (9, _) => "\n",
            (10, _) => "\r\n\t",
            (11, _) => "\n    ",
            (12, true) => "// a \"{[,\n",
            (13, true) => " /* , } */",
            (14, true) => "/**/",
            (_, _) => "  ",
        });
    }

    fn value(&mut self, value: &Value) {
        self.space();
        match value {
            Value::Array(elements) => {
                self.text.push('[');
                for (index, element) in elements.iter().enumerate() {
                    self.text.push_str(if index > 0 { "," } else { "" });
                    self.value(element);
                }
                self.space();
                self.text.push(']');
            }
            Value::Object(members) => {
                self.text.push('{');
                for (index, (key, value)) in members.iter().enumerate() {
                    self.text.push_str(if index > 0 { "," } else { "" });
                    self.space();
                    self.text.push_str(&Value::from(key.as_str()).to_string());
                    self.space();
                    self.text.push(':');
                    self.value(value);
                }
                self.space();
                self.text.push('}');
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                self.text.push_str(&value.to_string());
            }
        }
        self.space();
    }
}

fn written(value: &Value, client: Client, spaces: &[u8]) -> String {
    let comments = client == Client::Gemini;
    let mut writer = Writer { text: String::new(), spaces: spaces.iter().cycle(), comments };
    writer.value(value);
    writer.text
}

/// What a text says, for a client that reads comments too.
fn said(text: &[u8]) -> Value {
    let text = str::from_utf8(text).unwrap();
    let mut bare = String::new();
    let mut chars = text.chars().peekable();
    let mut in_string = false;
    while let Some(char) = chars.next() {
        match (in_string, char, chars.peek()) {
            (true, '\\', _) => {
                bare.push(char);
                bare.extend(chars.next());
                continue;
            }
            (false, '/', Some('/')) => while chars.next_if(|char| *char != '\n').is_some() {},
            (false, '/', Some('*')) => {
                chars.next();
                let mut last = ' ';
                for char in chars.by_ref() {
                    if (last, char) == ('*', '/') {
                        break;
                    }
                    last = char;
                }
            }
            (_, '"', _) => {
                in_string = !in_string;
                bare.push(char);
            }
            (_, _, _) => bare.push(char),
        }
    }
    serde_json::from_str(&bare).unwrap()
}

fn is_ours(hook: &Value, client: Client) -> bool {
    let arguments = json!(["hook", "--client", client.as_str()]);
    let line = format!(" hook --client {}", client.as_str());
    match (&hook["command"], &hook["args"]) {
        (Value::String(_), Value::Array(_)) => hook["args"] == arguments,
        (Value::String(command), _) => command.ends_with(&line),
        (_, _) => false,
    }
}

/// Takes out our hooks, and what they leave empty besides.
fn without_ours(mut value: Value, client: Client) -> Value {
    let Some(hooks) = value.get_mut("hooks").and_then(Value::as_object_mut) else { return value };
    for event in hooks.values_mut().filter_map(Value::as_array_mut) {
        event.retain_mut(|group| {
            let Some(hooks) = group.get_mut("hooks").and_then(Value::as_array_mut) else {
                return true;
            };
            let count = hooks.len();
            hooks.retain(|hook| !is_ours(hook, client));
            count == 0 || !hooks.is_empty()
        });
    }
    hooks.retain(|_, event| event.as_array().is_none_or(|groups| !groups.is_empty()));
    if hooks.is_empty() {
        value.as_object_mut().unwrap().remove("hooks");
    }
    value
}

/// What is left when the file was changed since.
fn forced(content: &Content, now: &[u8], before: &[u8]) -> Vec<u8> {
    match uninstall(content, now, Some(before), b"other").unwrap() {
        Removal::Unchanged => now.to_vec(),
        Removal::Write(bytes) => bytes,
        Removal::Delete => panic!("there was a file before"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn hooks_come_and_go_and_all_else_stays(value in settings(), (client, spaces) in layout()) {
        let content = content(client, BINARY);
        let before = written(&value, client, &spaces).into_bytes();
        let after = install(&content, Some(&before)).unwrap();
        prop_assert_eq!(state(&content, Some(&after)), InstallState::Installed);
        prop_assert_eq!(&install(&content, Some(&after)).unwrap(), &after);
        let foreign = without_ours(value.clone(), client);
        prop_assert_eq!(without_ours(said(&after), client), foreign.clone());
        prop_assert_eq!(diff(&before, &after).is_empty(), before == after);
        // Given back as it was, unless there was something of ours.
        let removal = uninstall(&content, &after, Some(&before), &after).unwrap();
        let has_ours = value["hooks"].as_object().is_some_and(|hooks| {
            hooks.values().flat_map(|groups| groups.as_array().unwrap()).any(|group| {
                let hooks = group.get("hooks").and_then(Value::as_array);
                hooks.is_some_and(|hooks| hooks.iter().any(|hook| is_ours(hook, client)))
            })
        });
        if !has_ours {
            prop_assert_eq!(removal, Removal::Write(before.clone()));
        }
        // As if something had changed meanwhile.
        let left = forced(&content, &after, &before);
        prop_assert_eq!(without_ours(said(&left), client), foreign.clone());
        prop_assert_eq!(&forced(&content, &left, &before), &left);
        let expected = if has_ours { foreign } else { value };
        let left = said(&left);
        prop_assert_eq!(if has_ours { without_ours(left, client) } else { left }, expected);
    }

    #[test]
    fn comments_are_kept(value in settings(), (_, spaces) in layout()) {
        let content = content(Client::Gemini, BINARY);
        let before = written(&value, Client::Gemini, &spaces);
        let after = install(&content, Some(before.as_bytes())).unwrap();
        let count = |text: &[u8], comment: &str| {
            String::from_utf8_lossy(text).matches(comment).count()
        };
        // None of the generated entries is Gemini's, so that nothing is taken out.
        for comment in ["// a \"{[,", "/* , } */", "/**/"] {
            prop_assert_eq!(count(before.as_bytes(), comment), count(&after, comment));
            let left = forced(&content, &after, before.as_bytes());
            prop_assert_eq!(count(before.as_bytes(), comment), count(&left, comment));
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), text in "[\\[\\]{}\",:/* \n\\\\a1-]{0,40}") {
        for client in Client::ALL {
            let content = content(client, BINARY);
            for bytes in [&bytes[..], text.as_bytes()] {
                let _ = state(&content, Some(bytes));
                let _ = uninstall(&content, bytes, None, b"");
                let _ = uninstall(&content, b"{}", Some(bytes), b"{}");
                let _ = diff(bytes, b"{}\n");
                if let Ok(after) = install(&content, Some(bytes)) {
                    prop_assert_eq!(state(&content, Some(&after)), InstallState::Installed);
                }
            }
        }
        let trust = windlass_hooks::trust_file(windlass_hooks::Trust {
            hooks: vec![windlass_hooks::HookTrust { key: "k".to_owned(), hash: "h".to_owned() }],
            project: Some("p".to_owned()),
        }).content;
        for bytes in [&bytes[..], text.as_bytes()] {
            let _ = uninstall(&trust, bytes, None, b"");
            if let Ok(after) = install(&trust, Some(bytes)) {
                prop_assert_eq!(state(&trust, Some(&after)), InstallState::Installed);
                prop_assert!(after.starts_with(bytes));
            }
        }
    }

    #[test]
    fn cut_settings_are_refused_or_edited_rightly(value in settings(), (client, spaces) in layout(), at in any::<prop::sample::Index>()) {
        let content = content(client, BINARY);
        let before = written(&value, client, &spaces);
        let cut = at.index(before.len() + 1);
        if let Some(cut) = before.get(..cut)
            && let Ok(after) = install(&content, Some(cut.as_bytes()))
        {
            prop_assert_eq!(state(&content, Some(&after)), InstallState::Installed);
        }
    }
}
