//! What becomes of runs: when their calls are broken off, and what becomes of the files of those that did not pass.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use windlass_engine::{Engine, EngineError, PutBack, recorded_tree};
use windlass_kernel::run::Run;
use windlass_runtime::CallLimits;
use windlass_workspace::Git;

use crate::commands::checkpoint::print_files;
use crate::output::{Output, sanitize};
use crate::setup::RunSetup;

/// The settings of runs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunSettings {
    /// Whether the files of a run that did not pass are put back to how they were at its start.
    pub put_back: bool,
}

/// When the calls of an attempt are broken off; 0 is never.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Calls {
    /// How often the same call may be made in a row.
    identical_max: u32,
    /// How many calls in a row may be denied.
    denied_max: u32,
}

impl Default for Calls {
    fn default() -> Self {
        let CallLimits { identical_max, denied_max } = CallLimits::default();
        Self { identical_max, denied_max }
    }
}

impl Calls {
    /// The limits of an attempt.
    pub const fn limits(self) -> CallLimits {
        CallLimits { identical_max: self.identical_max, denied_max: self.denied_max }
    }
}

/// Puts the files of a run that did not pass back, if the project's settings say so, and names the repositories
/// inside its workspace that have changes.
pub fn put_back(setup: &RunSetup, run: Run, output: &Output) -> Run {
    for path in changed_inside(setup, &run).unwrap_or_default().iter().take(NESTED_MAX) {
        let path = sanitize(path);
        output.note(&format!(
            "`{path}` is a repository of its own and has changes, which no review, checkpoint or commit of the run has"
        ));
    }
    if !setup.config.runs.put_back || Engine::start_of_failed(&run).is_none() {
        return run;
    }
    match setup.engine.put_back(run.head.trace_id, setup.engine.actor(), false) {
        Ok(done) => {
            let names: Vec<_> = done.changes.iter().map(|one| one.path.to_string_lossy()).collect();
            let more = names.len().saturating_sub(FILES_MAX);
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            let names = names.get(..FILES_MAX.min(names.len())).unwrap_or_default().join(", ");
            output.note(&format!(
                "put back to how they were before the run, whose work is in its checkpoints: {}{more}",
                sanitize(&names)
            ));
            warn_of_nested(setup, &done.run, output);
            done.run
        }
        // The run has ended all the same, and says how to put them back.
        Err(error) => {
            let why = sanitize(&error.to_string());
            output.note(&format!("the files were not put back: {why} [{}]", error.code()));
            if let Some(hint) = error.hint() {
                output.note(&format!("hint: {}", sanitize(hint)));
            }
            run
        }
    }
}

/// Prints the files that are put back, and those that stay as they are.
pub fn print_put_back(done: &PutBack, output: &Output) {
    print_files(&done.changes, output);
    for path in done.kept.iter().take(FILES_MAX) {
        output.line(&format!("not changed: {}", sanitize(&path.to_string_lossy())));
    }
}

/// How many files are named.
const FILES_MAX: usize = 20;

/// How many repositories are named.
const NESTED_MAX: usize = 5;

/// Names the repositories inside the workspace, whose files a rollback leaves as they are.
pub fn warn_of_nested(setup: &RunSetup, run: &Run, output: &Output) {
    // The files are restored in any case.
    let nested = nested(setup, run).unwrap_or_default();
    for path in nested.iter().take(NESTED_MAX) {
        let path = sanitize(&path.to_string_lossy());
        output.note(&format!(
            "`{path}` is a repository of its own: checkpoints have only its commit, so its files and changes in \
             it were left as they are"
        ));
    }
    if let Some(more) = nested.len().checked_sub(NESTED_MAX).filter(|more| *more > 0) {
        output.note(&format!("… and {more} more repositories inside the workspace"));
    }
}

/// The repositories inside the workspace of a run that have changes, or that the repository does not know.
fn changed_inside(setup: &RunSetup, run: &Run) -> Result<BTreeSet<String>, EngineError> {
    let Some(tree) = &run.tree else { return Ok(BTreeSet::new()) };
    let nested = setup.engine.snapshots()?.nested(&recorded_tree(tree)?)?;
    if nested.is_empty() {
        return Ok(BTreeSet::new());
    }
    let git = Git::new(setup.engine.workspace(run));
    let known = git.submodule_names().unwrap_or_default();
    let changed = git.changed_submodules();
    // The names of submodules begin at the top of the repository.
    let has =
        |names: &[String], path: &PathBuf| names.iter().any(|name| Path::new(name).ends_with(path));
    let is_named = |path: &PathBuf| {
        // What cannot be read may have changed.
        !has(&known, path)
            || changed.as_ref().is_ok_and(|changed| has(changed, path))
            || changed.is_err()
    };
    let nested = nested.into_iter().filter(is_named);
    Ok(nested.map(|path| path.to_string_lossy().into_owned()).collect())
}

fn nested(setup: &RunSetup, run: &Run) -> Result<BTreeSet<PathBuf>, EngineError> {
    let mut nested = BTreeSet::new();
    let Some(rollback) = run.last_rollback.as_ref() else { return Ok(nested) };
    for tree in [&rollback.snapshot, &rollback.target].into_iter().flatten() {
        nested.extend(setup.engine.snapshots()?.nested(&recorded_tree(tree)?)?);
    }
    Ok(nested)
}
