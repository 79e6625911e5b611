//! Imports runs of version 1.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use serde_json::{Value, json};
use windlass_formats::{V1State, V1Status};
use windlass_kernel::run::plan::{Plan, RunOutcome};
use windlass_kernel::run::{Event, PhaseResult, Run, Usage};
use windlass_kernel::{Code, Digest};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::run_recorder::RunRecorder;
use crate::start::NewRun;

/// The maximum size of a file that is digested.
const BYTES_MAX: u64 = 256 << 20;

/// An imported run.
#[derive(Clone, Debug)]
pub struct ImportedRun {
    /// The run that continues the imported state.
    pub run: Run,
    /// Phases that are presumed complete because later ones are.
    pub presumed: Vec<String>,
    /// Files of the state that do not exist.
    pub missing: Vec<String>,
}

impl Engine {
    /// Starts a run from a state of version 1; the run waits for a person before it continues.
    ///
    /// # Errors
    /// [`EngineError`] if the state does not match the loop, or the run cannot be started.
    pub fn import_v1(&self, state: &V1State, mut new: NewRun) -> Result<ImportedRun, EngineError> {
        let (done, presumed) = completed(state, &new.plan)?;
        let mut missing = Vec::new();
        for phase in &done {
            let files = state.phase_artifacts.get(phase).cloned().unwrap_or_default();
            let outputs = self.outputs(&files, &mut missing)?;
            let stated = state.completed_phases.contains(phase);
            new.inherited.insert(phase.clone(), inherited(stated, outputs));
        }
        new.wait = Some("the run was imported from a state of version 1".to_owned());
        if state.status == Some(V1Status::Aborted) {
            let detail = "the imported state had been aborted".to_owned();
            new.end = Some((RunOutcome::Blocked, "aborted".to_owned(), detail));
        }
        let run = self.start(new)?;
        Ok(ImportedRun { run, presumed, missing })
    }

    /// Digests files; adds those that do not exist to `missing`.
    fn outputs(
        &self,
        files: &[String],
        missing: &mut Vec<String>,
    ) -> Result<BTreeMap<String, Digest>, EngineError> {
        let mut outputs = BTreeMap::new();
        for path in files {
            let inside =
                Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
            if !inside {
                return Err(invalid_import(format!("`{path}` is outside the project")));
            }
            let file = self.settings.root.join(path);
            match std::fs::symlink_metadata(&file) {
                Ok(found) if found.is_file() && found.len() <= BYTES_MAX => {
                    let bytes = std::fs::read(&file);
                    let bytes =
                        bytes.map_err(|error| invalid_import(format!("`{path}`: {error}")))?;
                    outputs.insert(path.clone(), Digest::of(&bytes));
                }
                _ => missing.push(path.clone()),
            }
        }
        Ok(outputs)
    }

    /// Puts a new run on hold, or ends it, before any phase starts.
    pub(crate) fn hold_or_end(
        &self,
        recorder: &mut RunRecorder,
        wait: Option<String>,
        end: Option<(RunOutcome, String, String)>,
    ) -> Result<(), EngineError> {
        if let Some((outcome, reason, detail)) = end {
            recorder.append(vec![Event::Begun {}, Event::Ended { outcome, reason, detail }])?;
            return Ok(());
        }
        let Some(reason) = wait else { return Ok(()) };
        recorder.append(vec![Event::Begun {}])?;
        // A run without open phases simply ends.
        let left = recorder.run().all_phases().find(|(_, state)| state.done.is_none());
        let Some(at) = left.map(|(phase, _)| phase.id.clone()) else { return Ok(()) };
        let mut hold = self.with_current_change(recorder.run().restart_hold(), recorder.run())?;
        if let Event::Held(held) = &mut hold {
            held.question = format!("{reason}; approve to continue at phase `{at}`");
        }
        recorder.append(vec![hold])
    }
}

/// Returns the complete phases, and those among them that are presumed because later ones are complete.
fn completed(state: &V1State, plan: &Plan) -> Result<(BTreeSet<String>, Vec<String>), EngineError> {
    let known = |name: &String| plan.position(name).is_some();
    let unknown: Vec<&String> = state.completed_phases.iter().filter(|name| !known(name)).collect();
    // A variant may lack a phase of version 1.
    if let Some(name) = unknown.first() {
        return Err(invalid_import(format!("loop `{}` has no phase `{name}`", plan.id)));
    }
    let mut done: BTreeSet<String> = state.completed_phases.iter().cloned().collect();
    let mut presumed = Vec::new();
    // In a plan, every phase comes after the phases that it needs.
    for phase in plan.phases.iter().rev() {
        if !done.contains(&phase.id) {
            continue;
        }
        for need in &phase.needs {
            if done.insert(need.clone()) {
                presumed.push(need.clone());
            }
        }
    }
    presumed.reverse();
    Ok((done, presumed))
}

fn inherited(stated: bool, outputs: BTreeMap<String, Digest>) -> PhaseResult {
    let summary =
        if stated { "completed under version 1" } else { "presumed complete: later phases are" };
    let answer: Value = json!({"imported": "v1", "stated": stated, "summary": summary});
    PhaseResult {
        answer,
        calls: Vec::new(),
        change: None,
        duration_ms: 0,
        facts: BTreeMap::new(),
        failure: None,
        governance: None,
        outputs,
        summary: summary.to_owned(),
        usage: Usage::default(),
    }
}

fn invalid_import(message: String) -> EngineError {
    EngineError::Invalid { code: Code::ImportInvalid, message, hint: None }
}
