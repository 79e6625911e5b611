//! `scope`: judges what was changed against the task's constraints.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde_json::{Value, json};

use super::{Builtin, Deed, Job, texts};
use crate::error::EngineError;

/// Says `pass` or `violation`: changed paths must be allowed and not denied, and not too many lines.
pub(super) struct Scope;

impl Builtin for Scope {
    fn perform(&self, job: &Job<'_>) -> Result<Deed, EngineError> {
        let change = job.place.change(&job.assignment.workspace, &job.assignment.run)?;
        let Some(change) = change else {
            return Ok(Deed::failed("validation_error", "there is no repository to compare with"));
        };
        let findings = match violations(job.task(), &change.files, change.lines) {
            Ok(findings) => findings,
            Err(reason) => return Ok(Deed::failed("validation_error", reason)),
        };
        let verdict = if findings.is_empty() { "pass" } else { "violation" };
        Ok(Deed::Answer(json!({
            "verdict": verdict,
            "reason": findings.join("; "),
            "findings": findings,
            "summary": format!("{} files, {} lines changed", change.files.len(), change.lines),
        })))
    }
}

/// What of a change the task does not allow.
pub(super) fn violations(
    task: &Value,
    files: &[String],
    lines: u64,
) -> Result<Vec<String>, String> {
    let allowed = set(&texts(task, "/constraints/allowed_paths"))?;
    let denied = set(&texts(task, "/constraints/denied_paths"))?;
    let mut findings = Vec::new();
    for file in files {
        if denied.is_match(file) {
            findings.push(format!("`{file}` is denied by the task"));
        } else if !allowed.is_empty() && !allowed.is_match(file) {
            findings.push(format!("`{file}` is not among the task's allowed paths"));
        }
    }
    if let Some(max) = task.pointer("/constraints/max_diff_lines").and_then(Value::as_u64)
        && lines > max
    {
        findings.push(format!("{lines} lines are changed, and the task allows {max}"));
    }
    Ok(findings)
}

/// Paths and patterns; a folder stands for all that is in it.
fn set(patterns: &[&str]) -> Result<GlobSet, String> {
    let mut builder = GlobSetBuilder::new();
    for pattern in patterns {
        let folder = format!("{}/**", pattern.trim_end_matches('/'));
        for pattern in [*pattern, folder.as_str()] {
            let glob = GlobBuilder::new(pattern).literal_separator(true).build();
            builder.add(glob.map_err(|error| format!("the path `{pattern}`: {error}"))?);
        }
    }
    builder.build().map_err(|error| error.to_string())
}
