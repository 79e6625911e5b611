//! A repository, a scripted model, and settings that name it.

use std::process::Command;

use serde_json::Value;
use windlass_loopback_model::{LoopbackModel, Script};

use crate::harness::{Outcome, finish, text_of};
use crate::world::Repo;

/// The credential of the model.
pub const KEY: &str = "key-of-the-model-5150";

/// A service, with what follows the address and the variable of its credential.
pub type Api = (&'static str, &'static str, &'static str);

/// The services.
pub const APIS: [Api; 3] = [
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
    pub fn new(api: Api, script: &Value, more: &str) -> Self {
        Self::with_credential(api, script, &format!("credential = \"K\"\n{more}"))
    }

    /// The same without a credential in the settings, unless `more` names one: `K` has the variable's value.
    pub fn with_credential((api, path, key): Api, script: &Value, more: &str) -> Self {
        let script = Script::from_json(&script.to_string()).expect("a script");
        let model = LoopbackModel::start(script).expect("a model");
        let repo = Repo::new();
        repo.place.settings(&format!(
            "[agents.m]\nkind = \"model\"\napi = \"{api}\"\nmodel = \"a-model\"\n\
             endpoint = \"http://{}{path}\"\n{more}\n\
             [secrets]\nK = {{ env = \"{key}\" }}\n",
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
