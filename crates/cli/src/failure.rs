//! What a person is told when something did not work: code, causes, hint, exit code.

use std::error::Error;

use serde_json::json;
use windlass_kernel::Code;

use crate::output::{Output, plain};

/// An error on its way out.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
}

/// The result of a command: its exit code.
pub type Done = Result<u8, Failure>;

impl Failure {
    /// Makes one from a message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), causes: Vec::new(), hint: None }
    }

    /// Makes one from an error and all that caused it.
    pub fn of(code: Code, error: &dyn Error) -> Self {
        let mut causes = Vec::new();
        let mut cause = error.source();
        while let Some(error) = cause {
            causes.push(error.to_string());
            cause = error.source();
        }
        Self { code, message: error.to_string(), causes, hint: None }
    }

    /// Adds what to do about it, where that is more than the code's own hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// All of it in one line.
    pub fn summary(&self) -> String {
        let mut text = self.message.clone();
        for cause in &self.causes {
            text.push_str(": ");
            text.push_str(cause);
        }
        let hint = self.hint.as_deref().or_else(|| hint_of(self.code));
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{text} [{}]{hint}", self.code)
    }

    /// The code.
    pub const fn code(&self) -> Code {
        self.code
    }

    /// The exit code.
    pub const fn exit(&self) -> u8 {
        exit_of(self.code)
    }

    /// Prints it to standard error.
    pub fn print(&self, output: &Output) {
        let hint = self.hint.as_deref().or_else(|| hint_of(self.code));
        if output.json {
            output.note(
                &json!({ "error": {
                    "code": self.code,
                    "message": self.message,
                    "causes": self.causes,
                    "hint": hint,
                }})
                .to_string(),
            );
            return;
        }
        output.note(&format!(
            "{} {} [{}]",
            output.paint_note("error:", crate::output::Ink::Bad),
            plain(&self.message),
            self.code
        ));
        for cause in &self.causes {
            output.note(&format!("caused by: {}", plain(cause)));
        }
        if let Some(hint) = hint {
            let word = output.paint_note("hint:", crate::output::Ink::Good);
            output.note(&format!("\n{word} {}", plain(hint)));
        }
    }
}

macro_rules! from_coded {
    ($($type:ty),*) => {$(
        impl From<$type> for Failure {
            fn from(error: $type) -> Self {
                Self::of(error.code(), &error)
            }
        }
    )*};
}

from_coded!(
    windlass_journal::JournalError,
    windlass_runtime::GatewayError,
    windlass_store::StoreError,
    windlass_kernel::canon::CanonError,
    windlass_workspace::BlobError,
    windlass_seal::KeyError
);

