//! The shipped supervisor before the gateway: what policy says is recorded with its code, and
//! nothing that is known to be secret is stored.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use windlass_connect::Reply;
use windlass_kernel::artifact::{DecidedBy, Decision, Resource, SupervisorDecision};
use windlass_kernel::{ArtifactType, Code, Outcome, RiskLevel, State, TraceId};
use windlass_policy::PolicySet;
use windlass_runtime::{
    Answer, CallRequest, FileWorkspace, Gateway, PolicySupervisor, Supervisor as _,
};
use windlass_store::Store as _;
use windlass_testkit::gateway::{SECRET, TOOLS, World, call, test_set};
use windlass_testkit::people::by;

fn supervisor(set: PolicySet) -> PolicySupervisor {
    let folder = tempfile::tempdir().unwrap();
    let workspace = FileWorkspace::new(folder.path()).unwrap();
    let environment = [("WORLD_TOKEN", SECRET), ("UNNAMED", "not the world's")];
    let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
    PolicySupervisor::new(set, workspace, environment)
}

fn gateway(world: &World) -> Gateway {
    world.gateway(Arc::new(supervisor(test_set().clone())))
}

fn decision(world: &World, trace_id: TraceId) -> SupervisorDecision {
    let records = world.store().list_log_entries(trace_id, 0, 10).unwrap();
    let kind = ArtifactType::SupervisorDecision;
    let record = records.iter().find(|record| record.entry.artifact_type == kind).unwrap();
    serde_json::from_slice(record.body.as_ref().unwrap()).unwrap()
}

/// Every byte that is stored, as text.
fn stored(world: &World) -> String {
    let tables = world.shared.tables();
    let bodies = tables.entries.values().flatten();
    let bodies = bodies.filter_map(|record| Some(String::from_utf8_lossy(record.body.as_ref()?)));
    let bodies: String = bodies.collect();
    format!("{bodies} {tables:?}")
}

#[test]
fn every_refusal_is_recorded_with_its_code() {
    let world = World::default();
    let gateway = gateway(&world);
    let write = || call("add", Some("key-1"), 1);
    let large = json!({ "text": "x".repeat(6 << 20) });
    for (request, code) in [
        (call("deny", Some("key-1"), 1), Code::PolicyDenied),
        (call("nothing", Some("key-1"), 1), Code::ToolUnclassifiedDenied),
        (CallRequest { server: "nowhere".into(), ..write() }, Code::ToolUnclassifiedDenied),
        (
            CallRequest { declared_class: RiskLevel::Read, ..write() },
            Code::ToolClassDeclarationMismatch,
        ),
        (CallRequest { key: None, ..write() }, Code::IdempotencyKeyRequired),
        (CallRequest { args: large, ..write() }, Code::DocSizeExceeded),
    ] {
        let report = gateway.call(request).unwrap();
        assert_eq!(report.state, State::Denied);
        assert_eq!(report.refusal.as_ref().unwrap().code, code);
        assert_eq!(gateway.show(report.trace_id).unwrap(), report);
        let made = decision(&world, report.trace_id);
        assert_eq!((made.decision, made.code), (Decision::Deny, Some(code)));
        assert_eq!(made.policy_hash, test_set().hash());
        assert!(matches!(made.decided_by, DecidedBy::Policy { .. }));
    }
    assert_eq!(world.tools.lock().dispatches, []);
}

#[test]
fn allowed_and_asked_calls_name_their_rules() {
    let world = World::default();
    let gateway = gateway(&world);
    let report = gateway.call(call("add", Some("key-1"), 1)).unwrap();
    assert_eq!(report.state, State::Completed);
    let made = decision(&world, report.trace_id);
    assert_eq!(made.decided_by, DecidedBy::Policy { rules: vec!["world".into()] });
    assert_eq!((made.decision, made.code), (Decision::Approve, None));
    let asked = gateway.call(call("ask", Some("key-1"), 1)).unwrap();
    let hold = asked.hold.unwrap();
    assert!(hold.reason.ends_with("a person must look at this"), "{}", hold.reason);
    let attribution = by("Ada", "I looked");
    let report = gateway.decide(asked.trace_id, Answer::Approve, attribution).unwrap();
    assert_eq!(report.state, State::Completed);
}

