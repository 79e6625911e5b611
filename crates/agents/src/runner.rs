//! Runs agents with the client of a coding agent.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use windlass_broker::{BrokerEvent, BrokerObserver};
use windlass_cell::{ChildInput, Excess, Limits, OnSignal, Program};
use windlass_connect::{AgentProgram, Sandbox};
use windlass_engine::executors::{
    Agent, AgentJob, BUDGET_EXHAUSTED, EarlierCall, Runner, TROUBLE, ToolCaller,
};
use windlass_engine::{EngineError, WorkResult};
use windlass_kernel::run::{NoteKind, Usage};
use windlass_mcp::{Identity, Server};

use crate::brief::Brief;
use crate::calls::session_id;
use crate::client::{Assignment, Client, Guard, PrivateFolder};
use crate::forwarder::Forwarder;
use crate::host::{Host, Offer};
use crate::invocation::{End, Ended, Invocation};
use crate::replay::Replay;
use crate::streams::{Serving, follow, serve_tools};

/// How often a client that died, or lost our tools, is started again in one invocation.
const RESTARTS_MAX: u32 = 3;

/// How long a client may take to state its version.
const VERSION_LIMITS: Limits = Limits { timeout: Duration::from_secs(20), output_bytes_max: 4096 };

/// The settings of a client.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// The name under which it is chosen.
    pub name: String,
    /// Its program.
    pub program: PathBuf,
    /// What its program needs besides: its package, an interpreter.
    pub visible: Vec<PathBuf>,
    /// The arguments before all others: a script, if the program is an interpreter.
    pub arguments: Vec<String>,
    /// The model, unless the agent names one.
    pub model: Option<String>,
    /// Where its model is, and the credential.
    pub endpoint: crate::EndpointSource,
    /// How long nothing may happen before it is stopped.
    pub silence: Duration,
    /// How much it can do besides calling our tools.
    pub guard: Guard,
}

/// Runs agents with one client.
pub struct ClientRunner {
    client: &'static dyn Client,
    settings: ClientSettings,
    sandbox: Arc<Sandbox>,
    /// The folder of all invocations.
    folder: PathBuf,
    /// Our own program, which clients start as the relay to our server.
    relay: PathBuf,
    version: OnceLock<String>,
}

/// What the names of the folders of an attempt begin with; each subagent has folders of its own.
fn attempt_prefix(job: &AgentJob<'_>) -> String {
    let subtask = job.subtask.as_ref().map(|label| format!("~{label}")).unwrap_or_default();
    format!("{}.{}.{}{subtask}.", job.phase, job.attempt, job.agent.name)
}

impl ClientRunner {
    /// Creates the runner.
    #[must_use]
    pub const fn new(
        client: &'static dyn Client,
        settings: ClientSettings,
        sandbox: Arc<Sandbox>,
        folder: PathBuf,
        relay: PathBuf,
    ) -> Self {
        Self { client, settings, sandbox, folder, relay, version: OnceLock::new() }
    }

    fn version(&self) -> &str {
        let ClientSettings { program, arguments, .. } = &self.settings;
        self.version.get_or_init(|| version_of(program, arguments))
    }

    /// The folder of an attempt. It is the same when the attempt goes on after an interruption.
    fn folder_of(&self, job: &AgentJob<'_>) -> PathBuf {
        let name = format!("{}{}", attempt_prefix(job), self.settings.name);
        self.folder.join(&job.run_id).join(name)
    }

