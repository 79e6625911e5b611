//! The connectors: commands, and one live connection for each MCP server.

use std::collections::HashMap;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::runtime::{Builder, Handle, Runtime};
use windlass_kernel::Code;
use windlass_kernel::artifact::FileChange;

use crate::call_failure::CallFailure;
use crate::command::{self, Command};
use crate::file_tools;
use crate::mcp::{Call, Connection, Deadline, ServerDescription};
use crate::{Certainty, Connect, Job, Limits, Outputs, Reply, Sandbox, Target};

/// How often a call that waits for a server looks whether Windlass was asked to end.
const SIGNAL_POLL: Duration = Duration::from_millis(100);
/// How long closing the connections may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Performs commands and MCP calls, and keeps the connections between calls.
///
/// Calls may come from many threads at once. Dropping it ends every server that it started.
#[derive(Default)]
pub struct Connectors {
    runtime: Mutex<Option<Runtime>>,
    slots: Mutex<HashMap<String, (Target, Arc<Slot>)>>,
    sandbox: Option<Arc<Sandbox>>,
    outputs: OnceLock<Arc<dyn Outputs>>,
}

/// A server that could not be described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DescribeError {
    /// The stable code.
    pub code: Code,
    /// One line for people.
    pub message: String,
}

/// One server's connection, while there is one.
#[derive(Default)]
struct Slot {
    connection: tokio::sync::Mutex<Option<Arc<Connection>>>,
    sandbox: Option<Arc<Sandbox>>,
}

/// Whether a connection was opened for this call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Opened,
    Reused,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connectors {
    /// Prepares a pool; nothing is started or reached yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the sandbox; without one a confined command is not run.
    #[must_use]
    pub fn with_sandbox(mut self, sandbox: Sandbox) -> Self {
        self.sandbox = Some(Arc::new(sandbox));
        self
    }

    /// Sets what keeps the outputs of commands that are too long to be recorded, unless it is set; without, a command
    /// that prints more than its limit is ended and fails.
    pub fn keep_outputs(&self, outputs: Arc<dyn Outputs>) {
        self.outputs.get_or_init(|| outputs);
    }

    /// Asks an MCP server for its name, version and tools. No tool is called.
    ///
    /// # Errors
    /// [`DescribeError`] when the target is a command, or the server cannot be reached or does not
    /// speak MCP.
    pub fn describe(
        &self,
        target: &Target,
        limits: Limits,
    ) -> Result<ServerDescription, DescribeError> {
        let described = self.slot(target).and_then(|slot| {
            let target = target.clone();
            self.wait(async move {
                let deadline = Deadline::after(limits.timeout);
                let describe = |connection: Arc<Connection>| async move {
                    connection.describe(deadline).await
                };
                slot.with(&target, deadline, describe).await
            })
        });
        described.map_err(|failure| DescribeError {
            code: failure.code,
            message: windlass_cell::one_line(&failure.message),
        })
    }

    fn call(&self, job: &Job<'_>) -> Reply {
        let slot = match self.slot(job.target) {
            Ok(slot) => slot,
            Err(failure) => return failure.into_reply(None),
        };
        let target = job.target.clone();
        let call = Arc::new(Call {
            tool: job.tool.to_owned(),
            args: job.args.clone(),
            class: job.class,
            tool_call_id: job.tool_call_id.to_string(),
            idempotency_key: job.idempotency_key.map(str::to_owned),
            output_bytes_max: job.limits.output_bytes_max,
            deadline: Deadline::after(job.limits.timeout),
        });
        let answer = self.wait(async move {
            let deadline = call.deadline;
            let act = |connection: Arc<Connection>| {
                let call = Arc::clone(&call);
                async move { connection.call_confined(&call).await }
            };
            slot.with(&target, deadline, act).await
        });
        match answer {
            Ok((Ok(result), events)) => tool_reply(result).with("network", events),
            Ok((Err(failure), events)) => failure.into_reply(None).with("network", events),
            Err(failure) => failure.into_reply(None),
        }
    }

    /// The place for the target's connection. A server whose target has changed gets a new one; the
    /// old connection closes after its last call.
    fn slot(&self, target: &Target) -> Result<Arc<Slot>, CallFailure> {
        let server = match target {
            Target::McpStdio { server, .. } | Target::McpHttp { server, .. } => server,
            Target::Command { .. }
            | Target::Files { .. }
            | Target::Person
            | Target::Client
            | Target::Agent => {
                let message = "this target is not an MCP server";
                return Err(CallFailure::protocol(Certainty::DidNotRun, message));
            }
        };
        let mut slots = lock(&self.slots);
        match slots.get(server) {
            Some((same, slot)) if same == target => Ok(Arc::clone(slot)),
            Some(_) | None => {
                let sandbox = self.sandbox.clone();
                let slot = Arc::new(Slot { sandbox, ..Slot::default() });
                slots.insert(server.clone(), (target.clone(), Arc::clone(&slot)));
                Ok(slot)
            }
        }
    }

    /// Runs a future on the runtime and waits for it, from any kind of thread.
    fn wait<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T, CallFailure>> + Send + 'static,
    ) -> Result<T, CallFailure> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.runtime()?.spawn(async move {
            let _ = sender.send(future.await);
        });
        loop {
            match receiver.recv_timeout(SIGNAL_POLL) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Timeout) if windlass_cell::received_signal().is_none() => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err(CallFailure::interrupted(Certainty::Unknown));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let message = "the call ended without an answer";
                    return Err(CallFailure::internal(Certainty::Unknown, message));
                }
            }
        }
    }

    fn runtime(&self) -> Result<Handle, CallFailure> {
        let mut runtime = lock(&self.runtime);
        if let Some(runtime) = &*runtime {
            return Ok(runtime.handle().clone());
        }
        let new = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("windlass-mcp")
            .enable_all()
            .build()
            .map_err(|error| {
                CallFailure::internal(
                    Certainty::DidNotRun,
                    format!("cannot start a runtime: {error}"),
                )
            })?;
        Ok(runtime.insert(new).handle().clone())
    }
}

