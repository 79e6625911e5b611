//! Taking hooks out again.

use windlass_hooks::{Client, Content, Removal, install, uninstall};

use crate::install::{BINARY, claude, content, installed};

/// What is left of a changed file.
fn left(content: &Content, now: &str, before: Option<&str>) -> Option<String> {
    match uninstall(content, now.as_bytes(), before.map(str::as_bytes), b"something else").unwrap()
    {
        Removal::Unchanged => Some(now.to_owned()),
        Removal::Write(bytes) => Some(String::from_utf8(bytes).unwrap()),
        Removal::Delete => None,
    }
}

#[test]
fn an_unchanged_file_is_as_it_was() {
    for client in Client::ALL {
        let content = content(client, BINARY);
        let new = install(&content, None).unwrap();
        assert_eq!(uninstall(&content, &new, None, &new), Ok(Removal::Delete));
        let after = install(&content, Some(b" \n")).unwrap();
        let expected = Ok(Removal::Write(b" \n".to_vec()));
        assert_eq!(uninstall(&content, &after, Some(b" \n"), &after), expected);
    }
    let before = "{ \"a\" :1,\"hooks\":{ \"Stop\":[ ]\t} }\r\n";
    let after = installed(&claude(), before);
    let expected = Ok(Removal::Write(before.as_bytes().to_vec()));
    assert_eq!(
        uninstall(&claude(), after.as_bytes(), Some(before.as_bytes()), after.as_bytes()),
        expected
    );
}

#[test]
fn only_ours_is_taken_out_of_a_changed_file() {
    let cases = [
        "{}",
        "{\n  \"a\": 1\n}\n",
        "{\n\t\"hooks\": {},\n\t\"a\": 1\n}\n",
        "{\r\n  \"hooks\": {\r\n    \"Stop\": []\r\n  }\r\n}\r\n",
        "{\"hooks\":{\"Stop\":[{\"hooks\":[1]}],\"X\":[]},\"a\":1}",
        "{\n  \"hooks\": {\n    \"PreToolUse\": [\n      { \"hooks\": [] }\n    ]\n  }\n}\n",
    ];
    for client in [Client::Claude, Client::Codex, Client::Gemini] {
        let content = content(client, BINARY);
        for before in cases {
            let after = installed(&content, before);
            assert_eq!(left(&content, &after, Some(before)).unwrap(), before);
            // Another key was added meanwhile.
            let more = after.replacen('{', "{\"later\": [1, {}],", 1);
            let expected = before.replacen('{', "{\"later\": [1, {}],", 1);
            if before != "{}" {
                assert_eq!(left(&content, &more, Some(before)).unwrap(), expected);
            }
        }
    }
}

#[test]
fn a_file_of_ours_alone_is_deleted_even_if_it_was_laid_out_anew() {
    let after = installed(&claude(), "");
    let value: serde_json::Value = serde_json::from_str(&after).unwrap();
    assert_eq!(left(&claude(), &value.to_string(), None), None);
    assert_eq!(left(&claude(), &value.to_string(), Some("{}")).unwrap(), "{}");
    assert_eq!(
        left(&claude(), &value.to_string(), Some("{\"hooks\":{}}")).unwrap(),
        "{\"hooks\":{}}"
    );
    let kept = left(&claude(), &value.to_string(), Some("{\"hooks\":{\"Stop\":[]}}")).unwrap();
    assert_eq!(kept, "{\"hooks\":{\"Stop\":[]}}");
    // An empty file is empty again.
    assert_eq!(left(&claude(), &value.to_string(), Some("\n")).unwrap(), "\n");
}

#[test]
fn hooks_that_others_added_to_our_group_stay() {
    let text = installed(&claude(), "{\"a\":1}");
    let mixed = text.replacen("\"hooks\":[{", "\"hooks\":[{\"type\":\"x\"},{", 1);
    assert_ne!(text, mixed);
    let expected =
        "{\"a\":1,\"hooks\":{\"PreToolUse\":[{\"matcher\":\"*\",\"hooks\":[{\"type\":\"x\"}]}]}}";
    assert_eq!(left(&claude(), &mixed, Some("{\"a\":1}")).unwrap(), expected);
}

#[test]
fn comments_stay() {
    let gemini = content(Client::Gemini, BINARY);
    let before = "// a\n{\n  \"x\": 1 // b\n  // c\n}\n";
    let after = installed(&gemini, before);
    let expected = "// a\n{\n  \"x\": 1 // b\n  // c\n}\n";
    assert_eq!(left(&gemini, &after, Some(before)).unwrap(), expected);
    let noted = after.replacen("\"BeforeAgent\"", "/* d */ \"BeforeAgent\"", 1);
    let gone = left(&gemini, &noted, Some(before)).unwrap();
    // What was inside of ours goes with it.
    assert_eq!(gone, expected);
    let noted =
        after.replacen("\"BeforeTool\": [", "\"Notification\": [ // e\n 1], \"BeforeTool\": [", 1);
    let gone = left(&gemini, &noted, Some(before)).unwrap();
    assert!(gone.contains("\"Notification\": [ // e\n 1]\n  }\n}\n"), "{gone}");
}

#[test]
fn a_file_before_that_had_ours_is_not_given_back_as_it_was() {
    let old = installed(&content(Client::Claude, "/old"), "{\n  \"a\": 1\n}\n");
    let new = installed(&claude(), &old);
    let removal = uninstall(&claude(), new.as_bytes(), Some(old.as_bytes()), new.as_bytes());
    let Ok(Removal::Write(bytes)) = removal else { panic!("{removal:?}") };
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.starts_with("{\n  \"a\": 1,\n  \"hooks\": {"), "{text}");
    assert!(!text.contains("hook\""), "{text}");
    let plugin = content(Client::OpenCode, BINARY);
    let old = install(&content(Client::OpenCode, "/old"), None).unwrap();
    let new = install(&plugin, Some(&old)).unwrap();
    assert_eq!(uninstall(&plugin, &new, Some(&old), &new), Ok(Removal::Delete));
}

#[test]
fn what_has_nothing_of_ours_stays() {
    for text in ["{}", "{\"hooks\": {}}", "{\"hooks\": {\"Stop\": []}}", "{\"hooks\": 1}"] {
        let removal = uninstall(&claude(), text.as_bytes(), None, b"");
        let expected = if text == "{}" { Removal::Delete } else { Removal::Unchanged };
        assert_eq!(removal, Ok(expected), "{text}");
    }
    let plugin = content(Client::OpenCode, BINARY);
    assert_eq!(uninstall(&plugin, b"export {}", None, b""), Ok(Removal::Unchanged));
    assert!(uninstall(&claude(), b"{", None, b"").is_err());
    assert!(uninstall(&claude(), b"[]", None, b"").is_err());
}

#[test]
fn a_changed_plugin_of_ours_is_deleted() {
    let plugin = content(Client::OpenCode, BINARY);
    let text = String::from_utf8(install(&plugin, None).unwrap()).unwrap() + "// more\n";
    assert_eq!(left(&plugin, &text, None), None);
}
