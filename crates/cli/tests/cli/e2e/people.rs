//! Who decides: people, their keys, and what a decision is bound to.

use serde_json::Value;

use crate::harness::{Place, text_of};

/// A call that waits, and names a file.
fn held_script(place: &Place) -> String {
    place.write("deploy.sh", "echo one > deployed\n");
    let outcome =
        place.shell("shell/run", "eval 'bash ./deploy.sh' deploy.sh", &["--json", "--new-key"]);
    text_of(&outcome.exit(4).json(), "trace_id")
}

fn decided(place: &Place, id: &str) -> Value {
    let shown = place.run(&["call", "show", id, "--json"]).exit(0).json();
    shown["decision"]["decided_by"].clone()
}

#[test]
fn people_are_added_listed_and_revoked() {
    let place = Place::with_project();
    place.run(&["people", "list"]).exit(0).says("owner").says("not protected");
    place.run(&["people", "add", "Ann Lee"]).exit(0).says("Ann Lee can decide now");
    let token = format!("gh{}{}", "p_", "aB3".repeat(13));
    let refused = |name: &str| place.run(&["people", "add", name]).fails_with(2, "REQUEST_INVALID");
    refused(&token).warns("looks like a secret");
    refused("аnn lee").warns("of one script");
    for same in ["ann lee", "  ANN   LEE "] {
        place.run(&["people", "add", same]).fails_with(2, "REQUEST_INVALID").warns("already");
    }
    for bad in ["", " ", "a/b", "a\nb", "zero\u{200b}width"] {
        place.run(&["people", "add", bad]).fails_with(2, "REQUEST_INVALID");
    }
    place.run(&["people", "revoke", "ann LEE"]).exit(0).says("revoked");
    place.run(&["people", "revoke", "ann lee"]).fails_with(3, "PERSON_UNKNOWN");
    let id = place.held();
    let words = ["call", "approve", &id, "--by=Ann Lee", "--reason", "x"];
    place.run(&words).fails_with(3, "PERSON_UNKNOWN").warns("revoked");
    // The refused decision is on record, and nothing ran.
    let calls = place.run(&["call", "list", "--json"]).exit(0).json();
    assert_eq!(calls[0]["tool"], "windlass/decide", "{calls}");
    let state = |at: usize| calls[at]["current_state"].as_str().unwrap_or_default().to_owned();
    assert_eq!((state(0).as_str(), state(1).as_str()), ("DENIED", "PENDING"), "{calls}");
    // A new key under the old name is another person's as far as the list tells.
    place.run(&["people", "add", "ann lee"]).exit(0);
    place.run(&words).exit(0);
    let people = place.run(&["people", "list", "--json"]).exit(0).json();
    let keys: Vec<&Value> = people.as_array().unwrap().iter().map(|one| &one["key_id"]).collect();
    assert!(keys.len() == 3 && keys[1] != keys[2], "{people}");
    place.run(&["verify"]).exit(0);
}

#[test]
fn the_keys_are_private_and_encrypted_with_the_passphrase() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    place.run(&["init"]).exit(0);
    place.protect("ann");
    let folder = place.state_root().join(".people");
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    let mut encrypted = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o077, 0, "{path:?}");
        let text = std::fs::read_to_string(&path).unwrap();
        encrypted += usize::from(text.contains("BEGIN ENCRYPTED PRIVATE KEY"));
    }
    assert_eq!(encrypted, 1);
    let id = place.held();
    let words = ["call", "deny", &id, "--by=ann", "--reason", "no"];
    place.run(&words).fails_with(3, "PERSON_LOCKED").warns("no terminal");
    let from_input = [&words[..], &["--passphrase-file", "-"]].concat();
    place.feed(&from_input, b"wrong\n").fails_with(3, "PERSON_LOCKED");
    place.feed(&from_input, b"a phrase\n").exit(0);
    assert_eq!(decided(&place, &id)["decider"]["approver"], "person ann");
}

