//! People: phases they do, calls they approve, holds they answer or leave unanswered.

use std::collections::BTreeMap;

use serde_json::json;
use windlass_kernel::run::VoteDecision::{Approved, Rejected};
use windlass_kernel::run::plan::{Doer, Effect, HoldRule, Plan, Trigger};
use windlass_kernel::run::{
    Change, Event, Next, NoteKind, Revocation, SESSION_BUILTIN, Vote, WaitsFor, Work,
};
use windlass_kernel::{Digest, Timestamp};

use windlass_testkit::people;

use crate::run::harness::{Act, Lab, Script, done, ended};
use crate::run::plans::{gate, hold, person, phase, redo, serial, spine, with};

fn sign_off(approvals: u32) -> Plan {
    let sign_off = with(phase("sign", &["a"]), |phase| phase.doer = person(approvals));
    serial(vec![phase("a", &[]), sign_off, phase("b", &["sign"])])
}

fn held(plan: Plan) -> Lab {
    let mut lab = Lab::new(plan);
    Script::new().walk(&mut lab);
    assert_eq!(lab.run.next(), Next::Wait);
    lab
}

#[test]
fn a_person_phase_needs_its_number_of_approvals() {
    for (approvals, votes) in
        [(1, vec![("ann", Approved)]), (2, vec![("ann", Approved), ("bob", Approved)])]
    {
        let told = Script::new().votes(&votes).walk(&mut Lab::new(sign_off(approvals)));
        let mut expected =
            vec!["begun".to_owned(), "start a 1".into(), "done a 1".into(), "start sign 1".into()];
        expected.push(format!("held 1 PERSON_REQUESTED at sign for {approvals}"));
        expected.extend(votes.iter().map(|(by, _)| format!("{by} APPROVED")));
        expected.extend(
            ["resumed", "continued", "start b 1", "done b 1", "ended PASS pass"].map(str::to_owned),
        );
        assert_eq!(told, expected);
    }
}

#[test]
fn a_rejection_ends_the_run_or_is_a_verdict() {
    let told = Script::new().votes(&[("ann", Rejected)]).walk(&mut Lab::new(sign_off(2)));
    assert_eq!(told[told.len() - 2..], ["ann REJECTED", "ended BLOCKED checkpoint_rejected"]);
    let plan = with(sign_off(1), |plan| {
        plan.phases[1].gate =
            gate(&[("approved", Effect::Continue), ("rejected", redo("a", 1, Effect::Block))]);
    });
    let mut lab = Lab::new(plan);
    let told = Script::new().votes(&[("ann", Rejected), ("bob", Approved)]).walk(&mut lab);
    let from = told.iter().position(|line| line == "ann REJECTED").unwrap();
    assert_eq!(
        told[from + 1..],
        [
            "resumed",
            "continued",
            "back sign/gate rejected -> a 1",
            "start a 2",
            "done a 2",
            "start sign 2",
            "held 2 PERSON_REQUESTED at sign for 1",
            "bob APPROVED",
            "resumed",
            "continued",
            "start b 1",
            "done b 1",
            "ended PASS pass",
        ]
    );
    let sign = &lab.run.phases[1].done.as_ref().unwrap().answer;
    assert_eq!((&sign["verdict"], &sign["people"][0]["by"]), (&"approved".into(), &"bob".into()));
}

#[test]
fn a_rejection_of_another_hold_is_never_a_verdict() {
    // The gate declares `rejected`, but the review caused the hold, not a person phase.
    let script = Script::new().at("review", 1, Act::Say("escalate")).votes(&[("ann", Rejected)]);
    let told = script.walk(&mut Lab::new(spine()));
    assert_eq!(told.last().unwrap(), "ended BLOCKED checkpoint_rejected");
}

