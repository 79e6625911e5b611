//! Builds the engine for a project.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use windlass_connect::{Confinement, Connectors, Limits};
use windlass_driver::executor::{DRIVER_BUILTINS, Driver};
use windlass_engine::executors::{
    Agent, AgentGuard, BUILTINS, DEFAULT_AGENT, Executors, RunnerChoice, SpendCap, Transcripts,
};
use windlass_engine::{
    Checkpointer, Engine, EngineError, GatewayProvider, GitRepository, GitSnapshotStore, Parts,
    PhaseExecutor, Repository, RunObservers, Settings, StopSwitch, ToolDefinition,
};
use windlass_governance::{Composed, GovernanceFile, LocatedRule, compose};
use windlass_journal::Runs;
use windlass_kernel::artifact::PROJECT_WORKSPACE;
use windlass_kernel::{Code, RiskLevel, TraceId};
use windlass_loops::{AgentFile, KnownNames, LoopFile, MissionFile};
use windlass_policy::{Connector, Judgement, PolicySet, Question};
use windlass_runtime::{
    FileWorkspace, Gateway, NamedSecrets, People, PolicySupervisor, SteadyClock, SystemClock,
    redactor_of,
};
use windlass_store::Store;
use windlass_views::EventLog;
use windlass_views::checkpoints::Checkpoints;

use crate::agents::ClientConfig;
use crate::config::Config;
use crate::core_run;
use crate::driver_setup::driver;
use crate::failure::Failure;
use crate::missions::missions;
use crate::notify::NotifyingObservers;
use crate::output::Output;
use crate::part::Part;
use crate::people::{AccountPeople, user_name};
use crate::progress::ProgressPrinter;
use crate::project::{Access, Project};
use crate::readiness;
use crate::run_policy::{RunPolicy, subagents_of};
use crate::scratch;
use crate::telemetry::{Collector, ExportQueue, RunExporter};
use crate::tool_definitions;
use crate::user_config::UserConfig;

/// The engine of a project and what commands need besides it.
pub struct RunSetup {
    /// The engine.
    pub engine: Engine,
    /// The project's folder.
    pub root: PathBuf,
    /// The journal.
    pub store: Arc<dyn Store>,
    /// The settings that hold: what leads out of the project counts only if the user trusts it.
    pub config: Config,
    /// The people who can decide.
    pub people: Arc<AccountPeople>,
    /// The loops, by name.
    pub loops: BTreeMap<String, LoopFile>,
    /// The missions, by name.
    pub missions: BTreeMap<String, MissionFile>,
    /// The governance rules, without those of loops.
    pub rules: Vec<LocatedRule>,
    /// The registered tools, as `SERVER/TOOL`.
    pub tools: BTreeSet<String>,
    /// The names of the intents of the driver loop.
    pub intents: Vec<String>,
    /// The agents that each agent may start.
    pub subagents: BTreeMap<String, Vec<String>>,
    /// Who runs agents.
    pub runners: RunnerChoice,
    /// The user's settings of clients.
    pub clients: BTreeMap<String, ClientConfig>,
    /// The secrets that settings may name.
    pub secrets: NamedSecrets,
    /// Sends telemetry when dropped.
    _exporter: RunExporter,
}

/// The folder of the claims of ports, among the states of all projects.
const PORTS: &str = ".ports";
/// The folder of snapshots in the state folder.
pub const SNAPSHOTS: &str = "snapshots.git";
/// How long an MCP server may take to describe its tools.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(20);

/// Creates and caches one gateway per workspace.
struct GatewayPool {
    root: PathBuf,
    state: PathBuf,
    set: PolicySet,
    secrets: NamedSecrets,
    settings: windlass_runtime::Settings,
    store: Arc<dyn Store>,
    connectors: Arc<Connectors>,
    people: Arc<AccountPeople>,
    /// What Windlass itself writes into the project.
    views: Vec<PathBuf>,
    gateways: Mutex<BTreeMap<PathBuf, Arc<Gateway>>>,
}

impl GatewayPool {
    /// The name under which the calls of a workspace are recorded; it does not change if the project or its
    /// state are moved.
    fn name_of(&self, workspace: &Path) -> Result<String, EngineError> {
        if workspace == self.root {
            return Ok(PROJECT_WORKSPACE.to_owned());
        }
        let name = workspace.strip_prefix(&self.state).ok().and_then(Path::to_str);
        name.map(str::to_owned).ok_or_else(|| EngineError::Invalid {
            code: Code::FileUnreadable,
            message: format!("`{}` is not a workspace of this project", workspace.display()),
            hint: None,
        })
    }
}

