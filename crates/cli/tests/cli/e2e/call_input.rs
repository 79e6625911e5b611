//! What `windlass call run` is given: by string, file or standard input, well formed or not.

use std::io::Write as _;
use std::process::Stdio;

use crate::e2e::snapshot::check;
use crate::harness::{Outcome, Place};

fn args(place: &Place, text: &str) -> Outcome {
    place.run(&["call", "run", "shell/read", "--args", text])
}

#[test]
fn arguments_come_by_string_by_file_or_by_standard_input() {
    let place = Place::with_project();
    let text = r#"{"line":"echo hello"}"#;
    args(&place, text).exit(0).says("stdout   hello");
    place.write("args.json", text);
    args(&place, "@args.json").exit(0).says("stdout   hello");
    let stdin = place.feed(&["call", "run", "shell/read", "--args", "-"], text.as_bytes());
    stdin.exit(0).says("stdout   hello");
    args(&place, "@missing.json").fails_with(1, "FILE_UNREADABLE").warns("missing.json");
    args(&place, "@.").fails_with(1, "FILE_UNREADABLE");
    place.feed(&["call", "run", "shell/read", "--args", "-"], &[]).fails_with(2, "JSON_INVALID");
}

#[test]
fn what_is_not_a_request_is_refused_and_not_recorded() {
    let place = Place::with_project();
    let long = "x".repeat(256);
    let longer = "x".repeat(1001);
    let run = |words: &[&str]| place.run(&[&["call", "run", "shell/read"], words].concat());
    let tool = |name: &str| place.run(&["call", "run", name]);
    let outcomes = [
        args(&place, "{line:1}").fails_with(2, "JSON_INVALID"),
        args(&place, "").fails_with(2, "JSON_INVALID"),
        args(&place, r#"{"a":1,"\u0061":2}"#).fails_with(2, "JSON_DUPLICATE_KEY"),
        args(&place, r#"{"a":9007199254740993}"#).fails_with(2, "JSON_NUMBER_UNSAFE"),
        args(&place, "[1]").fails_with(2, "REQUEST_INVALID"),
        args(&place, "null").fails_with(2, "REQUEST_INVALID"),
        run(&["--intent", "short"]).fails_with(2, "REQUEST_INVALID"),
        run(&["--intent", &longer]).fails_with(2, "REQUEST_INVALID"),
        run(&["--key", ""]).fails_with(2, "REQUEST_INVALID"),
        run(&["--key", &long]).fails_with(2, "REQUEST_INVALID"),
        run(&["--agent", ""]).fails_with(2, "REQUEST_INVALID"),
        run(&["--plan", "not-a-uuid"]).fails_with(2, "ID_INVALID"),
        run(&["--plan", "550e8400-e29b-41d4-a716-446655440000"]).fails_with(2, "ID_INVALID"),
        tool("shell").fails_with(2, "REQUEST_INVALID"),
        tool("/read").fails_with(2, "REQUEST_INVALID"),
        tool("shell/").fails_with(2, "REQUEST_INVALID"),
        tool("../shell/read").fails_with(2, "REQUEST_INVALID"),
        tool("shell/../read").fails_with(2, "REQUEST_INVALID"),
        tool("Shell/read").fails_with(2, "REQUEST_INVALID"),
        tool("shell/re\u{1b}[31mad").fails_with(2, "REQUEST_INVALID"),
    ];
    for outcome in &outcomes {
        assert!(!outcome.stderr.contains('\u{1b}'), "{outcome}");
    }
    let shown: Vec<_> = outcomes
        .into_iter()
        .map(|mut outcome| {
            let line = outcome.line.replace(&longer, "<1001 x>").replace(&long, "<256 x>");
            outcome.line = line.replace('\u{1b}', "<escape>");
            outcome
        })
        .collect();
    check("call_input", &place, &shown);
    assert_eq!(place.ids(), [""; 0]);
    run(&["--key", &"\u{1F600}".repeat(255), "--args", r#"{"line":"ls"}"#]).exit(0);
}

#[test]
fn bytes_that_are_not_text_are_refused() {
    let place = Place::with_project();
    let words = ["call", "run", "shell/read", "--args", "-"];
    place.feed(&words, b"{\"line\":\"\xff\"}").fails_with(2, "JSON_INVALID");
    place.feed(&words, b"{\"line\":\"ls\0\"}").fails_with(2, "JSON_INVALID");
    place.feed(&words, b"\xef\xbb\xbf{}").fails_with(2, "JSON_INVALID");
    use std::os::unix::ffi::OsStrExt as _;
    let mut command = place.command(&["call", "run"]);
    command.arg(std::ffi::OsStr::from_bytes(b"shell/\xff"));
    crate::harness::finish(command, &[]).exit(2).warns("UTF-8");
    assert_eq!(place.ids(), [""; 0]);
}

#[test]
fn a_nul_in_a_line_never_reaches_a_shell() {
    let place = Place::with_project();
    let outcome = args(&place, r#"{"line":"echo a\u0000; echo b"}"#);
    assert!(matches!(outcome.code, Some(1..=4)), "{outcome}");
    assert!(!outcome.text().contains("stdout"), "{outcome}");
    place.run(&["verify"]).exit(0);
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let place = Place::with_project();
    let key = "a\u{1b}[2Jb\nc";
    let report = place.shell("shell/read", "ls", &["--key", key]).exit(0);
    assert!(!report.text().contains('\u{1b}'), "{report}");
    let report = place.shell("shell/read", r"printf 'a\033[2Jb'", &[]).exit(0);
    assert!(!report.text().contains('\u{1b}'), "{report}");
    let report = args(&place, "{\"line\":\"echo \\u001b[2J | frobnicate\"}").exit(3);
    assert!(!report.text().contains('\u{1b}'), "{report}");
}

/// The most memory a process may use while it refuses a flood, in kilobytes.
const MEMORY_KB_MAX: u64 = 200_000;

#[test]
fn a_flood_on_standard_input_is_refused_early_and_in_little_memory() {
    let place = Place::with_project();
    let mut command = place.command(&["call", "run", "shell/read", "--args", "-"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let block = vec![b' '; 1 << 20];
    let (mut peak, mut blocks_read) = (0, 0);
    for _ in 0..100 {
        if stdin.write_all(&block).is_err() {
            break;
        }
        blocks_read += 1;
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let line = status.unwrap_or_default();
        let line = line.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
        let number = line.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        peak = peak.max(number.unwrap_or(0));
    }
    drop(stdin);
    let outcome = Outcome::of("windlass call run".to_owned(), child.wait_with_output().unwrap());
    outcome.fails_with(2, "DOC_SIZE_EXCEEDED").warns("10485760");
    assert!(blocks_read <= 11, "{blocks_read} MiB are read, and 10 are the limit");
    assert!(peak < MEMORY_KB_MAX, "{peak} kB");
    assert_eq!(place.ids(), [""; 0]);
}
