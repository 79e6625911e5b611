//! Secrets of the environment never come to lie in the journal.

use crate::harness::{Place, finish};

const SECRET: &str = "hunter2-and-more-of-it";

/// A project whose shell tools are given a secret.
fn place() -> Place {
    let place = Place::with_project();
    place.replace(
        ".windlass/tools.toml",
        "connector = \"command\"",
        "connector = \"command\"\nenv = [\"SERVICE_TOKEN\"]",
    );
    place
}

fn call(place: &Place, words: &[&str]) -> crate::harness::Outcome {
    let mut command = place.command(&[&["call", "run", "shell/read"], words].concat());
    command.env("SERVICE_TOKEN", SECRET);
    finish(command, &[])
}

#[test]
fn a_secret_in_a_tools_output_is_taken_out_before_it_is_stored() {
    let place = place();
    place.write("leak", format!("token={SECRET}\nghp_{}\n", "a".repeat(36)));
    let outcome = call(&place, &["--args", r#"{"line":"cat leak; cat leak >&2"}"#]).exit(0);
    let outcome = outcome.says("token=[redacted:SERVICE_TOKEN]").says("[redacted:github-token]");
    assert!(!outcome.text().contains(SECRET), "{outcome}");
    assert!(!place.stores(SECRET));
    assert!(!place.stores("ghp_aaaa"));
    place.run(&["verify"]).exit(0);
}

#[test]
fn a_secret_in_a_failing_tools_output_is_taken_out_too() {
    let place = place();
    place.write("leak", SECRET);
    call(&place, &["--args", r#"{"line":"cat leak >&2; false"}"#]).exit(1);
    assert!(!place.stores(SECRET));
}

#[test]
fn a_secret_in_the_arguments_is_refused() {
    let place = place();
    let args = format!(r#"{{"line":"echo {SECRET}"}}"#);
    let outcome = call(&place, &["--args", &args]).exit(3).says("[SECRET_IN_REQUEST]");
    assert!(!outcome.text().contains(SECRET), "{outcome}");
    place.run(&["verify"]).exit(0);
}

#[test]
fn a_secret_in_the_arguments_is_not_stored() {
    let place = place();
    call(&place, &["--args", &format!(r#"{{"line":"echo {SECRET}"}}"#)]).exit(3);
    call(&place, &["--args", &format!(r#"{{"line":"ls","{SECRET}":1}}"#)]).exit(3);
    assert!(!place.stores(SECRET));
}

#[test]
fn a_secret_in_the_other_words_of_a_request_is_not_stored() {
    let place = place();
    let args = ["--args", r#"{"line":"ls"}"#];
    for more in [["--intent", SECRET], ["--key", SECRET], ["--agent", SECRET]] {
        call(&place, &[&args[..], &more].concat());
    }
    assert!(!place.stores(SECRET));
}

#[test]
fn a_variable_that_the_registry_names_must_be_there() {
    let place = place();
    let outcome = place.shell("shell/read", "ls", &[]).exit(3);
    outcome.says("SERVICE_TOKEN").says("[CONFIG_INVALID]");
    place.run(&["doctor"]).exit(1).says("SERVICE_TOKEN");
}

/// `SECRET` in base64.
const ENCODED: &str = "aHVudGVyMi1hbmQtbW9yZS1vZi1pdA==";

#[test]
fn a_secret_is_found_in_any_encoding() {
    let place = place();
    let hex: String = SECRET.bytes().map(|byte| format!("{byte:02X}")).collect();
    place.write("leak", format!("{ENCODED} {hex}"));
    let outcome = call(&place, &["--args", r#"{"line":"cat leak"}"#]).exit(0);
    let outcome = outcome.says("[redacted:SERVICE_TOKEN] [redacted:SERVICE_TOKEN]");
    assert!(!outcome.text().contains(ENCODED), "{outcome}");
    let args = format!(r#"{{"line":"echo {ENCODED}"}}"#);
    call(&place, &["--args", &args]).exit(3).says("[SECRET_IN_REQUEST]");
    for form in [ENCODED, &hex, SECRET] {
        assert!(!place.stores(form), "{form}");
    }
}

#[test]
fn a_request_with_what_looks_like_a_secret_is_refused_and_not_stored() {
    let place = Place::with_project();
    let token = format!("gh{}{}", "p_", "a1B2".repeat(9));
    let outcome = place.shell("shell/read", &format!("echo {token}"), &[]).exit(3);
    outcome.says("[SECRET_IN_REQUEST]").says("github-token");
    let args = ["--intent", &format!("because of {token}")];
    place.shell("shell/read", "ls", &args).exit(3).says("[SECRET_IN_REQUEST]");
    assert!(!place.stores("a1B2a1B2"));
}

/// A project with tools that get a secret of the user, and the user's settings.
fn named() -> Place {
    let place = Place::with_project();
    place.append(
        ".windlass/tools.toml",
        r#"
[server.vault]
connector = "command"

[server.vault.tool.put]
class = "write"
idempotent = true
argv = ["cat"]
stdin = "/body"
secrets = ["SERVICE", "EMPTY"]

[server.vault.tool.count]
class = "read"
argv = ["bash", "-c", "printf '%s' \"$1\" | wc -c", "count", { arg = "/word" }]
secrets = ["SERVICE", "FILE"]

[server.vault.tool.read]
class = "read"
argv = ["cat", { arg = "/path" }]
paths.read = ["/path"]
secrets = ["SERVICE"]

[server.vault.tool.other]
class = "read"
argv = ["cat"]
stdin = "/body"
"#,
    );
    place.write(
        ".windlass/policy/vault.toml",
        r#"
[[rule]]
id = "vault"
verdict = "allow"
reason = "for the test"
tool = "vault/*"
matches = [{ tool = "vault/put", args = { body = "x" } }]
"#,
    );
    let file = place.base().join("token");
    std::fs::write(&file, "0123456789\n").unwrap();
    set_mode(&file, 0o600);
    place.settings(&format!(
        "[secrets]\nSERVICE = {{ env = \"SERVICE_TOKEN\" }}\nEMPTY = {{ env = \"EMPTY_TOKEN\" }}\n\
         FILE = {{ file = \"{}\" }}\n",
        file.display()
    ));
    place
}

fn set_mode(path: &std::path::Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn vault(place: &Place, tool: &str, args: &str, more: &[(&str, &str)]) -> crate::harness::Outcome {
    let line = ["call", "run", tool, "--new-key", "--args", args];
    let mut command = place.command(&line);
    command.env("SERVICE_TOKEN", SECRET).env("EMPTY_TOKEN", "").envs(more.iter().copied());
    finish(command, &[])
}

#[test]
fn a_call_names_a_secret_and_the_tool_gets_its_value() {
    let place = named();
    let outcome = vault(&place, "vault/count", r#"{"word":{"secret":"SERVICE"}}"#, &[]).exit(0);
    outcome.says(&SECRET.len().to_string());
    vault(&place, "vault/count", r#"{"word":{"secret":"FILE"}}"#, &[]).exit(0).says("10");
    let outcome = vault(&place, "vault/put", r#"{"body":{"secret":"SERVICE"}}"#, &[]).exit(0);
    let outcome = outcome.says("[redacted:SERVICE]");
    assert!(!outcome.text().contains(SECRET), "{outcome}");
    assert!(!place.stores(SECRET) && !place.stores("0123456789"));
    // The journal has the name, and digests are of the name.
    assert!(place.stores(r#"{"secret":"SERVICE"}"#));
    place.run(&["verify"]).exit(0);
}

#[test]
fn a_secret_that_a_call_cannot_have_is_refused() {
    let place = named();
    for (tool, args, code, says) in [
        ("vault/put", r#"{"body":{"secret":"NONE"}}"#, "SECRET_UNKNOWN", "NONE"),
        ("vault/other", r#"{"body":{"secret":"SERVICE"}}"#, "SECRET_UNDECLARED", "SERVICE"),
        ("vault/put", r#"{"body":{"secret":"EMPTY"}}"#, "SECRET_UNAVAILABLE", "is empty"),
        ("vault/read", r#"{"path":{"secret":"SERVICE"}}"#, "REQUEST_INVALID", "/path"),
    ] {
        let outcome = vault(&place, tool, args, &[]).exit(3);
        outcome.says(&format!("[{code}]")).says(says);
    }
    set_mode(&place.base().join("token"), 0o644);
    let outcome = vault(&place, "vault/count", r#"{"word":{"secret":"FILE"}}"#, &[]).exit(3);
    outcome.says("[SECRET_UNAVAILABLE]").says("chmod 600");
    // Other objects are not names of secrets.
    vault(&place, "vault/other", r#"{"body":{"secret":"SERVICE","x":1}}"#, &[]).exit(3);
    assert!(!place.stores(SECRET));
}

#[test]
fn after_a_crash_the_call_gets_its_secret_again() {
    let place = named();
    let crash = [("WINDLASS_CRASH_AT", "dispatch.before")];
    let outcome = vault(&place, "vault/put", r#"{"body":{"secret":"SERVICE"}}"#, &crash);
    assert_eq!(outcome.code, None, "{outcome}");
    let id = place.ids()[0].clone();
    let outcome = place.run_with("SERVICE_TOKEN", SECRET, &["recover", &id]).exit(0);
    outcome.says("[redacted:SERVICE]");
    assert!(!place.stores(SECRET));
    place.run(&["verify"]).exit(0);
}
