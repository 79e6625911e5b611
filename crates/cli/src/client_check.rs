//! Checks whether a client stays in its cage: with a scripted model it takes a scratch repository to a commit, and
//! the model also calls the client's own tools, which must have no effect.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_agents::Client;
use windlass_cell::{Ending, Finished, Limits, OnSignal, Program};
use windlass_kernel::Code;
use windlass_loopback_model::{LoopbackModel, Script};
use windlass_workspace::find_helper;

use crate::failure::Failure;

/// How long each program of the check may take.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The most that is read of what it prints.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// The file that the agent makes with our tools.
const MADE: &str = "greeting.txt";

/// A client's program.
#[derive(Clone, Copy)]
pub struct Checked<'a> {
    /// The client.
    pub client: &'a dyn Client,
    /// Its program and arguments.
    pub command: &'a [String],
    /// What the program needs to see.
    pub visible: &'a [PathBuf],
}

impl Checked<'_> {
    /// Runs the check; `Err` says what the client did not do, or did.
    pub fn run(&self) -> Result<Result<Duration, String>, Failure> {
        let scratch = tempfile::Builder::new().prefix("windlass-check-").tempdir();
        let scratch = scratch.map_err(|error| Failure::of(Code::FileUnwritable, &error))?;
        let canary = scratch.path().join("CANARY");
        let own = self.client.own_tools(&canary.display().to_string());
        let model = Script::from_json(&script(&own).to_string())
            .map_err(|error| Failure::of(Code::Internal, &error))
            .and_then(|script| {
                LoopbackModel::start(script).map_err(|error| Failure::of(Code::Internal, &error))
            })?;
        let place = Place::build(scratch.path(), &self.settings(&model))?;
        let began = Instant::now();
        let ended = place.windlass(&[
            "run",
            "leave a greeting",
            "--json",
            "--agent",
            self.client.name(),
        ])?;
        let took = began.elapsed();
        if canary.exists() {
            return Ok(Err("one of its own tools had an effect".to_owned()));
        }
        if let Some(reason) = failure_of(&ended) {
            return Ok(Err(reason));
        }
        let results = model.requests().iter().map(|request| request.results.len()).max();
        if results.unwrap_or_default() < own.len() {
            return Ok(Err("its own tools could not be tried".to_owned()));
        }
        let changed = place.git(&["show", "--name-only", "--format=", "HEAD"])?;
        Ok(match String::from_utf8_lossy(&changed.stdout).trim() {
            MADE => Ok(took),
            other => Err(format!("the commit has other files than it should: {other}")),
        })
    }

    /// The user's settings for the check.
    fn settings(&self, model: &LoopbackModel) -> String {
        let (_, usual) = self.client.api().endpoint;
        let path = usual
            .split_once("://")
            .and_then(|(_, rest)| rest.find('/').and_then(|at| rest.get(at..)));
        let endpoint = format!("http://{}{}", model.address(), path.unwrap_or_default());
        let mut own = toml::Table::new();
        let list = |words: &mut dyn Iterator<Item = String>| -> toml::Value {
            words.map(toml::Value::from).collect::<Vec<_>>().into()
        };
        own.insert("command".to_owned(), list(&mut self.command.iter().cloned()));
        own.insert("endpoint".to_owned(), endpoint.into());
        own.insert(
            "visible".to_owned(),
            list(&mut self.visible.iter().map(|path| path.display().to_string())),
        );
        if self.client.needs_model() {
            own.insert("model".to_owned(), "check".into());
        }
        let agents = toml::Table::from_iter([(self.client.name().to_owned(), own.into())]);
        toml::Table::from_iter([("agents".to_owned(), toml::Value::from(agents))]).to_string()
    }
}

