//! Calls that a client makes itself: recorded before it may, settled by its report, never dispatched.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_kernel::artifact::{CLIENT_WORKSPACE, SettledBy, ToolEffect};
use windlass_kernel::{ArtifactType, Code, Outcome, PlanId, State, TraceId};
use windlass_runtime::{
    Answer, Attribution, CallRequest, ClientReport, Clock as _, Gateway, GatewayError, NoConnector,
    ReadDurability, Settings, Who,
};
use windlass_store::Store as _;
use windlass_testkit::gateway::{TestSupervisor, World, call};
use windlass_testkit::people::{Everybody, by};

struct Client {
    world: World,
    gateway: Gateway,
    session: TraceId,
}

impl Client {
    fn new() -> Self {
        let world = World::default();
        let session = TraceId(world.clock.new_id());
        let gateway = client_gateway(&world);
        Self { world, gateway, session }
    }

    fn request(&self, tool: &str, key: Option<&str>, value: u32) -> CallRequest {
        let (plan_id, run) = (Some(PlanId(self.session.0)), Some(self.session));
        CallRequest { plan_id, run, ..call(tool, key, value) }
    }

    fn approve(&self, trace_id: TraceId) {
        let mut ada = by("Ada", "I looked at it");
        if let Who::Person { run, .. } = &mut ada.who {
            *run = Some(self.session);
        }
        let report = self.gateway.decide(trace_id, Answer::Approve, ada).unwrap();
        assert_eq!(report.state, State::Authorized);
    }

    fn effect(&self, trace_id: TraceId) -> ToolEffect {
        let records = self.world.store().list_log_entries(trace_id, 0, 10).unwrap();
        let kind = ArtifactType::ToolEffect;
        let record = records.iter().find(|record| record.entry.artifact_type == kind).unwrap();
        serde_json::from_slice(record.body.as_ref().unwrap()).unwrap()
    }
}

fn client_gateway(world: &World) -> Gateway {
    Gateway::new(
        Arc::new(world.store()),
        Arc::new(TestSupervisor::default()),
        Arc::new(NoConnector),
        Arc::clone(&world.clock) as Arc<_>,
        Settings { reads: ReadDurability::WriteAhead, key_wait: Duration::ZERO },
        CLIENT_WORKSPACE,
    )
}

fn report(result: Value, failure: Option<&str>) -> ClientReport {
    let failure = failure.map(str::to_owned);
    ClientReport { client: "claude".to_owned(), result, failure, duration_ms: 12 }
}

#[test]
fn a_call_is_on_record_before_the_client_makes_it_and_settled_by_its_report() {
    let client = Client::new();
    let given = client.gateway.hand_over(client.request("add", Some("t1"), 1)).unwrap();
    assert_eq!(given.state, State::Executing);
    let states = |trace_id| client.world.store().load_state(trace_id).unwrap().head.state;
    assert_eq!(states(given.trace_id), Some(State::Executing));
    let found = client.gateway.handed_over(client.request("add", Some("t1"), 1)).unwrap();
    assert_eq!(found, Some(given.trace_id));
    let done =
        client.gateway.settle_report(given.trace_id, report(json!({"ok": 1}), None)).unwrap();
    assert_eq!(done.state, State::Completed);
    let effect = client.effect(given.trace_id);
    assert_eq!(effect.settled_by, SettledBy::Report { client: "claude".to_owned() });
    assert_eq!((effect.result, effect.duration_ms), (json!({"ok": 1}), 12));
    // A second report changes nothing.
    let again = client.gateway.settle_report(given.trace_id, report(json!(2), Some("no"))).unwrap();
    assert_eq!(again.state, State::Completed);
    assert_eq!(client.world.tools.lock().dispatches, []);
}

#[test]
fn a_failure_is_recorded_as_one_and_a_huge_result_is_left_out() {
    let client = Client::new();
    let given = client.gateway.hand_over(client.request("add", Some("t1"), 1)).unwrap();
    let huge = json!({ "text": "x".repeat(1 << 20) });
    let done = client.gateway.settle_report(given.trace_id, report(huge, Some("a\nb"))).unwrap();
    assert_eq!(done.state, State::Failed);
    let effect = client.effect(given.trace_id);
    assert_eq!(effect.outcome, Outcome::Failure);
    assert_eq!(effect.error.unwrap().message, "a b");
    assert_eq!(effect.result["omitted"], "it is too large");
}