#[test]
fn a_decision_that_was_changed_is_found() {
    let place = Place::with_project();
    let id = place.held();
    place.run(&["call", "deny", &id, "--reason", "no"]).exit(0);
    place.run(&["verify"]).exit(0);
    // Without the list nobody knows whose keys these are.
    let list = place.state_root().join(".people/people.json");
    let text = std::fs::read_to_string(&list).unwrap();
    std::fs::remove_file(&list).unwrap();
    place.run(&["verify"]).exit(3).says("[PERSON_UNKNOWN]");
    std::fs::write(&list, text).unwrap();
    place.run(&["verify", &id]).exit(0);
}

#[test]
fn a_script_that_changed_after_it_was_shown_is_not_run_again() {
    let place = Place::with_project();
    let id = held_script(&place);
    let approve = ["call", "approve", &id, "--reason", "looked"];
    let killed = place.run_with("WINDLASS_CRASH_AT", "dispatch.before:1", &approve);
    assert_eq!(killed.code, None, "{killed}");
    place.write("deploy.sh", "echo two > deployed\n");
    let settle = ["call", "settle", "--not-run", &id, "--reason", "it did not run"];
    place.run(&settle).fails_with(3, "HOLD_STALE").warns("deploy.sh");
    let shown = place.run(&["call", "show", &id]).exit(0).says("has changed since");
    let digest =
        shown.text().lines().find_map(|line| line.trim().strip_prefix("shown    ")).unwrap();
    place.run(&[&settle[..], &["--shown", digest]].concat()).exit(0);
    assert_eq!(place.read("deployed"), "two\n");
    place.run(&["verify"]).exit(0);
}

#[test]
fn a_file_that_changed_after_the_question_makes_the_answer_stale() {
    let place = Place::with_project();
    let id = held_script(&place);
    let shown = place.run(&["call", "show", &id]).exit(0).says("deploy.sh").says("eval");
    assert!(!shown.text().contains("has changed since"), "{shown}");
    place.write("deploy.sh", "echo two > deployed\n");
    let approve = ["call", "approve", &id, "--reason", "looked"];
    place.run(&approve).fails_with(3, "HOLD_STALE").warns("deploy.sh").warns("--shown DIGEST");
    assert!(!place.work().join("deployed").exists());
    let shown = place.run(&["call", "show", &id]).exit(0).says("has changed since");
    let digest =
        shown.text().lines().find_map(|line| line.trim().strip_prefix("shown    ")).unwrap();
    // Between looking and answering it changes once more.
    place.write("deploy.sh", "echo three > deployed\n");
    let seen = [&approve[..], &["--shown", digest]].concat();
    place.run(&seen).fails_with(3, "HOLD_STALE");
    place.write("deploy.sh", "echo two > deployed\n");
    place.run(&seen).exit(0);
    assert_eq!(place.read("deployed"), "two\n");
    assert_eq!(decided(&place, &id)["files"][0]["path"], "deploy.sh");
    place.run(&["verify"]).exit(0);
}

