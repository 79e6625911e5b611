//! Taking over what was done elsewhere.

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

/// The largest file that is digested.
const BYTES_MAX: u64 = 256 << 20;

/// What was taken over.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The run that goes on from it.
    pub run: Run,
    /// Phases that are taken as done because later ones were.
    pub presumed: Vec<String>,
    /// Files that the state names and that are not there.
    pub missing: Vec<String>,
}

impl Engine {
    /// Begins a run where a state of version 1 ends; it waits for a person before it goes on.
    ///
    /// # Errors
    /// [`EngineError`] when the state does not fit the loop, or no run can be started.
    pub fn import_v1(&self, state: &V1State, mut new: NewRun) -> Result<Imported, EngineError> {
        let (done, presumed) = completed(state, &new.plan)?;
        let mut missing = Vec::new();
        for phase in &done {
            let files = state.phase_artifacts.get(phase).cloned().unwrap_or_default();
            let outputs = self.outputs(&files, &mut missing)?;
            let stated = state.completed_phases.contains(phase);
            new.inherited.insert(phase.clone(), inherited(stated, outputs));
        }
        new.wait = Some("the run was taken over from a state of version 1".to_owned());
        if state.status == Some(V1Status::Aborted) {
            let detail = "the state that was taken over had been given up".to_owned();
            new.end = Some((RunOutcome::Blocked, "aborted".to_owned(), detail));
        }
        let run = self.start(new)?;
        Ok(Imported { run, presumed, missing })
    }

    /// The digests of files; those that are not there are told.
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
                return Err(unfit(format!("`{path}` leads out of the project")));
            }
            let file = self.settings.root.join(path);
            match std::fs::symlink_metadata(&file) {
                Ok(found) if found.is_file() && found.len() <= BYTES_MAX => {
                    let bytes = std::fs::read(&file);
                    let bytes = bytes.map_err(|error| unfit(format!("`{path}`: {error}")))?;
                    outputs.insert(path.clone(), Digest::of(&bytes));
                }
                _ => missing.push(path.clone()),
            }
        }
        Ok(outputs)
    }

    /// Puts a run that was just begun on hold, or ends it, before anything of it is done.
    pub(crate) fn stay(
        &self,
        recorder: &mut RunRecorder,
        wait: Option<String>,
        end: Option<(RunOutcome, String, String)>,
    ) -> Result<(), EngineError> {
        if let Some((outcome, reason, detail)) = end {
            recorder.append(vec![Event::Begun {}, Event::Ended { outcome, reason, detail }])?;
            return Ok(());
        }
        let Some(why) = wait else { return Ok(()) };
        recorder.append(vec![Event::Begun {}])?;
        // With nothing left to do it just ends.
        let left = recorder.run().all_phases().find(|(_, state)| state.done.is_none());
        let Some(at) = left.map(|(phase, _)| phase.id.clone()) else { return Ok(()) };
        let mut hold = self.measured(recorder.run().restart_hold(), recorder.run())?;
        if let Event::Held(held) = &mut hold {
            held.question = format!("{why}; approve to go on at phase `{at}`");
        }
        recorder.append(vec![hold])
    }
}

/// The phases that are complete, and those that must have been because later ones were.
fn completed(state: &V1State, plan: &Plan) -> Result<(BTreeSet<String>, Vec<String>), EngineError> {
    let known = |name: &String| plan.position(name).is_some();
    let unknown: Vec<&String> = state.completed_phases.iter().filter(|name| !known(name)).collect();
    // A variant may leave a phase out that version 1 had.
    if let Some(name) = unknown.first() {
        return Err(unfit(format!("loop `{}` has no phase `{name}`", plan.id)));
    }
    let mut done: BTreeSet<String> = state.completed_phases.iter().cloned().collect();
    let mut presumed = Vec::new();
    // A plan's phases come after those they need.
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
    let summary = if stated { "done under version 1" } else { "taken as done: later phases were" };
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

fn unfit(message: String) -> EngineError {
    EngineError::Invalid { code: Code::ImportInvalid, message, hint: None }
}
