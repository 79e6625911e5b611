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
