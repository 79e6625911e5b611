//! Runs agents with a program of the user: JSON lines over its standard input and output, in a cell like that of a client.

mod protocol;
mod streams;
#[cfg(test)]
mod tests;
mod work;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use windlass_broker::BrokerRules;
use windlass_cell::{BROKER_PORT, ChildInput};
use windlass_connect::{AgentProcess, AgentProgram, Sandbox};
use windlass_engine::executors::{Agent, AgentJob, Runner, ToolCaller};
use windlass_engine::{EngineError, WorkResult};
use windlass_kernel::HostRule;
use windlass_kernel::run::NoteKind;

use crate::calls::session_id;
use crate::client::PrivateFolder;
use crate::runner::{Unobserved, died};
use streams::follow;
use work::{End, Work};

/// The settings of a program.
#[derive(Clone, Debug)]
pub struct CommandSettings {
    /// The name under which it is chosen.
    pub name: String,
    /// The program.
    pub program: PathBuf,
    /// What it needs besides.
    pub visible: Vec<PathBuf>,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The model that is recorded, unless the agent names one.
    pub model: Option<String>,
    /// The hosts that it may reach.
    pub network: Vec<HostRule>,
    /// How long nothing may happen before it is stopped.
    pub silence: Duration,
}

/// Runs agents with one program.
pub struct CommandRunner {
    settings: CommandSettings,
    sandbox: Arc<Sandbox>,
    /// The folder of all invocations.
    folder: PathBuf,
}

impl CommandRunner {
    /// Creates the runner.
    #[must_use]
    pub const fn new(settings: CommandSettings, sandbox: Arc<Sandbox>, folder: PathBuf) -> Self {
        Self { settings, sandbox, folder }
    }

    fn start(&self, folder: &PrivateFolder) -> Result<AgentProcess, String> {
        let CommandSettings { program, arguments, visible, network, .. } = &self.settings;
        let argv: Vec<String> =
            [program.display().to_string()].into_iter().chain(arguments.iter().cloned()).collect();
        let mut env = BTreeMap::from([
            ("HOME".to_owned(), folder.home().display().to_string()),
            ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ]);
        if !network.is_empty() {
            let proxy = format!("http://127.0.0.1:{BROKER_PORT}");
            for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"] {
                env.insert(name.to_owned(), proxy.clone());
            }
        }
        self.sandbox.start_agent(&AgentProgram {
            argv: &argv,
            env: &env,
            folder: folder.root(),
            cwd: &folder.empty(),
            visible,
            input: ChildInput::Pipe,
            network: BrokerRules { hosts: network.clone(), ..BrokerRules::default() },
            observer: Arc::new(Unobserved),
        })
    }
}

impl Runner for CommandRunner {
    fn name(&self) -> &str {
        &self.settings.name
    }

    fn model(&self, agent: &Agent) -> Option<String> {
        agent.model.clone().or_else(|| self.settings.model.clone())
    }

    fn run(&self, job: &AgentJob<'_>, tools: &ToolCaller<'_>) -> Result<WorkResult, EngineError> {
        let name = &self.settings.name;
        let earlier = match tools.earlier_calls()?.finished() {
            Ok(earlier) => earlier,
            Err(unfinished) => return Ok(unfinished),
        };
        let root = self.folder.join(&job.run_id).join(format!("{}.command", job.invocation));
        let folder = match PrivateFolder::create(root.clone()) {
            Ok(folder) => folder,
            Err(error) => {
                let reason = format!("cannot create `{}`: {error}", root.display());
                return Ok(WorkResult::failed("crash", reason));
            }
        };
        let session = session_id(job);
        job.recorder.note(
            NoteKind::Agent,
            json!({
                "invocation": job.invocation,
                "client": "command",
                "phase": job.phase,
                "session": session,
                "program": self.settings.program.display().to_string(),
                "flags": self.settings.arguments,
                "model": self.model(job.agent),
            }),
        )?;
        let mut process = match self.start(&folder) {
            Ok(process) => process,
            Err(reason) => {
                return Ok(WorkResult::failed("crash", format!("cannot start {name}: {reason}")));
            }
        };
        let (sender, receiver) = channel();
        let stderr = Arc::new(Mutex::new(Vec::new()));
        let lines = follow(&mut process, &sender, Arc::clone(&stderr));
        let mut work = Work::new(job, tools, session, lines, sender);
        work.silence = self.settings.silence;
        work.begin(earlier);
        let (ended, status) = std::thread::scope(|scope| {
            let exited = || process.wait(Duration::ZERO);
            let ended = work.run(scope, &receiver, &exited);
            // Its calls go on; it does not.
            let status = process.finish();
            (ended, status)
        });
        // Nothing of it is needed any more; what cannot be removed is in nobody's way.
        let _ = std::fs::remove_dir_all(&root);
        if let Some(run) = root.parent() {
            let _ = std::fs::remove_dir(run);
        }
        let result = match ended? {
            End::Answer(answer) => WorkResult::answer(answer),
            End::Left(result) => result,
            // Nothing is wrong with its work, as far as anybody knows.
            End::Failed("no_answer", _) if status.is_some_and(died) => {
                WorkResult::failed("crash", format!("{name}: it was killed"))
            }
            End::Failed(class, reason) => {
                let stderr = stderr.lock().unwrap_or_else(PoisonError::into_inner);
                let printed = String::from_utf8_lossy(&stderr);
                let reason = match printed.trim() {
                    "" => format!("{name}: {reason}"),
                    printed => format!("{name}: {reason}; it printed: {printed}"),
                };
                WorkResult::failed(class, reason).with_until(work.until)
            }
        };
        Ok(result.with_usage(work.usage))
    }
}
