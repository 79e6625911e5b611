//! An MCP server as a child process: one JSON-RPC message a line.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::{Mutex as AsyncMutex, mpsc};

use windlass_cell::{ChildInput, ProcessGroup, describe_exit};

use super::state::{ConnectionState, Outgoing};
use crate::Certainty;
use crate::call_failure::CallFailure;
use crate::network::CommandNetwork;
use crate::open_cell::OpenCell;

/// How much of the server's error stream is kept, from its end: far more than is told of it, since the secret in which it
/// begins is not known as one.
const STDERR_BYTES_MAX: usize = 64 << 10;
/// How long the cell of a server may take to be made.
const CELL_WAIT: Duration = Duration::from_secs(30);
/// How long a server that closed its output may take to exit.
const EXIT_WAIT: Duration = Duration::from_millis(500);
/// How long a server may take to exit after it was asked to.
const STOP_GRACE: Duration = Duration::from_millis(500);
/// The size of our read buffer.
const BUFFER_BYTES: usize = 64 * 1024;

type Writer = Arc<AsyncMutex<Option<pipe::Sender>>>;
type Tail = Arc<Mutex<VecDeque<u8>>>;

/// The server's process. Dropping it stops the process and all its children.
pub(crate) struct Server {
    group: Arc<Mutex<Option<ProcessGroup>>>,
    cell: Option<ServerCell>,
}

/// What a server's cell needs outside.
struct ServerCell {
    cell: OpenCell,
    network: CommandNetwork,
}

/// A server that is stopped. Its cell is closed when no process of it is left.
fn stop(mut group: ProcessGroup, cell: Option<ServerCell>) {
    group.stop(STOP_GRACE);
    if let Some(confined) = cell {
        confined.cell.close_unheard();
    }
}

impl Server {
    fn take(&self) -> Option<ProcessGroup> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Fails if it has changed what no command may since this was last asked.
    pub fn require_unchanged(&self) -> Result<(), CallFailure> {
        self.cell.as_ref().map_or(Ok(()), |confined| confined.cell.require_unchanged())
    }

    /// What the broker recorded since it was last asked.
    pub fn take_events(&self) -> Option<Value> {
        self.cell.as_ref().and_then(|confined| confined.network.take_events())
    }

