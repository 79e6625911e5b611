//! `windlass close`: merges the branch of a run that has ended, and removes its work tree.

use serde_json::json;
use windlass_engine::{EngineError, IntegrationRequest};
use windlass_kernel::run::{Run, RunName};
use windlass_kernel::{Code, TraceId};
use windlass_workspace::{Git, OnChanges};

use crate::args::Close;
use crate::commands::run::open_to_read;
use crate::commands::status;
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, sanitize};
use crate::project::Project;
use crate::run_settings::{print_put_back, warn_of_nested};
use crate::setup::RunSetup;

/// Removes the work tree, after its branch was merged if that is asked for; the branch and its commits stay.
pub fn run(project: &Project, options: &Close, output: &Output) -> CommandResult {
    let setup = open_to_read(project, options.by.as_deref(), output)?;
    let trace_id = setup.engine.find(&options.run)?;
    let run = setup.engine.read(trace_id)?;
    let Some(started) = &run.started else {
        return Err(Failure::new(Code::RunNotFound, "the run has not started"));
    };
    if run.ended.is_none() {
        let message = format!(
            "run `{}` has not ended; its work tree cannot be removed before that",
            started.run_id
        );
        return Err(Failure::new(Code::RunConcurrent, message).hint(format!(
            "let the run end, or give it up with `windlass cancel {} --reason TEXT`",
            started.run_id
        )));
    }
    if options.restore {
        return restore(&setup, trace_id, options, output);
    }
    let merged = match options.merge {
        true => {
            let request = IntegrationRequest {
                into: options.into.clone(),
                strategy: options.strategy.strategy(),
                discard: options.discard,
            };
            let merged = setup.engine.integrate(trace_id, &request);
            Some(merged.map_err(|error| not_merged(error, project, &setup, trace_id))?)
        }
        false => None,
    };
    if let Some(merged) = merged.as_ref().filter(|_| !output.json) {
        let word = if merged.already { "is already merged" } else { "merged" };
        let (branch, into) = (sanitize(&merged.branch), sanitize(&merged.into));
        output.line(&format!("{branch} {word} into {into}, which is at {}", merged.commit));
    }
    let branches = drop_branches(project, &started.run_id)?;
    let Some(worktree) = &started.worktree else {
        sweep(&setup, output);
        if output.json {
            output.value(&json!({ "run_id": started.run_id, "branches": branches }))?;
        } else if branches.is_empty() {
            output.line(&format!("{} has no work tree of its own", started.run_id));
        } else {
            output.line(&format!("removed {}", sanitize(&branches.join(", "))));
        }
        return Ok(0);
    };
    let on_changes = if options.discard { OnChanges::Discard } else { OnChanges::Refuse };
    let path = project.state()?.join(worktree);
    let copied = run.setup.files.iter().map(|file| file.path.clone());
    Git::new(&project.root).omitting(copied).worktree_remove(&path, on_changes).map_err(
        |error| {
            Failure::of(error.code(), &error)
                .hint("commit the changes, or discard them with `--discard`")
        },
    )?;
    sweep(&setup, output);
    if output.json {
        output.value(&json!({
            "run_id": started.run_id,
            "removed": worktree,
            "merged": merged,
            "branches": branches,
        }))?;
    } else {
        output.line(&format!(
            "removed {}; the branch windlass/{} stays",
            sanitize(worktree),
            started.run_id
        ));
    }
    Ok(0)
}

/// Removes what was kept for the snapshots of removed work trees. What stays is swept with the next one.
fn sweep(setup: &RunSetup, output: &Output) {
    let swept = setup.engine.snapshots().and_then(|snapshots| snapshots.sweep_workspaces());
    if let Err(error) = swept {
        output.note(&format!(
            "files of removed work trees are left: {}",
            sanitize(&error.to_string())
        ));
    }
}

/// Puts the files of a run that did not pass back, or lists what would be put back.
fn restore(setup: &RunSetup, trace_id: TraceId, options: &Close, output: &Output) -> CommandResult {
    if options.dry_run {
        let plan = setup.engine.plan_put_back(trace_id)?;
        if output.json {
            let kept: Vec<_> = plan.kept.iter().map(|path| path.to_string_lossy()).collect();
            output.value(&json!({ "files": plan.changes, "left_alone": kept }))?;
        } else {
            print_put_back(&plan, output);
        }
        return Ok(0);
    }
    let done = setup.engine.put_back(trace_id, setup.engine.actor(), options.force);
    let done = done.map_err(|error| not_put_back(error, &RunName::of(trace_id).to_string()))?;
    if output.json {
        output.value(&status::describe(&done.run))?;
    } else {
        output.line("put back to how they were before the run; its work is in its checkpoints:");
        print_put_back(&done, output);
    }
    warn_of_nested(setup, &done.run, output);
    Ok(0)
}

/// An error of putting files back; one about changed files names the commands that help.
fn not_put_back(error: EngineError, id: &str) -> Failure {
    let is_changed = matches!(error, EngineError::Changed { .. });
    let failure = Failure::from(error);
    if !is_changed {
        return failure;
    }
    failure.hint(format!(
        "save what is yours; `windlass close {id} --restore --dry-run` lists what would be put back, and `windlass \
         close {id} --restore --force` does it and keeps the present files in a snapshot"
    ))
}

/// An error of merging; one of a conflict names the folder in which it is resolved.
fn not_merged(
    error: EngineError,
    project: &Project,
    setup: &RunSetup,
    trace_id: TraceId,
) -> Failure {
    let (is_conflict, is_moved) =
        (error.code() == Code::MergeConflict, error.code() == Code::RepoMoved);
    let is_unreviewed = error.code() == Code::ChangeUnreviewed;
    let failure = Failure::from(error);
    if is_moved || is_unreviewed {
        return failure.hint(
            "look at the commits of both branches with `git log`; a branch that is as it should be can be merged \
             with `git merge`, one that is not can be moved back with `git branch -f`",
        );
    }
    // The conflict has just been recorded.
    let run = setup.engine.read(trace_id).ok().filter(|_| is_conflict);
    let lines = run.and_then(|run| {
        let folder = conflict_folder(project, &run)?;
        let into = run.integration.conflict.as_ref()?.into.clone();
        let id = &run.started.as_ref()?.run_id;
        Some(format!(
            "nothing was merged: `git -C {folder} merge {into}`, resolve the files and commit, then `windlass \
             close {id} --merge` again"
        ))
    });
    lines.map_or(failure.clone(), |hint| failure.hint(hint))
}

/// The work tree in which the conflict of a run's branch is resolved.
pub fn conflict_folder(project: &Project, run: &Run) -> Option<String> {
    let worktree = run.started.as_ref()?.worktree.as_ref()?;
    Some(project.state().ok()?.join(worktree).display().to_string())
}

/// Removes the work trees that branches of the run left; their files are stored in checkpoints.
fn drop_branches(project: &Project, run_id: &str) -> Result<Vec<String>, Failure> {
    let folder = project.state()?.join("worktrees");
    let start = format!("{run_id}.");
    let mut dropped = Vec::new();
    let Ok(entries) = std::fs::read_dir(&folder) else { return Ok(dropped) };
    for entry in entries.filter_map(Result::ok) {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if !name.starts_with(&start) {
            continue;
        }
        if entry.path().is_dir() {
            Git::new(&project.root)
                .worktree_remove(&entry.path(), OnChanges::DiscardFolder)
                .map_err(|error| Failure::of(error.code(), &error))?;
            dropped.push(name);
        } else {
            // The marker file of a created work tree.
            drop(std::fs::remove_file(entry.path()));
        }
    }
    Ok(dropped)
}