#[test]
fn a_person_can_change_the_arguments_and_policy_judges_them() {
    let place = Place::with_project();
    let call = |more: &[&str]| {
        let words = [&["--key", "k1", "--json"], more].concat();
        place.shell("shell/run", "eval 'echo wide > out'", &words)
    };
    let id = text_of(&call(&[]).exit(4).json(), "trace_id");
    let approve =
        |args: &str| place.run(&["call", "approve", &id, "--reason", "narrower", "--args", args]);
    approve(r#"{"line":"sudo ls"}"#).fails_with(3, "POLICY_DENIED");
    approve(r#"{"line":7}"#).fails_with(2, "REQUEST_INVALID");
    approve("[]").exit(2);
    assert!(!place.work().join("out").exists());
    approve(r#"{"line":"echo narrow > out"}"#).exit(0).says("edited");
    assert_eq!(place.read("out"), "narrow\n");
    let by = decided(&place, &id);
    assert_eq!(by["edit"]["args"]["line"], "echo narrow > out");
    // Who asks again with the same key gets what was done, and is told what was changed.
    std::fs::remove_file(place.work().join("out")).unwrap();
    let again = call(&[]).exit(0).json();
    assert_eq!((&again["replayed"], &again["trace_id"]), (&true.into(), &id.as_str().into()));
    assert_eq!(again["edited_args"]["line"], "echo narrow > out");
    assert!(!place.work().join("out").exists());
    place.run(&["verify"]).exit(0);
}

#[test]
fn a_key_of_an_ssh_agent_signs() {
    let place = Place::with_project();
    let key = place.base().join("id");
    let key = key.to_str().unwrap();
    let tool = |program: &str, args: &[&str]| {
        let mut command = std::process::Command::new(program);
        command.args(args).stdin(std::process::Stdio::null());
        let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    tool("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-C", "ann", "-f", key]);
    let socket = place.base().join("agent");
    let socket = socket.to_str().unwrap();
    let mut agent = std::process::Command::new("ssh-agent")
        .args(["-D", "-a", socket])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    windlass_testkit::eventually("the agent listens", || std::path::Path::new(socket).exists());
    let public = format!("{key}.pub");
    place.run(&["people", "add", "ann", "--ssh-key", &public]).exit(0);
    let id = place.held();
    let words = ["call", "deny", &id, "--by=ann", "--reason", "no"];
    place.run(&words).fails_with(3, "PERSON_LOCKED").warns("SSH_AUTH_SOCK");
    // The agent does not have the key yet.
    place.run_with("SSH_AUTH_SOCK", socket, &words).fails_with(3, "PERSON_LOCKED");
    let mut add = std::process::Command::new("ssh-add");
    let added = add.args(["-q", key]).env("SSH_AUTH_SOCK", socket).status().unwrap();
    assert!(added.success());
    place.run_with("SSH_AUTH_SOCK", socket, &words).exit(0);
    agent.kill().unwrap();
    agent.wait().unwrap();
    let by = decided(&place, &id);
    assert_eq!(
        (&by["decider"]["name"], &by["decider"]["approver"]),
        (&"ann".into(), &"person ann".into())
    );
    place.run(&["verify"]).exit(0);
    // Other kinds of keys are refused.
    let rsa = place.base().join("rsa");
    let rsa = rsa.to_str().unwrap();
    tool("ssh-keygen", &["-q", "-t", "ecdsa", "-N", "", "-f", rsa]);
    let public = format!("{rsa}.pub");
    place.run(&["people", "add", "bob", "--ssh-key", &public]).fails_with(1, "KEY_INVALID");
}

#[test]
fn a_process_in_a_cell_can_decide_nothing() {
    let place = Place::with_project();
    let id = place.held();
    let windlass = env!("CARGO_BIN_EXE_windlass");
    std::fs::copy(windlass, place.work().join("agent-tool")).unwrap();
    for words in [
        format!("call approve {id} --reason mine"),
        format!("call settle --ran {id} --reason mine"),
        "queue approve x --reason mine".to_owned(),
        "people add me".to_owned(),
        "people list".to_owned(),
        "stop".to_owned(),
        "trust".to_owned(),
        "resume x".to_owned(),
    ] {
        let line = format!("./agent-tool {words}");
        let outcome = place.shell("shell/run", &line, &["--json", "--new-key"]);
        let report = outcome.json();
        assert_eq!(report["state"], "FAILED", "{words}: {outcome}");
        let said = report["result"]["stderr"].as_str().unwrap_or_default();
        assert!(said.contains("[SANDBOX_UNAVAILABLE]"), "{words}: {outcome}");
    }
    let held = place.run(&["call", "show", &id, "--json"]).exit(0).json();
    assert_eq!(held["state"], "PENDING");
}
