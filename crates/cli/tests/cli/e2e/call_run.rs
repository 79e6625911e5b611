//! `windlass call run`: what is allowed, denied, asked, refused and repeated.

use crate::e2e::snapshot::check;
use crate::harness::{Place, text_of};

#[test]
fn calls_are_allowed_denied_and_asked() {
    let place = Place::with_project();
    let outcomes = [
        place.shell("shell/read", "echo hello; echo oops >&2", &[]).exit(0).quiet(),
        place.shell("shell/run", "echo x > note", &["--key", "note-1"]).exit(0).quiet(),
        place.shell("shell/read", "rm note", &[]).exit(3).warns("hint: "),
        place.shell("shell/read", "env", &[]).exit(4).quiet(),
        place.shell("shell/run", "ls", &[]).exit(3).warns("hint: "),
        place.run(&["call", "run", "shell/walk"]).exit(3).warns("hint: "),
        place.shell("shell/run", "ls", &["--class", "read", "--new-key"]).exit(3).warns("hint: "),
        place.shell("shell/run", "echo x > ../x", &["--new-key"]).exit(3).warns("hint: "),
        place.shell("shell/read", "false", &[]).exit(1).quiet(),
    ];
    check("call_run", &place, &outcomes);
    assert_eq!(place.read("note"), "x\n");
    place.run(&["verify"]).exit(0).says("intact: 9 traces");
}

#[test]
fn every_call_is_told_as_json() {
    let place = Place::with_project();
    let cases: [(&str, &str, i32, &str); 4] = [
        ("shell/read", "echo hello", 0, "COMPLETED"),
        ("shell/read", "false", 1, "FAILED"),
        ("shell/read", "rm x", 3, "DENIED"),
        ("shell/read", "env", 4, "PENDING"),
    ];
    for (tool, line, exit, state) in cases {
        let report = place.shell(tool, line, &["--json"]).exit(exit).quiet().json();
        assert_eq!(report["state"], state);
        assert_eq!(report["tool"], tool);
        assert_eq!(report["hold"].is_null(), exit != 4, "{report}");
        assert_eq!(report["refusal"].is_null(), exit != 3, "{report}");
        assert_eq!(report["error"].is_null(), exit != 1, "{report}");
        let id = text_of(&report, "trace_id");
        let mut shown = place.run(&["call", "show", &id, "--json"]).exit(0).json();
        let shown = shown.as_object_mut().unwrap();
        let request = shown.remove("request").unwrap();
        assert_eq!(request["proposal"]["args"]["line"], line);
        assert_eq!(shown.remove("decision").unwrap().is_null(), exit == 4);
        assert_eq!(&serde_json::Value::Object(shown.clone()), &report);
    }
}

#[test]
fn a_repeated_call_is_answered_from_the_journal() {
    let place = Place::with_project();
    let line = "echo x >> note; cat note";
    let first = place.shell("shell/run", line, &["--key", "note-1"]).exit(0);
    let second = place.shell("shell/run", line, &["--key", "note-1"]).exit(0);
    let conflict = place.shell("shell/run", "echo y >> note", &["--key", "note-1"]).exit(3);
    let other = place.shell("shell/run", line, &["--key", "note-2"]).exit(0);
    let fresh = place.shell("shell/run", line, &["--new-key"]).exit(0);
    assert_eq!(place.read("note"), "x\nx\nx\n");
    let fresh_key = place.shell("shell/run", line, &["--new-key", "--json"]).exit(0).json();
    assert_eq!(text_of(&fresh_key, "idempotency_key").len(), 36);
    check("call_repeated", &place, &[first, second, conflict, other, fresh]);
    let repeated = place.shell("shell/run", line, &["--key", "note-1", "--json"]).exit(0).json();
    assert_eq!(repeated["replayed"], true);
}

