//! Errors of the command line: code, message, causes, hint, exit code.

use std::error::Error;

use serde_json::json;
use windlass_engine::EngineError;
use windlass_formats::CheckpointId;
use windlass_kernel::Code;

pub use crate::exit_code::exit_of;
use crate::output::{Output, sanitize};
use crate::secrets::shown;

/// An error that ends a command.
#[derive(Clone, Debug)]
pub struct Failure {
    code: Code,
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
}

/// The result of a command: its exit code.
pub type CommandResult = Result<u8, Failure>;

impl Failure {
    /// Creates a failure from a message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), causes: Vec::new(), hint: None }
    }

    /// Creates a failure from an error and its chain of causes.
    pub fn of(code: Code, error: &dyn Error) -> Self {
        let mut causes = Vec::new();
        let mut cause = error.source();
        while let Some(error) = cause {
            causes.push(error.to_string());
            cause = error.source();
        }
        Self { code, message: error.to_string(), causes, hint: None }
    }

    /// Replaces the code's default hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same as an error of the engine.
    pub fn into_engine_error(self) -> EngineError {
        let (message, Self { code, hint, .. }) = (self.message(), self);
        EngineError::Invalid { code, message, hint }
    }

    /// The failure in one line.
    pub fn summary(&self) -> String {
        let hint = self.advice().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{} [{}]{hint}", self.message(), self.code)
    }

    /// The message and its causes, in one line.
    pub fn message(&self) -> String {
        let all: Vec<&str> =
            [&self.message].into_iter().chain(&self.causes).map(String::as_str).collect();
        all.join(": ")
    }

    /// What to do.
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref().or_else(|| hint_of(self.code))
    }

    /// The code.
    pub const fn code(&self) -> Code {
        self.code
    }

    /// The exit code.
    pub fn exit(&self) -> u8 {
        match (self.code, windlass_cell::received_signal()) {
            (Code::Interrupted, Some(signal)) => signal.exit_code(),
            (code, _) => exit_of(code),
        }
    }

    /// Prints the failure to standard error.
    pub fn print(&self, output: &Output) {
        let message = shown(&self.message);
        let causes: Vec<String> = self.causes.iter().map(|cause| shown(cause)).collect();
        let hint = self.advice();
        if output.has_json_errors() {
            output.note(
                &json!({ "error": {
                    "code": self.code,
                    "message": message,
                    "causes": causes,
                    "hint": hint,
                }})
                .to_string(),
            );
            return;
        }
        output.note(&format!(
            "{} {} [{}]",
            output.paint_note("error:", crate::output::Style::Bad),
            sanitize(&message),
            self.code
        ));
        for cause in &causes {
            output.note(&format!("caused by: {}", sanitize(cause)));
        }
        if let Some(hint) = hint {
            let word = output.paint_note("hint:", crate::output::Style::Good);
            output.note(&format!("\n{word} {}", sanitize(hint)));
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
    windlass_store::StoreError,
    windlass_kernel::canon::CanonError,
    windlass_workspace::BlobError,
    windlass_seal::KeyError
);

impl From<windlass_runtime::GatewayError> for Failure {
    fn from(error: windlass_runtime::GatewayError) -> Self {
        let failure = Self::of(error.code(), &error);
        if let windlass_runtime::GatewayError::WrongAnswer { trace_id, .. } = error {
            let hint =
                format!("`windlass call show {trace_id}` shows the question and the answers");
            return failure.hint(hint);
        }
        if let windlass_runtime::GatewayError::Stale { trace_id, .. } = error {
            return failure.hint(stale("call", &trace_id.to_string()));
        }
        failure
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let failure = Self::of(error.code(), &error);
        if let EngineError::Stale { run, .. } = &error {
            return failure.hint(stale("queue", run));
        }
        if let EngineError::Stopped { run, .. } = &error {
            return failure.hint(match run {
                Some(run) => format!(
                    "`windlass stop {run} --clear`, or `windlass cancel {run} --reason TEXT`"
                ),
                None => "all runs are stopped; `windlass stop --clear` lets them go on".to_owned(),
            });
        }
        if let EngineError::Packet { path, .. } = &error {
            let name = std::path::Path::new(path).file_stem().and_then(|name| name.to_str());
            if let Some(hold) = name.and_then(|name| name.parse::<CheckpointId>().ok()) {
                return failure.hint(packet(&hold.run().to_string()));
            }
        }
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

/// What to do about a packet that is not as the journal says.
fn packet(run: &str) -> String {
    format!("`windlass export {run}` writes it again from the journal, which has the decisions")
}

/// What to do about a question that is not as it was shown; `of` is `call` or `queue`.
pub fn stale(of: &str, id: &str) -> String {
    format!(
        "look again with `windlass {of} show {id}`, then answer with the digest that it prints: --shown DIGEST"
    )
}

/// The default hint for a code: what to do about it.
pub const fn hint_of(code: Code) -> Option<&'static str> {
    Some(match code {
        Code::StateInvalidTransition
        | Code::StateSequenceGap
        | Code::StateChecksumMismatch
        | Code::MissingToolCallId => {
            "the trace is left unchanged and other traces still work; `windlass verify` lists every \
             corrupt trace; restore the journal from a backup that `windlass store backup` made to get its last \
             good state"
        }
        Code::StateRecoveryFailed => "`windlass call show ID` shows what is recorded",
        Code::StateLockAcquireFailed => "another process is at work on it: wait, then try again",
        Code::StateConcurrentExecution => {
            "another process took over the trace; `windlass call show ID` shows its state"
        }
        Code::ToolUnclassifiedDenied => "add the tool to `.windlass/tools.toml`",
        Code::ToolClassDeclarationMismatch => {
            "omit `--class`, or correct the class in `.windlass/tools.toml`"
        }
        Code::ToolClassMismatch => "correct the class in `.windlass/tools.toml`",
        Code::ToolDefinitionChanged => {
            "`windlass mcp trust NAME` shows the difference and accepts it"
        }
        Code::IdempotencyKeyRequired => {
            "pass `--key NAME`, the same name for the same intended effect, or `--new-key`"
        }
        Code::IdempotencyConflict => "use a different key for a different request",
        Code::DocSizeExceeded => {
            "make the input smaller, or raise the tool's limit in `.windlass/tools.toml`"
        }
        Code::PolicyDenied => {
            "`windlass policy explain SERVER/TOOL --args …` shows the rules that apply"
        }
        Code::PolicyInvalid | Code::GovernanceInvalid => {
            "correct the file, then run `windlass policy check`"
        }
        Code::PathOutsideWorkspace => "tools may only use paths inside the project's folder",
        Code::SecretInRequest => {
            "name it as `{\"secret\": \"NAME\"}`, or pass it by `env` of the server"
        }
        Code::SecretUnknown => "add it to `[secrets]` of your own settings, or correct the name",
        Code::SecretUndeclared => "if the tool may have it, add it to the tool's `secrets`",
        Code::SecretUnavailable => "set its variable or file: see `[secrets]` of your own settings",
        Code::CallsRepeated => "change the call; `[calls] identical_max` is the limit",
        Code::DenialsRepeated => {
            "`windlass call show ID` shows why; `[calls] denied_max` is the limit"
        }
        Code::DeniedByPerson => "`windlass call show ID` shows who denied it and why",
        Code::CallOnHold | Code::ToolOutcomeUnknown => {
            "decide with `windlass call show ID`, then `windlass call approve|deny ID --reason TEXT`"
        }
        Code::CallOfRun => {
            "answer the run's hold: `windlass queue list`; if it has none, `windlass resume RUN`"
        }
        Code::DecisionAlreadyMade => "`windlass call show ID` shows who decided and how",
        Code::JsonInvalid => "check the JSON; in a shell, put it in single quotes",
        Code::JsonDuplicateKey => "remove one of the two keys",
        Code::JsonNumberUnsafe => "write the number as a string",
        Code::IdInvalid => "`windlass trace list` lists the ids",
        Code::TraceNotFound => "`windlass trace list` lists the traces",
        Code::RunNotFound => "`windlass status` lists the runs",
        Code::RunEnded => "`windlass status RUN` shows how it ended; start a new run to try again",
        Code::RunOnHold => {
            "run `windlass queue show RUN`, then `windlass queue approve|reject RUN`"
        }
        Code::RunNotOnHold => "`windlass status RUN` shows its state",
        Code::RunStopped => {
            "run `windlass stop --clear` to let runs start again, or `windlass stop --clear RUN` if only that run was stopped; \
             `windlass cancel RUN --reason TEXT` gives a run up"
        }
        Code::RunConcurrent => "wait for that run to end, or use a workspace apart: `--worktree`",
        Code::HoldAlreadyResolved => {
            "`windlass queue show RUN` shows who decided and how; `windlass resume RUN` goes on with it, and until then \
             `windlass queue revoke RUN` takes an answer back"
        }
        Code::HoldExpired => {
            "start a new run; `hold.expires_hours` in the loop file sets how long a hold stays open"
        }
        Code::HoldStale => {
            "look again with `windlass queue show RUN` or `windlass call show ID`, then answer with the digest \
             that it prints: --shown DIGEST"
        }
        Code::PersonUnknown => {
            "`windlass people list` lists who can decide, `windlass people add NAME` adds a person"
        }
        Code::PersonLocked => {
            "try again with the right passphrase (without a terminal: `--passphrase-file FILE`, `-` for standard \
             input), or add the key to your SSH agent"
        }
        Code::ApproverNotCounted => {
            "another person must answer: `windlass queue approve RUN --by NAME --reason TEXT`; `windlass people list` \
             lists who can, and `windlass people add NAME --passphrase` adds one whose key counts"
        }
        Code::GrantNotFound => "`windlass grant list --all` lists the grants",
        Code::GrantEnded => {
            "`windlass grant show ID` shows how it ended; add another one if needed"
        }
        Code::GrantTooWide => {
            "narrow it with `--command GLOB` or `--path GLOB`, or with `--run RUN`"
        }
        Code::PolicyChangedMidRun => "start a new run under the new policy",
        Code::RepoDirty => {
            "commit, stash or remove the changes that `git status` lists, then try again"
        }
        Code::ChangeUnreviewed => {
            "restore or remove the files and run `windlass resume RUN`; with the files still there, it puts the \
             run on hold, so that you can review them and approve"
        }
        Code::PinnedUnavailable => {
            "correct `pinned` of the rule or check (`[]` pins nothing), or restore the file that the message names"
        }
        Code::WorkspaceChanged => {
            "--dry-run lists the changed files; --force rolls back anyway and saves the present files first"
        }
        Code::SnapshotCorrupt => {
            "`windlass checkpoint check` lists what is corrupt; other checkpoints remain usable"
        }
        Code::SnapshotFailed => {
            "run `windlass doctor` to check git; earlier snapshots are unaffected"
        }
        Code::ImportInvalid => "`windlass loop show NAME` lists the phases of a loop",
        Code::CheckpointUnavailable => "`windlass checkpoint list RUN` lists the checkpoints",
        Code::RepoMoved => {
            "switch back to the run's branch, or give the run up: `windlass cancel RUN --reason TEXT`"
        }
        Code::MergeConflict => {
            "nothing was merged: in the run's work tree run `git merge BRANCH`, resolve the files and commit, \
             then run `windlass close RUN --merge` again"
        }
        Code::RunNotPassed => {
            "only a run that passed is merged; `windlass status RUN` tells how it ended"
        }
        Code::SetupFailed => {
            "mend what the message names, then approve the hold: `windlass queue approve RUN --resume`"
        }
        Code::PortUnavailable => {
            "close runs that have ended (`windlass close RUN`), or choose another `worktree.port_base`"
        }
        Code::RepoMissing => "run `git init` and create a first commit",
        Code::LoopNotFound => "`windlass loop list` lists the loops",
        Code::AnswersInvalid => "see `docs/guides/loops.md` for the format of an answer file",
        Code::FileUnwritable => "check that the disk has free space and the folder is writable",
        Code::TelemetryUnavailable => {
            "nothing is lost: `windlass telemetry push` sends the runs again from the journal"
        }
        Code::LoopInvalid => "correct the loop file at the given position",
        Code::AgentInvalid => "correct the agent file at the given position",
        Code::AgentUnavailable => "`windlass agents` lists who can run agents, and what is missing",
        Code::AgentUnguarded => {
            "`windlass agents check` tries the clients; `windlass agents` lists the versions that were measured"
        }
        Code::PacketInvalid | Code::PacketEdited => {
            "`windlass export RUN` writes it again from the journal, which has the decisions"
        }
        Code::TaskInvalid => {
            "write the task as a sentence, or as an object with at least the key `task`"
        }
        Code::BacklogInvalid => "correct the line given in the message",
        Code::BacklogLineChanged => "mark the item by hand, or run it again in its present wording",
        Code::LedgerCorrupt => {
            "move the old ledger away; `windlass export RUN` writes a new one from the journal"
        }
        Code::ProjectMissing => "run `windlass init` in the folder that your agents work in",
        Code::ProjectExists => "use the existing project; `windlass doctor` checks it",
        Code::ProjectMoved => {
            "`windlass state move` binds its journal to the new place; `windlass state list` shows the old one"
        }
        Code::ProjectCopied => {
            "`windlass init --new` gives this copy an id and an empty journal of its own"
        }
        Code::ProjectUntrusted => {
            "`windlass trust` shows what the configuration would start, and asks you"
        }
        Code::StateMissing => {
            "restore the state folder from a backup, or point WINDLASS_STATE to it: the journal records which \
             effects have happened; `windlass init --new` starts with an empty one"
        }
        Code::StateUnsafe => "make the folder yours and close it to others: `chmod 700 FOLDER`",
        Code::StateDamaged => {
            "restore the file from a backup; `windlass state list` shows all states"
        }
        Code::ConfigInvalid => "correct the file, then run `windlass doctor`",
        Code::HelperMissing => {
            "install the program in a folder of the system, or name it in your settings: `helpers.git = \"/path/of/git\"`"
        }
        Code::GitFilterRefused => {
            "if you trust it, name it in `git.filters` of your own settings: the filter that the message names, \
             such as `[\"lfs\"]`, or `[\"working-tree-encoding\"]` for an encoding"
        }
        Code::GitUnrecordable => "remove what the message names, or the `.git` in it",
        Code::GitDamaged => {
            "the repository is as it was before the command; look at what the command did to `.git`"
        }
        Code::GitConflict => {
            "the repository has your change, not that of the command; run the command again"
        }
        Code::Interrupted => {
            "`windlass resume` continues the run, `windlass recover` a call; `windlass status` shows both"
        }
        Code::SandboxUnavailable => {
            "`windlass doctor` shows what is missing and what would allow it"
        }
        Code::LimitProcesses | Code::LimitMemory | Code::LimitFileSize | Code::LimitOpenFiles => {
            "let the command do less at once, or raise the limit in `[sandbox.limits]` of your own \
             settings"
        }
        Code::ProtectedPathChanged => {
            "commands may not change `.windlass` or git's settings; change them yourself"
        }
        Code::NetworkRefused => {
            "if the tool needs the host, add it with its port to the tool's `network` in \
             `.windlass/tools.toml`"
        }
        Code::NetworkUnreachable => {
            "check the host's name and port, and that this machine can reach it; then try again"
        }
        Code::StoreReadOnly => {
            "make the folder writable for you: the one that the message names, or the state folder that \
             `windlass state list` shows"
        }
        Code::StoreFull => "free some space, then run `windlass recover`",
        Code::StoreTooNew => "use the Windlass version that wrote the store, or a newer one",
        Code::StoreCorrupt => {
            "restore the journal, `windlass.db` in the state folder, from a backup that `windlass store backup` made"
        }
        Code::StoreTruncated => {
            "restore the journal from a backup that `windlass store backup` made, or put the missing \
             `windlass.db-wal` back; only if you accept that the missing calls may run again, remove \
             `windlass.db.head` in the state folder, and in `.heads` beside it the file with its name"
        }
        Code::StoreDisplaced => {
            "nothing was recorded; put the file back if you have it, then run `windlass verify` and `windlass recover`"
        }
        Code::StoreUnavailable => {
            "check that the disk has free space and the folder is writable, then run `windlass doctor`"
        }
        Code::DriverConfigInvalid => "correct the file named in the message",
        Code::DriverModelUnavailable => {
            "add one of the intent's models to `driver.available`, or route the intent to another model"
        }
        Code::DriverCapabilityExceeded => {
            "make the task smaller, or raise the profile's limit in `driver/profiles.toml`"
        }
        Code::DriverSandboxInconsistent => "start the task again: it enables the sandbox",
        Code::DriverSaveRefused => {
            "only intents with `save_allowed` save, and only after their verification passed"
        }
        Code::DriverMemoryConflict => "restore the memory again and decide which entries are valid",
        Code::BlobMissing => "it was purged, or never stored; the journal still has its digest",
        Code::BlobCorrupt => {
            "restore `blobs` in the state folder from a backup, or store the content again"
        }
        Code::KeyMissing => {
            "the first bundle or anchor creates one: `windlass export RUN --bundle FILE`"
        }
        Code::KeyInvalid => "check that the file is a Windlass key and readable only by you",
        Code::BundleInvalid => "ask for the bundle again; do not trust the contents of this one",
        Code::BundleUntrusted => "if you trust the signer, pass its public key with `--key PUB`",
        Code::AnchorInvalid => {
            "keep both the anchor and the journal, and find out which was changed; compare with a backup"
        }
        Code::Internal => {
            "this is a bug in Windlass; please report it with the command that caused it"
        }
        Code::ToolTimeout
        | Code::ToolOutputTooLarge
        | Code::ToolServerUnavailable
        | Code::ToolProtocolError
        | Code::ToolFailed
        | Code::ToolCompensated
        | Code::FileUnreadable => return None,
        Code::RequestInvalid => "`windlass COMMAND --help` lists the valid arguments",
    })
}
