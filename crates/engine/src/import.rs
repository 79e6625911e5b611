//! Imports runs of version 1.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use serde_json::{Value, json};
use windlass_formats::{V1State, V1Status};
use windlass_kernel::run::plan::{Plan, RunOutcome};
use windlass_kernel::run::{CheckpointArtifact, Event, PhaseResult, Run, Usage};
use windlass_kernel::{Code, Digest};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::run_recorder::RunRecorder;
use crate::snapshot_store::SnapshotStore;
use crate::start::NewRun;

/// The maximum size of a file that is digested.
const BYTES_MAX: u64 = 256 << 20;

/// An imported run.
#[derive(Clone, Debug)]
pub struct ImportedRun {
    /// The run that continues the imported state.
    pub run: Run,
    /// The files that the state names, by path, with the phase of each.
    pub artifacts: BTreeMap<String, (String, CheckpointArtifact)>,
    /// Phases that are presumed complete because later ones are.
    pub presumed: Vec<String>,
    /// Files of the state that do not exist.
    pub missing: Vec<String>,
}

impl Engine {
    /// Starts a run from a state of version 1; the run waits for a person before it continues. The files that the state
    /// names are stored, those of phases that are not complete too.
    ///
    /// # Errors
    /// [`EngineError`] if the state does not match the loop, or the run cannot be started.
    pub fn import_v1(&self, state: &V1State, mut new: NewRun) -> Result<ImportedRun, EngineError> {
        let (done, presumed) = completed(state, &new.plan)?;
        let store = self.checkpointer()?.store();
        // What is stored must not be purged before the run is recorded.
        let _storing = store.lock_for_storing()?;
        let (mut artifacts, mut missing) = (BTreeMap::new(), Vec::new());
        for (phase, files) in &state.phase_artifacts {
            for path in files {
                match self.import_file(store, path)? {
                    Some(stored) => drop(artifacts.insert(path.clone(), (phase.clone(), stored))),
                    None => missing.push(path.clone()),
                }
            }
        }
        for phase in &done {
            let files = state.phase_artifacts.get(phase).into_iter().flatten();
            let stored =
                files.filter_map(|path| Some((path.clone(), artifacts.get(path)?.1.digest)));
            let stated = !presumed.contains(phase);
            new.inherited.insert(phase.clone(), inherited(stated, stored.collect()));
        }
        if let Some(options) = new.options.as_object_mut() {
            options.insert("imported".to_owned(), imported(state, &artifacts));
        }
        new.wait = Some("the run was imported from a state of version 1".to_owned());
        if state.status == Some(V1Status::Aborted) {
            let detail = "the imported state had been aborted".to_owned();
            new.end = Some((RunOutcome::Blocked, "aborted".to_owned(), detail));
        }
        let run = self.start(new)?;
        Ok(ImportedRun { run, artifacts, presumed, missing })
    }

    /// Stores a file of the state; `None` if it does not exist.
    fn import_file(
        &self,
        store: &dyn SnapshotStore,
        path: &str,
    ) -> Result<Option<CheckpointArtifact>, EngineError> {
        let inside = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        let root = &self.settings.root;
        let root = root.canonicalize().unwrap_or_else(|_| root.clone());
        let file = root.join(path);
        // Also not by way of a link.
        let is_inside = |file: &Path| file.canonicalize().is_ok_and(|file| file.starts_with(&root));
        match std::fs::symlink_metadata(&file) {
            _ if !inside => {}
            Ok(found) if found.is_file() && found.len() <= BYTES_MAX => {
                if is_inside(&file) {
                    return store.store_file(&root, path).map(Some);
                }
            }
            Ok(_) | Err(_) => return Ok(None),
        }
        Err(invalid_import(format!("`{path}` is outside the project")))
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

/// Returns the complete phases, and those among them that are presumed because later ones are complete or under way.
fn completed(state: &V1State, plan: &Plan) -> Result<(BTreeSet<String>, Vec<String>), EngineError> {
    let named = state.completed_phases.iter().chain(&state.current_phase);
    // A variant may lack a phase of version 1.
    if let Some(name) = named.into_iter().find(|name| plan.position(name).is_none()) {
        return Err(invalid_import(format!("loop `{}` has no phase `{name}`", plan.id)));
    }
    let mut done: BTreeSet<String> = state.completed_phases.iter().cloned().collect();
    let mut all_presumed = BTreeSet::new();
    match (state.status, &state.current_phase) {
        (Some(V1Status::Completed), _) => {
            all_presumed.extend(plan.phases.iter().map(|phase| phase.id.clone()));
        }
        // Its work is done; what is missing is the judgement.
        (Some(V1Status::AwaitingConsensus), Some(current)) => drop(done.insert(current.clone())),
        // It is done again, and what was built on it, too.
        (Some(V1Status::NeedsRevision), Some(current)) => {
            let mut again = BTreeSet::from([current.clone()]);
            for phase in &plan.phases {
                if phase.needs.iter().any(|need| again.contains(need)) {
                    again.insert(phase.id.clone());
                }
            }
            done.retain(|name| !again.contains(name));
        }
        (
            Some(
                V1Status::Idle
                | V1Status::Running
                | V1Status::Aborted
                | V1Status::AwaitingConsensus
                | V1Status::NeedsRevision,
            )
            | None,
            _,
        ) => {}
    }
    // In a plan, every phase comes after the phases that it needs.
    for phase in plan.phases.iter().rev() {
        let is_current = state.current_phase.as_ref() == Some(&phase.id);
        if is_current || done.contains(&phase.id) || all_presumed.contains(&phase.id) {
            all_presumed.extend(phase.needs.iter().cloned());
        }
    }
    let presumed = plan.phases.iter().map(|phase| &phase.id);
    let presumed = presumed.filter(|id| all_presumed.contains(*id) && !done.contains(*id));
    let presumed: Vec<String> = presumed.cloned().collect();
    done.extend(presumed.iter().cloned());
    Ok((done, presumed))
}

/// What a run records of the state that it was imported from.
fn imported(state: &V1State, artifacts: &BTreeMap<String, (String, CheckpointArtifact)>) -> Value {
    let artifact = |(path, (phase, stored)): (&String, &(String, CheckpointArtifact))| {
        let value = json!({
            "hash": stored.digest, "phase": phase, "size_bytes": stored.size_bytes,
        });
        (path.clone(), value)
    };
    let artifacts: serde_json::Map<String, Value> = artifacts.iter().map(artifact).collect();
    json!({
        "artifacts": artifacts,
        "completed_phases": state.completed_phases,
        "current_phase": state.current_phase,
        "phase_artifacts": state.phase_artifacts,
        "status": state.status.map(V1Status::as_str),
        "v1": state.more,
    })
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
