//! The run of a client's session: found by the session's name, begun with its first event.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_hooks::Client;
use windlass_journal::{JournalError, Recorder};
use windlass_kernel::run::plan::{Plan, RunOutcome};
use windlass_kernel::run::{Event, PhaseResult, Resolution, Run, RunEvent, RunName, Started};
use windlass_kernel::{ArtifactId, Digest, PlanId, State, Timestamp, TraceId};
use windlass_runtime::Clock;
use windlass_store::{After, KeyAction, Store, StoreError};

use crate::error::SessionError;
use crate::progress::Progress;
use crate::recording::Waiting;

/// The one phase of a session.
const PHASE: &str = "session";
/// How the names of files end that have the progress of sessions.
pub(crate) const PROGRESS: &str = "progress.json";

/// The name of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionName<'a> {
    /// The client.
    pub client: Client,
    /// The client's id of it.
    pub id: &'a str,
}

impl SessionName<'_> {
    /// How its files are named. The id is the client's and may have any form.
    fn stem(&self) -> String {
        format!("{}-{}", self.client.as_str(), Digest::of(self.id.as_bytes()))
    }
}

/// What a new session is recorded with.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// The plan of the loop of sessions.
    pub plan: Plan,
    /// The digest of the loop file.
    pub loop_digest: Digest,
    /// The digest of the policy.
    pub policy_hash: Digest,
    /// The account in which the client works.
    pub by: String,
    /// The folder in which the client works.
    pub folder: String,
    /// The model, if the client says which.
    pub model: Option<String>,
}

/// What the file of a session says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    run: TraceId,
}

/// The latest run of a session, as its file in the folder of sessions names it. Whoever relies on it looks whether it is a
/// run of that session.
#[must_use]
pub fn named_run(folder: &Path, name: SessionName<'_>) -> Option<TraceId> {
    let bytes = std::fs::read(folder.join(format!("{}.json", name.stem()))).ok()?;
    Some(serde_json::from_slice::<Known>(&bytes).ok()?.run)
}

/// The latest run of a session.
enum Latest {
    /// It goes on.
    Open(TraceId),
    /// It has ended.
    Ended,
}

/// The sessions of a project.
pub struct Sessions {
    pub(crate) store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// The folder of the files that name the runs of sessions.
    folder: PathBuf,
}

