//! Who runs agents: the clients that are installed, models, programs and people, by the settings of the user and of the project.

mod endpoint;
mod kinds;
mod logins;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use windlass_agents::{Client, ClientRunner, ClientSettings, EndpointSource, Guard, PersonRunner};
use windlass_connect::Sandbox;
use windlass_engine::executors::{DEFAULT_AGENT, Runner, RunnerChoice};
use windlass_kernel::{Code, HostRule};
use windlass_runtime::NamedSecrets;

use crate::failure::Failure;
use crate::sandbox::find_program;
use crate::user_config::{UserConfig, host_rules};

/// The shortest credential.
const CREDENTIAL_BYTES_MIN: usize = 12;
/// How long nothing may happen before a client is stopped.
const SILENCE_SECONDS: u64 = 900;

pub use endpoint::{Found, how_to_name, of_client, of_model};
pub use kinds::{Kind, names};
use logins::Login;

/// The user's settings of one runner. Which of them it has depends on its kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientConfig {
    /// What it is [default: its name].
    pub kind: Option<String>,
    /// The program and arguments before all others [default: found on the `PATH`].
    pub command: Vec<String>,
    /// The model, unless the agent names one [default: the client's own].
    pub model: Option<String>,
    /// The address of the model's service [default: that of the client's own variable].
    pub endpoint: Option<String>,
    /// The name of the secret that is its credential [default: the client's own variables and login].
    pub credential: Option<String>,
    /// Files and folders that the program needs besides its own.
    pub visible: Vec<PathBuf>,
    /// How long nothing may happen before it is stopped, in seconds.
    pub silence_seconds: Option<u64>,
    /// Whether a version that cannot be caged is used all the same.
    pub guard: GuardName,
    /// How the service of a model is talked to.
    pub api: Option<String>,
    /// The size of a model's context, in tokens.
    pub context_tokens: Option<u64>,
    /// The most tokens of one answer of a model.
    pub output_tokens: Option<u64>,
    /// What a million tokens of requests cost, in dollars.
    pub input_per_million: Option<f64>,
    /// What a million tokens of answers cost, in dollars.
    pub output_per_million: Option<f64>,
    /// What a million tokens from the service's cache cost, in dollars [default: as those of requests].
    pub cached_per_million: Option<f64>,
    /// The hosts that a program may reach, as `host:port`.
    #[serde(deserialize_with = "host_rules")]
    pub network: Vec<HostRule>,
}

impl ClientConfig {
    /// The names of the settings that are set, besides the kind.
    fn set(&self) -> Vec<&'static str> {
        let Self {
            kind: _, command, model, endpoint, credential, visible, silence_seconds, ..
        } = self;
        [
            ("command", !command.is_empty()),
            ("model", model.is_some()),
            ("endpoint", endpoint.is_some()),
            ("credential", credential.is_some()),
            ("visible", !visible.is_empty()),
            ("silence_seconds", silence_seconds.is_some()),
            ("api", self.api.is_some()),
            ("context_tokens", self.context_tokens.is_some()),
            ("output_tokens", self.output_tokens.is_some()),
            ("input_per_million", self.input_per_million.is_some()),
            ("output_per_million", self.output_per_million.is_some()),
            ("cached_per_million", self.cached_per_million.is_some()),
            ("guard", self.guard != GuardName::default()),
            ("network", !self.network.is_empty()),
        ]
        .into_iter()
        .filter_map(|(name, is_set)| is_set.then_some(name))
        .collect()
    }
}

/// How much a client can do besides calling our tools.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum GuardName {
    /// Nothing.
    #[default]
    Caged,
    /// What its cell allows; that it does is recorded.
    Watched,
}

/// One runner or several, in the order in which they are tried.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub enum RunnerNames {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl RunnerNames {
    fn list(&self) -> Vec<String> {
        match self {
            Self::One(name) => vec![name.clone()],
            Self::Several(names) => names.clone(),
        }
    }
}

/// Reads `--agent RUNNER` and `--agent AGENT=RUNNER,RUNNER`.
pub fn parse_options(options: &[String]) -> Result<Value, Failure> {
    let all = kinds::names(&UserConfig::load()?.agents);
    let mut chosen = serde_json::Map::new();
    for option in options {
        let (agent, names) = option.split_once('=').unwrap_or((DEFAULT_AGENT, option));
        let names: Vec<&str> = names.split(',').map(str::trim).collect();
        let known = |name: &&str| all.iter().any(|known| known == name);
        if agent.is_empty() || !names.iter().all(known) {
            let message = format!("`--agent {option}` names nobody who runs agents");
            return Err(Failure::new(Code::RequestInvalid, message).hint(format!(
                "use `--agent NAME` or `--agent AGENT=NAME`, with one of {}",
                all.join(", ")
            )));
        }
        chosen.insert(agent.to_owned(), Value::from(names));
    }
    Ok(Value::Object(chosen))
}

/// What runners are made of.
pub struct Parts<'a> {
    /// The user's settings, by client.
    pub clients: &'a BTreeMap<String, ClientConfig>,
    /// The project's choice, by agent.
    pub chosen: &'a BTreeMap<String, RunnerNames>,
    /// The secrets that settings may name.
    pub secrets: &'a NamedSecrets,
    /// The sandbox in which clients run.
    pub sandbox: Arc<Sandbox>,
    /// The project's state folder.
    pub state: &'a Path,
}