#[test]
fn a_vote_counts_once_per_person_and_only_for_the_hold_shown() {
    let mut lab = held(sign_off(2));
    let Event::Voted(good) = lab.vote("ann", Approved) else { unreachable!() };
    let named = |name| windlass_kernel::Signed { name, ..good.by.clone() };
    for (bad, why) in [
        (Vote { shown: Digest::of(b"other"), ..(*good).clone() }, "another version"),
        (Vote { by: named(String::new()), ..(*good).clone() }, "has no name"),
        (Vote { by: named("  ".into()), ..(*good).clone() }, "has no name"),
        (Vote { by: named("bob".into()), ..(*good).clone() }, "signature"),
        (Vote { reason: "another".into(), ..(*good).clone() }, "signature"),
        (Vote { decision: Rejected, ..(*good).clone() }, "signature"),
    ] {
        assert!(lab.takes(&Event::Voted(Box::new(bad))).unwrap_err().contains(why));
    }
    assert!(
        lab.takes(&Event::Resumed { by: "ann".into(), worked_ms: None })
            .unwrap_err()
            .contains("not been answered")
    );
    lab.record(Event::Voted(good.clone()));
    assert!(lab.takes(&Event::Voted(good.clone())).unwrap_err().contains("same person"));
    let no = Vote { decision: Rejected, ..*good };
    assert!(lab.takes(&Event::Voted(Box::new(no))).unwrap_err().contains("same person"));
    lab.record(lab.vote("bob", Approved));
    for (by, decision) in [("cid", Approved), ("cid", Rejected)] {
        assert!(lab.takes(&lab.vote(by, decision)).unwrap_err().contains("has been answered"));
    }
    // An answer to an earlier hold does not answer a later one.
    let mut lab = held(with(sign_off(1), |plan| plan.phases[2].doer = person(1)));
    let first = lab.vote("ann", Approved);
    lab.record(first.clone());
    lab.record(Event::Resumed { by: "ann".into(), worked_ms: None });
    Script::new().walk(&mut lab);
    assert_eq!(lab.run.holds, 2);
    assert!(lab.takes(&first).unwrap_err().contains("another version"));
}

#[test]
fn a_hold_shows_the_digest_of_its_event() {
    let lab = held(sign_off(1));
    let (_, body) = lab.entries.last().unwrap();
    assert_eq!(lab.run.hold.as_ref().unwrap().shown, Digest::of(body));
}

#[test]
fn an_unanswered_hold_expires() {
    let rule = HoldRule { approvals: 1, expires_ms: Some(5000), retries: 3, starter_counts: false };
    let mut lab = held(with(sign_off(2), |plan| plan.hold = rule));
    let hold = lab.run.hold.clone().unwrap();
    // Time has already passed; set the clock back to the hold.
    lab.now = hold.since.unix_ms();
    let at = |ms: i64| Timestamp::from_unix_ms(hold.since.unix_ms() + ms).unwrap();
    assert_eq!(hold.held.expires_at, Some(at(5000)));
    assert!(!hold.is_expired(at(4999)));
    assert!(hold.is_expired(at(5000)));
    lab.now += 4999;
    lab.record(lab.vote("ann", Approved));
    // One of two has answered; the hold expires nevertheless.
    assert!(lab.run.hold.as_ref().unwrap().is_expired(at(5000)));
    lab.now += 1;
    assert!(lab.takes(&lab.vote("bob", Approved)).unwrap_err().contains("expired"));
    lab.record(ended("checkpoint_expired"));
    assert_eq!(lab.run.next(), Next::Done);
    // A hold that was answered in time does not expire.
    let mut lab = held(with(sign_off(1), |plan| plan.hold = rule));
    lab.now = lab.run.hold.as_ref().unwrap().since.unix_ms();
    lab.record(lab.vote("ann", Approved));
    assert!(!lab.run.hold.as_ref().unwrap().is_expired(at(999_999)));
}

#[test]
fn a_call_on_hold_stops_the_run_until_it_is_approved() {
    let mut lab = Lab::new(sign_off(1));
    let script = Script::new().at("a", 1, Act::Wait).at("a", 1, Act::Wait).votes(&[
        ("ann", Approved),
        ("ann", Approved),
        ("bob", Approved),
    ]);
    let told = script.walk(&mut lab);
    assert_eq!(
        told[..13],
        [
            "begun",
            "start a 1",
            "waiting a 1",
            "held 1 CALL_APPROVAL at a for 1",
            "ann APPROVED",
            "resumed",
            "continued",
            "waiting a 1",
            "held 2 CALL_APPROVAL at a for 1",
            "ann APPROVED",
            "resumed",
            "continued",
            "done a 1",
        ]
    );
    assert_eq!(told.last().unwrap(), "ended PASS pass");
}