#[test]
fn a_call_is_given_once_under_its_id() {
    let client = Client::new();
    let first = client.gateway.hand_over(client.request("add", Some("t1"), 1)).unwrap();
    let second = client.gateway.hand_over(client.request("add", Some("t1"), 1)).unwrap();
    assert_eq!(second.state, State::Denied);
    assert_eq!(second.refusal.unwrap().code, Code::IdempotencyConflict);
    client.gateway.settle_report(first.trace_id, report(json!({}), None)).unwrap();
    let third = client.gateway.hand_over(client.request("add", Some("t1"), 1)).unwrap();
    assert_eq!(third.state, State::Denied);
}

#[test]
fn what_policy_denies_is_denied_and_recorded() {
    let client = Client::new();
    let denied = client.gateway.hand_over(client.request("deny", Some("t1"), 1)).unwrap();
    assert_eq!(denied.state, State::Denied);
    assert_eq!(client.gateway.handed_over(client.request("deny", Some("t1"), 1)).unwrap(), None);
}

#[test]
fn what_is_asked_about_is_let_through_once_after_approval() {
    let client = Client::new();
    let asked = client.gateway.hand_over(client.request("ask", Some("t1"), 1)).unwrap();
    assert_eq!(asked.state, State::Pending);
    // The same call again is the same question, under whatever id.
    let again = client.gateway.hand_over(client.request("ask", Some("t2"), 1)).unwrap();
    assert_eq!((again.trace_id, again.state), (asked.trace_id, State::Pending));
    let other = client.gateway.hand_over(client.request("ask", Some("t3"), 2)).unwrap();
    assert_ne!(other.trace_id, asked.trace_id);
    client.approve(asked.trace_id);
    let through = client.gateway.hand_over(client.request("ask", Some("t4"), 1)).unwrap();
    assert_eq!((through.trace_id, through.state), (asked.trace_id, State::Executing));
    let found = client.gateway.handed_over(client.request("ask", Some("t4"), 1)).unwrap();
    assert_eq!(found, Some(asked.trace_id));
    let next = client.gateway.hand_over(client.request("ask", Some("t5"), 1)).unwrap();
    assert_eq!(next.state, State::Pending);
    assert_ne!(next.trace_id, asked.trace_id);
}

#[test]
fn a_person_cannot_approve_other_arguments_than_the_agent_uses() {
    let client = Client::new();
    let asked = client.gateway.hand_over(client.request("ask", Some("t1"), 1)).unwrap();
    let args = json!({ "value": 7 });
    let who = Who::Person { name: "Ada", people: &Everybody, run: Some(client.session) };
    let ada = Attribution { who, edit: Some(&args), ..by("Ada", "only seven") };
    let error = client.gateway.decide(asked.trace_id, Answer::Approve, ada).unwrap_err();
    assert!(matches!(error, GatewayError::WrongAnswer { .. }), "{error:?}");
    let again = client.gateway.hand_over(client.request("ask", Some("t2"), 1)).unwrap();
    assert_eq!((again.trace_id, again.state), (asked.trace_id, State::Pending));
}

#[test]
fn another_session_does_not_use_an_approval() {
    let client = Client::new();
    let asked = client.gateway.hand_over(client.request("ask", Some("t1"), 1)).unwrap();
    client.approve(asked.trace_id);
    let stranger = Client {
        session: TraceId(client.world.clock.new_id()),
        gateway: client_gateway(&client.world),
        world: client.world.clone(),
    };
    let theirs = stranger.gateway.hand_over(stranger.request("ask", Some("t1"), 1)).unwrap();
    assert_eq!(theirs.state, State::Pending);
    assert_ne!(theirs.trace_id, asked.trace_id);
}

#[test]
fn nothing_dispatches_a_call_of_a_client() {
    let client = Client::new();
    let given = client.gateway.hand_over(client.request("add", Some("t1"), 1)).unwrap();
    let asked = client.gateway.hand_over(client.request("ask", Some("t2"), 1)).unwrap();
    client.approve(asked.trace_id);
    let project = client.world.gateway(Arc::new(TestSupervisor::default()));
    let recovered = project.recover_all().unwrap();
    for one in &recovered {
        assert!(matches!(one.result, Err(GatewayError::OfRun { .. })), "{one:?}");
    }
    for gateway in [&project, &client.gateway] {
        for run in [None, Some(client.session)] {
            for answer in [Answer::Approve, Answer::DidNotRun] {
                for trace_id in [given.trace_id, asked.trace_id] {
                    let who = Who::Person { name: "Ada", people: &Everybody, run };
                    let ada = Attribution { who, ..by("Ada", "go on") };
                    assert!(gateway.decide(trace_id, answer, ada).is_err());
                }
            }
        }
    }
    assert_eq!(client.world.tools.lock().dispatches, []);
    // A gateway that makes calls itself hands none over.
    let error = project.hand_over(client.request("add", Some("t9"), 1)).unwrap_err();
    assert!(matches!(error, GatewayError::Recovery { .. }), "{error:?}");
}