    /// Removes what other clients left of this attempt: their sessions do not know what happens from now on.
    fn remove_others(job: &AgentJob<'_>, own: &Path) -> io::Result<()> {
        let prefix = attempt_prefix(job);
        let Some(parent) = own.parent().filter(|parent| parent.exists()) else { return Ok(()) };
        for entry in std::fs::read_dir(parent)? {
            let entry = entry?;
            let is_other = entry.file_name().to_string_lossy().starts_with(&prefix);
            if is_other && entry.path() != own {
                std::fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    fn work(
        &self,
        job: &AgentJob<'_>,
        tools: &ToolCaller<'_>,
        folder: &PrivateFolder,
        earlier: Vec<EarlierCall>,
        spent: &mut Spent,
    ) -> Result<Worked, EngineError> {
        let failed =
            |class: &str, reason: String| Ok(Worked::Ended(WorkResult::failed(class, reason)));
        let socket = folder.socket(spent.starts);
        let offer = Offer::new(job.agent, tools.definitions(), &job.verdicts);
        let brief = Brief::new(job, &earlier);
        let continued = self.client.session_in(folder);
        let continuation = Brief::continuation(&undelivered(earlier.clone()));
        let replay = match &continued {
            Some(_) => Replay::of_session(earlier),
            None => Replay::from_start(earlier),
        };
        let new_session = session_id(job);
        let session = continued.clone().unwrap_or_else(|| new_session.clone());
        let server: Vec<String> = [&self.relay.display().to_string(), "mcp", "relay"]
            .map(|word: &str| word.to_owned())
            .into_iter()
            .chain([socket.display().to_string()])
            .collect();
        let model = self.model(job.agent);
        let command: Vec<String> = [self.settings.program.display().to_string()]
            .into_iter()
            .chain(self.settings.arguments.iter().cloned())
            .collect();
        let launch = self.client.launch(
            folder,
            &Assignment {
                brief: &brief,
                model: model.as_deref(),
                continued: continued.as_deref().map(|session| (session, continuation.as_str())),
                session: &new_session,
                server: &server,
                endpoint: &Forwarder::endpoint(),
                command: &command,
            },
        );
        let launch = match launch {
            Ok(launch) => launch,
            Err(error) => {
                return failed("crash", format!("cannot prepare {}: {error}", self.client.name()));
            }
        };
        let listener = match windlass_mcp::listen(&socket) {
            Ok(listener) => listener,
            Err(error) => return failed("crash", format!("no socket for the tools: {error}")),
        };
        let (sender, receiver) = channel();
        let names = offer.names().flat_map(|name| self.client.shown_names(name));
        let harmless = self.client.harmless_tools().iter().map(|name| (*name).to_owned());
        let forwarder =
            Forwarder::new(names.chain(harmless).collect(), self.settings.guard, sender.clone());
        let (network, model_switch) = match forwarder.rules(&self.settings.endpoint.find()) {
            Ok((rules, switch)) => (rules, switch),
            Err(reason) => return failed("authentication", reason),
        };
        let argv: Vec<String> =
            command.into_iter().chain(launch.arguments.iter().cloned()).collect();
        job.recorder.note(
            NoteKind::Agent,
            json!({
                "invocation": job.invocation,
                "client": self.client.name(),
                "phase": job.phase,
                "version": self.version(),
                "model": model,
                "session": session,
                "continued": continued.is_some(),
                "flags": launch.arguments,
            }),
        )?;
        let env = self.environment(folder, launch.env);
        let visible: Vec<PathBuf> =
            self.settings.visible.iter().chain([&self.relay]).cloned().collect();
        let process = self.sandbox.start_agent(&AgentProgram {
            argv: &argv,
            env: &env,
            folder: folder.root(),
            cwd: &folder.empty(),
            visible: &visible,
            input: ChildInput::Pipe,
            network,
            observer: Arc::new(Unobserved),
        });
        let mut process = match process {
            Ok(process) => process,
            Err(reason) => {
                return failed("crash", format!("cannot start {}: {reason}", self.client.name()));
            }
        };
        let host = Arc::new(Host::new(offer.clone(), sender.clone()));
        let stderr = Arc::new(Mutex::new(Vec::new()));
        let is_over = Arc::new(AtomicBool::new(false));
        let identity = Identity {
            name: "windlass".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instructions: None,
        };
        let server = Server::new(host, identity);
        let serving = Serving { server, start: spent.starts, is_over: Arc::clone(&is_over) };
        serve_tools(listener, serving, sender.clone());
        follow(&mut process, launch.stdin, sender.clone(), Arc::clone(&stderr));
        let invocation = Invocation {
            client: self.client,
            job,
            tools,
            offer: &offer,
            session: &session,
            silence: self.settings.silence,
            guard: self.settings.guard,
            spent: spent.usage,
            began: spent.began,
            replay,
            sender,
            model: model_switch,
        };
        let (ended, status) = std::thread::scope(|scope| {
            let exited = || process.wait(Duration::ZERO);
            let ended = invocation.run(scope, &receiver, &exited);
            // Its calls go on; it does not.
            let status = process.finish();
            (ended, status)
        });
        is_over.store(true, Ordering::Release);
        // The thread that accepts connections looks at the flag after each of them.
        drop(windlass_mcp::connect(&socket));
        let Ended { end, cost, until } = ended?;
        let used = forwarder.used();
        job.recorder.note(
            NoteKind::Agent,
            json!({
                "invocation": job.invocation,
                "cached_tokens": used.cached,
                "requests": used.requests,
            }),
        )?;
        spent.usage = spent.usage.plus(used.usage).plus(cost);
        let usage = spent.usage;
        let described = |reason: &str| {
            let stderr = stderr.lock().unwrap_or_else(PoisonError::into_inner);
            let printed = String::from_utf8_lossy(&stderr);
            let (name, printed) = (self.client.name(), printed.trim());
            match printed.is_empty() {
                true => format!("{name}: {reason}"),
                false => format!("{name}: {reason}; it printed: {printed}"),
            }
        };
        let failed = |class: &str, reason: &str| {
            WorkResult::failed(class, described(reason)).with_usage(usage).with_until(until)
        };
        Ok(match end {
            End::Answer(answer) => Worked::Ended(WorkResult::answer(answer).with_usage(usage)),
            End::Failed(class, reason) => Worked::Ended(failed(class, &reason)),
            End::Left(result) => Worked::Ended(result.with_usage(usage)),
            End::Exited(class, reason) if status.is_some_and(died) => {
                Worked::Lost(failed(class, &reason))
            }
            End::Exited(class, reason) => Worked::Ended(failed(class, &reason)),
            End::Disconnected => {
                Worked::Lost(failed("crash", "it lost its connection to the tools of Windlass"))
            }
        })
    }

    /// The variables of the client: its own, and none of ours that lead to settings or credentials.
    fn environment(
        &self,
        folder: &PrivateFolder,
        own: BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        let home = folder.home();
        let text = |path: &Path| path.display().to_string();
        let mut env: BTreeMap<String, String> = [
            ("HOME", home.clone()),
            ("XDG_CONFIG_HOME", home.join(".config")),
            ("XDG_DATA_HOME", home.join(".local/share")),
            ("XDG_CACHE_HOME", home.join(".cache")),
            ("XDG_STATE_HOME", home.join(".local/state")),
        ]
        .into_iter()
        .map(|(name, path)| (name.to_owned(), text(&path)))
        .collect();
        let program = self.settings.program.parent().map(text).unwrap_or_default();
        env.insert("PATH".to_owned(), format!("{program}:/usr/local/bin:/usr/bin:/bin"));
        env.insert("NO_PROXY".to_owned(), "localhost,127.0.0.1".to_owned());
        env.extend(own);
        env
    }
}

impl Runner for ClientRunner {
    fn name(&self) -> &str {
        &self.settings.name
    }

    fn model(&self, agent: &Agent) -> Option<String> {
        agent.model.clone().or_else(|| self.settings.model.clone())
    }

    fn run(&self, job: &AgentJob<'_>, tools: &ToolCaller<'_>) -> Result<WorkResult, EngineError> {
        let root = self.folder_of(job);
        let folder = Self::remove_others(job, &root);
        let folder = match folder.and_then(|()| PrivateFolder::create(root.clone())) {
            Ok(folder) => folder,
            Err(error) => {
                let reason = format!("cannot prepare `{}`: {error}", root.display());
                return Ok(WorkResult::failed("crash", reason));
            }
        };
        let mut spent = Spent { began: Instant::now(), starts: 0, usage: Usage::default() };
        let result = loop {
            let earlier = match tools.earlier_calls()?.finished() {
                Ok(earlier) => earlier,
                // A call that waits has no usage of its own.
                Err(unfinished) => return Ok(unfinished.with_usage(spent.usage)),
            };
            spent.starts += 1;
            match self.work(job, tools, &folder, earlier, &mut spent)? {
                Worked::Ended(result) => break result,
                Worked::Lost(result) if spent.starts > RESTARTS_MAX => break result,
                Worked::Lost(_) => {}
            }
        };
        if is_over(&result) {
            // Nothing of it is needed any more; what cannot be removed is in nobody's way.
            let _ = std::fs::remove_dir_all(&root);
            if let Some(run) = root.parent() {
                let _ = std::fs::remove_dir(run);
            }
        }
        Ok(result)
    }
}

/// The version that a client's program states; empty if it states none.
#[must_use]
pub fn version_of(program: &Path, arguments: &[String]) -> String {
    let words = arguments.iter().map(OsStr::new);
    let finished = windlass_cell::run(&Program {
        argv: [program.as_os_str()]
            .into_iter()
            .chain(words)
            .chain(["--version".as_ref()])
            .collect(),
        stdin: None,
        env: Vec::new(),
        cwd: Path::new("/"),
        limits: VERSION_LIMITS,
        confined: None,
        excess: Excess::End,
        on_signal: OnSignal::End,
    });
    let printed = finished.map(|finished| finished.stdout).unwrap_or_default();
    let printed = String::from_utf8_lossy(&printed);
    let mut words = printed.split_whitespace();
    let number = words.find(|word| word.starts_with(|char: char| char.is_ascii_digit()));
    number.unwrap_or_default().to_owned()
}

/// Whether the attempt does not go on with this session.
fn is_over(result: &WorkResult) -> bool {
    match result {
        WorkResult::Finished(answer) => answer.failure.as_ref().is_none_or(|failure| {
            let class = failure.class.as_str();
            class == "context_full" || (class != BUDGET_EXHAUSTED && !TROUBLE.contains(&class))
        }),
        WorkResult::Waiting { .. } | WorkResult::Stopped { .. } => false,
    }
}

/// What an invocation has used so far.
struct Spent {
    began: Instant,
    /// How often its client was started.
    starts: u32,
    usage: Usage,
}

/// How a client's work ended.
enum Worked {
    /// This is the result.
    Ended(WorkResult),
    /// The client died, or lost our tools: it can go on from the journal. The result is that of giving up.
    Lost(WorkResult),
}

/// Whether a client was killed, or says that a part of it was.
pub(crate) fn died(status: ExitStatus) -> bool {
    status.code().is_none_or(|code| code >= 128)
}

/// The calls whose results the client may not have passed on: the last one, and those that had not ended when it
/// was requested.
fn undelivered(earlier: Vec<EarlierCall>) -> Vec<EarlierCall> {
    let Some(last) = earlier.iter().map(|call| call.requested).max() else { return earlier };
    let not_seen =
        |call: &EarlierCall| call.requested == last || call.ended.is_none_or(|ended| ended >= last);
    earlier.into_iter().filter(not_seen).collect()
}

/// The forwarder tells what matters; connections themselves are not recorded.
pub(crate) struct Unobserved;

impl BrokerObserver for Unobserved {
    fn event(&self, _: BrokerEvent) {}
}
