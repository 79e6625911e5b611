//! The files of runs, written from the journal alone.
//!
//! | file, below the root | shows |
//! |---|---|
//! | `checkpoints/CP_<run_id>_<step>.yaml` | a hold and its answers; the step is the phase's index in the plan |
//! | `steps/<run_id>_<step>.json` | the result of a phase; the step is the phase's name |
//! | `loop_state/attempt_ledger.jsonl` | the attempts and rollbacks of all runs; earlier runs in `attempt_ledger.<number>.jsonl` |
//! | `terminal/TP_<run_id>.yaml` | the end of a run; removed if the run is rolled back |
//!
//! Checkpoints have a folder of their own: see `checkpoint_files`.
//!
//! The second hold at index 4 is `4-2`, the third `4-3`. The newest attempt of a phase has the phase's
//! name, each earlier attempt `<step>.attempt-<number>`: no phase has a dot in its name.
//!
//! Every file is a function of the run's entries, so writing it again gives the same bytes. When a run is
//! opened, all of its files are brought up to date with its next commit, so what a dead process did not
//! write is written then. After that only changes are written.

mod attempts;
mod checkpoint_files;
mod folder;
mod gate_results;
mod ledger;
mod packets;
mod run_view;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_engine::{EngineError, HoldPackets, PurgedCheckpoint, RunObservers};
use windlass_formats::{CheckpointId, PACKET_BYTES_MAX, StepKey, read_hold_of};
use windlass_journal::{Check, Observer, ObserverError, Reader, Runs, Step};
use windlass_kernel::run::{Event, Run, RunEvent};
use windlass_kernel::{Code, TraceId};
use windlass_store::{Store, StoreError};

use self::folder::Folder;
use self::run_view::{EndChange, PendingChanges, RunView};

/// Writes the files of runs below a root folder.
#[derive(Clone)]
pub struct Files {
    store: Arc<dyn Store>,
    folder: Arc<Folder>,
    /// The folder of checkpoint files, if they are written.
    checkpoints: Option<Arc<Folder>>,
}

/// The files of one run, written as the run is recorded.
struct RunFiles {
    files: Files,
    view: RunView,
    /// Whether a file is out of date.
    stale: bool,
}

/// The files and folders that [`Files`] writes below a root.
#[must_use]
pub fn written_below(root: &Path) -> Vec<PathBuf> {
    let names = ["checkpoints", "steps", "loop_state", "terminal", ".tmp", ".lock"];
    names.map(|name| root.join(name)).to_vec()
}

