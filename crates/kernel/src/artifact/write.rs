//! Writes artifacts in canonical form.

use super::{
    ActionRequest, DecidedBy, Decision, EffectError, Outcome, Proposal, Redispatch, Resource,
    SettledBy, SupervisorDecision, ToolCall, ToolEffect,
};
use crate::canon::{Canonical, canonical, canonical_names, write_object};

canonical! {
    Resource { id, kind }
    Proposal { args, tool_name, tool_server }
    ActionRequest {
        agent, artifact_id, idempotency_key, intent, phase, plan_id, proposal, resources,
        risk_level, schema_id, schema_version, trace_id, ts,
    }
    SupervisorDecision {
        artifact_id, code, decided_by, decision, policy_hash, rationale, request_digest, schema_id,
        schema_version, trace_id, ts,
    }
    ToolCall {
        artifact_id, decision_digest, idempotency_key, proposal_digest, schema_id, schema_version,
        tool_call_id, trace_id, ts,
    }
    EffectError { code, may_have_run, message }
    Redispatch { attempt, by, reason, ts }
    ToolEffect {
        artifact_id, duration_ms, error, outcome, redispatches, result, schema_id, schema_version,
        settled_by, tool_call_digest, tool_call_id, trace_id, ts,
    }
}

canonical_names! { Decision, Outcome }

impl Canonical for DecidedBy {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Policy { rules } => {
                let by = "policy";
                write_object!(out, by, rules);
            }
            Self::Person { name } => {
                let by = "person";
                write_object!(out, by, name);
            }
        }
    }
}

impl Canonical for SettledBy {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Answer => {
                let by = "answer";
                write_object!(out, by);
            }
            Self::Probe { entry_digest, trace_id } => {
                let by = "probe";
                write_object!(out, by, entry_digest, trace_id);
            }
            Self::Compensation { entry_digest, trace_id } => {
                let by = "compensation";
                write_object!(out, by, entry_digest, trace_id);
            }
            Self::Person { name } => {
                let by = "person";
                write_object!(out, by, name);
            }
        }
    }
}
