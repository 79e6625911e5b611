//! A run killed at every append, and at moments that nobody chose: it ends as the calm one does.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_testkit::{Random, soak};

use crate::harness::{Outcome, text_of};
use crate::world::{Repo, answers, build, review, sh, tree};

/// The points at which something becomes durable, or does not.
const APPENDS: [&str; 3] = ["append.before", "append.inside", "append.after"];
/// A generous bound on how often a run appends.
const APPENDS_MAX: u32 = 200;
/// Nobody would answer more often.
const ANSWERS_MAX: u32 = 12;

/// How a run that died is taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TakeUp {
    /// A person resumes it: the loop says `hold`.
    Resume,
    /// Recovery does: the loop says `resume`.
    Recover,
}

/// A repository for one run, and what is done to it.
struct Stage {
    repo: Repo,
    how: TakeUp,
    answers: String,
    /// What was done, for when it fails.
    story: Mutex<Vec<String>>,
    approvals: AtomicU32,
}

impl Stage {
    fn new(how: TakeUp) -> Self {
        let repo = match how {
            TakeUp::Resume => Repo::new(),
            TakeUp::Recover => Repo::with_spine("on_restart: hold", "on_restart: resume"),
        };
        // Each execution leaves a line, in a file that is no part of the change.
        std::fs::write(repo.root().join(".git/info/exclude"), "count.log\n").unwrap();
        let calls = [
            sh("echo one > one.txt; echo one >> count.log"),
            sh("echo two > two.txt; echo two >> count.log"),
        ];
        let answers = repo.answers(&answers(&[build(&calls)], &[review("approved")]));
        Self { repo, how, answers, story: Mutex::default(), approvals: AtomicU32::new(0) }
    }

    fn start(&self) -> [&str; 5] {
        ["run", "one", "--json", "--answers", &self.answers]
    }

    fn tell(&self, outcome: &Outcome) {
        self.story.lock().unwrap().push(outcome.to_string());
    }

    fn story(&self) -> String {
        self.story.lock().unwrap().join("\n")
    }

    fn windlass(&self, line: &[&str]) -> Outcome {
        let outcome = self.repo.windlass(line);
        self.tell(&outcome);
        outcome
    }

    /// The only run, if there is one.
    fn run(&self) -> Option<Value> {
        let runs = self.windlass(&["status", "--json"]).exit(0).json();
        let runs = runs.as_array().unwrap();
        assert!(runs.len() <= 1, "{}", self.story());
        runs.first().cloned()
    }

    /// Takes up what there is, once; a person approves what is asked.
    fn take_up(&self, run: Option<Value>) {
        let Some(run) = run else {
            // Nothing was ever recorded: it is started anew.
            self.windlass(&self.start());
            return;
        };
        let id = text_of(&run, "run_id");
        if run["state"] == "CHECKPOINT" {
            self.approvals.fetch_add(1, Ordering::Relaxed);
            self.repo_approves(&id);
        } else if self.how == TakeUp::Recover {
            self.windlass(&["recover", "--json"]);
        } else {
            self.windlass(&["resume", &id, "--json"]);
        }
    }

    fn repo_approves(&self, id: &str) {
        let outcome = self.repo.approve(id);
        self.tell(&outcome);
    }

    /// Brings the run to its end, and compares it with the calm one.
    fn finish(&self, calm: &End) {
        for _ in 0..ANSWERS_MAX {
            let run = self.run();
            if run.as_ref().is_some_and(|run| run["outcome"] != Value::Null) {
                break;
            }
            self.take_up(run);
        }
        // Whatever a process had still to write when it died is written now.
        let recovered = self.windlass(&["recover"]);
        assert_eq!(recovered.code, Some(0), "{}", self.story());
        let end = End::of(self);
        assert_eq!(end.journal, calm.journal, "{}", self.story());
        assert_eq!(end.files, calm.files, "{}", self.story());
        assert_eq!(end.shown, calm.shown, "{}", self.story());
        assert_eq!((&end.tree, end.commits), (&calm.tree, calm.commits), "{}", self.story());
        let approvals = self.approvals.load(Ordering::Relaxed);
        for word in ["one", "two"] {
            let made = end.count.lines().filter(|line| *line == word).count();
            let most = 1 + usize::try_from(approvals).unwrap();
            assert!((1..=most).contains(&made), "{word}: {made}, {approvals}\n{}", self.story());
        }
        if approvals == 0 {
            assert_eq!(end.count, "one\ntwo\n", "{}", self.story());
        }
        let whole = self.repo.windlass(&["verify"]);
        assert_eq!(whole.code, Some(0), "{whole}\n{}", self.story());
    }
}

/// What a run came to, without times and ids.
#[derive(Debug)]
struct End {
    journal: Vec<Value>,
    files: BTreeMap<String, Vec<u8>>,
    shown: Vec<String>,
    tree: String,
    commits: usize,
    count: String,
}

impl End {
    fn of(stage: &Stage) -> Self {
        let repo = &stage.repo;
        let run = stage.run().unwrap();
        assert_eq!(run["outcome"], "PASS", "{}", stage.story());
        let id = text_of(&run, "run_id");
        let journal = repo.events(&text_of(&run, "trace_id")).iter().filter_map(essence).collect();
        let mut files = tree(&repo.root());
        files.retain(|name, _| {
            !name.starts_with(".git/") && !name.starts_with(".windlass/") && name != "count.log"
        });
        let shown = repo.artifacts().into_iter().filter(|name| !name.starts_with("checkpoints/"));
        let shown = shown.map(|name| name.replace(&id, "RUN")).collect();
        assert_eq!(repo.status(), "", "{}", stage.story());
        let (tree, commits) = (repo.git(&["rev-parse", "HEAD^{tree}"]), repo.commits());
        Self { journal, files, shown, tree, commits, count: repo.read("count.log") }
    }
}

