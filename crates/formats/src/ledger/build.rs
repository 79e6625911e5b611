//! Writes the whole ledger from all runs.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use thiserror::Error;
use windlass_kernel::canon::{self, CanonError};
use windlass_kernel::{Code, Digest};

use super::{
    Attempt, AttemptResult, HEADER_HASH, LEDGER_BYTES_MAX, LEDGER_LINE_BYTES_MAX,
    LEDGER_SCHEMA_VERSION, NextAction, RECORD_HASH, RunAttempts, line_hash,
};

/// A ledger that cannot be written.
#[derive(Debug, Error)]
pub enum LedgerBuildError {
    /// A run comes twice.
    #[error("the run `{0}` comes twice")]
    RunTwice(String),
    /// An attempt after the one that ended its run.
    #[error("attempt {attempt} of the run `{run}` follows the one that ended it")]
    AfterTheEnd {
        /// The run.
        run: String,
        /// The attempt.
        attempt: u32,
    },
    /// A line is too long.
    #[error(
        "attempt {attempt} of the run `{run}` takes {bytes} bytes, more than {LEDGER_LINE_BYTES_MAX}"
    )]
    LineTooLong {
        /// The run.
        run: String,
        /// The attempt.
        attempt: u32,
        /// The length of its line.
        bytes: usize,
    },
    /// The whole is too large.
    #[error("the ledger would be larger than {LEDGER_BYTES_MAX} bytes")]
    TooLarge,
    /// A line has no canonical form.
    #[error("a line of the ledger cannot be written")]
    Canon(#[source] CanonError),
}

impl LedgerBuildError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        Code::LedgerCorrupt
    }

    /// What to do about it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::RunTwice(_) | Self::AfterTheEnd { .. } | Self::Canon(_) => {
                "verify the journal that the ledger is written from"
            }
            Self::LineTooLong { .. } | Self::TooLarge => "purge old runs",
        }
    }
}

/// Writes the ledger of these runs, in this order. The same runs always give the same bytes.
///
/// # Errors
/// [`LedgerBuildError`] when the runs cannot be, or do not fit.
pub fn build(runs: &[RunAttempts]) -> Result<Vec<u8>, LedgerBuildError> {
    let mut out = Vec::new();
    let mut seen = BTreeSet::new();
    for run in runs {
        if !seen.insert(&run.run_id) {
            return Err(LedgerBuildError::RunTwice(run.run_id.to_string()));
        }
        let header = json!({
            "type": "header",
            "schema_version": LEDGER_SCHEMA_VERSION,
            "policy_hash": run.policy_hash,
            "run_id": run.run_id,
        });
        let (mut previous, line) = sealed(header, HEADER_HASH)?;
        push(&mut out, &line)?;
        let mut ended = false;
        for (attempt, number) in run.attempts.iter().zip(1_u32..) {
            if ended {
                let run = run.run_id.to_string();
                return Err(LedgerBuildError::AfterTheEnd { run, attempt: number });
            }
            ended = attempt.next_action == NextAction::Terminate;
            let (digest, line) = sealed(record(run, attempt, number, previous), RECORD_HASH)?;
            if line.len() > LEDGER_LINE_BYTES_MAX {
                let (run, bytes) = (run.run_id.to_string(), line.len());
                return Err(LedgerBuildError::LineTooLong { run, attempt: number, bytes });
            }
            push(&mut out, &line)?;
            previous = digest;
        }
    }
    Ok(out)
}

fn record(run: &RunAttempts, attempt: &Attempt, number: u32, previous: Digest) -> Value {
    let class = match attempt.result {
        AttemptResult::Success => None,
        AttemptResult::Failure(class) => Some(class),
    };
    json!({
        "attempt_id": number,
        "timestamp": attempt.timestamp,
        "run_id": run.run_id,
        "policy_hash": run.policy_hash,
        "input_hash": attempt.input_hash,
        "actions_taken": attempt.actions_taken,
        "diff_hash": attempt.diff_hash,
        "changed_files": attempt.changed_files,
        "evidence_hashes": attempt.evidence_hashes,
        "success": class.is_none(),
        "failure_class": class,
        "terminal_reason": attempt.terminal_reason,
        "next_action": attempt.next_action,
        "rationale": attempt.rationale,
        "prev_record_hash": previous,
    })
}

/// A line with its digest.
fn sealed(mut line: Value, field: &str) -> Result<(Digest, Vec<u8>), LedgerBuildError> {
    let digest = line_hash(&line, field).map_err(LedgerBuildError::Canon)?;
    if let Some(map) = line.as_object_mut() {
        map.insert(field.to_owned(), json!(digest));
    }
    Ok((digest, canon::value_to_bytes(&line).map_err(LedgerBuildError::Canon)?))
}

fn push(out: &mut Vec<u8>, line: &[u8]) -> Result<(), LedgerBuildError> {
    out.extend_from_slice(line);
    out.push(b'\n');
    if out.len() > LEDGER_BYTES_MAX { Err(LedgerBuildError::TooLarge) } else { Ok(()) }
}
