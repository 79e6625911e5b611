//! The files that show a run, written from the journal alone.
//!
//! | file, below the root | shows |
//! |---|---|
//! | `checkpoints/CP_<run_id>_<step>.yaml` | a hold and its answers; the step is the phase's index in the plan |
//! | `steps/<run_id>_<step>.json` | what a phase did; the step is the phase's name |
//! | `loop_state/attempt_ledger.jsonl` | the attempts of all runs |
//! | `terminal/TP_<run_id>.yaml` | how a run ended |
//!
//! Checkpoints lie in a folder of their own: see `kept`.
//!
//! The second hold at index 4 is `4-2`, the third `4-3`. The newest try of a phase has the phase's
//! name, each earlier try `<step>.attempt-<number>`: no phase has a dot in its name.
//!
//! Every file is a function of the run's entries, so writing it again gives the same bytes. The first
//! time that a [`Files`] is shown a run it brings all of the run's files up to date: what a dead
//! process has not written is caught up with, whatever it was. After that it reads and writes only
//! what is new.

mod attempts;
mod folder;
mod kept;
mod ledger;
mod packets;
mod story;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use windlass_formats::{CheckpointId, LEDGER_PATH, PACKET_BYTES_MAX, StepKey, read_hold_of};
use windlass_kernel::run::{Event, Run};
use windlass_kernel::{Code, Machine, TraceId};
use windlass_store::Store;

use self::folder::Folder;
use self::story::{Changed, Story};
use crate::engine::Projector;
use crate::error::EngineError;
use crate::find::find_named;

/// Writes the files that show runs below a root folder.
pub struct Files {
    store: Arc<dyn Store>,
    folder: Folder,
    /// Where checkpoints are shown, if they are.
    checkpoints: Option<Folder>,
    /// The runs under way in this process, as far as they were read.
    stories: Mutex<BTreeMap<TraceId, Story>>,
}

impl Files {
    /// Files below `root`, which stands for the `artifacts` folder of the layout.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, root: PathBuf) -> Self {
        let (folder, stories) = (Folder::new(root), Mutex::new(BTreeMap::new()));
        Self { store, folder, checkpoints: None, stories }
    }

    /// Shows checkpoints in a folder of their own.
    #[must_use]
    pub fn with_checkpoints(mut self, root: PathBuf) -> Self {
        self.checkpoints = Some(Folder::new(root));
        self
    }

    /// Writes everything of a run again from the journal alone; returns the run's files.
    ///
    /// What is there already as it should be is left alone.
    ///
    /// # Errors
    /// [`EngineError`] when there is no such run, its trace does not hold together, or a file
    /// cannot be written.
    pub fn rebuild(&self, trace_id: TraceId) -> Result<Vec<PathBuf>, EngineError> {
        let recorded = self.store.load_state(trace_id)?;
        if recorded.head.state.is_some_and(|state| state.machine() == Machine::Call) {
            return Err(EngineError::NotARun { trace_id });
        }
        let mut story = Story::new(trace_id);
        story.tell_all();
        story.catch_up(self.store.as_ref())?;
        let corrupt = |source| EngineError::Corrupt { trace_id, source };
        story.run.head.matches(&recorded.head).map_err(corrupt)?;
        let (paths, kept) = self.write(&mut story)?;
        let kept = kept.iter().filter_map(|path| Some(self.checkpoints.as_ref()?.on_disk(path)));
        Ok(paths.iter().map(|path| self.folder.on_disk(path)).chain(kept).collect())
    }

    /// Writes what has changed in a run, and returns the files that show it: all others, and those
    /// of its checkpoints.
    fn write(&self, story: &mut Story) -> Result<(Vec<String>, Vec<String>), EngineError> {
        let mut paths = Vec::new();
        let Changed { holds, steps, checkpoints, end } = std::mem::take(&mut story.changed);
        let kept = match &self.checkpoints {
            Some(folder) => kept::write(folder, &checkpoints)?,
            None => Vec::new(),
        };
        for hold in holds.iter().filter_map(|at| story.holds.get(*at)) {
            let bytes = story.hold_packet(hold, hold.hold.votes.len())?;
            paths.push(self.put(hold.id.path(), &bytes)?);
        }
        for phase in &steps {
            for (path, bytes) in step_files(story, phase)? {
                paths.push(self.put(path, &bytes)?);
            }
        }
        self.write_ledger(story)?;
        paths.push(LEDGER_PATH.to_owned());
        // The end comes last: who sees it finds everything else.
        if let (true, Some(identity), Some(bytes)) =
            (end, &story.identity, story.terminal_packet()?)
        {
            paths.push(self.put(identity.name.terminal_path(), &bytes)?);
        }
        Ok((paths, kept))
    }

    fn put(&self, path: String, bytes: &[u8]) -> Result<String, EngineError> {
        self.folder.put(&path, bytes)?;
        Ok(path)
    }

    fn write_ledger(&self, story: &mut Story) -> Result<(), EngineError> {
        let Some(identity) = &mut story.identity else { return Ok(()) };
        let name = identity.name.to_string();
        let block_of = |name: &str| self.ledger_block(name);
        ledger::sync(&self.folder, &name, &identity.lines, identity.written, block_of)?;
        identity.written = identity.lines.len();
        Ok(())
    }

    /// The lines of another run, if the journal has it and it holds together.
    fn ledger_block(&self, name: &str) -> Result<Option<Vec<u8>>, EngineError> {
        let Ok(name) = name.parse() else { return Ok(None) };
        let Some(trace_id) = find_named(self.store.as_ref(), &name)? else { return Ok(None) };
        let mut story = Story::new(trace_id);
        // A run that does not hold together must not stop this one.
        if story.catch_up(self.store.as_ref()).is_err() {
            return Ok(None);
        }
        Ok(story.identity.map(|identity| identity.lines.concat()))
    }

    /// Takes the story of a run, brought up to date; it is put back once its files are written.
    fn take_story(&self, trace_id: TraceId) -> Result<Story, EngineError> {
        let known = self.stories.lock().unwrap_or_else(PoisonError::into_inner).remove(&trace_id);
        let mut story = known.unwrap_or_else(|| Story::new(trace_id));
        story.catch_up(self.store.as_ref())?;
        Ok(story)
    }

    fn knows(&self, trace_id: TraceId) -> bool {
        self.stories.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&trace_id)
    }
}

