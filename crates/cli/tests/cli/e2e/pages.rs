//! The pages of the codes: what they tell to type is what the binary takes.

use crate::harness::{Place, repository};

const DIGEST: &str = "0000000000000000000000000000000000000000000000000000000000000000";
const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// Every command line that a page tells to type.
fn command_lines() -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(repository("docs/errors")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let page = std::fs::read_to_string(&path).unwrap();
        for line in page.lines().filter_map(|line| line.strip_prefix("    windlass ")) {
            lines.push((name.clone(), line.trim().to_owned()));
        }
    }
    lines
}

/// Splits a line as a shell would, quotes included.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for char in line.chars() {
        match char {
            '"' | '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            _ => words.last_mut().unwrap().push(char),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn what_a_page_tells_to_type_is_taken() {
    let lines = command_lines();
    assert!(lines.len() > 40, "{}", lines.len());
    let mut seen = std::collections::BTreeSet::new();
    for (page, line) in lines {
        if !seen.insert(line.clone()) {
            continue;
        }
        let place = Place::with_project();
        let line = line.replace("SERVER/TOOL", "shell/read");
        let words = words(&line);
        let words = words.iter().map(|word| match word.as_str() {
            "ID" => ID,
            "DIGEST" => DIGEST,
            word => word,
        });
        let words: Vec<&str> = words.collect();
        let outcome = place.run(&words);
        let misused = outcome.stderr.contains("Usage:") || outcome.stderr.contains("--help");
        assert!(!misused, "{page}: {outcome}");
        assert!(matches!(outcome.code, Some(0..=2)), "{page}: {outcome}");
    }
}

#[test]
fn every_hint_names_commands_that_there_are() {
    let source = std::fs::read_to_string(repository("crates/cli/src/failure.rs")).unwrap();
    let place = Place::with_project();
    let mut count = 0;
    for part in source.split('`').filter(|part| part.starts_with("windlass ")) {
        let words: Vec<&str> = part
            .split_whitespace()
            .skip(1)
            .take_while(|word| word.chars().all(|char| char.is_ascii_lowercase()))
            .collect();
        if words.is_empty() {
            continue;
        }
        place.run(&[&words[..], &["--help"]].concat()).exit(0);
        count += 1;
    }
    assert!(count > 10, "{count}");
}
