//! An MCP server as a child process: one JSON-RPC message a line.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::{Mutex as AsyncMutex, mpsc};

use super::link::{Link, Outgoing};
use crate::Certainty;
use crate::process::{self, ChildInput, ProcessGroup};
use crate::trouble::Trouble;

/// How much of what the server writes to its error stream is kept, from the end.
const STDERR_BYTES_MAX: usize = 2048;
/// How long a server that closed its output may take to exit.
const EXIT_WAIT: Duration = Duration::from_millis(500);
/// How long a server may take to end by itself when it is no longer needed.
const STOP_GRACE: Duration = Duration::from_millis(500);
/// Of our end of the pipe.
const BUFFER_BYTES: usize = 64 * 1024;

type Writer = Arc<AsyncMutex<Option<pipe::Sender>>>;
type Tail = Arc<Mutex<VecDeque<u8>>>;

/// The server's process. Dropping it ends the process and all its children.
pub(crate) struct Server {
    group: Arc<Mutex<Option<ProcessGroup>>>,
}

impl Server {
    fn take(&self) -> Option<ProcessGroup> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ends the process and waits until it is gone.
    pub fn stop(self) {
        if let Some(mut group) = self.take() {
            group.stop(STOP_GRACE);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(mut group) = self.take() else { return };
        match tokio::runtime::Handle::try_current() {
            // Dropped by a task: those must not wait.
            Ok(runtime) => drop(runtime.spawn_blocking(move || group.stop(STOP_GRACE))),
            Err(_) => drop(group.stop(STOP_GRACE)),
        }
    }
}

/// The transport over a server's standard streams.
pub(crate) struct StdioTransport {
    link: Arc<Link>,
    inbox: mpsc::Receiver<ServerJsonRpcMessage>,
    writer: Writer,
}

/// Starts a server.
pub(crate) fn start(
    command: &[String],
    env: &BTreeMap<String, String>,
    cwd: &Path,
) -> Result<(Server, StdioTransport, Arc<Link>), Trouble> {
    let (group, streams) = process::spawn(command, env, cwd, ChildInput::Pipe)?;
    let no_pipe = |error: std::io::Error| {
        Trouble::internal(Certainty::DidNotRun, format!("cannot use the server's streams: {error}"))
    };
    let stdin = streams
        .stdin
        .ok_or_else(|| Trouble::internal(Certainty::DidNotRun, "the server has no input"))?;
    let stdin = pipe::Sender::from_owned_fd(OwnedFd::from(stdin)).map_err(no_pipe)?;
    let stdout = pipe::Receiver::from_owned_fd(streams.stdout.into()).map_err(no_pipe)?;
    let stderr = pipe::Receiver::from_owned_fd(streams.stderr.into()).map_err(no_pipe)?;

    let exit = group.exit().try_clone().map_err(no_pipe)?;
    let exit = pipe::Receiver::from_owned_fd(exit.into()).map_err(no_pipe)?;

    let (link, inbox) = Link::new();
    let writer: Writer = Arc::new(AsyncMutex::new(Some(stdin)));
    let group = Arc::new(Mutex::new(Some(group)));
    let tail = Tail::default();
    let drained = tokio::spawn(drain(stderr, Arc::clone(&tail)));
    let reader = Reader { link: Arc::clone(&link), writer: Arc::clone(&writer) };
    let ending = Ending { group: Arc::clone(&group), tail, link: Arc::clone(&link) };
    tokio::spawn(async move {
        let trouble = tokio::select! {
            biased;
            trouble = reader.run(stdout) => trouble,
            // Its children may keep the stream open.
            () = exited(exit) => None,
        };
        ending.run(trouble, drained).await;
    });
    let transport = StdioTransport { link: Arc::clone(&link), inbox, writer };
    Ok((Server { group }, transport, link))
}

/// Waits until the process has exited and everything it wrote should have been read.
async fn exited(mut exit: pipe::Receiver) {
    while let Ok(1..) = exit.read(&mut [0]).await {}
    tokio::time::sleep(EXIT_WAIT).await;
}

/// Reads the error stream for ever and keeps its end.
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
    link: Arc<Link>,
    writer: Writer,
}

