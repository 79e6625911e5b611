//! The calls that the vectors tell of: fixed ids, fixed times, real artifacts.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use windlass_kernel::artifact::{
    ActionRequest, DecidedBy, Decision, EffectError, Proposal, Resource, SettledBy,
    SupervisorDecision, ToolCall, ToolEffect,
};
use windlass_kernel::{
    Artifact, ArtifactId, Code, Digest, Draft, Entry, Head, KEY_CHARS_MAX, Outcome, PlanId,
    RiskLevel, SCHEMA_VERSION, State, Timestamp, ToolCallId, TraceId, Uuid7, transition_of,
};

/// 2026-01-01T00:00:00.000Z.
const START_MS: u64 = 1_767_225_600_000;

/// One recorded call.
pub struct Told {
    /// What the vectors call it.
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

/// What is to be told.
struct Story {
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

/// All the calls that hold together.
pub fn all() -> Result<Vec<Told>> {
    let longest = "\u{1f511}".repeat(KEY_CHARS_MAX);
    let story = |name, comment, number, end, key: Option<&str>| Story {
        name,
        comment,
        number,
        end,
        outcome: if end == State::Completed { Outcome::Success } else { Outcome::Failure },
        key: key.map(str::to_owned),
        risk_level: RiskLevel::Write,
    };
    let stories = [
        story("pending", "recorded, not yet judged", 1, State::Pending, Some("key-1")),
        story("authorized", "allowed, not yet handed over", 2, State::Authorized, Some("key-2")),
        story(
            "executing",
            "handed over; its effect is unknown",
            3,
            State::Executing,
            Some("key-3"),
        ),
        story("completed", "the tool reported success", 4, State::Completed, Some("key-4")),
        story("failed", "the tool reported failure", 5, State::Failed, Some("key-5")),
        story("denied", "refused by policy", 6, State::Denied, Some("key-6")),
        Story {
            outcome: Outcome::Error,
            ..story("failed-error", "the tool did not answer", 7, State::Failed, Some("key-7"))
        },
        Story {
            outcome: Outcome::Denied,
            ..story("failed-given-up", "a person gave it up", 8, State::Failed, Some("key-8"))
        },
        Story {
            risk_level: RiskLevel::Read,
            ..story(
                "completed-read",
                "a read has no key: null is hashed",
                9,
                State::Completed,
                None,
            )
        },
        story(
            "unicode-key",
            "a key of several scripts, an emoji beyond the BMP and a combining mark",
            10,
            State::Completed,
            Some("clé-鍵-ключ-\u{1f511}-e\u{301}"),
        ),
        story(
            "escaped-key",
            "a key with characters that JSON must or may escape",
            11,
            State::Completed,
            Some("\"quote\" \\ / \u{8}\t\n\u{c}\r\u{1f}\u{7f}\u{2028}"),
        ),
        story(
            "longest-key",
            "255 characters, each of 4 bytes",
            12,
            State::Completed,
            Some(&longest),
        ),
    ];
    stories.iter().map(tell).collect()
}

/// The call named `name`.
pub fn named<'a>(all: &'a [Told], name: &str) -> Result<&'a Told> {
    all.iter().find(|told| told.name == name).with_context(|| format!("no call `{name}`"))
}

fn tell(story: &Story) -> Result<Told> {
    let trace_id = TraceId(id(story.number, 0));
    let mut told = Told {
        name: story.name,
        comment: story.comment,
        entries: Vec::new(),
        artifacts: Vec::new(),
        heads: vec![Head::empty(trace_id)],
    };
    let request = request(story, trace_id)?;
    let proposal_digest = request.proposal.digest()?;
    let request_digest = add(&mut told, story, Artifact::Request(request))?;
    if story.end == State::Pending {
        return Ok(told);
    }
    let decision = decision(story, trace_id, request_digest)?;
    let decision_digest = add(&mut told, story, Artifact::Decision(decision))?;
    if matches!(story.end, State::Authorized | State::Denied) {
        return Ok(told);
    }
    let call = ToolCall {
        schema_id: ToolCall::SCHEMA_ID.into(),
        schema_version: SCHEMA_VERSION.into(),
        artifact_id: ArtifactId(id(story.number, 13)),
        trace_id,
        ts: time(story.number, 3)?,
        decision_digest,
        tool_call_id: ToolCallId(id(story.number, 20)),
        proposal_digest,
        idempotency_key: story.key.clone(),
    };
    let call_digest = add(&mut told, story, Artifact::Call(call))?;
    if story.end == State::Executing {
        return Ok(told);
    }
    let effect = effect(story, trace_id, call_digest)?;
    add(&mut told, story, Artifact::Effect(effect))?;
    Ok(told)
}

