//! What is written, byte for byte.

use serde_json::{Value, json};
use windlass_hooks::{Client, install};

use crate::install::{BINARY, claude, content, installed};

/// Our entry in an event of Codex CLI, within a line.
const CODEX: &str =
    r#"{"hooks":[{"type":"command","command":"/opt/windlass hook --client codex","timeout":30}]}"#;

const CODEX_END: &str =
    r#"{"hooks":[{"type":"command","command":"/opt/windlass hook --client codex","timeout":3}]}"#;

#[test]
fn a_new_file_has_our_hooks_alone() {
    let gemini = content(Client::Gemini, BINARY);
    let expected = r#"{
  "hooks": {
    "BeforeTool": [
      {
        "matcher": ".*",
        "hooks": [
          {
            "type": "command",
            "name": "windlass",
            "command": "/opt/windlass hook --client gemini",
            "timeout": 30000
          }
        ]
      }
    ],
    "AfterTool": [
      {
        "matcher": ".*",
        "hooks": [
          {
            "type": "command",
            "name": "windlass",
            "command": "/opt/windlass hook --client gemini",
            "timeout": 30000
          }
        ]
      }
    ],
    "BeforeAgent": [
      {
        "hooks": [
          {
            "type": "command",
            "name": "windlass",
            "command": "/opt/windlass hook --client gemini",
            "timeout": 30000
          }
        ]
      }
    ],
    "SessionStart": [
      {
        "hooks": [
          {
            "type": "command",
            "name": "windlass",
            "command": "/opt/windlass hook --client gemini",
            "timeout": 30000
          }
        ]
      }
    ],
    "SessionEnd": [
      {
        "hooks": [
          {
            "type": "command",
            "name": "windlass",
            "command": "/opt/windlass hook --client gemini",
            "timeout": 30000
          }
        ]
      }
    ]
  }
}
"#;
    assert_eq!(String::from_utf8(install(&gemini, None).unwrap()).unwrap(), expected);
    for empty in ["", " \n", "{}\n", "{ }\n", "{\n}\n"] {
        assert_eq!(installed(&gemini, empty), expected, "{empty:?}");
    }
    assert_eq!(installed(&gemini, "{}"), expected.trim_end());
}

#[test]
fn claude_code_gets_the_program_and_its_arguments() {
    let value: Value = serde_json::from_str(&installed(&claude(), "{}")).unwrap();
    let arguments = ["hook", "--client", "claude"];
    let blocking = json!({ "type": "command", "command": BINARY, "args": arguments, "timeout": 30,
        "onFailure": "block" });
    let plain = json!({ "type": "command", "command": BINARY, "args": arguments, "timeout": 30 });
    let tool = json!([{ "matcher": "*", "hooks": [blocking] }]);
    let guarded = json!([{ "hooks": [blocking] }]);
    let other = json!([{ "hooks": [plain] }]);
    let mut longer = other.clone();
    longer[0]["hooks"][0]["timeout"] = json!(600);
    let expected = json!({ "hooks": {
        "PreToolUse": tool, "PermissionRequest": tool, "PostToolUse": tool,
        "PostToolUseFailure": tool, "UserPromptSubmit": guarded, "ConfigChange": guarded,
        "SessionStart": other, "SessionEnd": other, "SubagentStart": other, "SubagentStop": other,
        "Stop": longer, "PreCompact": other, "Notification": other,
    }});
    assert_eq!(value, expected);
}

