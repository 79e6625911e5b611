//! Traces in a bundle: one line for each entry, verified while they are written or read.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_journal::TraceVerifier;
use windlass_kernel::artifact::{DecidedBy, SettledBy};
use windlass_kernel::canon::CanonError;
use windlass_kernel::grant::{Grant, GrantUse};
use windlass_kernel::run::{self, Event, Run, RunEvent, WaitsFor};
use windlass_kernel::{
    Artifact, ArtifactType, ChainError, Digest, Entry, Head, PlanId, State, TraceId,
};

/// The maximum length of a line.
pub(crate) const LINE_BYTES_MAX: usize = 64 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow)]
    body: Option<&'a RawValue>,
    #[serde(borrow)]
    entry: &'a RawValue,
}

/// Writes one entry with its artifact, or with `null` if that was purged.
pub(crate) fn write_line(entry: &Entry, body: Option<&[u8]>) -> Result<Vec<u8>, String> {
    let mut rest = Vec::with_capacity(1024);
    entry.write_canonical(&mut rest);
    // The canonical form lacks only the entry's own digest, which sorts before `from_state`.
    let next_key = b",\"from_state\":";
    let at = rest.windows(next_key.len()).position(|window| window == next_key).unwrap_or_default();
    let (start, end) = rest.split_at(at);
    let digest = format!(",\"entry_digest\":\"{}\"", entry.entry_digest);
    let body = body.unwrap_or(b"null");
    let parts = [b"{\"body\":", body, b",\"entry\":", start, digest.as_bytes(), end, b"}\n"];
    let line = parts.concat();
    if body.contains(&b'\n') || line.len() > LINE_BYTES_MAX {
        return Err("an artifact is too long for a line or contains a line break".to_owned());
    }
    Ok(line)
}

/// Reads a line; accepts only the exact form that [`write_line`] writes.
pub(crate) fn read_line(line: &[u8]) -> Result<(Entry, Option<&[u8]>), String> {
    let parts: Line<'_> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let entry: Entry =
        serde_json::from_str(parts.entry.get()).map_err(|error| error.to_string())?;
    let body = parts.body.map(|body| body.get().as_bytes());
    if write_line(&entry, body)? != line {
        return Err("it is not canonical JSON".to_owned());
    }
    Ok((entry, body))
}

/// A reference to a tool call, or to the grant that allowed it, in an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallReference {
    pub(crate) trace_id: TraceId,
    /// The last entry of the call at that time, if the reference has it.
    pub(crate) entry_digest: Option<Digest>,
    /// The state of the call at that time, if the reference has it.
    pub(crate) state: Option<State>,
}

/// A trace of a bundle that is being verified.
pub(crate) struct Trace {
    verifier: TraceVerifier,
    /// The digests of the entries of a call or grant.
    pub(crate) digests: Vec<Digest>,
    /// The calls that its artifacts reference.
    pub(crate) calls: Vec<CallReference>,
    /// The plan that a call's request names.
    pub(crate) plan_id: Option<PlanId>,
}

impl Trace {
    pub(crate) fn new(trace_id: TraceId) -> Self {
        let verifier = TraceVerifier::new(trace_id);
        Self { verifier, digests: Vec::new(), calls: Vec::new(), plan_id: None }
    }

    /// The head of the verified entries.
    pub(crate) const fn head(&self) -> &Head {
        self.verifier.head()
    }

    /// The number of purged artifacts.
    pub(crate) const fn purged(&self) -> u64 {
        self.verifier.purged()
    }

    /// The folded run; `None` for a call, or if an event was purged.
    pub(crate) fn run(&self) -> Option<&Run> {
        self.verifier.run()
    }

    /// The folded grant; `None` for another trace, or if an event was purged.
    pub(crate) fn grant(&self) -> Option<&Grant> {
        self.verifier.grant()
    }

    /// The use of a grant that allowed the call, and the digest of the call's request.
    pub(crate) fn grant_use(&self) -> Option<(GrantUse, Digest)> {
        self.verifier.grant_use()
    }

    /// Verifies the next entry with its artifact.
    pub(crate) fn push(&mut self, entry: &Entry, body: Option<&[u8]>) -> Result<(), ChainError> {
        self.verifier.push(entry, body)?;
        if entry.artifact_type != ArtifactType::RunEvent {
            self.digests.push(entry.entry_digest);
        }
        let Some(body) = body else { return Ok(()) };
        if entry.artifact_type == ArtifactType::ActionRequest {
            self.plan_id = plan_of(body);
        }
        let references =
            references(entry.artifact_type, body).map_err(|_| ChainError::Artifact {
                sequence_number: entry.sequence_number,
                artifact: entry.artifact_type.as_str(),
            })?;
        self.calls.extend(references);
        Ok(())
    }
}

fn plan_of(body: &[u8]) -> Option<PlanId> {
    #[derive(Deserialize)]
    struct Request {
        plan_id: PlanId,
    }
    serde_json::from_slice::<Request>(body).ok().map(|request| request.plan_id)
}

