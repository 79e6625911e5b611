//! The fold of a notification: its id, its attempts and how they end.

use windlass_kernel::notification::{
    About, Delivery, Event, Kind, Message, Notification, NotificationEvent, id_of,
};
use windlass_kernel::{
    ArtifactId, ArtifactType, ChainError, Digest, Draft, Machine, State, Timestamp, TraceId,
    Transition, Uuid7,
};

fn at(ms: i64) -> Timestamp {
    Timestamp::from_unix_ms(1_700_000_000_000 + ms).unwrap()
}

fn id(number: u8) -> Uuid7 {
    Uuid7::from_parts(1, [number; 10])
}

fn about() -> About {
    About { at: at(0), mark: "held".to_owned(), trace: Some(TraceId(id(7))) }
}

fn message() -> Message {
    Message {
        expires_at: Some(at(9_000)),
        kind: Kind::HoldOpened,
        run: Some("run_1".to_owned()),
        shown: Some(Digest::of(b"shown")),
        text: "a run waits".to_owned(),
        title: "waits".to_owned(),
    }
}

fn created() -> Event {
    Event::Created { about: about(), message: message(), receiver: "phone".to_owned() }
}

/// Records an event as the journal does: an entry, its body, and the fold of both.
fn record(one: &mut Notification, ms: i64, event: Event) -> Result<(), ChainError> {
    let number = u8::try_from(one.head.sequence_number).unwrap();
    let event =
        NotificationEvent::new(one.head.trace_id, ArtifactId(id(100 + number)), at(ms), event);
    let body = event.to_bytes().unwrap();
    let (entry, head) = one.head.append(Draft {
        ts: event.ts,
        transition: Transition {
            from: one.head.state.unwrap_or(State::Due),
            to: event.event.to_state(),
            artifact: ArtifactType::NotificationEvent,
        },
        artifact_id: event.artifact_id,
        artifact_digest: Digest::of(&body),
        tool_call_id: None,
        idempotency_key: None,
    })?;
    assert_eq!(entry.schema_id, Machine::Notification.schema_id());
    let read = NotificationEvent::of_entry(&entry, &body)?;
    assert_eq!(read, event);
    one.apply(&entry, &read.event, head)
}

fn new() -> Notification {
    let mut one = Notification::empty(id_of("phone", Kind::HoldOpened, &about()));
    record(&mut one, 0, created()).unwrap();
    one
}

#[track_caller]
fn refused(one: &Notification, event: Event) {
    let result = record(&mut one.clone(), 50, event);
    let expected =
        matches!(result, Err(ChainError::Impossible { .. } | ChainError::Transition { .. }));
    assert!(expected, "{result:?}");
}

#[test]
fn it_is_attempted_fails_is_delivered_and_asked_for_once_more() {
    let mut one = new();
    assert_eq!(one.due_at(), Some(at(0)));
    record(&mut one, 1, Event::Attempted { number: 1 }).unwrap();
    assert_eq!(one.delivery, Delivery::Attempting { since: at(1) });
    let reason = "nobody answers".to_owned();
    let failed = Event::Failed { number: 1, reason, retry_at: at(10_000), status: None };
    record(&mut one, 2, failed).unwrap();
    assert_eq!((one.due_at(), one.tries), (Some(at(10_000)), 1));
    record(&mut one, 10_000, Event::Attempted { number: 2 }).unwrap();
    record(&mut one, 10_001, Event::Delivered { number: 2, status: Some(200) }).unwrap();
    assert_eq!((one.due_at(), one.head.state), (None, Some(State::Settled)));
    refused(&one, Event::Attempted { number: 3 });
    record(&mut one, 10_002, Event::Requested { by: "ada".to_owned() }).unwrap();
    assert_eq!((one.due_at(), one.tries, one.attempts), (Some(at(10_002)), 0, 2));
    record(&mut one, 10_003, Event::Attempted { number: 3 }).unwrap();
    let reason = "it refuses".to_owned();
    record(&mut one, 10_004, Event::GivenUp { number: 3, reason, status: Some(410) }).unwrap();
    assert_eq!(one.delivery, Delivery::GivenUp { at: at(10_004) });
    assert_eq!(one.failure.unwrap().status, Some(410));
}

#[test]
fn an_interrupted_attempt_is_due_at_once_and_counted() {
    let mut one = new();
    record(&mut one, 1, Event::Attempted { number: 1 }).unwrap();
    assert_eq!(one.due_at(), Some(at(1)));
    refused(&one, Event::Attempted { number: 1 });
    record(&mut one, 2, Event::Attempted { number: 2 }).unwrap();
    refused(&one, Event::Delivered { number: 1, status: None });
    record(&mut one, 3, Event::Delivered { number: 2, status: None }).unwrap();
}

#[test]
fn what_cannot_happen_is_refused() {
    let one = new();
    refused(&one, created());
    refused(&one, Event::Attempted { number: 2 });
    refused(&one, Event::Delivered { number: 0, status: None });
    let reason = String::new();
    refused(&one, Event::Failed { number: 0, reason, retry_at: at(1), status: None });
    refused(&one, Event::Requested { by: "ada".to_owned() });
    let empty = Notification::empty(one.head.trace_id);
    refused(&empty, Event::Attempted { number: 1 });
}

#[test]
fn the_id_is_that_of_what_it_is_about() {
    let other = |change: fn(&mut About)| {
        let mut about = about();
        change(&mut about);
        about
    };
    let ids = [
        id_of("phone", Kind::HoldOpened, &about()),
        id_of("desk", Kind::HoldOpened, &about()),
        id_of("phone", Kind::LimitReached, &about()),
        id_of("phone", Kind::HoldOpened, &other(|about| about.mark.push('x'))),
        id_of("phone", Kind::HoldOpened, &other(|about| about.trace = None)),
        id_of("phone", Kind::HoldOpened, &other(|about| about.at = at(1))),
    ];
    for (position, one) in ids.iter().enumerate() {
        assert!(!ids.iter().skip(position + 1).any(|other| other == one), "{position}");
        let mut notification = Notification::empty(*one);
        assert_eq!(record(&mut notification, 0, created()).is_ok(), position == 0, "{position}");
    }
}

#[test]
fn names_of_receivers_are_plain() {
    for name in ["", "a b", "ä", "a/b", &"x".repeat(65)] {
        let mut one = Notification::empty(id_of(name, Kind::HoldOpened, &about()));
        let (about, message) = (about(), message());
        let event = Event::Created { about, message, receiver: name.to_owned() };
        assert!(record(&mut one, 0, event).is_err(), "{name}");
    }
}
