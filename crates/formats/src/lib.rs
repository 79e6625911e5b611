//! The formats of a run's files, of task files, of the backlog, of the core loop's documents, and of calls as
//! other programs have them.
//!
//! Packets, step summaries and the attempt ledger are projections of the journal for people and
//! their programs: the same content always gives the same bytes, with sorted keys. Nothing is ever
//! decided by reading them; they are read here only to check that they are unchanged.
//!
//! Nothing here opens a file, reads a clock or generates a random number.

pub mod backlog;
pub mod core;
mod fields;
mod keyword;
mod ledger;
mod moment;
mod name;
mod packet;
mod step;
mod task;
pub mod tga;
mod v1;
pub mod yaml;

pub use fields::FieldError;
pub use keyword::UnknownKeyword;
pub use ledger::{
    Attempt, AttemptResult, FailureClass, LEDGER_BYTES_MAX, LEDGER_LINE_BYTES_MAX,
    LEDGER_SCHEMA_VERSION, LedgerBuildError, LedgerChain, LedgerError, LedgerProblem,
    LedgerRollback, LedgerSummary, NextAction, RunAttempts, RunSummary, TerminalReason,
    build as build_ledger, check as check_ledger,
};
pub use moment::{Moment, MomentError};
pub use name::{
    CheckpointId, LEDGER_PATH, NameError, RunName, STEP_CHARS_MAX, StepKey, closed_ledger_number,
    closed_ledger_path,
};
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
