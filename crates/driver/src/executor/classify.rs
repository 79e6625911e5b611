//! Phase 1: what the request is about.

use crate::{Classification, SandboxEvent as Happening, classify};
use serde_json::{Value, json};

use super::{Driver, answer};
use windlass_engine::EngineError;
use windlass_engine::WorkResult;
use windlass_engine::executors::Job;

/// Classifies the task's words; what is not clear is asked.
pub(super) fn perform(driver: &Driver, job: &Job<'_>) -> Result<WorkResult, EngineError> {
    let request = job.task().get("task").and_then(Value::as_str).unwrap_or_default();
    let found = classify(driver.config(), request);
    let outcome = found.outcome();
    match found {
        Classification::Resolved { intent, trigger } => {
            let now = Some(intent.clone());
            driver.change_sandbox(
                job,
                Happening::IntentChanged,
                |recorded| recorded.intent = now,
                "the intent is known",
            )?;
            let more = json!({
                "summary": format!("the task is about `{intent}`"),
                "intent": intent,
                "trigger": trigger,
                "facts": { "intent": intent.as_str() },
            });
            Ok(answer(outcome, "", more))
        }
        Classification::Ambiguous { candidates, question } => {
            driver.change_sandbox(
                job,
                Happening::IntentUnresolved,
                |recorded| recorded.intent = None,
                "the intent is not known",
            )?;
            Ok(answer(outcome, question, json!({ "candidates": candidates })))
        }
    }
}
