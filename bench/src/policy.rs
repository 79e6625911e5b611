//! Judging shell lines by the default policy.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::json;
use windlass_policy::{LexicalWorkspace, PolicySet, Question, Verdict};

use crate::median;

/// How long the long lines are.
const LINE_BYTES: usize = 8 * 1024;

/// Lines of about 8 KiB: one command with many words, many commands, one long text.
fn lines() -> [(&'static str, String); 4] {
    let fill = |piece: &str, end: &str| {
        let count = LINE_BYTES.saturating_sub(end.len()) / piece.len();
        format!("{}{end}", piece.repeat(count))
    };
    [
        ("an ordinary line", "cargo test --workspace 2>&1 | tail -20".to_owned()),
        ("8 KiB, one command", format!("cat{}", fill(" src/module/file.rs", ""))),
        (
            "8 KiB, many commands",
            fill(
                "grep -n 'words that are searched for in it' src/module/file.rs | head -20; ",
                "ls",
            ),
        ),
        ("8 KiB, one text", format!("git commit -m '{}'", fill("words of a long message, ", ""))),
    ]
}

/// The times of parsing a line with the grammar of bash, which judging does too.
fn parse(line: &str, rounds: usize) -> Result<Vec<f64>> {
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let started = Instant::now();
        let mut parser = tree_sitter::Parser::new();
        parser.set_language(&tree_sitter_bash::LANGUAGE.into())?;
        ensure!(parser.parse(line, None).is_some(), "it cannot be parsed");
        times.push(started.elapsed().as_secs_f64() * 1e6);
    }
    Ok(times)
}

/// Prints the median time of judging each line.
pub fn measure(rounds: usize) -> Result<()> {
    let files = BTreeMap::from([
        ("tools.toml".to_owned(), include_bytes!("../../policies/tools.toml").to_vec()),
        ("policy/default.toml".to_owned(), include_bytes!("../../policies/default.toml").to_vec()),
    ]);
    let set = PolicySet::load(&files)?;
    let workspace = LexicalWorkspace::default();
    println!("judging a shell line by the default policy, median of {rounds}");
    for (name, line) in lines() {
        let question = Question {
            server: "shell".to_owned(),
            tool: "run".to_owned(),
            declared_class: None,
            args: json!({ "line": line }),
            has_key: true,
            phase: None,
            agent: None,
        };
        let mut times = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let started = Instant::now();
            let judgement = set.judge(&question, &workspace);
            times.push(started.elapsed().as_secs_f64() * 1e6);
            ensure!(judgement.verdict == Verdict::Allow, "{name}: {}", judgement.reason);
        }
        let judging = median(times.into_iter());
        let parsing = median(parse(&line, rounds)?.into_iter());
        println!(
            "  {name:<22} {judging:8.0} µs; its grammar alone {parsing:6.0} µs, {:.1} times that",
            judging / parsing
        );
    }
    Ok(())
}
