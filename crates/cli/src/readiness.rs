//! Whether those who run agents can be used, and how well they are known.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_agents::{Client, ModelApi};
use windlass_engine::executors::{AGENTS_OPTION, DEFAULT_AGENT, RunnerChoice};
use windlass_kernel::run::plan::{Doer, Evidence, OnFailure, Plan};
use windlass_kernel::{Code, Timestamp};
use windlass_policy::PolicySet;
use windlass_runtime::{Clock as _, NamedSecrets, SystemClock};

use crate::agents::{self, ClientConfig, ClientProgram, Found, GuardName, Kind};
use crate::atomic;
use crate::client_check::Checked;
use crate::failure::Failure;
use crate::output::Output;
use crate::sandbox::find_program;
use crate::scratch::CheckLock;
use crate::state::StateRoot;

/// How long an endpoint may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The file of results, in the folder of states.
const RECORD: &str = "clients.json";
/// The largest file of results.
const RECORD_BYTES_MAX: u64 = 1 << 20;
/// Variables that name a proxy; what is behind one cannot be tried here.
const PROXIES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// Fails if a program that the loop starts by its name is not installed. What has a path may be made by the run.
pub fn require_programs(plan: &Plan) -> Result<(), Failure> {
    for phase in &plan.phases {
        let doers = phase.checks.iter().map(|check| &check.doer).chain([&phase.doer]);
        for doer in doers {
            let Doer::Command { argv, .. } = doer else { continue };
            let Some(program) = argv.first().filter(|name| !name.contains('/')) else { continue };
            if find_program(program).is_none() {
                let message = format!(
                    "phase `{}` of loop `{}` starts `{program}`, which is not installed",
                    phase.id, plan.id
                );
                return Err(Failure::new(Code::ToolServerUnavailable, message).hint(format!(
                    "install `{program}`, or correct the loop; nothing was started"
                )));
            }
        }
    }
    require_programs_of_rules(plan)
}

/// Fails if a governance rule that can stop the run measures by a program that is not installed.
fn require_programs_of_rules(plan: &Plan) -> Result<(), Failure> {
    let rules = plan.governance.gates.iter().chain(&plan.governance.compliance);
    for rule in rules.filter(|rule| rule.on_failure == OnFailure::Block) {
        let (Evidence::Metric { argv, .. } | Evidence::Tool { argv, .. }) = &rule.evidence else {
            continue;
        };
        let is_used = rule.phases.is_empty()
            || plan.phases.iter().any(|phase| rule.phases.contains(&phase.id));
        let Some(program) = argv.first().filter(|name| is_used && !name.contains('/')) else {
            continue;
        };
        if find_program(program).is_none() {
            let message = format!(
                "the governance rule `{}` measures with `{program}`, which is not installed",
                rule.id
            );
            return Err(Failure::new(Code::ToolServerUnavailable, message).hint(format!(
                "install `{program}`, or correct the rule (`windlass policy gates`); nothing was started"
            )));
        }
    }
    Ok(())
}

/// The registered tools, as `SERVER/TOOL`.
pub fn tool_names(set: &PolicySet) -> BTreeSet<String> {
    set.registry().tools().map(|(server, tool)| format!("{}/{}", server.name, tool.name)).collect()
}

/// The tools that the loop calls by itself, each with its phase.
pub fn called_tools(plan: &Plan) -> impl Iterator<Item = (&str, &str)> {
    plan.phases.iter().flat_map(|phase| {
        let doers = phase.checks.iter().map(|check| &check.doer).chain([&phase.doer]);
        doers.filter_map(|doer| match doer {
            Doer::Builtin { name, with } if name == "call" => {
                Some((phase.id.as_str(), with.get("tool")?.as_str()?))
            }
            Doer::Builtin { .. }
            | Doer::Agent { .. }
            | Doer::Consensus { .. }
            | Doer::Command { .. }
            | Doer::Person { .. } => None,
        })
    })
}

/// Fails if the loop calls a tool that is not registered.
pub fn require_tools(plan: &Plan, tools: &BTreeSet<String>) -> Result<(), Failure> {
    match called_tools(plan).find(|(_, tool)| !tools.contains(*tool)) {
        None => Ok(()),
        Some((phase, tool)) => {
            let message = format!(
                "phase `{phase}` of loop `{}` calls `{tool}`, which is not registered",
                plan.id
            );
            Err(Failure::new(Code::ToolUnclassifiedDenied, message))
        }
    }
}