impl From<windlass_engine::EngineError> for Failure {
    fn from(error: windlass_engine::EngineError) -> Self {
        let failure = Self::of(error.code(), &error);
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

impl From<windlass_loops::LoopError> for Failure {
    fn from(error: windlass_loops::LoopError) -> Self {
        Self::of(error.code(), &error).hint(error.hint())
    }
}

impl From<windlass_loops::SelectError> for Failure {
    fn from(error: windlass_loops::SelectError) -> Self {
        Self::of(error.code(), &error).hint(error.hint())
    }
}

impl From<windlass_formats::TaskError> for Failure {
    fn from(error: windlass_formats::TaskError) -> Self {
        Self::of(error.code(), &error).hint(error.hint())
    }
}

impl From<windlass_kernel::IdError> for Failure {
    fn from(error: windlass_kernel::IdError) -> Self {
        Self::of(Code::IdInvalid, &error)
    }
}

impl From<windlass_policy::FileError> for Failure {
    fn from(error: windlass_policy::FileError) -> Self {
        let failure = Self::of(error.code(), &error);
        match error.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// The exit code that goes with an error code.
pub const fn exit_of(code: Code) -> u8 {
    match code {
        Code::StateInvalidTransition
        | Code::StateSequenceGap
        | Code::StateChecksumMismatch
        | Code::StoreCorrupt
        | Code::BlobCorrupt
        | Code::BundleInvalid
        | Code::AnchorInvalid
        | Code::SnapshotCorrupt
        | Code::LedgerCorrupt => 5,
        Code::CallOnHold
        | Code::ToolOutcomeUnknown
        | Code::RunOnHold
        | Code::DriverMemoryConflict => 4,
        Code::ToolUnclassifiedDenied
        | Code::ToolClassDeclarationMismatch
        | Code::ToolClassMismatch
        | Code::IdempotencyKeyRequired
        | Code::IdempotencyConflict
        | Code::PolicyDenied
        | Code::PathOutsideWorkspace
        | Code::SecretInRequest
        | Code::DeniedByPerson
        | Code::HoldExpired
        | Code::HoldStale
        | Code::HoldAlreadyResolved
        | Code::PolicyChangedMidRun
        | Code::RepoDirty
        | Code::RepoMoved
        | Code::WorkspaceChanged
        | Code::RunStopped
        | Code::BundleUntrusted
        | Code::DriverCapabilityExceeded
        | Code::DriverSandboxInconsistent
        | Code::DriverSaveRefused => 3,
        Code::DocSizeExceeded
        | Code::JsonInvalid
        | Code::JsonDuplicateKey
        | Code::JsonNumberUnsafe
        | Code::RequestInvalid
        | Code::IdInvalid
        | Code::TraceNotFound
        | Code::ProjectMissing
        | Code::ProjectExists
        | Code::ConfigInvalid
        | Code::LoopInvalid
        | Code::AgentInvalid
        | Code::PolicyInvalid
        | Code::GovernanceInvalid
        | Code::TaskInvalid
        | Code::BacklogInvalid
        | Code::LoopNotFound
        | Code::AnswersInvalid
        | Code::RunNotFound
        | Code::ImportInvalid
        | Code::DriverConfigInvalid => 2,
        Code::Internal => 70,
        Code::StateRecoveryFailed
        | Code::StateLockAcquireFailed
        | Code::StateConcurrentExecution
        | Code::DecisionAlreadyMade
        | Code::PacketInvalid
        | Code::PacketEdited
        | Code::BacklogLineChanged
        | Code::ToolTimeout
        | Code::ToolOutputTooLarge
        | Code::ToolServerUnavailable
        | Code::ToolProtocolError
        | Code::ToolFailed
        | Code::ToolCompensated
        | Code::SandboxUnavailable
        | Code::StoreUnavailable
        | Code::StoreReadOnly
        | Code::StoreFull
        | Code::StoreTooNew
        | Code::RunEnded
        | Code::RunNotOnHold
        | Code::CheckpointUnavailable
        | Code::SnapshotFailed
        | Code::RunConcurrent
        | Code::RepoMissing
        | Code::FileUnwritable
        | Code::FileUnreadable
        | Code::BlobMissing
        | Code::KeyMissing
        | Code::KeyInvalid
        | Code::TelemetryUnavailable
        | Code::DriverModelUnavailable => 1,
    }
}

/// What to do about a code, where one sentence can say it.
pub const fn hint_of(code: Code) -> Option<&'static str> {
    Some(match code {
        Code::StateInvalidTransition | Code::StateSequenceGap | Code::StateChecksumMismatch => {
            "the trace is left as it is and the others still work; `windlass verify` names every \
             broken trace, a backup of the store has the last good state"
        }
        Code::StateRecoveryFailed => "`windlass call show ID` says what is recorded",
        Code::StateLockAcquireFailed => {
            "a live process is at work on it; wait for it to end, then try again"
        }
        Code::StateConcurrentExecution => {
            "another process took the trace over; `windlass call show ID` says where it stands"
        }
        Code::ToolUnclassifiedDenied => "add the tool to `.windlass/tools.toml`",
        Code::ToolClassDeclarationMismatch => {
            "leave `--class` out, or correct the class in `.windlass/tools.toml`"
        }
        Code::ToolClassMismatch => "correct the class in `.windlass/tools.toml`",
        Code::IdempotencyKeyRequired => {
            "give `--key NAME`, the same for the same intended effect, or `--new-key`"
        }
        Code::IdempotencyConflict => "use another key for another request",
        Code::DocSizeExceeded => "make it smaller, or raise the tool's limit in the registry",
        Code::PolicyDenied => "`windlass policy explain SERVER/TOOL --args …` names the rules",
        Code::PolicyInvalid | Code::GovernanceInvalid => {
            "correct the file, then run `windlass policy check`"
        }
        Code::PathOutsideWorkspace => "only paths inside the project's folder are open to tools",
        Code::SecretInRequest => "let the registry pass it to the server by `env`",
        Code::DeniedByPerson => "`windlass call show ID` says who refused it and why",
        Code::CallOnHold | Code::ToolOutcomeUnknown => {
            "`windlass call approve|deny ID --by NAME --reason TEXT` decides it"
        }
        Code::DecisionAlreadyMade => "`windlass call show ID` says who decided, and what",
        Code::JsonInvalid => "check the JSON; in a shell put it in single quotes",
        Code::JsonDuplicateKey => "leave one of the two keys out",
        Code::JsonNumberUnsafe => "write it as a string",
        Code::IdInvalid => "`windlass trace list` prints the ids",
        Code::TraceNotFound => "`windlass trace list` shows which there are",
        Code::RunNotFound => "`windlass status` lists the runs",
        Code::RunEnded => "`windlass status RUN` says how; start a new run to try again",
        Code::RunOnHold => "`windlass queue show RUN`, then `windlass queue approve|reject RUN`",
        Code::RunNotOnHold => "`windlass status RUN` says where it stands",
        Code::RunStopped => "`windlass stop --clear` lets runs start again",
        Code::RunConcurrent => "wait for it to end, or use `--worktree` for a workspace of its own",
        Code::HoldAlreadyResolved => "`windlass queue show RUN` says who decided, and what",
        Code::HoldExpired => {
            "start a new run; the loop's `hold.expires_hours` says how long one has"
        }
        Code::HoldStale => "look again with `windlass queue show RUN`, then decide",
        Code::PolicyChangedMidRun => "start a new run under the new policy",
        Code::RepoDirty => "commit, stash or remove what `git status` shows, then try again",
        Code::WorkspaceChanged => {
            "look with --dry-run; --force goes back all the same and keeps what is there now"
        }
        Code::SnapshotCorrupt => {
            "`windlass checkpoint check` names all that is damaged; all else can be used"
        }
        Code::SnapshotFailed => {
            "`windlass doctor` checks git; what was captured before is still there"
        }
        Code::ImportInvalid => "`windlass loop show NAME` lists the phases of a loop",
        Code::CheckpointUnavailable => "`windlass checkpoint list RUN` lists what there is",
        Code::RepoMoved => "bring the branch back to where the run left it, or start a new run",
        Code::RepoMissing => "run `git init` and make a first commit",
        Code::LoopNotFound => "`windlass loop list` shows which there are",
        Code::AnswersInvalid => "see `docs/guides/loops.md` for the form of an answer file",
        Code::FileUnwritable => "see whether the disk has room and the folder can be written",
        Code::TelemetryUnavailable => {
            "nothing is lost: `windlass telemetry push` sends it again from the journal"
        }
        Code::LoopInvalid => "correct the loop file at the named place",
        Code::AgentInvalid => "correct the agent file at the named place",
        Code::PacketInvalid | Code::PacketEdited => {
            "leave the packet as it is written; what was decided is read from the journal"
        }
        Code::TaskInvalid => "a task is a sentence, or an object with at least the key `task`",
        Code::BacklogInvalid => "correct the line that is named",
        Code::BacklogLineChanged => "mark the item by hand, or take it up again as it stands now",
        Code::LedgerCorrupt => {
            "the ledger is written anew from the journal; keep the old one apart"
        }
        Code::ProjectMissing => "run `windlass init` in the folder that your agents work in",
        Code::ProjectExists => "use it as it is; `windlass doctor` checks it",
        Code::ConfigInvalid => "correct the file, then run `windlass doctor`",
        Code::SandboxUnavailable => {
            "`windlass doctor` says what is missing; `[sandbox]` in `.windlass/config.toml` changes or \
             ends it"
        }
        Code::StoreReadOnly => "make the project's `.windlass` folder writable",
        Code::StoreFull => "free some space, then run `windlass recover`",
        Code::StoreTooNew => "use the version of Windlass that wrote it, or a newer one",
        Code::StoreCorrupt => "restore `.windlass/windlass.db` from a backup",
        Code::StoreUnavailable => {
            "see whether its disk has room and its folder can be written, then run `windlass doctor`"
        }
        Code::DriverConfigInvalid => "correct the file that the message names",
        Code::DriverModelUnavailable => {
            "make one of the intent's models available, or route the intent to another one"
        }
        Code::DriverCapabilityExceeded => {
            "make the task smaller, or raise the profile's limit in `driver/profiles.toml`"
        }
        Code::DriverSandboxInconsistent => "start the task anew; the sandbox starts enabled",
        Code::DriverSaveRefused => {
            "only intents with `save_allowed` save, and only after their verification passed"
        }
        Code::DriverMemoryConflict => "restore the memory again and decide which entries hold",
        Code::BlobMissing => "it was purged, or never kept; the journal still has its digest",
        Code::BlobCorrupt => "restore `.windlass/blobs` from a backup, or put the content anew",
        Code::KeyMissing => {
            "one is made with the first bundle or anchor: `windlass export RUN --bundle FILE`"
        }
        Code::KeyInvalid => "see whether it is a key of Windlass, and readable by you alone",
        Code::BundleInvalid => "ask for the bundle again: what it holds proves nothing",
        Code::BundleUntrusted => "give the signer's public key with `--key PUB` if you trust it",
        Code::AnchorInvalid => "keep both and find out who changed which; a backup may help",
        Code::Internal => "please report it with the command that caused it",
        Code::ToolTimeout
        | Code::ToolOutputTooLarge
        | Code::ToolServerUnavailable
        | Code::ToolProtocolError
        | Code::ToolFailed
        | Code::ToolCompensated
        | Code::FileUnreadable => return None,
        Code::RequestInvalid => "`windlass COMMAND --help` says what it may be",
    })
}
