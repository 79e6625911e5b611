//! Lines that policy allows, run by the real bash, do nothing that judging did not foresee.
//!
//! `grammar.rs` makes lines from a seed. Each is judged with the shipped policy, as for a tool that writes and
//! as for one that reads. What is allowed runs in a cell in which everything can be written (`world.rs`,
//! `runner.rs`), and `oracle.rs` compares what happened with the judgement.
//!
//! With the variable `JUDGED_LINE` one line is judged and run, and all about it is shown.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that cannot go on fails"
)]

mod grammar;
mod oracle;
mod pieces;
mod random;
mod runner;
mod world;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use windlass_policy::{Judgement, PolicySet, Question, Verdict};
#[path = "../../../runtime/src/workspace.rs"]
mod workspace;
use workspace::FileWorkspace;
use windlass_testkit::soak;

use random::Random;
use runner::{Effects, Runner};
use world::World;

/// How many lines are made in `cargo xtask check`.
const LINES: u32 = 20_000;
/// The seed there.
const SEED: u64 = 1;
/// How many lines run at once.
const WORKERS: usize = 2;
/// After so many findings no more are looked for.
const FINDINGS_MAX: usize = 12;

/// Judges lines as the product does.
struct Judge {
    set: PolicySet,
    workspace: FileWorkspace,
}

impl Judge {
    fn new(world: &World) -> Self {
        let files = BTreeMap::from([
            ("tools.toml".to_owned(), include_bytes!("../../../../policies/tools.toml").to_vec()),
            (
                "policy/default.toml".to_owned(),
                include_bytes!("../../../../policies/default.toml").to_vec(),
            ),
        ]);
        let set = PolicySet::load(&files).expect("the shipped policy loads");
        Self { set, workspace: FileWorkspace::new(&world.workspace()).unwrap() }
    }

    fn judge(&self, tool: &str, line: &str) -> Judgement {
        let question = Question {
            server: "shell".to_owned(),
            tool: tool.to_owned(),
            declared_class: None,
            args: serde_json::json!({ "line": line }),
            has_key: true,
            phase: None,
            agent: None,
        };
        self.set.judge(&question, &self.workspace)
    }
}

/// One thread's share.
struct Worker<'a> {
    world: &'a World,
    judge: &'a Judge,
    runner: Runner<'a>,
    /// What the last command of a line reports if the line has set no variable of the shell.
    end: Vec<String>,
}

impl<'a> Worker<'a> {
    fn new(world: &'a World, judge: &'a Judge, number: usize) -> Self {
        let runner = Runner::new(world, number);
        let effects = runner.run("true");
        let end = effects.commands.last().cloned().unwrap_or_default();
        assert_eq!(end.get(1).map(String::as_str), Some("END"), "{effects:?}");
        assert!(effects.ended && effects.left.is_empty(), "{effects:?}");
        Self { world, judge, runner, end }
    }

    /// Judges a line, runs it if it is allowed, and tells what was not foreseen.
    fn check(&self, tool: &str, line: &str) -> Checked {
        let judgement = self.judge.judge(tool, line);
        if judgement.verdict != Verdict::Allow {
            return Checked::NotAllowed;
        }
        let effects = self.runner.run(line);
        match self.unforeseen(tool, &judgement, &effects) {
            Some(finding) => Checked::Misjudged(finding),
            None => Checked::Fine,
        }
    }

    fn unforeseen(&self, tool: &str, judgement: &Judgement, effects: &Effects) -> Option<String> {
        let root = self.world.workspace();
        oracle::unforeseen(effects, judgement, tool == "read", &self.end, root.to_str().unwrap())
    }

    /// The shortest line with the same kind of finding that is found by leaving out words and characters.
    fn shrink(&self, tool: &str, line: &str, finding: &str) -> String {
        let kind = |finding: &str| finding.split('`').next().unwrap_or_default().to_owned();
        let mut shortest: Vec<char> = line.chars().collect();
        let mut size = shortest.len() / 2;
        while size > 0 {
            let mut at = 0;
            while at < shortest.len() {
                let end = (at + size).min(shortest.len());
                let shorter: Vec<char> =
                    shortest[..at].iter().chain(&shortest[end..]).copied().collect();
                let text: String = shorter.iter().collect();
                match self.check(tool, &text) {
                    Checked::Misjudged(found) if kind(&found) == kind(finding) => shortest = shorter,
                    Checked::Misjudged(_) | Checked::Fine | Checked::NotAllowed => at += size,
                }
            }
            size /= 2;
        }
        shortest.into_iter().collect()
    }
}

enum Checked {
    NotAllowed,
    Fine,
    Misjudged(String),
}

#[test]
fn a_line_that_is_allowed_does_only_what_was_judged() {
    let world = World::new();
    let judge = Judge::new(&world);
    if let Ok(line) = std::env::var("JUDGED_LINE") {
        return show(&world, &judge, &line);
    }
    let (seed, lines) = (soak::seed(SEED), soak::rounds(LINES));
    let (next, allowed) = (AtomicU32::new(0), AtomicUsize::new(0));
    let findings: Mutex<Vec<String>> = Mutex::default();
    let corpus = grammar::Corpus::new(&world.workspace());
    std::thread::scope(|scope| {
        for number in 0..WORKERS {
            let (world, judge, next, allowed) = (&world, &judge, &next, &allowed);
            let (findings, corpus) = (&findings, &corpus);
            scope.spawn(move || {
                let worker = Worker::new(world, judge, number);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= lines || findings.lock().unwrap().len() >= FINDINGS_MAX {
                        return;
                    }
                    let mut random = Random::new(seed ^ (u64::from(number) << 32));
                    let line = corpus.line(&mut random);
                    for tool in ["run", "read"] {
                        match worker.check(tool, &line) {
                            Checked::NotAllowed => continue,
                            Checked::Fine => {}
                            Checked::Misjudged(finding) => {
                                let shortest = worker.shrink(tool, &line, &finding);
                                findings.lock().unwrap().push(format!(
                                    "seed {seed}, line {number}, tool {tool}: {finding}\n  {line:?}\n  {shortest:?}"
                                ));
                            }
                        }
                        allowed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let findings = findings.into_inner().unwrap();
    let allowed = allowed.into_inner();
    println!("seed {seed}: {lines} lines, {allowed} runs");
    assert!(findings.is_empty(), "{}", findings.join("\n"));
    assert!(allowed * 20 >= usize::try_from(lines).unwrap(), "only {allowed} of {lines} lines ran");
}

/// Shows all about one line.
fn show(world: &World, judge: &Judge, line: &str) {
    let worker = Worker::new(world, judge, 0);
    for tool in ["run", "read"] {
        let judgement = judge.judge(tool, line);
        println!("{tool}: {judgement:#?}");
        if judgement.verdict == Verdict::Allow {
            let effects = worker.runner.run(line);
            println!("{effects:#?}\n{:?}", worker.unforeseen(tool, &judgement, &effects));
        }
    }
}
