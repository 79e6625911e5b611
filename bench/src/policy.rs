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
        println!("  {name:<22} {:8.0} µs", median(times.into_iter()));
    }
    Ok(())
}
