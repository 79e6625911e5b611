//! Phase 1: determines the intent of the request.

use crate::{Classification, SandboxEvent, classify};
use serde_json::{Value, json};

use super::{Driver, answer};
use windlass_engine::EngineError;
use windlass_engine::WorkResult;
use windlass_engine::executors::BuiltinJob;

/// Classifies the task's text; asks the person if it is ambiguous.
pub(super) fn perform(driver: &Driver, job: &BuiltinJob<'_>) -> Result<WorkResult, EngineError> {
    let request = job.task().get("task").and_then(Value::as_str).unwrap_or_default();
    let classification = classify(driver.config(), request);
    let outcome = classification.outcome();
    match classification {
        Classification::Resolved { intent, trigger } => {
            let now = Some(intent.clone());
            driver.change_sandbox(
                job,
                SandboxEvent::IntentChanged,
                |recorded| recorded.intent = now,
                "the intent is known",
            )?;
            let more = json!({
                "summary": format!("the intent is `{intent}`"),
                "intent": intent,
                "trigger": trigger,
                "facts": { "intent": intent.as_str() },
            });
            Ok(answer(outcome, "", more))
        }
        Classification::Ambiguous { candidates, question } => {
            driver.change_sandbox(
                job,
                SandboxEvent::IntentUnresolved,
                |recorded| recorded.intent = None,
                "the intent is not known",
            )?;
            Ok(answer(outcome, question, json!({ "candidates": candidates })))
        }
    }
}