/// The runners of all clients that are installed, and who runs which agent.
pub fn runners(parts: &Parts<'_>) -> Result<RunnerChoice, Failure> {
    let relay = std::env::current_exe().map_err(|error| {
        Failure::new(Code::Internal, format!("the path of the windlass binary is unknown: {error}"))
    })?;
    let mut runners: BTreeMap<String, Arc<dyn Runner>> = BTreeMap::new();
    for name in kinds::names(parts.clients) {
        let config = parts.clients.get(&name).cloned().unwrap_or_default();
        let kind = Kind::of(&name, &config);
        let kind = kind.map_err(|message| Failure::new(Code::ConfigInvalid, message))?;
        let runner = match kind {
            Kind::Client(client) => client_runner(client, &name, config, parts, &relay),
            Kind::Model(api) => Some(kinds::model(&name, api, &config, parts.secrets)),
            Kind::Command => kinds::command(&name, config, parts),
            Kind::Person => Some(Arc::new(PersonRunner::new(name.clone())) as Arc<dyn Runner>),
        };
        runners.extend(runner.map(|runner| (name, runner)));
    }
    let by_agent =
        parts.chosen.iter().map(|(agent, names)| (agent.clone(), names.list())).collect();
    Ok(RunnerChoice { runners, by_agent })
}

/// The runner of a client; nothing if the client is not installed.
fn client_runner(
    client: &'static dyn Client,
    name: &str,
    config: ClientConfig,
    parts: &Parts<'_>,
    relay: &Path,
) -> Option<Arc<dyn Runner>> {
    let program = ClientProgram::find(Some(client.program()), &config).ok()?;
    let (settings, secrets) = (config.clone(), parts.secrets.clone());
    Some(Arc::new(ClientRunner::new(
        client,
        ClientSettings {
            name: name.to_owned(),
            guard: match config.guard {
                GuardName::Caged => Guard::Caged,
                GuardName::Watched => Guard::Watched,
            },
            endpoint: EndpointSource::new(move || of_client(client, &settings, &secrets).endpoint),
            model: config.model,
            silence: Duration::from_secs(config.silence_seconds.unwrap_or(SILENCE_SECONDS)),
            visible: program.visible.into_iter().chain(config.visible).collect(),
            program: program.path,
            arguments: program.arguments,
        },
        Arc::clone(&parts.sandbox),
        parts.state.join("agents"),
        relay.to_owned(),
    )))
}

/// A program and what it needs.
pub struct ClientProgram {
    /// The program, or its interpreter.
    pub path: PathBuf,
    /// The arguments before all others.
    pub arguments: Vec<String>,
    /// The files and folders that it needs.
    pub visible: Vec<PathBuf>,
}

impl ClientProgram {
    /// Finds the program of a runner, on the `PATH` by its usual name if the settings do not say where it is; `Err`
    /// says what is missing.
    pub fn find(usual: Option<&str>, config: &ClientConfig) -> Result<Self, String> {
        let (path, mut arguments) = match config.command.split_first() {
            Some((program, arguments)) => (PathBuf::from(program), arguments.to_vec()),
            None => {
                let usual = usual.ok_or_else(|| "its `command` is not set".to_owned())?;
                let missing = || format!("`{usual}` is not on your PATH");
                (find_program(usual).ok_or_else(missing)?, Vec::new())
            }
        };
        let path = path.canonicalize().map_err(|error| format!("`{}`: {error}", path.display()))?;
        let mut visible = vec![package_of(&path)];
        visible.extend(
            arguments.iter().map(Path::new).filter(|path| path.is_absolute()).map(package_of),
        );
        let Some(interpreter) = interpreter_of(&path) else {
            return Ok(Self { path, arguments, visible });
        };
        let missing =
            || format!("`{}` needs `{interpreter}`, which is not on your PATH", path.display());
        let interpreter = find_program(&interpreter)
            .and_then(|found| found.canonicalize().ok())
            .ok_or_else(missing)?;
        visible.push(interpreter.clone());
        arguments.insert(0, path.display().to_string());
        Ok(Self { path: interpreter, arguments, visible })
    }
}

/// The folder of the packages that a program belongs to, or the program alone.
fn package_of(path: &Path) -> PathBuf {
    let is_modules = |folder: &&Path| folder.file_name().is_some_and(|name| name == "node_modules");
    path.ancestors().filter(is_modules).last().unwrap_or(path).to_owned()
}

/// The program that the first line of a script names.
fn interpreter_of(path: &Path) -> Option<String> {
    let mut beginning = Vec::new();
    std::fs::File::open(path).ok()?.take(256).read_to_end(&mut beginning).ok()?;
    let line = String::from_utf8_lossy(beginning.strip_prefix(b"#!")?).into_owned();
    let mut words = line.lines().next()?.split_whitespace();
    let first = words.next()?;
    let name = Path::new(first).file_name()?.to_str()?;
    if name == "env" {
        words.find(|word| !word.starts_with('-')).map(str::to_owned)
    } else {
        Some(first.to_owned())
    }
}

/// A variable of the environment that is not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The credentials of models in the environment and in logins: they are never stored.
pub fn credentials() -> Vec<(String, String)> {
    let clients = windlass_agents::all();
    let variables = clients.iter().flat_map(|client| client.api().credentials);
    let mut found: Vec<(String, String)> =
        variables.filter_map(|(name, ..)| Some(((*name).to_owned(), variable(name)?))).collect();
    for client in &clients {
        if let Login::Valid { headers, .. } = logins::login(client.name()) {
            let token = |text: &str| text.strip_prefix("Bearer ").map(str::to_owned);
            let tokens = headers.iter().filter_map(|(_, value)| token(value));
            let name = format!("the login of {}", client.name());
            found.extend(tokens.map(|token| (name.clone(), token)));
        }
    }
    // What is shorter is a placeholder for a service that needs none, and may be any word.
    found.retain(|(_, value)| value.len() >= CREDENTIAL_BYTES_MIN);
    found
}

/// Whether people can log in with a client, and Windlass uses it.
pub fn has_login(client: &dyn Client) -> bool {
    logins::has_login(client.name())
}
