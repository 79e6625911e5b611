//! The exit code of each error code.

use windlass_kernel::Code;

/// The exit code of an error code.
pub const fn exit_of(code: Code) -> u8 {
    match code {
        Code::StateInvalidTransition
        | Code::StateSequenceGap
        | Code::MissingToolCallId
        | Code::StateChecksumMismatch
        | Code::StoreCorrupt
        | Code::StoreTruncated
        | Code::BlobCorrupt
        | Code::BundleInvalid
        | Code::AnchorInvalid
        | Code::SnapshotCorrupt
        | Code::StateDamaged
        | Code::LedgerCorrupt => 5,
        Code::CallOnHold
        | Code::ToolOutcomeUnknown
        | Code::RunOnHold
        | Code::MergeConflict
        | Code::SetupFailed
        | Code::DriverMemoryConflict => 4,
        Code::Interrupted => 130,
        Code::ToolUnclassifiedDenied
        | Code::ToolClassDeclarationMismatch
        | Code::ToolClassMismatch
        | Code::ToolDefinitionChanged
        | Code::IdempotencyKeyRequired
        | Code::IdempotencyConflict
        | Code::PolicyDenied
        | Code::PathOutsideWorkspace
        | Code::SecretInRequest
        | Code::SecretUnknown
        | Code::SecretUndeclared
        | Code::SecretUnavailable
        | Code::CallsRepeated
        | Code::DenialsRepeated
        | Code::NetworkRefused
        | Code::DeniedByPerson
        | Code::CallOfRun
        | Code::HoldExpired
        | Code::HoldStale
        | Code::PersonUnknown
        | Code::PersonLocked
        | Code::ApproverNotCounted
        | Code::GrantEnded
        | Code::GrantTooWide
        | Code::HoldAlreadyResolved
        | Code::PolicyChangedMidRun
        | Code::RepoDirty
        | Code::RepoMoved
        | Code::RunNotPassed
        | Code::ChangeUnreviewed
        | Code::PinnedUnavailable
        | Code::WorkspaceChanged
        | Code::RunStopped
        | Code::BundleUntrusted
        | Code::ProjectUntrusted
        | Code::AgentUnguarded
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
        | Code::ProjectMoved
        | Code::ProjectCopied
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
        | Code::GrantNotFound
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
        | Code::AgentUnavailable
        | Code::ToolProtocolError
        | Code::ToolFailed
        | Code::ToolCompensated
        | Code::SandboxUnavailable
        | Code::LimitProcesses
        | Code::LimitMemory
        | Code::LimitFileSize
        | Code::LimitOpenFiles
        | Code::ProtectedPathChanged
        | Code::HelperMissing
        | Code::GitFilterRefused
        | Code::GitUnrecordable
        | Code::GitDamaged
        | Code::GitConflict
        | Code::StateMissing
        | Code::StateUnsafe
        | Code::NetworkUnreachable
        | Code::StoreUnavailable
        | Code::StoreReadOnly
        | Code::StoreFull
        | Code::StoreTooNew
        | Code::StoreDisplaced
        | Code::RunEnded
        | Code::RunNotOnHold
        | Code::CheckpointUnavailable
        | Code::SnapshotFailed
        | Code::RunConcurrent
        | Code::PortUnavailable
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
