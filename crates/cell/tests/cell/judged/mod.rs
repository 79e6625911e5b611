//! Lines that policy allows, run by the real bash, do nothing that judging did not foresee.
//!
//! `grammar.rs` makes lines from a seed. Each is judged with the shipped policy, as for a tool that writes and
//! as for one that reads. What is allowed runs in a cell in which everything can be written (`world.rs`,
//! `runner.rs`), and `oracle.rs` compares what happened with the judgement.
//!
//! With the variable `JUDGED_LINES`, which names a file, its lines are judged and run instead, and what came of
//! it is shown.

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
use windlass_runtime::FileWorkspace;
use windlass_testkit::soak;

use grammar::Corpus;
use random::Random;
use runner::Runner;
use world::{State, World};

/// How many lines are made in `cargo xtask check`.
const LINES: u32 = 4_000;
/// The seed there.
const SEED: u64 = 1;
/// The tools of the shipped registry that run lines.
const TOOLS: [&str; 2] = ["run", "read"];
/// How many lines run at once.
const WORKERS: usize = 2;
/// After so many findings no more are looked for.
const FINDINGS_MAX: usize = 30;

/// Judges lines as the product does.
struct Judge {
    set: PolicySet,
    workspace: FileWorkspace,
}

impl Judge {
    fn new(world: &World) -> Self {
        let files = BTreeMap::from([
            (
                "tools.toml".to_owned(),
                include_bytes!("../../../../../policies/tools.toml").to_vec(),
            ),
            (
                "policy/default.toml".to_owned(),
                include_bytes!("../../../../../policies/default.toml").to_vec(),
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
    corpus: Corpus,
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
        Self { world, judge, runner, corpus: Corpus::new(&world.workspace()), end }
    }

    /// Judges a line, runs it if a tool may, and tells for which tools what was not foreseen; `None` if it did
    /// not run.
    fn check(&self, line: &str) -> Option<Vec<(&'static str, String)>> {
        let judged = TOOLS.map(|tool| (tool, self.judge.judge(tool, line)));
        let allowed = |judgement: &Judgement| judgement.verdict == Verdict::Allow;
        if !judged.iter().any(|(_, judgement)| allowed(judgement)) {
            return None;
        }
        let effects = self.runner.run(line);
        let root = self.world.workspace();
        let root = root.to_str().unwrap();
        let findings = judged.iter().filter(|(_, judgement)| allowed(judgement));
        let findings = findings.filter_map(|(tool, judgement)| {
            let reads = *tool == "read";
            let finding = oracle::unforeseen(&effects, judgement, reads, &self.end, root)?;
            Some((*tool, finding))
        });
        Some(findings.collect())
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
                let found = self.check(&text).unwrap_or_default();
                let found = found.into_iter().find(|(known, _)| *known == tool);
                if found.is_some_and(|(_, found)| kind(&found) == kind(finding)) {
                    shortest = shorter;
                } else {
                    at += size;
                }
            }
            size /= 2;
        }
        shortest.into_iter().collect()
    }
}

#[test]
fn a_line_that_is_allowed_does_only_what_was_judged() {
    let worlds = [State::Committed, State::Changed].map(World::new);
    let judges = worlds.each_ref().map(Judge::new);
    let worker = |number: usize, world: usize| Worker::new(&worlds[world], &judges[world], number);
    if let Ok(file) = std::env::var("JUDGED_LINES") {
        return [0, 1].iter().for_each(|world| show(&worker(0, *world), &file));
    }
    let (seed, lines) = (soak::seed(SEED), soak::rounds(LINES));
    let (next, allowed) = (AtomicU32::new(0), AtomicUsize::new(0));
    let findings: Mutex<Vec<String>> = Mutex::default();
    std::thread::scope(|scope| {
        for number in 0..WORKERS {
            let (next, allowed, findings, worker) = (&next, &allowed, &findings, &worker);
            scope.spawn(move || {
                let workers = [0, 1].map(|world| worker(number, world));
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= lines || findings.lock().unwrap().len() >= FINDINGS_MAX {
                        return;
                    }
                    let mut random = Random::new(seed ^ (u64::from(number) << 32));
                    let worker = random.pick(&workers);
                    let line = worker.corpus.line(&mut random);
                    let Some(found) = worker.check(&line) else { continue };
                    allowed.fetch_add(1, Ordering::Relaxed);
                    if let Some((tool, finding)) = found.first() {
                        let shortest = worker.shrink(tool, &line, finding);
                        let finding = format!(
                            "seed {seed}, line {number}, tool {tool}: {finding}\n  {line:?}\n  {shortest:?}"
                        );
                        println!("{finding}");
                        findings.lock().unwrap().push(finding);
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

/// Shows what is judged and done of each line of a file, and all about a single one.
fn show(worker: &Worker<'_>, file: &str) {
    let lines = std::fs::read_to_string(file).unwrap();
    for line in lines.lines() {
        println!("{line}");
        for tool in TOOLS {
            let judgement = worker.judge.judge(tool, line);
            println!("  {tool}: {}: {}", judgement.verdict.as_str(), judgement.reason);
            if lines.lines().count() == 1 {
                println!("{judgement:#?}");
            }
        }
        if lines.lines().count() == 1 {
            println!("{:#?}", worker.runner.run(line));
        }
        for (tool, finding) in worker.check(line).unwrap_or_default() {
            println!("  MISJUDGED for {tool}: {finding}");
        }
    }
}
