//! `call`: one tool call of the loop's own.

use serde_json::{Value, json};

use super::{Builtin, Deed, Job};
use crate::doers::toolbox::{ToolReply, ToolRequest, complaint};
use crate::error::EngineError;

/// Makes the call that its settings name: `tool`, `args`, `intent`.
pub(super) struct Call;

impl Builtin for Call {
    fn perform(&self, job: &Job<'_>) -> Result<Deed, EngineError> {
        let Some(tool) = job.with.get("tool").and_then(Value::as_str) else {
            return Ok(Deed::failed("validation_error", "the builtin `call` needs `tool`"));
        };
        let intent = job.with.get("intent").and_then(Value::as_str).unwrap_or_default();
        let reply = job.tools.call(ToolRequest {
            tool: tool.to_owned(),
            args: job.with.get("args").cloned().unwrap_or_else(|| json!({})),
            intent: intent.to_owned(),
            agent: None,
        })?;
        Ok(match reply {
            ToolReply::Ended(report) => match complaint(&report) {
                None => Deed::Answer(json!({
                    "verdict": "pass",
                    "reason": "",
                    "summary": format!("{} was called", report.tool),
                    "result": report.result,
                })),
                Some(reason) => Deed::failed("tool_failure", reason),
            },
            ToolReply::Waiting { call, question } => Deed::Waiting { call, question },
            ToolReply::Refused { reason } => Deed::failed("validation_error", reason),
            ToolReply::Stopped => Deed::Stopped,
        })
    }
}