impl GatewayPool {
    /// The registered tools of MCP servers, as the servers describe them. A server that does not answer has none.
    fn server_definitions(&self, workspace: &Path) -> Vec<ToolDefinition> {
        let Ok(files) = FileWorkspace::new(workspace) else { return Vec::new() };
        let supervisor = PolicySupervisor::new(self.set.clone(), files, environment())
            .with_secrets(self.secrets.clone());
        let limits = Limits { timeout: DESCRIBE_TIMEOUT, output_bytes_max: 16 << 20 };
        let servers = self.set.registry().servers().filter(|server| {
            matches!(server.connector, Connector::McpStdio { .. } | Connector::McpHttp { .. })
        });
        let mut all = Vec::new();
        for server in servers {
            let Ok(target) = supervisor.target(server) else { continue };
            let Ok(description) = self.connectors.describe(&target, limits) else { continue };
            for tool in server.tools.values() {
                let found = description.tools.iter().find(|found| found.name == tool.remote_name);
                all.extend(found.map(|found| ToolDefinition {
                    tool: format!("{}/{}", server.name, tool.name),
                    class: tool.class,
                    description: found.description.clone().unwrap_or_default(),
                    input_schema: found.input_schema.clone(),
                }));
            }
        }
        all
    }
}

impl GatewayProvider for GatewayPool {
    fn gateway(&self, workspace: &Path) -> Result<Arc<Gateway>, EngineError> {
        let mut gateways = self.gateways.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gateway) = gateways.get(workspace) {
            return Ok(Arc::clone(gateway));
        }
        let files = FileWorkspace::new(workspace).map_err(|error| EngineError::Invalid {
            code: Code::FileUnreadable,
            message: format!("`{}` cannot be used as a workspace: {error}", workspace.display()),
            hint: None,
        })?;
        let files = files.with_views(&self.views);
        let supervisor = PolicySupervisor::new(self.set.clone(), files, environment())
            .with_secrets(self.secrets.clone());
        let gateway = Gateway::new(
            Arc::clone(&self.store),
            Arc::new(supervisor),
            Arc::clone(&self.connectors) as Arc<dyn windlass_connect::Connect>,
            Arc::new(SystemClock),
            self.settings,
            &self.name_of(workspace)?,
        );
        let people = Arc::clone(&self.people) as Arc<dyn People>;
        let gateway = Arc::new(gateway.with_people(people));
        gateways.insert(workspace.to_owned(), Arc::clone(&gateway));
        Ok(gateway)
    }

    fn confinement(&self, workspace: &Path, run: TraceId) -> Option<Confinement> {
        let file_rules = windlass_runtime::file_rules_of(&self.set);
        Some(Confinement { file_rules, ..Confinement::writing(workspace, run) })
    }

    fn class_of(&self, server: &str, tool: &str) -> Option<RiskLevel> {
        self.set.registry().find(server, tool).map(|(_, tool)| tool.class)
    }

    fn judgement(&self, workspace: &Path, question: &Question) -> Option<Judgement> {
        let files = FileWorkspace::new(workspace).ok()?;
        Some(self.set.judge(question, &files))
    }

    fn definitions(&self, workspace: &Path) -> Vec<ToolDefinition> {
        let mut all = tool_definitions::definitions(self.set.registry());
        all.extend(self.server_definitions(workspace));
        all
    }

    fn sizes(&self) -> (usize, usize) {
        (self.set.rules().len(), self.set.registry().tools().count())
    }
}

/// The variables of the environment that are text.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// The name to record for the person who acts: the one under which this person would decide, so that whoever
/// starts a run does not count as another approver of it.
pub fn actor_name(named: Option<&str>) -> String {
    let decider = AccountPeople::open().and_then(|people| people.decider(named));
    decider.unwrap_or_else(|_| user_name())
}

/// The names of all builtins.
pub fn builtins() -> BTreeSet<String> {
    let all = BUILTINS.iter().chain(&DRIVER_BUILTINS).chain(&core_run::BUILTINS);
    all.map(|name| (*name).to_owned()).collect()
}

/// Parses the agents among the configuration files.
pub fn agents(files: &BTreeMap<String, Vec<u8>>) -> Result<BTreeMap<String, Agent>, Failure> {
    let mut agents = BTreeMap::new();
    for (path, bytes) in files_in(files, "agents/") {
        let file = AgentFile::parse(path, bytes)?;
        agents.insert(
            file.name.clone(),
            Agent {
                name: file.name,
                description: file.description,
                model: file.model,
                tools: file.tools,
                prompt: file.prompt,
                subagents: file.subagents,
                digest: file.digest,
            },
        );
    }
    for agent in agents.values() {
        if let Some(name) = agent.subagents.iter().find(|name| !agents.contains_key(*name)) {
            let message = format!("agents/{}.md: `subagents` names `{name}`", agent.name);
            return Err(Failure::new(Code::ConfigInvalid, format!("{message}, which is no agent"))
                .hint("name agents of this project, or add the agent's file"));
        }
    }
    Ok(agents)
}

