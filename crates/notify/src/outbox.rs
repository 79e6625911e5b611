//! Notifications in the journal: created, attempted, settled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use windlass_journal::{Check, JournalError, Reader, Recorder};
use windlass_kernel::notification::{
    Created, Event, Kind, Notification, NotificationEvent, TEXT_BYTES_MAX, id_of,
};
use windlass_kernel::{ArtifactId, Code, Digest, PlanId, State, Timestamp, TraceId};
use windlass_redact::Redactor;
use windlass_runtime::Clock;
use windlass_store::{After, KeyAction, Store, StoreError, TraceFilter, fault};
use windlass_views::RunSummary;

use crate::body::{Body, ProjectName};
use crate::receiver::Receiver;
use crate::seen;
use crate::send::{Sent, send};
use crate::subject::Subject;

/// How long to wait after each failed attempt, in seconds; after the last one a notification is given up.
const PAUSES_SECONDS: [u64; 5] = [10, 60, 300, 1800, 7200];
/// The longest wait that a receiver may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(7200);
/// The most notifications that one pass sends.
const DUE_MAX: usize = 1000;

/// Why something cannot be done with notifications.
#[derive(Debug, Error)]
pub enum NotifyError {
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// There is no such receiver.
    #[error("there is no receiver `{name}` in the settings")]
    NoReceiver {
        /// The name.
        name: String,
    },
    /// It was not delivered or given up yet.
    #[error("notification `{id}` is to be sent already")]
    IsDue {
        /// The notification.
        id: TraceId,
    },
}

impl NotifyError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Journal(error) => error.code(),
            Self::NoReceiver { .. } | Self::IsDue { .. } => Code::RequestInvalid,
        }
    }
}

/// What the dashboard adds to a message, if its address is known.
pub trait Links: Sync {
    /// The page about something.
    fn address(&self, created: &Created) -> Option<String>;

    /// Makes a link by which a person decides one hold, once, until it expires.
    fn link(
        &self,
        person: &str,
        run: &str,
        shown: Digest,
        expires_at: Option<Timestamp>,
    ) -> Option<String>;
}

/// What one pass over all that is due did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// How many were delivered.
    pub delivered: usize,
    /// How many attempts failed and will be made again.
    pub failed: usize,
    /// How many were given up.
    pub given_up: usize,
    /// When the next attempt is due.
    pub next: Option<Timestamp>,
}

impl Pass {
    fn add(&mut self, other: Self) {
        self.delivered += other.delivered;
        self.failed += other.failed;
        self.given_up += other.given_up;
        self.note(other.next);
    }

    fn note(&mut self, due: Option<Timestamp>) {
        self.next = match (self.next, due) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
}

/// The notifications of a journal, and who gets them.
pub struct Outbox<'a> {
    /// The journal.
    pub store: Arc<dyn Store>,
    /// The receivers.
    pub receivers: &'a [Receiver],
    /// Takes secrets out.
    pub redactor: &'a Redactor,
    /// The time and new ids.
    pub clock: &'a dyn Clock,
    /// The project.
    pub project: &'a ProjectName,
    /// Addresses of the dashboard.
    pub links: &'a dyn Links,
    /// Since when the settings are as they are: what a receiver is told that is seen for the first time.
    pub configured_at: Timestamp,
}

pub(crate) type NotificationRecorder = Recorder<Notification>;

