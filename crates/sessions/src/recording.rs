//! How a session's notes are recorded: all that one event has to say in one commit, with what is counted kept beside it.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;

use windlass_journal::{JournalError, Recorder};
use windlass_kernel::run::{Event, NoteKind, Run};
use windlass_kernel::{Digest, Timestamp};
use windlass_store::{After, KeyAction};

use crate::core::{CoreNote, CoreProgress, CoreSettings};
use crate::error::SessionError;
use crate::note::SessionNote;
use crate::progress::Progress;
use crate::sessions::{PROGRESS, Session};

/// What is recorded with the next notes of an event, or at its end.
#[derive(Default)]
pub(crate) struct Waiting {
    /// The digest of the policy that the event is judged by.
    policy: Cell<Option<Digest>>,
    /// Notes, oldest first.
    notes: RefCell<Vec<SessionNote>>,
}

/// What appending notes has done.
struct Appended {
    /// The digest of the last entry before them.
    before: Digest,
    /// The digest of the last one.
    after: Digest,
    /// Their times.
    times: Vec<Timestamp>,
}

impl Session<'_> {
    /// Says by which policy the event at hand is judged. One that is another than at the last event is recorded before
    /// anything else of this one.
    pub(crate) fn judged_by(&self, policy: Digest) {
        self.waiting.policy.set(Some(policy));
    }

    /// Records a note together with the next ones of the event, or at its end.
    pub(crate) fn note_with_next(&self, note: SessionNote) {
        self.waiting.notes.borrow_mut().push(note);
    }

    /// Records what waits to be recorded. Whatever acts outside of the journal comes after it.
    ///
    /// # Errors
    /// [`SessionError`] if it cannot be recorded.
    pub(crate) fn flush(&self) -> Result<(), SessionError> {
        let Waiting { policy, notes } = &self.waiting;
        if policy.get().is_none() && notes.borrow().is_empty() {
            return Ok(());
        }
        self.record_all(|_| (Vec::new(), ()))
    }

    /// Records something about the session. Others that record at the same time are waited for.
    ///
    /// # Errors
    /// [`SessionError`] if it cannot be recorded.
    pub fn note(&self, note: &SessionNote) -> Result<(), SessionError> {
        self.record(|_| (vec![note.clone()], ()))
    }

    /// What waits and these notes, as events in their order. The policy of the event is the one of the progress then.
    pub(crate) fn gathered(
        &self,
        progress: &mut Progress,
        notes: Vec<SessionNote>,
    ) -> Result<Vec<Event>, SessionError> {
        let change = self.waiting.policy.take().and_then(|to| {
            let from = progress.policy.replace(to).filter(|from| *from != to)?;
            Some(SessionNote::PolicyChanged { from, to })
        });
        let waiting = self.waiting.notes.take();
        let event = |note: SessionNote| {
            let body = serde_json::to_value(note).map_err(|error| SessionError::File {
                path: PathBuf::new(),
                source: error.into(),
            })?;
            Ok(Event::Noted { what: NoteKind::Agent, body })
        };
        change.into_iter().chain(waiting).chain(notes).map(event).collect()
    }

    /// Records events in one commit. The session is locked.
    fn append(&self, events: Vec<Event>) -> Result<Option<Appended>, SessionError> {
        if events.is_empty() {
            return Ok(None);
        }
        let mut recorder = self.recorder()?;
        let before = recorder.state().head.entry_digest;
        let mut times = Vec::new();
        for event in events {
            times.push(self.sessions.add(&mut recorder, event)?);
        }
        recorder.commit(KeyAction::None, After::Release)?;
        Ok(Some(Appended { before, after: recorder.state().head.entry_digest, times }))
    }

    /// Records events of the run itself in one commit; the state of the core loop follows from them as before. The
    /// session is locked.
    pub(crate) fn append_to_run(
        &self,
        mut recorder: Recorder<Run>,
        events: Vec<Event>,
    ) -> Result<(), SessionError> {
        let before = recorder.state().head.entry_digest;
        for event in events {
            self.sessions.add(&mut recorder, event)?;
        }
        recorder.commit(KeyAction::None, After::Release)?;
        let mut progress = self.read_progress()?;
        if let Some(core) = progress.core.as_mut().filter(|core| core.head == before) {
            core.head = recorder.state().head.entry_digest;
            self.write_progress(&progress)?;
        }
        Ok(())
    }

    /// What is counted; from the journal if the file is lost or damaged.
    pub(crate) fn read_progress(&self) -> Result<Progress, SessionError> {
        let bytes = std::fs::read(self.progress_path()).unwrap_or_default();
        match Progress::from_bytes(&bytes) {
            Some(progress) => Ok(progress),
            None => Ok(Progress::fold(self.store(), self.run)?),
        }
    }

    pub(crate) fn write_progress(&self, progress: &Progress) -> Result<(), SessionError> {
        progress.write(&self.progress_path())
    }

    fn progress_path(&self) -> PathBuf {
        self.sessions.file(&self.stem, PROGRESS)
    }

    /// Reads the progress of the session, changes it, and writes it if it is another one then.
    ///
    /// # Errors
    /// [`SessionError`] if it cannot be written, or must be made from the journal and that cannot be read.
    pub fn progress<T>(&self, change: impl FnOnce(&mut Progress) -> T) -> Result<T, SessionError> {
        self.record(|progress| (Vec::new(), change(progress)))
    }

    /// Changes the progress of the session, as [`Self::progress`] does, after notes that belong to the change are on
    /// record: a process that dies in between records them again, and never not at all.
    ///
    /// # Errors
    /// [`SessionError`] if they cannot be recorded, or the progress cannot be written.
    pub fn record<T>(
        &self,
        change: impl FnOnce(&mut Progress) -> (Vec<SessionNote>, T),
    ) -> Result<T, SessionError> {
        self.record_when(change, |notes| !notes.is_empty())
    }

    /// As [`Self::record`], and records what waits even if there are no other notes.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn record_all<T>(
        &self,
        change: impl FnOnce(&mut Progress) -> (Vec<SessionNote>, T),
    ) -> Result<T, SessionError> {
        self.record_when(change, |_| true)
    }

    fn record_when<T>(
        &self,
        change: impl FnOnce(&mut Progress) -> (Vec<SessionNote>, T),
        is_recorded: impl FnOnce(&[SessionNote]) -> bool,
    ) -> Result<T, SessionError> {
        let _lock = self.sessions.lock(&self.stem)?;
        let before = self.read_progress()?;
        let mut after = before.clone();
        let (notes, value) = change(&mut after);
        if is_recorded(&notes) {
            let events = self.gathered(&mut after, notes)?;
            if let (Some(appended), Some(core)) = (self.append(events)?, &mut after.core)
                && core.head == appended.before
            {
                core.head = appended.after;
            }
        }
        if after != before {
            self.write_progress(&after)?;
        }
        Ok(value)
    }

    /// Changes the state of the core loop: notes are recorded, then counted and kept. A state that does not follow from
    /// the last entry of the run is folded again first.
    ///
    /// # Errors
    /// [`SessionError`] if the session cannot be read or the notes cannot be recorded; what `change` fails with.
    pub fn core<T>(
        &self,
        settings: &CoreSettings,
        change: impl FnOnce(&mut CoreProgress) -> Result<(Vec<CoreNote>, T), SessionError>,
    ) -> Result<T, SessionError> {
        let _lock = self.sessions.lock(&self.stem)?;
        let before = self.read_progress()?;
        let store = self.sessions.store.as_ref();
        let head = store.load_state(self.run).map_err(JournalError::from)?.head.entry_digest;
        let mut now = match before.core.clone() {
            Some(core) if core.head == head => core,
            Some(core) if core.still_follows(store, self.run)? => CoreProgress { head, ..core },
            Some(_) | None => CoreProgress::fold(store, self.run, head, settings)?,
        };
        let (notes, value) = change(&mut now)?;
        let mut after = before.clone();
        if !notes.is_empty() {
            let own = notes.iter().cloned().map(SessionNote::Core).collect();
            let events = self.gathered(&mut after, own)?;
            if let Some(appended) = self.append(events)? {
                now.head = appended.after;
                // The last ones are those of the loop.
                let skipped = appended.times.len().saturating_sub(notes.len());
                for (at, note) in appended.times.iter().skip(skipped).zip(&notes) {
                    now.apply(*at, note, settings);
                }
            }
        }
        after.core = Some(now);
        if after != before {
            self.write_progress(&after)?;
        }
        Ok(value)
    }
}