/// Appends the entry of `artifact` and returns the artifact's digest.
fn add(told: &mut Told, story: &Story, artifact: Artifact) -> Result<Digest> {
    let head = told.heads.last().context("a trace has a head")?;
    let step = u8::try_from(told.entries.len() + 1)?;
    let artifact_digest = Digest::of(&artifact.to_bytes()?);
    let draft = Draft {
        ts: time(story.number, step)?,
        transition: transition_of(&artifact).context("the artifact moves its call")?,
        artifact_id: artifact.artifact_id(),
        artifact_digest,
        tool_call_id: (step > 2).then_some(ToolCallId(id(story.number, 20))),
        idempotency_key: story.key.clone(),
    };
    let (entry, head) = head.append(draft)?;
    told.entries.push(entry);
    told.heads.push(head);
    told.artifacts.push(artifact);
    Ok(artifact_digest)
}

fn request(story: &Story, trace_id: TraceId) -> Result<ActionRequest> {
    let writes = story.risk_level.writes();
    Ok(ActionRequest {
        schema_id: ActionRequest::SCHEMA_ID.into(),
        schema_version: SCHEMA_VERSION.into(),
        artifact_id: ArtifactId(id(story.number, 11)),
        trace_id,
        ts: time(story.number, 1)?,
        plan_id: PlanId(id(story.number, 10)),
        risk_level: story.risk_level,
        intent: format!("show a call that is {}", story.name),
        resources: vec![Resource { kind: "issue".into(), id: "tracker/42".into() }],
        proposal: Proposal {
            tool_server: "tracker".into(),
            tool_name: if writes { "create_comment" } else { "get_issue" }.into(),
            args: json!({ "issue": 42, "text": "naïve ☃", "weight": 0.5, "labels": [], "to": null }),
        },
        idempotency_key: story.key.clone(),
        agent: Some("builder".into()),
        phase: None,
    })
}

fn decision(
    story: &Story,
    trace_id: TraceId,
    request_digest: Digest,
) -> Result<SupervisorDecision> {
    let denied = story.end == State::Denied;
    Ok(SupervisorDecision {
        schema_id: SupervisorDecision::SCHEMA_ID.into(),
        schema_version: SCHEMA_VERSION.into(),
        artifact_id: ArtifactId(id(story.number, 12)),
        trace_id,
        ts: time(story.number, 2)?,
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

fn effect(story: &Story, trace_id: TraceId, tool_call_digest: Digest) -> Result<ToolEffect> {
    let failure = |code, message: &str, may_have_run| {
        Some(EffectError { code, message: message.to_owned(), may_have_run })
    };
    let (result, error, settled_by) = match story.outcome {
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
            (Value::Null, error, SettledBy::Person { name: "ada".into() })
        }
    };
    Ok(ToolEffect {
        schema_id: ToolEffect::SCHEMA_ID.into(),
        schema_version: SCHEMA_VERSION.into(),
        artifact_id: ArtifactId(id(story.number, 14)),
        trace_id,
        ts: time(story.number, 4)?,
        tool_call_digest,
        tool_call_id: ToolCallId(id(story.number, 20)),
        outcome: story.outcome,
        result,
        error,
        duration_ms: 12,
        settled_by,
        redispatches: Vec::new(),
    })
}
