//! What is not edited, and why.

use windlass_hooks::{Binary, Client, FILE_BYTES_MAX, InstallError, install};

use crate::install::{BINARY, claude, content};

fn refused(client: Client, before: &str) -> String {
    install(&content(client, BINARY), Some(before.as_bytes())).unwrap_err().to_string()
}

#[test]
fn what_is_not_json_is_named_with_its_place() {
    for (before, message) in [
        ("{", "line 1, column 2: not JSON: a key in quotes is expected"),
        ("{\"a\"", "line 1, column 5: not JSON: a colon is expected"),
        ("{\"ä\": }", "line 1, column 7: not JSON: a value is expected"),
        ("{\n \"a\": 1,\n}", "line 3, column 1: not JSON: a key in quotes is expected"),
        ("{} x", "line 1, column 4: not JSON: the text goes on after its end"),
        ("{\"a\": 01}", "line 1, column 8: not JSON: a comma or `}` is expected"),
        ("{\"a\": [1 2]}", "line 1, column 10: not JSON: a comma or `]` is expected"),
        ("{\"a\": \"\\x\"}", "line 1, column 9: not JSON: an escape is not right"),
        ("{\"a\": \"\t\"}", "line 1, column 8: not JSON: a control character is in a string"),
        ("{\"a\": \"b}", "line 1, column 8: not JSON: a string has no end"),
        ("{\"a\": -}", "line 1, column 8: not JSON: a digit is expected"),
        ("{\"a\": nul}", "line 1, column 7: not JSON: a value is expected"),
        ("{\"a\": 1, /*", "line 1, column 10: not JSON: a comment has no end"),
        ("{ // c\n}", "line 1, column 3: a comment, which the client does not read"),
        ("{\"a\": {\"b\":1,\n\"\\u0062\":2}}", "line 2, column 1: the key `b` is there twice"),
        ("[]", "line 1, column 1: `the file` is not an object"),
        ("{\"hooks\": []}", "line 1, column 11: `hooks` is not an object"),
        ("{\"hooks\": {\"Stop\": {}}}", "line 1, column 20: `hooks.Stop` is not an array"),
        (
            "{\n\"disableAllHooks\": true}",
            "line 2, column 20: `disableAllHooks` is set, so hooks would not run",
        ),
    ] {
        assert_eq!(refused(Client::Claude, before), message, "{before}");
    }
    let deep = format!("{{\"a\": {}", "[".repeat(200));
    assert!(refused(Client::Claude, &deep).contains("too many values inside each other"));
}

#[test]
fn switches_of_gemini_cli_are_seen() {
    for (before, reason) in [
        (r#"{"hooksConfig": {"enabled": false}}"#, "`hooksConfig.enabled` is not true"),
        (r#"{"hooksConfig": {"disabled": ["windlass"]}}"#, "`hooksConfig.disabled` lists our hook"),
        (
            r#"{"hooks": {"disabled": ["/opt/windlass hook --client gemini"]}}"#,
            "`hooks.disabled` lists our hook",
        ),
    ] {
        assert!(refused(Client::Gemini, before).contains(reason), "{before}");
    }
    let fine =
        r#"{"hooksConfig": {"enabled": true, "disabled": ["other"]}, "disableAllHooks": true}"#;
    install(&content(Client::Gemini, BINARY), Some(fine.as_bytes())).unwrap();
    let fine = br#"{"disableAllHooks": false}"#;
    install(&claude(), Some(fine)).unwrap();
}

#[test]
fn other_bytes_are_refused() {
    let result = |bytes: &[u8]| install(&claude(), Some(bytes));
    assert_eq!(result(b"\xef\xbb\xbf{}"), Err(InstallError::ByteOrderMark));
    assert_eq!(result(b"{\"\xff\": 1}"), Err(InstallError::NotUtf8 { offset: 2 }));
    let large = format!("{{\"a\": \"{}\"}}", "x".repeat(FILE_BYTES_MAX));
    let bytes = large.len();
    assert_eq!(result(large.as_bytes()), Err(InstallError::TooLarge { bytes }));
}

#[test]
fn a_path_that_clients_would_change_is_refused() {
    for path in ["", "windlass", "./windlass", "/a\nb", "/a\0", "/$HOME/w", "/${X}"] {
        assert!(Binary::new(path).is_err(), "{path}");
    }
    assert!(Binary::new(&format!("/{}", "x".repeat(5000))).is_err());
}

#[test]
fn a_plugin_file_of_others_is_not_overwritten() {
    let plugin = content(Client::OpenCode, BINARY);
    let foreign = Some(&b"export const A = 1\n"[..]);
    assert_eq!(install(&plugin, foreign), Err(InstallError::Foreign));
}
