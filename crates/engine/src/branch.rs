//! Creates the work trees of phases and merges them into the run's workspace.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use windlass_kernel::run::plan::Phase;
use windlass_kernel::run::{Event, Run};
use windlass_workspace::{Merged, RestoreMode};

use crate::checkpointer::{Checkpointer, branch_path};
use crate::drive::lock;
use crate::engine::{Engine, run_name};
use crate::error::EngineError;
use crate::run_recorder::RunRecorder;
use crate::snapshot_store::recorded_tree;

/// The maximum size of a file that is searched for conflict markers.
const SEARCHED_BYTES_MAX: usize = 16 << 20;
/// The beginnings of git's conflict markers.
const MARKERS: [&[u8]; 2] = [b"<<<<<<< ", b">>>>>>> "];

impl Engine {
    /// The workspace of an attempt of a phase.
    pub(crate) fn phase_workspace(&self, run: &Run, phase: &Phase, attempt: u32) -> PathBuf {
        match branch_path(run, phase, attempt) {
            Some(own) => self.settings.state.join(own),
            None => self.workspace(run),
        }
    }

    pub(crate) fn checkpointer(&self) -> Result<&Checkpointer, EngineError> {
        let missing =
            || EngineError::NoCheckpoint { what: "this engine creates no checkpoints".into() };
        self.recording.checkpointer.as_deref().ok_or_else(missing)
    }

    /// Creates the work tree of an attempt from the run's workspace at the start of the attempt. A complete
    /// work tree is not changed: it has the work from before a crash.
    pub(crate) fn prepare_branch(
        &self,
        run: &Run,
        at: usize,
        attempt: u32,
    ) -> Result<(), EngineError> {
        let Some((phase, state)) = run.phase(at) else { return Ok(()) };
        let Some(path) = branch_path(run, phase, attempt) else { return Ok(()) };
        let folder = self.settings.state.join(&path);
        let ready = self.settings.state.join(format!("{path}.ready"));
        if ready.exists() && folder.exists() {
            return Ok(());
        }
        let base = run.started.as_ref().and_then(|started| started.base.as_ref());
        let (Some(base), Some(fork)) = (base, &state.branch.fork) else {
            let what = format!("phase `{}` has no snapshot to create its work tree from", phase.id);
            return Err(EngineError::NoCheckpoint { what });
        };
        {
            let lock = self.wait_for_lock("worktrees")?;
            self.repository.add_phase_worktree(&folder, base, lock.file())?;
        }
        let store = self.checkpointer()?.store();
        let from = store.capture_unreferenced(&folder)?;
        let backup = format!("{}/aside", run_name(run));
        // Other files can only come from an interrupted call of this function.
        let mode = RestoreMode::Resume { backup: &backup };
        store.restore(&folder, &from, &recorded_tree(fork)?, mode)?;
        let path = || ready.display().to_string();
        std::fs::write(&ready, b"")
            .map_err(|source| EngineError::Unwritable { path: path(), source })
    }

    /// Merges the work tree of a phase into the run's workspace; records the merge before and after it.
    pub(crate) fn merge(
        &self,
        recorder: &Mutex<RunRecorder>,
        at: usize,
        attempt: u32,
    ) -> Result<(), EngineError> {
        let run = lock(recorder).snapshot();
        let Some((phase, state)) = run.phase(at) else { return Ok(()) };
        let store = self.checkpointer()?.store();
        let (workspace, own) = (self.workspace(&run), self.phase_workspace(&run, phase, attempt));
        let (id, backup) = (phase.id.clone(), format!("{}/aside", run_name(&run)));
        let resume = RestoreMode::Resume { backup: &backup };
        let (ours, tree, mode) = match &state.branch.merging {
            Some(merging) => (recorded_tree(&merging.ours)?, recorded_tree(&merging.tree)?, resume),
            None => {
                let reference = |side: &str| format!("{}/{id}.{attempt}/{side}", run_name(&run));
                let theirs = match &state.branch.theirs {
                    Some(theirs) => recorded_tree(theirs)?,
                    None => store.capture(&own, &reference("mended"))?,
                };
                let ours = store.capture(&workspace, &reference("ours"))?;
                let fork = state.branch.fork.as_deref().map(recorded_tree).transpose()?;
                let unresolved = self.unresolved_files(&run, at, &own)?;
                let merged = if unresolved.is_empty() {
                    store.merge(fork.as_ref().unwrap_or(&ours), &ours, &theirs)?
                } else {
                    Merged::Conflict {
                        tree_with_markers: theirs.clone(),
                        paths: unresolved.into_iter().map(PathBuf::from).collect(),
                        messages: vec!["conflict markers remain".to_owned()],
                    }
                };
                match merged {
                    Merged::Clean(tree) => {
                        let event = Event::MergePrepared {
                            phase: id.clone(),
                            attempt,
                            ours: ours.to_string(),
                            theirs: theirs.to_string(),
                            tree: tree.to_string(),
                        };
                        self.record(recorder, event)?;
                        (ours, tree, RestoreMode::First)
                    }
                    Merged::Conflict { tree_with_markers, paths, messages } => {
                        self.prepare_branch(&run, at, attempt)?;
                        let from = store.capture_unreferenced(&own)?;
                        store.restore(&own, &from, &tree_with_markers, resume)?;
                        let paths = paths.iter().map(|path| path.to_string_lossy().into_owned());
                        let (ours, paths) = (ours.to_string(), paths.collect());
                        let event = Event::Conflicted { phase: id, attempt, ours, paths, messages };
                        return self.record(recorder, event);
                    }
                }
            }
        };
        store.restore(&workspace, &ours, &tree, mode)?;
        let run = lock(recorder).snapshot();
        let change = self.repository.change(&workspace, &run)?;
        self.record(recorder, Event::Merged { phase: id, attempt, change })?;
        self.drop_branch(&run, phase, attempt)
    }

    /// The files of a conflict that still have conflict markers.
    fn unresolved_files(
        &self,
        run: &Run,
        at: usize,
        own: &Path,
    ) -> Result<Vec<String>, EngineError> {
        let Some(paths) = run.resolved_paths(at) else { return Ok(Vec::new()) };
        let marked = |path: &&String| {
            let file = own.join(path.as_str());
            let small = std::fs::symlink_metadata(&file)
                .is_ok_and(|found| found.is_file() && found.len() <= SEARCHED_BYTES_MAX as u64);
            small
                && std::fs::read(&file).is_ok_and(|bytes| {
                    MARKERS.iter().all(|marker| {
                        bytes.split(|byte| *byte == b'\n').any(|line| line.starts_with(marker))
                    })
                })
        };
        Ok(paths.iter().filter(marked).cloned().collect())
    }

    /// Removes the work tree of an attempt that is merged; its checkpoint has its files.
    fn drop_branch(&self, run: &Run, phase: &Phase, attempt: u32) -> Result<(), EngineError> {
        let Some(path) = branch_path(run, phase, attempt) else { return Ok(()) };
        let ready = self.settings.state.join(format!("{path}.ready"));
        // If this fails, the work tree is created again when it is needed.
        drop(std::fs::remove_file(ready));
        let lock = self.wait_for_lock("worktrees")?;
        self.repository.remove_phase_worktree(&self.settings.state.join(path), lock.file())?;
        // What stays is swept with the next one.
        drop(self.checkpointer()?.store().sweep_workspaces());
        Ok(())
    }

    pub(crate) fn record(
        &self,
        recorder: &Mutex<RunRecorder>,
        event: Event,
    ) -> Result<(), EngineError> {
        let mut recorder = lock(recorder);
        recorder.append(vec![event])
    }
}
