//! `windlass demo`: takes a sample repository from a failing test to a commit, with a crash and a
//! decision on the way.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use windlass_kernel::Code;
use windlass_workspace::find_helper;

use crate::args::Demo;
use crate::failure::{CommandResult, Failure};
use crate::input::unreadable;
use crate::output::{Output, Style, sanitize};

/// Where the process is killed: after the edit is recorded, before the test runs.
const CRASH_AT: &str = "append.after:15";
const TASK: &str = "make add() add";

/// A small project with a failing test.
struct SampleProject {
    tool: &'static str,
    files: &'static [(&'static str, &'static str)],
    edit: &'static str,
    test: &'static str,
    changed: &'static str,
}

const RUST: SampleProject = SampleProject {
    tool: "cargo",
    files: &[
        (
            "Cargo.toml",
            "[package]\nname = \"sums\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n",
        ),
        (
            "src/lib.rs",
            "pub fn add(a: i64, b: i64) -> i64 {\n    a - b\n}\n\n#[test]\nfn adds() {\n    assert_eq!(add(2, 3), 5);\n}\n",
        ),
        (".gitignore", "target\nCargo.lock\n"),
    ],
    edit: "sed -i 's/a - b/a + b/' src/lib.rs",
    test: "cargo test --offline --quiet --lib",
    changed: "src/lib.rs",
};

const PYTHON: SampleProject = SampleProject {
    tool: "python3",
    files: &[
        ("sums.py", "def add(a, b):\n    return a - b\n"),
        (
            "test_sums.py",
            "import unittest\n\nfrom sums import add\n\n\nclass Adds(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n",
        ),
        (".gitignore", "__pycache__\n"),
    ],
    // The new text has another length: Python treats a file of the same second and size as unchanged.
    edit: "sed -i 's/a - b/sum((a, b))/' sums.py",
    test: "python3 -m unittest -q",
    changed: "sums.py",
};

/// Runs the demonstration.
pub fn run(options: &Demo, output: &Output) -> CommandResult {
    let sample = [RUST, PYTHON].into_iter().find(|sample| is_installed(sample.tool));
    let Some(sample) = sample.filter(|_| find_helper("git", None).is_ok()) else {
        let message = "the demonstration needs git, and cargo or python3 on the PATH";
        return Err(
            Failure::new(Code::ToolServerUnavailable, message).hint("install them, then try again")
        );
    };
    let demo = DemoRunner::new(options, *output)?;
    demo.heading("A sample repository with a failing test");
    demo.build(&sample)?;
    let test = demo.run_shell(sample.test)?;
    if test {
        return Err(Failure::new(Code::Internal, "the sample test passes before the fix"));
    }
    demo.heading("A run of the spine loop. Its process is killed after the edit is recorded");
    demo.run_windlass(
        &["run", TASK, "--answers", "../answers.json", "--by", "demo"],
        Some(CRASH_AT),
        None,
    )?;
    let id = demo.run_id()?;
    demo.heading("Nothing is lost: the journal has every step");
    demo.run_windlass(&["status"], None, Some(0))?;
    demo.heading("A person who may decide. Without a passphrase the key counts for the account");
    demo.run_windlass(&["people", "add", "ann"], None, Some(0))?;
    demo.heading("A person resumes the run. The edit is not repeated: its effect is recorded");
    demo.run_windlass(&["resume", &id, "--by", "ann"], None, Some(4))?;
    demo.heading("The reviewer asks for a person's decision. What did the build phase change?");
    demo.run_windlass(&["queue", "list"], None, Some(0))?;
    let (planned, built) = (format!("{id}/POST_design_v1"), format!("{id}/POST_build_v1"));
    demo.run_windlass(&["checkpoint", "diff", &planned, &built], None, Some(0))?;
    if options.serve {
        demo.heading(
            "Open this link and decide; the run goes on by itself. Ctrl-C ends the server",
        );
        return demo.serve();
    }
    demo.heading("Roll back to the plan, files and state together: the test fails again");
    let reason = "look at the plan again";
    demo.run_windlass(
        &["checkpoint", "rollback", &planned, "--by", "ann", "--reason", reason],
        None,
        Some(0),
    )?;
    if demo.run_shell(sample.test)? {
        return Err(Failure::new(Code::Internal, "the rollback did not undo the change"));
    }
    demo.heading("And forward again: earlier checkpoints are never lost");
    let reviewed = format!("{id}/POST_review_v1");
    let reason = "the build was right";
    demo.run_windlass(
        &["checkpoint", "rollback", &reviewed, "--by", "ann", "--reason", reason, "--resume"],
        None,
        Some(4),
    )?;
    demo.run_windlass(&["checkpoint", "list", &id], None, Some(0))?;
    demo.heading("The person decides");
    demo.run_windlass(
        &["queue", "approve", &id, "--by", "ann", "--reason", "the tests pass", "--resume"],
        None,
        Some(0),
    )?;
    demo.heading("The test passes, the work is committed, and the journal verifies");
    if !demo.run_shell(sample.test)? {
        return Err(Failure::new(Code::Internal, "the sample test fails after the fix"));
    }
    demo.run_shell(&format!("git log --oneline --stat -1 -- {}", sample.changed))?;
    demo.run_windlass(&["verify"], None, Some(0))?;
    demo.finish(&id)
}