impl Sessions {
    /// The sessions that are recorded in a store; `folder` is theirs alone.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, folder: PathBuf) -> Self {
        Self { store, clock, folder }
    }

    /// Finds the open run of a session.
    ///
    /// # Errors
    /// [`SessionError`] if its file or the store cannot be read.
    pub fn find(&self, name: SessionName<'_>) -> Result<Option<Session<'_>>, SessionError> {
        Ok(match self.latest(name)? {
            Some(Latest::Open(run)) => Some(self.of_run(name, run)),
            Some(Latest::Ended) | None => None,
        })
    }

    /// Whether there was a run of a session and it has ended.
    ///
    /// # Errors
    /// [`SessionError`] if its file or the store cannot be read.
    pub fn has_ended(&self, name: SessionName<'_>) -> Result<bool, SessionError> {
        Ok(matches!(self.latest(name)?, Some(Latest::Ended)))
    }

    /// The latest run of a session.
    fn latest(&self, name: SessionName<'_>) -> Result<Option<Latest>, SessionError> {
        let path = self.file(&name.stem(), "json");
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(SessionError::File { path, source }),
        };
        let known: Known = serde_json::from_slice(&bytes)
            .map_err(|error| SessionError::File { path, source: error.into() })?;
        match self.store.load_state(known.run) {
            Ok(trace) if trace.head.state == Some(State::Terminal) => Ok(Some(Latest::Ended)),
            Ok(_) => Ok(Some(Latest::Open(known.run))),
            // A process died after it had written the file: another one begins the run.
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(JournalError::from(error).into()),
        }
    }

    /// Finds the open run of a session, or begins one. However many processes do this at once, there is one run.
    ///
    /// # Errors
    /// [`SessionError`] if it cannot be recorded.
    pub fn enter(
        &self,
        name: SessionName<'_>,
        new: impl FnOnce() -> Result<NewSession, SessionError>,
    ) -> Result<Session<'_>, SessionError> {
        if let Some(session) = self.find(name)? {
            return Ok(session);
        }
        let stem = name.stem();
        let _lock = self.lock(&stem)?;
        if let Some(session) = self.find(name)? {
            return Ok(session);
        }
        let (run, new) = (TraceId(self.clock.new_id()), new()?);
        self.write_known(&stem, &Known { run })?;
        // What was counted belongs to an earlier run of the session.
        Progress::default().write(&self.file(&stem, PROGRESS))?;
        self.begin(run, name, new)?;
        Ok(self.of_run(name, run))
    }

    /// The session of a run.
    #[must_use]
    pub fn of_run(&self, name: SessionName<'_>, run: TraceId) -> Session<'_> {
        Session { sessions: self, run, stem: name.stem(), waiting: Waiting::default() }
    }

    fn begin(
        &self,
        trace_id: TraceId,
        name: SessionName<'_>,
        new: NewSession,
    ) -> Result<(), SessionError> {
        let started = Started {
            base: None,
            by: new.by,
            folder: None,
            inherited: std::collections::BTreeMap::new(),
            loop_digest: new.loop_digest,
            options: json!({ "client": name.client.as_str(), "session": name.id }),
            plan: new.plan,
            policy_hash: new.policy_hash,
            run_id: RunName::of(trace_id).to_string(),
            setup: None,
            task: json!({
                "folder": new.folder,
                "model": new.model,
                "task": format!("a session of {}", name.client.as_str()),
            }),
            worktree: None,
        };
        let mut recorder: Recorder<Run> =
            Recorder::begin(&self.store, trace_id, PlanId(trace_id.0), Vec::new());
        self.add(&mut recorder, Event::Started(Box::new(started)))?;
        self.add(&mut recorder, Event::Begun {})?;
        let phase = PHASE.to_owned();
        self.add(&mut recorder, Event::PhaseStarted { phase, attempt: 1 })?;
        recorder.commit(KeyAction::None, After::Release)?;
        Ok(())
    }

    /// Adds an event; returns its time.
    pub(crate) fn add(
        &self,
        recorder: &mut Recorder<Run>,
        event: Event,
    ) -> Result<Timestamp, JournalError> {
        let (id, ts) = (ArtifactId(self.clock.new_id()), self.clock.now());
        let trace_id = recorder.state().head.trace_id;
        recorder.add(&RunEvent::new(trace_id, id, ts, event)).map(|_| ts)
    }

    pub(crate) fn file(&self, stem: &str, extension: &str) -> PathBuf {
        self.folder.join(format!("{stem}.{extension}"))
    }

    /// The lock of a session, which is never held for long. It is released when it is dropped.
    pub(crate) fn lock(&self, stem: &str) -> Result<File, SessionError> {
        let path = self.file(stem, "lock");
        let locked = || {
            let open = || OpenOptions::new().create(true).append(true).open(&path);
            let file = match open() {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    std::fs::create_dir_all(&self.folder)?;
                    open()?
                }
                opened => opened?,
            };
            file.lock()?;
            Ok(file)
        };
        locked().map_err(|source| SessionError::File { path: path.clone(), source })
    }

    /// Writes the file that names the run of a session whole, or not at all, before anything else happens.
    fn write_known(&self, stem: &str, known: &Known) -> Result<(), SessionError> {
        let path = self.file(stem, "json");
        let temporary = path.with_extension("new");
        let bytes = serde_json::to_vec(known).unwrap_or_default();
        let written = || {
            let mut file = File::create(&temporary)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            std::fs::rename(&temporary, &path)?;
            // Without it a power failure could bring the former file back, or none.
            File::open(&self.folder)?.sync_all()
        };
        written().map_err(|source| SessionError::File { path: path.clone(), source })
    }
}