#[test]
fn a_variable_that_is_not_set_refuses_the_call() {
    let world = World::default();
    let folder = tempfile::tempdir().unwrap();
    let workspace = FileWorkspace::new(folder.path()).unwrap();
    let gateway = world.gateway(Arc::new(PolicySupervisor::new(test_set().clone(), workspace, [])));
    let report = gateway.call(call("add", Some("key-1"), 1)).unwrap();
    assert_eq!(report.refusal.unwrap().code, Code::ConfigInvalid);
    assert_eq!(world.tools.lock().dispatches, []);
}

#[test]
fn a_secret_in_a_request_is_refused_and_not_stored() {
    let text = format!("Bearer {SECRET}");
    let request = || call("add", Some("key-1"), 1);
    let resource = || Resource { kind: "file".into(), id: text.clone() };
    let asked = || call("ask", Some("key-1"), 1);
    for request in [
        CallRequest { args: json!({ "token": text }), ..request() },
        CallRequest { args: json!({ "deep": [{ "list": [SECRET] }] }), ..request() },
        CallRequest { args: json!({ SECRET: 1 }), ..request() },
        CallRequest { args: json!({ "token": text }), ..asked() },
        CallRequest { intent: text.clone(), ..request() },
        CallRequest { intent: format!("{}{SECRET}", "x".repeat(984)), ..request() },
        CallRequest { resources: vec![resource()], ..request() },
        CallRequest { key: Some(text.clone()), ..request() },
        CallRequest { agent: Some(text.clone()), ..request() },
        CallRequest { phase: Some(text.clone()), ..request() },
    ] {
        let world = World::default();
        let gateway = gateway(&world);
        let report = gateway.call(request.clone()).unwrap();
        assert_eq!(report.state, State::Denied, "{request:?}");
        assert_eq!(report.refusal.as_ref().unwrap().code, Code::SecretInRequest);
        assert!(report.refusal.as_ref().unwrap().reason.contains("WORLD_TOKEN"));
        assert_eq!(gateway.show(report.trace_id).unwrap(), report);
        assert!(!stored(&world).contains(SECRET), "{request:?}");
        assert!(stored(&world).contains("[redacted:WORLD_"), "{request:?}");
        assert_eq!(world.tools.lock().dispatches, []);
        let verified = windlass_journal::verify_store(&world.store(), &mut |_| {}).unwrap();
        assert_eq!((verified.broken, verified.traces), (0, 1));
    }
}

#[test]
fn what_a_tool_tells_of_secrets_is_not_stored() {
    let token = format!("ghp_{}", "a1".repeat(20));
    for reply in [
        Reply::Success { result: json!({ "a": [SECRET, token], (SECRET): token }) },
        Reply::Failure {
            code: Code::ToolFailed,
            message: format!("{SECRET} and {token} do not work"),
            result: Some(json!({ "log": format!("{SECRET} {token}") })),
            certainty: windlass_connect::Certainty::Ran,
        },
    ] {
        let world = World::default();
        let gateway = gateway(&world);
        world.tools.lock().scripted.insert("add".to_owned(), reply);
        let report = gateway.call(call("add", Some("key-1"), 1)).unwrap();
        assert_eq!(gateway.show(report.trace_id).unwrap(), report);
        for text in [stored(&world), format!("{report:?}")] {
            assert!(!text.contains(SECRET) && !text.contains(&token), "{text}");
            assert!(text.contains("[redacted:WORLD_TOKEN]"), "{text}");
            assert!(text.contains("[redacted:github-token]"), "{text}");
        }
    }
}

#[test]
fn what_a_person_says_of_secrets_is_not_stored() {
    let world = World::default();
    let gateway = gateway(&world);
    let attribution = |reason| by("Ada", reason);
    let reason = format!("it used {SECRET}");
    let asked = gateway.call(call("ask", Some("key-1"), 1)).unwrap();
    gateway.decide(asked.trace_id, Answer::Deny, attribution(&reason)).unwrap();
    for (key, answer) in [("key-2", Answer::DidNotRun), ("key-3", Answer::Failed)] {
        let request = call("burn", Some(key), 1);
        let trace_id = windlass_testkit::gateway::interrupt(&world, request, 4);
        let report = gateway.decide(trace_id, answer, attribution(&reason)).unwrap();
        assert_eq!(gateway.show(trace_id).unwrap(), report);
    }
    assert!(!stored(&world).contains(SECRET), "{}", stored(&world));
}