fn is_installed(program: &str) -> bool {
    let mut check = Command::new(program);
    check.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    check.status().is_ok_and(|status| status.success())
}

/// Runs commands in the sample repository and prints them. The state, and with it the people, are of the demonstration
/// alone: nothing of it stays in the account.
struct DemoRunner {
    folder: PathBuf,
    repository: PathBuf,
    state: PathBuf,
    binary: PathBuf,
    output: Output,
}

impl DemoRunner {
    fn new(options: &Demo, output: Output) -> Result<Self, Failure> {
        let folder = match &options.folder {
            Some(folder) => folder.clone(),
            None => std::env::temp_dir().join(format!("windlass-demo-{}", std::process::id())),
        };
        if folder.exists() {
            let message = format!("`{}` already exists", folder.display());
            return Err(Failure::new(Code::ProjectExists, message).hint("name another folder"));
        }
        let repository = folder.join("sums");
        std::fs::create_dir_all(&repository).map_err(|error| unreadable(&repository, &error))?;
        // Absolute, so that the printed paths work from anywhere.
        let folder = folder.canonicalize().map_err(|error| unreadable(&folder, &error))?;
        let (repository, state) = (folder.join("sums"), folder.join("state"));
        let binary =
            std::env::current_exe().map_err(|error| Failure::of(Code::Internal, &error))?;
        Ok(Self { folder, repository, state, binary, output })
    }

    /// Windlass in the sample repository.
    fn windlass(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(arguments).current_dir(&self.repository).stdin(Stdio::null());
        command.env_remove("WINDLASS_PROJECT").env_remove("WINDLASS_CRASH_AT");
        command.env("WINDLASS_STATE", &self.state);
        command
    }

    /// Becomes the server of the sample repository.
    fn serve(&self) -> CommandResult {
        let mut arguments = vec!["serve", "--listen=127.0.0.1:0", "--work"];
        if self.output.json {
            arguments.push("--json");
        }
        let error = self.windlass(&arguments).exec();
        Err(Failure::of(Code::Internal, &error))
    }

    fn heading(&self, text: &str) {
        self.output.note(&format!("\n{}", self.output.paint_note(text, Style::Bold)));
    }

    fn build(&self, sample: &SampleProject) -> Result<(), Failure> {
        for (name, text) in sample.files {
            write(&self.repository.join(name), text.as_bytes())?;
        }
        let answers = serde_json::to_vec_pretty(&answers(sample)).unwrap_or_default();
        write(&self.folder.join("answers.json"), &answers)?;
        let git = find_helper("git", None).map_err(|why| Failure::new(Code::HelperMissing, why))?;
        let git = git.display().to_string();
        self.run_silently(&git, &["init", "--quiet", "--initial-branch=main"])?;
        self.run_silently(&git, &["config", "user.name", "Windlass demo"])?;
        self.run_silently(&git, &["config", "user.email", "demo@localhost"])?;
        let made = self.windlass(&["init"]).output();
        check(made, "windlass init")?;
        self.run_silently(&git, &["add", "--all"])?;
        self.run_silently(&git, &["commit", "--quiet", "--message", "a small project"])?;
        self.output.note(&format!("in {}", self.repository.display()));
        Ok(())
    }

    /// Runs a program that must succeed, without printing it.
    fn run_silently(&self, program: &str, arguments: &[&str]) -> Result<(), Failure> {
        let done = Command::new(program).args(arguments).current_dir(&self.repository).output();
        check(done, &format!("{program} {}", arguments.join(" ")))
    }

    /// Runs a command line in the repository and prints it; returns whether it succeeded.
    fn run_shell(&self, line: &str) -> Result<bool, Failure> {
        self.show(line);
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((program, arguments)) = words.split_first() else { return Ok(true) };
        let done = Command::new(program).args(arguments).current_dir(&self.repository).output();
        let done = done.map_err(|error| Failure::of(Code::ToolServerUnavailable, &error))?;
        let stdout = String::from_utf8_lossy(&done.stdout);
        let word = if done.status.success() {
            self.output.paint_note("ok", Style::Good)
        } else {
            self.output.paint_note("failed", Style::Bad)
        };
        for line in stdout.lines().filter(|line| !line.trim().is_empty()).take(4) {
            self.output.note(&sanitize(line));
        }
        self.output.note(&word);
        Ok(done.status.success())
    }

    fn show(&self, line: &str) {
        self.output.note(&format!("{} {line}", self.output.paint_note("$", Style::Faint)));
    }