/// How well a client is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Level {
    /// Its cage was measured in this version.
    Measured,
    /// This version passed the check on this machine.
    Checked,
    /// This version is unknown, and is checked before it is used.
    Unchecked,
    /// This version did not pass the check.
    Failed(String),
    /// It is used whether it can be caged or not, because the user says so.
    Watched,
}

impl Level {
    /// Its name.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Checked => "checked",
            Self::Unchecked => "not checked",
            Self::Failed(_) => "cannot be caged",
            Self::Watched => "watched",
        }
    }
}

/// What is known of a client before it is used.
pub struct Readiness {
    /// Its program, or what is missing.
    pub program: Result<ClientProgram, String>,
    /// Its version; empty if it states none.
    pub version: String,
    /// How well it is known.
    pub level: Level,
    /// Where its model is.
    pub endpoint: String,
    /// Why it cannot be used.
    pub problem: Option<String>,
    /// What is not sent to this address, and how to name it.
    pub withheld: Option<String>,
}

/// The result of a check.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct CheckResult {
    /// Why it did not pass.
    reason: Option<String>,
    at: Timestamp,
}

/// What is known of all clients.
pub struct Clients<'a> {
    settings: &'a BTreeMap<String, ClientConfig>,
    secrets: &'a NamedSecrets,
    /// The results of checks, by client and version.
    results: BTreeMap<String, CheckResult>,
    file: PathBuf,
}

impl<'a> Clients<'a> {
    /// Reads the results of earlier checks.
    pub fn new(
        settings: &'a BTreeMap<String, ClientConfig>,
        secrets: &'a NamedSecrets,
    ) -> Result<Self, Failure> {
        let file = StateRoot::find()?.path().join(RECORD);
        Ok(Self { settings, secrets, results: read_results(&file), file })
    }

    /// What is known of a client.
    pub fn readiness(&self, name: &str, client: &dyn Client) -> Readiness {
        let config = self.settings.get(name).cloned().unwrap_or_default();
        let program = ClientProgram::find(Some(client.program()), &config);
        let version = program.as_ref().map_or_else(
            |_| String::new(),
            |program| windlass_agents::version_of(&program.path, &program.arguments),
        );
        let result = self.results.get(&key(client, &version));
        let level = match (config.guard, result) {
            (GuardName::Watched, _) => Level::Watched,
            (GuardName::Caged, _) if client.measured().contains(&version.as_str()) => {
                Level::Measured
            }
            (GuardName::Caged, None) => Level::Unchecked,
            (GuardName::Caged, Some(CheckResult { reason: None, .. })) => Level::Checked,
            (GuardName::Caged, Some(CheckResult { reason: Some(reason), .. })) => {
                Level::Failed(reason.clone())
            }
        };
        let Found { endpoint, is_expired, withheld } =
            agents::of_client(client, &config, self.secrets);
        let (_, usual) = client.api().endpoint;
        let problem = match &program {
            Err(missing) => Some(missing.clone()),
            Ok(_) if version.is_empty() => Some("it does not state its version".to_owned()),
            Ok(_) if is_expired => Some(format!(
                "its login has expired: start `{}` once, which renews it",
                client.program()
            )),
            Ok(_) if endpoint.headers.is_empty() && endpoint.url == usual => {
                let names: Vec<&str> = client.api().credentials.iter().map(|one| one.0).collect();
                let login = if agents::has_login(client) { "log in with it, or " } else { "" };
                Some(format!("there is no credential: {login}set {}", names.join(" or ")))
            }
            Ok(_) if client.needs_model() && config.model.is_none() => Some(format!(
                "no model is named: set `model` below [agents.{name}] in your settings"
            )),
            Ok(_) => None,
        };
        let withheld = withheld.map(|variable| agents::how_to_name(name, variable, &endpoint.url));
        Readiness { program, version, level, endpoint: endpoint.url, problem, withheld }
    }

    /// Checks a client and records the result.
    pub fn check(
        &mut self,
        client: &dyn Client,
        readiness: &Readiness,
    ) -> Result<Result<Duration, String>, Failure> {
        let lock = CheckLock::wait()?;
        self.check_locked(client, readiness, &lock)
    }

