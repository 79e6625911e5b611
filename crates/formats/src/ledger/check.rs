//! Checks a ledger's bytes line by line, and reports all that holds before the first fault.

use serde_json::Value;
use thiserror::Error;
use windlass_kernel::{Code, Digest, canon};

use super::{
    HEADER_HASH, Header, LEDGER_BYTES_MAX, LEDGER_LINE_BYTES_MAX, LEDGER_SCHEMA_VERSION,
    NextAction, RECORD_HASH, Record, TerminalReason, line_hash,
};
use crate::RunName;

/// What a ledger holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerSummary {
    /// Its runs, in order.
    pub runs: Vec<RunSummary>,
}

impl LedgerSummary {
    /// A run's part, if it has one.
    #[must_use]
    pub fn run(&self, name: &RunName) -> Option<&RunSummary> {
        self.runs.iter().find(|run| &run.run_id == name)
    }

    /// How many attempts all runs have together.
    #[must_use]
    pub fn attempts(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.attempts)).sum()
    }
}

/// What a ledger holds of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSummary {
    /// The run.
    pub run_id: RunName,
    /// The digest of its policy.
    pub policy_hash: Digest,
    /// How many attempts it has.
    pub attempts: u32,
    /// The digest of its last line, to compare with the terminal packet and the journal.
    pub tip: Digest,
    /// What follows from its last attempt, if it has one.
    pub next_action: Option<NextAction>,
    /// The reason that its last attempt gives for an end, if it gives one.
    pub terminal_reason: Option<TerminalReason>,
}

/// A ledger that does not hold together.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {line} of the attempt ledger {fault}; the {} attempt(s) of {} run(s) before it hold",
    before.attempts(), before.runs.len())]
pub struct LedgerError {
    /// The first line that does not hold, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub fault: LedgerFault,
    /// What holds before it.
    pub before: LedgerSummary,
}

/// What is wrong with a line.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LedgerFault {
    /// The whole ledger is too large.
    #[error("is not read, since the ledger is {bytes} bytes long, more than {LEDGER_BYTES_MAX}")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// The line is too long.
    #[error("is longer than {LEDGER_LINE_BYTES_MAX} bytes")]
    LineTooLong,
    /// The last line was not written to its end.
    #[error("is torn: it was not written to its end")]
    Torn,
    /// It is no header and no record.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// It is not written as the ledger writes.
    #[error("is not in canonical form, so it was not written by the ledger")]
    NotCanonical,
    /// It is of a version that is not known.
    #[error("has the schema version `{0}`, which is not known")]
    Version(String),
    /// A record of a run has no header before it.
    #[error("is a record of the run `{run}`, whose header does not stand before it")]
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
    /// The content does not have the digest that it states.
    #[error("was changed: its content has the digest `{actual}`, not `{stated}`")]
    Tampered {
        /// What it states.
        stated: Digest,
        /// What it is.
        actual: Digest,
    },
    /// It does not follow from the line before it.
    #[error("is out of place: it follows the digest `{stated}`, and `{expected}` is before it")]
    Broken {
        /// The digest before it.
        expected: Digest,
        /// The digest that it names.
        stated: Digest,
    },
    /// Its number is not the next one.
    #[error("has the attempt number {found}, and {expected} is next")]
    Number {
        /// The next number.
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

    /// What to do about it.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        "keep the file apart; the ledger is written anew from the journal"
    }
}

/// Checks a whole ledger.
///
/// # Errors
/// [`LedgerError`] with the first line that does not hold, and all that holds before it.
pub fn check(bytes: &[u8]) -> Result<LedgerSummary, LedgerError> {
    let mut summary = LedgerSummary::default();
    let fail = |line, fault, before| Err(LedgerError { line, fault, before });
    if bytes.len() > LEDGER_BYTES_MAX {
        return fail(1, LedgerFault::TooLarge { bytes: bytes.len() }, summary);
    }
    for (number, line) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        let checked = match line.strip_suffix(b"\n") {
            None => Err(LedgerFault::Torn),
            Some(line) => check_line(line, &mut summary),
        };
        if let Err(fault) = checked {
            return fail(number, fault, summary);
        }
    }
    Ok(summary)
}

fn check_line(line: &[u8], summary: &mut LedgerSummary) -> Result<(), LedgerFault> {
    if line.len() > LEDGER_LINE_BYTES_MAX {
        return Err(LedgerFault::LineTooLong);
    }
    let unreadable = |error: String| LedgerFault::Unreadable(error.chars().take(300).collect());
    let value = canon::parse(line, LEDGER_LINE_BYTES_MAX).map_err(|e| unreadable(e.to_string()))?;
    let canonical = canon::value_to_bytes(&value).map_err(|e| unreadable(e.to_string()))?;
    if canonical != line {
        return Err(LedgerFault::NotCanonical);
    }
    if value.get("type").is_some() {
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

fn check_hash(line: &Value, field: &str, stated: Digest) -> Result<(), LedgerFault> {
    let actual =
        line_hash(line, field).map_err(|error| LedgerFault::Unreadable(error.to_string()))?;
    if actual == stated { Ok(()) } else { Err(LedgerFault::Tampered { stated, actual }) }
}

fn open_run(header: Header, summary: &mut LedgerSummary) -> Result<(), LedgerFault> {
    if header.line_type != "header" {
        return Err(LedgerFault::Contradiction("its type is not `header`"));
    }
    if header.schema_version != LEDGER_SCHEMA_VERSION {
        let version = header.schema_version.chars().take(40).collect();
        return Err(LedgerFault::Version(version));
    }
    if summary.run(&header.run_id).is_some() {
        return Err(LedgerFault::HeaderTwice { run: header.run_id });
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

fn add_record(record: &Record, summary: &mut LedgerSummary) -> Result<(), LedgerFault> {
    let run = match summary.runs.last_mut() {
        Some(run) if run.run_id == record.run_id => run,
        Some(_) | None => {
            return Err(LedgerFault::MissingHeader { run: record.run_id.clone() });
        }
    };
    if record.prev_record_hash != run.tip {
        let (expected, stated) = (run.tip, record.prev_record_hash);
        return Err(LedgerFault::Broken { expected, stated });
    }
    let expected = run.attempts + 1;
    if record.attempt_id != expected {
        return Err(LedgerFault::Number { expected, found: record.attempt_id });
    }
    if record.policy_hash != run.policy_hash {
        return Err(LedgerFault::Contradiction("its policy is not that of its header"));
    }
    if record.success == record.failure_class.is_some() {
        return Err(LedgerFault::Contradiction("a failure has a class, and a success has none"));
    }
    if run.next_action == Some(NextAction::Terminate) {
        return Err(LedgerFault::Contradiction("its run has ended before"));
    }
    run.attempts = expected;
    run.tip = record.record_hash;
    run.next_action = Some(record.next_action);
    run.terminal_reason = record.terminal_reason;
    Ok(())
}
