//! What ties artifacts together: each names the digest of the one before it, and says what its
//! entry says.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::artifact::{Artifact, Decision};
use crate::canon::CanonError;
use crate::json_scan;
use crate::{
    ArtifactId, ArtifactType, ChainError, Digest, Entry, Outcome, State, ToolCallId, TraceId, Uuid7,
};

/// The ties of one artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactHeader {
    artifact_id: ArtifactId,
    trace_id: TraceId,
    tie: Tie,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Tie {
    Request { key: Option<Key>, proposal_digest: Digest },
    Decision { request_digest: Digest, decision: Decision },
    Call(CallTie),
    Effect { tool_call_digest: Digest, tool_call_id: ToolCallId, outcome: Outcome },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct CallTie {
    decision_digest: Digest,
    tool_call_id: ToolCallId,
    proposal_digest: Digest,
    idempotency_key: Option<String>,
}

/// A request's idempotency key, and of what it is one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    server_id: String,
    tool_name: String,
    idempotency_key: String,
}

/// A key that is reserved, as the artifacts of its call say.
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
    /// The ties of an artifact.
    ///
    /// # Errors
    /// [`CanonError`] when a request's proposal has no canonical form.
    pub fn of(artifact: &Artifact) -> Result<Self, CanonError> {
        let tie = match artifact {
            Artifact::Request(request) => Tie::Request {
                key: request.idempotency_key.clone().map(|idempotency_key| Key {
                    server_id: request.proposal.tool_server.clone(),
                    tool_name: request.proposal.tool_name.clone(),
                    idempotency_key,
                }),
                proposal_digest: request.proposal.digest()?,
            },
            Artifact::Decision(decision) => Tie::Decision {
                request_digest: decision.request_digest,
                decision: decision.decision,
            },
            Artifact::Call(call) => Tie::Call(CallTie {
                decision_digest: call.decision_digest,
                tool_call_id: call.tool_call_id,
                proposal_digest: call.proposal_digest,
                idempotency_key: call.idempotency_key.clone(),
            }),
            Artifact::Effect(effect) => Tie::Effect {
                tool_call_digest: effect.tool_call_digest,
                tool_call_id: effect.tool_call_id,
                outcome: effect.outcome,
            },
        };
        Ok(Self { artifact_id: artifact.artifact_id(), trace_id: artifact.trace_id(), tie })
    }

    /// The ties of an artifact as it is stored, without building the rest of it.
    ///
    /// # Errors
    /// [`CanonError`] when the body is not such an artifact.
    pub fn read(artifact_type: ArtifactType, body: &[u8]) -> Result<Self, CanonError> {
        // Almost every body is plain enough to be read in one go.
        Self::scan(artifact_type, body).map_or_else(|| Self::parse(artifact_type, body), Ok)
    }

    /// The ties of an artifact whose members can be found without parsing all of it.
    fn scan(artifact_type: ArtifactType, body: &[u8]) -> Option<Self> {
        let (artifact_id, trace_id, tie) = match artifact_type {
            ArtifactType::ActionRequest => {
                let names = ["artifact_id", "trace_id", "idempotency_key", "proposal"];
                let [artifact_id, trace_id, key, proposal] = json_scan::members(body, names)?;
                let proposal_digest = Digest::of(proposal);
                let key = match optional(key)? {
                    None => None,
                    Some(idempotency_key) => {
                        let (tool_name, server_id) = tool_and_server(proposal)?;
                        let [tool_name, server_id] = [tool_name, server_id].map(str::to_owned);
                        Some(Key { server_id, tool_name, idempotency_key })
                    }
                };
                (artifact_id, trace_id, Tie::Request { key, proposal_digest })
            }
            ArtifactType::SupervisorDecision => {
                let names = ["artifact_id", "trace_id", "request_digest", "decision"];
                let [artifact_id, trace_id, request, decision] = json_scan::members(body, names)?;
                let request_digest = digest(request)?;
                let decision = serde_json::from_slice(decision).ok()?;
                (artifact_id, trace_id, Tie::Decision { request_digest, decision })
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
                let tie = CallTie {
                    decision_digest: digest(decision)?,
                    tool_call_id: ToolCallId(id(call)?),
                    proposal_digest: digest(proposal)?,
                    idempotency_key: optional(key)?,
                };
                (artifact_id, trace_id, Tie::Call(tie))
            }
            ArtifactType::ToolEffect => {
                let names =
                    ["artifact_id", "trace_id", "tool_call_digest", "tool_call_id", "outcome"];
                let [artifact_id, trace_id, call_digest, call, outcome] =
                    json_scan::members(body, names)?;
                let tie = Tie::Effect {
                    tool_call_digest: digest(call_digest)?,
                    tool_call_id: ToolCallId(id(call)?),
                    outcome: serde_json::from_slice(outcome).ok()?,
                };
                (artifact_id, trace_id, tie)
            }
            ArtifactType::RunEvent => return None,
        };
        let (artifact_id, trace_id) = (ArtifactId(id(artifact_id)?), TraceId(id(trace_id)?));
        Some(Self { artifact_id, trace_id, tie })
    }

    fn parse(artifact_type: ArtifactType, body: &[u8]) -> Result<Self, CanonError> {
        match artifact_type {
            ArtifactType::ActionRequest => {
                let wire: RequestWire<'_> = read(body)?;
                // A stored body is canonical, and so is every part of it.
                let proposal = wire.proposal.get().as_bytes();
                let names: NamesWire = read(proposal)?;
                let key = wire.idempotency_key.map(|idempotency_key| Key {
                    server_id: names.tool_server,
                    tool_name: names.tool_name,
                    idempotency_key,
                });
                let tie = Tie::Request { key, proposal_digest: Digest::of(proposal) };
                Ok(Self { artifact_id: wire.artifact_id, trace_id: wire.trace_id, tie })
            }
            ArtifactType::SupervisorDecision => read(body).map(|wire: DecisionWire| Self {
                artifact_id: wire.artifact_id,
                trace_id: wire.trace_id,
                tie: Tie::Decision { request_digest: wire.request_digest, decision: wire.decision },
            }),
            ArtifactType::ToolCall => read(body).map(|wire: CallWire| Self {
                artifact_id: wire.artifact_id,
                trace_id: wire.trace_id,
                tie: Tie::Call(CallTie {
                    decision_digest: wire.decision_digest,
                    tool_call_id: wire.tool_call_id,
                    proposal_digest: wire.proposal_digest,
                    idempotency_key: wire.idempotency_key,
                }),
            }),
            ArtifactType::ToolEffect => read(body).map(|wire: EffectWire| Self {
                artifact_id: wire.artifact_id,
                trace_id: wire.trace_id,
                tie: Tie::Effect {
                    tool_call_digest: wire.tool_call_digest,
                    tool_call_id: wire.tool_call_id,
                    outcome: wire.outcome,
                },
            }),
            ArtifactType::RunEvent => {
                Err(CanonError::Invalid("a call has no run events".to_owned()))
            }
        }
    }

    const fn artifact_type(&self) -> ArtifactType {
        match self.tie {
            Tie::Request { .. } => ArtifactType::ActionRequest,
            Tie::Decision { .. } => ArtifactType::SupervisorDecision,
            Tie::Call(_) => ArtifactType::ToolCall,
            Tie::Effect { .. } => ArtifactType::ToolEffect,
        }
    }
}