#[test]
fn the_order_of_keys_and_spaces_do_not_make_another_request() {
    let place = Place::with_server();
    let run = |args: &str, more: &[&str]| {
        place.run(&[&["call", "run", "count/add", "--args", args, "--key", "k"], more].concat())
    };
    run(r#"{"a":1,"b":[2.0]}"#, &[]).exit(0);
    run(r#"{ "b": [2], "a": 1.0 }"#, &[]).exit(0).says("recorded result");
    run(r#"{"a":1,"b":[3]}"#, &[]).exit(3).says("[IDEMPOTENCY_CONFLICT]");
    assert_eq!(place.executed(), 1);
}

#[test]
fn a_failed_write_is_not_made_again_under_its_key() {
    let place = Place::with_project();
    let line = "echo x >> note; false";
    place.shell("shell/run", line, &["--key", "k"]).exit(1);
    let again = place.shell("shell/run", line, &["--key", "k"]).exit(1);
    again.says("the tool was not called").says("[TOOL_FAILED]");
    assert_eq!(place.read("note"), "x\n");
}

#[test]
fn plan_agent_phase_and_intent_are_recorded() {
    let place = Place::with_project();
    let plan = "01890a5d-ac96-774b-bcce-b302099a8057";
    let words = ["--plan", plan, "--agent", "builder", "--phase", "build"];
    let intent = ["--intent", "see what is there", "--json"];
    let report = place.shell("shell/read", "ls", &[&words[..], &intent].concat()).exit(0).json();
    assert_eq!(report["plan_id"], plan);
    let id = text_of(&report, "trace_id");
    let log = place.run(&["trace", "log", &id, "--artifacts"]).exit(0);
    log.says(r#""agent": "builder""#)
        .says(r#""phase": "build""#)
        .says(r#""intent": "see what is there""#);
}

#[test]
fn reads_may_be_recorded_together_with_their_effect() {
    let place = Place::with_project();
    place.replace(".windlass/config.toml", "write-ahead\"\n", "with-effect\"\n");
    let id = place.completed();
    let log = place.run(&["trace", "log", &id, "--json"]).exit(0);
    assert_eq!(log.text().lines().count(), 4);
    place.run(&["verify", &id]).exit(0);
    // A read that dies on its way leaves nothing.
    let args = ["call", "run", "shell/read", "--args", r#"{"line":"ls"}"#];
    let died = place.run_with("WINDLASS_CRASH_AT", "dispatch.after", &args);
    assert_eq!(died.code, None);
    assert_eq!(place.ids(), [id]);
}

#[test]
fn the_nearest_project_is_meant() {
    let place = Place::with_project();
    std::fs::create_dir_all(place.work().join("below/deep")).unwrap();
    let deep = |args: &[&str]| {
        let mut command = place.command(args);
        command.current_dir(place.work().join("below/deep"));
        crate::harness::finish(command, &[])
    };
    place.completed();
    deep(&["verify"]).exit(0).says("intact: 1 trace,");
    // Whatever folder a command is called from, tools work in the project's.
    let pwd = ["call", "run", "shell/read", "--args", r#"{"line":"pwd"}"#];
    let work = place.work().canonicalize().unwrap();
    deep(&pwd).exit(0).says(&format!("stdout   {}\n", work.display()));
    place.run(&["init", "-C", "below"]).exit(0);
    deep(&["verify"]).exit(0).says("intact: 0 traces");
    deep(&pwd).exit(0).says(&format!("stdout   {}/below\n", work.display()));
    place.run(&["verify"]).exit(0).says("intact: 2 traces");
    place.run(&["verify", "-C", "below"]).exit(0).says("intact: 1 trace,");
    place.run_with("WINDLASS_PROJECT", "below", &["verify"]).exit(0).says("intact: 1 trace,");
    place.run(&["verify", "-C", "below/deep"]).fails_with(2, "PROJECT_MISSING");
}

#[test]
fn an_unknown_drill_is_refused() {
    let place = Place::with_project();
    for drill in ["nonsense", "append.after:0", "append.after:x", ""] {
        let refused = place.run_with("WINDLASS_CRASH_AT", drill, &["call", "list"]);
        refused.fails_with(2, "REQUEST_INVALID").warns("WINDLASS_CRASH_AT").warns("hint: ");
    }
}
