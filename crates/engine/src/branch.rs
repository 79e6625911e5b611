//! Phases with a work tree of their own: where they work, and how that becomes part of the run's.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use windlass_kernel::run::plan::Phase;
use windlass_kernel::run::{Event, Run};

use crate::drive::lock;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::keeper::{Keeper, branch_path};
use crate::resume::name;
use crate::run_recorder::RunRecorder;
use crate::vault::{Joined, Way};

/// The largest file in which marks of a conflict are looked for.
const MARKED_BYTES_MAX: usize = 16 << 20;
/// With these git marks what two sides have made of the same lines.
const MARKS: [&[u8]; 2] = [b"<<<<<<< ", b">>>>>>> "];

impl Engine {
    /// The folder that a try of a phase works in.
    pub(crate) fn workplace(&self, run: &Run, phase: &Phase, attempt: u32) -> PathBuf {
        match branch_path(run, phase, attempt) {
            Some(own) => self.settings.root.join(own),
            None => self.workspace(run),
        }
    }

    pub(crate) fn keeper(&self) -> Result<&Keeper, EngineError> {
        let missing =
            || EngineError::NoCheckpoint { what: "nothing keeps checkpoints here".into() };
        self.recording.keeper.as_deref().ok_or_else(missing)
    }

    /// Makes the work tree of a try, as the run's workspace was when the try began. One that is there
    /// is left as it is: it has what was done before a crash.
    pub(crate) fn prepare_branch(
        &self,
        run: &Run,
        at: usize,
        attempt: u32,
    ) -> Result<(), EngineError> {
        let Some((phase, state)) = run.phase(at) else { return Ok(()) };
        let Some(path) = branch_path(run, phase, attempt) else { return Ok(()) };
        let folder = self.settings.root.join(&path);
        let ready = self.settings.root.join(format!("{path}.ready"));
        if ready.exists() && folder.exists() {
            return Ok(());
        }
        let base = run.started.as_ref().and_then(|started| started.base.as_ref());
        let (Some(base), Some(fork)) = (base, &state.branch.fork) else {
            let what = format!("phase `{}` has nothing to begin its work tree from", phase.id);
            return Err(EngineError::NoCheckpoint { what });
        };
        {
            let _one = self.wait_for("worktrees")?;
            self.place.make_branch(&path, base)?;
        }
        let vault = self.keeper()?.vault();
        let from = vault.present(&folder)?;
        let aside = format!("{}/aside", name(run));
        // Nothing but a try that was cut off here can be in the way.
        vault.restore(&folder, &Way { from: &from, to: fork, resuming: true, aside: &aside })?;
        let shown = || ready.display().to_string();
        std::fs::write(&ready, b"")
            .map_err(|source| EngineError::Unwritable { path: shown(), source })
    }

    /// Makes a branch part of the run's workspace; on record before and after.
    pub(crate) fn merge(
        &self,
        recorder: &Mutex<RunRecorder>,
        at: usize,
        attempt: u32,
    ) -> Result<(), EngineError> {
        let run = lock(recorder).snapshot();
        let Some((phase, state)) = run.phase(at) else { return Ok(()) };
        let vault = self.keeper()?.vault();
        let (workspace, own) = (self.workspace(&run), self.workplace(&run, phase, attempt));
        let (id, aside) = (phase.id.clone(), format!("{}/aside", name(&run)));
        let merging = match &state.branch.merging {
            Some(merging) => (merging.ours.clone(), merging.tree.clone(), true),
            None => {
                let theirs = match &state.branch.theirs {
                    Some(theirs) => theirs.clone(),
                    None => {
                        vault.capture(&own, &format!("{}/{id}.{attempt}/mended", name(&run)))?
                    }
                };
                let ours =
                    vault.capture(&workspace, &format!("{}/{id}.{attempt}/ours", name(&run)))?;
                let fork = state.branch.fork.clone().unwrap_or_else(|| ours.clone());
                let unmended = self.unmended(&run, at, &own)?;
                let joined = if unmended.is_empty() {
                    vault.merge(&fork, &ours, &theirs)?
                } else {
                    let messages = vec!["marks of the conflict are left".to_owned()];
                    Joined::Conflict { marked: theirs.clone(), paths: unmended, messages }
                };
                match joined {
                    Joined::Clean(tree) => {
                        let (phase, ours) = (id.clone(), ours);
                        let event = Event::MergePrepared {
                            phase,
                            attempt,
                            ours: ours.clone(),
                            theirs,
                            tree: tree.clone(),
                        };
                        self.record(recorder, event)?;
                        (ours, tree, false)
                    }
                    Joined::Conflict { marked, paths, messages } => {
                        self.prepare_branch(&run, at, attempt)?;
                        let from = vault.present(&own)?;
                        let way = Way { from: &from, to: &marked, resuming: true, aside: &aside };
                        vault.restore(&own, &way)?;
                        let event = Event::Conflicted { phase: id, attempt, ours, paths, messages };
                        return self.record(recorder, event);
                    }
                }
            }
        };
        let (ours, tree, resuming) = merging;
        vault.restore(&workspace, &Way { from: &ours, to: &tree, resuming, aside: &aside })?;
        let run = lock(recorder).snapshot();
        let change = self.place.change(&workspace, &run)?;
        self.record(recorder, Event::Merged { phase: id, attempt, change })?;
        self.drop_branch(&run, phase, attempt)
    }

    /// The files of a conflict in which marks are left.
    fn unmended(&self, run: &Run, at: usize, own: &Path) -> Result<Vec<String>, EngineError> {
        let Some(paths) = run.conflict_of(at) else { return Ok(Vec::new()) };
        let marked = |path: &&String| {
            let file = own.join(path.as_str());
            let small = std::fs::symlink_metadata(&file)
                .is_ok_and(|found| found.is_file() && found.len() <= MARKED_BYTES_MAX as u64);
            small
                && std::fs::read(&file).is_ok_and(|bytes| {
                    MARKS.iter().all(|mark| {
                        bytes.split(|byte| *byte == b'\n').any(|line| line.starts_with(mark))
                    })
                })
        };
        Ok(paths.iter().filter(marked).cloned().collect())
    }

    /// Takes away the work tree of a try whose work is merged; it is kept in its checkpoint.
    fn drop_branch(&self, run: &Run, phase: &Phase, attempt: u32) -> Result<(), EngineError> {
        let Some(path) = branch_path(run, phase, attempt) else { return Ok(()) };
        let ready = self.settings.root.join(format!("{path}.ready"));
        // It is in the way of nothing: a left-over is made anew when it is needed.
        drop(std::fs::remove_file(ready));
        let _one = self.wait_for("worktrees")?;
        self.place.drop_branch(&path)
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