    fn check_locked(
        &mut self,
        client: &dyn Client,
        readiness: &Readiness,
        lock: &CheckLock,
    ) -> Result<Result<Duration, String>, Failure> {
        let program = match &readiness.program {
            Ok(program) => program,
            Err(missing) => return Ok(Err(missing.clone())),
        };
        let command: Vec<String> = [program.path.display().to_string()]
            .into_iter()
            .chain(program.arguments.iter().cloned())
            .collect();
        let (version, visible) = (readiness.version.as_str(), program.visible.as_slice());
        let result = Checked { client, command: &command, version, visible }.run(lock)?;
        let reason = result.as_ref().err().cloned();
        let at = SystemClock.now();
        // Others may have been checked meanwhile.
        self.results = read_results(&self.file);
        self.results.insert(key(client, &readiness.version), CheckResult { reason, at });
        write_results(&self.file, &self.results).map(|()| result)
    }

    /// Fails unless each of these agents has somebody who can run it.
    pub fn require(
        &mut self,
        agents: &BTreeSet<String>,
        choice: &RunnerChoice,
        options: &Value,
        output: &Output,
    ) -> Result<(), Failure> {
        let chosen = options.get(AGENTS_OPTION).and_then(Value::as_object);
        let mut named = chosen.into_iter().flat_map(|chosen| chosen.keys());
        if let Some(agent) = named.find(|name| *name != DEFAULT_AGENT && !agents.contains(*name)) {
            let all: Vec<&str> = agents.iter().map(String::as_str).collect();
            let message = format!("the loop has no agent `{agent}`");
            return Err(Failure::new(Code::RequestInvalid, message)
                .hint(format!("its agents are {}", all.join(", "))));
        }
        let mut known: BTreeMap<String, Result<(), Failure>> = BTreeMap::new();
        for agent in agents {
            let names = choice.names(agent, Some(options));
            if names.is_empty() {
                let message = format!("nobody is set to run the agent `{agent}`");
                return Err(Failure::new(Code::AgentUnavailable, message).hint(
                    "start the run with `--agent claude` (`windlass agents` lists the others), name one below \
                     [agents] in .windlass/config.toml, or give --answers",
                ));
            }
            let mut problem = None;
            let mut is_ready = false;
            for name in names {
                if !known.contains_key(&name) {
                    let found = self.require_one(&name, output);
                    known.insert(name.clone(), found);
                }
                match known.get(&name) {
                    Some(Err(failure)) => problem = problem.or_else(|| Some(failure.clone())),
                    Some(Ok(())) | None => is_ready = true,
                }
            }
            match problem {
                Some(failure) if !is_ready => return Err(failure),
                Some(failure) => output.note(&format!("left out: {}", failure.summary())),
                None => {}
            }
        }
        Ok(())
    }

    /// Why a model cannot be asked.
    pub fn problem_of_model(&self, api: ModelApi, config: &ClientConfig) -> Option<String> {
        let endpoint = agents::of_model(api, config, self.secrets).endpoint;
        let (variable, _, _) = api.credential();
        let (_, usual) = api.endpoint();
        match (&config.credential, endpoint.headers.is_empty()) {
            (Some(name), true) => Some(format!("the secret `{name}` has no value")),
            (None, true) if endpoint.url == usual => {
                Some(format!("there is no credential: set {variable}, or name one of [secrets]"))
            }
            (_, _) => unreachable(&endpoint.url),
        }
    }

    /// What is not sent to a model's address, and how to name it.
    pub fn withheld_of_model(
        &self,
        name: &str,
        api: ModelApi,
        config: &ClientConfig,
    ) -> Option<String> {
        let found = agents::of_model(api, config, self.secrets);
        found.withheld.map(|variable| agents::how_to_name(name, variable, &found.endpoint.url))
    }