#[test]
fn an_answer_that_cannot_be_kept_fails_the_call_with_the_reason() {
    let large = "x".repeat(TOOLS.len() << 14);
    for (result, code) in [
        (json!({ "n": 9_007_199_254_740_993_u64 }), Code::JsonNumberUnsafe),
        (json!(large), Code::ToolOutputTooLarge),
    ] {
        let world = World::default();
        let gateway = gateway(&world);
        world.tools.lock().scripted.insert("add".to_owned(), Reply::Success { result });
        let report = gateway.call(call("add", Some("key-1"), 1)).unwrap();
        assert_eq!((report.state, report.outcome), (State::Failed, Some(Outcome::Error)));
        let error = report.error.clone().unwrap();
        assert_eq!((error.code, error.may_have_run), (code, true));
        assert_eq!(report.result, json!(null));
        assert_eq!(gateway.show(report.trace_id).unwrap(), report);
    }
}

#[test]
fn a_tool_that_was_not_reached_certainly_did_not_run() {
    use windlass_connect::Certainty;
    for (certainty, may_have_run) in [(Certainty::DidNotRun, false), (Certainty::Ran, true)] {
        let world = World::default();
        let gateway = gateway(&world);
        let (code, message) = (Code::ToolServerUnavailable, "gone".to_owned());
        let reply = Reply::Failure { code, message, result: None, certainty };
        world.tools.lock().scripted.insert("add".to_owned(), reply);
        let report = gateway.call(call("add", Some("key-1"), 1)).unwrap();
        assert_eq!((report.state, report.outcome), (State::Failed, Some(Outcome::Error)));
        assert_eq!(report.error.unwrap().may_have_run, may_have_run);
        // Its key is not used up, but for a run: a repeated attempt gets what it got before.
        world.tools.lock().scripted.clear();
        let again = gateway.call(call("add", Some("key-1"), 1)).unwrap();
        assert_eq!(
            (again.replayed, again.state == State::Completed),
            (may_have_run, !may_have_run)
        );
        let once_more = gateway.call(call("add", Some("key-1"), 1)).unwrap();
        assert_eq!((once_more.replayed, once_more.state), (true, again.state));
        let run = Some(windlass_kernel::TraceId(again.trace_id.0));
        let of_run =
            |value| windlass_runtime::CallRequest { run, ..call("add", Some("key-2"), value) };
        let (code, message) = (Code::ToolServerUnavailable, "gone".to_owned());
        let reply = Reply::Failure { code, message, result: None, certainty };
        world.tools.lock().scripted.insert("add".to_owned(), reply);
        let first = gateway.call(of_run(1)).unwrap();
        world.tools.lock().scripted.clear();
        let again = gateway.call(of_run(1)).unwrap();
        assert_eq!((again.replayed, again.trace_id), (true, first.trace_id));
    }
}

#[test]
fn a_message_has_no_part_of_a_secret_wherever_it_is_cut() {
    let world = World::default();
    let gateway = gateway(&world);
    for at in 0..3000 {
        let message = ["x".repeat(at), SECRET.to_owned(), "y".repeat(3000 - at)].concat();
        let (code, certainty) = (Code::ToolServerUnavailable, windlass_connect::Certainty::Ran);
        let reply = Reply::Failure { code, message, result: None, certainty };
        world.tools.lock().scripted.insert("add".to_owned(), reply);
        let report = gateway.call(call("add", Some(&format!("key-{at}")), 1)).unwrap();
        let told = report.error.unwrap().message;
        assert!(told.len() <= 2048, "{at}: {}", told.len());
        for part in [&SECRET[..4], &SECRET[4..8], &SECRET[SECRET.len() - 4..]] {
            assert!(!told.contains(part), "{at}: {told}");
        }
    }
}

#[test]
fn a_policy_set_that_is_empty_denies_everything() {
    let world = World::default();
    let set = PolicySet::load(&BTreeMap::new()).unwrap();
    let supervisor = supervisor(set);
    let hash = supervisor.policy_hash();
    let gateway = world.gateway(Arc::new(supervisor));
    let report = gateway.call(call("add", Some("key-1"), 1)).unwrap();
    assert_eq!(report.refusal.unwrap().code, Code::ToolUnclassifiedDenied);
    assert_eq!(decision(&world, report.trace_id).policy_hash, hash);
}
