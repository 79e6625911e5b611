//! The shipped policy: it loads, and it says what the vectors say.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail loudly")]

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;
use windlass_policy::{LexicalWorkspace, PolicySet, Question, Verdict};

fn shipped() -> PolicySet {
    let files = BTreeMap::from([
        ("tools.toml".to_owned(), include_bytes!("../../../policies/tools.toml").to_vec()),
        (
            "policy/default.toml".to_owned(),
            include_bytes!("../../../policies/default.toml").to_vec(),
        ),
    ]);
    PolicySet::load(&files).expect("the shipped policy loads")
}

#[derive(Deserialize)]
struct Trick {
    line: String,
    #[serde(default = "run")]
    tool: String,
    verdict: Verdict,
    why: String,
}

fn run() -> String {
    "run".to_owned()
}

fn question(tool: &str, line: &str) -> Question {
    Question {
        server: "shell".to_owned(),
        tool: tool.to_owned(),
        declared_class: None,
        args: json!({ "line": line }),
        has_key: true,
        phase: None,
        agent: None,
    }
}

fn check(tricks: &str, at_least: usize) {
    let tricks: Vec<Trick> = serde_json::from_str(tricks).unwrap();
    assert!(tricks.len() >= at_least, "only {} tricks", tricks.len());
    let set = shipped();
    let workspace = LexicalWorkspace::default();
    let mut wrong = Vec::new();
    for trick in &tricks {
        let judgement = set.judge(&question(&trick.tool, &trick.line), &workspace);
        if judgement.verdict != trick.verdict {
            wrong.push(format!(
                "{:?} ({}): wants {}, gets {}: {}",
                trick.line,
                trick.why,
                trick.verdict.as_str(),
                judgement.verdict.as_str(),
                judgement.reason
            ));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn shell_tricks_do_not_work() {
    check(include_str!("../../../vectors/policy/shell_tricks.json"), 120);
}

#[test]
fn path_tricks_do_not_work() {
    check(include_str!("../../../vectors/policy/path_tricks.json"), 30);
}