#[test]
fn a_resumed_run_can_go_on_hold_again() {
    let plan = with(spine(), |plan| {
        plan.phases[5].gate = gate(&[("approved", Effect::Continue), ("ask", hold())]);
    });
    let script = Script::new()
        .at("review", 1, Act::Say("escalate"))
        .at("steward", 1, Act::Say("ask"))
        .votes(&[("ann", Approved), ("bob", Approved), ("cid", Approved)]);
    let mut lab = Lab::new(plan);
    let told = script.walk(&mut lab);
    let holds: Vec<&String> = told.iter().filter(|line| line.starts_with("held")).collect();
    assert_eq!(
        holds,
        [
            "held 1 ESCALATION_REQUESTED at review for 2",
            "held 2 ESCALATION_REQUESTED at steward for 1"
        ]
    );
    assert_eq!((lab.run.holds, lab.run.hold), (2, None));
    assert_eq!(told.last().unwrap(), "ended PASS pass");
}

#[test]
fn a_waiver_is_a_separate_trigger() {
    let effect = Effect::Hold { approvals: Some(3), trigger: Trigger::WaiverRequested };
    let plan = serial(vec![with(phase("a", &[]), |phase| phase.gate = gate(&[("w", effect)]))]);
    let told = Script::new().at("a", 1, Act::Say("w")).walk(&mut Lab::new(plan));
    assert_eq!(told.last().unwrap(), "held 1 WAIVER_REQUESTED at a for 3");
}

/// An attempt of phase `a` whose agent cannot be reached until a time.
fn unavailable(lab: &mut Lab, until: Option<Timestamp>) {
    lab.record(Event::Waiting {
        phase: "a".into(),
        attempt: 1,
        change: None,
        evidence: serde_json::Value::Null,
        question: "the agent cannot be reached".into(),
        waits_for: WaitsFor::Agent { until },
    });
    let Next::Record(held) = lab.run.next() else { panic!("no hold") };
    lab.record(*held);
}

#[test]
fn a_run_whose_agent_cannot_be_reached_goes_on_without_an_answer() {
    let rule = HoldRule { approvals: 2, expires_ms: Some(5000), retries: 2, starter_counts: false };
    let mut lab = Lab::new(with(sign_off(1), |plan| plan.hold = rule));
    lab.record(Event::Begun {});
    lab.record(Event::PhaseStarted { phase: "a".into(), attempt: 1 });
    let until = Timestamp::from_unix_ms(1_800_000_000_000).unwrap();
    for time in 1..=3 {
        unavailable(&mut lab, Some(until));
        let hold = lab.run.hold.clone().unwrap();
        assert_eq!(hold.held.trigger, Trigger::AgentUnavailable);
        // It waits for no person, so nobody can be late or missing.
        assert_eq!((hold.held.approvals, hold.held.expires_at), (1, None));
        // By itself it goes on only as often as the loop says.
        assert_eq!(lab.run.due(), (time <= 2).then_some(until), "{time}");
        lab.record(Event::Resumed { by: "ann".into(), worked_ms: None });
        lab.record(Event::Continued {});
        assert_eq!(lab.run.due(), None);
        // The same attempt goes on.
        assert_eq!(lab.run.next(), Next::Perform(vec![Work::Do { phase: 0, attempt: 1 }]));
    }
    unavailable(&mut lab, None);
    assert_eq!(lab.run.due(), None);
    // Nothing that was changed counts as reviewed by a person.
    assert_eq!(lab.run.reviewed, None);
    lab.record(lab.vote("ann", Rejected));
    assert!(lab.takes(&Event::Resumed { by: "ann".into(), worked_ms: None }).is_err());
}

