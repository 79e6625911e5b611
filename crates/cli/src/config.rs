//! `.windlass/config.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use windlass_engine::NewSetup;
use windlass_kernel::Code;
use windlass_runtime::{ReadDurability, Settings};
use windlass_sessions::core::CoreSettings;
use windlass_text::Glob;

use crate::agents::RunnerNames;
use crate::failure::Failure;
use crate::notify::{self, Receivers, ServeSettings};
use crate::retention::RetentionSettings;
use crate::run_settings::{Calls, RunSettings};

/// The settings of a project.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The folder for run files, relative to the project; `.windlass/artifacts` by default.
    pub artifacts_root: Option<PathBuf>,
    /// Who runs which agent, in the order in which they are tried; `default` stands for all other agents.
    pub agents: BTreeMap<String, RunnerNames>,
    /// What agents are told besides their task.
    pub brief: Brief,
    /// When the calls of an attempt are broken off.
    pub calls: Calls,
    /// Settings of the core loop.
    pub core: Core,
    /// Settings of the driver loop.
    pub driver: Driver,
    /// How the journal is written.
    pub journal: Journal,
    /// What is remembered across sessions.
    pub memory: MemorySettings,
    /// Who is told what happened, by name.
    pub notify: Receivers,
    /// How long checkpoints are kept.
    pub retention: RetentionSettings,
    /// What becomes of runs.
    pub runs: RunSettings,
    /// How the dashboard is reached.
    pub serve: ServeSettings,
    /// Settings of sessions of coding agents.
    pub sessions: Sessions,
    /// How the store is opened.
    pub store: Store,
    /// Refused: how commands are confined is not for the repository to decide.
    sandbox: Option<toml::Table>,
    /// Where telemetry is sent.
    pub telemetry: Telemetry,
    /// The tracker of work items.
    pub work: WorkSettings,
    /// What makes the work trees of runs ready.
    pub worktree: Worktree,
}

/// How long a hook waits for the tracker or the memory, in milliseconds. It has to answer itself soon.
const HOOK_TIMEOUT_MS: u64 = 3000;

impl Config {
    /// Makes the tracker and the memory answer before a hook must.
    pub fn bound_for_hooks(&mut self) {
        self.work.timeout_ms = self.work.timeout_ms.min(HOOK_TIMEOUT_MS);
        self.memory.timeout_ms = self.memory.timeout_ms.min(HOOK_TIMEOUT_MS);
    }
}

/// What makes the work tree of a run ready.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Worktree {
    /// Commands that are run before the first phase, each a program with its arguments.
    pub setup: Vec<Vec<String>>,
    /// The time limit of all of them together.
    setup_timeout_seconds: u64,
    /// Globs of the untracked files that are copied from the project.
    pub copy: Vec<String>,
    /// The lowest port of runs.
    port_base: Option<u16>,
    /// How many ports a run gets.
    ports_per_run: u16,
}

impl Default for Worktree {
    fn default() -> Self {
        Self {
            setup: Vec::new(),
            setup_timeout_seconds: 600,
            copy: Vec::new(),
            port_base: None,
            ports_per_run: 1,
        }
    }
}

/// The maximum of `worktree.setup_timeout_seconds`.
const SETUP_SECONDS_MAX: u64 = 24 * 3600;
/// The maximum of `worktree.ports_per_run`.
const PORTS_MAX: u16 = 1000;

impl Worktree {
    /// What a new run records.
    pub fn new_setup(&self) -> NewSetup {
        NewSetup {
            commands: self.setup.clone(),
            copy: self.copy.clone(),
            timeout_seconds: self.setup_timeout_seconds,
            ports: self.port_base.map(|base| (base, self.ports_per_run)),
        }
    }

    fn check(&self) -> Result<(), String> {
        if self.setup.iter().any(|argv| argv.first().is_none_or(String::is_empty)) {
            return Err(
                "each command of `worktree.setup` must be a list that begins with a program"
                    .to_owned(),
            );
        }
        if !(1..=SETUP_SECONDS_MAX).contains(&self.setup_timeout_seconds) {
            return Err(format!(
                "`worktree.setup_timeout_seconds` must be 1 to {SETUP_SECONDS_MAX}"
            ));
        }
        if let Some(error) = self.copy.iter().find_map(|text| Glob::in_workspace(text).err()) {
            return Err(format!("`worktree.copy`: {error}"));
        }
        if self.port_base.is_some_and(|base| base < 1024) {
            return Err("`worktree.port_base` must be 1024 or more".to_owned());
        }
        if !(1..=PORTS_MAX).contains(&self.ports_per_run) {
            return Err(format!("`worktree.ports_per_run` must be 1 to {PORTS_MAX}"));
        }
        Ok(())
    }
}