/// Parses the loops among the configuration files.
pub fn loops(
    files: &BTreeMap<String, Vec<u8>>,
    agents: &BTreeMap<String, Agent>,
) -> Result<BTreeMap<String, LoopFile>, Failure> {
    let (agents, builtins) = (agents.keys().cloned().collect(), builtins());
    let known = KnownNames { agents: &agents, builtins: &builtins };
    let mut loops = BTreeMap::new();
    for (path, bytes) in files_in(files, "loops/") {
        let file = LoopFile::parse(path, bytes, &known)?;
        loops.insert(file.id.clone(), file);
    }
    Ok(loops)
}

/// Parses the governance rules among the configuration files.
pub fn rules(files: &BTreeMap<String, Vec<u8>>) -> Result<Vec<LocatedRule>, Failure> {
    let mut rules = Vec::new();
    for (path, bytes) in files.iter().filter(|(path, _)| path.starts_with("policy/governance/")) {
        if path.ends_with(".toml") {
            rules.extend(GovernanceFile::parse(path, bytes)?.rules);
        }
    }
    Ok(rules)
}

/// Composes the rules of all levels with those of a loop.
pub fn compose_rules(rules: &[LocatedRule], file: Option<&LoopFile>) -> Result<Composed, Failure> {
    let own = file.into_iter().flat_map(|file| file.governance.iter().cloned());
    Ok(compose(rules.iter().cloned().chain(own))?)
}

/// The Markdown files of a folder and its subfolders.
pub fn files_in<'a>(
    files: &'a BTreeMap<String, Vec<u8>>,
    folder: &'a str,
) -> impl Iterator<Item = (&'a str, &'a [u8])> {
    let inside = files.iter().filter(move |(path, _)| path.starts_with(folder));
    let inside = inside.filter(|(path, _)| path.ends_with(".md"));
    inside.map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
}

impl RunSetup {
    /// The checkpoints of the project's runs.
    pub fn checkpoints(&self) -> Checkpoints {
        Checkpoints::new(Arc::clone(&self.store))
    }

