//! Changes to what was installed are noticed.

use windlass_hooks::{Client, InstallState, install, state};

use crate::install::{BINARY, claude, content, installed};

fn missing(events: &[&str]) -> InstallState {
    InstallState::Missing { events: events.iter().map(|event| (*event).to_owned()).collect() }
}

fn changed(reason: &str) -> InstallState {
    InstallState::Changed { reason: reason.to_owned() }
}

#[test]
fn what_was_installed_is_installed() {
    for client in Client::ALL {
        let content = content(client, BINARY);
        let bytes = install(&content, None).unwrap();
        assert_eq!(state(&content, Some(&bytes)), InstallState::Installed);
        let InstallState::Missing { events } = state(&content, None) else { panic!("{client:?}") };
        assert!(events.len() >= 5, "{events:?}");
        assert_eq!(state(&content, Some(b" ")), InstallState::Missing { events });
    }
    // In another order and layout.
    let value: serde_json::Value = serde_json::from_str(&installed(&claude(), "{}")).unwrap();
    assert_eq!(state(&claude(), Some(value.to_string().as_bytes())), InstallState::Installed);
}

#[test]
fn each_change_is_named() {
    let text = installed(&claude(), "{}");
    let with = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        state(&claude(), Some(text.replacen(from, to, 1).as_bytes()))
    };
    assert_eq!(with("\"Stop\"", "\"Stopp\""), missing(&["Stop"]));
    assert_eq!(with("--client", "--klient"), missing(&["PreToolUse"]));
    assert_eq!(
        with("\"*\"", "\"Bash\""),
        changed("`PreToolUse`: `matcher` is \"Bash\", not \"*\"")
    );
    assert_eq!(
        with("/opt/windlass", "/tmp/windlass"),
        changed("`PreToolUse`: `command` is \"/tmp/windlass\", not \"/opt/windlass\"")
    );
    assert_eq!(
        with("\"block\"", "\"allow\""),
        changed("`PreToolUse`: `onFailure` is \"allow\", not \"block\"")
    );
    assert_eq!(
        with(",\n            \"onFailure\": \"block\"", ""),
        changed("`PreToolUse`: `onFailure` is missing")
    );
    assert_eq!(
        with("\"timeout\": 30", "\"timeout\": 1"),
        changed("`PreToolUse`: `timeout` is something else, not 30")
    );
    assert_eq!(
        with("\"timeout\": 30", "\"async\": true, \"timeout\": 30"),
        changed("`PreToolUse`: `async` was added")
    );
    assert_eq!(
        with("{\n  \"hooks\"", "{\n  \"disableAllHooks\": true,\n  \"hooks\""),
        InstallState::Disabled { reason: "`disableAllHooks` is set".to_owned() }
    );
    assert_eq!(
        with("\"PreToolUse\": [", "\"PreToolUse\": 1, \"X\": ["),
        changed("line 3, column 19: `hooks.PreToolUse` is not an array")
    );
    assert_eq!(
        with("\"hooks\": [\n          {", "\"hooks\": [{}, {"),
        changed("`PreToolUse`: our hook is in a group of other hooks")
    );
    let InstallState::Changed { .. } = state(&claude(), Some(b"{")) else { panic!() };
}

#[test]
fn an_entry_twice_is_a_change() {
    let codex = content(Client::Codex, BINARY);
    let entry = "{\"hooks\":[{\"type\":\"command\",\"command\":\"/opt/windlass hook --client codex\",\"timeout\":30}]}";
    let text = installed(&codex, &format!("{{\"hooks\":{{\"Stop\":[{entry}]}}}}"));
    let twice = text.replacen(entry, &format!("{entry},{entry}"), 1);
    assert_eq!(
        state(&codex, Some(twice.as_bytes())),
        changed("`Stop`: our hook is there more than once")
    );
    let other = twice.replacen("/opt/windlass", "/x", 1);
    assert_eq!(
        state(&codex, Some(other.as_bytes())),
        changed(
            "`Stop`: `command` is \"/x hook --client codex\", not \"/opt/windlass hook --client codex\""
        )
    );
}

#[test]
fn switches_of_gemini_cli_are_noticed() {
    let gemini = content(Client::Gemini, BINARY);
    let text = installed(&gemini, "{\"hooksConfig\": {\"enabled\": true}}");
    let off = text.replacen("true", "false", 1);
    let reason = "`hooksConfig.enabled` is not true".to_owned();
    assert_eq!(state(&gemini, Some(off.as_bytes())), InstallState::Disabled { reason });
}

#[test]
fn another_plugin_is_a_change() {
    let plugin = content(Client::OpenCode, BINARY);
    let text = String::from_utf8(install(&plugin, None).unwrap()).unwrap();
    let weaker = text.replace("code !== 0", "false");
    assert_eq!(
        state(&plugin, Some(weaker.as_bytes())),
        changed("the plugin was changed: its code is not ours")
    );
    let other = install(&content(Client::OpenCode, "/x"), None).unwrap();
    assert_eq!(
        state(&plugin, Some(&other)),
        changed("the plugin was changed: it starts another program")
    );
    assert_eq!(state(&plugin, Some(b"export {}")), changed("the plugin is not ours"));
}