impl Connect for Connectors {
    fn perform(&self, job: &Job<'_>) -> Reply {
        match job.target {
            Target::Command { argv, stdin, env, cwd } => {
                let stdin = stdin.as_deref();
                let outputs = self.outputs.get().map(AsRef::as_ref);
                let command = Command { argv, stdin, env, cwd, limits: job.limits, outputs };
                command::perform(&command, job.confinement, self.sandbox.as_deref())
            }
            Target::McpStdio { .. } | Target::McpHttp { .. } => self.call(job),
            Target::Files { root, left_out } => {
                file_tools::perform(root, left_out, job, self.sandbox.as_deref())
            }
            Target::Person => {
                let message = "a person is asked by the gateway, not by a connector";
                CallFailure::internal(Certainty::DidNotRun, message).into_reply(None)
            }
            Target::Agent => {
                let message = "an agent is started by its run, not by a connector";
                CallFailure::internal(Certainty::DidNotRun, message).into_reply(None)
            }
            Target::Client => {
                let message = "only the client of a coding agent has this tool";
                CallFailure::unavailable(Certainty::DidNotRun, message).into_reply(None)
            }
        }
    }

    fn foresee(&self, target: &Target, tool: &str, args: &Value) -> Option<FileChange> {
        match target {
            Target::Files { root, .. } => {
                file_tools::foresee(root, tool, args, self.sandbox.as_deref())
            }
            Target::Command { .. }
            | Target::McpStdio { .. }
            | Target::McpHttp { .. }
            | Target::Person
            | Target::Client
            | Target::Agent => None,
        }
    }
}

impl Drop for Connectors {
    fn drop(&mut self) {
        let Some(runtime) = lock(&self.runtime).take() else { return };
        let slots: Vec<_> = lock(&self.slots).drain().map(|(_, (_, slot))| slot).collect();
        let (sender, receiver) = mpsc::channel::<()>();
        for slot in slots {
            let sender = sender.clone();
            runtime.spawn(async move {
                if let Some(connection) =
                    slot.connection.lock().await.take().and_then(Arc::into_inner)
                {
                    connection.close().await;
                }
                drop(sender);
            });
        }
        drop(sender);
        // Ends when every connection is closed, or when the time is up.
        let _ = receiver.recv_timeout(CLOSE_TIMEOUT * 2);
        if Handle::try_current().is_ok() {
            // Dropped inside another runtime, which must not be blocked.
            runtime.shutdown_background();
        } else {
            runtime.shutdown_timeout(CLOSE_TIMEOUT * 3);
        }
    }
}

