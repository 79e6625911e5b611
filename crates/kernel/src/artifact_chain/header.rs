//! The ids, digests and verdict of an artifact, read without the rest of it.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::signed::{HoldReference, SignedDecision, edit_of};
use crate::artifact::{Artifact, DecidedBy, Decision, Redispatch, SettledBy};
use crate::canon::CanonError;
use crate::grant::GrantUse;
use crate::json_scan;
use crate::{
    ArtifactId, ArtifactType, Digest, Outcome, PlanId, Signed, ToolCallId, TraceId, Uuid7,
};

/// The ids, digests and verdict of an artifact that must agree with its entry and the artifacts before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactHeader {
    pub(super) artifact_id: ArtifactId,
    pub(super) trace_id: TraceId,
    pub(super) reference: Reference,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reference {
    Request {
        key: Option<Key>,
        plan_id: PlanId,
        proposal_digest: Digest,
    },
    Decision {
        request_digest: Digest,
        decision: Decision,
        grant: Option<GrantUse>,
        edit: Option<Digest>,
        hold: Option<HoldReference>,
        signed: Vec<SignedDecision>,
    },
    Call(CallReference),
    Effect {
        tool_call_digest: Digest,
        tool_call_id: ToolCallId,
        outcome: Outcome,
        signed: Vec<SignedDecision>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallReference {
    pub(super) decision_digest: Digest,
    pub(super) tool_call_id: ToolCallId,
    pub(super) proposal_digest: Digest,
    pub(super) idempotency_key: Option<String>,
}

/// The idempotency key of a request, with its server and tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) server_id: String,
    pub(super) tool_name: String,
    pub(super) idempotency_key: String,
}

/// The idempotency key that the artifacts of a call reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedKey<'a> {
    /// The server.
    pub server_id: &'a str,
    /// The tool.
    pub tool_name: &'a str,
    /// The key.
    pub idempotency_key: &'a str,
    /// The digest of server, tool and arguments.
    pub request_digest: Digest,
}

impl ArtifactHeader {
    /// Returns the header of an artifact.
    ///
    /// # Errors
    /// [`CanonError`] if the proposal of a request has no canonical form.
    pub fn of(artifact: &Artifact) -> Result<Self, CanonError> {
        let reference = match artifact {
            Artifact::Request(request) => Reference::Request {
                key: request.idempotency_key.clone().map(|idempotency_key| Key {
                    server_id: request.proposal.tool_server.clone(),
                    tool_name: request.proposal.tool_name.clone(),
                    idempotency_key,
                }),
                plan_id: request.plan_id,
                proposal_digest: request.proposal.digest()?,
            },
            Artifact::Decision(decision) => Reference::Decision {
                request_digest: decision.request_digest,
                decision: decision.decision,
                grant: GrantUse::of_decision(&decision.decided_by),
                edit: edit_of(&decision.decided_by),
                hold: HoldReference::of(&decision.decided_by, decision.decision),
                signed: SignedDecision::of_decision(
                    &decision.decided_by,
                    decision.decision,
                    &decision.rationale,
                ),
            },
            Artifact::Call(call) => Reference::Call(CallReference {
                decision_digest: call.decision_digest,
                tool_call_id: call.tool_call_id,
                proposal_digest: call.proposal_digest,
                idempotency_key: call.idempotency_key.clone(),
            }),
            Artifact::Effect(effect) => Reference::Effect {
                tool_call_digest: effect.tool_call_digest,
                tool_call_id: effect.tool_call_id,
                outcome: effect.outcome,
                signed: SignedDecision::of_effect(
                    &effect.settled_by,
                    effect.outcome,
                    &effect.redispatches,
                ),
            },
        };
        Ok(Self { artifact_id: artifact.artifact_id(), trace_id: artifact.trace_id(), reference })
    }

    /// Reads the header from the stored body of an artifact, without deserializing the rest.
    ///
    /// # Errors
    /// [`CanonError`] if the body is not an artifact of this type.
    pub fn read(artifact_type: ArtifactType, body: &[u8]) -> Result<Self, CanonError> {
        // Almost every body can be read by the fast scan.
        Self::scan(artifact_type, body).map_or_else(|| Self::parse(artifact_type, body), Ok)
    }

