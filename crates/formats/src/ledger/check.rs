//! Checks a ledger line by line, and reports what is valid before the first problem.

use serde_json::Value;
use thiserror::Error;
use windlass_kernel::{Code, Digest, canon};

use super::{
    HEADER_HASH, Header, LEDGER_BYTES_MAX, LEDGER_LINE_BYTES_MAX, LEDGER_SCHEMA_VERSION,
    NextAction, RECORD_HASH, ROLLBACK, Record, RollbackLine, TerminalReason, line_hash,
};
use crate::RunName;

/// The content of a valid ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerSummary {
    /// Its runs, in order.
    pub runs: Vec<RunSummary>,
}

impl LedgerSummary {
    /// The part of a run, if any.
    #[must_use]
    pub fn run(&self, name: &RunName) -> Option<&RunSummary> {
        self.runs.iter().find(|run| &run.run_id == name)
    }

    /// The number of attempts of all runs.
    #[must_use]
    pub fn attempts(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.attempts)).sum()
    }
}

/// The part of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSummary {
    /// The run.
    pub run_id: RunName,
    /// The digest of its policy.
    pub policy_hash: Digest,
    /// The number of attempts.
    pub attempts: u32,
    /// The digest of its last line, to compare with the terminal packet and the journal.
    pub tip: Digest,
    /// The next action of its last attempt; none before the first, and after a rollback.
    pub next_action: Option<NextAction>,
    /// The terminal reason of its last attempt, if any; none after a rollback.
    pub terminal_reason: Option<TerminalReason>,
}

/// A ledger with an invalid line.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {line} of the attempt ledger {problem}; the {} attempt(s) of {} run(s) before it are valid",
    before.attempts(), before.runs.len())]
pub struct LedgerError {
    /// The first invalid line, from 1.
    pub line: usize,
    /// Why it is invalid.
    pub problem: LedgerProblem,
    /// The valid part before it.
    pub before: LedgerSummary,
}

/// Why a line is invalid.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LedgerProblem {
    /// The whole ledger is too large.
    #[error("is not read: the ledger has {bytes} bytes, more than {LEDGER_BYTES_MAX}")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// The line is too long.
    #[error("is longer than {LEDGER_LINE_BYTES_MAX} bytes")]
    LineTooLong,
    /// The last line is incomplete.
    #[error("is incomplete")]
    Torn,
    /// It is neither a header nor a record.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// It is not in canonical form.
    #[error("is not in canonical form, so Windlass did not write it")]
    NotCanonical,
    /// Its schema version is unknown.
    #[error("has the unknown schema version `{0}`")]
    Version(String),
    /// A record of a run has no header before it.
    #[error("is a record of the run `{run}` without a header before it")]
    MissingHeader {
        /// The run.
        run: RunName,
    },
    /// A run has a second header.
    #[error("is a second header of the run `{run}`")]
    HeaderTwice {
        /// The run.
        run: RunName,
    },
    /// The content does not match its digest.
    #[error("was changed: its content has the digest `{actual}`, not `{stated}`")]
    Tampered {
        /// The digest in the line.
        stated: Digest,
        /// The digest of the content.
        actual: Digest,
    },
    /// Its link to the previous line is wrong.
    #[error("is out of order: it names the previous digest `{stated}` instead of `{expected}`")]
    Broken {
        /// The digest of the previous line.
        expected: Digest,
        /// The digest that it names.
        stated: Digest,
    },
    /// Its number is not the next one.
    #[error("has the attempt number {found} instead of {expected}")]
    Number {
        /// The expected number.
        expected: u32,
        /// Its number.
        found: u32,
    },
    /// Its fields contradict each other, or its header.
    #[error("contradicts itself: {0}")]
    Contradiction(&'static str),
}

impl LedgerError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        Code::LedgerCorrupt
    }
}

/// Checks a whole ledger.
///
/// # Errors
/// [`LedgerError`] with the first invalid line and the valid part before it.
pub fn check(bytes: &[u8]) -> Result<LedgerSummary, LedgerError> {
    let mut summary = LedgerSummary::default();
    let fail = |line, problem, before| Err(LedgerError { line, problem, before });
    if bytes.len() > LEDGER_BYTES_MAX {
        return fail(1, LedgerProblem::TooLarge { bytes: bytes.len() }, summary);
    }
    for (number, line) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        let checked = match line.strip_suffix(b"\n") {
            None => Err(LedgerProblem::Torn),
            Some(line) => check_line(line, &mut summary),
        };
        if let Err(problem) = checked {
            return fail(number, problem, summary);
        }
    }
    Ok(summary)
}

