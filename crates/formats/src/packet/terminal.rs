//! The terminal packet: how a run ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use windlass_kernel::Digest;

use super::{HASH, PacketError, check_hash, keywords, open, put, seal};
use crate::fields::{FieldError, Fields};
use crate::{Moment, RunName, StepKey};

keywords! {
    /// How a run ended.
    Outcome {
        /// It succeeded.
        Pass = "PASS",
        /// It was stopped.
        Blocked = "BLOCKED",
        /// A person must waive a rule.
        WaiverRequested = "WAIVER_REQUESTED",
        /// A person must decide.
        EscalationRequested = "ESCALATION_REQUESTED",
    }
}

keywords! {
    /// Whether a run succeeded.
    RunStatus {
        /// It succeeded.
        Success = "SUCCESS",
        /// It failed and left nothing behind.
        CleanFail = "CLEAN_FAIL",
    }
}

keywords! {
    /// The status of a phase when its run ended.
    PhaseStatus {
        /// It had not started.
        Pending = "pending",
        /// It was in progress.
        Running = "running",
        /// It was completed.
        Complete = "complete",
        /// It failed.
        Failed = "failed",
        /// It was skipped.
        Skipped = "skipped",
        /// It was rolled back.
        Archived = "archived",
    }
}

/// The result of one gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateResult {
    /// The gate.
    pub name: String,
    /// Whether the run could continue.
    pub pass: bool,
    /// The phase that it judges.
    pub phase: String,
    /// Why.
    pub reason: String,
}

/// The terminal packet of a run.
///
/// The fields of the first block are always written; those of the second only when they are set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminalPacket {
    /// The run.
    pub run_id: RunName,
    /// The packet's timestamp.
    pub timestamp: Moment,
    /// How the run ended.
    pub outcome: Outcome,
    /// Why, such as `pass` or `policy_changed_mid_run`.
    pub reason: String,
    /// The steps that were executed, in order.
    pub steps_executed: Vec<String>,
    /// The commit of the run, if any.
    pub commit_hash: Option<String>,

    /// Whether it succeeded.
    pub status: Option<RunStatus>,
    /// When the run started.
    pub start_ts: Option<Moment>,
    /// When it ended.
    pub end_ts: Option<Moment>,
    /// The reference of the task.
    pub task_ref: Option<String>,
    /// The digest of the run's policy.
    pub policy_hash: Option<Digest>,
    /// The status of each phase.
    pub phase_outcomes: BTreeMap<StepKey, PhaseStatus>,
    /// The results of the gates, in order.
    pub gate_results: Vec<GateResult>,
    /// Whether the repository was clean.
    pub repo_clean_verified: Option<bool>,
    /// How many tokens it used.
    pub tokens_consumed: Option<u64>,
    /// Whether every invocation reported its tokens.
    pub token_accounting_complete: Option<bool>,
    /// The digest of the run's last line in the attempt ledger.
    pub ledger_chain_tip: Option<Digest>,
    /// The number of attempts of the run in the ledger.
    pub ledger_attempt_count: Option<u32>,
    /// The tests, scripts and build settings that the run has changed.
    pub changed_tests_and_scripts: Vec<String>,
    /// More about the reason, for people: such as who gave the run up, and why.
    pub detail: Option<String>,
}

const FIELDS: [&str; 21] = [
    "changed_tests_and_scripts",
    "commit_hash",
    "detail",
    "end_ts",
    "gate_results",
    "ledger_attempt_count",
    "ledger_chain_tip",
    "outcome",
    HASH,
    "phase_outcomes",
    "policy_hash",
    "reason",
    "repo_clean_verified",
    "run_id",
    "start_ts",
    "status",
    "steps_executed",
    "task_ref",
    "timestamp",
    "token_accounting_complete",
    "tokens_consumed",
];

impl TerminalPacket {
    /// A packet with the required fields.
    #[must_use]
    pub fn new(run_id: RunName, timestamp: Moment, outcome: Outcome, reason: &str) -> Self {
        Self {
            run_id,
            timestamp,
            outcome,
            reason: reason.to_owned(),
            steps_executed: Vec::new(),
            commit_hash: None,
            status: None,
            start_ts: None,
            end_ts: None,
            task_ref: None,
            policy_hash: None,
            phase_outcomes: BTreeMap::new(),
            gate_results: Vec::new(),
            repo_clean_verified: None,
            tokens_consumed: None,
            token_accounting_complete: None,
            ledger_chain_tip: None,
            ledger_attempt_count: None,
            changed_tests_and_scripts: Vec::new(),
            detail: None,
        }
    }