/// What an event says that is the same however often the process died.
fn essence(event: &Value) -> Option<Value> {
    let take = |names: &[&str]| {
        let mut kept = json!({ "kind": event["kind"] });
        for name in names {
            kept[name] = event[name].clone();
        }
        Some(kept)
    };
    match event["kind"].as_str().unwrap() {
        "started" => take(&["task", "plan", "base", "policy_hash"]),
        "begun" => take(&[]),
        "phase_started" => take(&["phase", "attempt"]),
        "checked" => take(&["phase", "attempt", "check", "verdict", "reason", "findings"]),
        "commit_prepared" => take(&["branch", "parent", "tree"]),
        "ended" => take(&["outcome", "reason", "detail"]),
        "phase_done" => {
            let mut kept = take(&["phase", "attempt"])?;
            let done = &event["done"];
            for name in ["change", "facts", "failure", "outputs", "usage"] {
                kept[name] = done[name].clone();
            }
            // The commit's own name has its time in it.
            if event["phase"] != "steward" {
                kept["answer"] = done["answer"].clone();
            }
            let calls = done["calls"].as_array().unwrap().iter();
            kept["calls"] = calls.map(|call| json!([call["tool"], call["state"]])).collect();
            Some(kept)
        }
        _ => None,
    }
}

/// A run that nothing happened to.
fn calm(how: TakeUp) -> End {
    let stage = Stage::new(how);
    let done = stage.windlass(&stage.start());
    assert_eq!(done.code, Some(0), "{done}");
    let end = End::of(&stage);
    assert_eq!(end.count, "one\ntwo\n");
    assert!(end.journal.iter().any(|event| event["kind"] == "phase_done"), "{:?}", end.journal);
    end
}

/// Kills a run at each append in turn, until there is none left to be killed at.
fn sweep(how: TakeUp) -> u32 {
    let (calm, kills) = (calm(how), AtomicU32::new(0));
    let work =
        Mutex::new(APPENDS.iter().flat_map(|point| (1..APPENDS_MAX).map(move |at| (*point, at))));
    let passed = Mutex::new(BTreeMap::<&str, u32>::new());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some((point, at)) = { work.lock().unwrap().next() } {
                    if passed.lock().unwrap().get(point).is_some_and(|end| at > *end) {
                        continue;
                    }
                    let stage = Stage::new(how);
                    let target = format!("{point}:{at}");
                    let variable = windlass_store::fault::VARIABLE;
                    let outcome = stage.repo.place.run_with(variable, &target, &stage.start());
                    stage.story.lock().unwrap().push(target);
                    stage.tell(&outcome);
                    if outcome.code.is_none() {
                        kills.fetch_add(1, Ordering::Relaxed);
                    } else {
                        let mut passed = passed.lock().unwrap();
                        let end = passed.entry(point).or_insert(at);
                        *end = at.min(*end);
                    }
                    stage.finish(&calm);
                }
            });
        }
    });
    let ends: Vec<u32> = passed.into_inner().unwrap().into_values().collect();
    assert!(ends.len() == 3 && ends.iter().all(|end| *end == ends[0]), "{ends:?}");
    kills.into_inner()
}

#[test]
fn a_run_killed_at_every_append_and_resumed_ends_like_the_calm_one() {
    println!("runs that a person resumes: {} kills", sweep(TakeUp::Resume));
}

#[test]
fn a_run_killed_at_every_append_and_recovered_ends_like_the_calm_one() {
    println!("runs that are recovered: {} kills", sweep(TakeUp::Recover));
}

#[test]
fn a_run_killed_at_random_moments_ends_like_the_calm_one() {
    let rounds = soak::rounds(10);
    let seed = soak::seed(0x5eed_0003);
    let mut random = Random::new(seed);
    let (mut kills, mut micros_max) = (0, 500_000);
    for how in [TakeUp::Resume, TakeUp::Recover] {
        let calm = calm(how);
        for round in 0..rounds / 2 {
            let stage = Stage::new(how);
            stage.story.lock().unwrap().push(format!("seed {seed}, round {round}, {how:?}"));
            let mut process = stage.repo.place.command(&stage.start()).spawn().unwrap();
            for _ in 0..2 {
                // Not to wait for anything: the moment is the test.
                std::thread::sleep(Duration::from_micros(random.below(micros_max)));
                process.kill().unwrap();
                let outcome =
                    Outcome::of("windlass, killed".to_owned(), process.wait_with_output().unwrap());
                if outcome.code.is_none() {
                    kills += 1;
                } else {
                    // It ended first: the machine is fast.
                    micros_max = (micros_max / 2).max(1_000);
                }
                stage.tell(&outcome);
                let line: Vec<String> = match (stage.run(), how) {
                    (Some(run), TakeUp::Resume) => vec!["resume".into(), text_of(&run, "run_id")],
                    (Some(_), TakeUp::Recover) => vec!["recover".into()],
                    (None, _) => stage.start().map(str::to_owned).to_vec(),
                };
                let line: Vec<&str> = line.iter().map(String::as_str).collect();
                process = stage.repo.place.command(&line).spawn().unwrap();
            }
            let last = Outcome::of("windlass".to_owned(), process.wait_with_output().unwrap());
            stage.tell(&last);
            stage.finish(&calm);
        }
    }
    println!("runs killed from outside: {kills} kills");
    assert!(kills > rounds / 2, "{kills}");
}
