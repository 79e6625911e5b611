//! The files of a run as bytes, and the backlog.
//!
//! Packets, step summaries and the attempt ledger are projections of the journal for people and
//! their programs: the same content always gives the same bytes, with sorted keys. They are never
//! read back to decide anything; reading them here only tells whether they are still as written.
//!
//! Nothing here opens a file, reads a clock or draws a random number: bytes and times come in as
//! arguments, and paths go out as text.

pub mod backlog;
mod fields;
mod ledger;
mod moment;
mod name;
mod packet;
mod step;
mod task;
mod v1;
mod word;
pub mod yaml;

pub use fields::FieldError;
pub use ledger::{
    Attempt, AttemptResult, FailureClass, LEDGER_BYTES_MAX, LEDGER_LINE_BYTES_MAX,
    LEDGER_SCHEMA_VERSION, LedgerBuildError, LedgerChain, LedgerError, LedgerFault, LedgerSummary,
    NextAction, RunAttempts, RunSummary, TerminalReason, build as build_ledger,
    check as check_ledger,
};
pub use moment::{Moment, MomentError};
pub use name::{CheckpointId, LEDGER_PATH, NameError, RunName, STEP_CHARS_MAX, StepKey};
pub use packet::{
    Approval, Decision, GateResult, HoldPacket, Outcome, PACKET_BYTES_MAX, PacketError,
    PhaseStatus, Resolution, RunStatus, TerminalPacket, read_hold, read_hold_of, read_terminal,
};
pub use step::{STEP_BYTES_MAX, StepError, StepOutcome, StepSummary};
pub use task::{
    Constraints, TASK_BYTES_MAX, TASK_CHARS_MAX, TASK_PATH_BYTES_MAX, TASK_REF_CHARS_MAX,
    TASK_REFS_MAX, TASK_SCOPE_CHARS_MAX, TaskError, TaskInput, TaskSpec, detect as detect_task,
};
pub use v1::{V1_BYTES_MAX, V1Error, V1State, V1Status};
pub use word::UnknownWord;