    /// The packet's file as bytes: sorted keys, with `packet_hash`.
    ///
    /// # Errors
    /// [`PacketError`] when a number cannot be written, or the packet is too large.
    pub fn to_bytes(&self) -> Result<Vec<u8>, PacketError> {
        let mut map = Map::new();
        for (field, value) in [
            ("commit_hash", json!(self.commit_hash)),
            ("outcome", json!(self.outcome)),
            ("reason", json!(self.reason)),
            ("run_id", json!(self.run_id)),
            ("steps_executed", json!(self.steps_executed)),
            ("timestamp", json!(self.timestamp)),
        ] {
            map.insert(field.to_owned(), value);
        }
        put(&mut map, "status", self.status);
        put(&mut map, "start_ts", self.start_ts);
        put(&mut map, "end_ts", self.end_ts);
        put(&mut map, "task_ref", self.task_ref.as_ref());
        put(&mut map, "detail", self.detail.as_ref());
        put(&mut map, "policy_hash", self.policy_hash);
        put(&mut map, "repo_clean_verified", self.repo_clean_verified);
        put(&mut map, "tokens_consumed", self.tokens_consumed);
        put(&mut map, "token_accounting_complete", self.token_accounting_complete);
        put(&mut map, "ledger_chain_tip", self.ledger_chain_tip);
        put(&mut map, "ledger_attempt_count", self.ledger_attempt_count);
        put(&mut map, "gate_results", Some(&self.gate_results).filter(|all| !all.is_empty()));
        put(
            &mut map,
            "changed_tests_and_scripts",
            Some(&self.changed_tests_and_scripts).filter(|all| !all.is_empty()),
        );
        if !self.phase_outcomes.is_empty() {
            let phases = self.phase_outcomes.iter();
            let phases =
                phases.map(|(step, status)| (step.to_string(), json!({ "status": status })));
            map.insert("phase_outcomes".to_owned(), phases.collect());
        }
        seal(map)
    }
}

/// Parses a terminal packet and checks its digest.
///
/// # Errors
/// [`PacketError`] when it is malformed or was changed.
pub fn read_terminal(bytes: &[u8]) -> Result<TerminalPacket, PacketError> {
    let value = open(bytes)?;
    let fields = Fields::new(&value, "", &FIELDS)?;
    let packet = TerminalPacket {
        run_id: fields.must("run_id", Fields::parsed)?,
        timestamp: fields.must("timestamp", Fields::parsed)?,
        outcome: fields.must("outcome", Fields::parsed)?,
        reason: fields.must("reason", Fields::text)?.to_owned(),
        steps_executed: fields.must("steps_executed", Fields::texts)?,
        commit_hash: fields.nullable("commit_hash", Fields::text)?.map(str::to_owned),
        status: fields.maybe("status", Fields::parsed)?,
        start_ts: fields.maybe("start_ts", Fields::parsed)?,
        end_ts: fields.maybe("end_ts", Fields::parsed)?,
        task_ref: fields.maybe("task_ref", Fields::text)?.map(str::to_owned),
        policy_hash: fields.maybe("policy_hash", Fields::parsed)?,
        phase_outcomes: phase_outcomes(&fields)?,
        gate_results: gate_results(&fields)?,
        repo_clean_verified: fields.maybe("repo_clean_verified", Fields::flag)?,
        tokens_consumed: fields.maybe("tokens_consumed", Fields::count)?,
        token_accounting_complete: fields.maybe("token_accounting_complete", Fields::flag)?,
        ledger_chain_tip: fields.maybe("ledger_chain_tip", Fields::parsed)?,
        ledger_attempt_count: fields.maybe("ledger_attempt_count", Fields::count)?,
        changed_tests_and_scripts: fields
            .maybe("changed_tests_and_scripts", Fields::texts)?
            .unwrap_or_default(),
        detail: fields.maybe("detail", Fields::text)?.map(str::to_owned),
    };
    check_hash(&value, fields.must(HASH, Fields::parsed)?)?;
    Ok(packet)
}

fn phase_outcomes(fields: &Fields<'_>) -> Result<BTreeMap<StepKey, PhaseStatus>, FieldError> {
    let mut phases = BTreeMap::new();
    for (step, value) in fields.maybe("phase_outcomes", Fields::object)?.unwrap_or_default() {
        let key: StepKey = step.parse().map_err(|error: crate::NameError| {
            fields.invalid("phase_outcomes", error.to_string())
        })?;
        let phase = Fields::new(&value, &format!("phase_outcomes.{step}."), &["status"])?;
        phases.insert(key, phase.must("status", Fields::parsed)?);
    }
    Ok(phases)
}

fn gate_results(fields: &Fields<'_>) -> Result<Vec<GateResult>, FieldError> {
    const KNOWN: [&str; 4] = ["name", "pass", "phase", "reason"];
    let items = fields.maybe("gate_results", Fields::list)?.unwrap_or_default();
    let gate = |(at, item)| {
        let gate = Fields::new(item, &format!("gate_results[{at}]."), &KNOWN)?;
        Ok(GateResult {
            name: gate.must("name", Fields::text)?.to_owned(),
            pass: gate.must("pass", Fields::flag)?,
            phase: gate.must("phase", Fields::text)?.to_owned(),
            reason: gate.must("reason", Fields::text)?.to_owned(),
        })
    };
    items.iter().enumerate().map(gate).collect()
}