#[test]
fn a_withdrawal_counts_only_for_the_hold_that_was_shown() {
    let mut lab = held(with(sign_off(2), |_| {}));
    lab.record(lab.vote("ann", Approved));
    let other = Digest::of(b"another hold");
    let reason = "a mistake".to_owned();
    let statement = Revocation::statement(&lab.run.head, &reason, other);
    let by = people::signed("ann", &statement);
    let event = Event::Revoked(Box::new(Revocation { by, reason, shown: other }));
    assert!(lab.takes(&event).unwrap_err().contains("another hold"));
    assert!(lab.takes(&lab.revoke("ann")).is_ok());
}

#[test]
fn a_rejection_reviews_nothing() {
    // Who rejects the work as it is now does not let it be committed.
    for (decision, reviews) in [(Approved, true), (Rejected, false)] {
        let verdicts = [("approved", Effect::Continue), ("rejected", redo("a", 2, Effect::Block))];
        let mut lab = Lab::new(with(sign_off(1), |plan| plan.phases[1].gate = gate(&verdicts)));
        let mut held = loop {
            match lab.run.next() {
                Next::Record(event) if matches!(*event, Event::Held(_)) => break *event,
                Next::Record(event) => lab.record(*event),
                Next::Perform(_) => {
                    lab.record(Event::PhaseDone {
                        phase: "a".into(),
                        attempt: 1,
                        done: Box::new(done(serde_json::json!({}))),
                    });
                }
                other => panic!("{other:?}"),
            }
        };
        let reviewed = lab.run.reviewed.clone();
        let now = Change {
            commit: None,
            diff_digest: Digest::of(b"diff"),
            files: vec!["a.txt".into()],
            lines: 1,
            tree: "c0ffee".into(),
        };
        if let Event::Held(held) = &mut held {
            held.change = Some(now);
        }
        lab.record(held);
        lab.record(lab.vote("ann", decision));
        lab.record(Event::Resumed { by: "ann".into(), worked_ms: None });
        let expected = if reviews { Some("c0ffee".to_owned()) } else { reviewed };
        assert_eq!(lab.run.reviewed, expected);
    }
}

/// A session: one phase that nothing drives.
fn session(builtin: &str) -> Lab {
    let doer = Doer::Builtin { name: builtin.to_owned(), with: BTreeMap::new() };
    let mut plan = serial(vec![with(phase("session", &[]), |phase| phase.doer = doer)]);
    plan.checkpoints = false;
    let mut lab = Lab::new(plan);
    lab.record(Event::Begun {});
    lab.record(Event::PhaseStarted { phase: "session".to_owned(), attempt: 1 });
    lab
}

#[test]
fn a_session_goes_on_while_its_conflict_waits_for_a_person() {
    let mut lab = session(SESSION_BUILTIN);
    let held =
        |lab: &Lab| lab.run.conflict_hold("resolve it".to_owned(), json!({ "paths": ["a"] }));
    let note = || Event::Noted { what: NoteKind::Agent, body: json!({}) };
    // As often as there is one.
    for _ in 0..2 {
        lab.record(held(&lab).unwrap());
        assert_eq!(lab.run.hold.as_ref().unwrap().held.trigger, Trigger::MergeConflict);
        assert_eq!(held(&lab), None);
        lab.record(note());
        let resumed = Event::Resumed { by: "ann".to_owned(), worked_ms: None };
        lab.takes(&resumed).unwrap_err();
        lab.record(lab.vote("ann", Approved));
        lab.record(resumed);
        lab.record(Event::Continued {});
        lab.record(note());
        assert_eq!(lab.run.hold, None);
    }
    lab.record(held(&lab).unwrap());
    let result = Box::new(done(json!({})));
    let phase_done = Event::PhaseDone { phase: "session".to_owned(), attempt: 1, done: result };
    lab.takes(&phase_done).unwrap_err();
    lab.record(lab.vote("ann", Rejected));
    lab.record(ended("checkpoint_rejected"));
    assert_eq!(held(&lab), None);
    assert_eq!(lab.refolded(), lab.run);
    // Whatever else an engine drives has its own conflicts.
    let other = session("commit");
    assert_eq!(held(&other), None);
    let of_session = held(&session(SESSION_BUILTIN)).unwrap();
    other.takes(&of_session).unwrap_err();
}
