//! Creates the work trees of phases and merges them into the run's workspace.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use windlass_kernel::run::plan::Phase;
use windlass_kernel::run::{Event, PendingMerge, Run};
use windlass_workspace::{Merged, OnConflict, TreeId, WorkspaceChange};

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

/// The folder of the references of an attempt.
fn branch_folder(run: &Run, phase: &Phase, attempt: u32) -> String {
    format!("{}/{}.{attempt}", run_name(run), phase.id)
}

/// The change of a merge. It refuses to overwrite what others have made since it was prepared.
const fn merging<'a>(
    expected: &'a TreeId,
    wanted: &'a TreeId,
    keep: &'a str,
) -> WorkspaceChange<'a> {
    WorkspaceChange { expected, wanted, keep, on_conflict: OnConflict::Refuse }
}

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
        // Other files can only come from an interrupted call of this function.
        self.fill_branch(run, phase, attempt, &folder, &recorded_tree(fork)?, "fork")?;
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
        let reference = |side: &str| format!("{}/{side}", branch_folder(&run, phase, attempt));
        let (ours, tree, number) = match &state.branch.merging {
            Some(PendingMerge { ours, tree, number }) => {
                (recorded_tree(ours)?, recorded_tree(tree)?, *number)
            }
            None => {
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
                    let paths = unresolved.into_iter().map(PathBuf::from).collect();
                    let messages = vec!["conflict markers remain".to_owned()];
                    Merged::Conflict { tree_with_markers: theirs.clone(), paths, messages }
                };
                let (tree, number) = match merged {
                    Merged::Clean(tree) => (tree, run.next_merge_number()),
                    conflict @ Merged::Conflict { .. } => {
                        return self.ask_to_resolve(recorder, at, attempt, &ours, conflict);
                    }
                };
                let keep = reference(&format!("merge-{number}"));
                match store.prepare_change(&workspace, &merging(&ours, &tree, &keep)) {
                    Err(error @ EngineError::InTheWay { .. }) => {
                        return self.meet(recorder, at, attempt, [&ours, &tree], error);
                    }
                    prepared => prepared?,
                }
                let event = Event::MergePrepared {
                    phase: phase.id.clone(),
                    attempt,
                    ours: ours.to_string(),
                    theirs: theirs.to_string(),
                    tree: tree.to_string(),
                };
                self.record(recorder, event)?;
                (ours, tree, number)
            }
        };
        let keep = reference(&format!("merge-{number}"));
        match store.change(&workspace, &merging(&ours, &tree, &keep)) {
            Err(error @ EngineError::InTheWay { .. }) => {
                return self.meet(recorder, at, attempt, [&ours, &tree], error);
            }
            changed => drop(changed?),
        }
        let run = lock(recorder).snapshot();
        let change = self.repository.change(&workspace, &run)?;
        self.record(recorder, Event::Merged { phase: phase.id.clone(), attempt, change })?;
        self.drop_branch(&run, phase, attempt)
    }

    /// Merges what the workspace has now with what it was to become, and asks a person about the rest.
    fn meet(
        &self,
        recorder: &Mutex<RunRecorder>,
        at: usize,
        attempt: u32,
        [expected, wanted]: [&TreeId; 2],
        refusal: EngineError,
    ) -> Result<(), EngineError> {
        let EngineError::InTheWay { changed, in_the_way, .. } = refusal else {
            return Err(refusal);
        };
        let run = lock(recorder).snapshot();
        let Some((phase, _)) = run.phase(at) else { return Ok(()) };
        let store = self.checkpointer()?.store();
        let reference = format!("{}/ours", branch_folder(&run, phase, attempt));
        let now = store.capture(&self.workspace(&run), &reference)?;
        let (tree_with_markers, mut paths, mut messages) =
            match store.merge(expected, &now, wanted)? {
                Merged::Clean(tree) => (tree, Vec::new(), Vec::new()),
                Merged::Conflict { tree_with_markers, paths, messages } => {
                    (tree_with_markers, paths, messages)
                }
            };
        if paths.is_empty() {
            let told = |name: &String| format!("`{name}` has changed in the workspace meanwhile");
            messages.extend(changed.iter().map(told));
            paths.extend(changed.iter().map(PathBuf::from));
        }
        let told = |name: &String| {
            format!("`{name}` in the workspace is in the way, and in no snapshot: move it away")
        };
        messages.extend(in_the_way.iter().map(told));
        paths.extend(
            in_the_way
                .iter()
                .map(PathBuf::from)
                .filter(|path| !paths.contains(path))
                .collect::<Vec<_>>(),
        );
        let conflict = Merged::Conflict { tree_with_markers, paths, messages };
        self.ask_to_resolve(recorder, at, attempt, &now, conflict)
    }

    /// Puts both sides of a conflict into the work tree of a phase, and lets a person resolve it.
    fn ask_to_resolve(
        &self,
        recorder: &Mutex<RunRecorder>,
        at: usize,
        attempt: u32,
        ours: &TreeId,
        conflict: Merged,
    ) -> Result<(), EngineError> {
        let Merged::Conflict { tree_with_markers, paths, messages } = conflict else {
            return Ok(());
        };
        let run = lock(recorder).snapshot();
        self.prepare_branch(&run, at, attempt)?;
        let Some((phase, _)) = run.phase(at) else { return Ok(()) };
        let own = self.phase_workspace(&run, phase, attempt);
        let name = format!("conflict-{}", run.holds.saturating_add(1));
        self.fill_branch(&run, phase, attempt, &own, &tree_with_markers, &name)?;
        let paths = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        let (phase, ours) = (phase.id.clone(), ours.to_string());
        self.record(recorder, Event::Conflicted { phase, attempt, ours, paths, messages })
    }

    /// Brings the work tree of a phase to a snapshot, whatever it has now, which stays in a snapshot.
    fn fill_branch(
        &self,
        run: &Run,
        phase: &Phase,
        attempt: u32,
        folder: &Path,
        wanted: &TreeId,
        name: &str,
    ) -> Result<(), EngineError> {
        let store = self.checkpointer()?.store();
        let expected = &store.capture_unreferenced(folder)?;
        let keep = &format!("{}/{name}", branch_folder(run, phase, attempt));
        let on_conflict = OnConflict::Refuse;
        store.change(folder, &WorkspaceChange { expected, wanted, keep, on_conflict }).map(drop)
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
