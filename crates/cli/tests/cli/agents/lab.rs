//! A repository, a home, a scripted model, and one real client.

use crate::scripted;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use windlass_hooks::Client;
use windlass_loopback_model::{LoopbackModel, Script};

use crate::harness::{Outcome, finish};
use crate::world::Repo;

/// The folder with the clients, if it is not `target/clients`.
const CLIENTS: &str = "WINDLASS_TEST_CLIENTS";

/// The credential of the model, which no client sees.
pub const KEY: &str = "key-of-the-model-5150";

/// A client, and how it is told where its model is.
pub struct Kind {
    pub name: &'static str,
    /// The program in the folder of packages.
    pub program: &'static str,
    endpoint: &'static str,
    /// What follows the address.
    path: &'static str,
    key: &'static str,
    /// Calls of its own tools, with arguments that would have an effect.
    pub own_tools: fn(&Canaries) -> Vec<Value>,
}

pub const CLAUDE: Kind = Kind {
    name: "claude",
    program: "claude",
    endpoint: "ANTHROPIC_BASE_URL",
    path: "",
    key: "ANTHROPIC_API_KEY",
    own_tools: crate::agents::switched_off::claude,
};

pub const CODEX: Kind = Kind {
    name: "codex",
    program: "codex",
    endpoint: "OPENAI_BASE_URL",
    path: "/v1",
    key: "OPENAI_API_KEY",
    own_tools: crate::agents::switched_off::codex,
};

pub const GEMINI: Kind = Kind {
    name: "gemini",
    program: "gemini",
    endpoint: "GOOGLE_GEMINI_BASE_URL",
    path: "",
    key: "GEMINI_API_KEY",
    own_tools: crate::agents::switched_off::gemini,
};

pub const OPENCODE: Kind = Kind {
    name: "opencode",
    program: "opencode",
    endpoint: "OPENAI_BASE_URL",
    path: "/v1",
    key: "OPENAI_API_KEY",
    own_tools: crate::agents::switched_off::opencode,
};

impl Kind {
    /// A number that no other client has.
    pub fn number(&self) -> u64 {
        let position = Client::ALL.iter().position(|client| client.as_str() == self.name);
        u64::try_from(position.expect("a client")).expect("small")
    }
}

/// Files that appear, and requests that are made, only if something had an effect.
pub struct Canaries {
    pub files: Vec<PathBuf>,
    pub url: String,
}

impl Canaries {
    /// A command line that makes all files.
    pub fn line(&self) -> String {
        let names: Vec<String> = self.files.iter().map(|file| file.display().to_string()).collect();
        format!("touch {}; mkdir -p /tmp", names.join(" "))
    }

    pub fn file(&self) -> String {
        self.files[0].display().to_string()
    }
}

/// Everything that a test needs.
pub struct Lab {
    pub repo: Repo,
    pub model: LoopbackModel,
    pub kind: &'static Kind,
    clients: PathBuf,
}

/// The folder with the packages of the clients; nothing if they are not installed.
fn installed(kind: &Kind) -> Option<PathBuf> {
    let folder = std::env::var_os(CLIENTS).map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/clients"),
        PathBuf::from,
    );
    let modules = folder.join("node_modules");
    if modules.join(".bin").join(kind.program).exists() {
        return Some(modules.canonicalize().expect("a folder"));
    }
    let reason = format!("`{}` is not installed: `cargo xtask clients` does that", kind.program);
    assert!(std::env::var_os("CI").is_none(), "{reason}");
    windlass_testkit::skipped(&reason);
    None
}

impl Lab {
    /// A laboratory whose model follows a script; nothing if the client is not installed.
    pub fn new(kind: &'static Kind, script: &Value) -> Option<Self> {
        let clients = installed(kind)?;
        let script = Script::from_json(&script.to_string()).expect("a script");
        let model = LoopbackModel::start(script).expect("a model");
        let repo = Repo::new();
        // A key of the environment would not be sent to this machine.
        let model_name = if kind.name == "opencode" { "model = \"a-model\"\n" } else { "" };
        repo.place.settings(&format!(
            "[agents.{}]\ncredential = \"K\"\n{model_name}[secrets]\nK = {{ env = \"{}\" }}\n",
            kind.name, kind.key
        ));
        Some(Self { repo, model, kind, clients })
    }

    /// The folder that the programs of the client are in.
    pub fn clients(&self) -> &Path {
        &self.clients
    }

    /// Windlass with arguments, and the variables that people set for the client.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.repo.place.command(args);
        let mut path = OsString::from(self.clients.join(".bin"));
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let endpoint = format!("http://{}{}", self.model.address(), self.kind.path);
        command.env("PATH", path).env(self.kind.endpoint, endpoint).env(self.kind.key, KEY);
        command
    }

    pub fn windlass(&self, args: &[&str]) -> Outcome {
        finish(self.command(args), &[])
    }

    /// The arguments of a run of the spine loop.
    pub fn run_line(&self) -> [&'static str; 6] {
        ["run", "leave a greeting", "--json", "--agent", self.kind.name, "--by=ada"]
    }

    pub fn run(&self) -> Outcome {
        drop(self.windlass(&["people", "add", "ada"]));
        self.windlass(&self.run_line())
    }

    /// The calls in the journal, oldest first, as tool, arguments and state.
    pub fn calls(&self) -> Vec<(String, Value, String)> {
        scripted::calls(&self.repo)
    }

    /// Everything that the model was told, as text.
    pub fn told(&self) -> String {
        serde_json::to_string(&self.model.requests()).expect("JSON")
    }

    /// What a run must leave behind: one commit more, a whole journal, no tools of others.
    #[track_caller]
    pub fn has_passed(&self, commits_before: usize) {
        assert_eq!(self.repo.commits(), commits_before + 1);
        assert_eq!(self.repo.status(), "");
        self.repo.is_whole();
        for request in self.model.requests() {
            for tool in &request.tools {
                let name = tool.to_string();
                let ours = [
                    "fs_",
                    "shell_",
                    "agent_run",
                    "ask_person",
                    "finish",
                    "mcp_resource",
                    "DeferredToolPlaceholder",
                ];
                assert!(ours.iter().any(|part| name.contains(part)), "{name}");
            }
            assert!(request.not_offered.is_empty(), "{:?}", request.not_offered);
        }
    }
}