/// Settings of the core loop.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Core {
    /// After so many uses of tools an audit is due; 0 is never.
    pub audit_every: Option<u32>,
    /// The chance of each use of a tool to make an audit due, in percent.
    pub audit_chance_percent: Option<u32>,
    /// What the chance is drawn from, together with the session or run.
    pub audit_seed: String,
    /// After so many equal refusals in a row a person is asked.
    refusals_max: u32,
    /// How often an agent is not let stop after one prompt.
    stops_max: u32,
    /// Whether verified work is committed and pushed when the agent stops.
    close: bool,
    /// The line of shell that formats the files before they are committed.
    pub format: Option<String>,
    /// The folder of axioms and templates, from `.windlass`.
    pub home: Option<PathBuf>,
    /// How much a session is given to start with.
    pub context_bytes_max: usize,
}

impl Default for Core {
    fn default() -> Self {
        let own = CoreSettings::default();
        Self {
            audit_every: None,
            audit_chance_percent: None,
            audit_seed: own.audit_seed,
            refusals_max: own.refusals_max,
            stops_max: own.stops_max,
            close: own.close,
            format: None,
            home: None,
            context_bytes_max: 20_000,
        }
    }
}

impl Core {
    /// How strict the loop is in sessions.
    pub fn settings(&self) -> CoreSettings {
        let own = CoreSettings::default();
        CoreSettings {
            audit_every: self.audit_every.unwrap_or(own.audit_every),
            audit_chance_percent: self.audit_chance_percent.unwrap_or(own.audit_chance_percent),
            audit_seed: self.audit_seed.clone(),
            refusals_max: self.refusals_max,
            stops_max: self.stops_max,
            close: self.close,
            ..own
        }
    }

    fn check(&self) -> Result<(), String> {
        if self.audit_chance_percent.is_some_and(|chance| chance > 100) {
            return Err("`core.audit_chance_percent` must be 0 to 100".to_owned());
        }
        // Claude Code goes on after eight refusals whatever a hook says.
        if self.stops_max > 7 {
            return Err("`core.stops_max` must be 0 to 7".to_owned());
        }
        if !(1000..=200_000).contains(&self.context_bytes_max) {
            return Err("`core.context_bytes_max` must be 1000 to 200000".to_owned());
        }
        Ok(())
    }
}

/// What agents are told besides their task.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Brief {
    /// Files of the repository with instructions for agents, such as `AGENTS.md`.
    pub files: Vec<PathBuf>,
}

/// The tracker of work items.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkSettings {
    /// Which tracker is used.
    pub tracker: TrackerName,
    /// What ids of the built-in tracker begin with.
    pub prefix: String,
    /// How long a request may take.
    timeout_ms: u64,
}

impl Default for WorkSettings {
    fn default() -> Self {
        let prefix = windlass_work::DEFAULT_PREFIX.to_owned();
        Self { tracker: TrackerName::Auto, prefix, timeout_ms: 10_000 }
    }
}

impl WorkSettings {
    /// How long a request may take.
    pub const fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }
}

/// Which tracker is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrackerName {
    /// `bd` if it is installed and the project has a `.beads` folder, else the built-in one.
    #[default]
    Auto,
    /// The `bd` program.
    Bd,
    /// A file in the state folder.
    BuiltIn,
}

/// What is remembered across sessions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MemorySettings {
    /// The name of an MCP server in tools.toml; empty for the built-in memory.
    pub server: String,
    /// The server's tool that finds memories.
    pub retrieve_tool: String,
    /// The server's tool that stores one.
    pub store_tool: String,
    /// The folder of Markdown files that the built-in memory searches, too.
    pub knowledge: Option<PathBuf>,
    /// How long a request may take.
    timeout_ms: u64,
}

impl Default for MemorySettings {
    fn default() -> Self {
        let names = windlass_memory::ToolNames::default();
        Self {
            server: String::new(),
            retrieve_tool: names.retrieve,
            store_tool: names.store,
            knowledge: None,
            timeout_ms: 10_000,
        }
    }
}

impl MemorySettings {
    /// How long a request may take.
    pub const fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }
}

/// The maximum of `work.timeout_ms` and `memory.timeout_ms`.
const TIMEOUT_MS_MAX: u64 = 600_000;

/// Settings of sessions of coding agents.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sessions {
    /// What happens when a client used a tool without asking.
    pub unguarded: Unguarded,
}

/// What happens when a client used a tool without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unguarded {
    /// It is recorded and told.
    #[default]
    Tell,
    /// The session may use no more tools, too.
    Block,
}

/// Where telemetry is sent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Telemetry {
    /// The base URL of an OpenTelemetry collector; nothing is sent without one.
    pub endpoint: Option<String>,
}

/// Settings of the driver loop.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Driver {
    /// The available models, by their providers' names; all of `loops/driver/models.toml` by
    /// default.
    pub available: Option<BTreeSet<String>>,
    /// The project's name, for telemetry and memory; the folder's name by default.
    pub project: Option<String>,
}

/// The longest name of a project.
const PROJECT_BYTES_MAX: usize = 64;

impl Driver {
    /// The project's name, reduced to characters that are safe in a file name.
    pub fn project(&self, root: &Path) -> String {
        let named = self.project.clone();
        let folder = || root.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = named.or_else(folder).unwrap_or_default();
        plain_name(&name)
    }
}