impl Files {
    /// Writes files below `root`, which replaces the `artifacts` folder of the layout.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, root: PathBuf) -> Self {
        Self { store, folder: Arc::new(Folder::new(root)), checkpoints: None }
    }

    /// Writes checkpoint files to a folder of their own.
    #[must_use]
    pub fn with_checkpoints(mut self, root: PathBuf) -> Self {
        self.checkpoints = Some(Arc::new(Folder::new(root)));
        self
    }

    /// Writes all files of a run again from the journal alone; returns their paths.
    ///
    /// Files that are up to date are not touched.
    ///
    /// # Errors
    /// [`EngineError`] if there is no such run, it fails verification, or a file cannot be written.
    pub fn rebuild(&self, trace_id: TraceId) -> Result<Vec<PathBuf>, EngineError> {
        let mut view = RunView::new(trace_id);
        view.show_all_checkpoints();
        let (mut view, run) = self.read_into(view, trace_id, Check::Verified)?;
        let (paths, checkpoints) = self.write(&mut view, &run)?;
        let checkpoints =
            checkpoints.iter().filter_map(|path| Some(self.checkpoints.as_ref()?.on_disk(path)));
        Ok(paths.iter().map(|path| self.folder.on_disk(path)).chain(checkpoints).collect())
    }

    /// The id of the hold that a run waits at, which is also the name of its packet.
    ///
    /// # Errors
    /// [`EngineError`] if the run cannot be read.
    pub fn hold_id(&self, trace_id: TraceId) -> Result<Option<CheckpointId>, EngineError> {
        let (view, run) = self.view_of(trace_id, Check::Prefix)?;
        let waits = run.hold.is_some() && run.ended.is_none();
        Ok(view.holds.last().filter(|_| waits).map(|hold| hold.id.clone()))
    }

    /// Reads a run and the contents of its files.
    fn view_of(&self, trace_id: TraceId, check: Check) -> Result<(RunView, Run), EngineError> {
        self.read_into(RunView::new(trace_id), trace_id, check)
    }

    fn read_into(
        &self,
        mut view: RunView,
        trace_id: TraceId,
        check: Check,
    ) -> Result<(RunView, Run), EngineError> {
        let mut reader = Reader::<Run>::new(trace_id, check);
        let store = self.store.as_ref();
        reader.read(store, &mut [Box::new(ViewReader { view: &mut view, store })])?;
        Ok((view, reader.into_state()))
    }

    /// Writes the pending changes of a run; returns the paths of its files and of its checkpoint files.
    fn write(
        &self,
        view: &mut RunView,
        run: &Run,
    ) -> Result<(Vec<String>, Vec<String>), EngineError> {
        if let Some(error) = view.error.take() {
            return Err(error);
        }
        let mut paths = Vec::new();
        let PendingChanges { holds, steps, checkpoints, end } = std::mem::take(&mut view.pending);
        let checkpoint_paths = match &self.checkpoints {
            Some(folder) => checkpoint_files::write(folder, &checkpoints)?,
            None => Vec::new(),
        };
        for hold in holds.iter().filter_map(|at| view.holds.get(*at)) {
            let bytes = view.hold_packet(run, hold, hold.hold.votes.len())?;
            paths.push(self.write_file(hold.id.path(), &bytes)?);
        }
        for phase in &steps {
            for (path, bytes) in step_files(view, phase)? {
                paths.push(self.write_file(path, &bytes)?);
            }
        }
        if let (EndChange::Reopened, Some(identity)) = (end, &view.identity) {
            self.folder.remove(&identity.name.terminal_path())?;
        }
        paths.extend(self.write_ledger(view)?);
        // The terminal packet is written last: a reader that finds it finds all other files.
        if let (EndChange::Ended, Some(identity), Some(bytes)) =
            (end, &view.identity, view.terminal_packet(run)?)
        {
            paths.push(self.write_file(identity.name.terminal_path(), &bytes)?);
        }
        Ok((paths, checkpoint_paths))
    }

    fn write_file(&self, path: String, bytes: &[u8]) -> Result<String, EngineError> {
        self.folder.write(&path, bytes)?;
        Ok(path)
    }

    /// Returns the path of the ledger's file that has the run's lines, if there was something to write.
    fn write_ledger(&self, view: &mut RunView) -> Result<Option<String>, EngineError> {
        let Some(identity) = &mut view.identity else { return Ok(None) };
        let name = identity.name.to_string();
        let block_of = |name: &str| self.ledger_block(name);
        let known = match (identity.written, view.is_new) {
            (0, true) => ledger::Known::New,
            (written, _) => ledger::Known::Written(written),
        };
        let path = ledger::sync(&self.folder, &name, &identity.lines, known, block_of)?;
        identity.written = identity.lines.len();
        Ok(path)
    }

    /// The ledger lines of another run, if the journal has it and it can be read.
    fn ledger_block(&self, name: &str) -> Result<Option<Vec<u8>>, EngineError> {
        let Ok(name) = name.parse() else { return Ok(None) };
        let runs = Runs::new(Arc::clone(&self.store));
        let Some(trace_id) = runs.find_named(&name)? else { return Ok(None) };
        // A run that cannot be read must not stop the writing of this one.
        match self.view_of(trace_id, Check::Prefix) {
            Ok((view, _)) => Ok(view.identity.map(|identity| identity.lines.concat())),
            Err(_) => Ok(None),
        }
    }
}

/// Fills a view while its run is read.
struct ViewReader<'a> {
    view: &'a mut RunView,
    store: &'a dyn Store,
}

impl Observer<Run> for ViewReader<'_> {
    fn before(&mut self, run: &Run, event: &RunEvent) {
        self.view.before(run, &event.event);
    }

    fn after(&mut self, step: &Step<'_, Run>) {
        self.view.after(step.state, &step.artifact.event, step.entry.ts, self.store);
    }

    fn durable(&mut self, _: &Run) -> Result<(), ObserverError> {
        Ok(())
    }
}

impl RunObservers for Files {
    fn observe(&self, trace_id: TraceId) -> Box<dyn Observer<Run>> {
        let (files, mut view) = (self.clone(), RunView::new(trace_id));
        let recorded = self.store.load_state(trace_id);
        view.is_new = matches!(recorded, Err(StoreError::NotFound { .. }));
        Box::new(RunFiles { files, view, stale: true })
    }
}

impl Observer<Run> for RunFiles {
    fn before(&mut self, run: &Run, event: &RunEvent) {
        self.view.before(run, &event.event);
    }