    /// Stops the process and waits until it has exited.
    pub fn stop(mut self) {
        let cell = self.cell.take();
        if let Some(group) = self.take() {
            stop(group, cell);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(group) = self.take() else { return };
        let cell = self.cell.take();
        match tokio::runtime::Handle::try_current() {
            // Dropped by a task, which must not be blocked.
            Ok(runtime) => drop(runtime.spawn_blocking(move || stop(group, cell))),
            Err(_) => stop(group, cell),
        }
    }
}

/// The transport over a server's standard streams.
pub(crate) struct StdioTransport {
    state: Arc<ConnectionState>,
    inbox: mpsc::Receiver<ServerJsonRpcMessage>,
    writer: Writer,
}

/// Starts a server. It blocks until the server's cell is made.
pub(crate) fn start(
    command: &[String],
    env: &BTreeMap<String, String>,
    cwd: &Path,
    cell: Option<OpenCell>,
) -> Result<(Server, StdioTransport, Arc<ConnectionState>), CallFailure> {
    let mut cell = cell.map(|cell| {
        let network = CommandNetwork::new(cell.rules());
        ServerCell { cell, network }
    });
    let added = cell.as_ref().map_or_else(Vec::new, |confined| {
        let ServerCell { cell, network } = confined;
        cell.variables().iter().cloned().chain(network.variables()).collect()
    });
    let added = added.iter().map(|(name, value)| (*name, value.as_str()));
    let env = added.chain(env.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let confined = cell.as_ref().map(|confined| confined.cell.confined());
    let (mut group, streams) = windlass_cell::spawn(command, env, cwd, ChildInput::Pipe, confined)?;
    let listener = group.wait_started(CELL_WAIT)?;
    if let (Some(confined), Some(listener)) = (&mut cell, listener) {
        confined.network.serve(listener);
    }
    let no_pipe = |error: std::io::Error| {
        CallFailure::internal(
            Certainty::DidNotRun,
            format!("cannot use the server's streams: {error}"),
        )
    };
    let stdin = streams
        .stdin
        .ok_or_else(|| CallFailure::internal(Certainty::DidNotRun, "the server has no input"))?;
    let stdin = pipe::Sender::from_owned_fd(OwnedFd::from(stdin)).map_err(no_pipe)?;
    let stdout = pipe::Receiver::from_owned_fd(streams.stdout.into()).map_err(no_pipe)?;
    let stderr = pipe::Receiver::from_owned_fd(streams.stderr.into()).map_err(no_pipe)?;

    let exit = group.exit().try_clone().map_err(no_pipe)?;
    let exit = pipe::Receiver::from_owned_fd(exit.into()).map_err(no_pipe)?;

    let (state, inbox) = ConnectionState::new();
    let writer: Writer = Arc::new(AsyncMutex::new(Some(stdin)));
    let group = Arc::new(Mutex::new(Some(group)));
    let tail = Tail::default();
    let drained = tokio::spawn(drain(stderr, Arc::clone(&tail)));
    let reader = Reader { state: Arc::clone(&state), writer: Arc::clone(&writer) };
    let shutdown = Shutdown { group: Arc::clone(&group), tail, state: Arc::clone(&state) };
    tokio::spawn(async move {
        let failure = tokio::select! {
            biased;
            failure = reader.run(stdout) => failure,
            // Its children may keep the stream open.
            () = exited(exit) => None,
        };
        shutdown.run(failure, drained).await;
    });
    let transport = StdioTransport { state: Arc::clone(&state), inbox, writer };
    Ok((Server { group, cell }, transport, state))
}

/// Waits until the process has exited and everything it wrote should have been read.
async fn exited(mut exit: pipe::Receiver) {
    while let Ok(1..) = exit.read(&mut [0]).await {}
    tokio::time::sleep(EXIT_WAIT).await;
}

/// Reads the error stream until it ends, and keeps the last bytes.
async fn drain(mut stderr: pipe::Receiver, tail: Tail) {
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend(chunk.get(..count).unwrap_or_default());
        let excess = tail.len().saturating_sub(STDERR_BYTES_MAX);
        tail.drain(..excess);
    }
}

/// Reads the server's messages until there are no more.
struct Reader {
    state: Arc<ConnectionState>,
    writer: Writer,
}

impl Reader {
    /// Returns why it stopped; `None` is the end of the stream.
    async fn run(&self, stdout: pipe::Receiver) -> Option<CallFailure> {
        let mut stdout = BufReader::with_capacity(BUFFER_BYTES, stdout);
        let mut line = Vec::new();
        loop {
            line.clear();
            if line.capacity() > BUFFER_BYTES {
                line = Vec::new();
            }
            if let Err(end) = self.read_line(&mut stdout, &mut line).await {
                return end;
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            let reply = match self.state.handle(&line).await {
                Ok((_, reply)) => reply,
                Err(message) => return Some(CallFailure::protocol(Certainty::Unknown, message)),
            };
            if let Some(message) = reply
                && let Err(failure) = write(&self.writer, &message).await
            {
                return Some(failure);
            }
        }
    }

    /// Reads one line of at most the length that the pending requests allow.
    async fn read_line(
        &self,
        stdout: &mut BufReader<pipe::Receiver>,
        line: &mut Vec<u8>,
    ) -> Result<(), Option<CallFailure>> {
        loop {
            let available = stdout.fill_buf().await.map_err(|error| {
                let message = format!("cannot read from the server: {error}");
                Some(CallFailure::unavailable(Certainty::Unknown, message))
            })?;
            if available.is_empty() {
                return Err(None);
            }
            let newline = available.iter().position(|byte| *byte == b'\n');
            let part = available.get(..newline.unwrap_or(available.len())).unwrap_or_default();
            let taken = part.len() + usize::from(newline.is_some());
            // Computed only when it matters: most lines are short.
            if line.len() + part.len() > BUFFER_BYTES {
                let bytes_max = self.state.message_bytes_max();
                if line.len() + part.len() > bytes_max {
                    let message =
                        format!("the server sent a message of more than {bytes_max} bytes");
                    return Err(Some(CallFailure::too_large(Certainty::Unknown, message)));
                }
            }
            line.extend_from_slice(part);
            stdout.consume(taken);
            if newline.is_some() {
                return Ok(());
            }
        }
    }
}

/// Ends the connection of a server whose output has ended, and stops its process.
struct Shutdown {
    group: Arc<Mutex<Option<ProcessGroup>>>,
    tail: Tail,
    state: Arc<ConnectionState>,
}

impl Shutdown {
    async fn run(self, failure: Option<CallFailure>, drained: tokio::task::JoinHandle<()>) {
        if let Some(failure) = failure {
            // The reason is known: end the connection first, then the process.
            self.state.end(failure);
            let group = self.take_group();
            let _ = tokio::task::spawn_blocking(move || drop(group)).await;
            return;
        }
        let group = self.take_group();
        let exit = tokio::task::spawn_blocking(move || {
            let mut group = group?;
            let exited = group.wait(EXIT_WAIT);
            let status = group.finish();
            // It never ran, or its cell was ended because of a limit.
            let failure = group.failure().map(CallFailure::from);
            let limit = group.cell().and_then(|cell| cell.limit());
            Some((
                exited,
                status,
                failure.or_else(|| Some(CallFailure::limit_of(limit?, "server"))),
            ))
        });
        let how = match exit.await {
            Ok(Some((_, _, Some(failure)))) => return self.state.end(failure),
            Ok(Some((true, Some(status), None))) => format!("the server {}", describe_exit(status)),
            Ok(Some((false, Some(_), None))) => "the server closed its output".to_owned(),
            Ok(Some((_, None, None)) | None) | Err(_) => "the server is gone".to_owned(),
        };
        // All its processes are gone, so the stream ends, unless one has left the process group.
        let _ = tokio::time::timeout(EXIT_WAIT, drained).await;
        let stderr = {
            let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
            let bytes: Vec<u8> = tail.iter().copied().collect();
            String::from_utf8_lossy(&bytes).trim().to_owned()
        };
        let message = if stderr.is_empty() { how } else { format!("{how}; it wrote: {stderr}") };
        self.state.end(CallFailure::unavailable(Certainty::Unknown, message));
    }

