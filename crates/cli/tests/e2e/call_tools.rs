//! Tools that misbehave, by a real MCP server and by real commands.

use crate::harness::Place;
use crate::snapshot::check;

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
        run("count/die", "{}").exit(1).says("[TOOL_SERVER_UNAVAILABLE]"),
        run("count/hang", "{}").exit(1).says("[TOOL_TIMEOUT]"),
        run("count/huge", r#"{"bytes":100000}"#).exit(1).says("[TOOL_OUTPUT_TOO_LARGE]"),
        run("count/garbage", "{}").exit(1).says("[TOOL_PROTOCOL_ERROR]"),
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
fn a_command_that_floods_its_output_is_ended() {
    let place = Place::with_project();
    place.replace(
        ".windlass/tools.toml",
        "timeout_ms = 60000",
        "timeout_ms = 60000\noutput_bytes_max = 1000",
    );
    let outcome = place.shell("shell/read", "seq 1000000", &[]).exit(1);
    outcome.says("[TOOL_OUTPUT_TOO_LARGE]");
    place.shell("shell/read", "seq 10", &[]).exit(0);
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
