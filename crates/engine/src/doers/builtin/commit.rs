//! `commit`: makes what was changed the newest commit of the branch, once.

use serde_json::{Value, json};
use windlass_kernel::Code;
use windlass_kernel::run::{Event, Run};

use super::scope::violations;
use super::{Builtin, Deed, Job};
use crate::error::EngineError;
use crate::repository::Prepared;

/// The longest first line of a commit's message.
const TITLE_CHARS_MAX: usize = 72;

/// Commits the workspace. The commit is on record before the branch moves to it, so that after a crash
/// the very same one is published, not a second one made.
pub(super) struct Commit;

impl Builtin for Commit {
    fn perform(&self, job: &Job<'_>) -> Result<Deed, EngineError> {
        let workspace = &job.assignment.workspace;
        let run = job.desk.run();
        if let (Some(commit), true) = (&run.commit, again(job)) {
            return unless_moved(publish(job, commit));
        }
        let change = job.place.change(workspace, &run)?;
        let Some(change) = change else {
            return Ok(Deed::failed("validation_error", "there is no repository to commit to"));
        };
        match violations(job.task(), &change.files, change.lines) {
            Ok(findings) if findings.is_empty() => {}
            Ok(findings) => return Ok(Deed::failed("validation_error", findings.join("; "))),
            Err(reason) => return Ok(Deed::failed("validation_error", reason)),
        }
        unless_moved(commit(job, &run))
    }
}

fn commit(job: &Job<'_>, run: &Run) -> Result<Deed, EngineError> {
    let (workspace, now) = (&job.assignment.workspace, job.source.now());
    match job.place.prepare_commit(workspace, run, &message(job), now)? {
        Prepared::Nothing => Ok(Deed::Answer(json!({
            "summary": "nothing was changed, so nothing was committed",
            "commit": Value::Null,
        }))),
        Prepared::Commit(commit) => {
            job.desk.record(Event::CommitPrepared {
                branch: commit.branch.clone(),
                commit: commit.commit.clone(),
                parent: commit.parent.clone(),
                tree: commit.tree.clone(),
            })?;
            publish(job, &commit)
        }
    }
}

fn publish(job: &Job<'_>, commit: &windlass_kernel::run::Commit) -> Result<Deed, EngineError> {
    job.place.publish_commit(&job.assignment.workspace, commit)?;
    Ok(answer(&commit.commit, &commit.branch))
}

/// Somebody else's commit is no fault of the record: the phase has failed, and the run can end.
fn unless_moved(result: Result<Deed, EngineError>) -> Result<Deed, EngineError> {
    match result {
        Err(EngineError::Requirement { code: Code::RepoMoved, message }) => {
            Ok(Deed::failed("critical_failure", format!("[{}] {message}", Code::RepoMoved)))
        }
        other => other,
    }
}

/// Whether the run's commit was prepared in this very try.
fn again(job: &Job<'_>) -> bool {
    let started =
        job.assignment.run.phase(job.assignment.at).and_then(|(_, state)| state.started_at);
    let prepared = job.desk.run().commit_at;
    matches!((started, prepared), (Some(started), Some(prepared)) if prepared >= started)
}

fn answer(commit: &str, branch: &str) -> Deed {
    let short: String = commit.chars().take(12).collect();
    Deed::Answer(json!({
        "summary": format!("committed {short} on {branch}"),
        "commit": commit,
        "branch": branch,
    }))
}

/// The message: what an earlier phase proposed, or the task.
fn message(job: &Job<'_>) -> String {
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
