//! A repository, a scripted model, and settings that name it.

use std::process::Command;

use serde_json::{Value, json};
use windlass_loopback_model::{LoopbackModel, Script};

use crate::harness::{Outcome, finish, text_of};
use crate::world::Repo;

/// The credential of the model.
pub const KEY: &str = "key-of-the-model-5150";

/// The services, each with what follows the address and the variable of its credential.
pub const APIS: [(&str, &str, &str); 3] = [
    ("anthropic", "", "ANTHROPIC_API_KEY"),
    ("openai-chat", "/v1", "OPENAI_API_KEY"),
    ("openai-responses", "/v1", "OPENAI_API_KEY"),
];

pub struct Lab {
    pub repo: Repo,
    pub model: LoopbackModel,
    key: &'static str,
}

impl Lab {
    /// A laboratory whose model follows a script and is known as `m`, with more settings of it.
    pub fn new((api, path, key): (&str, &str, &'static str), script: &Value, more: &str) -> Self {
        let script = Script::from_json(&script.to_string()).expect("a script");
        let model = LoopbackModel::start(script).expect("a model");
        let repo = Repo::new();
        repo.place.settings(&format!(
            "[agents.m]\nkind = \"model\"\napi = \"{api}\"\nmodel = \"a-model\"\n\
             endpoint = \"http://{}{path}\"\n{more}\n",
            model.address()
        ));
        drop(repo.windlass(&["people", "add", "ada"]));
        Self { repo, model, key }
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.repo.place.command(args);
        command.env(self.key, KEY);
        command
    }

    pub fn windlass(&self, args: &[&str]) -> Outcome {
        finish(self.command(args), &[])
    }

    pub fn run(&self) -> Outcome {
        self.windlass(&["run", "leave a greeting", "--json", "--agent", "m", "--by=ada"])
    }

    /// What the first invocation that failed says.
    pub fn failure(&self) -> String {
        let id = self.repo.place.ids().pop().expect("a trace");
        let events = self.repo.events(&id);
        let ended = events.iter().filter(|event| event["kind"] == "invocation_ended");
        let notes: Vec<String> = ended.map(|event| text_of(event, "note")).collect();
        notes.into_iter().find(|note| !note.is_empty()).unwrap_or_default()
    }

    /// What a run must leave behind: one commit more, a whole journal, no credential.
    #[track_caller]
    pub fn has_passed(&self, commits_before: usize) {
        assert_eq!(self.repo.commits(), commits_before + 1);
        assert_eq!(self.repo.status(), "");
        self.repo.is_whole();
        assert!(!self.repo.place.stores(KEY), "the credential is stored");
    }
}

/// The calls in a journal, oldest first, as tool, arguments and state.
pub fn calls(repo: &Repo) -> Vec<(String, Value, String)> {
    let mut calls = Vec::new();
    for id in repo.place.ids().iter().rev() {
        let log = repo.windlass(&["trace", "log", id, "--artifacts", "--json"]).exit(0);
        let entries: Vec<Value> =
            log.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let Some(proposal) = entries[0].pointer("/artifact/proposal") else { continue };
        let [server, tool] = ["tool_server", "tool_name"].map(|key| text_of(proposal, key));
        let state = text_of(&entries.last().expect("an entry")["entry"], "to_state");
        calls.push((format!("{server}/{tool}"), proposal["args"].clone(), state));
    }
    calls
}

/// One call as a step of a script.
pub fn call(name: &str, input: Value) -> Value {
    json!({ "calls": [{ "name": name, "input": input }] })
}

/// A step that runs a shell line.
pub fn shell(line: &str) -> Value {
    call("shell_run", json!({ "line": line }))
}

fn answer(answer: Value) -> Value {
    json!({ "calls": [{ "name": "finish", "input": answer }], "repeat": -1 })
}

/// The script of a run whose builder takes these steps.
pub fn script(build: Vec<Value>) -> Value {
    let plan = json!({ "summary": "Add a file.", "steps": [], "checks": [], "risks": [] });
    let done = json!({ "summary": "Added it.", "commit_message": "Add a file", "checks": [] });
    let verdict = json!({ "verdict": "approved", "reason": "It is right.", "summary": "Seen." });
    let build: Vec<Value> = build.into_iter().chain([answer(done)]).collect();
    json!({
        "conversations": [
            { "when": "You plan one change", "steps": [answer(plan)] },
            { "when": "You carry out the plan", "steps": build },
        ],
        "otherwise": [answer(verdict)],
    })
}