/// The open run of a session.
pub struct Session<'a> {
    pub(crate) sessions: &'a Sessions,
    /// The run.
    pub run: TraceId,
    pub(crate) stem: String,
    pub(crate) waiting: Waiting,
}

impl Session<'_> {
    /// The store with its run and its calls.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        self.sessions.store.as_ref()
    }

    pub(crate) fn recorder(&self) -> Result<Recorder<Run>, SessionError> {
        Ok(Recorder::open(&self.sessions.store, self.run, Vec::new())?)
    }

    /// Puts the session on hold for a conflict with what others have done. One that is on hold stays so.
    ///
    /// # Errors
    /// [`SessionError`] if it cannot be recorded.
    pub fn hold_for_conflict(&self, question: &str, evidence: Value) -> Result<(), SessionError> {
        let _lock = self.sessions.lock(&self.stem)?;
        let recorder = self.recorder()?;
        match recorder.state().conflict_hold(question.to_owned(), evidence) {
            Some(event) => self.append_to_run(recorder, vec![event]),
            None => Ok(()),
        }
    }

    /// Takes the session off its hold if a person has approved that; says whether it still waits for one.
    ///
    /// # Errors
    /// [`SessionError`] if it cannot be read or recorded.
    pub fn leave_hold(&self, by: &str) -> Result<SessionHold, SessionError> {
        let _lock = self.sessions.lock(&self.stem)?;
        let recorder = self.recorder()?;
        let Some(hold) = &recorder.state().hold else { return Ok(SessionHold::None) };
        match hold.resolution() {
            Resolution::Open => {
                return Ok(SessionHold::Waits { question: hold.held.question.clone() });
            }
            Resolution::Approved | Resolution::Rejected => {}
        }
        let events =
            vec![Event::Resumed { by: by.to_owned(), worked_ms: None }, Event::Continued {}];
        self.append_to_run(recorder, events)?;
        Ok(SessionHold::None)
    }

    /// Records the end of the session. One that has ended is left as it is.
    ///
    /// # Errors
    /// [`SessionError`] if it cannot be recorded.
    pub fn end(&self, outcome: RunOutcome, reason: &str) -> Result<(), SessionError> {
        let _lock = self.sessions.lock(&self.stem)?;
        let mut recorder = self.recorder()?;
        if recorder.state().ended.is_some() {
            return Ok(());
        }
        // What waits to be recorded belongs to the session that ends.
        let mut progress = self.read_progress()?;
        for event in self.gathered(&mut progress, Vec::new())? {
            self.sessions.add(&mut recorder, event)?;
        }
        // A session on hold ends as it is.
        if recorder.state().hold.is_none() {
            let done = PhaseResult { answer: json!({}), ..PhaseResult::default() };
            let (phase, done) = (PHASE.to_owned(), Box::new(done));
            self.sessions.add(&mut recorder, Event::PhaseDone { phase, attempt: 1, done })?;
        }
        let ended =
            Event::Ended { outcome, reason: "session_ended".to_owned(), detail: reason.to_owned() };
        self.sessions.add(&mut recorder, ended)?;
        recorder.commit(KeyAction::None, After::Release)?;
        self.write_progress(&progress)
    }

    /// Waits until nobody else writes to the tracker for the session; until it is dropped, nobody will.
    ///
    /// # Errors
    /// [`SessionError`] if the lock cannot be made.
    pub fn lock_deliveries(&self) -> Result<File, SessionError> {
        self.sessions.lock(&format!("{}-deliveries", self.stem))
    }
}

/// Whether a session waits for a person's decision about the session itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionHold {
    /// It does not.
    None,
    /// It does.
    Waits {
        /// What the person is asked.
        question: String,
    },
}
