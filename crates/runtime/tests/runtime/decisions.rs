//! What a person decides, how often, and what policy has to say to it.

use std::sync::Arc;

use windlass_kernel::artifact::{DecidedBy, SupervisorDecision};
use windlass_kernel::{ArtifactType, Code, Outcome, State, TraceId};
use windlass_policy::Verdict;
use windlass_runtime::{Answer, Attribution, Gateway, GatewayError, HoldQuestion};
use windlass_store::Store as _;
use windlass_testkit::gateway::{TestSupervisor, World, call, interrupt};
use windlass_testkit::people::{self, by};

const ADA: Attribution<'_> = by("Ada", "I looked at it");

fn asked() -> (World, Arc<TestSupervisor>, Gateway, TraceId) {
    let world = World::default();
    let supervisor = Arc::new(TestSupervisor::default());
    let gateway = world.gateway(Arc::clone(&supervisor) as Arc<_>);
    let report = gateway.call(call("ask", Some("key-1"), 1)).unwrap();
    assert_eq!(report.state, State::Pending);
    assert_eq!(report.hold.as_ref().unwrap().question, HoldQuestion::MayItRun);
    assert_eq!(gateway.show(report.trace_id).unwrap(), report);
    assert_eq!(world.tools.lock().dispatches, []);
    (world, supervisor, gateway, report.trace_id)
}

fn decision(world: &World, trace_id: TraceId) -> SupervisorDecision {
    let records = world.store().list_log_entries(trace_id, 0, 10).unwrap();
    let kind = ArtifactType::SupervisorDecision;
    let record = records.iter().find(|record| record.entry.artifact_type == kind).unwrap();
    serde_json::from_slice(record.body.as_ref().unwrap()).unwrap()
}

/// The name of the person who decided.
fn decider(decision: &SupervisorDecision) -> String {
    match &decision.decided_by {
        DecidedBy::Person { decider, .. } => decider.names(),
        DecidedBy::Policy { .. } | DecidedBy::Grant { .. } | DecidedBy::Prompt { .. } => {
            panic!("no person decided")
        }
    }
}

#[test]
fn an_approved_call_is_made_and_the_person_stands_in_the_decision() {
    let (world, _, gateway, trace_id) = asked();
    let report = gateway.decide(trace_id, Answer::Approve, ADA).unwrap();
    assert_eq!((report.state, report.trace_id), (State::Completed, trace_id));
    assert_eq!(gateway.show(trace_id).unwrap(), report);
    let made = decision(&world, trace_id);
    assert_eq!(decider(&made), "Ada");
    assert_eq!((made.rationale.as_str(), made.code), ("I looked at it", None));
}

#[test]
fn a_denied_call_is_not_made() {
    let (world, _, gateway, trace_id) = asked();
    let report = gateway.decide(trace_id, Answer::Deny, ADA).unwrap();
    assert_eq!(report.state, State::Denied);
    assert_eq!(report.refusal.unwrap().code, Code::DeniedByPerson);
    assert_eq!(decider(&decision(&world, trace_id)), "Ada");
    assert_eq!(world.tools.lock().dispatches, []);
}

#[test]
fn a_decision_is_made_once() {
    for first in [Answer::Approve, Answer::Deny] {
        let (world, _, gateway, trace_id) = asked();
        gateway.decide(trace_id, first, ADA).unwrap();
        let before = world.shared.tables().entries;
        for second in [Answer::Approve, Answer::Deny] {
            let error = gateway.decide(trace_id, second, ADA).unwrap_err();
            assert!(matches!(error, GatewayError::AlreadyDecided { .. }), "{error:?}");
            assert_eq!(error.code(), Code::DecisionAlreadyMade);
        }
        assert_eq!(world.shared.tables().entries, before);
    }
}

#[test]
fn of_many_deciders_at_once_one_decides() {
    let (world, _, gateway, trace_id) = asked();
    let start = std::sync::Barrier::new(8);
    let answers: Vec<_> = std::thread::scope(|scope| {
        let deciders: Vec<_> = (0..8)
            .map(|number| {
                let (gateway, start) = (&gateway, &start);
                scope.spawn(move || {
                    let answer = if number % 2 == 0 { Answer::Approve } else { Answer::Deny };
                    start.wait();
                    gateway.decide(trace_id, answer, ADA).map(|report| report.state)
                })
            })
            .collect();
        deciders.into_iter().map(|decider| decider.join().unwrap()).collect()
    });
    let made: Vec<State> =
        answers.iter().filter_map(|answer| answer.as_ref().ok().copied()).collect();
    assert_eq!(made, [gateway.show(trace_id).unwrap().state]);
    for error in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        let expected = [Code::DecisionAlreadyMade, Code::StateLockAcquireFailed];
        assert!(expected.contains(&error.code()), "{error:?}");
    }
    let executed = usize::from(made == [State::Completed]);
    assert_eq!(world.tools.lock().dispatches.len(), executed);
}