    /// Builds everything; run events are printed to `output`.
    pub fn open(
        project: &Project,
        by: &str,
        access: Access,
        output: Output,
    ) -> Result<Self, Failure> {
        let files = project.files()?;
        let mut config = Project::config(&files)?;
        let user = UserConfig::load()?;
        user.apply()?;
        let set = project.policy(Part::Whole, &files)?;
        let (policy_hash, tools) = (set.hash(), readiness::tool_names(&set));
        let store: Arc<dyn Store> = Arc::new(project.store_for(&config, access)?);
        let agents = agents(&files)?;
        let loops = loops(&files, &agents)?;
        let (missions, subagents) = (missions(&files)?, subagents_of(&files));
        let rules = rules(&files)?;
        let root = project.real_root()?.to_owned();
        let state = project.state()?.to_owned();
        match access {
            Access::Act => {
                project.require_trust(&files)?;
                windlass_workspace::sweep_temporary_folders();
                // Later it would fail in the middle of the work.
                scratch::require_temporary_folder()?;
            }
            // Nothing is sent or written where an untrusted repository says.
            Access::Look | Access::Read if project.require_trust(&files).is_err() => {
                config.telemetry.endpoint = None;
                config.notify.clear();
                config.artifacts_root = None;
            }
            Access::Look | Access::Read => {}
        }
        let connectors = Arc::new(user.connectors(project)?);
        let people = Arc::new(AccountPeople::open()?);
        let secrets = user.named_secrets();
        let redactor = Arc::new(redactor_of(&set, environment(), &secrets));
        crate::secrets::hide(&redactor);
        let outputs = Arc::new(project.kept_outputs(Arc::clone(&redactor))?);
        connectors.keep_outputs(Arc::clone(&outputs) as Arc<dyn windlass_connect::Outputs>);
        let mut named = config.agents.keys();
        if let Some(name) = named.find(|name| *name != DEFAULT_AGENT && !agents.contains_key(*name))
        {
            let message = format!("config.toml: `agents.{name}` is no agent of this project");
            let all: Vec<&str> = agents.keys().map(String::as_str).collect();
            let hint =
                format!("its agents are {}, and `{DEFAULT_AGENT}` for all others", all.join(", "));
            return Err(Failure::new(Code::ConfigInvalid, message).hint(hint));
        }
        let runners = crate::agents::runners(&crate::agents::Parts {
            clients: &user.agents,
            chosen: &config.agents,
            secrets: &secrets,
            sandbox: Arc::new(user.sandbox(&state.join("cells"))?),
            state: &state,
        })?;
        let gateways: Arc<dyn GatewayProvider> = Arc::new(GatewayPool {
            root: root.clone(),
            state: state.clone(),
            set,
            secrets: secrets.clone(),
            settings: config.gateway(),
            store: Arc::clone(&store),
            connectors: Arc::clone(&connectors),
            people: Arc::clone(&people),
            views: project.views(&config),
            gateways: Mutex::default(),
        });
        let (snapshot_root, checkpoint_root) = (root.clone(), root.clone());
        let project_root = root.clone();
        let repository: Arc<dyn Repository> = Arc::new(GitRepository::new(root.clone()));
        let stop = StopSwitch::new(project.stop_folder()?);
        let clock = Arc::new(SystemClock);
        let driver = driver(project, &config, &files, &loops, &store)?;
        let intents = driver.iter().flat_map(|driver| driver.intents()).collect();
        let mut executor = Executors::new(
            Arc::clone(&gateways),
            Arc::clone(&repository),
            connectors,
            clock,
            stop.clone(),
            agents,
            runners.clone(),
        )
        .with_redactor(Arc::clone(&redactor))
        .with_outputs(outputs)
        .with_call_limits(config.calls.limits())
        .with_spend_cap(
            user.spend
                .cap()?
                .map(|per_day| SpendCap { runs: Runs::new(Arc::clone(&store)), per_day }),
        )
        .with_transcripts(Transcripts::new(state.join("transcripts")));
        if let Some(driver) = &driver {
            let guard = Arc::clone(driver) as Arc<dyn AgentGuard>;
            executor = executor.with(Driver::builtins(driver)).with_guard(guard);
        }
        let (builtins, blocks) = core_run::parts(project, &files, &config, &redactor, &store)?;
        let executor = executor.with(builtins);
        let executor = Arc::new(executor);
        let files = Arc::new(project.run_files(&store, &config));
        let queue = ExportQueue::default();
        let notifying = (!config.notify.is_empty()).then(|| {
            let (root, receivers) = (root.clone(), config.notify.clone());
            Arc::new(NotifyingObservers { root, receivers }) as Arc<dyn RunObservers>
        });
        let collector = Collector::find(&config);
        let mut engine = Engine::new(
            Parts {
                store: Arc::clone(&store),
                // The working time of runs must not jump with the system clock.
                clock: Arc::new(SteadyClock::start()),
                executor: Arc::clone(&executor) as Arc<dyn PhaseExecutor>,
                observers: [
                    Arc::clone(&files) as Arc<dyn RunObservers>,
                    Arc::new(EventLog),
                    Arc::new(ProgressPrinter { output }),
                    Arc::new(queue.clone()),
                    blocks,
                ]
                .into_iter()
                .chain(notifying)
                .collect(),
                packets: files,
                repository,
                gateways,
                people: Arc::clone(&people) as Arc<dyn People>,
                stop,
            },
            Settings {
                root,
                policy_hash,
                by: by.to_owned(),
                locks: state.join("locks"),
                state: state.clone(),
            },
        );
        // All projects of the account share the ports of the machine.
        let ports = state.parent().unwrap_or(&state).join(PORTS);
        let private = state.join(SNAPSHOTS);
        windlass_workspace::keep_indexes_in(&private);
        let snapshots = GitSnapshotStore::new(snapshot_root, private, state.join("blobs"))
            .moving_those_of(Runs::new(Arc::clone(&store)));
        let clock = Arc::new(SystemClock);
        let checkpointer = Checkpointer::new(Arc::new(snapshots), clock, checkpoint_root, state);
        engine = engine
            .with_checkpointer(Arc::new(checkpointer))
            .with_redactor(redactor)
            .with_setups(executor, ports)
            .with_policy(Arc::new(RunPolicy { project: project.clone() }));
        if let Some(driver) = driver {
            engine = engine.with_expander(driver);
        }
        let exporter = RunExporter { queue, collector, store: Arc::clone(&store), output };
        let clients = user.agents;
        Ok(Self {
            engine,
            root: project_root,
            store,
            config,
            people,
            loops,
            missions,
            tools,
            intents,
            subagents,
            rules,
            runners,
            clients,
            secrets,
            _exporter: exporter,
        })
    }
}