    /// Reads the header by a scan for its members; `None` if the body must be parsed instead.
    fn scan(artifact_type: ArtifactType, body: &[u8]) -> Option<Self> {
        let (artifact_id, trace_id, reference) = match artifact_type {
            ArtifactType::ActionRequest => {
                let names = ["artifact_id", "trace_id", "idempotency_key", "plan_id", "proposal"];
                let [artifact_id, trace_id, key, plan, proposal] = json_scan::members(body, names)?;
                let (plan_id, proposal_digest) = (PlanId(id(plan)?), Digest::of(proposal));
                let key = match optional(key)? {
                    None => None,
                    Some(idempotency_key) => {
                        let (tool_name, server_id) = tool_and_server(proposal)?;
                        let [tool_name, server_id] = [tool_name, server_id].map(str::to_owned);
                        Some(Key { server_id, tool_name, idempotency_key })
                    }
                };
                (artifact_id, trace_id, Reference::Request { key, plan_id, proposal_digest })
            }
            ArtifactType::SupervisorDecision => {
                let names = ["artifact_id", "trace_id", "request_digest", "decision", "decided_by"];
                let [artifact_id, trace_id, request, decision, decided_by] =
                    json_scan::members(body, names)?;
                if !decided_by.starts_with(br#"{"by":"policy","#) {
                    return None;
                }
                let request_digest = digest(request)?;
                let decision = serde_json::from_slice(decision).ok()?;
                let (edit, hold, signed) = (None, None, Vec::new());
                let grant = None;
                let reference =
                    Reference::Decision { request_digest, decision, edit, grant, hold, signed };
                (artifact_id, trace_id, reference)
            }
            ArtifactType::ToolCall => {
                let [artifact_id, trace_id, decision, call, proposal, key] = json_scan::members(
                    body,
                    [
                        "artifact_id",
                        "trace_id",
                        "decision_digest",
                        "tool_call_id",
                        "proposal_digest",
                        "idempotency_key",
                    ],
                )?;
                let call = CallReference {
                    decision_digest: digest(decision)?,
                    tool_call_id: ToolCallId(id(call)?),
                    proposal_digest: digest(proposal)?,
                    idempotency_key: optional(key)?,
                };
                (artifact_id, trace_id, Reference::Call(call))
            }
            ArtifactType::ToolEffect => {
                let [artifact_id, trace_id, call_digest, call, outcome, settled_by, again] =
                    json_scan::members(
                        body,
                        [
                            "artifact_id",
                            "trace_id",
                            "tool_call_digest",
                            "tool_call_id",
                            "outcome",
                            "settled_by",
                            "redispatches",
                        ],
                    )?;
                if again != b"[]" || settled_by.starts_with(br#"{"by":"person","#) {
                    return None;
                }
                let reference = Reference::Effect {
                    tool_call_digest: digest(call_digest)?,
                    tool_call_id: ToolCallId(id(call)?),
                    outcome: serde_json::from_slice(outcome).ok()?,
                    signed: Vec::new(),
                };
                (artifact_id, trace_id, reference)
            }
            ArtifactType::RunEvent | ArtifactType::GrantEvent | ArtifactType::NotificationEvent => {
                return None;
            }
        };
        let (artifact_id, trace_id) = (ArtifactId(id(artifact_id)?), TraceId(id(trace_id)?));
        Some(Self { artifact_id, trace_id, reference })
    }

    fn parse(artifact_type: ArtifactType, body: &[u8]) -> Result<Self, CanonError> {
        match artifact_type {
            ArtifactType::ActionRequest => {
                let wire: RequestWire<'_> = read(body)?;
                // A stored body is canonical, so each of its values is too.
                let proposal = wire.proposal.get().as_bytes();
                let names: NamesWire = read(proposal)?;
                let key = wire.idempotency_key.map(|idempotency_key| Key {
                    server_id: names.tool_server,
                    tool_name: names.tool_name,
                    idempotency_key,
                });
                let (plan_id, proposal_digest) = (wire.plan_id, Digest::of(proposal));
                let reference = Reference::Request { key, plan_id, proposal_digest };
                Ok(Self { artifact_id: wire.artifact_id, trace_id: wire.trace_id, reference })
            }
            ArtifactType::SupervisorDecision => read(body).map(|wire: DecisionWire| Self {
                artifact_id: wire.artifact_id,
                trace_id: wire.trace_id,
                reference: Reference::Decision {
                    request_digest: wire.request_digest,
                    decision: wire.decision,
                    grant: GrantUse::of_decision(&wire.decided_by),
                    edit: edit_of(&wire.decided_by),
                    hold: HoldReference::of(&wire.decided_by, wire.decision),
                    signed: SignedDecision::of_decision(
                        &wire.decided_by,
                        wire.decision,
                        &wire.rationale,
                    ),
                },
            }),
            ArtifactType::ToolCall => read(body).map(|wire: CallWire| Self {
                artifact_id: wire.artifact_id,
                trace_id: wire.trace_id,
                reference: Reference::Call(CallReference {
                    decision_digest: wire.decision_digest,
                    tool_call_id: wire.tool_call_id,
                    proposal_digest: wire.proposal_digest,
                    idempotency_key: wire.idempotency_key,
                }),
            }),
            ArtifactType::ToolEffect => read(body).map(|wire: EffectWire| Self {
                artifact_id: wire.artifact_id,
                trace_id: wire.trace_id,
                reference: Reference::Effect {
                    tool_call_digest: wire.tool_call_digest,
                    tool_call_id: wire.tool_call_id,
                    outcome: wire.outcome,
                    signed: SignedDecision::of_effect(
                        &wire.settled_by,
                        wire.outcome,
                        &wire.redispatches,
                    ),
                },
            }),
            ArtifactType::RunEvent | ArtifactType::GrantEvent | ArtifactType::NotificationEvent => {
                Err(CanonError::Invalid(format!("a {artifact_type} is not an artifact of a call")))
            }
        }
    }

