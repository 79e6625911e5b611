//! Writes the whole ledger from all runs.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use thiserror::Error;
use windlass_kernel::Digest;
use windlass_kernel::canon::{self, CanonError};

use super::{
    Attempt, AttemptResult, HEADER_HASH, LEDGER_BYTES_MAX, LEDGER_LINE_BYTES_MAX,
    LEDGER_SCHEMA_VERSION, LedgerRollback, NextAction, RECORD_HASH, ROLLBACK, RunAttempts,
    line_hash,
};
use crate::RunName;

/// Why a ledger cannot be written.
#[derive(Debug, Error)]
pub enum LedgerBuildError {
    /// A run appears twice.
    #[error("the run `{0}` appears twice")]
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

/// Writes the ledger of these runs, in this order. The same runs always give the same bytes.
///
/// # Errors
/// [`LedgerBuildError`] when the runs are contradictory or too large.
pub fn build(runs: &[RunAttempts]) -> Result<Vec<u8>, LedgerBuildError> {
    let mut out = Vec::new();
    let mut seen = BTreeSet::new();
    for run in runs {
        if !seen.insert(&run.run_id) {
            return Err(LedgerBuildError::RunTwice(run.run_id.to_string()));
        }
        let (mut chain, header) = LedgerChain::begin(&run.run_id, run.policy_hash)?;
        push(&mut out, &header)?;
        for attempt in &run.attempts {
            push(&mut out, &chain.add(attempt)?)?;
        }
    }
    Ok(out)
}

/// Builds the lines of one run.
#[derive(Clone, Debug)]
pub struct LedgerChain {
    run_id: RunName,
    policy_hash: Digest,
    tip: Digest,
    attempts: u32,
    ended: bool,
}

impl LedgerChain {
    /// Starts a run; returns its header line too, which ends with a line feed.
    ///
    /// # Errors
    /// [`LedgerBuildError`] when the header has no canonical form.
    pub fn begin(
        run_id: &RunName,
        policy_hash: Digest,
    ) -> Result<(Self, Vec<u8>), LedgerBuildError> {
        let header = json!({
            "type": "header",
            "schema_version": LEDGER_SCHEMA_VERSION,
            "policy_hash": policy_hash,
            "run_id": run_id,
        });
        let (tip, line) = sealed(header, HEADER_HASH)?;
        let run_id = run_id.clone();
        Ok((Self { run_id, policy_hash, tip, attempts: 0, ended: false }, line))
    }

    /// Adds an attempt; returns its line, which ends with a line feed.
    ///
    /// # Errors
    /// [`LedgerBuildError`] when the run has already ended, or the line is too long.
    pub fn add(&mut self, attempt: &Attempt) -> Result<Vec<u8>, LedgerBuildError> {
        let number = self.attempts.saturating_add(1);
        let run = || self.run_id.to_string();
        if self.ended {
            return Err(LedgerBuildError::AfterTheEnd { run: run(), attempt: number });
        }
        let (digest, line) = sealed(self.record(attempt, number), RECORD_HASH)?;
        if line.len() > LEDGER_LINE_BYTES_MAX + 1 {
            let bytes = line.len() - 1;
            return Err(LedgerBuildError::LineTooLong { run: run(), attempt: number, bytes });
        }
        self.ended = attempt.next_action == NextAction::Terminate;
        (self.tip, self.attempts) = (digest, number);
        Ok(line)
    }

    /// Adds a rollback, after which attempts may follow again; returns its line, which ends with a line
    /// feed.
    ///
    /// # Errors
    /// [`LedgerBuildError`] when the line has no canonical form.
    pub fn roll_back(&mut self, rollback: &LedgerRollback) -> Result<Vec<u8>, LedgerBuildError> {
        let line = json!({
            "type": ROLLBACK,
            "by": rollback.by,
            "checkpoint": rollback.checkpoint,
            "prev_record_hash": self.tip,
            "reason": rollback.reason,
            "run_id": self.run_id,
            "timestamp": rollback.timestamp,
        });
        let (digest, line) = sealed(line, RECORD_HASH)?;
        (self.tip, self.ended) = (digest, false);
        Ok(line)
    }

    /// The digest of the last line.
    #[must_use]
    pub const fn tip(&self) -> Digest {
        self.tip
    }

    /// The number of attempts.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    fn record(&self, attempt: &Attempt, number: u32) -> Value {
        let class = match attempt.result {
            AttemptResult::Success => None,
            AttemptResult::Failure(class) => Some(class),
        };
        json!({
            "attempt_id": number,
            "timestamp": attempt.timestamp,
            "run_id": self.run_id,
            "policy_hash": self.policy_hash,
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
            "prev_record_hash": self.tip,
        })
    }
}

/// A line with its digest.
fn sealed(mut line: Value, field: &str) -> Result<(Digest, Vec<u8>), LedgerBuildError> {
    let digest = line_hash(&line, field).map_err(LedgerBuildError::Canon)?;
    if let Some(map) = line.as_object_mut() {
        map.insert(field.to_owned(), json!(digest));
    }
    let mut line = canon::value_to_bytes(&line).map_err(LedgerBuildError::Canon)?;
    line.push(b'\n');
    Ok((digest, line))
}

fn push(out: &mut Vec<u8>, line: &[u8]) -> Result<(), LedgerBuildError> {
    out.extend_from_slice(line);
    if out.len() > LEDGER_BYTES_MAX { Err(LedgerBuildError::TooLarge) } else { Ok(()) }
}
