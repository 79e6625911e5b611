//! The tests that took longest, from the file that cargo-nextest writes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// How many are named.
const NAMED: usize = 10;

/// A test and the seconds that it took.
#[derive(Debug, PartialEq)]
pub struct Timed {
    name: String,
    seconds: f64,
}

/// The file of the last run; see `.config/nextest.toml`.
fn file(root: &Path) -> PathBuf {
    root.join("target/nextest/default/tests.xml")
}

/// Removes what an earlier run left.
pub fn forget(root: &Path) {
    // It may be missing.
    drop(std::fs::remove_file(file(root)));
}

/// What the last run measured; nothing if it ran no tests.
pub fn measured(root: &Path) -> Vec<Timed> {
    read(&std::fs::read_to_string(file(root)).unwrap_or_default())
}

fn read(text: &str) -> Vec<Timed> {
    let tests = text.split("<testcase ").skip(1);
    tests
        .filter_map(|test| {
            let head = format!(" {}", test.split('>').next()?);
            let attribute = |name: &str| {
                let (_, rest) = head.split_once(&format!(" {name}=\""))?;
                rest.split('"').next()
            };
            let (test, program) = (attribute("name")?, attribute("classname")?);
            Some(Timed {
                name: format!("{program} {test}"),
                seconds: attribute("time")?.parse().ok()?,
            })
        })
        .collect()
}

/// The slowest of them, as lines; nothing if there were none.
pub fn table(mut tests: Vec<Timed>) -> String {
    tests.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    let mut text = String::new();
    if !tests.is_empty() {
        text.push_str("the slowest tests:\n");
    }
    for test in tests.iter().take(NAMED) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:>8.1} s  {}", test.seconds, test.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_tests_come_first() {
        let text = r#"<testsuite name="a::b" tests="2">
            <testcase name="one::is_quick" classname="a::b" timestamp="2026-01-01T00:00:00Z" time="0.012">
            </testcase>
            <testcase name="two::is_slow" classname="a::b" timestamp="2026-01-01T00:00:00Z" time="31.250">
            <failure message="x"/></testcase></testsuite>"#;
        let tests = read(text);
        assert_eq!(tests.len(), 2);
        assert_eq!(
            table(tests),
            "the slowest tests:\n    31.2 s  a::b two::is_slow\n     0.0 s  a::b one::is_quick\n"
        );
        assert_eq!(table(read("")), "");
        let many = (0..20).map(|n| Timed { name: n.to_string(), seconds: 1.0 }).collect();
        assert_eq!(table(many).lines().count(), 1 + NAMED);
    }
}