/// A name reduced to characters that are safe in a file name.
pub fn plain_name(name: &str) -> String {
    let plain = |char: char| if is_plain(char) { char } else { '-' };
    let name: String = name.chars().map(plain).take(PROJECT_BYTES_MAX).collect();
    if name.trim_matches('-').is_empty() { "project".to_owned() } else { name }
}

const fn is_plain(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '_' | '-')
}

/// How the journal is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Journal {
    /// When the entries of a read become durable.
    pub reads: ReadsName,
}

/// When the entries of a read become durable.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadsName {
    /// Before it is dispatched.
    #[default]
    WriteAhead,
    /// Together with its effect.
    WithEffect,
}

/// How the store is opened.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Store {
    /// How long to wait for another process's transaction, in milliseconds.
    pub busy_timeout_ms: u64,
}

impl Default for Store {
    fn default() -> Self {
        Self { busy_timeout_ms: 30_000 }
    }
}

/// The maximum of `store.busy_timeout_ms`.
const BUSY_MS_MAX: u64 = 600_000;

impl Config {
    /// Reads the bytes of a `config.toml`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Failure> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            Failure::new(Code::ConfigInvalid, format!("config.toml is not UTF-8: {error}"))
        })?;
        Self::parse(text)
    }

    /// Parses and checks the file.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let (line, message) = toml_message(text, &error);
            Failure::new(Code::ConfigInvalid, format!("config.toml:{line}: {message}"))
        })?;
        if config.sandbox.is_some() {
            let message = "config.toml: `sandbox` is not a setting of a project";
            return Err(Failure::new(Code::ConfigInvalid, message).hint(
                "remove the table; what commands may reach is your own decision: `[sandbox]` in \
                 `~/.config/windlass/config.toml`",
            ));
        }
        let checked = config.worktree.check().and_then(|()| config.core.check());
        let checked = checked.and_then(|()| notify::check(&config.notify, &config.serve));
        if let Err(why) = checked.and_then(|()| config.retention.check()) {
            return Err(Failure::new(Code::ConfigInvalid, format!("config.toml: {why}")));
        }
        let endpoint = config.telemetry.endpoint.as_deref();
        if endpoint.is_some_and(|url| !url.starts_with("http://") && !url.starts_with("https://")) {
            let message = "config.toml: `telemetry.endpoint` must start with http:// or https://";
            return Err(Failure::new(Code::ConfigInvalid, message));
        }
        if config.store.busy_timeout_ms > BUSY_MS_MAX {
            let message =
                format!("config.toml: `store.busy_timeout_ms` must be at most {BUSY_MS_MAX}");
            return Err(Failure::new(Code::ConfigInvalid, message));
        }
        for (name, ms) in [("work", config.work.timeout_ms), ("memory", config.memory.timeout_ms)] {
            if !(1..=TIMEOUT_MS_MAX).contains(&ms) {
                let message =
                    format!("config.toml: `{name}.timeout_ms` must be 1 to {TIMEOUT_MS_MAX}");
                return Err(Failure::new(Code::ConfigInvalid, message));
            }
        }
        if let Err(error) = config.work.prefix.parse::<windlass_work::Prefix>() {
            let message = format!("config.toml: `work.prefix`: {error}");
            return Err(Failure::new(Code::ConfigInvalid, message));
        }
        let named = config.driver.project.as_deref();
        if named.is_some_and(|name| {
            name.is_empty() || name.len() > PROJECT_BYTES_MAX || !name.chars().all(is_plain)
        }) {
            let message = format!(
                "config.toml: `driver.project` must be 1 to {PROJECT_BYTES_MAX} letters, digits, \
                 `_` or `-`"
            );
            return Err(Failure::new(Code::ConfigInvalid, message));
        }
        Ok(config)
    }

    /// The gateway's settings.
    pub fn gateway(&self) -> Settings {
        let reads = match self.journal.reads {
            ReadsName::WriteAhead => ReadDurability::WriteAhead,
            ReadsName::WithEffect => ReadDurability::WithEffect,
        };
        Settings { reads, ..Settings::default() }
    }

    /// The store's settings.
    pub fn store(&self) -> windlass_store_sqlite::Settings {
        windlass_store_sqlite::Settings {
            busy_timeout: Duration::from_millis(self.store.busy_timeout_ms),
            ..windlass_store_sqlite::Settings::default()
        }
    }
}

/// The line and the message of an error in a TOML file; the parser names Rust types, which are translated.
pub fn toml_message(text: &str, error: &toml::de::Error) -> (usize, String) {
    let message = error
        .message()
        .replace("expected u64", "expected a whole number")
        .replace("wanted string or table", "expected a string")
        .replace("expected a sequence", "expected a list")
        .replace("expected path string", "expected a string")
        .replace(" as i128", "");
    let line = error
        .span()
        .map_or(1, |span| text.get(..span.start).unwrap_or_default().matches('\n').count() + 1);
    (line, message)
}