#[test]
fn what_policy_denies_meanwhile_cannot_be_approved_and_stays_pending() {
    let (world, supervisor, gateway, trace_id) = asked();
    supervisor.say("ask", Verdict::Deny);
    let before = world.shared.tables().entries;
    let error = gateway.decide(trace_id, Answer::Approve, ADA).unwrap_err();
    assert!(matches!(error, GatewayError::Refused { .. }), "{error:?}");
    assert_eq!(error.code(), Code::PolicyDenied);
    // The refused decision is on record beside the call, which is as it was.
    let after = world.shared.tables().entries;
    assert_eq!((after.len(), after.get(&trace_id)), (before.len() + 1, before.get(&trace_id)));
    let refused = after.keys().find(|id| !before.contains_key(id)).unwrap();
    let refused = gateway.show(*refused).unwrap();
    assert_eq!((refused.tool.as_str(), refused.state), ("windlass/decide", State::Denied));
    assert_eq!(refused.refusal.unwrap().code, Code::PolicyDenied);
    assert_eq!(gateway.show(trace_id).unwrap().state, State::Pending);
    // It can still be denied, or approved once policy lets it.
    supervisor.say("ask", Verdict::Ask);
    assert_eq!(gateway.decide(trace_id, Answer::Approve, ADA).unwrap().state, State::Completed);
}

#[test]
fn a_tool_that_is_gone_cannot_be_approved_but_denied() {
    let (_, supervisor, gateway, trace_id) = asked();
    supervisor.forget("ask");
    let error = gateway.decide(trace_id, Answer::Approve, ADA).unwrap_err();
    assert_eq!(error.code(), Code::StateRecoveryFailed);
    assert_eq!(gateway.decide(trace_id, Answer::Deny, ADA).unwrap().state, State::Denied);
}

#[test]
fn of_two_asked_calls_under_one_key_one_can_be_approved() {
    let (world, _, gateway, first) = asked();
    let second = gateway.call(call("ask", Some("key-1"), 1)).unwrap().trace_id;
    assert_ne!(first, second);
    assert_eq!(gateway.decide(first, Answer::Approve, ADA).unwrap().state, State::Completed);
    let error = gateway.decide(second, Answer::Approve, ADA).unwrap_err();
    assert_eq!(error.code(), Code::IdempotencyConflict);
    assert_eq!(gateway.show(second).unwrap().state, State::Pending);
    assert_eq!(gateway.decide(second, Answer::Deny, ADA).unwrap().state, State::Denied);
    assert_eq!(world.tools.lock().dispatches.len(), 1);
}

#[test]
fn a_person_has_a_name_and_a_reason() {
    let (world, _, gateway, trace_id) = asked();
    let before = world.shared.tables().traces;
    let (name, reason) = ("n".repeat(129), "r".repeat(4097));
    for (by, reason) in
        [("", "why"), (" \t", "why"), (&name, "why"), ("Ada", ""), ("Ada", "\n"), ("Ada", &reason)]
    {
        let error = gateway.decide(trace_id, Answer::Approve, people::by(by, reason)).unwrap_err();
        assert_eq!(error.code(), Code::RequestInvalid);
    }
    assert_eq!(world.shared.tables().traces, before);
}

#[test]
fn a_person_settles_a_call_that_may_have_run() {
    for (answer, state, outcome, dispatches) in [
        (Answer::DidNotRun, State::Completed, Outcome::Success, 2),
        (Answer::Failed, State::Failed, Outcome::Denied, 1),
        (Answer::Ran, State::Completed, Outcome::Success, 1),
    ] {
        let world = World::default();
        let trace_id = interrupt(&world, call("burn", Some("key-1"), 1), 4);
        let gateway = world.gateway(Arc::new(TestSupervisor::default()));
        let report = gateway.recover(trace_id).unwrap().report;
        assert_eq!(report.hold.unwrap().question, HoldQuestion::DidItRun);
        for wrong in [Answer::Approve, Answer::Deny] {
            let error = gateway.decide(trace_id, wrong, ADA).unwrap_err();
            assert_eq!(error.code(), Code::RequestInvalid);
        }
        let report = gateway.decide(trace_id, answer, ADA).unwrap();
        assert_eq!((report.state, report.outcome), (state, Some(outcome)));
        assert_eq!(gateway.show(trace_id).unwrap(), report);
        let by: Vec<_> =
            report.redispatches.iter().map(|one| one.by.as_ref().unwrap().names()).collect();
        assert_eq!(by, vec!["Ada"; dispatches - 1]);
        if answer == Answer::Ran {
            assert_eq!(report.result, serde_json::json!({"said": "I looked at it"}));
        }
        if answer == Answer::Failed {
            let error = report.error.unwrap();
            assert_eq!((error.code, error.may_have_run), (Code::ToolOutcomeUnknown, true));
        }
        assert_eq!(world.tools.lock().dispatches.len(), dispatches);
        let error = gateway.decide(trace_id, Answer::Approve, ADA).unwrap_err();
        assert_eq!(error.code(), Code::DecisionAlreadyMade);
    }
}

#[test]
fn what_is_not_there_cannot_be_decided() {
    let world = World::default();
    let gateway = world.gateway(Arc::new(TestSupervisor::default()));
    let nowhere = TraceId(windlass_kernel::Uuid7::from_parts(1, [0; 10]));
    for error in [
        gateway.decide(nowhere, Answer::Approve, ADA).unwrap_err(),
        gateway.show(nowhere).unwrap_err(),
        gateway.recover(nowhere).unwrap_err(),
    ] {
        assert_eq!(error.code(), Code::TraceNotFound);
    }
}
