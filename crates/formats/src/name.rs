//! The names of runs, steps and holds, and their file paths.
//!
//! INVARIANT: every path here consists of parts that were checked to be file names, so no text from a
//! task, a loop or a packet can lead out of `artifacts`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// The path of the attempt ledger.
pub const LEDGER_PATH: &str = "artifacts/loop_state/attempt_ledger.jsonl";
/// The folder and the parts of the names of the attempt ledger's closed files.
const CLOSED_LEDGER: (&str, &str, &str) = ("artifacts/loop_state/", "attempt_ledger.", ".jsonl");
/// The longest step key: room for the longest name of a phase and the number of an attempt.
pub const STEP_CHARS_MAX: usize = 96;

/// `run_`, the digits of day and time, `_`, the end of the trace's id.
const RUN_CHARS: usize = 28;

/// Text that is not a valid name of a run, a step or a hold.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NameError {
    /// It is not the name of a run.
    #[error("`{0}` is not the name of a run, which looks like `run_20260202_120000_1a2b3c4d`")]
    Run(String),
    /// It is not a step key.
    #[error(
        "`{0}` cannot name a step: 1 to 96 of `a-z`, `0-9`, `_`, `-` and `.`, \
         with no `.` at either end and no `..`"
    )]
    Step(String),
    /// It is not the id of a hold.
    #[error("`{0}` is not the id of a hold, which looks like `CP_run_20260202_120000_1a2b3c4d_2`")]
    Checkpoint(String),
}

/// The path of a closed file of the attempt ledger; the first has the number 1.
#[must_use]
pub fn closed_ledger_path(number: u32) -> String {
    let (folder, before, after) = CLOSED_LEDGER;
    format!("{folder}{before}{number:04}{after}")
}

/// The number of a closed file of the attempt ledger; `None` for a file with another name.
#[must_use]
pub fn closed_ledger_number(file: &str) -> Option<u32> {
    let (folder, before, after) = CLOSED_LEDGER;
    let number = file.strip_prefix(before)?.strip_suffix(after)?.parse().ok()?;
    // Only the name that is written: not `1`, `+0001` or `00001`.
    (closed_ledger_path(number).strip_prefix(folder) == Some(file)).then_some(number)
}

/// How much of a refused text is shown.
fn shown(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}

/// The name of a run, in the form that [`windlass_kernel::run::RunName`] gives it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunName(String);

impl RunName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The file of this run's terminal packet.
    #[must_use]
    pub fn terminal_path(&self) -> String {
        format!("artifacts/terminal/TP_{}.yaml", self.0)
    }

    /// The file of the summary of one of this run's steps.
    #[must_use]
    pub fn step_path(&self, step: &StepKey) -> String {
        format!("artifacts/steps/{}_{step}.json", self.0)
    }

    /// The id of a hold of this run at a step.
    #[must_use]
    pub fn checkpoint(&self, step: &StepKey) -> CheckpointId {
        CheckpointId { run: self.clone(), step: step.clone() }
    }
}

impl FromStr for RunName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match text.parse::<windlass_kernel::run::RunName>() {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(_) => Err(NameError::Run(shown(text))),
        }
    }
}

/// The key of a step in file names: its index or its name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepKey(String);

impl StepKey {
    /// The key of the step at an index.
    #[must_use]
    pub fn index(index: u32) -> Self {
        Self(index.to_string())
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for StepKey {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let allowed = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.');
        let dots = text.starts_with('.') || text.ends_with('.') || text.contains("..");
        let fits = !text.is_empty() && text.len() <= STEP_CHARS_MAX;
        if fits && !dots && text.bytes().all(allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NameError::Step(shown(text)))
        }
    }
}

/// The id of a hold: `CP_<run_id>_<step>`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointId {
    run: RunName,
    step: StepKey,
}

impl CheckpointId {
    /// The run on hold.
    #[must_use]
    pub const fn run(&self) -> &RunName {
        &self.run
    }

    /// The file of this hold's packet.
    #[must_use]
    pub fn path(&self) -> String {
        format!("artifacts/checkpoints/{self}.yaml")
    }
}

