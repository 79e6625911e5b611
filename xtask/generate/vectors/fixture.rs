//! The calls in the vectors: fixed ids, fixed times, real artifacts.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use windlass_kernel::artifact::{
    ActionRequest, DecidedBy, Decider, Decision, EffectError, Proposal, Resource, SettledBy,
    SupervisorDecision, ToolCall, ToolEffect,
};
use windlass_kernel::{
    Artifact, ArtifactId, Code, Digest, Draft, Entry, Head, KEY_CHARS_MAX, Outcome, PlanId,
    RiskLevel, SCHEMA_VERSION, State, Timestamp, ToolCallId, TraceId, Uuid7, transition_of,
};

/// 2026-01-01T00:00:00.000Z.
const START_MS: u64 = 1_767_225_600_000;

/// One recorded call.
pub struct Call {
    /// Its name in the vectors.
    pub name: &'static str,
    /// What it shows.
    pub comment: &'static str,
    /// Its entries.
    pub entries: Vec<Entry>,
    /// The bodies of their artifacts.
    pub artifacts: Vec<Artifact>,
    /// The head after each entry, the empty one first.
    pub heads: Vec<Head>,
}

/// The description of a call.
struct Spec {
    name: &'static str,
    comment: &'static str,
    number: u8,
    end: State,
    outcome: Outcome,
    key: Option<String>,
    risk_level: RiskLevel,
}

/// An id that is the same in every run of this program.
pub fn id(number: u8, what: u8) -> Uuid7 {
    let ms = START_MS + u64::from(number) * 1000 + u64::from(what);
    Uuid7::from_parts(ms, [number, what, 0, 0, 0, 0, 0, 0, number, what])
}

/// A time that is the same in every run of this program.
pub fn time(number: u8, step: u8) -> Result<Timestamp> {
    let ms = START_MS + u64::from(number) * 1000 + u64::from(step) * 17;
    Timestamp::from_unix_ms(i64::try_from(ms)?).context("a fixed time is a timestamp")
}

/// All calls with valid chains.
pub fn calls() -> Result<Vec<Call>> {
    let longest = "\u{1f511}".repeat(KEY_CHARS_MAX);
    let spec = |name, comment, number, end, key: Option<&str>| Spec {
        name,
        comment,
        number,
        end,
        outcome: if end == State::Completed { Outcome::Success } else { Outcome::Failure },
        key: key.map(str::to_owned),
        risk_level: RiskLevel::Write,
    };
    let specs = [
        spec("pending", "recorded, not yet judged", 1, State::Pending, Some("key-1")),
        spec("authorized", "allowed, not yet handed over", 2, State::Authorized, Some("key-2")),
        spec("executing", "handed over; its effect is unknown", 3, State::Executing, Some("key-3")),
        spec("completed", "the tool reported success", 4, State::Completed, Some("key-4")),
        spec("failed", "the tool reported failure", 5, State::Failed, Some("key-5")),
        spec("denied", "refused by policy", 6, State::Denied, Some("key-6")),
        Spec {
            outcome: Outcome::Error,
            ..spec("failed-error", "the tool did not answer", 7, State::Failed, Some("key-7"))
        },
        Spec {
            outcome: Outcome::Denied,
            ..spec("failed-given-up", "a person gave it up", 8, State::Failed, Some("key-8"))
        },
        Spec {
            risk_level: RiskLevel::Read,
            ..spec("completed-read", "a read has no key: null is hashed", 9, State::Completed, None)
        },
        spec(
            "unicode-key",
            "a key of several scripts, an emoji beyond the BMP and a combining mark",
            10,
            State::Completed,
            Some("clé-鍵-ключ-\u{1f511}-e\u{301}"),
        ),
        spec(
            "escaped-key",
            "a key with characters that JSON must or may escape",
            11,
            State::Completed,
            Some("\"quote\" \\ / \u{8}\t\n\u{c}\r\u{1f}\u{7f}\u{2028}"),
        ),
        spec(
            "longest-key",
            "255 characters, each of 4 bytes",
            12,
            State::Completed,
            Some(&longest),
        ),
    ];
    specs.iter().map(record).collect()
}

/// The call named `name`.
pub fn named<'a>(all: &'a [Call], name: &str) -> Result<&'a Call> {
    all.iter().find(|call| call.name == name).with_context(|| format!("no call `{name}`"))
}

/// Records a call up to its last state.
fn record(spec: &Spec) -> Result<Call> {
    let trace_id = TraceId(id(spec.number, 0));
    let mut recorded = Call {
        name: spec.name,
        comment: spec.comment,
        entries: Vec::new(),
        artifacts: Vec::new(),
        heads: vec![Head::empty(trace_id)],
    };
    let request = request(spec, trace_id)?;
    let proposal_digest = request.proposal.digest()?;
    let request_digest = add(&mut recorded, spec, Artifact::Request(request))?;
    if spec.end == State::Pending {
        return Ok(recorded);
    }
    let decision = decision(spec, trace_id, request_digest)?;
    let decision_digest = add(&mut recorded, spec, Artifact::Decision(decision))?;
    if matches!(spec.end, State::Authorized | State::Denied) {
        return Ok(recorded);
    }
    let call = ToolCall {
        schema_id: ToolCall::SCHEMA_ID.into(),
        schema_version: SCHEMA_VERSION.into(),
        artifact_id: ArtifactId(id(spec.number, 13)),
        trace_id,
        ts: time(spec.number, 3)?,
        decision_digest,
        foreseen: None,
        tool_call_id: ToolCallId(id(spec.number, 20)),
        proposal_digest,
        idempotency_key: spec.key.clone(),
    };
    let call_digest = add(&mut recorded, spec, Artifact::Call(call))?;
    if spec.end == State::Executing {
        return Ok(recorded);
    }
    let effect = effect(spec, trace_id, call_digest)?;
    add(&mut recorded, spec, Artifact::Effect(effect))?;
    Ok(recorded)
}

