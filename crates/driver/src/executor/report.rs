//! Telemetry records, and the seal over them.

use crate::{IntentId, Outcome, Phase, Selection, TaskResult, TelemetryFields, TelemetryRecord};
use serde_json::{Value, json};
use windlass_kernel::run::{Event, NoteKind, PhaseResult, Run};
use windlass_kernel::{Digest, Timestamp, canon};

use super::{Driver, recorded, task_id, to_value};
use windlass_engine::EngineError;
use windlass_journal::JournalError;

/// The maximum length of a text in a record; in bytes it may be four times as long.
pub(super) const TEXT_CHARS_MAX: usize = 2000;

/// The variable fields of a telemetry record.
pub(super) struct RecordInput<'a> {
    pub phase: Phase,
    pub result: TaskResult,
    pub reason: &'a str,
    pub notes: String,
    /// The number of the model call and its token estimate, if there was one.
    pub call: Option<(u64, u64)>,
    pub model: Option<String>,
    pub intent: Option<IntentId>,
    pub selection: Option<Selection>,
    pub escalated: bool,
}

impl RecordInput<'_> {
    pub(super) fn new(run: &Run, phase: Phase) -> Self {
        Self {
            phase,
            result: TaskResult::Success,
            reason: "",
            notes: String::new(),
            call: None,
            model: None,
            intent: recorded::intent(run),
            selection: recorded::selection(run),
            escalated: false,
        }
    }
}

impl Driver {
    /// Creates a telemetry record.
    pub(super) fn record(
        &self,
        run: &Run,
        now: Timestamp,
        input: RecordInput<'_>,
    ) -> Result<Event, EngineError> {
        let short = |text: &str| text.chars().take(TEXT_CHARS_MAX).collect::<String>();
        let is_success = input.result == TaskResult::Success;
        let reason = short(input.reason);
        let reason =
            if reason.trim().is_empty() { "no reason was given".to_owned() } else { reason };
        let (call_index, token_estimate) = input.call.unwrap_or_default();
        let fields = TelemetryFields {
            call_index,
            capability_profile: None,
            escalation_attempted: input.escalated,
            failure_reason: (!is_success).then_some(reason),
            intent: input.intent,
            lifecycle_phase: input.phase,
            model_logical_id: None,
            model_resolved_id: None,
            model_tier: None,
            notes: short(&input.notes),
            project_id: self.settings.project_id.clone(),
            result: input.result,
            role: None,
            session_id: self.settings.session_id.clone(),
            task_id: task_id(run),
            timestamp: now,
            token_estimate,
        };
        let mut fields = match &input.selection {
            Some(selection) => fields.with_selection(selection),
            None => fields,
        };
        if let (Some(model), true) = (input.model, fields.model_resolved_id.is_some()) {
            fields.model_resolved_id = Some(short(&model));
        }
        let record = TelemetryRecord::new(fields).map_err(|error| EngineError::Invalid {
            code: error.code(),
            message: error.to_string(),
            hint: None,
        })?;
        Ok(telemetry_note(json!({ "kind": "record", "record": to_value(&record)? })))
    }
}

/// Creates a telemetry note.
pub(super) const fn telemetry_note(body: Value) -> Event {
    Event::Noted { what: NoteKind::Telemetry, body }
}

/// The result of an attempt, and the reason if it is not a success.
pub(super) fn result_of(done: &PhaseResult) -> (TaskResult, String) {
    if let Some(failure) = &done.failure {
        return (TaskResult::Halt, format!("{}: {}", failure.class, failure.reason));
    }
    let text = |key| recorded::str_field(&done.answer, key).unwrap_or_default();
    (result_of_verdict(text("verdict")), text("reason").to_owned())
}

/// The telemetry result of a verdict; anything but the four outcomes counts as the worst of them.
pub(super) fn result_of_verdict(verdict: &str) -> TaskResult {
    match Outcome::ALL.iter().find(|outcome| outcome.as_str() == verdict) {
        Some(Outcome::Pass) => TaskResult::Success,
        Some(Outcome::AskUser) => TaskResult::AskUser,
        Some(Outcome::InterventionRequired) => TaskResult::Intervention,
        Some(Outcome::Halt) | None => TaskResult::Halt,
    }
}

/// Creates a seal over all records so far: their number and the digest of their bytes.
pub(super) fn seal(run: &Run, kind: &str) -> Result<Value, EngineError> {
    let mut bytes = Vec::new();
    let mut records = 0u64;
    for body in run.notes.iter().filter(|note| note.what == NoteKind::Telemetry) {
        let Some(record) = body.body.get("record") else { continue };
        records += 1;
        let line = canon::value_to_bytes(record).map_err(|source| {
            EngineError::Journal(JournalError::NotCanonical { trace_id: run.head.trace_id, source })
        })?;
        bytes.extend(line);
        bytes.push(b'\n');
    }
    Ok(json!({ "kind": kind, "records": records, "digest": Digest::of(&bytes) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_verdict_is_a_halt() {
        assert_eq!(result_of_verdict("PASS"), TaskResult::Success);
        for verdict in ["", "pass", "Pass", "OK", "HALT", "PASS "] {
            assert_eq!(result_of_verdict(verdict), TaskResult::Halt, "{verdict}");
        }
    }

    #[test]
    fn a_sandbox_that_is_not_recorded_is_on() {
        assert!(recorded::initial_sandbox().sandbox.is_enabled());
    }
}
