//! The references between the artifacts of a call: each artifact contains the digest of the one before
//! it, and agrees with its entry.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::artifact::{Artifact, DecidedBy, Decider, Decision, NamedFile, Redispatch, SettledBy};
use crate::canon::CanonError;
use crate::grant::GrantUse;
use crate::json_scan;
use crate::{
    ArtifactId, ArtifactType, ChainError, Digest, Entry, Outcome, PlanId, Signed, State, Statement,
    ToolCallId, TraceId, Uuid7,
};

/// The ids, digests and verdict of an artifact that must agree with its entry and the artifacts before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactHeader {
    artifact_id: ArtifactId,
    trace_id: TraceId,
    reference: Reference,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reference {
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

/// The answered hold of a run by which a call was approved or denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldReference {
    /// Whether it was approved.
    pub approved: bool,
    /// The run's last entry at that time.
    pub entry_digest: Digest,
    /// The trace of the run.
    pub trace_id: TraceId,
}

impl HoldReference {
    fn of(decided_by: &DecidedBy, decision: Decision) -> Option<Self> {
        match decided_by {
            DecidedBy::Person { decider: Decider::Hold { entry_digest, trace_id, .. }, .. } => {
                let approved = decision == Decision::Approve;
                Some(Self { approved, entry_digest: *entry_digest, trace_id: *trace_id })
            }
            DecidedBy::Person { decider: Decider::Person(_), .. }
            | DecidedBy::Policy { .. }
            | DecidedBy::Grant { .. } => None,
        }
    }
}

/// What a person signed in an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SignedDecision {
    decision: Cow<'static, str>,
    edit: Option<Digest>,
    files: Vec<NamedFile>,
    reason: String,
    signed: Signed,
}

impl SignedDecision {
    fn of_decision(decided_by: &DecidedBy, decision: Decision, reason: &str) -> Vec<Self> {
        match decided_by {
            DecidedBy::Person { decider: Decider::Person(signed), edit, files } => vec![Self {
                decision: decision.as_str().into(),
                edit: edit.as_ref().map(|edit| edit.proposal_digest),
                files: files.clone(),
                reason: reason.to_owned(),
                signed: signed.clone(),
            }],
            DecidedBy::Person { decider: Decider::Hold { .. }, .. }
            | DecidedBy::Policy { .. }
            | DecidedBy::Grant { .. } => Vec::new(),
        }
    }

    fn of_effect(
        settled_by: &SettledBy,
        outcome: Outcome,
        redispatches: &[Redispatch],
    ) -> Vec<Self> {
        let mut all = Vec::new();
        for again in redispatches {
            if let Some(Decider::Person(signed)) = &again.by {
                all.push(Self {
                    decision: dispatch_decision(again.attempt).into(),
                    edit: None,
                    files: Vec::new(),
                    reason: again.reason.clone(),
                    signed: signed.clone(),
                });
            }
        }
        if let SettledBy::Person { decider: Decider::Person(signed), reason } = settled_by {
            all.push(Self {
                decision: settled_decision(outcome).into(),
                edit: None,
                files: Vec::new(),
                reason: reason.clone(),
                signed: signed.clone(),
            });
        }
        all
    }

    fn verifies(&self, entry: &Entry, shown: Digest) -> bool {
        self.signed.verifies(&Statement {
            after: entry.prev_entry_digest,
            conditions: &[],
            decision: Cow::Borrowed(&self.decision),
            edit: self.edit,
            files: &self.files,
            reason: &self.reason,
            shown,
            trace_id: entry.trace_id,
        })
    }
}

/// The digest of the proposal as a person changed it, if they did.
fn edit_of(decided_by: &DecidedBy) -> Option<Digest> {
    match decided_by {
        DecidedBy::Person { edit, .. } => edit.as_ref().map(|edit| edit.proposal_digest),
        DecidedBy::Policy { .. } | DecidedBy::Grant { .. } => None,
    }
}

/// The decision that a person signs to have a call dispatched once more.
#[must_use]
pub fn dispatch_decision(attempt: u32) -> String {
    format!("DISPATCH {attempt}")
}