/// Returns the references to calls in an artifact.
fn references(artifact_type: ArtifactType, body: &[u8]) -> Result<Vec<CallReference>, CanonError> {
    match artifact_type {
        ArtifactType::RunEvent => Ok(references_of_event(&RunEvent::read(body)?.event)),
        ArtifactType::ToolEffect => {
            let Artifact::Effect(effect) = Artifact::read(artifact_type, body)? else {
                return Ok(Vec::new());
            };
            Ok(match effect.settled_by {
                SettledBy::Probe { entry_digest, trace_id }
                | SettledBy::Compensation { entry_digest, trace_id } => {
                    vec![CallReference { trace_id, entry_digest: Some(entry_digest), state: None }]
                }
                SettledBy::Answer | SettledBy::Report { .. } | SettledBy::Person { .. } => {
                    Vec::new()
                }
            })
        }
        ArtifactType::SupervisorDecision => {
            let Artifact::Decision(decision) = Artifact::read(artifact_type, body)? else {
                return Ok(Vec::new());
            };
            Ok(match decision.decided_by {
                DecidedBy::Grant { entry_digest, grant: trace_id, .. } => {
                    vec![CallReference { trace_id, entry_digest: Some(entry_digest), state: None }]
                }
                DecidedBy::Policy { .. } | DecidedBy::Person { .. } | DecidedBy::Prompt { .. } => {
                    Vec::new()
                }
            })
        }
        // A grant of a project names calls of other runs, which do not belong in the bundle.
        ArtifactType::ActionRequest
        | ArtifactType::ToolCall
        | ArtifactType::GrantEvent
        | ArtifactType::NotificationEvent => Ok(Vec::new()),
    }
}

fn references_of_event(event: &Event) -> Vec<CallReference> {
    let waiting_call = match event {
        Event::PhaseDone { done, .. } => {
            let reference = |call: &run::CallRecord| CallReference {
                trace_id: call.trace_id,
                entry_digest: Some(call.entry_digest),
                state: Some(call.state),
            };
            return done.calls.iter().map(reference).collect();
        }
        Event::Waiting { waits_for: WaitsFor::Call { call }, .. } => Some(*call),
        Event::Held(held) => held.call,
        Event::Started(_)
        | Event::Begun {}
        | Event::PhaseStarted { .. }
        | Event::PhaseSkipped { .. }
        | Event::Checked { .. }
        | Event::InvocationStarted { .. }
        | Event::InvocationEnded { .. }
        | Event::Reviewed { .. }
        | Event::Checkpointed(_)
        | Event::MergePrepared { .. }
        | Event::Merged { .. }
        | Event::Conflicted { .. }
        | Event::RollbackBegun(_)
        | Event::RolledBack { .. }
        | Event::SentBack { .. }
        | Event::Warned { .. }
        | Event::Voted(_)
        | Event::Revoked(_)
        | Event::Resumed { .. }
        | Event::Continued {}
        | Event::Restarted { .. }
        | Event::CommitPrepared { .. }
        | Event::Noted { .. }
        | Event::Waiting { waits_for: WaitsFor::Agent { .. } | WaitsFor::Budget { .. }, .. }
        | Event::Setup(_)
        | Event::Integration(_)
        | Event::Ended { .. } => None,
    };
    let reference = |trace_id| CallReference { trace_id, entry_digest: None, state: None };
    waiting_call.map(reference).into_iter().collect()
}

/// Returns the traces that a stored artifact references: an event of a run references the calls of a
/// phase, a decision the grant that allowed the call, an effect the call that settled it. They belong in
/// the bundle of the run.
///
/// # Errors
/// [`CanonError`] if the body is not such an artifact.
pub fn referenced_calls(
    artifact_type: ArtifactType,
    body: &[u8],
) -> Result<BTreeSet<TraceId>, CanonError> {
    Ok(references(artifact_type, body)?.into_iter().map(|call| call.trace_id).collect())
}

#[cfg(test)]
mod tests {
    use windlass_kernel::canon;
    use windlass_store::conformance::fixture::{Ending, Fixture};

    use super::*;

    #[test]
    fn a_line_is_canonical_and_read_back() {
        let fixture = Fixture::new();
        for ending in Ending::ALL {
            let call = fixture.call(*ending);
            for record in call.records(call.len()) {
                for body in [record.body.as_deref(), None] {
                    let line = write_line(&record.entry, body).unwrap();
                    let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
                    assert_eq!(line, [canon::to_bytes(&value).unwrap(), vec![b'\n']].concat());
                    assert_eq!(read_line(&line), Ok((record.entry.clone(), body)));
                }
            }
        }
    }

    #[test]
    fn other_forms_of_a_line_are_refused() {
        let call = Fixture::new().call(Ending::Pending);
        let record = call.records(1).remove(0);
        let good = write_line(&record.entry, record.body.as_deref()).unwrap();
        let good = String::from_utf8(good).unwrap();
        for bad in [
            good.trim_end().to_owned(),
            good.replace("\"entry\":{", "\"entry\":{\"surplus\":1,"),
            good.replace("\"entry\":{", "\"entry\":{\"sequence_number\":1,"),
            good.replace("\"entry\":", "\"entry\": "),
            good.replace("\"sequence_number\":1,", "\"sequence_number\":1.0,"),
            format!("{{\"body\":null,{}", good.trim_start_matches('{')),
            "[null,null]\n".to_owned(),
            "\n".to_owned(),
        ] {
            assert_ne!(bad, good);
            assert!(read_line(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(write_line(&record.entry, Some(b"{\n}")).is_err());
    }
}
