//! All public error codes. Each has a page under `docs/errors`.

use std::fmt;

use crate::canon::canonical_names;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal),* $(,)?) => {
        /// A stable error code, on which scripts and other programs may rely.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[$doc])* $variant,)*
        }

        impl Code {
            /// All codes, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The text of the code.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            /// The code whose text is `text`, if there is one.
            #[must_use]
            pub fn named(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.as_str() == text)
            }
        }
    };
}

codes! {
    /// The transition of an entry is not in the table, or does not start at the current state.
    StateInvalidTransition = "STATE_INVALID_TRANSITION",
    /// An entry is missing, repeated or out of order.
    StateSequenceGap = "STATE_SEQUENCE_GAP",
    /// A digest does not match what it covers.
    StateChecksumMismatch = "STATE_CHECKSUM_MISMATCH",
    /// A trace cannot be recovered.
    StateRecoveryFailed = "STATE_RECOVERY_FAILED",
    /// Another live process holds the lease of the trace.
    StateLockAcquireFailed = "STATE_LOCK_ACQUIRE_FAILED",
    /// The writer lost the lease of the trace to another process.
    StateConcurrentExecution = "STATE_CONCURRENT_EXECUTION",
    /// The entry of a tool call, or of its effect, has no tool call id.
    MissingToolCallId = "MISSING_TOOL_CALL_ID",

    /// The tool is not in the tool registry.
    ToolUnclassifiedDenied = "TOOL_UNCLASSIFIED_DENIED",
    /// The call declares another risk level than the tool registry.
    ToolClassDeclarationMismatch = "TOOL_CLASS_DECLARATION_MISMATCH",
    /// The server declares a higher risk level for the tool than the tool registry.
    ToolClassMismatch = "TOOL_CLASS_MISMATCH",
    /// A wrapped MCP server is not the one that the user accepted.
    ToolDefinitionChanged = "TOOL_DEFINITION_CHANGED",
    /// A write has no idempotency key.
    IdempotencyKeyRequired = "IDEMPOTENCY_KEY_REQUIRED",
    /// The idempotency key was used for another request.
    IdempotencyConflict = "IDEMPOTENCY_CONFLICT",
    /// A document or payload exceeds its size limit.
    DocSizeExceeded = "DOC_SIZE_EXCEEDED",

    /// A rule of the policy denies the call, or no rule allows it.
    PolicyDenied = "POLICY_DENIED",
    /// The policy set is invalid.
    PolicyInvalid = "POLICY_INVALID",
    /// Governance rules are invalid.
    GovernanceInvalid = "GOVERNANCE_INVALID",
    /// An argument names a path outside the workspace.
    PathOutsideWorkspace = "PATH_OUTSIDE_WORKSPACE",
    /// The request contains a known secret.
    SecretInRequest = "SECRET_IN_REQUEST",
    /// A call names a secret that the user's settings do not have.
    SecretUnknown = "SECRET_UNKNOWN",
    /// A call names a secret that its tool does not declare.
    SecretUndeclared = "SECRET_UNDECLARED",
    /// The value of a secret cannot be read, or is empty or too short.
    SecretUnavailable = "SECRET_UNAVAILABLE",
    /// The same call was made too often in a row.
    CallsRepeated = "CALLS_REPEATED",
    /// Too many calls in a row were denied.
    DenialsRepeated = "DENIALS_REPEATED",
    /// A person refused the call.
    DeniedByPerson = "DENIED_BY_PERSON",
    /// The call waits for a person.
    CallOnHold = "CALL_ON_HOLD",
    /// The call belongs to a run, which alone continues it.
    CallOfRun = "CALL_OF_RUN",
    /// The call has already been decided.
    DecisionAlreadyMade = "DECISION_ALREADY_MADE",

    /// There is no such run.
    RunNotFound = "RUN_NOT_FOUND",
    /// The run has ended.
    RunEnded = "RUN_ENDED",
    /// The run is on hold for a person.
    RunOnHold = "RUN_ON_HOLD",
    /// The run is not on hold.
    RunNotOnHold = "RUN_NOT_ON_HOLD",
    /// The stop switch is on.
    RunStopped = "RUN_STOPPED",
    /// Another run is in progress, and only one is allowed at a time.
    RunConcurrent = "RUN_CONCURRENT",
    /// The hold has already been answered.
    HoldAlreadyResolved = "HOLD_ALREADY_RESOLVED",
    /// The hold expired without an answer.
    HoldExpired = "HOLD_EXPIRED",
    /// The answer refers to another version of the hold.
    HoldStale = "HOLD_STALE",
    /// There is no such person, or the person's key was revoked.
    PersonUnknown = "PERSON_UNKNOWN",
    /// The person's key cannot be used: the passphrase is wrong, or the agent does not have it.
    PersonLocked = "PERSON_LOCKED",
    /// The answer would not count: the person or the account has answered, or started the run.
    ApproverNotCounted = "APPROVER_NOT_COUNTED",
    /// No grant has this id.
    GrantNotFound = "GRANT_NOT_FOUND",
    /// The grant was revoked, is used up or has expired.
    GrantEnded = "GRANT_ENDED",
    /// The patterns of the grant would cover nearly every call of the project.
    GrantTooWide = "GRANT_TOO_WIDE",
    /// The policy has changed since the run began.
    PolicyChangedMidRun = "POLICY_CHANGED_MID_RUN",
    /// The repository has changes or untracked files.
    RepoDirty = "REPO_DIRTY",
    /// Files have changed since they were last reviewed, so they are not committed.
    ChangeUnreviewed = "CHANGE_UNREVIEWED",
    /// A pinned file cannot be given to a program as it was at the start of the run.
    PinnedUnavailable = "PINNED_UNAVAILABLE",
    /// The branch of the repository moved during a run.
    RepoMoved = "REPO_MOVED",
    /// The branch of a run and the branch that it is merged into have changed the same lines.
    MergeConflict = "MERGE_CONFLICT",
    /// Only the work of a run that passed is merged.
    RunNotPassed = "RUN_NOT_PASSED",
    /// The work tree of a run could not be made ready.
    SetupFailed = "SETUP_FAILED",
    /// No port is free for a run, or another run has taken its port.
    PortUnavailable = "PORT_UNAVAILABLE",
    /// The state of another program cannot be imported.
    ImportInvalid = "IMPORT_INVALID",
    /// A checkpoint cannot be created, found or restored.
    CheckpointUnavailable = "CHECKPOINT_UNAVAILABLE",
    /// There is no repository with a commit.
    RepoMissing = "REPO_MISSING",
    /// There is no such loop.
    LoopNotFound = "LOOP_NOT_FOUND",
    /// A file of recorded answers is invalid.
    AnswersInvalid = "ANSWERS_INVALID",
    /// A file cannot be written.
    FileUnwritable = "FILE_UNWRITABLE",

    /// Runs could not be sent to the telemetry collector.
    TelemetryUnavailable = "TELEMETRY_UNAVAILABLE",

    /// The tool did not answer in time.
    ToolTimeout = "TOOL_TIMEOUT",
    /// The output of the tool exceeds its size limit.
    ToolOutputTooLarge = "TOOL_OUTPUT_TOO_LARGE",
    /// The server of the tool could not be started or reached, or exited.
    ToolServerUnavailable = "TOOL_SERVER_UNAVAILABLE",
    /// The server of the tool violated the protocol.
    ToolProtocolError = "TOOL_PROTOCOL_ERROR",
    /// The tool ran and reported a failure.
    ToolFailed = "TOOL_FAILED",
    /// Windlass was asked to end by a signal.
    Interrupted = "INTERRUPTED",
    /// The command could not be confined and was not started.
    SandboxUnavailable = "SANDBOX_UNAVAILABLE",
    /// A command had as many processes as its cell may have, and was ended.
    LimitProcesses = "LIMIT_PROCESSES",
    /// A command used as much memory as its cell may use, and was ended.
    LimitMemory = "LIMIT_MEMORY",
    /// A command wrote a file as large as its cell may have, and was ended.
    LimitFileSize = "LIMIT_FILE_SIZE",
    /// A command had as many files open as a process in its cell may have, and was ended.
    LimitOpenFiles = "LIMIT_OPEN_FILES",
    /// A command created or changed something in its workspace that no command may.
    ProtectedPathChanged = "PROTECTED_PATH_CHANGED",
    /// A helper program is missing, or others can write it.
    HelperMissing = "HELPER_MISSING",
    /// A file needs a git filter that the user's settings do not allow.
    GitFilterRefused = "GIT_FILTER_REFUSED",
    /// A work tree has what git would silently leave out of a commit.
    GitUnrecordable = "GIT_UNRECORDABLE",
    /// A command left a git directory behind that is not valid; nothing of it was taken over.
    GitDamaged = "GIT_DAMAGED",
    /// The repository changed while a command ran that changed the same thing.
    GitConflict = "GIT_CONFLICT",
    /// A network request of a command was refused.
    NetworkRefused = "NETWORK_REFUSED",
    /// A host that a command may reach could not be reached.
    NetworkUnreachable = "NETWORK_UNREACHABLE",
    /// It is unknown whether the call took effect.
    ToolOutcomeUnknown = "TOOL_OUTCOME_UNKNOWN",
    /// The call was undone after a crash.
    ToolCompensated = "TOOL_COMPENSATED",

    /// The text is not JSON.
    JsonInvalid = "JSON_INVALID",
    /// A JSON object has a duplicate key.
    JsonDuplicateKey = "JSON_DUPLICATE_KEY",
    /// Canonical JSON would change a number.
    JsonNumberUnsafe = "JSON_NUMBER_UNSAFE",
    /// A request or one of its fields is invalid.
    RequestInvalid = "REQUEST_INVALID",
    /// An id is not a UUID of version 7.
    IdInvalid = "ID_INVALID",
    /// No trace has this id.
    TraceNotFound = "TRACE_NOT_FOUND",

    /// A loop file is invalid.
    LoopInvalid = "LOOP_INVALID",
    /// An agent file is invalid.
    AgentInvalid = "AGENT_INVALID",
    /// No runner of an agent can be used: its client, credential, model or endpoint is missing.
    AgentUnavailable = "AGENT_UNAVAILABLE",
    /// The client of an agent can do more than call the tools of Windlass.
    AgentUnguarded = "AGENT_UNGUARDED",
    /// A packet cannot be read, or its fields contradict each other.
    PacketInvalid = "PACKET_INVALID",
    /// A packet was edited, or belongs to another hold.
    PacketEdited = "PACKET_EDITED",
    /// A task is invalid.
    TaskInvalid = "TASK_INVALID",
    /// A backlog is invalid.
    BacklogInvalid = "BACKLOG_INVALID",
    /// The line of the backlog changed after its item was taken.
    BacklogLineChanged = "BACKLOG_LINE_CHANGED",
    /// The attempt ledger is corrupt.
    LedgerCorrupt = "LEDGER_CORRUPT",

    /// There is no project here.
    ProjectMissing = "PROJECT_MISSING",
    /// There is already a project here.
    ProjectExists = "PROJECT_EXISTS",
    /// The project has been moved, and its state is bound to another place.
    ProjectMoved = "PROJECT_MOVED",
    /// The project is a copy of another, which has the state.
    ProjectCopied = "PROJECT_COPIED",
    /// The project's configuration is not trusted, or has changed since it was.
    ProjectUntrusted = "PROJECT_UNTRUSTED",
    /// The state folder of the project is missing, or its place is unknown.
    StateMissing = "STATE_MISSING",
    /// Others could change the state folder.
    StateUnsafe = "STATE_UNSAFE",
    /// The record that binds a state folder to its project is damaged.
    StateDamaged = "STATE_DAMAGED",
    /// The configuration is invalid.
    ConfigInvalid = "CONFIG_INVALID",
    /// The store cannot be opened, read or written.
    StoreUnavailable = "STORE_UNAVAILABLE",
    /// The store is on a read-only file or disk.
    StoreReadOnly = "STORE_READ_ONLY",
    /// The disk is full.
    StoreFull = "STORE_FULL",
    /// The store was written by a newer version.
    StoreTooNew = "STORE_TOO_NEW",
    /// The file of the store is corrupt or is not a store.
    StoreCorrupt = "STORE_CORRUPT",
    /// Writes that the journal reported as durable are missing.
    StoreTruncated = "STORE_TRUNCATED",
    /// A file of the journal was removed or replaced while it was in use.
    StoreDisplaced = "STORE_DISPLACED",
    /// A file cannot be read or written.
    FileUnreadable = "FILE_UNREADABLE",

    /// The configuration of the driver loop is invalid.
    DriverConfigInvalid = "DRIVER_CONFIG_INVALID",
    /// No model that the intent may use is available.
    DriverModelUnavailable = "DRIVER_MODEL_UNAVAILABLE",
    /// A task needs more calls, retries or tokens than its capability profile allows.
    DriverCapabilityExceeded = "DRIVER_CAPABILITY_EXCEEDED",
    /// The sandbox is not in the recorded state.
    DriverSandboxInconsistent = "DRIVER_SANDBOX_INCONSISTENT",
    /// A task may not save to the project's memory.
    DriverSaveRefused = "DRIVER_SAVE_REFUSED",
    /// The project's memory changed after it was restored.
    DriverMemoryConflict = "DRIVER_MEMORY_CONFLICT",

    /// The workspace does not match the snapshot that the restore starts from.
    WorkspaceChanged = "WORKSPACE_CHANGED",
    /// A snapshot is corrupt.
    SnapshotCorrupt = "SNAPSHOT_CORRUPT",
    /// A snapshot could not be captured, restored, compared or merged.
    SnapshotFailed = "SNAPSHOT_FAILED",
    /// A blob is not in the blob store.
    BlobMissing = "BLOB_MISSING",
    /// A stored blob does not match its digest.
    BlobCorrupt = "BLOB_CORRUPT",
    /// There is no key to sign or to verify with.
    KeyMissing = "KEY_MISSING",
    /// A key file is invalid.
    KeyInvalid = "KEY_INVALID",
    /// A bundle is corrupt or is not a bundle.
    BundleInvalid = "BUNDLE_INVALID",
    /// A bundle or an anchor is signed by a key that is not trusted.
    BundleUntrusted = "BUNDLE_UNTRUSTED",
    /// An anchor is corrupt, or the journal does not match it.
    AnchorInvalid = "ANCHOR_INVALID",

    /// An error in Windlass itself.
    Internal = "INTERNAL",
}

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

canonical_names! { Code }

impl serde::Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> serde::Deserialize<'de> for Code {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::named(&text)
            .ok_or_else(|| serde::de::Error::custom(format!("unknown error code `{text}`")))
    }
}

impl schemars::JsonSchema for Code {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Code".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[A-Z][A-Z_]+$" })
    }
}