/// The events of Codex CLI with our entries, within a line.
fn codex_events(skipped: &[&str]) -> String {
    let events = [
        "PreToolUse",
        "PermissionRequest",
        "PostToolUse",
        "UserPromptSubmit",
        "SessionStart",
        "SessionEnd",
        "SubagentStart",
        "SubagentStop",
        "Stop",
    ];
    let entry = |event| if event == "SessionEnd" { CODEX_END } else { CODEX };
    let left = events.into_iter().filter(|event| !skipped.contains(event));
    left.map(|event| format!(r#""{event}":[{}]"#, entry(event))).collect::<Vec<_>>().join(",")
}

#[test]
fn a_text_without_lines_stays_so() {
    let codex = content(Client::Codex, BINARY);
    let after = installed(&codex, r#"{"description":"mine"}"#);
    let events = codex_events(&[]);
    assert_eq!(after, format!(r#"{{"description":"mine","hooks":{{{events}}}}}"#));
    let after = installed(&codex, r#"{"hooks":{"Stop":[],"X":[1]},"z":0}"#);
    let events = codex_events(&["Stop"]);
    assert_eq!(after, format!(r#"{{"hooks":{{"Stop":[{CODEX}],"X":[1],{events}}},"z":0}}"#));
    // With spaces.
    let after = installed(&codex, r#"{"description": "mine"}"#);
    let spaced = r#"{"description": "mine", "hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "/opt/"#;
    assert!(after.starts_with(spaced), "{after}");
}

#[test]
fn tabs_and_ends_of_lines_are_followed() {
    let codex = content(Client::Codex, BINARY);
    let before = "{\r\n\t\"description\": \"mine\"\r\n}";
    let after = installed(&codex, before);
    let start = "{\r\n\t\"description\": \"mine\",\r\n\t\"hooks\": {\r\n\t\t\"PreToolUse\": [\r\n\t\t\t{\r\n\t\t\t\t\"hooks\": [\r\n\t\t\t\t\t{\r\n\t\t\t\t\t\t\"type\": \"command\",\r\n";
    assert!(after.starts_with(start), "{after}");
    assert!(after.ends_with("\r\n\t\t]\r\n\t}\r\n}"), "{after}");
    assert_eq!(after.matches('\n').count(), after.matches("\r\n").count());
}

#[test]
fn hooks_of_others_stay_where_they_are() {
    let before = r#"{
    "model": "x",
    "hooks": {
        "PreToolUse": [
            { "matcher": "Bash", "hooks": [ { "type": "command", "command": "lint" } ] }
        ],
        "PostCompact": [{"hooks":[]}]
    },
    "z": [1,2,
      3]
}
"#;
    let after = installed(&claude(), before);
    let start = r#"{
    "model": "x",
    "hooks": {
        "PreToolUse": [
            { "matcher": "Bash", "hooks": [ { "type": "command", "command": "lint" } ] },
            {
                "matcher": "*",
                "hooks": [
                    {
                        "type": "command",
                        "command": "/opt/windlass",
                        "args": ["hook", "--client", "claude"],
                        "timeout": 30,
                        "onFailure": "block"
                    }
                ]
            }
        ],
        "PostCompact": [{"hooks":[]}],
        "PermissionRequest": [
            {
"#;
    let end = r#"
        "Notification": [
            {
                "hooks": [
                    {
                        "type": "command",
                        "command": "/opt/windlass",
                        "args": ["hook", "--client", "claude"],
                        "timeout": 30
                    }
                ]
            }
        ]
    },
    "z": [1,2,
      3]
}
"#;
    assert!(after.starts_with(start), "{after}");
    assert!(after.ends_with(end), "{after}");
}

#[test]
fn comments_stay_in_settings_of_gemini() {
    let gemini = content(Client::Gemini, BINARY);
    let before = r#"// mine
{
  "a": 1, // one
  /* two */ "hooks": {
    // none yet
  }, // three
  "b": [] // four
  // five
}
// six
"#;
    let after = installed(&gemini, before);
    let start = "// mine\n{\n  \"a\": 1, // one\n  /* two */ \"hooks\": {\n    // none yet\n    \"BeforeTool\": [\n      {\n";
    let end = "\n    ]\n  }, // three\n  \"b\": [] // four\n  // five\n}\n// six\n";
    assert!(after.starts_with(start), "{after}");
    assert!(after.ends_with(end), "{after}");
    let before = "{\n  \"a\": 1 // one\n  // two\n}\n";
    let after = installed(&gemini, before);
    assert!(after.starts_with("{\n  \"a\": 1, // one\n  // two\n  \"hooks\": {\n"), "{after}");
    assert!(after.ends_with("\n  }\n}\n"), "{after}");
}

#[test]
fn an_older_entry_of_ours_is_replaced_where_it_is() {
    for client in [Client::Claude, Client::Codex, Client::Gemini] {
        let foreign = r#"{ "hooks": { "Stop": [{"hooks":[]}], "SessionStart": [1, 2] }, "a": 0 }"#;
        let old = installed(&content(client, "/old/windlass"), foreign);
        let new = installed(&content(client, BINARY), foreign);
        assert_eq!(installed(&content(client, BINARY), &old), new);
        assert_eq!(old.replace("/old/windlass", BINARY), new);
        let lines = serde_json::to_string_pretty(&serde_json::from_str::<Value>(&old).unwrap());
        let lines = lines.unwrap();
        let mended = installed(&content(client, BINARY), &lines);
        let say = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(say(&mended), say(&new));
    }
}

#[test]
fn stray_entries_of_ours_are_put_in_order() {
    let codex = content(Client::Codex, BINARY);
    let ours = r#"{"type":"command","command":"'/o l/d' hook --client codex"}"#;
    // Beside a hook of others, doubled, and in an event that has none of ours.
    let before = format!(
        r#"{{"hooks":{{"Stop":[{{"hooks":[{{"type":"x"}},{ours}]}},{{"hooks":[{ours}]}},7,{{"hooks":[{ours},{ours}]}}],"PreCompact":[{{"hooks":[{ours}]}}],"PostCompact":[]}}}}"#
    );
    let rest = codex_events(&["Stop"]);
    let expected = format!(
        r#"{{"hooks":{{"Stop":[{{"hooks":[{{"type":"x"}}]}},{CODEX},7],"PostCompact":[],{rest}}}}}"#
    );
    assert_eq!(installed(&codex, &before), expected);
    assert_eq!(installed(&codex, &expected), expected);
}

#[test]
fn a_path_is_one_word_of_a_shell() {
    for (path, word) in [
        ("/a b/w", "'/a b/w'"),
        ("/it's", r"'/it'\''s'"),
        ("/a;`rm`/\"w\"", "'/a;`rm`/\"w\"'"),
        ("/usr/local/bin/windlass-1.0+x_y", "/usr/local/bin/windlass-1.0+x_y"),
        ("/größe", "'/größe'"),
    ] {
        let after = installed(&content(Client::Codex, path), "{}");
        let value: Value = serde_json::from_str(&after).unwrap();
        let command = value.pointer("/hooks/Stop/0/hooks/0/command").unwrap();
        assert_eq!(command, &json!(format!("{word} hook --client codex")));
        // It is recognised again.
        let again = installed(&content(Client::Codex, BINARY), &after);
        assert_eq!(again, installed(&content(Client::Codex, BINARY), "{}"));
    }
}
