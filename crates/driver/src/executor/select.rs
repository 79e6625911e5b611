//! Phase 3: selects the model.

use crate::{Outcome, select};
use serde_json::json;

use super::{Driver, answer, recorded, to_value};
use windlass_engine::EngineError;
use windlass_engine::WorkResult;
use windlass_engine::executors::BuiltinJob;

/// Selects the first available model of the intent's route.
pub(super) fn perform(driver: &Driver, job: &BuiltinJob<'_>) -> Result<WorkResult, EngineError> {
    let Some(intent) = recorded::intent(&job.recorder.run()) else {
        return Ok(answer(Outcome::Halt, "the intent is not known", json!({})));
    };
    match select(driver.config(), &intent, &driver.settings.available) {
        Ok(selection) => {
            let more = json!({
                "summary": format!(
                    "`{}` is selected as {}, tier {}", selection.resolved, selection.role, selection.tier
                ),
                "selection": to_value(&selection)?,
            });
            Ok(answer(Outcome::Pass, "", more))
        }
        Err(error) => {
            let reason = format!("[{}] {error}", error.code());
            Ok(answer(error.outcome(), reason, json!({})))
        }
    }
}
