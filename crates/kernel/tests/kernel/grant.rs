//! The fold of a grant: signatures, the number of uses, revocation and expiry.

use proptest::prelude::*;
use windlass_kernel::grant::{EndCause, Event, GRANT, Grant, GrantEvent, REVOKE, Status, Terms};
use windlass_kernel::{
    ArtifactId, ArtifactType, ChainError, Digest, Draft, Head, Machine, PlanId, Signed, Signer,
    State, Timestamp, TraceId, Transition, Uuid7,
};

const START: i64 = 1_700_000_000_000;

fn id(number: u64) -> Uuid7 {
    Uuid7::from_parts(1, {
        let mut bytes = [0; 10];
        bytes[2..].copy_from_slice(&number.to_be_bytes());
        bytes
    })
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_unix_ms(START + ms).unwrap()
}

fn terms(times: u32, valid_ms: i64) -> Terms {
    Terms {
        everything: false,
        command: Some("git push *".to_owned()),
        path: None,
        run: None,
        times,
        tool: "shell/run".to_owned(),
        until: at(valid_ms),
    }
}

fn sign(terms: &Terms, head: &Head, decision: &'static str, reason: &str) -> Signed {
    let signer = Signer::from_seed(&[4; 32]);
    let (name, approver) = ("Ann".to_owned(), "person ann".to_owned());
    let bytes = terms.statement(head, decision, reason).to_bytes(&name, &approver);
    let signature = signer.sign(&bytes);
    Signed { approver, key: signer.public(), name, security_key: None, signature }
}

/// Records an event as the journal does: an entry, its body, and the fold of both.
fn record(grant: &mut Grant, ms: i64, event: Event) -> Result<(), ChainError> {
    let number = grant.head.sequence_number;
    let event = GrantEvent::new(grant.head.trace_id, ArtifactId(id(900 + number)), at(ms), event);
    let body = event.to_bytes().unwrap();
    let (entry, head) = grant.head.append(Draft {
        ts: event.ts,
        transition: Transition {
            from: grant.head.state.unwrap_or(State::Granted),
            to: event.event.to_state(),
            artifact: ArtifactType::GrantEvent,
        },
        artifact_id: event.artifact_id,
        artifact_digest: Digest::of(&body),
        tool_call_id: None,
        idempotency_key: None,
    })?;
    assert_eq!(entry.schema_id, Machine::Grant.schema_id());
    let read = GrantEvent::of_entry(&entry, &body)?;
    assert_eq!(read, event);
    grant.apply(&entry, &read.event, head)
}

fn granted(grant: &Grant, terms: Terms) -> Event {
    let reason = "the release".to_owned();
    Event::Granted { by: sign(&terms, &grant.head, GRANT, &reason), reason, terms }
}

fn open(times: u32, valid_ms: i64) -> Grant {
    let mut grant = Grant::empty(TraceId(id(1)));
    let event = granted(&grant, terms(times, valid_ms));
    record(&mut grant, 0, event).unwrap();
    grant
}

fn used(call: u64, number: u32) -> Event {
    Event::Used { call: TraceId(id(call)), number, request_digest: Digest::of(&call.to_be_bytes()) }
}

fn revoked(grant: &Grant) -> Event {
    let (terms, _) = grant.granted.clone().unwrap();
    let reason = "no longer".to_owned();
    Event::Revoked { by: sign(&terms, &grant.head, REVOKE, &reason), reason }
}

fn is_impossible(result: &Result<(), ChainError>) -> bool {
    matches!(result, Err(ChainError::Impossible { .. } | ChainError::Transition { .. }))
}

fn is_unsigned(result: &Result<(), ChainError>) -> bool {
    matches!(result, Err(ChainError::Link { .. }))
}

#[test]
fn a_grant_is_given_used_and_revoked() {
    let mut grant = open(2, 1000);
    assert_eq!(grant.status(at(1)), Status::Open);
    assert_eq!(grant.status(at(1000)), Status::Expired);
    record(&mut grant, 5, used(7, 1)).unwrap();
    let digest = Digest::of(&7_u64.to_be_bytes());
    let one = grant.use_of(TraceId(id(7)), digest).unwrap().clone();
    assert_eq!((one.ts, one.entry_digest), (at(5), grant.head.entry_digest));
    assert!(grant.records(one.call, digest, one.entry_digest));
    assert!(!grant.records(one.call, Digest::of(b"x"), one.entry_digest));
    assert!(!grant.records(TraceId(id(8)), digest, one.entry_digest));
    let event = revoked(&grant);
    record(&mut grant, 6, event).unwrap();
    assert_eq!((grant.status(at(7)), grant.head.state), (Status::Revoked, Some(State::Withdrawn)));
    assert!(is_impossible(&record(&mut grant, 7, used(8, 2))), "nothing follows the end");
}

