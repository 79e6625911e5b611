//! `commit`: commits the changes of the run to the branch, exactly once.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_connect::{Limits, Reply};
use windlass_kernel::Code;
use windlass_kernel::run::{Event, InvocationResult, Run, Usage};

use super::super::command::{Program, tail};
use super::scope::violations;
use super::{Builtin, BuiltinJob};
use crate::error::EngineError;
use crate::phase_executor::WorkResult;
use crate::repository::{CommitHook, PreparedCommit};

/// The maximum length of the first line of a commit message.
const TITLE_CHARS_MAX: usize = 72;

/// The limits of the pre-commit hook.
const HOOK_TIMEOUT: Duration = Duration::from_secs(600);
const HOOK_OUTPUT_BYTES_MAX: usize = 8 << 20;

/// Commits the run's own change, up to the tree that was last reviewed: never what differed when it began. A file that has changed since stops the run with an error: it goes
/// on when that is undone or reviewed. The commit is recorded before the branch moves to it, so that after a crash
/// the same commit is published and no second one is created.
pub(super) struct Commit;

impl Builtin for Commit {
    fn perform(&self, job: &BuiltinJob<'_>) -> Result<WorkResult, EngineError> {
        let workspace = &job.assignment.workspace;
        let run = job.recorder.run();
        let mut run = Run::clone(&run);
        if let Some(commit) = run.commit.clone().filter(|_| is_prepared(job)) {
            if job.repository.has_commit(workspace, &commit)? {
                return fail_if_moved(publish(job, &commit));
            }
            // Git has removed it before a branch had it: it is made again.
            run.commit = None;
            run.left_at = Some(commit.parent);
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
        let note = match fail_if_moved(pass_hook(job, &run))? {
            HookResult::Passed(note) => note,
            HookResult::Failed(result) => return Ok(result),
        };
        fail_if_moved(commit(job, &run, note.as_deref()))
    }
}

/// The result of the repository's own hook.
enum HookResult {
    /// Nothing speaks against the commit; the note says why the hook was not run.
    Passed(Option<String>),
    /// The phase ends with this.
    Failed(WorkResult),
}

impl From<WorkResult> for HookResult {
    fn from(result: WorkResult) -> Self {
        Self::Failed(result)
    }
}

/// Runs the pre-commit hook in a cell, with the tree that is about to be committed as the staged state.
fn pass_hook(job: &BuiltinJob<'_>, run: &Run) -> Result<HookResult, EngineError> {
    let BuiltinJob { assignment, recorder, .. } = job;
    let workspace = &assignment.workspace;
    let (program, cwd, pinned, tree) = match job.repository.pre_commit_hook(workspace, run)? {
        CommitHook::None => return Ok(HookResult::Passed(None)),
        CommitHook::Refused { why } => return Ok(HookResult::Passed(Some(why))),
        CommitHook::Run { program, cwd, pinned, tree } => (program, cwd, pinned, tree),
    };
    let invocation = recorder.invocation_started(assignment, "pre-commit", "hook", None)?;
    let began = Instant::now();
    let timeout = assignment.time_left.map_or(HOOK_TIMEOUT, |left| HOOK_TIMEOUT.min(left));
    let limits = Limits { timeout, output_bytes_max: HOOK_OUTPUT_BYTES_MAX };
    let argv = [program.display().to_string()];
    let reply = job.executors.run_program(
        Program {
            cwd: Some(cwd),
            pinned,
            staged: Some(tree),
            measures: true,
            ..Program::new(&argv, limits)
        },
        assignment,
    )?;
    let failure = match reply {
        Reply::Success { .. } => None,
        Reply::Failure { code: Code::ToolFailed, message, result, .. } => {
            let output = result.as_ref().map(tail).unwrap_or_default();
            Some(format!("the pre-commit hook refuses the commit: {message}: {output}"))
        }
        Reply::Failure { code, message, .. } => {
            Some(format!("the pre-commit hook could not be run: [{code}] {message}"))
        }
    };
    let (ended, note) = match &failure {
        None => (InvocationResult::Success, ""),
        Some(reason) => (InvocationResult::Failure, reason.as_str()),
    };
    let duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    recorder.invocation_ended(invocation, ended, Usage::default(), duration_ms, note);
    Ok(match failure {
        None => HookResult::Passed(None),
        Some(reason) => WorkResult::failed("validation_error", reason).into(),
    })
}

fn commit(job: &BuiltinJob<'_>, run: &Run, note: Option<&str>) -> Result<WorkResult, EngineError> {
    let (workspace, now) = (&job.assignment.workspace, job.clock.now());
    match job.repository.prepare_commit(workspace, run, &commit_message(run), now)? {
        PreparedCommit::Nothing => Ok(WorkResult::answer(json!({
            "summary": match &run.left_at {
                Some(_) => "the work has committed everything itself",
                None => "nothing was changed, so nothing was committed",
            },
            "commit": Value::Null,
        }))),
        PreparedCommit::Commit(commit) => {
            job.recorder.record(Event::CommitPrepared {
                branch: commit.branch.clone(),
                commit: commit.commit.clone(),
                parent: commit.parent.clone(),
                tree: commit.tree.clone(),
            })?;
            Ok(match (publish(job, &commit)?, note) {
                (WorkResult::Finished(mut answer), Some(note)) => {
                    let summary = answer.answer.get("summary").and_then(Value::as_str);
                    let summary = format!("{}; {note}", summary.unwrap_or_default());
                    if let Some(object) = answer.answer.as_object_mut() {
                        object.insert("summary".to_owned(), json!(summary));
                    }
                    WorkResult::Finished(answer)
                }
                (result, _) => result,
            })
        }
    }
}

fn publish(
    job: &BuiltinJob<'_>,
    commit: &windlass_kernel::run::Commit,
) -> Result<WorkResult, EngineError> {
    job.repository.publish_commit(&job.assignment.workspace, &job.assignment.run, commit)?;
    Ok(answer(&commit.commit, &commit.branch))
}

/// A branch that someone else moved, or a change that cannot be told from one that was there before, is a failure of
/// the phase, not an error of the engine.
fn fail_if_moved<T: From<WorkResult>>(result: Result<T, EngineError>) -> Result<T, EngineError> {
    match result {
        Err(EngineError::Requirement {
            code: code @ (Code::RepoMoved | Code::MergeConflict),
            message,
        }) => {
            let reason = format!("[{code}] {message}");
            Ok(WorkResult::failed("critical_failure", reason).into())
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

/// The commit message: proposed by the last phase that did work, or the task. A phase that judges has no say in it.
pub(crate) fn commit_message(run: &Run) -> String {
    let proposed = run.all_phases().filter_map(|(_, state)| {
        let answer = &state.done.as_ref()?.answer;
        let judges = answer.get("verdict").is_some();
        answer.get("commit_message").filter(|_| !judges)?.as_str().map(str::to_owned)
    });
    let started = run.started.as_ref();
    let task = started.and_then(|started| started.task.get("task")?.as_str());
    let task = task.unwrap_or("a change");
    let proposed = proposed.filter(|text| !text.trim().is_empty()).last();
    let text = proposed.unwrap_or_else(|| task.to_owned());
    let text = if text.trim().is_empty() { "a change" } else { text.trim() };
    let (title, rest) = text.split_once('\n').unwrap_or((text, ""));
    let short: String = title.chars().take(TITLE_CHARS_MAX).collect();
    let body = if short.len() < title.len() { text } else { rest.trim() };
    let run_id = started.map(|started| started.run_id.as_str()).unwrap_or_default();
    let body = if body.is_empty() { String::new() } else { format!("\n{body}\n") };
    format!("{short}\n{body}\nWindlass-Run: {run_id}\n")
}