impl FromStr for CheckpointId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let parts = || {
            let (run, step) = text.strip_prefix("CP_")?.split_at_checked(RUN_CHARS)?;
            let step = step.strip_prefix('_')?;
            Some(Self { run: run.parse().ok()?, step: step.parse().ok()? })
        };
        parts().ok_or_else(|| NameError::Checkpoint(shown(text)))
    }
}

impl fmt::Display for RunName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Display for StepKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Display for CheckpointId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CP_{}_{}", self.run, self.step)
    }
}

macro_rules! as_text {
    ($($type:ty),*) => {$(
        impl fmt::Debug for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, formatter)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

as_text!(RunName, StepKey, CheckpointId);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use windlass_kernel::{TraceId, Uuid7};

    use super::*;

    const RUN: &str = "run_20260202_120000_1a2b3c4d";

    #[test]
    fn files_lie_where_the_layout_says() {
        let run: RunName = RUN.parse().unwrap();
        assert_eq!(run.terminal_path(), format!("artifacts/terminal/TP_{RUN}.yaml"));
        let step = StepKey::index(2);
        assert_eq!(run.step_path(&step), format!("artifacts/steps/{RUN}_2.json"));
        let hold = run.checkpoint(&step);
        assert_eq!(hold.path(), format!("artifacts/checkpoints/CP_{RUN}_2.yaml"));
        assert_eq!(hold.to_string().parse(), Ok(hold));
        assert_eq!(
            format!("CP_{RUN}_a.b-c_d").parse::<CheckpointId>().unwrap().step.as_str(),
            "a.b-c_d"
        );
        // Every name of a phase is one.
        for text in ["-a", "a-", "_", "2a", "design.attempt-1"] {
            assert!(text.parse::<StepKey>().is_ok(), "{text}");
        }
    }

    #[test]
    fn what_is_no_file_name_is_no_name() {
        for text in [
            "",
            "run_20260202_120000",
            "run_20260202_120000_",
            "run_20260202_120000_1A2B3C4D",
            "run_20260202_120000_1a2b3c4g",
            "run_20260202_120000_k3v7q2ma",
            "run_19691231_235959_1a2b3c4d",
            "run_20260202_120000_1a2b3c4da",
            "run_20260230_120000_1a2b3c4d",
            "run_20260202_240000_1a2b3c4d",
            "run_20260202-120000_1a2b3c4d",
            "run_20260202_120000_../../et",
            "run_2026020é_120000_1a2b3c4d",
            " run_20260202_120000_1a2b3c4d",
            "run_20260202_120000_1a2b3c4d\n",
        ] {
            assert!(text.parse::<RunName>().is_err(), "{text}");
        }
        for text in
            ["", ".", "..", "a..b", "a/b", "a\\b", "A", "a.", ".a", "a b", "é", "a\0", "a\n"]
        {
            assert!(text.parse::<StepKey>().is_err(), "{text}");
            assert!(format!("CP_{RUN}_{text}").parse::<CheckpointId>().is_err(), "{text}");
        }
        assert!("a".repeat(STEP_CHARS_MAX).parse::<StepKey>().is_ok());
        assert!("a".repeat(STEP_CHARS_MAX + 1).parse::<StepKey>().is_err());
        for text in ["", "CP_", "CP_run_20260202_120000_2", "CP_é", RUN] {
            assert!(text.parse::<CheckpointId>().is_err(), "{text}");
        }
        assert!(format!("CP_{RUN}2").parse::<CheckpointId>().is_err());
    }

    proptest! {
        #[test]
        fn the_names_are_exactly_the_kernels(
            ms in 0_u64..253_402_300_800_000, random: [u8; 10], at in 0_usize..28, byte in 0_u8..128,
        ) {
            let trace_id = TraceId(Uuid7::from_parts(ms, random));
            let name = windlass_kernel::run::RunName::of(trace_id).to_string();
            prop_assert_eq!(name.len(), RUN_CHARS);
            prop_assert_eq!(name.parse::<RunName>().unwrap().to_string(), name.clone());
            let mut other = name.into_bytes();
            other[at] = byte;
            let other = String::from_utf8(other).unwrap();
            let theirs = other.parse::<windlass_kernel::run::RunName>().is_ok();
            prop_assert_eq!(other.parse::<RunName>().is_ok(), theirs);
        }
    }
}
