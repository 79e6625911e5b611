//! Tools that misbehave, by a real MCP server and by real commands.

use crate::e2e::snapshot::check;
use crate::harness::Place;

fn call(place: &Place, tool: &str, args: &str) -> crate::harness::Outcome {
    place.run(&["call", "run", tool, "--args", args, "--new-key"])
}

#[test]
fn a_server_answers_fails_dies_hangs_and_floods() {
    let place = Place::with_server();
    place.append(".windlass/tools.toml", "[server.count.tool.liar]\nclass = \"read\"\n");
    place.append(".windlass/tools.toml", "[server.count.tool.absent]\nclass = \"read\"\n");
    let run =
        |tool: &str, args: &str| place.run(&["call", "run", tool, "--args", args, "--key", "k"]);
    let outcomes = [
        run("count/add", r#"{"text":"one"}"#).exit(0),
        run("count/fail", "{}").exit(1).says("[TOOL_FAILED]"),
        run("count/die", "{}").exit(4).says("[TOOL_SERVER_UNAVAILABLE]"),
        run("count/hang", "{}").exit(4).says("[TOOL_TIMEOUT]"),
        run("count/huge", r#"{"bytes":100000}"#).exit(1).says("[TOOL_OUTPUT_TOO_LARGE]"),
        run("count/garbage", "{}").exit(4).says("[TOOL_PROTOCOL_ERROR]"),
        run("count/unsafe_number", "{}").exit(1).says("[JSON_NUMBER_UNSAFE]"),
        run("count/absent", "{}").exit(1).says("[TOOL_PROTOCOL_ERROR]"),
        run("count/liar", "{}").exit(3).says("[TOOL_CLASS_MISMATCH]"),
        run("broken/get", "{}").exit(1).says("[TOOL_SERVER_UNAVAILABLE]"),
        run("count/huge", &format!(r#"{{"a":"{}"}}"#, "x".repeat(200))).exit(3),
    ];
    check("call_tools", &place, &outcomes);
    place.run(&["verify"]).exit(0);
}

#[test]
fn a_command_that_takes_too_long_is_ended() {
    let place = Place::with_project();
    place.replace(".windlass/tools.toml", "timeout_ms = 60000", "timeout_ms = 300");
    let outcome = place.shell("shell/read", "sleep 86400 | sleep 86400", &[]).exit(1);
    outcome.says("[TOOL_TIMEOUT]").says("may have taken effect");
}

#[test]
fn a_command_that_floods_its_output_is_recorded_in_part_and_kept_whole() {
    let place = Place::with_project();
    place.replace(
        ".windlass/tools.toml",
        "timeout_ms = 60000",
        "timeout_ms = 60000\noutput_bytes_max = 1000",
    );
    let outcome = place.shell("shell/read", "seq 5000000; seq 3 >&2", &[]).exit(0);
    let outcome = outcome.says("  stdout   5000000").says("bytes left out").says("  stderr   3");
    let call = place.run(&["call", "list", "--json"]).exit(0).json();
    let id = call[0]["trace_id"].as_str().unwrap().to_owned();
    outcome.says(&format!("all with `windlass call show {id} --as stdout`"));
    let whole = place.run(&["call", "show", &id, "--as", "stdout"]).exit(0);
    let expected: String = (1..=5_000_000).map(|number| format!("{number}\n")).collect();
    assert!(whole.text() == expected);
    // What was not cut is shown from the record, in either form.
    assert_eq!(place.run(&["call", "show", &id, "--as", "stderr"]).exit(0).text(), "1\n2\n3\n");
    let json = place.run(&["call", "show", &id, "--as", "stderr", "--json"]).exit(0).json();
    assert_eq!(json["stderr"], "1\n2\n3\n");
    // The record does not depend on what was kept; the command that shows it says when it is gone.
    std::fs::remove_dir_all(place.state().join("outputs")).unwrap();
    place.run(&["verify"]).exit(0);
    place.run(&["call", "show", &id]).exit(0).says("bytes left out");
    place.run(&["call", "show", &id, "--as", "stdout"]).fails_with(1, "BLOB_MISSING");
    let other = place.shell("shell/read", "seq 10", &[]).exit(0);
    assert!(!other.text().contains("left out"), "{other}");
}

#[test]
fn a_command_that_is_not_there_is_told() {
    let place = Place::with_project();
    let tool = "[server.shell.tool.gone]\nclass = \"read\"\nargv = [\"nonexistent-program\"]\n";
    place.append(".windlass/tools.toml", tool);
    place.append(
        ".windlass/policy/default.toml",
        "[[rule]]\nid = \"gone\"\nverdict = \"allow\"\nreason = \"a test\"\ntool = \"shell/gone\"\n\
         matches = [{ tool = \"shell/gone\", args = {} }]\n",
    );
    call(&place, "shell/gone", "{}").exit(1).says("nonexistent-program");
}

#[test]
fn output_that_is_not_text_can_be_recorded() {
    let place = Place::with_project();
    place.shell("shell/read", r"printf 'a\377b\000c'", &[]).exit(0);
    place.run(&["verify"]).exit(0);
}
