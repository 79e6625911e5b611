//! Starting a run: everything is checked before anything is recorded.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};

use serde_json::Value;
use windlass_kernel::run::plan::{Plan, Requirement, RunOutcome};
use windlass_kernel::run::{PhaseResult, Run, RunName, Started};
use windlass_kernel::{Code, Digest, TraceId};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::run_recorder::RunRecorder;

/// What a run is started with.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// What it follows.
    pub plan: Plan,
    /// The digest of the loop file.
    pub loop_digest: Digest,
    /// What is to be done.
    pub task: Value,
    /// Whether it works in a work tree of its own.
    pub worktree: bool,
    /// What else it was started with.
    pub options: Value,
    /// What came of phases that were done elsewhere.
    pub inherited: BTreeMap<String, PhaseResult>,
    /// Why it waits for a person before anything is done, if it does.
    pub wait: Option<String>,
    /// How it has ended before anything was done, if it has.
    pub end: Option<(RunOutcome, String, String)>,
}

impl NewRun {
    /// A run of a plan from its beginning, in the project's own folder.
    #[must_use]
    pub fn new(plan: Plan, loop_digest: Digest, task: Value) -> Self {
        Self {
            plan,
            loop_digest,
            task,
            worktree: false,
            options: Value::Object(serde_json::Map::new()),
            inherited: BTreeMap::new(),
            wait: None,
            end: None,
        }
    }
}

/// A lock that lasts as long as the process that has it.
pub(crate) struct Lock {
    file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a program that is just being started may still have a copy. If
        // this fails, the lock goes when that copy does.
        drop(self.file.unlock());
    }
}

impl Engine {
    /// Starts a run and takes it as far as it goes.
    ///
    /// The order: stop switch, lock, stop switch again, repository, then the journal. Nothing is
    /// written before all of them have said yes.
    ///
    /// # Errors
    /// [`EngineError`], and nothing was recorded unless the run had begun.
    pub fn start(&self, new: NewRun) -> Result<Run, EngineError> {
        self.stop.check(None)?;
        let _locks = self.lock_for(&new.plan, new.worktree)?;
        self.stop.check(None)?;
        self.end_left_over(&new.plan)?;
        let root = &self.settings.root;
        let base = self.repository.base(root)?;
        let needs_repo = new.worktree
            || new
                .plan
                .require
                .iter()
                .any(|require| matches!(require, Requirement::CleanRepo | Requirement::Repo));
        if needs_repo && base.is_none() {
            return Err(EngineError::Requirement {
                code: Code::RepoMissing,
                message: format!(
                    "loop `{}` needs a git repository with a commit, and `{}` is none",
                    new.plan.id,
                    root.display()
                ),
            });
        }
        if new.plan.require.contains(&Requirement::CleanRepo) {
            self.repository.require_clean(root)?;
        }
        let trace_id = TraceId(self.recording.clock.new_id());
        let run_id = RunName::of(trace_id).to_string();
        let worktree = match (&base, new.worktree) {
            (Some(base), true) => {
                // Of two that add a work tree at once, git lets one see the other's half made.
                let _one = self.wait_for("worktrees")?;
                Some(self.repository.make_worktree(&run_id, base)?)
            }
            (_, _) => None,
        };
        let started = Started {
            base,
            by: self.settings.by.clone(),
            inherited: new.inherited,
            loop_digest: new.loop_digest,
            options: new.options,
            plan: new.plan,
            policy_hash: self.settings.policy_hash,
            run_id,
            task: new.task,
            worktree,
        };
        let mut recorder = RunRecorder::begin(&self.recording, trace_id, started)?;
        self.stay(&mut recorder, new.wait, new.end)?;
        self.drive(recorder)
    }

    /// Takes the locks that a loop needs: the workspace unless it has its own, and the loop itself
    /// where only one may run.
    pub(crate) fn lock_for(&self, plan: &Plan, own: bool) -> Result<Vec<Lock>, EngineError> {
        let mut locks = Vec::new();
        if !own {
            locks.push(self.lock("workspace")?);
        }
        if plan.require.contains(&Requirement::Single) {
            locks.push(self.lock("single")?);
        }
        Ok(locks)
    }

    fn lock(&self, name: &str) -> Result<Lock, EngineError> {
        let (file, path) = self.lock_file(name)?;
        match file.try_lock() {
            Ok(()) => Ok(Lock { file }),
            Err(TryLockError::WouldBlock) => Err(EngineError::Requirement {
                code: Code::RunConcurrent,
                message: match name {
                    "workspace" => "another run is at work in this workspace".to_owned(),
                    _ => "another task is under way, and this loop takes one at a time".to_owned(),
                },
            }),
            Err(TryLockError::Error(source)) => Err(EngineError::Unwritable { path, source }),
        }
    }

    /// Waits for a lock that nobody has for long.
    pub(crate) fn wait_for(&self, name: &str) -> Result<Lock, EngineError> {
        let (file, path) = self.lock_file(name)?;
        file.lock().map_err(|source| EngineError::Unwritable { path, source })?;
        Ok(Lock { file })
    }

    fn lock_file(&self, name: &str) -> Result<(File, String), EngineError> {
        let folder = &self.settings.locks;
        let path = folder.join(format!("{name}.lock"));
        let shown = path.display().to_string();
        let opened = std::fs::create_dir_all(folder)
            .and_then(|()| File::options().create(true).truncate(false).write(true).open(&path));
        match opened {
            Ok(file) => Ok((file, shown)),
            Err(source) => Err(EngineError::Unwritable { path: shown, source }),
        }
    }
}
