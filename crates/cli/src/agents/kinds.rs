//! The kinds of runners that the user's settings can name, and which settings each has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use windlass_agents::{
    Client, CommandRunner, CommandSettings, ModelApi, ModelRunner, ModelSettings, Prices,
};
use windlass_engine::executors::Runner;
use windlass_runtime::NamedSecrets;

use super::{ClientConfig, ClientProgram, Parts, SILENCE_SECONDS, of_model};

/// The size of a model's context, unless the user sets another.
const CONTEXT_TOKENS: u64 = 200_000;
/// The longest name of a runner.
const NAME_CHARS_MAX: usize = 64;
/// The smallest context in which an agent can work.
const CONTEXT_TOKENS_MIN: u64 = 4_000;

/// What runs agents under one name.
#[derive(Clone, Copy)]
pub enum Kind {
    /// The client of a coding agent.
    Client(&'static dyn Client),
    /// A model that is asked directly.
    Model(ModelApi),
    /// A program of the user.
    Command,
    /// A person.
    Person,
}

/// The kinds besides the clients.
const OTHERS: [&str; 3] = ["model", "command", "person"];

/// The names of all kinds.
fn kinds() -> Vec<&'static str> {
    windlass_agents::all().into_iter().map(|client| client.name()).chain(OTHERS).collect()
}

impl Kind {
    /// The kind of a runner; an error says what is wrong with its settings.
    pub fn of(name: &str, config: &ClientConfig) -> Result<Self, String> {
        let plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
        if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(plain) {
            return Err(format!(
                " `agents.{name}`: a name has 1 to {NAME_CHARS_MAX} letters, digits, `-` and `_`"
            ));
        }
        let kind = config.kind.as_deref().unwrap_or(name);
        let client = windlass_agents::all().into_iter().find(|client| client.name() == kind);
        let found = match (client, kind) {
            (Some(client), _) => Self::Client(client),
            (None, "model") => Self::Model(api(name, config)?),
            (None, "command") if config.command.is_empty() => {
                return Err(format!(" `agents.{name}.command` is missing: the program to start"));
            }
            (None, "command") => Self::Command,
            (None, "person") => Self::Person,
            (None, _) => {
                let what = if config.kind.is_some() { "an unknown kind" } else { "no `kind`" };
                return Err(format!(
                    " `agents.{name}` has {what}; the kinds are {}",
                    kinds().join(", ")
                ));
            }
        };
        let set = config.set();
        let allowed = found.settings();
        if let Some(key) = set.iter().find(|key| !allowed.contains(key)) {
            return Err(format!(
                " `agents.{name}.{key}` is no setting of the kind `{kind}`, which has: {}",
                allowed.join(", ")
            ));
        }
        Ok(found)
    }

    /// The settings that it has.
    fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Client(_) => &[
                "command",
                "model",
                "endpoint",
                "credential",
                "visible",
                "silence_seconds",
                "guard",
            ],
            Self::Model(_) => &[
                "api",
                "model",
                "endpoint",
                "credential",
                "silence_seconds",
                "context_tokens",
                "output_tokens",
                "input_per_million",
                "output_per_million",
                "cached_per_million",
            ],
            Self::Command => &["command", "model", "visible", "silence_seconds", "network"],
            Self::Person => &[],
        }
    }
}

fn api(name: &str, config: &ClientConfig) -> Result<ModelApi, String> {
    let names: Vec<&str> = ModelApi::ALL.iter().map(|api| api.name()).collect();
    let found = config.api.as_deref();
    let found = found.and_then(|found| ModelApi::ALL.into_iter().find(|api| api.name() == found));
    let api =
        found.ok_or_else(|| format!(" `agents.{name}.api` must be one of {}", names.join(", ")))?;
    if config.context_tokens.is_some_and(|tokens| tokens < CONTEXT_TOKENS_MIN) {
        return Err(format!(
            " `agents.{name}.context_tokens` must be at least {CONTEXT_TOKENS_MIN}"
        ));
    }
    if config.output_tokens == Some(0) {
        return Err(format!(" `agents.{name}.output_tokens` must be at least 1"));
    }
    prices(config).map(|_| api).ok_or_else(|| {
        format!(" `agents.{name}` has a price that is no amount of dollars for a million tokens")
    })
}

fn prices(config: &ClientConfig) -> Option<Prices> {
    let price = |dollars: Option<f64>| dollars.map_or(Some(0), Prices::per_million);
    let input = price(config.input_per_million)?;
    let cached = match config.cached_per_million {
        Some(dollars) => Prices::per_million(dollars)?,
        None => input,
    };
    Some(Prices { input, output: price(config.output_per_million)?, cached })
}

/// The runner of a model.
pub fn model(
    name: &str,
    api: ModelApi,
    config: &ClientConfig,
    secrets: &NamedSecrets,
) -> Arc<dyn Runner> {
    Arc::new(ModelRunner::new(ModelSettings {
        name: name.to_owned(),
        api,
        model: config.model.clone(),
        endpoint: of_model(api, config, secrets).endpoint,
        silence: Duration::from_secs(config.silence_seconds.unwrap_or(SILENCE_SECONDS)),
        context_tokens: config.context_tokens.unwrap_or(CONTEXT_TOKENS),
        output_tokens: config.output_tokens,
        prices: prices(config).unwrap_or_default(),
    }))
}

/// The runner of a program; nothing if it is not there.
pub fn command(name: &str, config: ClientConfig, parts: &Parts<'_>) -> Option<Arc<dyn Runner>> {
    let program = ClientProgram::find(None, &config).ok()?;
    let settings = CommandSettings {
        name: name.to_owned(),
        program: program.path,
        visible: program.visible.into_iter().chain(config.visible).collect(),
        arguments: program.arguments,
        model: config.model,
        network: config.network,
        silence: Duration::from_secs(config.silence_seconds.unwrap_or(SILENCE_SECONDS)),
    };
    let folder = parts.state.join("agents");
    Some(Arc::new(CommandRunner::new(settings, Arc::clone(&parts.sandbox), folder)))
}

/// The names of all runners: the clients, a person, and what the user has set.
pub fn names(configs: &BTreeMap<String, ClientConfig>) -> Vec<String> {
    let clients = windlass_agents::all().into_iter().map(|client| client.name()).chain(["person"]);
    let clients = clients.map(str::to_owned);
    let mut names: Vec<String> = clients.chain(configs.keys().cloned()).collect();
    names.sort_unstable();
    names.dedup();
    names
}
