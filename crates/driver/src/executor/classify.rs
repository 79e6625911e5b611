//! Phase 1: determines the intent of the request.

use crate::{Classification, SandboxEvent, classify, classify_as};
use serde_json::{Value, json};

use super::{Driver, answer, recorded};
use windlass_engine::EngineError;
use windlass_engine::WorkResult;
use windlass_engine::executors::BuiltinJob;

/// The option of a run that names its intent.
pub const INTENT_OPTION: &str = "intent";

/// Takes the intent that a person has named, or classifies the task's text; asks the person if it is ambiguous.
pub(super) fn perform(driver: &Driver, job: &BuiltinJob<'_>) -> Result<WorkResult, EngineError> {
    let request = job.task().get("task").and_then(Value::as_str).unwrap_or_default();
    let run = job.recorder.run();
    let options = run.started.as_ref().map(|started| &started.options);
    let named = options.and_then(|options| options.get(INTENT_OPTION)).and_then(Value::as_str);
    let classification = match (recorded::intent_answer(&run), named) {
        (Some(text), _) => match classify_as(driver.config(), text.trim()) {
            Classification::Ambiguous { .. } => classify(driver.config(), text),
            resolved @ Classification::Resolved { .. } => resolved,
        },
        (None, Some(name)) => classify_as(driver.config(), name),
        (None, None) => classify(driver.config(), request),
    };
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
