//! Makes the work tree of a run ready before its first phase: copies files, then runs commands.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use windlass_kernel::run::{CopiedFile, Event, Failure, Run, Setup, SetupStep};
use windlass_text::Glob;
use windlass_workspace::{FoundFile, Git, WalkError, copy_file, find_file, is_private, walk_files};

use crate::drive::lock;
use crate::engine::{Engine, run_name};
use crate::error::{EngineError, listed};
use crate::run_recorder::RunRecorder;

/// The maximum number of files that are copied.
const FILES_MAX: usize = 1000;
/// Their maximum size together.
const BYTES_MAX: u64 = 256 << 20;

/// Runs the commands of a setup.
pub trait SetupRunner: Send + Sync {
    /// Runs one command in the work tree of a run, confined like the programs of phases.
    ///
    /// # Errors
    /// [`EngineError`] if a signal asked Windlass to end.
    fn run_setup(
        &self,
        run: &Run,
        workspace: &Path,
        argv: &[String],
        timeout: Duration,
    ) -> Result<SetupOutput, EngineError>;
}

/// The result of a command of a setup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetupOutput {
    /// The end of its output.
    pub output: String,
    /// The failure, if it failed.
    pub failure: Option<Failure>,
}

/// How the project's settings make the work tree of a new run ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewSetup {
    /// The commands, each a program with its arguments.
    pub commands: Vec<Vec<String>>,
    /// Globs of the untracked files to copy, relative to the project's folder.
    pub copy: Vec<String>,
    /// The time limit of all commands together.
    pub timeout_seconds: u64,
    /// The lowest port, and how many a run gets, if runs get ports.
    pub ports: Option<(u16, u16)>,
}

fn failure(class: &str, reason: String) -> Failure {
    Failure { class: class.to_owned(), reason }
}

fn event(step: SetupStep) -> Event {
    Event::Setup(Box::new(step))
}

impl Engine {
    /// Performs one attempt of a run's setup; each step is recorded before it is taken.
    pub(crate) fn set_up(&self, recorder: &Mutex<RunRecorder>) -> Result<(), EngineError> {
        let run = lock(recorder).snapshot();
        let setup = run.started.as_ref().and_then(|started| started.setup.clone());
        let Some(setup) = setup else { return Ok(()) };
        let workspace = self.workspace(&run);
        let top = self.worktree_top(&run);
        let (files, problem) = match self.files_to_copy(&setup.copy, &top) {
            Ok(files) => (files, None),
            Err(reason) => (Vec::new(), Some(failure("copy", reason))),
        };
        let attempt = run.setup.attempt.saturating_add(1);
        let started = SetupStep::Started { attempt, files: files.clone() };
        self.record(recorder, event(started))?;
        let failure = match problem {
            Some(problem) => Some(problem),
            None => match self.copy_files(&files, &top) {
                Err(reason) => Some(failure("copy", reason)),
                Ok(()) => match self.run_commands(recorder, &setup, &workspace)? {
                    Finished::Stopped => return Ok(()),
                    Finished::Ended(failure) => failure,
                },
            },
        };
        self.record(recorder, event(SetupStep::Ended { failure }))
    }

    /// Runs the commands in their order, until one fails.
    fn run_commands(
        &self,
        recorder: &Mutex<RunRecorder>,
        setup: &Setup,
        workspace: &Path,
    ) -> Result<Finished, EngineError> {
        if let Some(failure) = self.tracked_changes(workspace, "before the setup")? {
            return Ok(Finished::Ended(Some(failure)));
        }
        let until = Instant::now() + Duration::from_secs(setup.timeout_seconds);
        for (argv, command) in setup.commands.iter().zip(1_u32..) {
            let run = lock(recorder).snapshot();
            if self.stop.requested(Some(&run_name(&run))).is_some() {
                return Ok(Finished::Stopped);
            }
            let Some(runner) = &self.setup_runner else {
                let reason = "this engine runs no commands".to_owned();
                return Ok(Finished::Ended(Some(failure("internal", reason))));
            };
            self.record(
                recorder,
                event(SetupStep::CommandStarted { command, argv: argv.clone() }),
            )?;
            let began = Instant::now();
            let left = until.saturating_duration_since(began);
            let SetupOutput { output, failure: mut failed } =
                runner.run_setup(&run, workspace, argv, left)?;
            let line = argv.join(" ");
            if let Some(failed) = &mut failed {
                failed.reason = format!("`{line}`: {}", failed.reason);
            } else {
                failed = self.tracked_changes(workspace, &format!("by `{line}`"))?;
            }
            let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let failure = failed.clone();
            let ended = SetupStep::CommandEnded { command, duration_ms, output, failure };
            self.record(recorder, event(ended))?;
            if failed.is_some() {
                return Ok(Finished::Ended(failed));
            }
        }
        Ok(Finished::Ended(None))
    }

