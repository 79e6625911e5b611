//! `windlass import`: continues a run that another program began.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use windlass_engine::executors::AGENTS_OPTION;
use windlass_engine::{ImportedRun, NewRun};
use windlass_formats::{V1_BYTES_MAX, V1State, V1Status};
use windlass_kernel::run::CheckpointSide;
use windlass_kernel::{CheckpointId, Code, Digest};
use windlass_runtime::{Clock as _, SystemClock};
use windlass_views::checkpoints::{
    ArtifactInfo, CheckpointDocument, GovernanceResults, GovernanceStatus, OrchestratorState,
};

use crate::agents;
use crate::args::{Import, ImportV1};
use crate::atomic::sync_parent;
use crate::commands::run::{
    LoopSelection, build_plan, open, read_task, recorded_options, report, require_runners,
};
use crate::failure::{CommandResult, Failure};
use crate::input;
use crate::output::{Output, sanitize};
use crate::project::Project;
use crate::readiness::{require_programs, require_tools};

/// Runs a subcommand of `import`.
pub fn run(project: &Project, command: &Import, output: &Output) -> CommandResult {
    let Import::V1(options) = command;
    let file = &options.file;
    let limit = u64::try_from(V1_BYTES_MAX).unwrap_or(u64::MAX);
    let bytes = input::read(file, limit)?;
    let state = V1State::read(&bytes)
        .map_err(|error| Failure::new(error.code(), format!("`{}`: {error}", file.display())))?;
    let setup = open(project, options.by.as_deref(), output)?;
    let variant = options.variant.as_deref();
    let selection = LoopSelection { name: &options.name, variant, with: &[] };
    let (plan, digest) = build_plan(&setup, &selection)?;
    let task = match &options.task {
        Some(task) => read_task(task)?,
        None => task_from_state(&state)?,
    };
    require_programs(&plan)?;
    require_tools(&plan, &setup.tools)?;
    let mut more = Vec::new();
    if !options.agent.is_empty() {
        more.push((AGENTS_OPTION.to_owned(), agents::parse_options(&options.agent)?));
    }
    let recorded = recorded_options(&setup, options.answers.as_deref(), more)?;
    // A state that does not fit the loop is refused by the import itself.
    let fits = state.completed_phases.iter().all(|phase| plan.position(phase).is_some());
    if options.answers.is_none() && fits && state.status != Some(V1Status::Aborted) {
        let mut open = plan.clone();
        open.phases.retain(|phase| !state.completed_phases.contains(&phase.id));
        let agents = open.agents().map(str::to_owned).collect();
        require_runners(&setup, agents, &recorded, output)?;
    }
    // Before the run begins, so that a file that cannot be written prevents it.
    let target = target_of(options);
    let draft = target.as_deref().map(draft_of).transpose()?;
    let mut new = NewRun::new(plan, digest, task);
    new.options = recorded;
    let imported = setup.engine.import_v1(&state, new)?;
    if let (Some(draft), Some(target)) = (draft, &target) {
        let document = document(&imported, &state, &bytes, file);
        write(draft, target, &document)?;
        output.note(&format!("written: {}", sanitize(&target.display().to_string())));
    }
    if !output.json {
        for path in &imported.missing {
            output.note(&format!("`{}` is listed in the state file but missing", sanitize(path)));
        }
        if !imported.presumed.is_empty() {
            let names = sanitize(&imported.presumed.join(", "));
            output.note(&format!("assumed complete, because later phases are: {names}"));
        }
    }
    report(&imported.run, output)
}

/// The file of version 2, if one is wanted.
fn target_of(options: &ImportV1) -> Option<PathBuf> {
    if !options.beside {
        return options.output.clone();
    }
    let mut name = options.file.file_stem().map_or_else(OsString::new, ToOwned::to_owned);
    name.push(".v2.json");
    Some(options.file.with_file_name(name))
}

