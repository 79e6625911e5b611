//! Starts runs: every requirement is checked before anything is recorded.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};

use serde_json::{Value, json};
use windlass_journal::{JournalError, read_entry};
use windlass_kernel::run::plan::{Plan, Requirement, RunOutcome};
use windlass_kernel::run::{Base, Event, PhaseResult, Run, RunEvent, RunName, Setup, Started};
use windlass_kernel::{Code, Digest, State, TraceId};
use windlass_redact::Finding;
use windlass_store::StoreError;

use crate::checkpointer::WORKTREES;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::executors::Script;
use crate::repository::PinRequest;
use crate::run_recorder::RunRecorder;
use crate::setup::NewSetup;

/// The file with the run of a loop that allows one at a time, in the folder of locks.
const SINGLE_TASK: &str = "single-task";

/// The parameters of a new run.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// The id of its trace, if somebody has to know it before the run begins. It must be new.
    pub trace_id: Option<TraceId>,
    /// The plan.
    pub plan: Plan,
    /// The digest of the loop file.
    pub loop_digest: Digest,
    /// The task.
    pub task: Value,
    /// Whether the run has its own work tree.
    pub worktree: bool,
    /// What makes that work tree ready.
    pub setup: NewSetup,
    /// Further options, which are recorded.
    pub options: Value,
    /// The results of phases that were completed elsewhere.
    pub inherited: BTreeMap<String, PhaseResult>,
    /// The reason to wait for a person before the first phase, if any.
    pub wait: Option<String>,
    /// Outcome, reason and detail with which the run ends before the first phase, if it does.
    pub end: Option<(RunOutcome, String, String)>,
}

impl NewRun {
    /// A run of a whole plan in the project's own folder.
    #[must_use]
    pub fn new(plan: Plan, loop_digest: Digest, task: Value) -> Self {
        Self {
            trace_id: None,
            plan,
            loop_digest,
            task,
            worktree: false,
            setup: NewSetup::default(),
            options: Value::Object(serde_json::Map::new()),
            inherited: BTreeMap::new(),
            wait: None,
            end: None,
        }
    }
}

/// A file lock; released on drop or when the process dies.
pub(crate) struct Lock {
    file: File,
}

/// The branch of a run's own work tree.
pub(crate) fn worktree_branch(run_id: &str) -> String {
    format!("windlass/{run_id}")
}

impl Lock {
    /// A file that this process has locked.
    pub(crate) const fn new(file: File) -> Self {
        Self { file }
    }

    /// The file.
    pub(crate) const fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child process that is just starting may still have a
        // copy of it. If unlocking fails, the lock is released together with that copy.
        drop(self.file.unlock());
    }
}

/// The refusal of a run, a part of which contains a secret.
fn secret_in(part: &str, found: Finding<'_>) -> EngineError {
    let what = match found {
        Finding::Value(name) => format!("the value of {name}"),
        Finding::Shape(name) => format!("what looks like a secret ({name})"),
    };
    EngineError::Invalid {
        code: Code::SecretInRequest,
        message: format!("the {part} of the run contains {what}, which would be stored"),
        hint: Some("take it out; calls name a secret as {\"secret\": \"NAME\"}".to_owned()),
    }
}

impl Engine {
    /// Starts a run and drives it until it ends or waits for a person.
    ///
    /// The order: stop switch, lock, stop switch again, repository, then the journal. Nothing is written
    /// unless all checks pass.
    ///
    /// # Errors
    /// [`EngineError`]; nothing was recorded unless the run had begun.
    pub fn start(&self, new: NewRun) -> Result<Run, EngineError> {
        self.start_if(new, &mut || Ok(()))
    }

