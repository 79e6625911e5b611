//! The hostile corpus: every file is refused with the code and the words that it should be.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use windlass_formats::{TaskSpec, backlog, read_hold, read_terminal};
use windlass_kernel::Code;

/// How a file must be refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    code: Code,
    says: String,
}

/// How a file was refused.
struct Refusal {
    code: Code,
    message: String,
    hint: Option<&'static str>,
}

/// An error and all that caused it, in one line.
fn whole(error: &dyn std::error::Error) -> String {
    let cause = error.source().map(|cause| format!(": {}", whole(cause)));
    format!("{error}{}", cause.unwrap_or_default())
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors").join(name)
}

fn run(name: &str, at_least: usize, read: fn(&str, &[u8]) -> Result<(), Refusal>) {
    let folder = folder(name);
    let expected = std::fs::read(folder.join("expected.json")).unwrap();
    let mut expected: BTreeMap<String, Expected> = serde_json::from_slice(&expected).unwrap();
    assert!(expected.len() >= at_least, "{} files", expected.len());
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        if file == "expected.json" {
            continue;
        }
        let Some(Expected { code, says }) = expected.remove(&file) else {
            wrong.push(format!("{file}: nothing is expected of it"));
            continue;
        };
        match read(&file, &std::fs::read(&path).unwrap()) {
            Ok(()) => wrong.push(format!("{file}: it was read")),
            Err(refusal) => {
                let one_line = !refusal.message.contains('\n') && refusal.hint != Some("");
                if refusal.code != code || !refusal.message.contains(&says) || !one_line {
                    wrong.push(format!("{file}: {} [{}]", refusal.message, refusal.code));
                }
            }
        }
    }
    wrong.extend(expected.keys().map(|file| format!("{file}: it is not there")));
    assert!(wrong.is_empty(), "{}:\n{}", name, wrong.join("\n"));
}

#[test]
fn bad_packets_are_refused() {
    run("packets/bad", 70, |file, bytes| {
        let result = match file.split('_').next() {
            Some("CP") => read_hold(bytes).map(drop),
            Some("TP") => read_terminal(bytes).map(drop),
            other => panic!("{other:?} is no packet"),
        };
        result.map_err(|error| Refusal { code: error.code(), message: whole(&error), hint: None })
    });
}

#[test]
fn bad_tasks_are_refused() {
    run("tasks/bad", 50, |_, bytes| {
        TaskSpec::from_file(bytes).map(drop).map_err(|error| Refusal {
            code: error.code(),
            message: whole(&error),
            hint: Some(error.hint()),
        })
    });
}

#[test]
fn bad_backlogs_are_refused() {
    run("backlog/bad", 28, |_, bytes| {
        backlog::parse(bytes).map(drop).map_err(|error| Refusal {
            code: error.code(),
            message: whole(&error),
            hint: Some(error.hint()),
        })
    });
}

#[test]
fn what_is_too_large_is_refused_unread() {
    let large = format!("task: {}\n", "a".repeat(1 << 20));
    let packet = read_hold(large.as_bytes()).unwrap_err();
    assert!(whole(&packet).contains("has 1048583 bytes"), "{packet}");
    assert_eq!(packet.code(), Code::PacketInvalid);
    let blank = read_hold(&vec![b' '; (1 << 20) + 1]).unwrap_err();
    assert!(whole(&blank).contains("has 1048577 bytes"), "{blank}");
    assert_eq!(TaskSpec::from_file(large.as_bytes()).unwrap_err().code(), Code::TaskInvalid);
    let json = format!("{{{large}");
    assert_eq!(TaskSpec::from_file(json.as_bytes()).unwrap_err().code(), Code::TaskInvalid);
    assert_eq!(backlog::parse(large.as_bytes()).unwrap_err().code(), Code::BacklogInvalid);
}
