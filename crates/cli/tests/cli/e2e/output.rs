//! Data on standard output, everything else on standard error, colour only where it is wanted.

use std::process::{Command, Stdio};

use crate::harness::{Outcome, Place, finish};

/// Runs a shell line in which `windlass` is the binary.
fn bash(place: &Place, line: &str) -> Outcome {
    let mut command = Command::new("bash");
    let line = format!("windlass() {{ {} \"$@\"; }}\n{line}", env!("CARGO_BIN_EXE_windlass"));
    command.args(["-c", &line]);
    place.settle(&mut command);
    finish(command, &[])
}

#[test]
fn there_is_no_colour_in_a_pipe() {
    let place = Place::with_project();
    let id = place.completed();
    for words in [vec!["doctor"], vec!["call", "list"], vec!["call", "show", &id], vec!["verify"]] {
        let plain = place.run(&words).exit(0);
        assert!(!plain.text().contains('\u{1b}'), "{plain}");
        let never = place.run(&[&words[..], &["--color", "never"]].concat());
        assert_eq!(plain.stdout, never.stdout);
        let always = place.run(&[&words[..], &["--color", "always"]].concat());
        assert!(always.text().contains('\u{1b}'), "{always}");
        let json = place.run(&[&words[..], &["--color", "always", "--json"]].concat());
        assert!(!json.text().contains('\u{1b}'), "{json}");
    }
    let error = place.run(&["call", "show", "x", "--color", "always"]).exit(2);
    assert!(error.stderr.contains("\u{1b}["), "{error}");
}

#[test]
fn a_terminal_gets_colour_unless_told_otherwise() {
    let place = Place::with_project();
    let windlass = env!("CARGO_BIN_EXE_windlass");
    let typed = |line: &str| bash(&place, &format!("script -qec '{line}' /dev/null </dev/null"));
    let plain = |outcome: Outcome| assert!(!outcome.text().contains("\u{1b}["), "{outcome}");
    let colour = typed(&format!("{windlass} verify"));
    assert!(colour.text().contains("\u{1b}["), "{colour}");
    plain(typed(&format!("NO_COLOR=1 {windlass} verify")));
    plain(typed(&format!("{windlass} --color never verify")));
    // Standard error that goes to a file has no colour, whatever standard output is.
    typed(&format!("{windlass} call show x 2>errors"));
    assert!(!place.read("errors").contains('\u{1b}'), "{}", place.read("errors"));
}

#[test]
fn a_reader_that_leaves_is_no_fault() {
    let place = Place::with_project();
    let id = place.completed();
    for line in [
        "windlass --help",
        "windlass completions bash",
        "windlass policy check",
        "windlass doctor",
        &format!("windlass trace log {id} --artifacts"),
        "echo [] | windlass canon",
    ] {
        let outcome = bash(&place, &format!("{line} | head -c 0; exit ${{PIPESTATUS[-2]}}"));
        outcome.exit(0).quiet();
    }
    // The exit code still says what became of the call.
    let denied = r#"windlass call run shell/read --args '{"line":"rm x"}' --json"#;
    bash(&place, &format!("{denied} | head -c 0; exit ${{PIPESTATUS[0]}}")).exit(3).quiet();
    bash(&place, "windlass verify --nonsense 2>&1 | head -c 0; exit ${PIPESTATUS[0]}").exit(2);
    bash(&place, "windlass call show x 2>&1 >/dev/null | head -c 0; exit ${PIPESTATUS[0]}").exit(2);
}

#[test]
fn closed_and_full_outputs_do_not_panic() {
    let place = Place::with_project();
    bash(&place, "windlass verify >&-").exit(0).quiet();
    bash(&place, "windlass call show x 2>&-").exit(2);
    bash(&place, "windlass verify <&- >&- 2>&-").exit(0);
    bash(&place, "windlass verify >/dev/full").exit(1).warns("standard output cannot be written");
    bash(&place, "windlass completions zsh >/dev/full").exit(1);
    // A call that was made was made, even if nobody could be told.
    let call = r#"windlass call run shell/run --args '{"line":"echo x >> note"}' --key k"#;
    bash(&place, &format!("{call} >/dev/full")).exit(1).warns("cannot be written");
    assert_eq!(place.read("note"), "x\n");
    bash(&place, call).exit(0).says("the tool was not called");
}

#[test]
fn errors_are_json_where_json_is_asked_for() {
    let place = Place::with_project();
    let outcome = place.run(&["--json", "call", "show", "x"]).exit(2);
    assert!(outcome.stdout.is_empty());
    let error = outcome.error();
    assert_eq!(error["code"], "ID_INVALID");
    assert!(error["message"].as_str().unwrap().contains("`x`"));
    assert_eq!(error["causes"], serde_json::json!([]));
    assert!(error["hint"].as_str().unwrap().contains("trace list"));
    // Causes are listed where there are some.
    let id = place.completed();
    place.tamper().execute("UPDATE entries SET ts = ts + 1", []).unwrap();
    let error = place.run(&["--json", "call", "show", &id]).exit(5).error();
    assert_eq!(error["code"], "STATE_CHECKSUM_MISMATCH");
    assert_eq!(error["causes"].as_array().unwrap().len(), 1);
}

#[test]
fn escapes_of_a_tool_do_not_reach_a_terminal() {
    let place = Place::with_project();
    let line = r"printf 'a\033[2J\033]0;b\007c'; printf '\033[8m' >&2";
    let id = crate::harness::text_of(
        &place.shell("shell/read", line, &["--json"]).exit(0).json(),
        "trace_id",
    );
    for words in [vec!["call", "show", &id], vec!["trace", "log", &id, "--artifacts"]] {
        let outcome = place.run(&[&words[..], &["--color", "always"]].concat()).exit(0);
        for bad in ["\u{1b}[2J", "\u{1b}]", "\u{7}", "\u{1b}[8m"] {
            assert!(!outcome.text().contains(bad), "{outcome}");
        }
    }
}

#[test]
fn standard_input_is_not_waited_for() {
    let place = Place::with_project();
    let mut command = place.command(&["verify"]);
    // A pipe that stays open and says nothing.
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let stdin = child.stdin.take();
    assert!(child.wait().unwrap().success());
    drop(stdin);
}