    /// Starts a run as [`Self::start`] does, if `ready` says so after all other checks.
    ///
    /// # Errors
    /// [`EngineError`]; nothing was recorded unless the run had begun.
    pub fn start_if(
        &self,
        new: NewRun,
        ready: &mut dyn FnMut() -> Result<(), EngineError>,
    ) -> Result<Run, EngineError> {
        self.stop.check(None)?;
        self.require_new_trace(new.trace_id)?;
        self.require_no_secret(&new)?;
        let _locks = self.lock_for(&new.plan, new.worktree)?;
        self.stop.check(None)?;
        self.end_interrupted_runs(&new.plan)?;
        self.require_free_workspace(&new)?;
        let root = &self.settings.root;
        // A merge that is just writing its files into the project is no change of anybody.
        let merging = self.wait_for_lock("integration")?;
        let mut base = self.repository.base(root)?;
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
                    "loop `{}` needs a git repository with a commit, but `{}` is not one",
                    new.plan.id,
                    root.display()
                ),
            });
        }
        let is_clean = new.plan.require.contains(&Requirement::CleanRepo);
        if is_clean {
            // This refuses what `require_filters` refuses, too.
            self.repository.require_clean(root)?;
        }
        if base.is_some() && (new.worktree || !is_clean) {
            // Otherwise the first phase that changes something would fail.
            self.repository.require_filters(root)?;
        }
        if let Some(base) = base.as_mut().filter(|_| !new.worktree) {
            // Files that git does not compare differ in a clean repository, too.
            base.tree = self.repository.uncommitted_tree(root)?;
        }
        drop(merging);
        self.require_no_secret_in_branch(base.as_ref())?;
        self.require_pinned(&new, base.as_ref())?;
        let policy_hash = self.policy_hash(&new.plan)?;
        ready()?;
        let trace_id = new.trace_id.unwrap_or_else(|| TraceId(self.recording.clock.new_id()));
        self.note_single_task(trace_id, &new)?;
        let run_id = RunName::of(trace_id).to_string();
        let NewSetup { commands, copy, timeout_seconds, ports } = new.setup;
        // Before anything is made that would be left behind.
        let found = match ports.filter(|_| new.worktree) {
            Some(ports) => Some(self.find_ports(ports)?),
            None => None,
        };
        let folder = match (&base, new.worktree) {
            (Some(_), true) => self.folder_in_repository()?,
            (_, _) => None,
        };
        let worktree = match (&base, new.worktree) {
            (Some(base), true) => {
                // Git lets one process see the incomplete work tree of another.
                let _lock = self.wait_for_lock("worktrees")?;
                let path = format!("{WORKTREES}/{run_id}");
                let folder = self.settings.state.join(&path);
                self.repository.make_worktree(&folder, &worktree_branch(&run_id), base)?;
                Some(path)
            }
            (_, _) => None,
        };
        if let (Some(path), Some((ports, claims))) = (&worktree, &found) {
            claims.write(*ports, &self.settings.state.join(path))?;
        }
        let ports = found.as_ref().map(|(ports, _)| *ports);
        let needed = !commands.is_empty() || !copy.is_empty() || ports.is_some();
        let setup = (worktree.is_some() && needed).then_some(Setup {
            commands,
            copy,
            ports,
            timeout_seconds,
        });
        let started = Started {
            base,
            by: self.settings.by.clone(),
            folder,
            inherited: new.inherited,
            loop_digest: new.loop_digest,
            options: new.options,
            plan: new.plan,
            policy_hash,
            run_id,
            setup,
            task: new.task,
            worktree,
        };
        if let Some(own) = started.own_workspace() {
            // No commit may have a file in the project's folder yet.
            let own = self.settings.state.join(own);
            std::fs::create_dir_all(&own).map_err(|source| EngineError::Unwritable {
                path: own.display().to_string(),
                source,
            })?;
        }
        let mut recorder = RunRecorder::begin(&self.recording, trace_id, started)?;
        // The ports are recorded, so that the next run can look for others.
        drop(found);
        self.hold_or_end(&mut recorder, new.wait, new.end)?;
        self.drive(recorder)
    }

    /// The project's folder in its repository; `None` if it is the top.
    fn folder_in_repository(&self) -> Result<Option<String>, EngineError> {
        // The base may come from a repository that is not git's.
        let Ok(prefix) = self.prefix() else { return Ok(None) };
        if prefix.as_os_str().is_empty() {
            return Ok(None);
        }
        match prefix.to_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(EngineError::Requirement {
                code: Code::RequestInvalid,
                message: "the project's folder in its repository has a name that is not UTF-8"
                    .to_owned(),
            }),
        }
    }

    /// Fails if the id that was chosen for the trace is that of another one.
    fn require_new_trace(&self, trace_id: Option<TraceId>) -> Result<(), EngineError> {
        let Some(trace_id) = trace_id else { return Ok(()) };
        match self.recording.store.load_state(trace_id) {
            Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => Err(EngineError::Requirement {
                code: Code::RequestInvalid,
                message: format!("there is a trace `{trace_id}` already"),
            }),
        }
    }

    /// Fails if a run of a loop that allows one at a time waits in the project's workspace, in which this one would work.
    /// A loop that itself allows one run at a time looks for others in its first phase.
    fn require_free_workspace(&self, new: &NewRun) -> Result<(), EngineError> {
        let looks_itself = new.plan.require.contains(&Requirement::Single);
        if new.worktree || looks_itself || new.plan.is_session() {
            return Ok(());
        }
        let Some(trace_id) = self.single_task()? else { return Ok(()) };
        let first = read_entry(self.recording.store.as_ref(), trace_id, 1)?;
        let event = first.and_then(|record| RunEvent::read(&record.body?).ok());
        let Some(Event::Started(started)) = event.map(|event| event.event) else { return Ok(()) };
        let name = &started.run_id;
        Err(EngineError::Invalid {
            code: Code::RunConcurrent,
            message: format!(
                "task `{name}` of loop `{}` has not ended, and no other run may use its workspace",
                started.plan.id
            ),
            hint: Some(format!(
                "answer it (`windlass queue show {name}`), give it up with `windlass cancel {name} --reason \
                 TEXT`, or use a workspace of its own with `windlass run --worktree TASK`"
            )),
        })
    }

    /// The run of a loop that allows one at a time which has not ended in the project's workspace. To look at all runs
    /// would take longer with each.
    fn single_task(&self) -> Result<Option<TraceId>, EngineError> {
        let path = self.settings.locks.join(SINGLE_TASK);
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|source| {
                let path = path.display().to_string();
                EngineError::Unwritable { path, source }
            })?,
        };
        let Ok(trace_id) = text.trim().parse::<TraceId>() else { return Ok(None) };
        match self.recording.store.load_state(trace_id) {
            Ok(state) if state.head.state != Some(State::Terminal) => Ok(Some(trace_id)),
            Ok(_) | Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(JournalError::from(error).into()),
        }
    }

    /// Notes the run of a loop that allows one at a time, before it begins. One that has not ended stays noted: the other
    /// ends in its first phase.
    fn note_single_task(&self, trace_id: TraceId, new: &NewRun) -> Result<(), EngineError> {
        let is_single = new.plan.require.contains(&Requirement::Single) && !new.worktree;
        if !is_single || self.single_task()?.is_some() {
            return Ok(());
        }
        let path = self.settings.locks.join(SINGLE_TASK);
        std::fs::write(&path, trace_id.to_string())
            .map_err(|source| EngineError::Unwritable { path: path.display().to_string(), source })
    }

    /// Fails if the run would record a secret: its plan and its task cannot be changed.
    fn require_no_secret(&self, new: &NewRun) -> Result<(), EngineError> {
        let plan = serde_json::to_value(&new.plan).unwrap_or_default();
        let setup = json!([new.setup.commands, new.setup.copy]);
        let parts =
            [("task", &new.task), ("options", &new.options), ("loop", &plan), ("setup", &setup)];
        let redactor = &self.recording.redactor;
        let found = parts.iter().find_map(|(part, value)| Some((*part, redactor.find(value)?)));
        // The answers are text, in which characters of a value may be escaped.
        let script = Script::recorded(&new.options).and_then(Result::ok);
        let answered = || script.as_ref()?.find(|value| redactor.find(value));
        let found = found.or_else(|| Some(("options", answered()?)));
        found.map_or(Ok(()), |(part, found)| Err(secret_in(part, found)))
    }

    /// Fails if the run would record a secret as the name of its branch.
    fn require_no_secret_in_branch(&self, base: Option<&Base>) -> Result<(), EngineError> {
        let branch = base.and_then(|base| base.branch.as_deref()).unwrap_or_default();
        let found = self.recording.redactor.find_text(branch);
        found.map_or(Ok(()), |found| Err(secret_in("branch", found)))
    }

    /// Fails if a file that a rule or a check pins is not in the base.
    fn require_pinned(&self, new: &NewRun, base: Option<&Base>) -> Result<(), EngineError> {
        let Plan { governance, phases, .. } = &new.plan;
        let rules = governance.gates.iter().chain(&governance.compliance);
        let rules = rules.filter_map(|rule| rule.evidence.pinned());
        let checks = phases.iter().flat_map(|phase| &phase.checks);
        let checks = checks.filter_map(|check| check.pinned.as_deref());
        for written in rules.chain(checks) {
            self.repository.pinned(&PinRequest {
                workspace: &self.settings.root,
                base,
                argv: &[],
                written: Some(written),
            })?;
        }
        Ok(())
    }

    /// Acquires the locks of a run: the project's workspace unless the run has its own, and the loop if it
    /// allows one run at a time.
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

    /// Acquires a lock, unless somebody has it.
    pub(crate) fn lock(&self, name: &str) -> Result<Lock, EngineError> {
        let (file, path) = self.lock_file(name)?;
        match file.try_lock() {
            Ok(()) => Ok(Lock { file }),
            Err(TryLockError::WouldBlock) => Err(concurrent(name)),
            Err(TryLockError::Error(source)) => Err(EngineError::Unwritable { path, source }),
        }
    }

    /// Waits for a lock that is never held for long.
    pub(crate) fn wait_for_lock(&self, name: &str) -> Result<Lock, EngineError> {
        let (file, path) = self.lock_file(name)?;
        file.lock().map_err(|source| EngineError::Unwritable { path, source })?;
        Ok(Lock { file })
    }

    fn lock_file(&self, name: &str) -> Result<(File, String), EngineError> {
        let folder = &self.settings.locks;
        let path = folder.join(format!("{name}.lock"));
        let path_text = path.display().to_string();
        let opened = std::fs::create_dir_all(folder)
            .and_then(|()| File::options().create(true).truncate(false).write(true).open(&path));
        match opened {
            Ok(file) => Ok((file, path_text)),
            Err(source) => Err(EngineError::Unwritable { path: path_text, source }),
        }
    }
}

/// The error of a lock that another run holds. Only a workspace can be had twice.
fn concurrent(lock: &str) -> EngineError {
    let find =
        "`windlass status --open` shows that run: wait for it, or stop it with `windlass stop RUN`";
    let (message, hint) = match lock {
        "workspace" => (
            "another run is using this workspace",
            format!(
                "{find}; a new run has a workspace of its own with `windlass run --worktree TASK`"
            ),
        ),
        _ => ("another task is running, and this loop allows one at a time", find.to_owned()),
    };
    EngineError::Invalid {
        code: Code::RunConcurrent,
        message: message.to_owned(),
        hint: Some(hint),
    }
}
