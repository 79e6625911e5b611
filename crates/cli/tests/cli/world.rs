//! A small git repository with a project in it, and what runs did to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use windlass_testkit::eventually;

use crate::harness::{Outcome, Place, text_of};

/// How the names of files begin that may change in a state folder although nothing happens.
const LEFT_IN_STATE: [&str; 6] = [
    "windlass.db",
    "locks",
    "kept-",
    "snapshots.git/objects",
    "snapshots.git/ledger",
    "snapshots.git/tree-",
];

/// A person's words, where nothing hangs on them.
pub const VOICE: [&str; 4] = ["--by", "ada", "--reason", "looked at it"];

/// A shell line that ends when the test lets it.
pub const UNTIL_GO: &str =
    "touch begun.txt; timeout 60 bash -c 'until [ -f go.txt ]; do sleep 0.01; done'";

/// A repository with a committed project, and a folder beside it.
pub struct Repo {
    pub place: Place,
}

impl Repo {
    /// A repository with a clean work tree; made once, then copied.
    pub fn new() -> Self {
        let place = Place::copy_of("repository", || {
            let repo = Self { place: Place::new() };
            repo.write("README.md", "a small project\n");
            repo.write("src/price.txt", "price = 1\n");
            repo.git(&["init", "--quiet", "--initial-branch=main"]);
            repo.git(&["config", "user.name", "A Tester"]);
            repo.git(&["config", "user.email", "tester@example.org"]);
            repo.git(&["config", "core.fsync", "none"]);
            repo.git(&["config", "gc.auto", "0"]);
            repo.windlass(&["init"]).exit(0);
            repo.commit("a small project");
            repo.place
        });
        let repo = Self { place };
        // The copies have times of their own, which git would find out again and again.
        repo.git(&["update-index", "-q", "--refresh"]);
        repo
    }

    /// A repository with one more loop, committed.
    pub fn with_loop(name: &str, text: &str) -> Self {
        let repo = Self::new();
        repo.write(&format!(".windlass/loops/{name}.md"), text);
        repo.commit("a loop");
        repo
    }

    /// A repository whose spine loop has a part replaced, committed.
    pub fn with_spine(from: &str, to: &str) -> Self {
        let repo = Self::new();
        repo.place.replace(".windlass/loops/spine.md", from, to);
        repo.commit("another spine");
        repo
    }

    pub fn root(&self) -> PathBuf {
        self.place.work()
    }

    pub fn write(&self, path: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        self.place.write(path, bytes)
    }

    /// A file of the work tree, empty when it is not there.
    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.root().join(path)).unwrap_or_default()
    }

    pub fn windlass(&self, args: &[&str]) -> Outcome {
        self.place.run(args)
    }

    /// Runs the binary so many hours after now.
    pub fn later(&self, hours: u64, args: &[&str]) -> Outcome {
        let ms = (hours * 3_600_000).to_string();
        self.place.run_with("WINDLASS_TEST_CLOCK", &ms, args)
    }

    /// Waits until a run has come to [`UNTIL_GO`].
    #[track_caller]
    pub fn until_begun(&self) {
        eventually("the work has begun", || self.root().join("begun.txt").exists());
    }

    /// Lets a run go on from [`UNTIL_GO`].
    pub fn go(&self) {
        self.write("go.txt", "");
    }

    /// Runs git; what it says must be text.
    #[track_caller]
    pub fn git(&self, args: &[&str]) -> String {
        self.git_with(args, None)
    }

    /// Git in the repository, which also sees the objects of the snapshots, as the documents tell people to call it.
    pub fn git_with_snapshots(&self, args: &[&str]) -> String {
        let objects = self.place.state().join("snapshots.git/objects");
        self.git_with(args, Some(("GIT_ALTERNATE_OBJECT_DIRECTORIES", objects)))
    }

    fn git_with(&self, args: &[&str], variable: Option<(&str, PathBuf)>) -> String {
        let mut command = Command::new("git");
        command.args(args);
        self.place.settle(&mut command);
        command.envs(variable);
        // The same commits have the same names everywhere.
        for name in ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"] {
            command.env(name, "2026-01-01T00:00:00Z");
        }
        let output = command.output().expect("git");
        let said = String::from_utf8(output.stdout).expect("text");
        assert!(
            output.status.success(),
            "git {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        said.trim_end().to_owned()
    }

    pub fn commit(&self, message: &str) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--no-verify", "--message", message]);
    }

    pub fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"])
    }

    pub fn commits(&self) -> usize {
        self.git(&["rev-list", "--count", "HEAD"]).parse().expect("a count")
    }

    /// What `git status` shows, untracked files included.
    pub fn status(&self) -> String {
        self.git(&["status", "--porcelain", "--untracked-files=all"])
    }

    /// Writes a file of answers beside the repository, and returns its path.
    pub fn answers(&self, answers: &Value) -> String {
        let path = self.place.base().join("answers.json");
        std::fs::write(&path, answers.to_string()).expect("a file");
        path.display().to_string()
    }

    /// Takes a task through the spine loop.
    pub fn run(&self, answers: &Value) -> Outcome {
        self.run_with(answers, &[])
    }

    /// Takes a task through a loop, with more options.
    pub fn run_with(&self, answers: &Value, more: &[&str]) -> Outcome {
        let path = self.answers(answers);
        let line = ["run", "raise the price", "--json", "--answers", &path, "--by", "ada"];
        self.windlass(&[&line[..], more].concat())
    }

    /// Approves what a run waits for, and takes it up.
    pub fn approve(&self, id: &str) -> Outcome {
        let line = ["queue", "approve", id, "--json", "--resume"];
        self.windlass(&[&line[..], &VOICE].concat())
    }

    /// A run as it stands.
    #[track_caller]
    pub fn stands(&self, id: &str) -> Value {
        self.windlass(&["status", id, "--json"]).exit(0).json()
    }

    /// The events of a run, in order.
    #[track_caller]
    pub fn events(&self, trace_id: &str) -> Vec<Value> {
        let log = self.windlass(&["trace", "log", trace_id, "--artifacts", "--json"]).exit(0);
        let lines =
            log.text().lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.map(|line| line["artifact"]["event"].clone()).collect()
    }

    /// How often each kind of event happened in a run.
    pub fn counts(&self, trace_id: &str) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for event in self.events(trace_id) {
            *counts.entry(text_of(&event, "kind")).or_default() += 1;
        }
        counts
    }

    /// A file that shows a run.
    #[track_caller]
    pub fn artifact(&self, path: &str) -> String {
        let path = self.root().join(".windlass/artifacts").join(path);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The files that show runs, by their names in the artifacts folder.
    pub fn artifacts(&self) -> Vec<String> {
        let root = self.root().join(".windlass/artifacts");
        tree(&root).into_keys().filter(|name| !name.starts_with('.')).collect()
    }

    /// Everything in the work tree that is not a database: what must not change when nothing happens.
    pub fn snapshot(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = tree(&self.root());
        // Locks are left behind empty, git's objects unused, and the policy as it was loaded; what is known of a work
        // tree's files is a cache; what SQLite's files hold is another question.
        files.retain(|name, _| !name.starts_with(".git/objects"));
        for (name, bytes) in tree(&self.place.state()) {
            let is_left = LEFT_IN_STATE.iter().any(|left| name.starts_with(left));
            if !is_left {
                files.insert(format!("state/{name}"), bytes);
            }
        }
        files
    }

    /// How many traces are recorded.
    pub fn traces(&self) -> usize {
        self.place.ids().len()
    }

    /// Requires the journal to be whole.
    #[track_caller]
    pub fn is_whole(&self) {
        self.windlass(&["verify"]).exit(0);
    }
}