    /// Runs Windlass and prints its output.
    fn run_windlass(
        &self,
        arguments: &[&str],
        crash_at: Option<&str>,
        expected: Option<i32>,
    ) -> Result<(), Failure> {
        let words: Vec<String> = arguments
            .iter()
            .map(|word| if word.contains(' ') { format!("\"{word}\"") } else { (*word).to_owned() })
            .collect();
        let crash = crash_at.map(|at| format!("WINDLASS_CRASH_AT={at} ")).unwrap_or_default();
        self.show(&format!("{crash}windlass {}", words.join(" ")));
        let mut command = self.windlass(arguments);
        if let Some(at) = crash_at {
            command.env("WINDLASS_CRASH_AT", at);
        }
        let done = command.output().map_err(|error| Failure::of(Code::Internal, &error))?;
        // Both streams, unchanged.
        let mut stderr = std::io::stderr().lock();
        drop(stderr.write_all(&done.stderr));
        drop(stderr.write_all(&done.stdout));
        drop(stderr);
        if crash_at.is_some() {
            if done.status.code().is_some() {
                let message = "the run ended before it could be killed";
                return Err(Failure::new(Code::Internal, message));
            }
            self.output.note(&self.output.paint_note("killed", Style::Bad));
            return Ok(());
        }
        match (done.status.code(), expected) {
            (code, Some(expected)) if code != Some(expected) => {
                let message = format!("`windlass {}` ended with {code:?}", words.join(" "));
                Err(Failure::new(Code::Internal, message))
            }
            _ => Ok(()),
        }
    }

    /// The id of the only run.
    fn run_id(&self) -> Result<String, Failure> {
        let done = self
            .windlass(&["status", "--json"])
            .output()
            .map_err(|error| Failure::of(Code::Internal, &error))?;
        let runs: Value = serde_json::from_slice(&done.stdout).unwrap_or(Value::Null);
        let id = runs.pointer("/0/run_id").and_then(Value::as_str).map(str::to_owned);
        id.ok_or_else(|| Failure::new(Code::Internal, "the run is not listed"))
    }

    fn finish(&self, id: &str) -> CommandResult {
        let artifacts = self.repository.join(".windlass/artifacts");
        let packets = [
            artifacts.join(format!("terminal/TP_{id}.yaml")),
            artifacts.join("checkpoints"),
            artifacts.join("steps"),
            artifacts.join("loop_state/attempt_ledger.jsonl"),
        ];
        if let Some(missing) = packets.iter().find(|path| !path.exists()) {
            let message = format!("`{}` was not written", missing.display());
            return Err(Failure::new(Code::Internal, message));
        }
        if self.output.json {
            self.output.value(&json!({
                "run_id": id,
                "repository": self.repository,
                "state": self.state,
                "packets": packets,
            }))?;
            return Ok(0);
        }
        self.heading("Files");
        self.output.line(&format!("repository       {}", self.repository.display()));
        let names =
            ["terminal packet  ", "holds            ", "steps            ", "ledger           "];
        for (name, path) in names.iter().zip(&packets) {
            self.output.line(&format!("{name}{}", path.display()));
        }
        self.output.line(&format!("state            {}", self.state.display()));
        self.output.line(&format!(
            "explore          cd {} && export WINDLASS_STATE={} && windlass status {id}",
            self.repository.display(),
            self.state.display()
        ));
        Ok(0)
    }
}

/// Fails unless a program ended well.
fn check(done: std::io::Result<std::process::Output>, line: &str) -> Result<(), Failure> {
    let done = done.map_err(|error| Failure::of(Code::ToolServerUnavailable, &error))?;
    if done.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&done.stderr);
    Err(Failure::new(Code::ToolFailed, format!("`{line}` failed: {}", stderr.trim())))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| unreadable(folder, &error))?;
    }
    std::fs::write(path, bytes).map_err(|error| {
        Failure::new(
            Code::FileUnwritable,
            format!("`{}` cannot be written: {error}", path.display()),
        )
    })
}

/// The recorded answers of the agents; their tool calls are real.
fn answers(sample: &SampleProject) -> Value {
    json!({ "phases": {
        "design": [{
            "calls": [{
                "tool": "shell/read",
                "args": { "line": format!("cat {}", sample.changed) },
                "intent": "read the code before planning",
            }],
            "answer": {
                "summary": "add() subtracts; make it add",
                "steps": [format!("{}: let it add", sample.changed)],
                "checks": [sample.test],
            },
            "usage": { "input_tokens": 1200, "output_tokens": 150, "cost_micros": 5200 },
        }],
        "build": [{
            "calls": [
                { "tool": "shell/run", "args": { "line": sample.edit }, "intent": "make add() add" },
                { "tool": "shell/run", "args": { "line": sample.test }, "intent": "run the tests" },
            ],
            "answer": {
                "summary": "add() adds; the test passes",
                "commit_message": "sums: add() adds\n\nIt subtracted, and its test failed.",
            },
            "usage": { "input_tokens": 2100, "output_tokens": 240, "cost_micros": 9100 },
        }],
        "review": [{
            "answer": {
                "verdict": "escalate",
                "reason": "the change is right; a person should see arithmetic",
                "findings": [],
                "summary": "one line, as planned, with a passing test",
            },
            "usage": { "input_tokens": 900, "output_tokens": 90, "cost_micros": 3800 },
        }],
    }})
}