    /// The failure of a setup that changed tracked files: they would count as the work of the run.
    fn tracked_changes(&self, workspace: &Path, how: &str) -> Result<Option<Failure>, EngineError> {
        let changed = self.repository.tracked_changes(workspace)?;
        if changed.is_empty() {
            return Ok(None);
        }
        let reason = format!("tracked files were changed {how}: {}", listed(&changed));
        Ok(Some(failure("tracked_files_changed", reason)))
    }

    /// The untracked files of the project that the globs match.
    fn files_to_copy(&self, globs: &[String], top: &Path) -> Result<Vec<CopiedFile>, String> {
        if globs.is_empty() {
            return Ok(Vec::new());
        }
        let root = &self.settings.root;
        let mut paths = self.matching_files(globs)?;
        let prefix = self.prefix()?;
        let in_worktree = |path: &String| prefix.join(path).to_string_lossy().into_owned();
        let all: Vec<String> = paths.iter().cloned().collect();
        let tracked = Git::new(root).tracked(&all).map_err(|error| error.to_string())?;
        paths.retain(|path| !tracked.contains(path));
        let all: Vec<String> = paths.iter().map(in_worktree).collect();
        let tracked = if all.is_empty() {
            Vec::new()
        } else {
            Git::new(top).tracked(&all).map_err(|error| error.to_string())?
        };
        let tracked: BTreeSet<String> = tracked.into_iter().collect();
        paths.retain(|path| !tracked.contains(&in_worktree(path)));
        if paths.len() > FILES_MAX {
            return Err(format!("`copy` matches {} files, more than {FILES_MAX}", paths.len()));
        }
        let (mut files, mut left) = (Vec::new(), BYTES_MAX);
        for path in &paths {
            let found = find_file(root, Path::new(path), left);
            let found = found.map_err(|error| format!("`{path}` cannot be copied: {error}"))?;
            let Some(FoundFile { bytes, digest, mode }) = found else { continue };
            left = left.saturating_sub(bytes);
            files.push(CopiedFile { bytes, digest, mode, path: in_worktree(path) });
        }
        Ok(files)
    }

    /// The files of the project that the globs match, tracked or not. A path that is written out is taken as
    /// it is; one that does not exist matches nothing.
    fn matching_files(&self, globs: &[String]) -> Result<BTreeSet<String>, String> {
        let root = &self.settings.root;
        let mut paths = BTreeSet::new();
        let mut patterns = Vec::new();
        for text in globs {
            let glob = Glob::in_workspace(text).map_err(|error| error.to_string())?;
            if text.contains(['*', '?', '[', '{']) {
                patterns.push(glob);
            } else if std::fs::symlink_metadata(root.join(text)).is_ok() && may_be_copied(text) {
                paths.insert(text.clone());
            }
        }
        if !patterns.is_empty() {
            let mut visit = |file: windlass_workspace::WalkedFile<'_>| -> Result<(), WalkError> {
                let matches = file.is_utf8 && file.kind.is_file() && may_be_copied(file.path);
                if matches && patterns.iter().any(|glob| glob.matches_str(file.path)) {
                    paths.insert(file.path.to_owned());
                }
                Ok(())
            };
            walk_files(root, &mut visit).map_err(|error| error.to_string())?;
        }
        Ok(paths)
    }

    /// The project's folder, relative to the top of its repository.
    pub(crate) fn prefix(&self) -> Result<PathBuf, String> {
        let root = &self.settings.root;
        let top = Git::new(root).top_level().map_err(|error| error.to_string())?;
        let real = |path: &Path| path.canonicalize().map_err(|error| error.to_string());
        let (root, top) = (real(root)?, real(&top)?);
        let inside = root.strip_prefix(&top).map_err(|error| error.to_string())?;
        Ok(inside.to_owned())
    }

    fn copy_files(&self, files: &[CopiedFile], top: &Path) -> Result<(), String> {
        if files.is_empty() {
            return Ok(());
        }
        let prefix = self.prefix()?;
        for CopiedFile { bytes, digest, mode, path } in files {
            let to = Path::new(path);
            let from = to.strip_prefix(&prefix).map_err(|error| error.to_string())?;
            let expected = FoundFile { bytes: *bytes, digest: *digest, mode: *mode };
            copy_file((&self.settings.root, from), (top, to), &expected)
                .map_err(|error| format!("`{path}` cannot be copied: {error}"))?;
        }
        Ok(())
    }
}

/// How the commands of a setup ended.
enum Finished {
    /// The stop switch was on.
    Stopped,
    /// With this failure, or without one.
    Ended(Option<Failure>),
}

/// Whether a path is not git's or Windlass's own.
fn may_be_copied(path: &str) -> bool {
    let mut parts = path.split('/');
    !parts.clone().next().is_some_and(is_private) && parts.all(|part| part != ".git")
}

/// The paths that were copied into the work tree of a run.
pub(crate) fn copied_paths(run: &Run) -> Vec<String> {
    run.setup.files.iter().map(|file| file.path.clone()).collect()
}