impl Slot {
    /// Runs `act` over the connection, which is opened first where needed. It is opened again, once,
    /// when it proves unusable before the request was sent.
    async fn with<T, F: Future<Output = Result<T, CallFailure>>>(
        &self,
        target: &Target,
        deadline: Deadline,
        act: impl Fn(Arc<Connection>) -> F,
    ) -> Result<T, CallFailure> {
        for last in [false, true] {
            let opened = tokio::time::timeout_at(deadline.at, self.get(target)).await;
            let (connection, origin) = opened.unwrap_or_else(|_| {
                let what = "the server could not be started or reached";
                Err(CallFailure::timeout(Certainty::DidNotRun, deadline.timeout, what))
            })?;
            let usable = match origin {
                Origin::Opened => Ok(()),
                Origin::Reused => connection.check(deadline).await,
            };
            let outcome = match usable {
                Ok(()) => act(Arc::clone(&connection)).await,
                Err(failure) => Err(failure.stale()),
            };
            match outcome {
                Err(failure) if failure.stale_connection => {
                    self.discard(&connection).await;
                    if last {
                        return Err(failure);
                    }
                }
                outcome => return outcome,
            }
        }
        Err(CallFailure::internal(Certainty::DidNotRun, "no connection"))
    }

    async fn get(&self, target: &Target) -> Result<(Arc<Connection>, Origin), CallFailure> {
        let mut slot = self.connection.lock().await;
        if let Some(connection) = slot.as_ref().filter(|connection| !connection.is_over()) {
            return Ok((Arc::clone(connection), Origin::Reused));
        }
        *slot = None;
        let connection = Arc::new(Connection::open(target, self.sandbox.clone()).await?);
        *slot = Some(Arc::clone(&connection));
        Ok((connection, Origin::Opened))
    }

    /// Drops this connection, but not a newer one.
    async fn discard(&self, connection: &Arc<Connection>) {
        let mut slot = self.connection.lock().await;
        if slot.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection)) {
            *slot = None;
        }
    }
}

/// Makes a reply of a `tools/call` result.
fn tool_reply(result: Value) -> Reply {
    match read_result(result) {
        Err(message) => CallFailure::protocol(Certainty::Unknown, message).into_reply(None),
        Ok((result, false)) => Reply::Success { result },
        Ok((result, true)) => {
            let text =
                result.pointer("/content/0/text").and_then(Value::as_str).unwrap_or_default();
            CallFailure::failed(format!("the tool reported a failure: {text}"))
                .into_reply(Some(result))
        }
    }
}

/// Reads a result into the form that is recorded: the content as received, and whether it is a
/// failure.
fn read_result(result: Value) -> Result<(Value, bool), &'static str> {
    let Value::Object(mut map) = result else { return Err("the tool's result is not an object") };
    if map.get("resultType").is_some_and(|kind| kind != "complete") {
        return Err("the tool's result is not complete: the server asks for more");
    }
    let structured = map.remove("structuredContent");
    let content = match map.remove("content") {
        Some(content @ Value::Array(_)) => content,
        None if structured.is_some() => Value::Array(Vec::new()),
        _ => return Err("the tool's result has no list of content"),
    };
    let failed = match map.remove("isError") {
        None => false,
        Some(Value::Bool(failed)) => failed,
        Some(_) => return Err("the tool's result does not say whether it is an error"),
    };
    let mut read = Map::new();
    read.insert("content".to_owned(), content);
    if let Some(structured) = structured {
        read.insert("structuredContent".to_owned(), structured);
    }
    read.insert("isError".to_owned(), Value::Bool(failed));
    Ok((Value::Object(read), failed))
}
