//! Plugins of ours.

use serde_json::Value;
use windlass_hooks::{Client, claude_plugin, install};

use crate::install::{claude, content, installed};

#[test]
fn the_path_is_a_string_of_the_plugin() {
    for path in ["/a\"b", "/a\\b", "/`${x}".trim_end_matches("${x}"), "/a\u{2028}b", "/*/"] {
        let text = install(&content(Client::OpenCode, path), None).unwrap();
        let text = String::from_utf8(text).unwrap();
        let line = format!("const BINARY = {}\n", serde_json::to_string(path).unwrap());
        assert_eq!(text.matches(&line).count(), 1, "{path}");
        assert!(!text.contains("@BINARY@"));
        assert!(text.starts_with("// Windlass bridge plugin for OpenCode.\n"));
    }
    // Not even a path that is the mark.
    let text = install(&content(Client::OpenCode, "/\"@BINARY@\""), None).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("const BINARY = \"/\\\"@BINARY@\\\"\"\n"), "{text}");
}

#[test]
fn the_plugin_for_claude_code_has_the_hooks_that_are_installed() {
    let files = claude_plugin("1.2.3");
    let paths: Vec<_> = files.iter().map(|file| file.path).collect();
    let expected = [
        ".claude-plugin/plugin.json",
        "hooks/hooks.json",
        "commands/status.md",
        "commands/queue.md",
        "commands/session-insights.md",
    ];
    assert_eq!(paths, expected);
    let manifest: Value = serde_json::from_str(&files[0].text).unwrap();
    assert_eq!(manifest["name"], "windlass");
    assert_eq!(manifest["version"], "1.2.3");
    let hooks: Value = serde_json::from_str(&files[1].text).unwrap();
    let settings = installed(&claude(), "{}").replace("\"/opt/windlass\"", "\"windlass\"");
    let settings: Value = serde_json::from_str(&settings).unwrap();
    assert_eq!(hooks["hooks"], settings["hooks"]);
    for command in &files[2..] {
        assert!(command.text.starts_with("---\ndescription: "), "{}", command.text);
    }
}