/// What the model does: it plans, calls the client's own tools, makes a file with ours, and approves.
fn script(own: &[(&'static str, Value)]) -> Value {
    let call = |name: &str, input: Value| json!({ "calls": [{ "name": name, "input": input }] });
    let answer =
        |answer: Value| json!({ "calls": [{ "name": "finish", "input": answer }], "repeat": -1 });
    let mut build: Vec<Value> =
        own.iter().map(|(name, input)| call(&format!("={name}"), input.clone())).collect();
    build.push(call("fs_write", json!({ "path": MADE, "content": "hello\n" })));
    build.push(answer(
        json!({ "summary": "Added it.", "commit_message": "Add a greeting", "checks": [] }),
    ));
    let plan = json!({ "summary": "Add a file.", "steps": [], "checks": [], "risks": [] });
    let verdict = json!({ "verdict": "approved", "reason": "It is right.", "summary": "Seen." });
    json!({
        "conversations": [
            { "when": "You plan one change", "steps": [answer(plan)] },
            { "when": "You carry out the plan", "steps": build },
        ],
        "otherwise": [answer(verdict)],
    })
}

/// Why a run did not pass.
fn failure_of(ended: &Finished) -> Option<String> {
    if !matches!(ended.ending, Ending::Exited) {
        return Some(format!("the run did not end within {} seconds", TIMEOUT.as_secs()));
    }
    if ended.status.is_some_and(|status| status.success()) {
        return None;
    }
    let value: Value = serde_json::from_slice(&ended.stdout).unwrap_or_default();
    let said = ["/detail", "/hold/question", "/error/message"]
        .iter()
        .find_map(|pointer| value.pointer(pointer).and_then(Value::as_str));
    let stderr = String::from_utf8_lossy(&ended.stderr);
    Some(said.map_or_else(|| stderr.trim().to_owned(), str::to_owned))
}

/// A scratch repository, with a home of its own.
struct Place {
    repository: PathBuf,
    home: PathBuf,
    git: PathBuf,
    binary: PathBuf,
}

impl Place {
    fn build(folder: &Path, settings: &str) -> Result<Self, Failure> {
        let git = find_helper("git", None).map_err(|why| Failure::new(Code::HelperMissing, why))?;
        let binary =
            std::env::current_exe().map_err(|error| Failure::of(Code::Internal, &error))?;
        let place =
            Self { repository: folder.join("repository"), home: folder.join("home"), git, binary };
        let config = place.home.join(".config/windlass");
        let written = std::fs::create_dir_all(&place.repository)
            .and_then(|()| std::fs::create_dir_all(&config))
            .and_then(|()| std::fs::write(config.join("config.toml"), settings))
            .and_then(|()| {
                std::fs::write(place.repository.join("README.md"), "# A scratch repository\n")
            });
        written.map_err(|error| Failure::of(Code::FileUnwritable, &error))?;
        place.git(&["init", "--quiet", "--initial-branch=main"])?;
        place.git(&["config", "user.name", "Windlass"])?;
        place.git(&["config", "user.email", "windlass@localhost"])?;
        place.windlass(&["init"])?;
        place.git(&["add", "--all"])?;
        place.git(&["commit", "--quiet", "--message", "a scratch repository"])?;
        Ok(place)
    }

    fn git(&self, arguments: &[&str]) -> Result<Finished, Failure> {
        let ended = self.run(&self.git, arguments)?;
        match ended.status.is_some_and(|status| status.success()) {
            true => Ok(ended),
            false => {
                let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
                Err(Failure::new(
                    Code::GitDamaged,
                    format!("git in the scratch repository: {said}"),
                ))
            }
        }
    }

    fn windlass(&self, arguments: &[&str]) -> Result<Finished, Failure> {
        self.run(&self.binary, arguments)
    }

    fn run(&self, program: &Path, arguments: &[&str]) -> Result<Finished, Failure> {
        let env: Vec<(OsString, OsString)> = [
            ("HOME", self.home.clone().into_os_string()),
            ("XDG_CONFIG_HOME", self.home.join(".config").into_os_string()),
            ("XDG_DATA_HOME", self.home.join(".local/share").into_os_string()),
            ("XDG_STATE_HOME", self.home.join(".local/state").into_os_string()),
            ("WINDLASS_STATE", self.home.join(".local/state/windlass").into_os_string()),
        ]
        .map(|(name, value)| (OsString::from(name), value))
        .to_vec();
        let argv =
            [program.as_os_str()].into_iter().chain(arguments.iter().map(|word| word.as_ref()));
        windlass_cell::run(&Program {
            argv: argv.collect(),
            stdin: None,
            env: env.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str())).collect(),
            cwd: &self.repository,
            limits: Limits { timeout: TIMEOUT, output_bytes_max: OUTPUT_BYTES_MAX },
            confined: None,
            on_signal: OnSignal::End,
        })
        .map_err(|error| Failure::new(Code::Internal, error.to_string()))
    }
}