    /// The answered hold of a run by which the call was decided, if it was.
    #[must_use]
    pub const fn hold(&self) -> Option<HoldReference> {
        match &self.reference {
            Reference::Decision { hold, .. } => *hold,
            Reference::Request { .. } | Reference::Call(_) | Reference::Effect { .. } => None,
        }
    }

    /// The people who signed something in the artifact.
    pub fn signers(&self) -> impl Iterator<Item = &Signed> {
        let signed = match &self.reference {
            Reference::Decision { signed, .. } | Reference::Effect { signed, .. } => {
                signed.as_slice()
            }
            Reference::Request { .. } | Reference::Call(_) => &[],
        };
        signed.iter().map(|one| one.signed.as_ref())
    }

    pub(super) const fn artifact_type(&self) -> ArtifactType {
        match self.reference {
            Reference::Request { .. } => ArtifactType::ActionRequest,
            Reference::Decision { .. } => ArtifactType::SupervisorDecision,
            Reference::Call(_) => ArtifactType::ToolCall,
            Reference::Effect { .. } => ArtifactType::ToolEffect,
        }
    }
}

/// Returns the tool and the server of a proposal, which are last in its canonical text. A quote inside
/// a string follows a backslash, so none of the quotes matched here is inside a string.
fn tool_and_server(proposal: &[u8]) -> Option<(&str, &str)> {
    let text = std::str::from_utf8(proposal).ok()?.strip_suffix("\"}")?;
    let (text, server) = text.rsplit_once('"')?;
    let (text, tool) = text.strip_suffix("\",\"tool_server\":")?.rsplit_once('"')?;
    let plain = text.ends_with("\"tool_name\":") && !tool.contains('\\') && !server.contains('\\');
    plain.then_some((tool, server))
}

/// Reads an id, whose characters are never escaped.
fn id(value: &[u8]) -> Option<Uuid7> {
    Uuid7::parse(json_scan::quoted(value)?).ok()
}

/// Reads a digest, whose characters are never escaped.
fn digest(value: &[u8]) -> Option<Digest> {
    Digest::parse(json_scan::quoted(value)?).ok()
}

/// Reads a string or null; the outer `None` means neither.
fn optional(value: &[u8]) -> Option<Option<String>> {
    if value == b"null" { Some(None) } else { Some(Some(json_scan::plain(value)?.to_owned())) }
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, CanonError> {
    serde_json::from_slice(body).map_err(|error| CanonError::Invalid(error.to_string()))
}

#[derive(Deserialize)]
struct RequestWire<'a> {
    artifact_id: ArtifactId,
    trace_id: TraceId,
    idempotency_key: Option<String>,
    plan_id: PlanId,
    #[serde(borrow)]
    proposal: &'a RawValue,
}

#[derive(Deserialize)]
struct NamesWire {
    tool_name: String,
    tool_server: String,
}

#[derive(Deserialize)]
struct DecisionWire {
    artifact_id: ArtifactId,
    trace_id: TraceId,
    request_digest: Digest,
    decided_by: DecidedBy,
    decision: Decision,
    rationale: String,
}

#[derive(Deserialize)]
struct CallWire {
    artifact_id: ArtifactId,
    trace_id: TraceId,
    pub(super) decision_digest: Digest,
    pub(super) tool_call_id: ToolCallId,
    pub(super) proposal_digest: Digest,
    pub(super) idempotency_key: Option<String>,
}

#[derive(Deserialize)]
struct EffectWire {
    artifact_id: ArtifactId,
    trace_id: TraceId,
    tool_call_digest: Digest,
    tool_call_id: ToolCallId,
    outcome: Outcome,
    redispatches: Vec<Redispatch>,
    settled_by: SettledBy,
}
