//! Calls that a client makes itself: recorded before it may, settled by its report, never dispatched.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_journal::verify_store;
use windlass_kernel::artifact::{
    CLIENT_WORKSPACE, DecidedBy, Resource, SettledBy, SupervisorDecision, ToolEffect,
};
use windlass_kernel::grant::{EVERY_TOOL, Terms};
use windlass_kernel::{ArtifactType, Code, Outcome, PlanId, State, Timestamp, TraceId};
use windlass_runtime::{
    Answer, Asking, Attribution, CallReport, CallRequest, ClientReport, Clock as _, Gateway,
    GatewayError, HandedOver, NoConnector, ReadDurability, Settings, TOOL_USE, Who,
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

    /// Asks to use a tool.
    fn use_of(&self, tool: &str, key: Option<&str>, value: u32) -> CallReport {
        self.gateway.hand_over(self.request(tool, key, value), Asking::Hold).unwrap()
    }

    /// Asks to use a tool with a client that can ask the person.
    fn prompted(&self, tool: &str, key: &str, value: u32) -> CallReport {
        let request = self.request(tool, Some(key), value);
        self.gateway.hand_over(request, Asking::Prompt { client: "claude" }).unwrap()
    }

    /// Grants everything for an hour.
    fn allow_all(&self) -> TraceId {
        let until = self.world.clock.now().unix_ms() + 3_600_000;
        let terms = Terms {
            command: None,
            everything: true,
            path: None,
            run: Some(self.session),
            times: 2,
            tool: EVERY_TOOL.to_owned(),
            until: Timestamp::from_unix_ms(until).unwrap(),
        };
        self.gateway.grant(terms, "Ann", "the release is on fire").unwrap().head.trace_id
    }

    fn decided_by(&self, trace_id: TraceId) -> DecidedBy {
        let records = self.world.store().list_log_entries(trace_id, 0, 10).unwrap();
        let kind = ArtifactType::SupervisorDecision;
        let record = records.iter().find(|record| record.entry.artifact_type == kind).unwrap();
        let decision: SupervisorDecision =
            serde_json::from_slice(record.body.as_ref().unwrap()).unwrap();
        decision.decided_by
    }

    fn is_intact(&self) {
        let report = verify_store(&self.world.store(), &mut |_| {}).unwrap();
        assert_eq!(report.problems, [], "the journal is intact");
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
    .with_people(Arc::new(Everybody))
}

fn report(result: Value, failure: Option<&str>) -> ClientReport {
    let failure = failure.map(str::to_owned);
    ClientReport { client: "claude".to_owned(), result, failure, duration_ms: 12 }
}

#[test]
fn a_call_is_on_record_before_the_client_makes_it_and_settled_by_its_report() {
    let client = Client::new();
    let given = client.use_of("add", Some("t1"), 1);
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
    let given = client.use_of("add", Some("t1"), 1);
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
    let first = client.use_of("add", Some("t1"), 1);
    // The same event once more, because its hook died: the recorded answer.
    let second = client.use_of("add", Some("t1"), 1);
    assert_eq!((second.state, second.trace_id), (State::Executing, first.trace_id));
    assert!(second.replayed);
    // Another call is not that one.
    let other = client.use_of("add", Some("t1"), 2);
    assert_eq!(other.state, State::Denied);
    assert_eq!(other.refusal.unwrap().code, Code::IdempotencyConflict);
    client.gateway.settle_report(first.trace_id, report(json!({}), None)).unwrap();
    let third = client.use_of("add", Some("t1"), 1);
    assert_eq!(third.state, State::Denied);
    client.is_intact();
}

/// A request with the client's id of the use that it belongs to.
fn of_use(request: CallRequest, id: &str) -> CallRequest {
    let resource = Resource { id: id.to_owned(), kind: TOOL_USE.to_owned() };
    CallRequest { resources: vec![resource], ..request }
}

#[test]
fn a_repeated_id_uses_no_grant_twice_and_leaves_nothing_open() {
    for tool in ["deny", "ask"] {
        let client = Client::new();
        let grant = client.allow_all();
        let ask = || {
            let request = of_use(client.request(tool, Some("t1"), 1), "t1");
            client.gateway.hand_over(request, Asking::Hold).unwrap()
        };
        let first = ask();
        assert_eq!(first.state, State::Executing, "{tool}");
        let second = ask();
        assert_eq!((second.trace_id, second.state), (first.trace_id, State::Executing), "{tool}");
        client.gateway.settle_report(first.trace_id, report(json!({}), None)).unwrap();
        if tool == "deny" {
            assert_eq!(ask().state, State::Denied);
        }
        assert!(client.gateway.show_grant(grant).unwrap().uses.len() <= 2);
        let open = client.gateway.has_waiting_calls(PlanId(client.session.0)).unwrap();
        assert!(!open, "{tool}: nothing waits");
        client.is_intact();
    }
}

/// A use that stands for these calls.
fn several(client: &Client, id: &str, parts: &[(&str, u32)]) -> HandedOver {
    let part = |(number, (tool, value)): (usize, &(&str, u32))| {
        of_use(client.request(tool, Some(&format!("{id}/{number}")), *value), id)
    };
    let requests = parts.iter().enumerate().map(part).collect();
    client.gateway.hand_over_all(requests, "claude", Asking::Hold, None).unwrap()
}

fn waits(answer: HandedOver) -> CallReport {
    match answer {
        HandedOver::Refused(report) => *report,
        HandedOver::All(given) => panic!("it was let through: {given:?}"),
    }
}

fn given(answer: HandedOver) -> Vec<CallReport> {
    match answer {
        HandedOver::All(given) => given,
        HandedOver::Refused(report) => panic!("it was refused: {report:?}"),
    }
}

#[test]
fn one_decision_lets_a_use_with_several_asked_parts_through() {
    let client = Client::new();
    let parts = [("ask", 1), ("add", 2), ("ask", 3), ("ask", 4)];
    let asked = waits(several(&client, "t1", &parts));
    assert_eq!(asked.state, State::Pending);
    // All parts are shown, and nothing else is open.
    let hold = asked.hold.unwrap();
    assert_eq!(hold.view.args["parts"].as_array().unwrap().len(), 3);
    assert_eq!(client.world.shared.tables().traces.len(), 1);
    // The same use again is the same question.
    assert_eq!(waits(several(&client, "t2", &parts)).trace_id, asked.trace_id);
    client.approve(asked.trace_id);
    // Another use does not use the decision up.
    let other = waits(several(&client, "t3", &[("ask", 1), ("ask", 3)]));
    assert_ne!(other.trace_id, asked.trace_id);
    let through = given(several(&client, "t4", &parts));
    assert_eq!(through.len(), 2);
    assert!(through.iter().all(|one| one.state == State::Executing));
    assert_eq!(through[0].trace_id, asked.trace_id);
    // It is reported as one, and let through once.
    let own: Vec<CallRequest> = parts
        .iter()
        .filter(|(tool, _)| *tool == "ask")
        .map(|(tool, value)| of_use(client.request(tool, None, *value), "t4"))
        .collect();
    let found = client.gateway.handed_over_together(&own).unwrap();
    assert_eq!(found, Some(asked.trace_id));
    client.gateway.settle_report(asked.trace_id, report(json!({}), None)).unwrap();
    assert_ne!(waits(several(&client, "t5", &parts)).trace_id, asked.trace_id);
    client.is_intact();
}

#[test]
fn a_use_is_let_through_whole_or_not_at_all() {
    let client = Client::new();
    // An approval of one part is not used up while another part waits or is denied.
    let first = client.use_of("ask", Some("t1"), 1);
    client.approve(first.trace_id);
    let denied = waits(several(&client, "t2", &[("ask", 1), ("deny", 2)]));
    assert_eq!(denied.state, State::Denied);
    let waiting = waits(several(&client, "t3", &[("add", 5), ("ask", 1), ("ask", 2)]));
    assert_eq!(waiting.state, State::Pending);
    let states = |trace_id| client.world.store().load_state(trace_id).unwrap().head.state;
    assert_eq!(states(first.trace_id), Some(State::Authorized));
    client.approve(waiting.trace_id);
    let through = given(several(&client, "t4", &[("add", 5), ("ask", 1), ("ask", 2)]));
    assert_eq!(through.len(), 3);
    client.is_intact();
}

#[test]
fn a_person_who_is_asked_about_a_use_decides_on_all_of_it() {
    let client = Client::new();
    let parts = |id: &str| -> Vec<CallRequest> {
        let part =
            |value: u32| of_use(client.request("add", Some(&format!("{id}/{value}")), value), id);
        (1..=3).map(part).collect()
    };
    let ask = |id: &str| {
        let asks = Some("the loop asks");
        client.gateway.hand_over_all(parts(id), "claude", Asking::Hold, asks).unwrap()
    };
    let asked = waits(ask("t1"));
    assert_eq!(asked.hold.unwrap().view.args["parts"].as_array().unwrap().len(), 3);
    client.approve(asked.trace_id);
    assert_eq!(given(ask("t2")).len(), 1);
    client.is_intact();
}

#[test]
fn what_is_asked_about_is_let_through_once_after_approval() {
    let client = Client::new();
    let asked = client.use_of("ask", Some("t1"), 1);
    assert_eq!(asked.state, State::Pending);
    // The same call again is the same question, under whatever id.
    let again = client.use_of("ask", Some("t2"), 1);
    assert_eq!((again.trace_id, again.state), (asked.trace_id, State::Pending));
    let other = client.use_of("ask", Some("t3"), 2);
    assert_ne!(other.trace_id, asked.trace_id);
    client.approve(asked.trace_id);
    let through = client.use_of("ask", Some("t4"), 1);
    assert_eq!((through.trace_id, through.state), (asked.trace_id, State::Executing));
    let found = client.gateway.handed_over(client.request("ask", Some("t4"), 1)).unwrap();
    assert_eq!(found, Some(asked.trace_id));
    let next = client.use_of("ask", Some("t5"), 1);
    assert_eq!(next.state, State::Pending);
    assert_ne!(next.trace_id, asked.trace_id);
}

#[test]
fn a_person_cannot_approve_other_arguments_than_the_agent_uses() {
    let client = Client::new();
    let asked = client.use_of("ask", Some("t1"), 1);
    let args = json!({ "value": 7 });
    let who = Who::Person { name: "Ada", people: &Everybody, run: Some(client.session) };
    let ada = Attribution { who, edit: Some(&args), ..by("Ada", "only seven") };
    let error = client.gateway.decide(asked.trace_id, Answer::Approve, ada).unwrap_err();
    assert!(matches!(error, GatewayError::WrongAnswer { .. }), "{error:?}");
    let again = client.use_of("ask", Some("t2"), 1);
    assert_eq!((again.trace_id, again.state), (asked.trace_id, State::Pending));
}

#[test]
fn another_session_does_not_use_an_approval() {
    let client = Client::new();
    let asked = client.use_of("ask", Some("t1"), 1);
    client.approve(asked.trace_id);
    let stranger = Client {
        session: TraceId(client.world.clock.new_id()),
        gateway: client_gateway(&client.world),
        world: client.world.clone(),
    };
    let theirs = stranger.use_of("ask", Some("t1"), 1);
    assert_eq!(theirs.state, State::Pending);
    assert_ne!(theirs.trace_id, asked.trace_id);
}

#[test]
fn nothing_dispatches_a_call_of_a_client() {
    let client = Client::new();
    let given = client.use_of("add", Some("t1"), 1);
    let asked = client.use_of("ask", Some("t2"), 1);
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
    let error = project.hand_over(client.request("add", Some("t9"), 1), Asking::Hold).unwrap_err();
    assert!(matches!(error, GatewayError::Recovery { .. }), "{error:?}");
}

#[test]
fn a_question_that_the_client_asks_is_on_record_before_it_is_asked() {
    let client = Client::new();
    let asked = client.prompted("ask", "t1", 1);
    assert_eq!((asked.state, asked.asks_person.is_some()), (State::Executing, true));
    let by = client.decided_by(asked.trace_id);
    assert!(matches!(&by, DecidedBy::Prompt { client, .. } if client == "claude"), "{by:?}");
    // The key is the client's: the same use gets the same question, and is not recorded twice.
    let again = client.prompted("ask", "t1", 1);
    assert_eq!((again.trace_id, again.asks_person), (asked.trace_id, asked.asks_person));
    // What the policy allows or denies is not asked about.
    assert_eq!(client.prompted("add", "t2", 1).asks_person, None);
    assert_eq!(client.prompted("deny", "t3", 1).state, State::Denied);
    client.is_intact();
}

#[test]
fn a_call_that_waits_keeps_its_session_open() {
    let client = Client::new();
    let plan = PlanId(client.session.0);
    client.use_of("add", Some("t1"), 1);
    assert!(!client.gateway.has_waiting_calls(plan).unwrap());
    let asked = client.use_of("ask", Some("t2"), 1);
    assert!(client.gateway.has_waiting_calls(plan).unwrap());
    client.approve(asked.trace_id);
    assert!(client.gateway.has_waiting_calls(plan).unwrap());
    client.use_of("ask", Some("t3"), 1);
    assert!(!client.gateway.has_waiting_calls(plan).unwrap());
}

#[test]
fn everything_that_a_person_has_granted_is_let_through_and_counted() {
    let client = Client::new();
    let grant = client.allow_all();
    let denied = client.use_of("deny", Some("t1"), 1);
    assert_eq!(denied.state, State::Executing, "{denied:?}");
    assert!(matches!(client.decided_by(denied.trace_id), DecidedBy::Grant { .. }));
    let unknown = client.request("add", Some("t2"), 1);
    let (code, reason) = (Code::ToolUnclassifiedDenied, "nobody knows it".to_owned());
    let unknown = client.gateway.refuse_unless_granted(unknown, code, reason.clone()).unwrap();
    assert_eq!(unknown.state, State::Executing);
    assert_eq!(client.gateway.show_grant(grant).unwrap().uses.len(), 2);
    // Both uses are taken.
    assert_eq!(client.use_of("deny", Some("t3"), 1).state, State::Denied);
    let another = client.request("add", Some("t4"), 1);
    let another = client.gateway.refuse_unless_granted(another, code, reason).unwrap();
    assert_eq!(another.state, State::Denied);
    client.is_intact();
}

#[test]
fn everything_granted_to_one_session_is_nothing_to_others_or_to_windlass_itself() {
    let client = Client::new();
    client.allow_all();
    let stranger = Client {
        session: TraceId(client.world.clock.new_id()),
        gateway: client_gateway(&client.world),
        world: client.world.clone(),
    };
    assert_eq!(stranger.use_of("deny", Some("t1"), 1).state, State::Denied);
    let project = client.world.gateway(Arc::new(TestSupervisor::default()));
    let project = project.with_people(Arc::new(Everybody));
    for tool in ["ask", "deny"] {
        let report = project.call(client.request(tool, Some(tool), 1)).unwrap();
        assert_ne!(report.state, State::Completed, "{tool}");
    }
    assert_eq!(client.world.tools.lock().dispatches, []);
}