/// The tool and the server of a proposal, which come last in its canonical text. A quote within a
/// string has a backslash before it, so none of these is in one.
fn tool_and_server(proposal: &[u8]) -> Option<(&str, &str)> {
    let text = std::str::from_utf8(proposal).ok()?.strip_suffix("\"}")?;
    let (text, server) = text.rsplit_once('"')?;
    let (text, tool) = text.strip_suffix("\",\"tool_server\":")?.rsplit_once('"')?;
    let plain = text.ends_with("\"tool_name\":") && !tool.contains('\\') && !server.contains('\\');
    plain.then_some((tool, server))
}

/// An id; none of its letters is ever written otherwise.
fn id(value: &[u8]) -> Option<Uuid7> {
    Uuid7::parse(json_scan::quoted(value)?).ok()
}

/// A digest, likewise.
fn digest(value: &[u8]) -> Option<Digest> {
    Digest::parse(json_scan::quoted(value)?).ok()
}

/// A string, or null.
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
    decision: Decision,
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
}

/// The ties of a call so far: what the next artifact must name.
///
/// The same checks serve live work, recovery and verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArtifactChain {
    request: Option<RequestSeen>,
    decision: Option<Digest>,
    tool_call: Option<Digest>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct RequestSeen {
    digest: Digest,
    proposal_digest: Digest,
    key: Option<Key>,
}

