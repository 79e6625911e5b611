//! Parses `tools.toml`.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;
use windlass_kernel::{HostRule, RiskLevel};
use windlass_text::{FileError, SourceFile};

use super::{
    ArgvPart, Connector, OnUncertain, Registry, Server, TIMEOUT_MS_MAX, TOOL_BYTES_MAX, Tool, limit,
};
use crate::Pointer;

const TIMEOUT_MS: u64 = 60_000;
pub(super) const READ_BYTES: u64 = 10 * 1024 * 1024;
pub(super) const WRITE_BYTES: u64 = 5 * 1024 * 1024;
pub(super) const RETRIES: u32 = 3;
const RETRIES_MAX: u32 = 100;
const TOOLS_MAX: usize = 10_000;
const NAME_BYTES_MAX: usize = 128;
const HOSTS_MAX: usize = 256;
const SECRETS_MAX: usize = 64;

/// A tool's class as policy files write it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawClass {
    Read,
    Write,
    HighRisk,
}

impl From<RawClass> for RiskLevel {
    fn from(class: RawClass) -> Self {
        match class {
            RawClass::Read => Self::Read,
            RawClass::Write => Self::Write,
            RawClass::HighRisk => Self::HighRisk,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    server: BTreeMap<Spanned<String>, RawServer>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RawConnector {
    McpStdio,
    McpHttp,
    Command,
    Files,
    Person,
    Client,
    Agent,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawServer {
    connector: RawConnector,
    command: Option<Vec<String>>,
    url: Option<String>,
    bearer_env: Option<String>,
    #[serde(default)]
    env: Vec<String>,
    #[serde(default)]
    honours_keys: bool,
    network: Option<Vec<Spanned<String>>>,
    sandbox: Option<bool>,
    #[serde(default)]
    tool: BTreeMap<Spanned<String>, RawTool>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPaths {
    #[serde(default)]
    read: Vec<String>,
    #[serde(default)]
    write: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTool {
    class: RawClass,
    description: Option<String>,
    remote_name: Option<String>,
    timeout_ms: Option<u64>,
    input_bytes_max: Option<u64>,
    output_bytes_max: Option<u64>,
    #[serde(default)]
    idempotent: bool,
    retries_max: Option<u32>,
    #[serde(default)]
    paths: RawPaths,
    on_uncertain: Option<RawUncertain>,
    shell_line: Option<String>,
    #[serde(default)]
    argv: Vec<RawArgv>,
    stdin: Option<String>,
    network: Option<Vec<Spanned<String>>>,
    sandbox: Option<bool>,
    #[serde(default)]
    secrets: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawArgument {
    arg: String,
    #[serde(default)]
    dash: bool,
    #[serde(default)]
    optional: bool,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawAction {
    Probe,
    Compensate,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFollowUp {
    action: RawAction,
    tool: String,
    #[serde(default)]
    args: serde_json::Map<String, Value>,
    found: Option<String>,
    result: Option<String>,
}

/// A string or a table. Not an untagged enum, whose errors would lose position and message.
macro_rules! string_or_table {
    ($name:ident, $table:ident, $expecting:literal) => {
        enum $name {
            Text(String),
            Table($table),
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct StringOrTable;
                impl<'de> serde::de::Visitor<'de> for StringOrTable {
                    type Value = $name;

                    fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        to.write_str($expecting)
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        Ok($name::Text(text.to_owned()))
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        map: A,
                    ) -> Result<$name, A::Error> {
                        let reader = serde::de::value::MapAccessDeserializer::new(map);
                        $table::deserialize(reader).map($name::Table)
                    }
                }
                deserializer.deserialize_any(StringOrTable)
            }
        }
    };
}
string_or_table!(RawArgv, RawArgument, "a word or a table with `arg`");
string_or_table!(RawUncertain, RawFollowUp, "`retry`, `hold` or a table with `action`");

/// A message and its span.
type RegistryError = (Range<usize>, String);

/// Reads the registry.
pub(crate) fn load(source: &SourceFile<'_>) -> Result<Registry, FileError> {
    let raw: RawFile = source.parse_toml(None)?;
    let mut registry = Registry::default();
    let mut tools = 0_usize;
    for (name, raw) in raw.server {
        tools += raw.tool.len();
        let span = name.span();
        if tools > TOOLS_MAX {
            return Err(source.error(span, format!("there are more than {TOOLS_MAX} tools")));
        }
        let server = server(&name, raw).map_err(|(span, message)| source.error(span, message))?;
        registry.servers.insert(server.name.clone(), server);
    }
    Ok(registry)
}

fn check_name(what: &str, name: &Spanned<String>) -> Result<(), RegistryError> {
    let text = name.get_ref();
    let plain = |char: char| matches!(char, 'a'..='z' | '0'..='9' | '_' | '-');
    if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.chars().all(plain) {
        let message = format!("the {what} name `{text}` may contain only a-z, 0-9, `_` and `-`");
        return Err((name.span(), message));
    }
    Ok(())
}

fn server(name: &Spanned<String>, raw: RawServer) -> Result<Server, RegistryError> {
    use RawConnector::{Agent, Client, Files, Person};
    check_name("server", name)?;
    super::wrapped::refuse(name.get_ref()).map_err(|message| (name.span(), message))?;
    let error = |message: &str| (name.span(), format!("server `{}`: {message}", name.get_ref()));
    let network = hosts(raw.network.as_deref().unwrap_or_default())
        .map_err(|(span, message)| (span, error(&message).1))?;
    let sandbox = raw.sandbox.unwrap_or(true);
    check_sandbox(raw.network.is_some(), raw.sandbox).map_err(error)?;
    let is_stdio = matches!(raw.connector, RawConnector::McpStdio);
    if !is_stdio && (raw.network.is_some() || raw.sandbox.is_some()) {
        return Err(error(
            "`network` and `sandbox` of a server belong to the connector `mcp-stdio`",
        ));
    }
    let connector = match (raw.connector, raw.command, raw.url, raw.bearer_env) {
        (RawConnector::McpStdio, Some(command), None, None) if !command.is_empty() => {
            Connector::McpStdio { command, sandbox, network }
        }
        (RawConnector::McpStdio, ..) => {
            return Err(error(
                "connector `mcp-stdio` needs `command`, without `url` and `bearer_env`",
            ));
        }
        (RawConnector::McpHttp, None, Some(url), bearer_env) => {
            if !url.starts_with("http://") && !url.starts_with("https://") {
                return Err(error("`url` must start with `http://` or `https://`"));
            }
            Connector::McpHttp { url, bearer_env }
        }
        (RawConnector::McpHttp, ..) => {
            return Err(error("connector `mcp-http` needs `url`, without `command`"));
        }
        (RawConnector::Command, None, None, None) => Connector::Command,
        (RawConnector::Command, ..) => {
            return Err(error("connector `command` allows none of `command`, `url`, `bearer_env`"));
        }
        (Files, None, None, None) if raw.env.is_empty() => Connector::Files,
        (Person, None, None, None) if raw.env.is_empty() => Connector::Person,
        (Client, None, None, None) if raw.env.is_empty() => Connector::Client,
        (Agent, None, None, None) if raw.env.is_empty() => Connector::Agent,
        (Files | Person | Client | Agent, ..) => {
            return Err(error(
                "connectors `files`, `person`, `client` and `agent` allow none of `command`, `url`, `bearer_env`, `env`",
            ));
        }
    };
    let variable = |name: &str| {
        !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
    };
    if !raw.env.iter().all(|name| variable(name)) {
        return Err(error("`env` must list names of variables, without values"));
    }
    let mut server = Server {
        name: name.get_ref().clone(),
        connector,
        env: raw.env,
        honours_keys: raw.honours_keys,
        tools: BTreeMap::new(),
    };
    let mut spans = Vec::new();
    for (name, raw) in raw.tool {
        let tool = tool(&server, &name, raw)?;
        spans.push((tool.name.clone(), name.span()));
        server.tools.insert(tool.name.clone(), tool);
    }
    for (name, span) in spans {
        check_follow_up(&server, &name).map_err(|message| (span, message))?;
    }
    Ok(server)
}

fn tool(server: &Server, name: &Spanned<String>, raw: RawTool) -> Result<Tool, RegistryError> {
    check_name("tool", name)?;
    let error = |message: String| {
        (name.span(), format!("tool `{}/{}`: {message}", server.name, name.get_ref()))
    };
    let class = RiskLevel::from(raw.class);
    let bytes = if class.writes() { WRITE_BYTES } else { READ_BYTES };
    let pointers = |texts: &[String]| {
        texts.iter().map(|text| Pointer::new(text)).collect::<Result<Vec<_>, _>>()
    };
    let pointer = |text: Option<&String>| text.map(|text| Pointer::new(text)).transpose();
    let retries_max = limit(
        "retries_max",
        raw.retries_max.map(u64::from).filter(|n| *n > 0),
        0,
        RETRIES_MAX.into(),
    )
    .map_err(error)?;
    let tool = Tool {
        name: name.get_ref().clone(),
        remote_name: raw.remote_name.unwrap_or_else(|| name.get_ref().clone()),
        description: raw.description.map(|text| text.trim().to_owned()),
        class,
        timeout_ms: limit("timeout_ms", raw.timeout_ms, TIMEOUT_MS, TIMEOUT_MS_MAX)
            .map_err(error)?,
        input_bytes_max: limit("input_bytes_max", raw.input_bytes_max, bytes, TOOL_BYTES_MAX)
            .map_err(error)?,
        output_bytes_max: limit("output_bytes_max", raw.output_bytes_max, bytes, TOOL_BYTES_MAX)
            .map_err(error)?,
        idempotent: raw.idempotent,
        retries_max: match raw.retries_max {
            None => RETRIES,
            Some(_) => u32::try_from(retries_max).unwrap_or(RETRIES_MAX),
        },
        paths_read: pointers(&raw.paths.read).map_err(error)?,
        paths_write: pointers(&raw.paths.write).map_err(error)?,
        shell_line: pointer(raw.shell_line.as_ref()).map_err(error)?,
        argv: raw.argv.into_iter().map(argv_part).collect::<Result<_, _>>().map_err(error)?,
        stdin: pointer(raw.stdin.as_ref()).map_err(error)?,
        network: hosts(raw.network.as_deref().unwrap_or_default())
            .map_err(|(span, message)| (span, error(message).1))?,
        sandbox: raw.sandbox.unwrap_or(true),
        secrets: secret_names(raw.secrets).map_err(error)?,
        declared_on_uncertain: raw.on_uncertain.map(on_uncertain).transpose().map_err(error)?,
    };
    if server.connector != Connector::Command && (raw.network.is_some() || raw.sandbox.is_some()) {
        let message = "`network` and `sandbox` of a tool belong to the connector `command`";
        return Err(error(message.to_owned()));
    }
    check_sandbox(raw.network.is_some(), raw.sandbox)
        .map_err(|message| error(message.to_owned()))?;
    check_tool(server, &tool).map_err(|message| error(message.to_owned()))?;
    Ok(tool)
}

/// The names of `secrets`.
fn secret_names(names: Vec<String>) -> Result<Vec<String>, String> {
    match names.iter().find(|name| !is_secret_name(name)) {
        None if names.len() > SECRETS_MAX => {
            Err(format!("`secrets` may list at most {SECRETS_MAX} names"))
        }
        None => Ok(names),
        Some(name) => Err(format!(
            "`secrets` lists `{name}`; a name has 1 to 64 letters, digits, `_` and `-`"
        )),
    }
}

/// Whether a text can be the name of a secret.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
    (1..=64).contains(&name.len()) && name.chars().all(plain)
}

/// The hosts of `network`, each with its port.
fn hosts(listed: &[Spanned<String>]) -> Result<Vec<HostRule>, RegistryError> {
    let mut rules: Vec<HostRule> = Vec::new();
    for text in listed {
        let error = |problem: String| {
            (text.span(), format!("`network` lists `{}`: {problem}", text.get_ref()))
        };
        let rule = HostRule::parse(text.get_ref()).map_err(|problem| error(problem.to_string()))?;
        if rules.contains(&rule) {
            return Err(error("it is listed twice".to_owned()));
        }
        if rules.len() == HOSTS_MAX {
            return Err(error(format!("there are more than {HOSTS_MAX} hosts")));
        }
        rules.push(rule);
    }
    Ok(rules)
}

fn argv_part(raw: RawArgv) -> Result<ArgvPart, String> {
    Ok(match raw {
        RawArgv::Text(word) => ArgvPart::Literal(word),
        RawArgv::Table(RawArgument { arg, dash, optional }) => {
            ArgvPart::Argument { pointer: Pointer::new(&arg)?, dash, optional }
        }
    })
}

fn on_uncertain(raw: RawUncertain) -> Result<OnUncertain, String> {
    let raw = match raw {
        RawUncertain::Text(text) => {
            return match text.as_str() {
                "retry" => Ok(OnUncertain::Retry),
                "hold" => Ok(OnUncertain::Hold),
                other => Err(format!("`on_uncertain` must be `retry` or `hold`, not `{other}`")),
            };
        }
        RawUncertain::Table(raw) => raw,
    };
    let args = Value::Object(raw.args);
    super::template::check(&args).map_err(|error| error.to_string())?;
    match (raw.action, raw.found, raw.result) {
        (RawAction::Probe, Some(found), result) => Ok(OnUncertain::Probe {
            tool: raw.tool,
            args,
            found: Pointer::new(&found)?,
            result: result.map(|text| Pointer::new(&text)).transpose()?,
        }),
        (RawAction::Probe, None, _) => Err("a probe needs `found`".to_owned()),
        (RawAction::Compensate, None, None) => Ok(OnUncertain::Compensate { tool: raw.tool, args }),
        (RawAction::Compensate, ..) => Err("`found` and `result` belong to a probe".to_owned()),
    }
}

/// Only what is sandboxed can be given the network.
fn check_sandbox(has_network: bool, sandbox: Option<bool>) -> Result<(), &'static str> {
    if has_network && sandbox == Some(false) {
        return Err("`network` has no effect with `sandbox = false`");
    }
    Ok(())
}

/// Checks the settings of a tool against each other.
fn check_tool(server: &Server, tool: &Tool) -> Result<(), &'static str> {
    let is_command = server.connector == Connector::Command;
    if server.connector == Connector::Files {
        check_file_tool(tool)?;
    }
    if is_command == tool.argv.is_empty() {
        return Err("`argv` is needed with the connector `command`, and only there");
    }
    if tool.stdin.is_some() && !is_command {
        return Err("`stdin` belongs to the connector `command`");
    }
    if matches!(tool.argv.first(), Some(ArgvPart::Argument { .. })) {
        return Err("the program in `argv` must be a literal word");
    }
    let shell_line_is_many = tool.shell_line.as_ref().is_some_and(Pointer::is_many);
    if shell_line_is_many || tool.stdin.as_ref().is_some_and(Pointer::is_many) {
        return Err("`shell_line` and `stdin` point to one value, without `*`");
    }
    if let Some(line) = &tool.shell_line
        && is_command
    {
        // The judged line must be what runs: nothing else is taken from the arguments.
        let mut taken = tool.argv.iter().filter_map(|part| match part {
            ArgvPart::Literal(_) => None,
            ArgvPart::Argument { pointer, .. } => Some(pointer),
        });
        if taken.next() != Some(line) || taken.next().is_some() {
            return Err("with `shell_line`, `argv` must take exactly that argument");
        }
    }
    if is_command
        && tool.class.writes()
        && !tool.idempotent
        && tool.declared_on_uncertain == Some(OnUncertain::Retry)
    {
        return Err("a command that writes may be retried only with `idempotent = true`");
    }
    Ok(())
}

/// The file tools have fixed names, and what they do to paths must be judged.
fn check_file_tool(tool: &Tool) -> Result<(), &'static str> {
    let writes = match tool.remote_name.as_str() {
        "read" | "list" | "search" => false,
        "write" | "edit" => true,
        _ => return Err("the connector `files` has the tools read, list, search, write and edit"),
    };
    if writes && !tool.class.writes() {
        return Err("it changes files, so its class is `write` or `high-risk`");
    }
    let paths = if writes { &tool.paths_write } else { &tool.paths_read };
    if !paths.iter().any(|pointer| pointer.text() == "/path") {
        return Err("its `paths` must list `/path`, so that rules about paths apply to it");
    }
    Ok(())
}

/// A probe must be a read tool of the same server, a compensation a write tool.
fn check_follow_up(server: &Server, name: &str) -> Result<(), String> {
    let declared = server.tools.get(name).and_then(|tool| tool.declared_on_uncertain.as_ref());
    let (tool, writes) = match declared {
        Some(OnUncertain::Probe { tool, .. }) => (tool, false),
        Some(OnUncertain::Compensate { tool, .. }) => (tool, true),
        Some(OnUncertain::Retry | OnUncertain::Hold) | None => return Ok(()),
    };
    let kind = if writes { "write" } else { "read" };
    match server.tools.get(tool) {
        Some(other) if other.class.writes() == writes => Ok(()),
        Some(_) | None => Err(format!(
            "tool `{}/{name}`: `on_uncertain` names `{tool}`, which is not a {kind} tool of the same server",
            server.name
        )),
    }
}
