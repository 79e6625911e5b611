//! Writes artifacts in canonical form.

use super::{
    ActionRequest, DecidedBy, Decider, Decision, Edit, EffectError, FileChange, NamedFile, Outcome,
    Proposal, Redispatch, Resource, SettledBy, SupervisorDecision, ToolCall, ToolEffect,
};
use crate::Signed;
use crate::canon::{Canonical, canonical, canonical_names, write_object};

canonical! {
    Resource { id, kind }
    Proposal { args, tool_name, tool_server, workspace }
    Edit { args, proposal_digest }
    NamedFile { digest, path }
    ActionRequest {
        agent, artifact_id, files, idempotency_key, intent, phase, plan_id, proposal, resources,
        risk_level, run, schema_id, schema_version, trace_id, ts,
    }
    SupervisorDecision {
        artifact_id, code, decided_by, decision, policy_hash, rationale, request_digest, schema_id,
        schema_version, trace_id, ts,
    }
    FileChange { after, before, path }
    ToolCall {
        artifact_id, decision_digest, foreseen, idempotency_key, proposal_digest, schema_id, schema_version,
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
            Self::Person { decider, edit, files } => {
                let by = "person";
                write_object!(out, by, decider, edit, files);
            }
            Self::Grant { entry_digest, grant, name } => {
                let by = "grant";
                write_object!(out, by, entry_digest, grant, name);
            }
            Self::Prompt { client, rules } => {
                let by = "prompt";
                write_object!(out, by, client, rules);
            }
        }
    }
}

impl Canonical for Decider {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hold { entry_digest, names, trace_id } => {
                let kind = "hold";
                write_object!(out, entry_digest, kind, names, trace_id);
            }
            Self::Person(signed) => {
                let Signed { approver, key, name, security_key, signature } = signed.as_ref();
                let kind = "person";
                write_object!(out, approver, key, kind, name, security_key, signature);
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
            Self::Report { client } => {
                let by = "report";
                write_object!(out, by, client);
            }
            Self::Person { decider, reason } => {
                let by = "person";
                write_object!(out, by, decider, reason);
            }
        }
    }
}