fn check_line(line: &[u8], summary: &mut LedgerSummary) -> Result<(), LedgerProblem> {
    if line.len() > LEDGER_LINE_BYTES_MAX {
        return Err(LedgerProblem::LineTooLong);
    }
    let unreadable = |error: String| LedgerProblem::Unreadable(error.chars().take(300).collect());
    let value = canon::parse(line, LEDGER_LINE_BYTES_MAX).map_err(|e| unreadable(e.to_string()))?;
    let canonical = canon::value_to_bytes(&value).map_err(|e| unreadable(e.to_string()))?;
    if canonical != line {
        return Err(LedgerProblem::NotCanonical);
    }
    if value.get("type").and_then(Value::as_str) == Some(ROLLBACK) {
        let line: RollbackLine =
            serde_json::from_value(value.clone()).map_err(|e| unreadable(e.to_string()))?;
        check_hash(&value, RECORD_HASH, line.record_hash)?;
        add_rollback(&line, summary)
    } else if value.get("type").is_some() {
        let header: Header =
            serde_json::from_value(value.clone()).map_err(|e| unreadable(e.to_string()))?;
        check_hash(&value, HEADER_HASH, header.header_hash)?;
        open_run(header, summary)
    } else {
        let record: Record =
            serde_json::from_value(value.clone()).map_err(|e| unreadable(e.to_string()))?;
        check_hash(&value, RECORD_HASH, record.record_hash)?;
        add_record(&record, summary)
    }
}

fn check_hash(line: &Value, field: &str, stated: Digest) -> Result<(), LedgerProblem> {
    let actual =
        line_hash(line, field).map_err(|error| LedgerProblem::Unreadable(error.to_string()))?;
    if actual == stated { Ok(()) } else { Err(LedgerProblem::Tampered { stated, actual }) }
}

fn open_run(header: Header, summary: &mut LedgerSummary) -> Result<(), LedgerProblem> {
    if header.line_type != "header" {
        return Err(LedgerProblem::Contradiction("its type is not `header`"));
    }
    if header.schema_version != LEDGER_SCHEMA_VERSION {
        let version = header.schema_version.chars().take(40).collect();
        return Err(LedgerProblem::Version(version));
    }
    if summary.run(&header.run_id).is_some() {
        return Err(LedgerProblem::HeaderTwice { run: header.run_id });
    }
    summary.runs.push(RunSummary {
        run_id: header.run_id,
        policy_hash: header.policy_hash,
        attempts: 0,
        tip: header.header_hash,
        next_action: None,
        terminal_reason: None,
    });
    Ok(())
}

/// The run of a line that follows the line with the digest `previous`.
fn following<'a>(
    summary: &'a mut LedgerSummary,
    name: &RunName,
    previous: Digest,
) -> Result<&'a mut RunSummary, LedgerProblem> {
    let run = match summary.runs.last_mut() {
        Some(run) if run.run_id == *name => run,
        Some(_) | None => return Err(LedgerProblem::MissingHeader { run: name.clone() }),
    };
    if previous != run.tip {
        return Err(LedgerProblem::Broken { expected: run.tip, stated: previous });
    }
    Ok(run)
}

fn add_rollback(line: &RollbackLine, summary: &mut LedgerSummary) -> Result<(), LedgerProblem> {
    let run = following(summary, &line.run_id, line.prev_record_hash)?;
    run.tip = line.record_hash;
    // The run goes on.
    run.next_action = None;
    run.terminal_reason = None;
    Ok(())
}

fn add_record(record: &Record, summary: &mut LedgerSummary) -> Result<(), LedgerProblem> {
    let run = following(summary, &record.run_id, record.prev_record_hash)?;
    let expected = run.attempts + 1;
    if record.attempt_id != expected {
        return Err(LedgerProblem::Number { expected, found: record.attempt_id });
    }
    if record.policy_hash != run.policy_hash {
        return Err(LedgerProblem::Contradiction("its policy is not that of its header"));
    }
    if record.success == record.failure_class.is_some() {
        return Err(LedgerProblem::Contradiction("a failure has a class, and a success has none"));
    }
    if run.next_action == Some(NextAction::Terminate) {
        return Err(LedgerProblem::Contradiction("its run has ended before"));
    }
    run.attempts = expected;
    run.tip = record.record_hash;
    run.next_action = Some(record.next_action);
    run.terminal_reason = record.terminal_reason;
    Ok(())
}