#[test]
fn a_grant_is_valid_only_with_the_signature_of_its_terms() {
    let forgeries: [fn(&mut Event); 6] = [
        |event| change_terms(event, |terms| terms.times = 1000),
        |event| change_terms(event, |terms| terms.command = None),
        |event| change_terms(event, |terms| terms.tool = "*".to_owned()),
        |event| change_terms(event, |terms| terms.until = at(2000)),
        |event| {
            if let Event::Granted { reason, .. } = event {
                "another".clone_into(reason);
            }
        },
        |event| {
            if let Event::Granted { by, .. } = event {
                by.key = Signer::from_seed(&[5; 32]).public();
            }
        },
    ];
    for forge in forgeries {
        let mut grant = Grant::empty(TraceId(id(1)));
        let mut event = granted(&grant, terms(2, 1000));
        forge(&mut event);
        assert!(is_unsigned(&record(&mut grant, 0, event)));
    }
    // A signature for another trace, and one for another decision.
    let mut grant = Grant::empty(TraceId(id(1)));
    let event = granted(&Grant::empty(TraceId(id(2))), terms(2, 1000));
    assert!(is_unsigned(&record(&mut grant, 0, event)));
    let (terms, reason) = (terms(2, 1000), "r".to_owned());
    let by = sign(&terms, &grant.head, REVOKE, &reason);
    assert!(is_unsigned(&record(&mut grant, 0, Event::Granted { by, reason, terms })));
}

fn change_terms(event: &mut Event, change: impl FnOnce(&mut Terms)) {
    if let Event::Granted { terms, .. } = event {
        change(terms);
    }
}

#[test]
fn a_revocation_must_be_signed_for_the_state_it_ends() {
    let mut grant = open(3, 1000);
    let early = revoked(&grant);
    record(&mut grant, 1, used(7, 1)).unwrap();
    let before = grant.clone();
    assert!(is_unsigned(&record(&mut grant, 2, early)), "it was signed before the use");
    let (terms, _) = before.granted.clone().unwrap();
    let reason = "r".to_owned();
    let by = sign(&terms, &before.head, GRANT, &reason);
    assert!(is_unsigned(&record(&mut before.clone(), 2, Event::Revoked { by, reason })));
}

#[test]
fn terms_have_limits() {
    let good = terms(1, 1000);
    assert_eq!(good.check(at(0)), Ok(()));
    let bad = [
        Terms { tool: " ".to_owned(), ..good.clone() },
        Terms { command: Some(String::new()), ..good.clone() },
        Terms { path: Some("a\nb".to_owned()), ..good.clone() },
        Terms { tool: "x".repeat(4097), ..good.clone() },
        Terms { times: 0, ..good.clone() },
        Terms { times: 1001, ..good.clone() },
        Terms { until: at(0), ..good.clone() },
        Terms { until: at(30 * 86_400_000 + 1), ..good.clone() },
    ];
    for terms in bad {
        assert!(terms.check(at(0)).is_err(), "{terms:?}");
        let mut grant = Grant::empty(TraceId(id(1)));
        let event = granted(&grant, terms);
        assert!(is_impossible(&record(&mut grant, 0, event)));
    }
    let run = TraceId(id(5));
    let scoped = Terms { run: Some(run), ..good.clone() };
    assert!(scoped.includes(PlanId(run.0)) && !scoped.includes(PlanId(id(6))));
    assert!(good.includes(PlanId(id(6))));
}

#[test]
fn events_that_cannot_occur_are_refused() {
    let mut none = Grant::empty(TraceId(id(1)));
    assert!(is_impossible(&record(&mut none, 0, used(7, 1))));
    let mut grant = open(2, 1000);
    let again = granted(&grant, terms(2, 1000));
    assert!(is_impossible(&record(&mut grant, 0, again)));
    record(&mut grant, 1, used(7, 1)).unwrap();
    for (ms, event) in [
        (2, used(7, 2)),
        (2, used(8, 1)),
        (2, used(8, 3)),
        (1000, used(8, 2)),
        (2, Event::Ended { cause: EndCause::Expired }),
        (2, Event::Ended { cause: EndCause::UsedUp }),
    ] {
        assert!(is_impossible(&record(&mut grant.clone(), ms, event.clone())), "{event:?}");
    }
    record(&mut grant.clone(), 1000, Event::Ended { cause: EndCause::Expired }).unwrap();
    record(&mut grant, 2, used(8, 2)).unwrap();
    assert_eq!(grant.status(at(3)), Status::UsedUp);
    record(&mut grant, 3, Event::Ended { cause: EndCause::UsedUp }).unwrap();
    assert_eq!(grant.head.state, Some(State::Withdrawn));
}