/// Appends the entry of `artifact` and returns the artifact's digest.
fn add(recorded: &mut Call, spec: &Spec, artifact: Artifact) -> Result<Digest> {
    let head = recorded.heads.last().context("a trace has a head")?;
    let step = u8::try_from(recorded.entries.len() + 1)?;
    let artifact_digest = Digest::of(&artifact.to_bytes()?);
    let draft = Draft {
        ts: time(spec.number, step)?,
        transition: transition_of(&artifact).context("the artifact moves its call")?,
        artifact_id: artifact.artifact_id(),
        artifact_digest,
        tool_call_id: (step > 2).then_some(ToolCallId(id(spec.number, 20))),
        idempotency_key: spec.key.clone(),
    };
    let (entry, head) = head.append(draft)?;
    recorded.entries.push(entry);
    recorded.heads.push(head);
    recorded.artifacts.push(artifact);
    Ok(artifact_digest)
}

fn request(spec: &Spec, trace_id: TraceId) -> Result<ActionRequest> {
    let writes = spec.risk_level.writes();
    Ok(ActionRequest {
        files: Vec::new(),
        schema_id: ActionRequest::SCHEMA_ID.into(),
        schema_version: SCHEMA_VERSION.into(),
        artifact_id: ArtifactId(id(spec.number, 11)),
        trace_id,
        ts: time(spec.number, 1)?,
        plan_id: PlanId(id(spec.number, 10)),
        risk_level: spec.risk_level,
        intent: format!("show a call that is {}", spec.name),
        resources: vec![Resource { kind: "issue".into(), id: "tracker/42".into() }],
        proposal: Proposal {
            tool_server: "tracker".into(),
            tool_name: if writes { "create_comment" } else { "get_issue" }.into(),
            args: json!({ "issue": 42, "text": "naïve ☃", "weight": 0.5, "labels": [], "to": null }),
            workspace: ".".into(),
        },
        idempotency_key: spec.key.clone(),
        agent: Some("builder".into()),
        phase: None,
        run: None,
    })
}

fn decision(spec: &Spec, trace_id: TraceId, request_digest: Digest) -> Result<SupervisorDecision> {
    let denied = spec.end == State::Denied;
    Ok(SupervisorDecision {
        schema_id: SupervisorDecision::SCHEMA_ID.into(),
        schema_version: SCHEMA_VERSION.into(),
        artifact_id: ArtifactId(id(spec.number, 12)),
        trace_id,
        ts: time(spec.number, 2)?,
        request_digest,
        decision: if denied { Decision::Deny } else { Decision::Approve },
        rationale: if denied { "no rule allows it" } else { "allowed by rule `tracker`" }.into(),
        decided_by: DecidedBy::Policy {
            rules: if denied { Vec::new() } else { vec!["tracker".into()] },
        },
        policy_hash: Digest::of(b"policy"),
        code: denied.then_some(Code::PolicyDenied),
    })
}

fn effect(spec: &Spec, trace_id: TraceId, tool_call_digest: Digest) -> Result<ToolEffect> {
    let failure = |code, message: &str, may_have_run| {
        Some(EffectError { code, message: message.to_owned(), may_have_run })
    };
    let (result, error, settled_by) = match spec.outcome {
        Outcome::Success => (json!({ "comment": 7 }), None, SettledBy::Answer),
        Outcome::Failure => {
            let error = failure(Code::ToolFailed, "the issue is locked", false);
            (Value::Null, error, SettledBy::Answer)
        }
        Outcome::Error => {
            let error = failure(Code::ToolTimeout, "no answer within 30000 ms", true);
            (Value::Null, error, SettledBy::Answer)
        }
        Outcome::Denied => {
            let error = failure(Code::ToolOutcomeUnknown, "given up after a crash", true);
            let decider = Decider::Hold {
                entry_digest: Digest::of(b"vote"),
                names: vec!["ada".into()],
                trace_id: TraceId(id(spec.number, 15)),
            };
            let reason = "given up after a crash".into();
            (Value::Null, error, SettledBy::Person { decider, reason })
        }
    };
    Ok(ToolEffect {
        schema_id: ToolEffect::SCHEMA_ID.into(),
        schema_version: SCHEMA_VERSION.into(),
        artifact_id: ArtifactId(id(spec.number, 14)),
        trace_id,
        ts: time(spec.number, 4)?,
        tool_call_digest,
        tool_call_id: ToolCallId(id(spec.number, 20)),
        outcome: spec.outcome,
        result,
        error,
        duration_ms: 12,
        settled_by,
        redispatches: Vec::new(),
    })
}
