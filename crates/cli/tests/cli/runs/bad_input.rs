//! Bad files, through the commands that read them: a code, a hint, and nothing recorded.

use serde_json::Value;

use crate::harness::{repository, vectors};
use crate::world::{ASKED, Repo, id_of, passing, trace_of};

/// The files of a folder of bad ones, each with what is expected of it.
fn bad(kind: &str) -> Vec<(String, Value)> {
    let expected = vectors(&format!("{kind}/bad/expected.json"));
    expected
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn path(kind: &str, name: &str) -> String {
    repository(&format!("vectors/{kind}/bad/{name}")).canonicalize().unwrap().display().to_string()
}

/// Runs a line with each bad file in it; each fails with its code, and tells what to do.
fn all_refused(repo: &Repo, kind: &str, line: impl Fn(&str) -> Vec<String>) -> usize {
    let (files, mut count) = (repo.snapshot(), 0);
    for (name, expected) in bad(kind) {
        let words = line(&path(kind, &name));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let refused = repo.windlass(&words);
        let code = expected["code"].as_str().unwrap();
        assert_eq!(refused.code, Some(2), "{name}: {refused}");
        assert!(refused.stderr.contains(&format!("[{code}]")), "{name}: {refused}");
        assert!(refused.stderr.contains("hint:"), "{name}: {refused}");
        assert!(refused.stdout.is_empty(), "{name}: {refused}");
        let says = expected.get("says").or_else(|| expected.get("message")).and_then(Value::as_str);
        if let Some(says) = says {
            assert!(refused.stderr.contains(says), "{name}: no `{says}`\n{refused}");
        }
        count += 1;
    }
    assert_eq!(repo.traces(), 0);
    assert_eq!(repo.snapshot(), files);
    count
}

fn words(line: &[&str]) -> Vec<String> {
    line.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn every_bad_task_file_is_refused() {
    let repo = Repo::new();
    let answers = repo.answers(&passing());
    let count = all_refused(&repo, "tasks", |file| words(&["run", file, "--answers", &answers]));
    assert!(count > 40, "{count}");
}

#[test]
fn every_bad_loop_file_is_refused() {
    let repo = Repo::new();
    let count = all_refused(&repo, "loops", |file| words(&["loop", "check", file]));
    assert!(count > 80, "{count}");
}

#[test]
fn every_bad_backlog_is_refused_or_its_bad_lines_are_told() {
    let repo = Repo::new();
    let (files, mut refusals, mut told) = (repo.snapshot(), 0, 0);
    for (name, expected) in bad("backlog") {
        let read = repo.windlass(&["backlog", "list", "--file", &path("backlog", &name)]);
        match read.code {
            Some(2) => {
                assert!(read.stderr.contains("[BACKLOG_INVALID]"), "{name}: {read}");
                assert!(read.stderr.contains("hint:") && read.stdout.is_empty(), "{name}: {read}");
                refusals += 1;
            }
            Some(0) => {
                assert!(read.stderr.contains("; this line is left out"), "{name}: {read}");
                told += 1;
            }
            _ => panic!("{name}: {read}"),
        }
        let says = expected.get("says").or_else(|| expected.get("message")).and_then(Value::as_str);
        if let Some(says) = says {
            assert!(read.stderr.contains(says), "{name}: no `{says}`\n{read}");
        }
    }
    assert!(refusals > 5 && told > 5, "{refusals} {told}");
    assert_eq!((repo.traces(), repo.snapshot()), (0, files));
}

#[test]
fn every_bad_file_of_answers_is_refused() {
    let repo = Repo::new();
    let folder = repository("vectors/answers/bad");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        if file.file_name().unwrap() == "expected.json" {
            continue;
        }
        let file = file.canonicalize().unwrap().display().to_string();
        let refused = repo.windlass(&["run", "one", "--answers", &file]);
        let refused = refused.fails_with(2, "ANSWERS_INVALID");
        assert!(refused.stderr.contains("hint:"), "{refused}");
        count += 1;
    }
    assert!(count > 25, "{count}");
    assert_eq!((repo.traces(), repo.status()), (0, String::new()));
}

#[test]
fn a_bad_loop_in_the_project_stops_every_run() {
    let repo = Repo::new();
    let (name, _) = bad("loops").into_iter().next().unwrap();
    let text = std::fs::read(path("loops", &name)).unwrap();
    repo.write(".windlass/loops/bad.md", text);
    repo.commit("a bad loop");
    repo.windlass(&["run", "one"]).fails_with(2, "LOOP_INVALID");
    repo.windlass(&["loop", "check"]).fails_with(2, "LOOP_INVALID");
    assert_eq!(repo.traces(), 0);
}

#[test]
fn every_bad_agent_in_the_project_stops_every_run() {
    let repo = Repo::new();
    let mut count = 0;
    for (name, expected) in bad("agents") {
        let code = expected["code"].as_str().unwrap_or("AGENT_INVALID");
        let place = format!(".windlass/agents/{name}");
        repo.write(&place, std::fs::read(path("agents", &name)).unwrap());
        repo.windlass(&["loop", "list"]).fails_with(2, code);
        std::fs::remove_file(repo.root().join(place)).unwrap();
        count += 1;
    }
    assert!(count > 15, "{count}");
    repo.windlass(&["loop", "list"]).exit(0);
}

#[test]
fn files_that_are_missing_or_far_too_large_are_refused() {
    let repo = Repo::new();
    repo.windlass(&["run", "missing.yaml"]).fails_with(1, "FILE_UNREADABLE");
    repo.windlass(&["run", "one", "--answers", "missing.json"]).fails_with(1, "FILE_UNREADABLE");
    let large = repo.place.base().join("large.json");
    std::fs::File::create(&large).unwrap().set_len(8 << 30).unwrap();
    let large = large.display().to_string();
    repo.windlass(&["run", &large]).fails_with(2, "DOC_SIZE_EXCEEDED");
    repo.windlass(&["run", "one", "--answers", &large]).fails_with(2, "DOC_SIZE_EXCEEDED");
    repo.windlass(&["backlog", "list", "--file", &large]).fails_with(2, "DOC_SIZE_EXCEEDED");
    repo.windlass(&["loop", "check", &large]).fails_with(2, "DOC_SIZE_EXCEEDED");
    assert_eq!(repo.traces(), 0);
}

#[test]
fn the_id_of_a_trace_is_given_once() {
    let repo = Repo::with_loop("asked", ASKED);
    let trace = "01a1ef67-4682-7205-8f6b-9c0a581bacad";
    let start = |more: &[&str]| {
        let line = ["run", "x", "--loop", "asked", "--json", "--trace-id", trace];
        repo.windlass(&[&line[..], more].concat())
    };
    let first = start(&["--worktree"]).exit(4);
    assert_eq!(trace_of(&first), trace);
    let head = repo.stands(&id_of(&first));
    for more in [&["--worktree"][..], &[]] {
        let error = start(more).exit(2).error();
        assert_eq!(error["code"], "REQUEST_INVALID");
        assert!(error["message"].as_str().unwrap().contains("already"), "{error}");
        assert_eq!(repo.stands(&id_of(&first)), head, "nothing changed");
    }
    repo.windlass(&["run", "x", "--trace-id", "7"]).exit(2);
    repo.is_whole();
}
