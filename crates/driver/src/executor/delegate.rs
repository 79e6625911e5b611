//! Phase 4: defines the model's assignment and the required keys of its output.

use crate::Outcome;
use serde_json::{Value, json};
use windlass_kernel::canon;

use super::facts::{allowed, denied};
use super::{Driver, answer, recorded};
use windlass_engine::EngineError;
use windlass_engine::WorkResult;
use windlass_engine::executors::BuiltinJob;

/// The assumed size of a token.
const TOKEN_BYTES: u64 = 4;
/// The keys that every output must have.
const KEYS: [&str; 4] = ["claims", "intent", "questions", "summary"];

/// Returns the assignment: role, model, scope, the keys of the output, and an estimate of its size.
pub(super) fn perform(driver: &Driver, job: &BuiltinJob<'_>) -> Result<WorkResult, EngineError> {
    let run = job.recorder.run();
    let halt = |reason: &str| Ok(answer(Outcome::Halt, reason, json!({})));
    let Some(intent) = recorded::intent(&run) else { return halt("the intent is not known") };
    let Some(selection) = recorded::selection(&run) else { return halt("no model was selected") };
    let saves = driver.config().intent(&intent).is_some_and(|declared| declared.save_allowed);
    let mut declares: Vec<&str> = KEYS.to_vec();
    if saves {
        declares.push("memory");
    }
    let input = json!({
        "task": job.task(),
        "context": recorded::answer_of(&run, "context"),
    });
    let bytes = canon::value_to_bytes(&input).map_or(0, |bytes| bytes.len());
    let file = recorded::answer_of(&run, "context").and_then(|context| context.get("bytes"));
    let file = file.and_then(Value::as_u64).unwrap_or_default();
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX).saturating_add(file);
    let more = json!({
        "summary": format!("`{}` is assigned to `{intent}`", selection.resolved),
        "declares": declares,
        "intent": intent,
        "model": selection.resolved,
        "paths_allowed": allowed(job),
        "paths_denied": denied(job),
        "role": selection.role,
        "token_estimate": bytes.div_ceil(TOKEN_BYTES),
    });
    Ok(answer(Outcome::Pass, "", more))
}