/// Every file under a folder, by its path in it.
pub fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).expect("inside").display().to_string();
                files.insert(name, std::fs::read(&path).unwrap_or_default());
            }
        }
    }
    files
}

/// A program whose input is kept, a person, and a commit.
pub const ASKED: &str = r#"---
id: asked
title: Asked
type: loop
category: test
version: "1"
on_restart: resume
require: [repo]
phases:
  - id: build
    doer: { command: [sh, -c, "cat > input.json; echo work >> work.txt; echo '{\"summary\":\"a line more\",\"commit_message\":\"work: a line\"}'"] }
  - id: approve
    needs: [build]
    doer: { person: "Is it good?" }
  - id: save
    needs: [approve]
    doer: { builtin: commit }
---
"#;

/// The name of the run that a command has reported.
#[track_caller]
pub fn id_of(outcome: &Outcome) -> String {
    text_of(&outcome.json(), "run_id")
}

/// The trace of the run that a command has reported.
#[track_caller]
pub fn trace_of(outcome: &Outcome) -> String {
    text_of(&outcome.json(), "trace_id")
}

/// One shell line as a call of an agent.
pub fn sh(line: &str) -> Value {
    json!({ "tool": "shell/run", "args": { "line": line }, "intent": "a step of the test" })
}

/// The answers of a run: a design, builds and reviews.
pub fn answers(builds: &[Value], reviews: &[Value]) -> Value {
    let designs: Vec<Value> =
        (0..3).map(|_| json!({ "answer": { "summary": "a plan" } })).collect();
    json!({ "phases": { "design": designs, "build": builds, "review": reviews } })
}

/// A build that makes these calls.
pub fn build(calls: &[Value]) -> Value {
    json!({
        "calls": calls,
        "answer": { "summary": "built", "commit_message": "price: raised" },
        "usage": { "input_tokens": 100, "output_tokens": 10, "cost_micros": 5 },
    })
}

/// A review with a verdict.
pub fn review(verdict: &str) -> Value {
    json!({ "answer": { "verdict": verdict, "reason": format!("it is {verdict}"), "summary": "seen" } })
}

/// The usual build: it leaves a line each time it is really made.
pub fn built_once() -> Value {
    build(&[sh("echo built >> built.txt")])
}

/// A run that passes.
pub fn passing() -> Value {
    answers(&[built_once()], &[review("approved")])
}

/// A run whose reviewer asks for a person.
pub fn escalating() -> Value {
    answers(&[built_once()], &[review("escalate")])
}
