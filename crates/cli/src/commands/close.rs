//! `windlass close`: merges the branch of a run that has ended, and removes its work tree.

use std::path::PathBuf;

use serde_json::json;
use windlass_engine::{EngineError, IntegrationRequest};
use windlass_kernel::run::{Run, RunName};
use windlass_kernel::{Code, TraceId};
use windlass_workspace::{Git, GitError, OnChanges};

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
    let on_changes = if options.discard { OnChanges::Discard } else { OnChanges::Refuse };
    let copied = run.setup.files.iter().map(|file| file.path.clone());
    let git = Git::new(&project.root).omitting(copied);
    let own = match &started.worktree {
        Some(worktree) => Some((worktree, project.state()?.join(worktree))),
        None => None,
    };
    let not_removed = |error: GitError| {
        Failure::of(error.code(), &error)
            .hint("commit the changes, or discard them with `--discard`")
    };
    // Everything is looked at and stored before the first change; a merge looks for itself.
    if let Some((_, path)) = own.as_ref().filter(|_| !options.merge) {
        git.worktree_check_removal(path, on_changes).map_err(not_removed)?;
    }
    let branches = branches_of(project, &started.run_id)?;
    store_branches(&setup, &started.run_id, &branches, output)?;
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
    drop_branches(project, &started.run_id, &branches)?;
    let branches: Vec<String> = branches.into_iter().map(|branch| branch.name).collect();
    let Some((worktree, path)) = own else {
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
    git.worktree_remove(&path, on_changes).map_err(not_removed)?;
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

/// The work tree of a branch that a run left.
struct LeftBranch {
    /// The name of its folder.
    name: String,
    folder: PathBuf,
    /// The reference of the snapshot that keeps its files.
    reference: String,
}

/// The work trees that branches of a run left.
fn branches_of(project: &Project, run_id: &str) -> Result<Vec<LeftBranch>, Failure> {
    let folder = project.state()?.join("worktrees");
    let start = format!("{run_id}.");
    let Ok(entries) = std::fs::read_dir(&folder) else { return Ok(Vec::new()) };
    let left = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let attempt = name.strip_prefix(&start)?;
        let reference = format!("{run_id}/{attempt}/closed");
        entry.path().is_dir().then(|| LeftBranch { folder: entry.path(), reference, name })
    };
    let mut all: Vec<LeftBranch> = entries.filter_map(Result::ok).filter_map(left).collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

/// Captures the files of work trees that are about to be removed. A checkpoint has only those that a phase was done with.
fn store_branches(
    setup: &RunSetup,
    run_id: &str,
    branches: &[LeftBranch],
    output: &Output,
) -> Result<(), Failure> {
    if branches.is_empty() {
        return Ok(());
    }
    let snapshots = setup.engine.snapshots()?;
    let _storing = snapshots.lock_for_storing()?;
    for branch in branches {
        let tree = snapshots.capture(&branch.folder, &branch.reference).map_err(|error| {
            Failure::from(error).hint(format!(
                "nothing was removed: the files of `{}` cannot be stored; look at them, and remove the folder with \
                 `git worktree remove --force` if nothing in it is needed",
                branch.folder.display()
            ))
        })?;
        output.note(&format!(
            "the files of {} are kept in the snapshot {tree} until the checkpoints of {run_id} are purged",
            sanitize(&branch.name)
        ));
    }
    Ok(())
}

/// Removes the work trees that branches of a run left, which are stored.
fn drop_branches(project: &Project, run_id: &str, branches: &[LeftBranch]) -> Result<(), Failure> {
    for branch in branches {
        Git::new(&project.root)
            .worktree_remove(&branch.folder, OnChanges::DiscardFolder)
            .map_err(|error| Failure::of(error.code(), &error))?;
    }
    let start = format!("{run_id}.");
    let Ok(entries) = std::fs::read_dir(project.state()?.join("worktrees")) else { return Ok(()) };
    for entry in entries.filter_map(Result::ok) {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(&start));
        if is_ours && !entry.path().is_dir() {
            // The marker file of a created work tree.
            drop(std::fs::remove_file(entry.path()));
        }
    }
    Ok(())
}
