//! The client of a coding agent in a cell of its own: an empty folder, its program, and the broker.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, ChildStdout, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use windlass_broker::{Broker, BrokerHandle, BrokerObserver, BrokerRules};
use windlass_cell::{
    Access, Cell, ChildInput, Confined, InputPipe, Layout, Level, Mount, Network, ProcessGroup,
};

use crate::call_failure::CallFailure;
use crate::sandbox::Sandbox;

/// How long the cell may take to be made.
const CELL_WAIT: Duration = Duration::from_secs(30);

/// A client to start.
pub struct AgentProgram<'a> {
    /// The program, by its absolute path, and its arguments.
    pub argv: &'a [String],
    /// Its environment, besides the search path and the locale.
    pub env: &'a BTreeMap<String, String>,
    /// The only folder that it can change.
    pub folder: &'a Path,
    /// The folder in which it starts, inside of `folder`.
    pub cwd: &'a Path,
    /// Files and folders that it sees besides those of every cell.
    pub visible: &'a [PathBuf],
    /// Whether it gets a pipe as its standard input.
    pub input: ChildInput,
    /// What it reaches of the network.
    pub network: BrokerRules,
    /// What is told of its network.
    pub observer: Arc<dyn BrokerObserver>,
}

/// A running client. Dropping it kills all its processes.
pub struct AgentProcess {
    group: ProcessGroup,
    /// Its standard input, if it has a pipe.
    pub stdin: Option<InputPipe>,
    /// Its standard output, until it is taken.
    pub stdout: Option<ChildStdout>,
    /// Its standard error, until it is taken.
    pub stderr: Option<ChildStderr>,
    broker: Option<BrokerHandle>,
}

impl Sandbox {
    /// Starts the client of an agent in a cell that has nothing of the user's but what `program` names.
    ///
    /// # Errors
    /// Why it was not started.
    pub fn start_agent(&self, program: &AgentProgram<'_>) -> Result<AgentProcess, String> {
        self.try_start_agent(program).map_err(|failure| failure.message)
    }

    fn try_start_agent(&self, program: &AgentProgram<'_>) -> Result<AgentProcess, CallFailure> {
        if self.level() == Level::Landlock {
            return Err(CallFailure::sandbox(
                "the client of an agent needs `sandbox.level = \"full\"`: at the level `landlock` it would \
                 see all files and reach the network",
            ));
        }
        let maker = self.maker().map_err(CallFailure::sandbox)?;
        let layout = Layout { visible: program.visible.to_vec(), ..Layout::default() };
        let mut mounts = layout.mounts();
        mounts.push(Mount::Bind { path: program.folder.to_owned(), access: Access::Write });
        let limits = self.limits();
        let cell = Cell { level: Level::Full, maker, mounts, network: Network::Broker, limits };
        let confined = Some(Confined { launcher: self.launcher(), cell: &cell });
        let env = program.env.iter();
        let (mut group, streams) =
            windlass_cell::spawn(program.argv, env, program.cwd, program.input, confined)?;
        let listener = group.wait_started(CELL_WAIT)?;
        let Some(listener) = listener else {
            return Err(CallFailure::sandbox(
                "the cell of the client has no socket for the broker",
            ));
        };
        let network = program.network.clone();
        let broker = Broker::start(listener, network, Arc::clone(&program.observer));
        let broker = Some(broker.map_err(|error| CallFailure::sandbox(error.to_string()))?);
        let (stdout, stderr) = (Some(streams.stdout), Some(streams.stderr));
        Ok(AgentProcess { group, stdin: streams.stdin, stdout, stderr, broker })
    }
}

impl AgentProcess {
    /// Waits until the client has exited, at most for `time`; returns whether it has.
    #[must_use]
    pub fn wait(&self, time: Duration) -> bool {
        self.group.wait(time)
    }

    /// Kills what is left of the client, closes its connections, and returns its exit status.
    pub fn finish(mut self) -> Option<ExitStatus> {
        let status = self.group.finish();
        drop(self.broker.take());
        status
    }
}