    fn require_one(&mut self, name: &str, output: &Output) -> Result<(), Failure> {
        let unavailable =
            |why: &str| Failure::new(Code::AgentUnavailable, format!("{name}: {why}"));
        let config = self.settings.get(name).cloned().unwrap_or_default();
        let client = match Kind::of(name, &config) {
            Ok(Kind::Client(client)) => client,
            Ok(Kind::Model(api)) => {
                if let Some(withheld) = self.withheld_of_model(name, api, &config) {
                    output.note(&withheld);
                }
                let problem = self.problem_of_model(api, &config);
                return problem.map_or(Ok(()), |problem| Err(unavailable(&problem)));
            }
            Ok(Kind::Command) => {
                let found = ClientProgram::find(None, &config);
                return found.map(drop).map_err(|problem| unavailable(&problem));
            }
            Ok(Kind::Person) => return Ok(()),
            Err(message) => return Err(unavailable(message.trim())),
        };
        let mut readiness = self.readiness(name, client);
        if let Some(problem) = &readiness.problem {
            return Err(unavailable(problem));
        }
        if let Some(withheld) = &readiness.withheld {
            output.note(withheld);
        }
        if let Some(problem) = unreachable(&readiness.endpoint) {
            return Err(unavailable(&problem));
        }
        if readiness.level == Level::Unchecked {
            let version = &readiness.version;
            output.note(&format!(
                "{name} {version} was not measured: it is checked once, which takes seconds"
            ));
            let lock = CheckLock::wait()?;
            // Another process may have checked it while this one waited.
            self.results = read_results(&self.file);
            readiness.level = self.readiness(name, client).level;
            if readiness.level == Level::Unchecked {
                readiness.level = match self.check_locked(client, &readiness, &lock)? {
                    Ok(_) => Level::Checked,
                    Err(reason) => Level::Failed(reason),
                };
            }
        }
        match readiness.level {
            Level::Measured | Level::Checked | Level::Unchecked | Level::Watched => Ok(()),
            Level::Failed(reason) => {
                let version = readiness.version;
                let measured = client.measured().join(", ");
                let message = format!("{name} {version} cannot be caged: {reason}");
                Err(Failure::new(Code::AgentUnguarded, message).hint(format!(
                    "install a version that was measured ({measured}), or set `guard = \"watched\"` below \
                     [agents.{name}] in your settings to use it all the same"
                )))
            }
        }
    }
}

/// Records in a folder of states that a client passed.
pub fn write_passed(states: &Path, client: &dyn Client, version: &str) -> Result<(), Failure> {
    let passed = CheckResult { reason: None, at: SystemClock.now() };
    write_results(&states.join(RECORD), &BTreeMap::from([(key(client, version), passed)]))
}

/// Reads the results of earlier checks. Without a readable file everything is checked again.
fn read_results(file: &Path) -> BTreeMap<String, CheckResult> {
    let bytes = crate::input::read(file, RECORD_BYTES_MAX).ok();
    bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

fn write_results(file: &Path, results: &BTreeMap<String, CheckResult>) -> Result<(), Failure> {
    let text = serde_json::to_vec_pretty(results).unwrap_or_default();
    atomic::write(file, &text).map_err(|error| Failure::of(Code::FileUnwritable, &error))
}

fn key(client: &dyn Client, version: &str) -> String {
    format!("{} {version}", client.name())
}

/// Why an endpoint does not accept connections.
fn unreachable(url: &str) -> Option<String> {
    if PROXIES.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty())) {
        return None;
    }
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    let port = match scheme {
        "https" => 443,
        "http" => 80,
        _ => return Some(format!("its endpoint `{url}` is not an http or https address")),
    };
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let address = if has_port { host.to_owned() } else { format!("{host}:{port}") };
    let found = match address.to_socket_addrs() {
        Ok(found) => found,
        Err(error) => return Some(format!("its endpoint `{url}` cannot be found: {error}")),
    };
    let mut refused = None;
    for address in found {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(_) => return None,
            Err(error) => refused = Some(error),
        }
    }
    let why = refused.map(|error| format!(": {error}")).unwrap_or_default();
    Some(format!("its endpoint `{url}` cannot be reached{why}"))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::unreachable;

    #[test]
    fn an_endpoint_that_accepts_connections_is_reachable() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        assert_eq!(unreachable(&format!("http://{address}/v1")), None);
        assert_eq!(unreachable(&format!("http://user:password@{address}")), None);
        drop(listener);
        let why = unreachable(&format!("http://{address}/v1")).expect("a reason");
        assert!(why.contains("cannot be reached"), "{why}");
        let why = unreachable("ftp://127.0.0.1").expect("a reason");
        assert!(why.contains("not an http"), "{why}");
    }
}
