//! Phase 8: verifies and seals the telemetry.

use std::collections::BTreeSet;

use crate::{Outcome, TelemetryRecord};
use serde_json::{Value, json};
use windlass_kernel::canon;
use windlass_kernel::run::{NoteKind, PhaseStatus, Run};

use super::{Driver, answer, recorded, report, stage_of};
use windlass_engine::EngineError;
use windlass_engine::WorkResult;
use windlass_engine::executors::BuiltinJob;

/// Reads every record back, checks that none is missing, and seals them. No model is called afterwards.
pub(super) fn perform(_: &Driver, job: &BuiltinJob<'_>) -> Result<WorkResult, EngineError> {
    let run = job.recorder.run();
    let halt = |reason: String| Ok(answer(Outcome::Halt, reason, json!({})));
    if recorded::telemetry(&run, "sealed").next().is_some() {
        return halt("telemetry is already sealed".to_owned());
    }
    let records = match read_back(&run) {
        Ok(records) => records,
        Err(reason) => return halt(reason),
    };
    if let Some(reason) = missing(&run, &records) {
        return halt(reason);
    }
    let seal = report::seal(&run, "sealed")?;
    job.recorder.note(NoteKind::Telemetry, seal.clone())?;
    let more = json!({
        "summary": format!("{} records are sealed", records.len()),
        "records": seal.get("records"),
        "digest": seal.get("digest"),
    });
    Ok(answer(Outcome::Pass, "", more))
}

fn read_back(run: &Run) -> Result<Vec<TelemetryRecord>, String> {
    let bodies = recorded::telemetry(run, "record").filter_map(|body| body.get("record"));
    let read = |record: &Value| {
        let bytes = canon::value_to_bytes(record).map_err(|error| error.to_string())?;
        TelemetryRecord::from_bytes(&bytes).map_err(|error| error.to_string())
    };
    bodies.map(read).collect()
}

/// Describes the first model call or complete phase that has no record.
fn missing(run: &Run, records: &[TelemetryRecord]) -> Option<String> {
    let calls: BTreeSet<u64> = records.iter().map(|record| record.fields().call_index).collect();
    if let Some(call) = (1..=run.invocations).find(|call| !calls.contains(call)) {
        return Some(format!("invocation {call} has no telemetry"));
    }
    run.all_phases().find_map(|(phase, state)| {
        let stage = stage_of(run, phase).filter(|_| state.status == PhaseStatus::Complete)?;
        let has = records.iter().any(|record| record.fields().lifecycle_phase == stage);
        (!has).then(|| format!("phase `{}` has no telemetry", phase.id))
    })
}