impl Projector for Files {
    fn show(&self, run: &Run, events: &[Event]) -> Result<(), EngineError> {
        let trace_id = run.head.trace_id;
        if self.knows(trace_id) && !events.iter().any(shows) {
            return Ok(());
        }
        // A story whose files could not be written is forgotten: the next time all are written.
        let mut story = self.take_story(trace_id)?;
        self.write(&mut story)?;
        if story.run.ended.is_none() {
            let mut stories = self.stories.lock().unwrap_or_else(PoisonError::into_inner);
            stories.insert(trace_id, story);
        }
        Ok(())
    }

    fn drop_holds(&self, run: &Run, dry_run: bool) -> Result<Vec<String>, EngineError> {
        let mut story = Story::new(run.head.trace_id);
        story.catch_up(self.store.as_ref())?;
        let mut dropped = Vec::new();
        for hold in &story.holds {
            let path = hold.id.path();
            let there = self.folder.on_disk(&path).exists();
            let gone = if dry_run { there } else { self.folder.drop(&path)? };
            if gone {
                dropped.push(path);
            }
        }
        Ok(dropped)
    }

    fn check_hold(&self, run: &Run) -> Result<(), EngineError> {
        if run.hold.is_none() {
            return Ok(());
        }
        let mut story = Story::new(run.head.trace_id);
        story.catch_up(self.store.as_ref())?;
        let Some(shown) = story.holds.last() else { return Ok(()) };
        let path = shown.id.path();
        let refuse = |code, what: String| {
            let path = self.folder.on_disk(&path).display().to_string();
            EngineError::Packet { code, path, what }
        };
        let found = match self.folder.read(&path, PACKET_BYTES_MAX) {
            Ok(Some(found)) => found,
            Ok(None) => return Err(refuse(Code::PacketInvalid, "is missing".to_owned())),
            Err(error) => {
                return Err(refuse(Code::PacketInvalid, format!("cannot be read: {error}")));
            }
        };
        let votes = shown.hold.votes.len();
        if found == story.hold_packet(shown, votes)? {
            return Ok(());
        }
        // A process that died after an answer was recorded has left the packet from before it.
        for earlier in 0..votes {
            if found == story.hold_packet(shown, earlier)? {
                return self.folder.put(&path, &story.hold_packet(shown, votes)?);
            }
        }
        Err(difference(&found, &shown.id, refuse))
    }
}

/// Says what is wrong with a packet that is not the journal's.
fn difference(
    found: &[u8],
    id: &CheckpointId,
    refuse: impl Fn(Code, String) -> EngineError,
) -> EngineError {
    match read_hold_of(found, id) {
        Err(error) => refuse(error.code(), format!("is not as it was written: {error}")),
        Ok(_) => {
            refuse(Code::PacketEdited, "does not say what the journal says of the hold".to_owned())
        }
    }
}

/// Whether an event changes a file.
const fn shows(event: &Event) -> bool {
    match event {
        Event::Started(_)
        | Event::PhaseStarted { .. }
        | Event::PhaseSkipped { .. }
        | Event::PhaseDone { .. }
        | Event::SentBack { .. }
        | Event::Held(_)
        | Event::Voted(_)
        | Event::Resumed { .. }
        | Event::Checkpointed(_)
        | Event::RolledBack { .. }
        | Event::Ended { .. } => true,
        Event::Begun {}
        | Event::Checked { .. }
        | Event::InvocationStarted { .. }
        | Event::InvocationEnded { .. }
        | Event::Waiting { .. }
        | Event::Warned { .. }
        | Event::Continued {}
        | Event::Reviewed { .. }
        | Event::MergePrepared { .. }
        | Event::Merged { .. }
        | Event::Conflicted { .. }
        | Event::RollbackBegun(_)
        | Event::Restarted { .. }
        | Event::CommitPrepared { .. }
        | Event::Noted { .. } => false,
    }
}

/// The summaries of a phase's tries, the newest under the phase's own name.
fn step_files(story: &Story, phase: &str) -> Result<Vec<(String, Vec<u8>)>, EngineError> {
    let (Some(identity), Some((newest, earlier))) =
        (&story.identity, story.steps.get(phase).and_then(|tries| tries.split_last()))
    else {
        return Ok(Vec::new());
    };
    let mut files = Vec::new();
    let key = |text: &str| text.parse::<StepKey>().map_err(|error| story.unusable(&error));
    for step in earlier {
        let name = format!("{phase}.attempt-{}", step.attempt.unwrap_or_default());
        let bytes = step.to_bytes().map_err(|error| story.unusable(&error))?;
        files.push((identity.name.step_path(&key(&name)?), bytes));
    }
    let bytes = newest.to_bytes().map_err(|error| story.unusable(&error))?;
    files.push((identity.name.step_path(&key(phase)?), bytes));
    Ok(files)
}
