//! `commit`: commits the changes of the run to the branch, exactly once.

use serde_json::{Value, json};
use windlass_kernel::Code;
use windlass_kernel::run::{Event, Run};

use super::scope::violations;
use super::{Builtin, BuiltinJob};
use crate::error::EngineError;
use crate::phase_executor::WorkResult;
use crate::repository::PreparedCommit;

/// The maximum length of the first line of a commit message.
const TITLE_CHARS_MAX: usize = 72;

/// Commits the workspace. The commit is recorded before the branch moves to it, so that after a crash
/// the same commit is published and no second one is created.
pub(super) struct Commit;

impl Builtin for Commit {
    fn perform(&self, job: &BuiltinJob<'_>) -> Result<WorkResult, EngineError> {
        let workspace = &job.assignment.workspace;
        let run = job.recorder.run();
        if let (Some(commit), true) = (&run.commit, is_prepared(job)) {
            return fail_if_moved(publish(job, commit));
        }
        let change = job.repository.change(workspace, &run)?;
        let Some(change) = change else {
            return Ok(WorkResult::failed(
                "validation_error",
                "there is no repository to commit to",
            ));
        };
        match violations(job.task(), &change.files, change.lines) {
            Ok(findings) if findings.is_empty() => {}
            Ok(findings) => return Ok(WorkResult::failed("validation_error", findings.join("; "))),
            Err(reason) => return Ok(WorkResult::failed("validation_error", reason)),
        }
        fail_if_moved(commit(job, &run))
    }
}

fn commit(job: &BuiltinJob<'_>, run: &Run) -> Result<WorkResult, EngineError> {
    let (workspace, now) = (&job.assignment.workspace, job.clock.now());
    match job.repository.prepare_commit(workspace, run, &message(job), now)? {
        PreparedCommit::Nothing => Ok(WorkResult::answer(json!({
            "summary": "nothing was changed, so nothing was committed",
            "commit": Value::Null,
        }))),
        PreparedCommit::Commit(commit) => {
            job.recorder.record(Event::CommitPrepared {
                branch: commit.branch.clone(),
                commit: commit.commit.clone(),
                parent: commit.parent.clone(),
                tree: commit.tree.clone(),
            })?;
            publish(job, &commit)
        }
    }
}

fn publish(
    job: &BuiltinJob<'_>,
    commit: &windlass_kernel::run::Commit,
) -> Result<WorkResult, EngineError> {
    job.repository.publish_commit(&job.assignment.workspace, commit)?;
    Ok(answer(&commit.commit, &commit.branch))
}

/// A branch that someone else moved is a failure of the phase, not an error of the engine.
fn fail_if_moved(result: Result<WorkResult, EngineError>) -> Result<WorkResult, EngineError> {
    match result {
        Err(EngineError::Requirement { code: Code::RepoMoved, message }) => {
            Ok(WorkResult::failed("critical_failure", format!("[{}] {message}", Code::RepoMoved)))
        }
        other => other,
    }
}

/// Whether the run's commit was prepared in this attempt.
fn is_prepared(job: &BuiltinJob<'_>) -> bool {
    let started =
        job.assignment.run.phase(job.assignment.at).and_then(|(_, state)| state.started_at);
    let prepared = job.recorder.run().commit_at;
    matches!((started, prepared), (Some(started), Some(prepared)) if prepared >= started)
}

fn answer(commit: &str, branch: &str) -> WorkResult {
    let short: String = commit.chars().take(12).collect();
    WorkResult::answer(json!({
        "summary": format!("committed {short} on {branch}"),
        "commit": commit,
        "branch": branch,
    }))
}

/// The commit message: proposed by an earlier phase, or the task.
fn message(job: &BuiltinJob<'_>) -> String {
    let run = &job.assignment.run;
    let proposed = run.all_phases().filter_map(|(_, state)| {
        state.done.as_ref()?.answer.get("commit_message")?.as_str().map(str::to_owned)
    });
    let task = job.task().get("task").and_then(Value::as_str).unwrap_or("a change");
    let proposed = proposed.filter(|text| !text.trim().is_empty()).last();
    let text = proposed.unwrap_or_else(|| task.to_owned());
    let text = if text.trim().is_empty() { "a change" } else { text.trim() };
    let (title, rest) = text.split_once('\n').unwrap_or((text, ""));
    let short: String = title.chars().take(TITLE_CHARS_MAX).collect();
    let body = if short.len() < title.len() { text } else { rest.trim() };
    let run_id = run.started.as_ref().map(|started| started.run_id.as_str()).unwrap_or_default();
    let body = if body.is_empty() { String::new() } else { format!("\n{body}\n") };
    format!("{short}\n{body}\nWindlass-Run: {run_id}\n")
}