impl RequestSeen {
    fn idempotency_key(&self) -> Option<&str> {
        self.key.as_ref().map(|key| key.idempotency_key.as_str())
    }
}

impl ArtifactChain {
    /// The digest of the request's proposal, once there is a request.
    pub(crate) fn proposal_digest(&self) -> Option<Digest> {
        self.request.as_ref().map(|request| request.proposal_digest)
    }

    /// The key that is reserved with the call, once there is a call, if it has one.
    #[must_use]
    pub fn reserved(&self) -> Option<ReservedKey<'_>> {
        let RequestSeen { key, proposal_digest, .. } = self.request.as_ref()?;
        let Key { server_id, tool_name, idempotency_key } = key.as_ref()?;
        let request_digest = *proposal_digest;
        self.tool_call.map(|_| ReservedKey {
            server_id,
            tool_name,
            idempotency_key,
            request_digest,
        })
    }

    /// Checks that an artifact is the one its entry names and follows from those before it.
    ///
    /// # Errors
    /// [`ChainError`] when it is not, or does not.
    pub fn follow(&mut self, entry: &Entry, link: ArtifactHeader) -> Result<(), ChainError> {
        let sequence_number = entry.sequence_number;
        if link.artifact_type() != entry.artifact_type || link.artifact_id != entry.artifact_id {
            let artifact = entry.artifact_type.as_str();
            return Err(ChainError::Artifact { sequence_number, artifact });
        }
        self.tie(entry, link).map_err(|reason| ChainError::Link { sequence_number, reason })
    }

    fn tie(&mut self, entry: &Entry, link: ArtifactHeader) -> Result<(), &'static str> {
        require(link.trace_id == entry.trace_id, "the artifact is of another trace")?;
        let digest = entry.artifact_digest;
        match link.tie {
            Tie::Request { key, proposal_digest } => {
                let request = RequestSeen { digest, proposal_digest, key };
                require(
                    request.idempotency_key() == entry.idempotency_key.as_deref(),
                    "the request has another idempotency key",
                )?;
                self.request = Some(request);
            }
            Tie::Decision { request_digest, decision } => {
                let request = self.request.as_ref().map(|request| request.digest);
                require(request == Some(request_digest), "the decision is about another request")?;
                let state = match decision {
                    Decision::Approve => State::Authorized,
                    Decision::Deny => State::Denied,
                    Decision::NeedsApproval => State::Pending,
                };
                require(state == entry.to_state, "the decision says something else")?;
                self.decision = Some(digest);
            }
            Tie::Call(call) => {
                self.tie_call(entry, &call)?;
                self.tool_call = Some(digest);
            }
            Tie::Effect { tool_call_digest, tool_call_id, outcome } => {
                require(
                    self.tool_call == Some(tool_call_digest)
                        && entry.tool_call_id == Some(tool_call_id),
                    "the effect is of another call",
                )?;
                let success = outcome == Outcome::Success;
                require(
                    success == (entry.to_state == State::Completed),
                    "only a success completes a call",
                )?;
            }
        }
        Ok(())
    }

    fn tie_call(&self, entry: &Entry, call: &CallTie) -> Result<(), &'static str> {
        require(self.decision == Some(call.decision_digest), "the call follows another decision")?;
        require(
            entry.tool_call_id == Some(call.tool_call_id)
                && entry.idempotency_key == call.idempotency_key,
            "the call has another id or key",
        )?;
        let request = self.request.as_ref().ok_or("the call follows no request")?;
        require(
            request.idempotency_key() == call.idempotency_key.as_deref(),
            "the call has another key than its request",
        )?;
        require(request.proposal_digest == call.proposal_digest, "the call is for another proposal")
    }
}

const fn require(holds: bool, reason: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(reason) }
}
