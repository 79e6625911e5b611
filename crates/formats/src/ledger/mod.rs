//! The attempt ledger: one line per attempt, chained by digests, for all runs of a project.
//!
//! Each run has a header line and then its attempts. A record names the digest of the line before
//! it, the first one that of its header. The last digest and the number of attempts are in the
//! run's terminal packet too, because a chain does not protect its own end.
//!
//! A rollback has a line of its own. No attempt follows the one that ended its run, unless the run was
//! rolled back in between.

mod build;
mod check;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use windlass_kernel::Digest;

use crate::keyword::keywords;
use crate::{Moment, RunName};

pub use build::{LedgerBuildError, LedgerChain, build};
pub use check::{LedgerError, LedgerProblem, LedgerSummary, RunSummary, check};

/// The schema version of the lines.
pub const LEDGER_SCHEMA_VERSION: &str = "1.0";
/// The largest ledger that is checked.
pub const LEDGER_BYTES_MAX: usize = 64 << 20;
/// The longest line of a ledger.
pub const LEDGER_LINE_BYTES_MAX: usize = 1 << 20;

keywords! {
    /// Why an attempt failed.
    FailureClass {
        /// A test failed.
        TestFailure = "test_failure",
        /// The code could not be parsed.
        SyntaxError = "syntax_error",
        /// It took too long.
        Timeout = "timeout",
        /// A test took too long.
        TestTimeout = "test_timeout",
        /// A check of the result failed.
        ValidationError = "validation_error",
        /// The review refused it.
        ReviewRejection = "review_rejection",
        /// The linter refused it.
        LintError = "lint_error",
        /// A test is flaky.
        TestFlake = "test_flake",
        /// A typing error.
        Typo = "typo",
        /// The format is wrong.
        FormattingError = "formatting_error",
        /// The cause is unknown.
        Unknown = "unknown",
    }
}

keywords! {
    /// Why a run ended.
    TerminalReason {
        /// It succeeded.
        Pass = "pass",
        /// The budget was used up.
        BudgetExhausted = "budget_exhausted",
        /// More lines were changed than allowed.
        DiffBudgetExceeded = "diff_budget_exceeded",
        /// The number of tokens is unknown.
        TokenAccountingUnavailable = "token_accounting_unavailable",
        /// The same change was made twice.
        NoProgress = "no_progress",
        /// Two changes alternated.
        OscillationDetected = "oscillation_detected",
        /// The ledger was invalid.
        LedgerCorrupt = "ledger_corrupt",
        /// The policy changed during the run.
        PolicyChangedMidRun = "policy_changed_mid_run",
        /// The workspace could not be reset.
        WorkspaceResetUnavailable = "workspace_reset_unavailable",
        /// The attempts were used up.
        MaxRetriesExceeded = "max_retries_exceeded",
        /// A failure could not be fixed by another attempt.
        CriticalFailure = "critical_failure",
        /// Another run was in progress.
        ConcurrentRunDetected = "concurrent_run_detected",
        /// A person stopped it.
        KillSwitchActive = "kill_switch_active",
        /// A person rejected it.
        CheckpointRejected = "checkpoint_rejected",
        /// A step failed.
        MissionFailed = "mission_failed",
        /// The review refused it.
        ReviewRejected = "review_rejected",
        /// A gate gave an unknown verdict.
        UnsupportedVerdict = "unsupported_verdict",
        /// The loop has no such step.
        UnknownStep = "unknown_step",
    }
}

keywords! {
    /// The next action after an attempt.
    NextAction {
        /// The run goes on after a success.
        Continue = "continue",
        /// Another attempt.
        Retry = "retry",
        /// The run ends.
        Terminate = "terminate",
        /// A person decides.
        Escalate = "escalate",
        /// A person is asked to waive a rule.
        Waiver = "waiver",
    }
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    /// It succeeded.
    Success,
    /// It failed, and why.
    Failure(FailureClass),
}

/// One attempt of a run; its number and digests are computed by the builder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// When it ended.
    pub timestamp: Moment,
    /// The digest of its input.
    pub input_hash: Digest,
    /// What it did, in order.
    pub actions_taken: Vec<String>,
    /// The digest of its change, if any.
    pub diff_hash: Option<Digest>,
    /// The files it changed.
    pub changed_files: Vec<String>,
    /// The digests of its evidence, by name.
    pub evidence_hashes: BTreeMap<String, Digest>,
    /// Its result.
    pub result: AttemptResult,
    /// Why the run ended with it, if it did.
    pub terminal_reason: Option<TerminalReason>,
    /// The next action.
    pub next_action: NextAction,
    /// The reason for the next action.
    pub rationale: String,
}

/// A rollback of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerRollback {
    /// The person.
    pub by: String,
    /// The name of the checkpoint that was restored.
    pub checkpoint: String,
    /// The reason.
    pub reason: String,
    /// When it was completed.
    pub timestamp: Moment,
}

/// All attempts of one run, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunAttempts {
    /// The run.
    pub run_id: RunName,
    /// The digest of its policy.
    pub policy_hash: Digest,
    /// Its attempts.
    pub attempts: Vec<Attempt>,
}

/// The first line of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    header_hash: Digest,
    policy_hash: Digest,
    run_id: RunName,
    schema_version: String,
    #[serde(rename = "type")]
    line_type: String,
}

/// The line of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    actions_taken: Vec<String>,
    attempt_id: u32,
    changed_files: Vec<String>,
    #[serde(deserialize_with = "present")]
    diff_hash: Option<Digest>,
    evidence_hashes: BTreeMap<String, Digest>,
    #[serde(deserialize_with = "present")]
    failure_class: Option<FailureClass>,
    input_hash: Digest,
    next_action: NextAction,
    policy_hash: Digest,
    prev_record_hash: Digest,
    rationale: String,
    record_hash: Digest,
    run_id: RunName,
    success: bool,
    #[serde(deserialize_with = "present")]
    terminal_reason: Option<TerminalReason>,
    timestamp: Moment,
}

/// The line of a rollback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RollbackLine {
    by: String,
    checkpoint: String,
    prev_record_hash: Digest,
    reason: String,
    record_hash: Digest,
    run_id: RunName,
    timestamp: Moment,
    #[serde(rename = "type")]
    line_type: String,
}

/// Reads a field that may be null but not missing: serde requires a field only if it has a reader.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer)
}

/// The digest of a line: of its canonical JSON without the digest field.
fn line_hash(
    line: &serde_json::Value,
    field: &str,
) -> Result<Digest, windlass_kernel::canon::CanonError> {
    let mut line = line.clone();
    if let Some(map) = line.as_object_mut() {
        map.remove(field);
    }
    windlass_kernel::canon::digest(&line)
}

const HEADER_HASH: &str = "header_hash";
const RECORD_HASH: &str = "record_hash";
/// The type of a rollback's line.
const ROLLBACK: &str = "rollback";
