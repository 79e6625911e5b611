//! The state file of version 1: phases by name and their artifacts.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;
use windlass_kernel::{Code, canon};
use windlass_text::printable;

use crate::keyword::keywords;

/// The largest state file.
pub const V1_BYTES_MAX: usize = 4 << 20;
/// The most phases, and the most files of one.
const ITEMS_MAX: usize = 10_000;
/// The longest name or path, in bytes.
const TEXT_BYTES_MAX: usize = 4096;

keywords! {
    /// The status of a run of version 1.
    V1Status {
        /// Not started.
        Idle = "idle",
        /// In progress.
        Running = "running",
        /// Waiting for reviewers.
        AwaitingConsensus = "awaiting_consensus",
        /// Rejected by reviewers.
        NeedsRevision = "needs_revision",
        /// Aborted.
        Aborted = "aborted",
        /// Completed.
        Completed = "completed",
    }
}

/// A state file of version 1.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct V1State {
    /// The phases that were complete.
    pub completed_phases: Vec<String>,
    /// The current phase; none before the first and after the last.
    #[serde(default)]
    pub current_phase: Option<String>,
    /// The files that each phase produced.
    pub phase_artifacts: BTreeMap<String, Vec<String>>,
    /// The status of the run.
    #[serde(default, alias = "run_status")]
    pub status: Option<V1Status>,
    /// All other fields.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Why a state file cannot be imported.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the state file of version 1 cannot be used: {0}")]
pub struct V1Error(String);

impl V1Error {
    /// The stable code of this error.
    #[must_use]
    pub const fn code(&self) -> Code {
        Code::ImportInvalid
    }
}

impl V1State {
    /// Reads a state file.
    ///
    /// # Errors
    /// [`V1Error`] when it is malformed, has a phase twice, or exceeds a limit.
    pub fn read(bytes: &[u8]) -> Result<Self, V1Error> {
        let value =
            canon::parse(bytes, V1_BYTES_MAX).map_err(|error| V1Error(error.to_string()))?;
        if !value.is_object() {
            return Err(V1Error("it is not a JSON object".to_owned()));
        }
        let state: Self =
            serde_json::from_value(value).map_err(|error| V1Error(error.to_string()))?;
        let mut names = std::collections::BTreeSet::new();
        for name in &state.completed_phases {
            if !names.insert(name) {
                return Err(V1Error(format!(
                    "`{}` is listed as complete twice",
                    printable(name, 80)
                )));
            }
        }
        let files = state.phase_artifacts.values();
        let paths = files.clone().flatten();
        let long = |text: &&String| text.is_empty() || text.len() > TEXT_BYTES_MAX;
        if let Some(text) = names.iter().copied().chain(paths).find(long) {
            return Err(V1Error(format!("`{}` is empty or too long", printable(text, 80))));
        }
        let many = files.map(Vec::len).chain([names.len(), state.phase_artifacts.len()]);
        if many.max().is_some_and(|count| count > ITEMS_MAX) {
            return Err(V1Error(format!("it has more than {ITEMS_MAX} phases or files")));
        }
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_and_its_rest_kept() {
        let text = br#"{"current_phase":"development","completed_phases":["planning"],
            "phase_artifacts":{"planning":["docs/plan.md"]},"run_status":"running","run_id":"r1"}"#;
        let state = V1State::read(text).unwrap();
        assert_eq!(state.status, Some(V1Status::Running));
        assert_eq!(state.phase_artifacts["planning"], ["docs/plan.md"]);
        assert_eq!(state.more["run_id"], "r1");
    }

    #[test]
    fn anything_else_is_refused() {
        for bad in [
            "[]",
            "{}",
            r#"{"completed_phases":[]}"#,
            r#"{"completed_phases":["a","a"],"phase_artifacts":{}}"#,
            r#"{"completed_phases":[""],"phase_artifacts":{}}"#,
            r#"{"completed_phases":[1],"phase_artifacts":{}}"#,
            r#"{"completed_phases":[],"phase_artifacts":{"a":"b"}}"#,
            r#"{"completed_phases":[],"phase_artifacts":{},"status":"done"}"#,
            r#"{"completed_phases":[],"completed_phases":[],"phase_artifacts":{}}"#,
        ] {
            assert!(V1State::read(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