    fn after(&mut self, step: &Step<'_, Run>) {
        let (event, ts) = (&step.artifact.event, step.entry.ts);
        self.view.after(step.state, event, ts, self.files.store.as_ref());
        self.stale |= changes_files(event);
    }

    fn durable(&mut self, run: &Run) -> Result<(), ObserverError> {
        if !std::mem::take(&mut self.stale) {
            return Ok(());
        }
        self.files.write(&mut self.view, run).map(|_| ()).map_err(EngineError::into_observer_error)
    }
}

impl HoldPackets for Files {
    fn remove_checkpoints(
        &self,
        purged: &[PurgedCheckpoint],
        dry_run: bool,
    ) -> Result<u64, EngineError> {
        let folder = self.checkpoints.as_ref().filter(|_| !purged.is_empty());
        folder.map_or(Ok(0), |folder| checkpoint_files::remove(folder, purged, dry_run))
    }

    fn remove(&self, run: &Run, dry_run: bool) -> Result<Vec<String>, EngineError> {
        let (view, _) = self.view_of(run.head.trace_id, Check::Prefix)?;
        let mut removed = Vec::new();
        for hold in &view.holds {
            let path = hold.id.path();
            let exists = self.folder.on_disk(&path).exists();
            let is_removed = if dry_run { exists } else { self.folder.remove(&path)? };
            if is_removed {
                removed.push(path);
            }
        }
        Ok(removed)
    }

    fn check(&self, run: &Run) -> Result<(), EngineError> {
        if run.hold.is_none() {
            return Ok(());
        }
        let (view, run) = self.view_of(run.head.trace_id, Check::Prefix)?;
        let Some(shown) = view.holds.last() else { return Ok(()) };
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
        if found == view.hold_packet(&run, shown, votes)? {
            return Ok(());
        }
        // A process that died after it recorded an answer left the packet of before the answer.
        for earlier in 0..votes {
            if found == view.hold_packet(&run, shown, earlier)? {
                return self.folder.write(&path, &view.hold_packet(&run, shown, votes)?);
            }
        }
        let mut before = shown.clone();
        before.hold.votes.clone_from(&shown.hold.before_revocation);
        if !before.hold.votes.is_empty()
            && found == view.hold_packet(&run, &before, before.hold.votes.len())?
        {
            return self.folder.write(&path, &view.hold_packet(&run, shown, votes)?);
        }
        Err(difference(&found, &shown.id, refuse))
    }
}

/// Describes how a packet differs from the journal.
fn difference(
    found: &[u8],
    id: &CheckpointId,
    refuse: impl Fn(Code, String) -> EngineError,
) -> EngineError {
    match read_hold_of(found, id) {
        Err(error) => refuse(error.code(), format!("is not valid: {error}")),
        Ok(_) => refuse(Code::PacketEdited, "differs from the journal".to_owned()),
    }
}

/// Whether an event changes a file.
const fn changes_files(event: &Event) -> bool {
    match event {
        Event::Started(_)
        | Event::PhaseStarted { .. }
        | Event::PhaseSkipped { .. }
        | Event::PhaseDone { .. }
        | Event::SentBack { .. }
        | Event::Held(_)
        | Event::Voted(_)
        | Event::Revoked(_)
        | Event::Resumed { .. }
        | Event::Checkpointed(_)
        | Event::RollbackBegun(_)
        | Event::RolledBack { .. }
        | Event::Ended { .. } => true,
        Event::Begun {}
        | Event::Setup(_)
        | Event::Integration(_)
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
        | Event::Restarted { .. }
        | Event::CommitPrepared { .. }
        | Event::Noted { .. } => false,
    }
}

/// The files of a phase's attempts, the newest under the phase's own name.
fn step_files(view: &RunView, phase: &str) -> Result<Vec<(String, Vec<u8>)>, EngineError> {
    let (Some(identity), Some((newest, earlier))) =
        (&view.identity, view.steps.get(phase).and_then(|attempts| attempts.split_last()))
    else {
        return Ok(Vec::new());
    };
    let mut files = Vec::new();
    let key = |text: &str| text.parse::<StepKey>().map_err(|error| view.invalid(&error));
    for step in earlier {
        let name = format!("{phase}.attempt-{}", step.attempt.unwrap_or_default());
        let bytes = step.to_bytes().map_err(|error| view.invalid(&error))?;
        files.push((identity.name.step_path(&key(&name)?), bytes));
    }
    let bytes = newest.to_bytes().map_err(|error| view.invalid(&error))?;
    files.push((identity.name.step_path(&key(phase)?), bytes));
    Ok(files)
}