/// A temporary file beside the file of version 2, which does not exist yet.
fn draft_of(target: &Path) -> Result<NamedTempFile, Failure> {
    if target.symlink_metadata().is_ok() {
        let message = format!("`{}` exists already", target.display());
        return Err(Failure::new(Code::FileUnwritable, message)
            .hint("name another file with `--output FILE`"));
    }
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    NamedTempFile::with_prefix_in(".windlass-import-", folder)
        .map_err(|error| unwritable(target, &error))
}

/// Writes the file of version 2; one that somebody has made meanwhile is not replaced.
fn write(
    mut draft: NamedTempFile,
    target: &Path,
    document: &CheckpointDocument,
) -> Result<(), Failure> {
    let written = draft.write_all(&document.to_bytes()).and_then(|()| draft.as_file().sync_all());
    written.map_err(|error| unwritable(target, &error))?;
    draft.persist_noclobber(target).map_err(|error| unwritable(target, &error.error))?;
    sync_parent(target).map_err(|error| unwritable(target, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("`{}` cannot be written: {error}", path.display());
    Failure::new(Code::FileUnwritable, message)
}

/// The imported state as a checkpoint of version 2: after the last phase that was complete, or before the first.
fn document(
    imported: &ImportedRun,
    state: &V1State,
    bytes: &[u8],
    file: &Path,
) -> CheckpointDocument {
    let run = &imported.run;
    let phases = || run.plan().into_iter().flat_map(|plan| &plan.phases);
    let is_done = |id: &str| {
        let started = run.started.as_ref();
        started.is_some_and(|started| started.inherited.contains_key(id))
    };
    let completed: Vec<String> =
        phases().filter(|phase| is_done(&phase.id)).map(|phase| phase.id.clone()).collect();
    let open = phases().find(|phase| !is_done(&phase.id)).map(|phase| phase.id.clone());
    let side = if completed.is_empty() { CheckpointSide::Pre } else { CheckpointSide::Post };
    let phase = completed.last().cloned().or_else(|| open.clone()).unwrap_or_default();
    let artifact = |(path, (_, stored)): (&String, &(String, _))| {
        let stored: &windlass_kernel::run::CheckpointArtifact = stored;
        let info = ArtifactInfo {
            artifact_type: stored.artifact_type.clone(),
            hash: stored.digest,
            path: path.clone(),
            size_bytes: stored.size_bytes,
        };
        (path.clone(), info)
    };
    let started = run.started.as_ref();
    CheckpointDocument {
        agent_states: BTreeMap::new(),
        artifacts: imported.artifacts.iter().map(artifact).collect(),
        created_at: SystemClock.now(),
        duration_ms: 0,
        governance_results: GovernanceResults {
            compliance_checks: Vec::new(),
            passed: None,
            quality_gates: Vec::new(),
            status: GovernanceStatus::NotMeasured,
        },
        id: CheckpointId(SystemClock.new_id()),
        metadata: json!({
            "imported_from": { "digest": Digest::of(bytes), "file": file },
            "missing": imported.missing,
            "phase_artifacts": state.phase_artifacts,
            "presumed": imported.presumed,
        }),
        orchestrator_state: OrchestratorState {
            completed_phases: completed,
            current_phase: open.unwrap_or_else(|| phase.clone()),
            intake_summary: started
                .map(|started| json!({ "task": started.task }))
                .unwrap_or_default(),
            run_id: started.map(|started| started.run_id.clone()).unwrap_or_default(),
        },
        parent_checkpoint_id: None,
        phase,
        side,
        version: 1,
    }
}

/// The task that the state file names.
fn task_from_state(state: &V1State) -> Result<Value, Failure> {
    let words = ["task", "goal", "description", "name", "project_name"]
        .iter()
        .find_map(|key| state.more.get(*key).and_then(Value::as_str))
        .filter(|text| !text.trim().is_empty());
    match words {
        Some(words) => read_task(words),
        None => Err(Failure::new(Code::ImportInvalid, "the state file names no task")
            .hint("add `--task TASK`")),
    }
}
