//! Since when a receiver is told. What happened before somebody configured it is no news to it.
//!
//! The time is recorded in the journal when a receiver is first seen, as a notification that is never sent. Its id is
//! derived from the name alone, so that all processes find the same record, and only one of them can make it.

use windlass_journal::{Check, JournalError, Reader};
use windlass_kernel::notification::{About, Created, Event, Kind, Message, Notification, id_of};
use windlass_kernel::{PlanId, Timestamp, TraceId};
use windlass_store::{After, KeyAction, Store, StoreError};

use crate::outbox::{NotificationRecorder, NotifyError, Outbox};

/// What tells the record from a test that somebody asked for.
const MARK: &str = "first seen";

fn about() -> About {
    About { at: Timestamp::EPOCH, mark: MARK.to_owned(), trace: None }
}

/// The trace of the record of a receiver.
fn record_of(receiver: &str) -> TraceId {
    id_of(receiver, Kind::Test, &about())
}

/// Whether a notification is such a record.
pub(crate) fn is_record(created: &Created) -> bool {
    created.message.kind == Kind::Test && created.about == about()
}

/// The events of a record: it is created, and settled at once.
fn events(receiver: &str, since: Timestamp) -> [Event; 2] {
    let message = Message {
        expires_at: None,
        kind: Kind::Test,
        run: None,
        shown: None,
        // Since when; read by `since`.
        text: since.to_string(),
        title: "the receiver was first seen".to_owned(),
    };
    let created = Event::Created { about: about(), message, receiver: receiver.to_owned() };
    let reason = "it only records since when the receiver is told".to_owned();
    [created, Event::GivenUp { number: 0, reason, status: None }]
}

/// Since when a receiver is told; `None` if it was not seen yet.
///
/// # Errors
/// [`JournalError`] if the journal cannot be read.
pub(crate) fn since(store: &dyn Store, receiver: &str) -> Result<Option<Timestamp>, JournalError> {
    let id = record_of(receiver);
    match store.load_state(id) {
        Ok(_) => {}
        Err(StoreError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    match Reader::<Notification>::state_of(store, id, Check::Prefix) {
        Ok(record) => {
            let created = record.created.as_ref();
            let time = |one: &Created| one.message.text.parse().unwrap_or(one.at);
            Ok(Some(created.map_or(Timestamp::EPOCH, time)))
        }
        // Rather too much is told than too little.
        Err(error) if error.is_damage() => Ok(Some(Timestamp::EPOCH)),
        Err(error) => Err(error),
    }
}

/// Whether a kind tells of a moment that can lie before a receiver was there. The others tell how things are now.
pub(crate) const fn is_of_a_moment(kind: Kind) -> bool {
    match kind {
        Kind::HoldOpened | Kind::LimitReached | Kind::RunEnded => true,
        Kind::HoldExpiring | Kind::ChainBroken | Kind::Test => false,
    }
}

impl Outbox<'_> {
    /// Records since when the receivers are told that were not seen before.
    ///
    /// # Errors
    /// [`NotifyError`] if the journal cannot be written.
    pub fn register(&self) -> Result<(), NotifyError> {
        for receiver in self.receivers {
            if since(self.store.as_ref(), &receiver.name)?.is_some() {
                continue;
            }
            let id = record_of(&receiver.name);
            let plan = PlanId(id.0);
            let mut recorder = NotificationRecorder::begin(&self.store, id, plan, Vec::new());
            // One commit: nobody finds a record that is to be sent.
            for event in events(&receiver.name, self.configured_at) {
                self.add(&mut recorder, event)?;
            }
            match recorder.commit(KeyAction::None, After::Release) {
                Ok(()) => {}
                // Another process was faster.
                Err(JournalError::Append(_)) if self.store.load_state(id).is_ok() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
