//! The packet of a hold and its resolution.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use windlass_kernel::Digest;

use super::{HASH, PacketError, check_hash, keywords, open, put, seal};
use crate::fields::{FieldError, Fields};
use crate::{CheckpointId, Moment, RunName};

keywords! {
    /// The decision on a hold.
    Decision {
        /// The run continues.
        Approved = "APPROVED",
        /// The run ends.
        Rejected = "REJECTED",
    }
}

/// The resolution of a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// The decision.
    pub decision: Decision,
    /// Who gave it.
    pub by: Option<String>,
    /// When.
    pub at: Option<Moment>,
    /// Why.
    pub reason: Option<String>,
}

/// One of several approvals that a hold needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// When it was given.
    pub at: Moment,
    /// Who gave it.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// The packet of a hold.
///
/// The fields of the first block are always written; those of the second only when they are set.
#[derive(Clone, Debug, PartialEq)]
pub struct HoldPacket {
    /// The hold's id; its run is written as `run_id` too.
    pub checkpoint_id: CheckpointId,
    /// When the hold began.
    pub timestamp: Moment,
    /// Why, such as `ESCALATION_REQUESTED`.
    pub trigger: String,
    /// The step at which the run continues.
    pub step_index: u32,
    /// The digest of the run's policy.
    pub policy_hash: Digest,
    /// The task as it was given.
    pub task_spec: Map<String, Value>,
    /// The resolution; without one, `resolved` is false and `resolution_decision` null.
    pub resolution: Option<Resolution>,

    /// The name of the step.
    pub step_name: Option<String>,
    /// The digest of the content that a person decides on.
    pub shown_digest: Option<Digest>,
    /// When the hold expires.
    pub expires_at: Option<Moment>,
    /// The number of approvals it needs, if more than one.
    pub approvals_needed: Option<u32>,
    /// The approvals so far.
    pub approvals: Vec<Approval>,
    /// The tests, scripts and build settings that the run has changed.
    pub changed_tests_and_scripts: Vec<String>,
    /// The call on hold: what would run, where, on which files, and which rules ask.
    pub call: Option<Map<String, Value>>,
}

const FIELDS: [&str; 20] = [
    "approvals",
    "approvals_needed",
    "call",
    "changed_tests_and_scripts",
    "checkpoint_id",
    "expires_at",
    HASH,
    "policy_hash",
    "resolution_decision",
    "resolution_reason",
    "resolved",
    "resolved_at",
    "resolved_by",
    "run_id",
    "shown_digest",
    "step_index",
    "step_name",
    "task_spec",
    "timestamp",
    "trigger",
];

impl HoldPacket {
    /// The run on hold.
    #[must_use]
    pub const fn run(&self) -> &RunName {
        self.checkpoint_id.run()
    }

    /// The packet's file as bytes: sorted keys, with `packet_hash`.
    ///
    /// # Errors
    /// [`PacketError`] when the task cannot be written as YAML, or the packet is too large.
    pub fn to_bytes(&self) -> Result<Vec<u8>, PacketError> {
        let decision = self.resolution.as_ref().map(|resolution| resolution.decision);
        let mut map = Map::new();
        for (field, value) in [
            ("checkpoint_id", json!(self.checkpoint_id)),
            ("policy_hash", json!(self.policy_hash)),
            ("resolution_decision", json!(decision)),
            ("resolved", json!(decision.is_some())),
            ("run_id", json!(self.run())),
            ("step_index", json!(self.step_index)),
            ("task_spec", Value::Object(self.task_spec.clone())),
            ("timestamp", json!(self.timestamp)),
            ("trigger", json!(self.trigger)),
        ] {
            map.insert(field.to_owned(), value);
        }
        if let Some(resolution) = &self.resolution {
            put(&mut map, "resolved_by", resolution.by.as_ref());
            put(&mut map, "resolved_at", resolution.at);
            put(&mut map, "resolution_reason", resolution.reason.as_ref());
        }
        put(&mut map, "step_name", self.step_name.as_ref());
        put(&mut map, "shown_digest", self.shown_digest);
        put(&mut map, "expires_at", self.expires_at);
        put(&mut map, "approvals_needed", self.approvals_needed);
        put(&mut map, "approvals", Some(&self.approvals).filter(|given| !given.is_empty()));
        put(
            &mut map,
            "changed_tests_and_scripts",
            Some(&self.changed_tests_and_scripts).filter(|all| !all.is_empty()),
        );
        put(&mut map, "call", self.call.as_ref());
        seal(map)
    }
}