    fn take_group(&self) -> Option<ProcessGroup> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Writes one message and its end of line.
async fn write(writer: &Writer, message: &ClientJsonRpcMessage) -> Result<(), CallFailure> {
    let mut line = serde_json::to_vec(message).map_err(|error| {
        CallFailure::internal(Certainty::DidNotRun, format!("no JSON: {error}"))
    })?;
    line.push(b'\n');
    let mut writer = writer.lock().await;
    let gone =
        || CallFailure::unavailable(Certainty::Unknown, "the server no longer reads").stale();
    let stdin = writer.as_mut().ok_or_else(gone)?;
    let mut rest = line.as_slice();
    while !rest.is_empty() {
        match stdin.write(rest).await {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            // No byte of it was sent.
            Err(_) if rest.len() == line.len() => return Err(gone()),
            Err(error) => {
                let message = format!("the server stopped reading: {error}");
                return Err(CallFailure::unavailable(Certainty::Unknown, message));
            }
        }
    }
    Ok(())
}

impl Transport<RoleClient> for StdioTransport {
    type Error = CallFailure;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), CallFailure>> + Send + 'static {
        match Outgoing::of(&message) {
            Outgoing::Request(id, bytes_max) => {
                self.state.register(id, bytes_max);
            }
            Outgoing::Cancel(id) => self.state.abandon(&id),
            Outgoing::Other => {}
        }
        let writer = Arc::clone(&self.writer);
        async move { write(&writer, &message).await }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        tokio::select! {
            biased;
            message = self.inbox.recv() => message,
            _ = self.state.wait_end() => None,
        }
    }

    async fn close(&mut self) -> Result<(), CallFailure> {
        // A server exits when its input ends. A writer that is stuck is not waited for.
        if let Ok(mut writer) = self.writer.try_lock() {
            writer.take();
        }
        Ok(())
    }
}
