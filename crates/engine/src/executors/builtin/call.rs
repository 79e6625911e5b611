//! `call`: one tool call that the loop defines.

use serde_json::{Value, json};

use super::{Builtin, BuiltinJob};
use crate::error::EngineError;
use crate::executors::tool_caller::{ToolRequest, failure_reason};
use crate::phase_executor::WorkResult;

/// Makes the call of its settings `tool`, `args` and `intent`.
pub(super) struct Call;

impl Builtin for Call {
    fn perform(&self, job: &BuiltinJob<'_>) -> Result<WorkResult, EngineError> {
        let Some(tool) = job.with.get("tool").and_then(Value::as_str) else {
            return Ok(WorkResult::failed("validation_error", "the builtin `call` needs `tool`"));
        };
        let intent = job.with.get("intent").and_then(Value::as_str).unwrap_or_default();
        let reply = job.tools.call(ToolRequest {
            id: None,
            tool: tool.to_owned(),
            args: job.with.get("args").cloned().unwrap_or_else(|| json!({})),
            intent: intent.to_owned(),
            agent: None,
        })?;
        Ok(match reply.finished() {
            Ok(Ok(report)) => match failure_reason(&report) {
                None => WorkResult::answer(json!({
                    "verdict": "pass",
                    "reason": "",
                    "summary": format!("{} was called", report.tool),
                    "result": report.result,
                })),
                Some(reason) => WorkResult::failed("tool_failure", reason),
            },
            Ok(Err(reason)) => WorkResult::failed("validation_error", reason),
            Err(unfinished) => unfinished,
        })
    }
}
