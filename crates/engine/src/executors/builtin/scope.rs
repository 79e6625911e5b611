//! `scope`: checks the changes of a run against the constraints of its task.

use serde_json::{Value, json};
use windlass_text::{Glob, GlobKind};

use super::{Builtin, BuiltinJob, WorkResult, task_strings};
use crate::error::EngineError;
use crate::repository::FILES_MAX;

/// Returns the verdict `pass` or `violation`: every changed path must be allowed and not denied, and the
/// number of changed lines must not exceed the limit.
pub(super) struct Scope;

impl Builtin for Scope {
    fn perform(&self, job: &BuiltinJob<'_>) -> Result<WorkResult, EngineError> {
        let change = job.repository.change(&job.assignment.workspace, &job.assignment.run)?;
        let Some(change) = change else {
            return Ok(WorkResult::failed(
                "validation_error",
                "there is no repository to compare with",
            ));
        };
        let findings = match violations(job.task(), &change.files, change.lines) {
            Ok(findings) => findings,
            Err(reason) => return Ok(WorkResult::failed("validation_error", reason)),
        };
        let verdict = if findings.is_empty() { "pass" } else { "violation" };
        Ok(WorkResult::answer(json!({
            "verdict": verdict,
            "reason": findings.join("; "),
            "findings": findings,
            "summary": format!("{} files, {} lines changed", change.files.len(), change.lines),
        })))
    }
}

/// Lists the violations of the task's constraints.
pub(super) fn violations(
    task: &Value,
    files: &[String],
    lines: u64,
) -> Result<Vec<String>, String> {
    let (allowed, denied) = constraints(task)?;
    let (allowed, denied) = (set(&allowed)?, set(&denied)?);
    let mut findings = Vec::new();
    if files.len() >= FILES_MAX {
        // Further files are not listed, so they cannot be checked.
        findings.push(format!("{FILES_MAX} files or more are changed"));
    }
    for file in files {
        if is_in(&denied, file) {
            findings.push(format!("`{file}` is denied by the task"));
        } else if !allowed.is_empty() && !is_in(&allowed, file) {
            findings.push(format!("`{file}` is not among the task's allowed paths"));
        }
    }
    match task.pointer("/constraints/max_diff_lines") {
        None | Some(Value::Null) => {}
        Some(value) => {
            let max = value.as_u64().ok_or("the task's `max_diff_lines` is not a whole number")?;
            if lines > max {
                findings.push(format!("{lines} lines are changed, but the task allows {max}"));
            }
        }
    }
    Ok(findings)
}

/// The paths that a task allows and denies.
pub(super) fn constraints(task: &Value) -> Result<(Vec<&str>, Vec<&str>), String> {
    match task.get("constraints") {
        None | Some(Value::Null | Value::Object(_)) => {}
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            return Err("the task's `constraints` is not an object".to_owned());
        }
    }
    let allowed = task_strings(task, "/constraints/allowed_paths")?;
    Ok((allowed, task_strings(task, "/constraints/denied_paths")?))
}

/// Parses paths and patterns; a folder stands for everything in it.
fn set(patterns: &[&str]) -> Result<Vec<Glob>, String> {
    let parse = |pattern: &&str| {
        let folder = pattern.strip_prefix("./").unwrap_or(pattern).trim_end_matches('/');
        if folder.is_empty() {
            return Err("a path of the task is empty".to_owned());
        }
        // `a/**` matches `a` itself too.
        Glob::new(&format!("{folder}/**"), GlobKind::Path)
            .map_err(|error| format!("the path `{pattern}`: {error}"))
    };
    patterns.iter().map(parse).collect()
}

fn is_in(set: &[Glob], file: &str) -> bool {
    set.iter().any(|glob| glob.matches_str(file))
}