#[test]
fn a_body_in_another_form_is_refused() {
    let mut grant = Grant::empty(TraceId(id(1)));
    let event = GrantEvent::new(
        grant.head.trace_id,
        ArtifactId(id(3)),
        at(0),
        granted(&grant, terms(1, 1000)),
    );
    let body = String::from_utf8(event.to_bytes().unwrap()).unwrap();
    let read = |body: &str, ms: i64| {
        let transition = Transition {
            from: State::Granted,
            to: State::Granted,
            artifact: ArtifactType::GrantEvent,
        };
        let (entry, _) = Head::empty(TraceId(id(1)))
            .append(Draft {
                ts: at(ms),
                transition,
                artifact_id: event.artifact_id,
                artifact_digest: Digest::of(body.as_bytes()),
                tool_call_id: None,
                idempotency_key: None,
            })
            .unwrap();
        GrantEvent::of_entry(&entry, body.as_bytes())
    };
    assert_eq!(read(&body, 0), Ok(event.clone()));
    assert!(read(&body, 1).is_err());
    for bad in [
        body.replace("windlass.grant_event", "windlass.run_event"),
        body.replace("\"command\"", "\"extra\":1,\"command\""),
        body.replace("\"command\"", " \"command\""),
        body.replace("\"path\":null,", ""),
        body.replace("\"kind\":\"granted\"", "\"kind\":\"given\""),
    ] {
        assert_ne!(bad, body);
        assert!(read(&bad, 0).is_err(), "{bad}");
    }
    assert!(grant.use_of(TraceId(id(1)), Digest::GENESIS).is_none());
    assert_eq!(grant.status(at(0)), Status::Expired, "nobody has given it");
    grant.head = Head::empty(TraceId(id(2)));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Use { call: u64, number: u32 },
    NextUse,
    Revoke,
    End(EndCause),
}

fn step() -> impl Strategy<Value = (i64, Step)> {
    let step = prop_oneof![
        6 => Just(Step::NextUse),
        2 => (10_u64..14, 0_u32..6).prop_map(|(call, number)| Step::Use { call, number }),
        1 => Just(Step::Revoke),
        1 => Just(Step::End(EndCause::Expired)),
        1 => Just(Step::End(EndCause::UsedUp)),
    ];
    (0_i64..40, step)
}

proptest! {
    /// Whatever is offered: no more uses than granted, none after the end or the expiry, none twice.
    #[test]
    fn uses_never_exceed_the_terms(
        times in 1_u32..5, valid_ms in 1_i64..200, steps in proptest::collection::vec(step(), 0..30),
    ) {
        let mut grant = open(times, valid_ms);
        let (mut now, mut next_call, mut ended) = (0, 100, false);
        for (pause, step) in steps {
            now += pause;
            let before = grant.clone();
            let event = match step {
                Step::Use { call, number } => used(call, number),
                Step::NextUse => {
                    next_call += 1;
                    used(next_call, grant.used() + 1)
                }
                Step::Revoke => revoked(&grant),
                Step::End(cause) => Event::Ended { cause },
            };
            let is_use = matches!(event, Event::Used { .. });
            let allowed = before.status(at(now)) == Status::Open && !ended;
            let done = record(&mut grant, now, event);
            prop_assert_eq!(done.is_ok(), grant != before, "a refused event changes nothing");
            if is_use && done.is_ok() {
                prop_assert!(allowed);
            }
            if let Step::NextUse = step {
                prop_assert_eq!(done.is_ok(), allowed);
            }
            ended |= grant.head.state == Some(State::Withdrawn);
            prop_assert!(grant.used() <= times);
            prop_assert!(grant.uses.iter().all(|one| one.ts < at(valid_ms)));
            let mut calls: Vec<TraceId> = grant.uses.iter().map(|one| one.call).collect();
            calls.sort_unstable();
            calls.dedup();
            prop_assert_eq!(calls.len(), grant.uses.len());
        }
    }
}
