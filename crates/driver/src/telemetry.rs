//! The telemetry record of one invocation.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use windlass_kernel::canon::{self, CanonError};
use windlass_kernel::{Code, Timestamp};

use crate::{IntentId, ModelId, Phase, ProfileId, Role, Selection, Tier};

/// The longest id.
const ID_BYTES_MAX: usize = 200;
/// The longest free text.
const TEXT_BYTES_MAX: usize = 8 * 1024;
/// The longest record.
const RECORD_BYTES_MAX: usize = 64 * 1024;
const COUNT_MAX: u64 = canon::INTEGER_MAX.unsigned_abs();

/// How an invocation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskResult {
    /// It succeeded.
    Success,
    /// It failed and is retried.
    Retry,
    /// It waits for an answer.
    AskUser,
    /// It waits for an edit.
    Intervention,
    /// The task ended here.
    Halt,
}

/// The fields of a record, sorted by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TelemetryFields {
    /// The number of the call in the task; 0 when no model was called.
    pub call_index: u64,
    /// The limits of the task.
    pub capability_profile: Option<ProfileId>,
    /// Whether a model of higher authority was requested.
    pub escalation_attempted: bool,
    /// Why it did not succeed.
    pub failure_reason: Option<String>,
    /// The intent of the task; none while it is unknown.
    pub intent: Option<IntentId>,
    /// The phase.
    pub lifecycle_phase: Phase,
    /// The model that the intent is routed to.
    pub model_logical_id: Option<ModelId>,
    /// The model that worked.
    pub model_resolved_id: Option<String>,
    /// Its tier.
    pub model_tier: Option<Tier>,
    /// Notes; may be empty.
    pub notes: String,
    /// The project.
    pub project_id: String,
    /// How it ended.
    pub result: TaskResult,
    /// The role of the model in this task.
    pub role: Option<Role>,
    /// The session.
    pub session_id: String,
    /// The task.
    pub task_id: String,
    /// When it ended.
    pub timestamp: Timestamp,
    /// The expected number of tokens.
    pub token_estimate: u64,
}

impl TelemetryFields {
    /// The same fields with the selected model.
    #[must_use]
    pub fn with_selection(self, selection: &Selection) -> Self {
        Self {
            capability_profile: Some(selection.profile.clone()),
            model_logical_id: Some(selection.logical.clone()),
            model_resolved_id: Some(selection.resolved.clone()),
            model_tier: Some(selection.tier.clone()),
            role: Some(selection.role.clone()),
            ..self
        }
    }
}

/// A complete record of bounded size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct TelemetryRecord(TelemetryFields);

/// Why fields or bytes are not a record.
#[derive(Debug, Error)]
pub enum TelemetryError {
    /// An id is empty, too long, or not one line.
    #[error("record telemetry: `{field}` must be one line of 1 to {ID_BYTES_MAX} bytes")]
    Id {
        /// The field.
        field: &'static str,
    },
    /// A text or number is too large.
    #[error("record telemetry: `{field}` is too large")]
    TooLarge {
        /// The field.
        field: &'static str,
    },
    /// A success with a reason for failure, or a failure without one.
    #[error(
        "record telemetry: `failure_reason` must be set exactly when the result is not success"
    )]
    FailureReason,
    /// Some fields of a model are set and some are not.
    #[error("record telemetry: a model is recorded with all of its fields or with none")]
    PartOfModel,
    /// The bytes are not the canonical form of a record.
    #[error("read telemetry: the record is not in canonical form with exactly its fields")]
    Form,
    /// The bytes are not JSON.
    #[error("read telemetry")]
    Json(#[source] CanonError),
}

impl TelemetryError {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Id { .. } | Self::FailureReason | Self::PartOfModel | Self::Form => {
                Code::RequestInvalid
            }
            Self::TooLarge { .. } => Code::DocSizeExceeded,
            Self::Json(error) => error.code(),
        }
    }
}

impl TelemetryRecord {
    /// Checks the fields of a record.
    ///
    /// # Errors
    /// [`TelemetryError`] when an id is empty, a field is too large, or fields contradict each
    /// other.
    pub fn new(fields: TelemetryFields) -> Result<Self, TelemetryError> {
        for (field, id) in [
            ("project_id", Some(&fields.project_id)),
            ("session_id", Some(&fields.session_id)),
            ("task_id", Some(&fields.task_id)),
            ("model_resolved_id", fields.model_resolved_id.as_ref()),
        ] {
            let fits = |id: &String| {
                !id.trim().is_empty() && id.len() <= ID_BYTES_MAX && !id.contains(char::is_control)
            };
            if !id.is_none_or(fits) {
                return Err(TelemetryError::Id { field });
            }
        }
        for (field, number) in
            [("call_index", fields.call_index), ("token_estimate", fields.token_estimate)]
        {
            if number > COUNT_MAX {
                return Err(TelemetryError::TooLarge { field });
            }
        }
        let reason = fields.failure_reason.as_deref();
        for (field, text) in
            [("notes", fields.notes.as_str()), ("failure_reason", reason.unwrap_or_default())]
        {
            if text.len() > TEXT_BYTES_MAX {
                return Err(TelemetryError::TooLarge { field });
            }
        }
        let explained = reason.is_some_and(|reason| !reason.trim().is_empty());
        if reason.is_some() != explained || (fields.result == TaskResult::Success) == explained {
            return Err(TelemetryError::FailureReason);
        }
        let model = [
            fields.model_logical_id.is_some(),
            fields.model_resolved_id.is_some(),
            fields.model_tier.is_some(),
            fields.capability_profile.is_some(),
            fields.role.is_some(),
        ];
        if model.contains(&true) && model.contains(&false) {
            return Err(TelemetryError::PartOfModel);
        }
        Ok(Self(fields))
    }