/// Parses a hold's packet and checks its digest.
///
/// # Errors
/// [`PacketError`] when it is malformed, contradictory, or was changed.
pub fn read_hold(bytes: &[u8]) -> Result<HoldPacket, PacketError> {
    let value = open(bytes)?;
    let fields = Fields::new(&value, "", &FIELDS)?;
    let checkpoint_id: CheckpointId = fields.must("checkpoint_id", Fields::parsed)?;
    let run: RunName = fields.must("run_id", Fields::parsed)?;
    let packet = HoldPacket {
        checkpoint_id,
        timestamp: fields.must("timestamp", Fields::parsed)?,
        trigger: fields.must("trigger", Fields::text)?.to_owned(),
        step_index: fields.must("step_index", Fields::count)?,
        policy_hash: fields.must("policy_hash", Fields::parsed)?,
        task_spec: fields.must("task_spec", Fields::object)?,
        resolution: resolution(&fields)?,
        step_name: fields.maybe("step_name", Fields::text)?.map(str::to_owned),
        shown_digest: fields.maybe("shown_digest", Fields::parsed)?,
        expires_at: fields.maybe("expires_at", Fields::parsed)?,
        approvals_needed: fields.maybe("approvals_needed", Fields::count)?,
        approvals: approvals(&fields)?,
        changed_tests_and_scripts: fields
            .maybe("changed_tests_and_scripts", Fields::texts)?
            .unwrap_or_default(),
        call: fields.maybe("call", Fields::object)?,
    };
    if packet.run() != &run {
        let checkpoint_run = packet.run().to_string();
        return Err(PacketError::RunMismatch { checkpoint_run, run: run.to_string() });
    }
    check_hash(&value, fields.must(HASH, Fields::parsed)?)?;
    Ok(packet)
}

/// As [`read_hold`], but refuses the packet of another hold.
///
/// # Errors
/// As [`read_hold`], and [`PacketError::Foreign`].
pub fn read_hold_of(bytes: &[u8], hold: &CheckpointId) -> Result<HoldPacket, PacketError> {
    let packet = read_hold(bytes)?;
    if &packet.checkpoint_id == hold {
        Ok(packet)
    } else {
        let found = packet.checkpoint_id.to_string();
        Err(PacketError::Foreign { expected: hold.to_string(), found })
    }
}

fn resolution(fields: &Fields<'_>) -> Result<Option<Resolution>, PacketError> {
    let resolved = fields.must("resolved", Fields::flag)?;
    let decision = fields.nullable("resolution_decision", Fields::text)?;
    let by = fields.maybe("resolved_by", Fields::text)?.map(str::to_owned);
    let at = fields.maybe("resolved_at", Fields::parsed)?;
    let reason = fields.maybe("resolution_reason", Fields::text)?.map(str::to_owned);
    let decision = decision
        .map(|text| {
            text.parse().map_err(|_| {
                PacketError::UnknownDecision(
                    text.chars().take(80).flat_map(char::escape_debug).collect(),
                )
            })
        })
        .transpose()?;
    match decision {
        Some(decision) if resolved => Ok(Some(Resolution { decision, by, at, reason })),
        None if resolved => Err(PacketError::ResolvedWithoutDecision),
        Some(_) => Err(PacketError::DecisionWithoutResolved("resolution_decision")),
        None if by.is_some() => Err(PacketError::DecisionWithoutResolved("resolved_by")),
        None if at.is_some() => Err(PacketError::DecisionWithoutResolved("resolved_at")),
        None if reason.is_some() => Err(PacketError::DecisionWithoutResolved("resolution_reason")),
        None => Ok(None),
    }
}

fn approvals(fields: &Fields<'_>) -> Result<Vec<Approval>, FieldError> {
    let items = fields.maybe("approvals", Fields::list)?.unwrap_or_default();
    let approval = |(at, item)| {
        let one = Fields::new(item, &format!("approvals[{at}]."), &["at", "by", "reason"])?;
        Ok(Approval {
            at: one.must("at", Fields::parsed)?,
            by: one.must("by", Fields::text)?.to_owned(),
            reason: one.must("reason", Fields::text)?.to_owned(),
        })
    };
    items.iter().enumerate().map(approval).collect()
}
