//! The error of a job inside this crate, which becomes a [`Reply`].

use std::time::Duration;

use windlass_kernel::Code;

use windlass_cell::{LimitKind, ProcessError, ReceivedSignal};
use windlass_workspace::TakeOverError;

use crate::{Certainty, Reply};

/// A failed job, or a failed step of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct CallFailure {
    pub code: Code,
    pub message: String,
    pub certainty: Certainty,
    /// Nothing was sent and the connection is unusable: the call may be made over a new one.
    pub stale_connection: bool,
}

impl CallFailure {
    fn new(code: Code, certainty: Certainty, message: impl AsRef<str>) -> Self {
        Self { code, message: message.as_ref().to_owned(), certainty, stale_connection: false }
    }

    /// The server or program cannot be started or reached, or died.
    pub fn unavailable(certainty: Certainty, message: impl AsRef<str>) -> Self {
        Self::new(Code::ToolServerUnavailable, certainty, message)
    }

    /// The server violates the protocol.
    pub fn protocol(certainty: Certainty, message: impl AsRef<str>) -> Self {
        Self::new(Code::ToolProtocolError, certainty, message)
    }

    /// The answer is longer than allowed.
    pub fn too_large(certainty: Certainty, message: impl AsRef<str>) -> Self {
        Self::new(Code::ToolOutputTooLarge, certainty, message)
    }

    /// No answer in time.
    pub fn timeout(certainty: Certainty, timeout: Duration, what: &str) -> Self {
        Self::new(Code::ToolTimeout, certainty, format!("{what} within {} ms", timeout.as_millis()))
    }

    /// The tool ran and says that it failed.
    pub fn failed(message: impl AsRef<str>) -> Self {
        Self::new(Code::ToolFailed, Certainty::Ran, message)
    }

    /// The server's description of the tool contradicts the registry.
    pub fn class_mismatch(message: impl AsRef<str>) -> Self {
        Self::new(Code::ToolClassMismatch, Certainty::DidNotRun, message)
    }

    /// The command cannot be confined as it must be; it was not started.
    pub fn sandbox(message: impl AsRef<str>) -> Self {
        Self::new(Code::SandboxUnavailable, Certainty::DidNotRun, message)
    }

    /// Pinned files cannot be shown to the command; it was not started.
    pub fn pinned(message: impl AsRef<str>) -> Self {
        Self::new(Code::PinnedUnavailable, Certainty::DidNotRun, message)
    }

    /// A command or server reached a limit of its cell and was ended.
    pub fn limit_of(limit: LimitKind, who: &str) -> Self {
        let (code, what) = match limit {
            LimitKind::Processes => (Code::LimitProcesses, "processes"),
            LimitKind::Memory => (Code::LimitMemory, "memory"),
            LimitKind::FileSize => (Code::LimitFileSize, "the size of one file"),
            LimitKind::OpenFiles => (Code::LimitOpenFiles, "open files"),
        };
        let message = format!("the {who} reached its limit of {what} and was ended");
        Self::new(code, Certainty::Unknown, message)
    }

    /// Windlass was asked to end.
    pub fn interrupted(certainty: Certainty) -> Self {
        let signal = windlass_cell::received_signal().map_or("a signal", ReceivedSignal::name);
        let message = format!("it was ended because Windlass received {signal}");
        Self::new(Code::Interrupted, certainty, message)
    }

    /// What a command did to git cannot be taken over.
    pub fn git(certainty: Certainty, error: &TakeOverError) -> Self {
        Self::new(error.code(), certainty, error.to_string())
    }

    /// An earlier command left what no command may; this one was not started.
    pub fn left_behind(message: impl AsRef<str>) -> Self {
        Self::new(Code::ProtectedPathChanged, Certainty::DidNotRun, message)
    }

    /// A command created or changed what no command may.
    pub fn protected(paths: &[String]) -> Self {
        let message = format!("no command may create or change {}", paths.join(", "));
        Self::new(Code::ProtectedPathChanged, Certainty::Ran, message)
    }

    /// An error of this program.
    pub fn internal(certainty: Certainty, message: impl AsRef<str>) -> Self {
        Self::new(Code::Internal, certainty, message)
    }

    /// The same failure, from before the tool was called.
    pub fn before_dispatch(self) -> Self {
        Self { certainty: Certainty::DidNotRun, ..self }
    }

    /// Marks that the call may be made over a new connection, since nothing was sent over this one.
    pub fn stale(self) -> Self {
        Self { certainty: Certainty::DidNotRun, stale_connection: true, ..self }
    }

    pub fn into_reply(self, result: Option<serde_json::Value>) -> Reply {
        Reply::Failure { code: self.code, message: self.message, result, certainty: self.certainty }
    }
}

impl From<ProcessError> for CallFailure {
    fn from(error: ProcessError) -> Self {
        match error {
            ProcessError::NotStarted(why) => Self::unavailable(Certainty::DidNotRun, why),
            ProcessError::NotConfined(why) => Self::sandbox(why),
            ProcessError::Lost(why) => Self::internal(Certainty::Unknown, why),
        }
    }
}