/// Whether a subject is new to one of the receivers.
///
/// # Errors
/// [`JournalError`] if the journal cannot be read.
pub(crate) fn missing(
    store: &dyn Store,
    receiver: &Receiver,
    subject: &Subject,
) -> Result<Option<(TraceId, Kind)>, JournalError> {
    let Some(kind) = subject.kinds.iter().find(|kind| receiver.on.contains(*kind)) else {
        return Ok(None);
    };
    let id = id_of(&receiver.name, *kind, &subject.about);
    match store.load_state(id) {
        Ok(_) => return Ok(None),
        Err(StoreError::NotFound { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    if seen::is_of_a_moment(*kind) && !subject.is_named {
        let since = seen::since(store, &receiver.name)?;
        if since.is_some_and(|since| subject.about.at < since) {
            return Ok(None);
        }
    }
    Ok(Some((id, *kind)))
}

impl Outbox<'_> {
    /// Creates the notifications about something that do not exist; returns how many.
    ///
    /// # Errors
    /// [`NotifyError`] if the journal cannot be written.
    pub fn create(&self, subject: &Subject) -> Result<usize, NotifyError> {
        let mut count = 0;
        for receiver in self.receivers {
            if let Some((id, kind)) = missing(self.store.as_ref(), receiver, subject)? {
                count += usize::from(self.create_one(receiver, subject, id, kind)?);
            }
        }
        Ok(count)
    }

    /// Creates one for a receiver, whatever it wants to be told; returns its id.
    ///
    /// # Errors
    /// [`NotifyError`] if there is no such receiver, or the journal cannot be written.
    pub fn create_for(&self, name: &str, subject: &Subject) -> Result<TraceId, NotifyError> {
        let receiver = self.receiver(name);
        let receiver = receiver.ok_or_else(|| NotifyError::NoReceiver { name: name.to_owned() })?;
        let kind = subject.kinds.first().copied().unwrap_or(Kind::Test);
        let id = id_of(&receiver.name, kind, &subject.about);
        self.create_one(receiver, subject, id, kind)?;
        Ok(id)
    }

    fn create_one(
        &self,
        receiver: &Receiver,
        subject: &Subject,
        id: TraceId,
        kind: Kind,
    ) -> Result<bool, NotifyError> {
        let mut recorder = NotificationRecorder::begin(&self.store, id, PlanId(id.0), Vec::new());
        let about = subject.about.clone();
        let message = subject.message(kind, self.redactor);
        let event = Event::Created { about, message, receiver: receiver.name.clone() };
        self.add(&mut recorder, event)?;
        match recorder.commit(KeyAction::None, After::Release) {
            Ok(()) => Ok(true),
            // Another process was faster.
            Err(JournalError::Append(_)) if self.store.load_state(id).is_ok() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn receiver(&self, name: &str) -> Option<&Receiver> {
        self.receivers.iter().find(|receiver| receiver.name == name)
    }

    pub(crate) fn add(
        &self,
        recorder: &mut NotificationRecorder,
        event: Event,
    ) -> Result<(), JournalError> {
        let trace_id = recorder.state().head.trace_id;
        let artifact_id = ArtifactId(self.clock.new_id());
        recorder.add(&NotificationEvent::new(trace_id, artifact_id, self.clock.now(), event))?;
        Ok(())
    }

    /// Asks for a notification once more that was delivered or given up.
    ///
    /// # Errors
    /// [`NotifyError`] if there is none, or it is to be sent already.
    pub fn request(&self, id: TraceId, by: &str) -> Result<(), NotifyError> {
        let mut recorder = NotificationRecorder::open(&self.store, id, Vec::new())?;
        if recorder.state().due_at().is_some() {
            return Err(NotifyError::IsDue { id });
        }
        self.add(&mut recorder, Event::Requested { by: by.to_owned() })?;
        Ok(recorder.commit(KeyAction::None, After::Release)?)
    }

    /// Sends all that is due: each receiver by itself, so that a slow one does not hinder the others.
    ///
    /// # Errors
    /// [`NotifyError`] if the journal cannot be used.
    pub fn send_due(&self) -> Result<Pass, NotifyError> {
        let mut of_receiver: BTreeMap<String, Vec<TraceId>> = BTreeMap::new();
        let mut pass = Pass::default();
        for one in due(self.store.as_ref())? {
            let Some(created) = one.created.as_ref() else { continue };
            match one.due_at() {
                Some(at) if at > self.clock.now() => pass.note(Some(at)),
                Some(_) => {
                    let of = of_receiver.entry(created.receiver.clone()).or_default();
                    of.push(one.head.trace_id);
                }
                None => {}
            }
        }
        let passes = std::thread::scope(|scope| {
            let threads: Vec<_> =
                of_receiver.values().map(|ids| scope.spawn(|| self.send_all(ids))).collect();
            // A thread that panicked has recorded what it did; what it did not do is done again.
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect::<Vec<_>>()
        });
        for one in passes {
            pass.add(one?);
        }
        Ok(pass)
    }

    fn send_all(&self, ids: &[TraceId]) -> Result<Pass, NotifyError> {
        let mut pass = Pass::default();
        for id in ids {
            self.send_one(*id, &mut pass)?;
        }
        Ok(pass)
    }

    /// Makes one attempt, unless another process is at it or has made it.
    fn send_one(&self, id: TraceId, pass: &mut Pass) -> Result<(), NotifyError> {
        let mut recorder = match NotificationRecorder::open(&self.store, id, Vec::new()) {
            Ok(recorder) => recorder,
            Err(JournalError::Held(_)) => return Ok(()),
            // It is found by verification.
            Err(error) if error.is_damage() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let state = recorder.snapshot();
        let (Some(created), Some(due_at)) = (state.created.as_ref(), state.due_at()) else {
            return Ok(());
        };
        if due_at > self.clock.now() {
            pass.note(Some(due_at));
            return Ok(());
        }
        let reason = match self.receiver(&created.receiver) {
            None => Some("the settings have no such receiver any more"),
            Some(_) if state.attempts == state.tries && self.is_over(created)? => {
                Some("it was decided before it could be told")
            }
            Some(_) => None,
        };
        if let Some(reason) = reason {
            let reason = reason.to_owned();
            let event = Event::GivenUp { number: state.attempts, reason, status: None };
            self.add(&mut recorder, event)?;
            recorder.commit(KeyAction::None, After::Release)?;
            pass.given_up += 1;
            return Ok(());
        }
        let number = state.attempts.saturating_add(1);
        self.add(&mut recorder, Event::Attempted { number })?;
        // INVARIANT: the attempt is durable before anything is sent.
        recorder.commit(KeyAction::None, After::Keep)?;
        fault::point("dispatch.before");
        let sent = self.send(id, number, created);
        fault::point("dispatch.after");
        let event = self.outcome(number, recorder.state().tries, sent);
        match &event {
            Event::Delivered { .. } => pass.delivered += 1,
            Event::Failed { retry_at, .. } => {
                pass.failed += 1;
                pass.note(Some(*retry_at));
            }
            Event::GivenUp { .. }
            | Event::Created { .. }
            | Event::Attempted { .. }
            | Event::Requested { .. } => pass.given_up += 1,
        }
        self.add(&mut recorder, event)?;
        Ok(recorder.commit(KeyAction::None, After::Release)?)
    }

    /// Whether the hold that it tells of was decided.
    fn is_over(&self, created: &Created) -> Result<bool, NotifyError> {
        let is_hold = matches!(created.message.kind, Kind::HoldOpened | Kind::HoldExpiring);
        let Some(trace) = created.about.trace.filter(|_| is_hold) else { return Ok(false) };
        let recorded = self.store.load_state(trace).map_err(JournalError::from)?;
        if recorded.head.state != Some(State::Checkpoint) {
            // A call that waits is pending.
            return Ok(recorded.head.state != Some(State::Pending));
        }
        let summary = RunSummary::read(self.store.as_ref(), &recorded.head);
        let shown = summary.ok().and_then(|summary| summary.hold.map(|hold| hold.shown));
        Ok(shown.is_some_and(|shown| Some(shown) != created.message.shown))
    }

    fn send(&self, id: TraceId, number: u32, created: &Created) -> Sent {
        let receiver = self.receiver(&created.receiver);
        let target = match receiver.map(|receiver| &receiver.target) {
            Some(Ok(target)) => target,
            Some(Err(why)) => {
                return Sent::Failed { reason: why.clone(), status: None, retry_after: None };
            }
            None => {
                let reason = "the settings have no such receiver".to_owned();
                return Sent::Refused { reason, status: None };
            }
        };
        let message = &created.message;
        let person = receiver.and_then(|receiver| receiver.person.as_deref());
        let link = match (person, message.run.as_deref(), message.shown) {
            (Some(person), Some(run), Some(shown)) => {
                self.links.link(person, run, shown, message.expires_at)
            }
            (None, _, _) | (_, None, _) | (_, _, None) => None,
        };
        let address = self.links.address(created);
        let body = Body::of(id, number, created, self.project, address, link.as_deref());
        send(target, &body, self.clock.now())
    }

    /// What an attempt is recorded as.
    fn outcome(&self, number: u32, tries: u32, sent: Sent) -> Event {
        match sent {
            Sent::Accepted { status } => Event::Delivered { number, status },
            Sent::Refused { reason, status } => {
                Event::GivenUp { number, reason: self.reason(&reason), status }
            }
            Sent::Failed { reason, status, retry_after } => {
                let reason = self.reason(&reason);
                let position = usize::try_from(tries.saturating_sub(1)).unwrap_or(usize::MAX);
                let Some(seconds) = PAUSES_SECONDS.get(position) else {
                    return Event::GivenUp { number, reason, status };
                };
                let asked = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
                let pause = Duration::from_secs(*seconds).max(asked);
                let ms = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX);
                let now = self.clock.now();
                let at = Timestamp::from_unix_ms(now.unix_ms().saturating_add(ms));
                Event::Failed { number, reason, retry_at: at.unwrap_or(now), status }
            }
        }
    }

    fn reason(&self, reason: &str) -> String {
        let text = windlass_cell::one_line(&self.redactor.redacted(reason));
        text.chars().take(TEXT_BYTES_MAX / 4).collect()
    }
}

/// The notifications that are to be sent, oldest first. One that is damaged is left to verification.
fn due(store: &dyn Store) -> Result<Vec<Notification>, JournalError> {
    let mut found = in_state(store, State::Due, DUE_MAX)?.found;
    found.reverse();
    Ok(found)
}

fn in_state(store: &dyn Store, state: State, limit: usize) -> Result<Listed, JournalError> {
    let open_only = !state.is_terminal();
    let filter = TraceFilter { open_only, state: Some(state), ..TraceFilter::all(limit) };
    let mut listed = Listed::default();
    for trace in store.list_traces(&filter)? {
        // Another process may be writing to it, so that its end is not compared.
        match Reader::<Notification>::state_of(store, trace.head.trace_id, Check::Prefix) {
            Ok(one) if one.created.as_ref().is_some_and(seen::is_record) => {}
            Ok(one) => listed.found.push(one),
            Err(error) if error.is_damage() => listed.unreadable += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(listed)
}

/// Notifications, and how many more there are that cannot be read. Verification says which.
#[derive(Debug, Default)]
pub struct Listed {
    /// The notifications, newest first.
    pub found: Vec<Notification>,
    /// The number of those that cannot be read, and of traces of which nobody can tell what they are.
    pub unreadable: u64,
}

/// The newest notifications, newest first.
///
/// # Errors
/// [`JournalError`] if the journal cannot be read.
pub fn list(store: &dyn Store, limit: usize) -> Result<Listed, JournalError> {
    let Listed { mut found, unreadable } = in_state(store, State::Due, limit)?;
    let settled = in_state(store, State::Settled, limit)?;
    found.extend(settled.found);
    found.sort_by_key(|one| std::cmp::Reverse(one.head.trace_id));
    // One may have been settled between the two.
    found.dedup_by_key(|one| one.head.trace_id);
    found.truncate(limit);
    let lost = store.count().map_err(JournalError::from)?.unreadable;
    Ok(Listed { found, unreadable: unreadable + settled.unreadable + lost })
}

/// Reads a notification, verified.
///
/// # Errors
/// [`JournalError`] if there is none, or it fails verification.
pub fn read(store: &dyn Store, id: TraceId) -> Result<Notification, JournalError> {
    Reader::state_of(store, id, Check::Verified)
}

/// Whether something is to be sent now that no process is sending, a receiver is to be told something new, or a receiver
/// itself is new.
///
/// # Errors
/// [`JournalError`] if the journal cannot be read.
pub fn is_due(
    store: &dyn Store,
    receivers: &[Receiver],
    subjects: &[Subject],
    now: Timestamp,
) -> Result<bool, JournalError> {
    for receiver in receivers {
        if seen::since(store, &receiver.name)?.is_none() {
            return Ok(true);
        }
        for subject in subjects {
            if missing(store, receiver, subject)?.is_some() {
                return Ok(true);
            }
        }
    }
    Ok(next_due(store)?.is_some_and(|at| at <= now))
}

/// When the next attempt is due that no process is making now; `None` if nothing is to be sent.
///
/// # Errors
/// [`JournalError`] if the journal cannot be read.
pub fn next_due(store: &dyn Store) -> Result<Option<Timestamp>, JournalError> {
    let mut next: Option<Timestamp> = None;
    for one in due(store)? {
        let Some(at) = one.due_at().filter(|at| next.is_none_or(|next| *at < next)) else {
            continue;
        };
        if !store.is_held(&store.load_state(one.head.trace_id)?)? {
            next = Some(at);
        }
    }
    Ok(next)
}