/// The decision that a person signs who says what became of a call.
#[must_use]
pub const fn settled_decision(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Success => "RAN",
        Outcome::Failure | Outcome::Denied | Outcome::Error => "FAILED",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct CallReference {
    decision_digest: Digest,
    tool_call_id: ToolCallId,
    proposal_digest: Digest,
    idempotency_key: Option<String>,
}

/// The idempotency key of a request, with its server and tool.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    server_id: String,
    tool_name: String,
    idempotency_key: String,
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
            ArtifactType::RunEvent | ArtifactType::GrantEvent => return None,
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
            ArtifactType::RunEvent | ArtifactType::GrantEvent => {
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
        signed.iter().map(|one| &one.signed)
    }

    const fn artifact_type(&self) -> ArtifactType {
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
    decision_digest: Digest,
    tool_call_id: ToolCallId,
    proposal_digest: Digest,
    idempotency_key: Option<String>,
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

/// The artifacts of a call so far, to which the next artifact must refer.
///
/// Live work, recovery and verification use the same checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArtifactChain {
    request: Option<RequestRecord>,
    decision: Option<Digest>,
    grant: Option<GrantUse>,
    /// The digest of the proposal as a person changed it.
    edit: Option<Digest>,
    tool_call: Option<Digest>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct RequestRecord {
    digest: Digest,
    plan_id: PlanId,
    proposal_digest: Digest,
    key: Option<Key>,
}

impl RequestRecord {
    fn idempotency_key(&self) -> Option<&str> {
        self.key.as_ref().map(|key| key.idempotency_key.as_str())
    }
}

impl ArtifactChain {
    /// The digest of the request's proposal; `None` before the request.
    pub(crate) fn proposal_digest(&self) -> Option<Digest> {
        self.request.as_ref().map(|request| request.proposal_digest)
    }

    /// The digest of the request; `None` before the request.
    #[must_use]
    pub fn request_digest(&self) -> Option<Digest> {
        self.request.as_ref().map(|request| request.digest)
    }

    /// The use of a grant that the decision refers to.
    #[must_use]
    pub const fn grant_use(&self) -> Option<GrantUse> {
        self.grant
    }

    /// The digest of the proposal that may be dispatched: the requested one, or what a person made of it.
    pub(crate) fn effective_digest(&self) -> Option<Digest> {
        self.edit.or_else(|| self.proposal_digest())
    }

    /// The plan that the request belongs to; `None` before the request.
    #[must_use]
    pub fn plan_id(&self) -> Option<PlanId> {
        self.request.as_ref().map(|request| request.plan_id)
    }

    /// The idempotency key that the call reserves; `None` before the call, or if it has no key.
    #[must_use]
    pub fn reserved(&self) -> Option<ReservedKey<'_>> {
        let RequestRecord { key, proposal_digest, .. } = self.request.as_ref()?;
        let Key { server_id, tool_name, idempotency_key } = key.as_ref()?;
        let request_digest = *proposal_digest;
        self.tool_call.map(|_| ReservedKey {
            server_id,
            tool_name,
            idempotency_key,
            request_digest,
        })
    }

    /// Verifies that an artifact is the one its entry names and refers to the artifacts before it.
    ///
    /// # Errors
    /// [`ChainError`] if it is not, or does not.
    pub fn follow(&mut self, entry: &Entry, header: ArtifactHeader) -> Result<(), ChainError> {
        let sequence_number = entry.sequence_number;
        if header.artifact_type() != entry.artifact_type || header.artifact_id != entry.artifact_id
        {
            let artifact = entry.artifact_type.as_str();
            return Err(ChainError::Artifact { sequence_number, artifact });
        }
        self.check(entry, header).map_err(|reason| ChainError::Link { sequence_number, reason })
    }

    fn check(&mut self, entry: &Entry, header: ArtifactHeader) -> Result<(), &'static str> {
        require(header.trace_id == entry.trace_id, "the artifact belongs to another trace")?;
        let digest = entry.artifact_digest;
        match header.reference {
            Reference::Request { key, plan_id, proposal_digest } => {
                let request = RequestRecord { digest, plan_id, proposal_digest, key };
                require(
                    request.idempotency_key() == entry.idempotency_key.as_deref(),
                    "the request and its entry have different idempotency keys",
                )?;
                self.request = Some(request);
            }
            Reference::Decision { request_digest, decision, edit, grant, signed, .. } => {
                let request = self.request.as_ref().map(|request| request.digest);
                require(request == Some(request_digest), "the decision refers to another request")?;
                require(
                    signed.iter().all(|one| one.verifies(entry, request_digest)),
                    "the signature of the decision is not valid",
                )?;
                let state = match decision {
                    Decision::Approve => State::Authorized,
                    Decision::Deny => State::Denied,
                    Decision::NeedsApproval => State::Pending,
                };
                require(state == entry.to_state, "the decision and the state of its entry differ")?;
                require(
                    grant.is_none() || decision == Decision::Approve,
                    "a grant can only approve",
                )?;
                self.decision = Some(digest);
                self.grant = grant;
                self.edit = edit;
            }
            Reference::Call(call) => {
                self.check_call(entry, &call)?;
                self.tool_call = Some(digest);
            }
            Reference::Effect { tool_call_digest, tool_call_id, outcome, signed } => {
                require(
                    self.tool_call == Some(tool_call_digest)
                        && entry.tool_call_id == Some(tool_call_id),
                    "the effect belongs to another call",
                )?;
                let success = outcome == Outcome::Success;
                require(
                    success == (entry.to_state == State::Completed),
                    "the outcome and the state of its entry differ",
                )?;
                require(
                    signed.iter().all(|one| one.verifies(entry, tool_call_digest)),
                    "the signature of a person is not valid",
                )?;
            }
        }
        Ok(())
    }

    fn check_call(&self, entry: &Entry, call: &CallReference) -> Result<(), &'static str> {
        require(
            self.decision == Some(call.decision_digest),
            "the call refers to another decision",
        )?;
        require(
            entry.tool_call_id == Some(call.tool_call_id)
                && entry.idempotency_key == call.idempotency_key,
            "the call and its entry have different ids or idempotency keys",
        )?;
        let request = self.request.as_ref().ok_or("the call has no request")?;
        require(
            request.idempotency_key() == call.idempotency_key.as_deref(),
            "the call and its request have different idempotency keys",
        )?;
        require(
            self.edit.unwrap_or(request.proposal_digest) == call.proposal_digest,
            "the call refers to another proposal",
        )
    }
}

const fn require(holds: bool, reason: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(reason) }
}
