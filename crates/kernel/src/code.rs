//! Every public error code, in one place. Each has a page under `docs/errors`.

use std::fmt;

use crate::canon::canonical_names;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal),* $(,)?) => {
        /// A stable error code: the contract with people, scripts and other programs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[$doc])* $variant,)*
        }

        impl Code {
            /// All codes, in the order of this file.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The code as it is written everywhere.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            /// The code written as `text`, if there is one.
            #[must_use]
            pub fn named(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.as_str() == text)
            }
        }
    };
}

codes! {
    /// An entry's transition is not in the machine's table, or does not start at the current state.
    StateInvalidTransition = "STATE_INVALID_TRANSITION",
    /// An entry is missing, repeated or out of order.
    StateSequenceGap = "STATE_SEQUENCE_GAP",
    /// A digest does not match what it covers.
    StateChecksumMismatch = "STATE_CHECKSUM_MISMATCH",
    /// A trace cannot be brought to a state from which it could go on.
    StateRecoveryFailed = "STATE_RECOVERY_FAILED",
    /// Another live process holds the trace.
    StateLockAcquireFailed = "STATE_LOCK_ACQUIRE_FAILED",
    /// The writer no longer holds the trace: another one took it over.
    StateConcurrentExecution = "STATE_CONCURRENT_EXECUTION",

    /// The tool is not in the registry.
    ToolUnclassifiedDenied = "TOOL_UNCLASSIFIED_DENIED",
    /// The call declares another class than the registry's.
    ToolClassDeclarationMismatch = "TOOL_CLASS_DECLARATION_MISMATCH",
    /// The server describes the tool as riskier than the registry does.
    ToolClassMismatch = "TOOL_CLASS_MISMATCH",
    /// A write came without an idempotency key.
    IdempotencyKeyRequired = "IDEMPOTENCY_KEY_REQUIRED",
    /// The key was used before, for another request.
    IdempotencyConflict = "IDEMPOTENCY_CONFLICT",
    /// A document or payload is larger than its limit.
    DocSizeExceeded = "DOC_SIZE_EXCEEDED",

    /// A rule of the policy denies the call, or no rule allows it.
    PolicyDenied = "POLICY_DENIED",
    /// The policy set cannot be used.
    PolicyInvalid = "POLICY_INVALID",
    /// Rules that work is measured by cannot be used.
    GovernanceInvalid = "GOVERNANCE_INVALID",
    /// An argument names a path outside the workspace.
    PathOutsideWorkspace = "PATH_OUTSIDE_WORKSPACE",
    /// An argument holds a value that is known to be a secret.
    SecretInRequest = "SECRET_IN_REQUEST",
    /// A person refused the call.
    DeniedByPerson = "DENIED_BY_PERSON",
    /// The call waits for a person.
    CallOnHold = "CALL_ON_HOLD",
    /// The call has been decided before.
    DecisionAlreadyMade = "DECISION_ALREADY_MADE",

    /// There is no such run.
    RunNotFound = "RUN_NOT_FOUND",
    /// The run has ended.
    RunEnded = "RUN_ENDED",
    /// The run waits for a person.
    RunOnHold = "RUN_ON_HOLD",
    /// The run does not wait for a person.
    RunNotOnHold = "RUN_NOT_ON_HOLD",
    /// The stop switch is on.
    RunStopped = "RUN_STOPPED",
    /// Another run is under way where only one may be.
    RunConcurrent = "RUN_CONCURRENT",
    /// The hold has been answered before.
    HoldAlreadyResolved = "HOLD_ALREADY_RESOLVED",
    /// Nobody answered the hold in time.
    HoldExpired = "HOLD_EXPIRED",
    /// The answer is to something else than what is asked now.
    HoldStale = "HOLD_STALE",
    /// The policy has changed since the run began.
    PolicyChangedMidRun = "POLICY_CHANGED_MID_RUN",
    /// The repository has changes or untracked files.
    RepoDirty = "REPO_DIRTY",
    /// The repository's branch has moved under a run.
    RepoMoved = "REPO_MOVED",
    /// A state of another program cannot be taken over.
    ImportInvalid = "IMPORT_INVALID",
    /// A checkpoint cannot be made, found or gone back to.
    CheckpointUnavailable = "CHECKPOINT_UNAVAILABLE",
    /// There is no repository with a commit.
    RepoMissing = "REPO_MISSING",
    /// There is no such loop.
    LoopNotFound = "LOOP_NOT_FOUND",
    /// A file of recorded answers cannot be used.
    AnswersInvalid = "ANSWERS_INVALID",
    /// A file cannot be written.
    FileUnwritable = "FILE_UNWRITABLE",

    /// Runs could not be sent to the telemetry collector.
    TelemetryUnavailable = "TELEMETRY_UNAVAILABLE",

    /// The tool did not answer in time.
    ToolTimeout = "TOOL_TIMEOUT",
    /// The tool's output is larger than its limit.
    ToolOutputTooLarge = "TOOL_OUTPUT_TOO_LARGE",
    /// The tool's server could not be started or reached, or died.
    ToolServerUnavailable = "TOOL_SERVER_UNAVAILABLE",
    /// The tool's server broke its protocol.
    ToolProtocolError = "TOOL_PROTOCOL_ERROR",
    /// The tool ran and reported a failure.
    ToolFailed = "TOOL_FAILED",
    /// The command could not be confined as it must be, and was not started.
    SandboxUnavailable = "SANDBOX_UNAVAILABLE",
    /// Whether the call took effect could not be found out.
    ToolOutcomeUnknown = "TOOL_OUTCOME_UNKNOWN",
    /// The call was undone after a crash.
    ToolCompensated = "TOOL_COMPENSATED",

    /// The text is not JSON.
    JsonInvalid = "JSON_INVALID",
    /// A JSON object has a key twice.
    JsonDuplicateKey = "JSON_DUPLICATE_KEY",
    /// A JSON number would not survive canonical form.
    JsonNumberUnsafe = "JSON_NUMBER_UNSAFE",
    /// A request or one of its fields is not well formed.
    RequestInvalid = "REQUEST_INVALID",
    /// An id is not a UUID of version 7.
    IdInvalid = "ID_INVALID",
    /// No trace has this id.
    TraceNotFound = "TRACE_NOT_FOUND",

    /// A loop file cannot be used.
    LoopInvalid = "LOOP_INVALID",
    /// An agent file cannot be used.
    AgentInvalid = "AGENT_INVALID",
    /// A packet cannot be read, or its fields contradict each other.
    PacketInvalid = "PACKET_INVALID",
    /// A packet is not as it was written, or belongs to another hold.
    PacketEdited = "PACKET_EDITED",
    /// A task cannot be used.
    TaskInvalid = "TASK_INVALID",
    /// A backlog cannot be used.
    BacklogInvalid = "BACKLOG_INVALID",
    /// The backlog's line is not as it was when its item was taken.
    BacklogLineChanged = "BACKLOG_LINE_CHANGED",
    /// The attempt ledger does not hold together.
    LedgerCorrupt = "LEDGER_CORRUPT",

    /// There is no project here.
    ProjectMissing = "PROJECT_MISSING",
    /// There is a project here already.
    ProjectExists = "PROJECT_EXISTS",
    /// The configuration cannot be used.
    ConfigInvalid = "CONFIG_INVALID",
    /// The store cannot be opened, read or written.
    StoreUnavailable = "STORE_UNAVAILABLE",
    /// The store is on a read-only file or disk.
    StoreReadOnly = "STORE_READ_ONLY",
    /// The disk is full.
    StoreFull = "STORE_FULL",
    /// The store was written by a newer version.
    StoreTooNew = "STORE_TOO_NEW",
    /// The store's file is damaged or is not a store.
    StoreCorrupt = "STORE_CORRUPT",
    /// A file cannot be read or written.
    FileUnreadable = "FILE_UNREADABLE",

    /// The configuration of the driver loop cannot be used.
    DriverConfigInvalid = "DRIVER_CONFIG_INVALID",
    /// No model that the intent may use can be reached.
    DriverModelUnavailable = "DRIVER_MODEL_UNAVAILABLE",
    /// A task needs more calls, retries or tokens than its capability profile allows.
    DriverCapabilityExceeded = "DRIVER_CAPABILITY_EXCEEDED",
    /// The sandbox is not in the state that is recorded.
    DriverSandboxInconsistent = "DRIVER_SANDBOX_INCONSISTENT",
    /// A task may not save to the project's memory.
    DriverSaveRefused = "DRIVER_SAVE_REFUSED",
    /// The project's memory has changed since it was restored.
    DriverMemoryConflict = "DRIVER_MEMORY_CONFLICT",

    /// The workspace is not as the snapshot from which it is to be restored.
    WorkspaceChanged = "WORKSPACE_CHANGED",
    /// A snapshot is damaged.
    SnapshotCorrupt = "SNAPSHOT_CORRUPT",
    /// A snapshot could not be captured, restored, compared or merged.
    SnapshotFailed = "SNAPSHOT_FAILED",
    /// A content is not in the store of contents.
    BlobMissing = "BLOB_MISSING",
    /// A stored content is not what its name says.
    BlobCorrupt = "BLOB_CORRUPT",
    /// There is no key to sign or to check with.
    KeyMissing = "KEY_MISSING",
    /// A key file cannot be used.
    KeyInvalid = "KEY_INVALID",
    /// A bundle is damaged or is not a bundle.
    BundleInvalid = "BUNDLE_INVALID",
    /// A bundle or an anchor is signed by a key that nobody vouches for.
    BundleUntrusted = "BUNDLE_UNTRUSTED",
    /// An anchor is damaged, or the journal is not what the anchor says it was.
    AnchorInvalid = "ANCHOR_INVALID",

    /// A fault of Windlass itself.
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
