//! Puts the project's files back to how they were before a run that did not pass.

use std::sync::Mutex;

use windlass_kernel::run::plan::RunOutcome;
use windlass_kernel::run::{CheckpointRecord, Ended, Event, Run};
use windlass_kernel::{Code, TraceId};

use crate::drive::lock;
use crate::engine::{Engine, run_name};
use crate::error::EngineError;
use crate::rollback::{RollbackRequest, check_texts};

impl Engine {
    /// The checkpoint to which the files of a run can be put back: it has ended without passing, has changed files
    /// of the project itself, and kept them as they were at its start.
    #[must_use]
    pub fn start_of_failed(run: &Run) -> Option<&CheckpointRecord> {
        let ended = run.ended.as_ref()?;
        let own = run.started.as_ref()?.worktree.is_some();
        let changed = run.change.as_ref().is_some_and(|change| !change.files.is_empty());
        let first = run.checkpoints.first().filter(|first| first.workspace.is_some());
        first.filter(|_| ended.outcome != RunOutcome::Pass && !own && changed)
    }

    /// Rolls the files of a run that did not pass back to its start. The run stays ended as it has; its work stays
    /// in its checkpoints.
    ///
    /// # Errors
    /// [`EngineError`] if there is nothing to put back, or people have changed files since.
    pub fn put_back(&self, trace_id: TraceId, by: &str) -> Result<Run, EngineError> {
        let seen = self.read(trace_id)?;
        let _locks = match seen.plan() {
            Some(plan) => self.lock_for(plan, false)?,
            None => Vec::new(),
        };
        let mut recorder = self.open(trace_id)?;
        let run = recorder.snapshot();
        let (Some(ended), Some(start)) = (run.ended.clone(), Self::start_of_failed(&run)) else {
            let message = format!("run `{}` has nothing to put back", run_name(&run));
            let hint =
                "only a run that has ended without passing, and has changed files of the project"
                    .to_owned();
            return Err(EngineError::Invalid {
                code: Code::CheckpointUnavailable,
                message,
                hint: Some(hint),
            });
        };
        let Ended { outcome, reason, detail, .. } = ended;
        let request = RollbackRequest {
            checkpoint: start.id,
            by: by.to_owned(),
            reason: format!("the run ended {}: {reason}", outcome.as_str()),
            resume: false,
            force: false,
        };
        check_texts(&request)?;
        // The checkpoint must not be purged before the files are put back.
        let storing = self.checkpointer()?.store().lock_for_storing()?;
        let checkpoint = self.stored_target(&run, start.id)?.clone();
        let rollback = self.prepare(&run, &checkpoint, &request)?;
        recorder.append(vec![Event::RollbackBegun(Box::new(rollback))])?;
        drop(storing);
        let recorder = Mutex::new(recorder);
        self.restore(&recorder)?;
        let mut recorder = lock(&recorder);
        recorder.append(vec![Event::Ended { outcome, reason, detail }])?;
        Ok(recorder.run().clone())
    }
}
