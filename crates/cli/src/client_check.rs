//! Checks whether a client stays in its cage: with a scripted model it takes a scratch repository to a commit, and
//! the model also calls the client's own tools, which must have no effect.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_agents::Client;
use windlass_cell::{Ending, Finished};
use windlass_loopback_model::LoopbackModel;

use crate::failure::Failure;
use crate::readiness;
use crate::scratch::{CheckLock, ScratchRepository, TIMEOUT, endpoint_like, start_model};

/// The file that the agent makes with our tools.
const MADE: &str = "greeting.txt";

/// A client's program.
#[derive(Clone, Copy)]
pub struct Checked<'a> {
    /// The client.
    pub client: &'a dyn Client,
    /// Its program and arguments.
    pub command: &'a [String],
    /// Its version.
    pub version: &'a str,
    /// What the program needs to see.
    pub visible: &'a [PathBuf],
}

impl Checked<'_> {
    /// Runs the check; `Err` says what the client did not do, or did.
    pub fn run(&self, lock: &CheckLock) -> Result<Result<Duration, String>, Failure> {
        let scratch = lock.folder()?;
        let canary = scratch.path().join("CANARY");
        let own = self.client.own_tools(&canary.display().to_string());
        let model = start_model(&script(&own))?;
        let repository = ScratchRepository::create(&scratch, &self.settings(&model))?;
        // In its own scratch run the client is used, not checked.
        readiness::write_passed(&repository.states(), self.client, self.version)?;
        let began = Instant::now();
        let ended = repository.windlass(&[
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
        let changed = repository.git(&["show", "--name-only", "--format=", "HEAD"])?;
        Ok(match String::from_utf8_lossy(&changed.stdout).trim() {
            MADE => Ok(took),
            other => Err(format!("the commit has other files than it should: {other}")),
        })
    }

    /// The user's settings for the check.
    fn settings(&self, model: &LoopbackModel) -> String {
        let (_, usual) = self.client.api().endpoint;
        let endpoint = endpoint_like(usual, model);
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