    /// The fields.
    #[must_use]
    pub const fn fields(&self) -> &TelemetryFields {
        &self.0
    }

    /// The canonical bytes: all fields, by name.
    ///
    /// # Errors
    /// [`TelemetryError::Json`] when there are none, which a record does not allow.
    pub fn to_bytes(&self) -> Result<Vec<u8>, TelemetryError> {
        canon::to_bytes(&self.0).map_err(TelemetryError::Json)
    }

    /// Reads a record as [`TelemetryRecord::to_bytes`] writes it.
    ///
    /// # Errors
    /// [`TelemetryError`] for anything else: another form, a field too many or too few.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TelemetryError> {
        let value = canon::parse(bytes, RECORD_BYTES_MAX).map_err(TelemetryError::Json)?;
        let fields = serde_json::from_value(value).map_err(|_| TelemetryError::Form)?;
        let record = Self::new(fields)?;
        if record.to_bytes()? != bytes {
            return Err(TelemetryError::Form);
        }
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> TelemetryFields {
        TelemetryFields {
            call_index: 1,
            capability_profile: Some("codex_high".parse().unwrap()),
            escalation_attempted: false,
            failure_reason: None,
            intent: Some("code_review".parse().unwrap()),
            lifecycle_phase: Phase::Execution,
            model_logical_id: Some("coder-main".parse().unwrap()),
            model_resolved_id: Some("m-1".into()),
            model_tier: Some("A".parse().unwrap()),
            notes: String::new(),
            project_id: "p".into(),
            result: TaskResult::Success,
            role: Some("reviewer".parse().unwrap()),
            session_id: "s".into(),
            task_id: "t".into(),
            timestamp: Timestamp::EPOCH,
            token_estimate: 1200,
        }
    }

    #[test]
    fn a_record_has_exactly_its_fields_by_name() {
        let record = TelemetryRecord::new(fields()).unwrap();
        let bytes = record.to_bytes().unwrap();
        let text = concat!(
            r#"{"call_index":1,"capability_profile":"codex_high","escalation_attempted":false,"#,
            r#""failure_reason":null,"intent":"code_review","lifecycle_phase":"Phase5_Execution","#,
            r#""model_logical_id":"coder-main","model_resolved_id":"m-1","model_tier":"A","#,
            r#""notes":"","project_id":"p","result":"success","role":"reviewer","#,
            r#""session_id":"s","task_id":"t","timestamp":"1970-01-01T00:00:00.000Z","#,
            r#""token_estimate":1200}"#
        );
        assert_eq!(String::from_utf8(bytes.clone()).unwrap(), text);
        assert_eq!(serde_json::to_string(&record).unwrap(), text, "declared in the same order");
        assert_eq!(TelemetryRecord::from_bytes(&bytes).unwrap(), record);
    }

    #[test]
    fn what_is_not_such_a_record_is_not_read() {
        let text = String::from_utf8(TelemetryRecord::new(fields()).unwrap().to_bytes().unwrap());
        let text = text.unwrap();
        for (from, to) in [
            ("\"notes\":\"\",", ""),
            ("\"failure_reason\":null,", ""),
            ("{\"call", "{\"a\":1,\"call"),
            ("{\"call", "{ \"call"),
            ("\"success\"", "\"done\""),
            ("\"task_id\":\"t\"", "\"task_id\":\"\""),
            ("Phase5", "Phase11"),
            ("1200}", "1200"),
            ("1200", "-1"),
        ] {
            let other = text.replacen(from, to, 1);
            assert_ne!(other, text, "{from}");
            assert!(TelemetryRecord::from_bytes(other.as_bytes()).is_err(), "{other}");
        }
    }

    #[test]
    fn empty_ids_and_contradictions_are_refused() {
        type Spoil = fn(&mut TelemetryFields);
        let cases: [(Code, Spoil); 13] = [
            (Code::RequestInvalid, |fields| fields.project_id.clear()),
            (Code::RequestInvalid, |fields| fields.session_id = " ".into()),
            (Code::RequestInvalid, |fields| fields.task_id = "a\nb".into()),
            (Code::RequestInvalid, |fields| fields.task_id = "x".repeat(ID_BYTES_MAX + 1)),
            (Code::RequestInvalid, |fields| fields.model_resolved_id = Some(String::new())),
            (Code::RequestInvalid, |fields| fields.failure_reason = Some("no".into())),
            (Code::RequestInvalid, |fields| fields.result = TaskResult::Halt),
            (Code::RequestInvalid, |fields| fields.model_tier = None),
            (Code::RequestInvalid, |fields| fields.role = None),
            (Code::RequestInvalid, |fields| {
                fields.result = TaskResult::Retry;
                fields.failure_reason = Some(" ".into());
            }),
            (Code::DocSizeExceeded, |fields| fields.notes = "x".repeat(TEXT_BYTES_MAX + 1)),
            (Code::DocSizeExceeded, |fields| fields.call_index = COUNT_MAX + 1),
            (Code::DocSizeExceeded, |fields| fields.token_estimate = u64::MAX),
        ];
        for (at, (code, spoil)) in cases.into_iter().enumerate() {
            let mut fields = fields();
            spoil(&mut fields);
            assert_eq!(TelemetryRecord::new(fields).unwrap_err().code(), code, "case {at}");
        }
        let mut halted = fields();
        halted.result = TaskResult::Halt;
        halted.failure_reason = Some("over the limit".into());
        assert!(TelemetryRecord::new(halted).is_ok());
    }
}
