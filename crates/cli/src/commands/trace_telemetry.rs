//! `windlass trace show --telemetry`: the telemetry of a task of the driver loop.

use serde_json::Value;
use windlass_driver::executor::task_telemetry;
use windlass_kernel::{Code, TraceId};

use crate::failure::{CommandResult, Failure};
use crate::output::{Output, sanitize};
use crate::project::Project;

/// Prints the records of a task, and whether its seals match them. A seal that does not match is exit code 5, as
/// damage elsewhere in the journal is.
pub fn show(project: &Project, trace_id: TraceId, output: &Output) -> CommandResult {
    let run = project.runs()?.read(trace_id)?;
    let telemetry = task_telemetry(&run);
    if telemetry.records.is_empty() && telemetry.seals.is_empty() {
        let message = format!("trace `{trace_id}` has no telemetry");
        return Err(
            Failure::new(Code::RequestInvalid, message).hint("tasks of the driver loop have it")
        );
    }
    let is_damaged = telemetry.seals.iter().any(|seal| !seal.matches);
    let code = if is_damaged { 5 } else { 0 };
    if output.json {
        output.value(&telemetry)?;
        return Ok(code);
    }
    let text = |record: &Value, key: &str| match record.get(key) {
        Some(Value::String(text)) => sanitize(text),
        Some(Value::Null) | None => "-".to_owned(),
        Some(other) => other.to_string(),
    };
    let keys = ["timestamp", "lifecycle_phase", "result", "model_resolved_id", "failure_reason"];
    let rows: Vec<_> = telemetry
        .records
        .iter()
        .map(|record| keys.iter().map(|key| (text(record, key), None)).collect())
        .collect();
    output.table(&["TIME", "PHASE", "RESULT", "MODEL", "REASON"], &rows);
    for seal in &telemetry.seals {
        let matches = if seal.matches { "matches" } else { "does NOT match" };
        let kind = sanitize(&seal.kind);
        output.line(&format!("{kind} after {} records: {matches}", seal.records));
    }
    if !telemetry.is_sealed && !is_damaged {
        output.line("not closed: the task has not ended");
    }
    Ok(code)
}
