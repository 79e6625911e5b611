//! Compares each artifact with the general encoder.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::Uuid7;

fn artifacts(ms: u64, text: &str, number: f64, key: Option<String>) -> Vec<Artifact> {
    let id = Uuid7::from_parts(ms, [3; 10]);
    let (schema_version, ts) = ("v1".into(), Timestamp::EPOCH);
    let (artifact_id, trace_id) = (ArtifactId(id), TraceId(id));
    let digest = Digest::of(text.as_bytes());
    let free = json!({ text: number, "b": { "😀": 1, "\u{fb33}": [2, { text: null }] } });
    let files = vec![NamedFile { digest, path: text.to_owned() }];
    let signer = crate::Signer::from_seed(&[7; 32]);
    let signed = |security_key| crate::Signed {
        approver: text.to_owned(),
        key: signer.public(),
        name: text.to_owned(),
        security_key,
        signature: signer.sign(text.as_bytes()),
    };
    let hardware = crate::SecurityKey { application: text.to_owned(), counter: 7, flags: 1 };
    let held = Decider::Hold { entry_digest: digest, names: vec![text.to_owned()], trace_id };
    let request = ActionRequest {
        files: files.clone(),
        schema_id: ActionRequest::SCHEMA_ID.into(),
        schema_version: "v1".into(),
        artifact_id,
        trace_id,
        ts,
        plan_id: PlanId(id),
        risk_level: RiskLevel::HighRisk,
        intent: text.to_owned(),
        resources: vec![Resource { kind: text.to_owned(), id: text.to_owned() }],
        proposal: Proposal {
            tool_server: text.to_owned(),
            tool_name: text.to_owned(),
            args: free.clone(),
            workspace: text.to_owned(),
        },
        idempotency_key: key.clone(),
        agent: key.clone(),
        phase: None,
        run: key.is_some().then_some(trace_id),
    };
    let decided = |decided_by| {
        Artifact::Decision(SupervisorDecision {
            schema_id: SupervisorDecision::SCHEMA_ID.into(),
            schema_version: "v1".into(),
            artifact_id,
            trace_id,
            ts,
            request_digest: digest,
            decision: Decision::NeedsApproval,
            rationale: text.to_owned(),
            decided_by,
            policy_hash: digest,
            code: Some(Code::PolicyDenied),
        })
    };
    let call = ToolCall {
        schema_id: ToolCall::SCHEMA_ID.into(),
        schema_version,
        artifact_id,
        trace_id,
        ts,
        decision_digest: digest,
        foreseen: None,
        tool_call_id: ToolCallId(id),
        proposal_digest: digest,
        idempotency_key: key.clone(),
    };
    let settled = |settled_by| {
        Artifact::Effect(ToolEffect {
            schema_id: ToolEffect::SCHEMA_ID.into(),
            schema_version: "v1".into(),
            artifact_id,
            trace_id,
            ts,
            tool_call_digest: digest,
            tool_call_id: ToolCallId(id),
            outcome: Outcome::Success,
            result: free.clone(),
            error: Some(EffectError {
                code: Code::ToolFailed,
                message: text.to_owned(),
                may_have_run: true,
            }),
            duration_ms: 7,
            settled_by,
            redispatches: vec![Redispatch {
                attempt: 2,
                ts,
                by: Some(held.clone()),
                reason: text.to_owned(),
            }],
        })
    };
    vec![
        Artifact::Request(request),
        decided(DecidedBy::Policy { rules: vec![text.to_owned()] }),
        decided(DecidedBy::Person { decider: held.clone(), edit: None, files: Vec::new() }),
        decided(DecidedBy::Person {
            decider: Decider::Person(Box::new(signed(None))),
            edit: Some(Edit { args: free.clone(), proposal_digest: digest }),
            files,
        }),
        decided(DecidedBy::Grant { entry_digest: digest, grant: trace_id, name: text.to_owned() }),
        decided(DecidedBy::Prompt { client: "claude".to_owned(), rules: vec![text.to_owned()] }),
        Artifact::Call(call),
        settled(SettledBy::Answer),
        settled(SettledBy::Report { client: "claude".to_owned() }),
        settled(SettledBy::Person {
            decider: Decider::Person(Box::new(signed(Some(hardware)))),
            reason: text.to_owned(),
        }),
        settled(SettledBy::Probe { trace_id, entry_digest: digest }),
        settled(SettledBy::Compensation { trace_id, entry_digest: digest }),
    ]
}

fn general(artifact: &Artifact) -> Result<Vec<u8>, CanonError> {
    match artifact {
        Artifact::Request(request) => canon::to_bytes(request),
        Artifact::Decision(decision) => canon::to_bytes(decision),
        Artifact::Call(call) => canon::to_bytes(call),
        Artifact::Effect(effect) => canon::to_bytes(effect),
    }
}

#[test]
fn names_are_written_as_by_the_general_encoder() {
    fn check<T: canon::Canonical + Serialize>(names: &[T]) {
        for name in names {
            assert_eq!(canon::written(name), serde_json::to_vec(name).unwrap());
        }
    }
    check(&[Decision::Approve, Decision::Deny, Decision::NeedsApproval]);
    check(&[Outcome::Success, Outcome::Failure, Outcome::Denied, Outcome::Error]);
    check(&[RiskLevel::Read, RiskLevel::Write, RiskLevel::HighRisk]);
    check(ArtifactType::ALL);
    check(crate::State::ALL);
    check(Code::ALL);
}

/// A name may contain JSON syntax that resembles the surrounding text.
#[test]
fn names_that_contain_json_syntax_are_read_unchanged() {
    for text in [
        "",
        "\\",
        "\"}",
        "x\",\"tool_server\":\"y",
        "\\\",\"tool_server\":\"y",
        "\",\"tool_name\":\"z\",\"tool_server\":\"y\"}",
        "tool_name\":",
    ] {
        for artifact in artifacts(1, text, 1.0, Some(text.to_owned())) {
            let bytes = artifact.to_bytes().unwrap();
            let read = crate::ArtifactHeader::read(artifact.artifact_type(), &bytes).unwrap();
            assert_eq!(read, crate::ArtifactHeader::of(&artifact).unwrap(), "{text}");
        }
    }
}

proptest! {
    #[test]
    fn fields_are_written_in_canonical_order(
        ms in 0_u64..1 << 48, text: String, number in -1e9..1e9_f64, key: Option<String>,
    ) {
        for artifact in artifacts(ms, &text, number, key) {
            let bytes = artifact.to_bytes().unwrap();
            let text = String::from_utf8(bytes.clone()).unwrap();
            prop_assert_eq!(&text, &String::from_utf8(general(&artifact).unwrap()).unwrap());
            prop_assert_eq!(
                crate::ArtifactHeader::read(artifact.artifact_type(), &bytes).unwrap(),
                crate::ArtifactHeader::of(&artifact).unwrap()
            );
            prop_assert_eq!(Artifact::read(artifact.artifact_type(), &bytes).unwrap(), artifact);
        }
    }
}
