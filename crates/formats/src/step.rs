//! The summary of one step, as JSON with sorted keys.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use windlass_kernel::canon;

use crate::keyword::keywords;

/// The largest step summary.
pub const STEP_BYTES_MAX: usize = 1 << 20;

keywords! {
    /// How a step ended.
    StepOutcome {
        /// It succeeded.
        Success = "success",
        /// It failed.
        Failure = "failure",
        /// It was skipped.
        Skipped = "skipped",
        /// It waits for a person.
        Hold = "hold",
    }
}

/// The summary of one step.
// INVARIANT: the fields are declared in the order of their names, which is the order in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepSummary {
    /// The files that it made.
    pub artifacts: Vec<String>,
    /// Which execution of the step it was, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// How long it took.
    pub duration_ms: u64,
    /// How it ended.
    pub outcome: StepOutcome,
    /// The step.
    pub step_name: String,
    /// What it did, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// Why a step summary cannot be written or read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the step summary cannot be used: {0}")]
pub struct StepError(String);

impl StepSummary {
    /// The summary's file as bytes.
    ///
    /// # Errors
    /// [`StepError`] when the duration is not exact in JSON, or the summary is too large.
    pub fn to_bytes(&self) -> Result<Vec<u8>, StepError> {
        // Canonical form refuses values that JSON readers would change; the file itself is for people.
        canon::to_bytes(self).map_err(|error| StepError(error.to_string()))?;
        let mut bytes =
            serde_json::to_vec_pretty(self).map_err(|error| StepError(error.to_string()))?;
        bytes.push(b'\n');
        if bytes.len() > STEP_BYTES_MAX {
            let length = bytes.len();
            return Err(StepError(format!(
                "it would be {length} bytes, more than {STEP_BYTES_MAX}"
            )));
        }
        Ok(bytes)
    }

    /// Reads a summary's file.
    ///
    /// # Errors
    /// [`StepError`] when it is not such JSON.
    pub fn read(bytes: &[u8]) -> Result<Self, StepError> {
        let value =
            canon::parse(bytes, STEP_BYTES_MAX).map_err(|error| StepError(error.to_string()))?;
        serde_json::from_value(value).map_err(|error| StepError(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn design() -> StepSummary {
        StepSummary {
            artifacts: vec!["design.md".to_owned()],
            attempt: None,
            duration_ms: 1500,
            outcome: StepOutcome::Success,
            step_name: "design".to_owned(),
            summary: None,
        }
    }

    #[test]
    fn the_bytes_are_pinned() {
        let expected = "{\n  \"artifacts\": [\n    \"design.md\"\n  ],\n  \"duration_ms\": 1500,\n  \
                        \"outcome\": \"success\",\n  \"step_name\": \"design\"\n}\n";
        assert_eq!(String::from_utf8(design().to_bytes().unwrap()).unwrap(), expected);
    }

    #[test]
    fn keys_are_sorted_and_all_of_it_reads_back() {
        let whole = StepSummary {
            attempt: Some(2),
            summary: Some("two \"lines\"\nof 🙂".to_owned()),
            outcome: StepOutcome::Hold,
            ..design()
        };
        let bytes = whole.to_bytes().unwrap();
        assert_eq!(StepSummary::read(&bytes).unwrap(), whole);
        let text = String::from_utf8(bytes).unwrap();
        let keys: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("  \"")?.split_once("\":"))
            .map(|(key, _)| key)
            .collect();
        assert_eq!(
            keys,
            ["artifacts", "attempt", "duration_ms", "outcome", "step_name", "summary"]
        );
    }

    #[test]
    fn anything_else_is_refused() {
        let bytes = design().to_bytes().unwrap();
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        for field in ["artifacts", "duration_ms", "outcome", "step_name"] {
            let mut without = value.clone();
            without.as_object_mut().unwrap().remove(field);
            assert!(StepSummary::read(without.to_string().as_bytes()).is_err(), "{field}");
        }
        for (from, to) in
            [("success", "SUCCESS"), ("1500", "-1"), ("1500", "1.5"), ("\"step_name", "\"name")]
        {
            let text = String::from_utf8(bytes.clone()).unwrap().replacen(from, to, 1);
            assert!(StepSummary::read(text.as_bytes()).is_err(), "{text}");
        }
        let unsafe_duration = StepSummary { duration_ms: u64::MAX, ..design() };
        assert!(unsafe_duration.to_bytes().is_err());
        let large = StepSummary { summary: Some("a".repeat(STEP_BYTES_MAX)), ..design() };
        assert!(large.to_bytes().is_err());
    }
}