impl Reader {
    /// Tells why it ended: `None` is the end of the stream.
    async fn run(&self, stdout: pipe::Receiver) -> Option<Trouble> {
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
            let owed = match self.link.take(&line).await {
                Ok((_, owed)) => owed,
                Err(message) => return Some(Trouble::protocol(Certainty::Unknown, message)),
            };
            if let Some(message) = owed
                && let Err(trouble) = write(&self.writer, &message).await
            {
                return Some(trouble);
            }
        }
    }

    /// Reads one line, which never takes more memory than anything under way allows.
    async fn read_line(
        &self,
        stdout: &mut BufReader<pipe::Receiver>,
        line: &mut Vec<u8>,
    ) -> Result<(), Option<Trouble>> {
        loop {
            let available = stdout.fill_buf().await.map_err(|error| {
                let message = format!("cannot read from the server: {error}");
                Some(Trouble::unavailable(Certainty::Unknown, message))
            })?;
            if available.is_empty() {
                return Err(None);
            }
            let newline = available.iter().position(|byte| *byte == b'\n');
            let part = available.get(..newline.unwrap_or(available.len())).unwrap_or_default();
            let taken = part.len() + usize::from(newline.is_some());
            // Asked for only when it matters: a line is mostly short.
            if line.len() + part.len() > BUFFER_BYTES {
                let bytes_max = self.link.message_bytes_max();
                if line.len() + part.len() > bytes_max {
                    let message =
                        format!("the server sent a message of more than {bytes_max} bytes");
                    return Err(Some(Trouble::too_large(Certainty::Unknown, message)));
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

/// What is done when a server stops talking: it is ended, and everybody is told.
struct Ending {
    group: Arc<Mutex<Option<ProcessGroup>>>,
    tail: Tail,
    link: Arc<Link>,
}

impl Ending {
    async fn run(self, trouble: Option<Trouble>, drained: tokio::task::JoinHandle<()>) {
        if let Some(trouble) = trouble {
            // Nothing more can be learnt: tell at once, then end it.
            self.link.end(trouble);
            let group = self.take_group();
            let _ = tokio::task::spawn_blocking(move || drop(group)).await;
            return;
        }
        let group = self.take_group();
        let exit = tokio::task::spawn_blocking(move || {
            let mut group = group?;
            let by_itself = group.wait(EXIT_WAIT);
            group.finish().map(|status| (by_itself, status))
        });
        let how = match exit.await {
            Ok(Some((true, status))) => format!("the server {}", process::describe_exit(status)),
            Ok(Some((false, _))) => "the server closed its output".to_owned(),
            Ok(None) | Err(_) => "the server is gone".to_owned(),
        };
        // All its processes are gone, so the stream ends; unless one has left the group.
        let _ = tokio::time::timeout(EXIT_WAIT, drained).await;
        let said = {
            let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
            let bytes: Vec<u8> = tail.iter().copied().collect();
            String::from_utf8_lossy(&bytes).trim().to_owned()
        };
        let message = if said.is_empty() { how } else { format!("{how}; it wrote: {said}") };
        self.link.end(Trouble::unavailable(Certainty::Unknown, message));
    }

    fn take_group(&self) -> Option<ProcessGroup> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Writes one message and its end of line.
async fn write(writer: &Writer, message: &ClientJsonRpcMessage) -> Result<(), Trouble> {
    let mut line = serde_json::to_vec(message)
        .map_err(|error| Trouble::internal(Certainty::DidNotRun, format!("no JSON: {error}")))?;
    line.push(b'\n');
    let mut writer = writer.lock().await;
    let gone = || Trouble::unavailable(Certainty::Unknown, "the server no longer reads").stale();
    let stdin = writer.as_mut().ok_or_else(gone)?;
    let mut rest = line.as_slice();
    while !rest.is_empty() {
        match stdin.write(rest).await {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            // Not a byte of it has arrived.
            Err(_) if rest.len() == line.len() => return Err(gone()),
            Err(error) => {
                let message = format!("the server stopped reading: {error}");
                return Err(Trouble::unavailable(Certainty::Unknown, message));
            }
        }
    }
    Ok(())
}

impl Transport<RoleClient> for StdioTransport {
    type Error = Trouble;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Trouble>> + Send + 'static {
        match Outgoing::of(&message) {
            Outgoing::Request(id, bytes_max) => {
                self.link.register(id, bytes_max);
            }
            Outgoing::Cancel(id) => self.link.abandon(&id),
            Outgoing::Other => {}
        }
        let writer = Arc::clone(&self.writer);
        async move { write(&writer, &message).await }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        tokio::select! {
            biased;
            message = self.inbox.recv() => message,
            _ = self.link.wait_end() => None,
        }
    }

    async fn close(&mut self) -> Result<(), Trouble> {
        // A server whose input ends is to end itself. A writer that is stuck is not waited for.
        if let Ok(mut writer) = self.writer.try_lock() {
            writer.take();
        }
        Ok(())
    }
}
