//! The names of runs, steps and holds, and the files they give.
//!
//! INVARIANT: every path here is made of parts that were checked to be file names, so nothing that
//! comes from a task, a loop or a packet can lead out of `artifacts`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::Moment;

/// Where the attempt ledger lies.
pub const LEDGER_PATH: &str = "artifacts/loop_state/attempt_ledger.jsonl";
/// The longest step key.
pub const STEP_CHARS_MAX: usize = 64;

const RUN_PREFIX: &str = "run_";
/// `run_`, the digits of day and time, `_`, the random part.
const RUN_CHARS: usize = 28;
const RANDOM_CHARS: usize = 8;
/// Lower-case base 32 as in RFC 4648: no two of its characters differ only by case.
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Text that is no name of a run, a step or a hold.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NameError {
    /// It is no run's name.
    #[error("`{0}` is not the name of a run, which looks like `run_20260202_120000_k3v7q2ma`")]
    Run(String),
    /// It is no step's key.
    #[error(
        "`{0}` cannot name a step: 1 to 64 of `a-z`, `0-9`, `_`, `-` and `.`, \
         with a letter or digit at both ends and no `..`"
    )]
    Step(String),
    /// It is no hold's id.
    #[error("`{0}` is not the id of a hold, which looks like `CP_run_20260202_120000_k3v7q2ma_2`")]
    Checkpoint(String),
}

/// At most this much of a refused text is shown.
fn shown(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}

/// The name of a run: the second it was made in, and 40 random bits so that no two are the same.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunName(String);

impl RunName {
    /// Makes a name from a time and random bytes, both brought in from outside.
    #[must_use]
    pub fn from_parts(made_at: Moment, random: [u8; 5]) -> Self {
        let [a, b, c, d, e] = random.map(u64::from);
        let bits = a << 32 | b << 24 | c << 16 | d << 8 | e;
        let random = (0..RANDOM_CHARS).rev().map(|at| {
            let index = usize::try_from(bits >> (at * 5) & 31).unwrap_or_default();
            char::from(BASE32.get(index).copied().unwrap_or(b'a'))
        });
        Self(format!("{RUN_PREFIX}{}_{}", made_at.compact(), random.collect::<String>()))
    }

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
        let parts = || {
            let rest = text.strip_prefix(RUN_PREFIX)?;
            let (time, random) = rest.rsplit_once('_')?;
            let is_random =
                random.len() == RANDOM_CHARS && random.bytes().all(|byte| BASE32.contains(&byte));
            is_random.then_some(())?;
            Moment::from_compact(time)
        };
        match parts() {
            Some(_) => Ok(Self(text.to_owned())),
            None => Err(NameError::Run(shown(text))),
        }
    }
}

/// What names a step in a file's name: its index or its name.
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
        let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = text.as_bytes();
        let ends =
            bytes.first().copied().is_some_and(word) && bytes.last().copied().is_some_and(word);
        let inner = bytes.iter().all(|byte| word(*byte) || b"_-.".contains(byte));
        if ends && inner && text.len() <= STEP_CHARS_MAX && !text.contains("..") {
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

    /// The step at which it is on hold.
    #[must_use]
    pub const fn step(&self) -> &StepKey {
        &self.step
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

    use super::*;

    const RUN: &str = "run_20260202_120000_k3v7q2ma";

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
            format!("CP_{RUN}_a.b-c_d").parse::<CheckpointId>().unwrap().step().as_str(),
            "a.b-c_d"
        );
    }

    #[test]
    fn a_name_is_made_of_its_time_and_its_bits() {
        let at: Moment = "2026-02-02T12:00:00Z".parse().unwrap();
        assert_eq!(RunName::from_parts(at, [0; 5]).as_str(), "run_20260202_120000_aaaaaaaa");
        assert_eq!(RunName::from_parts(at, [0xff; 5]).as_str(), "run_20260202_120000_77777777");
        assert_eq!(RunName::from_parts(at, *b"hello").as_str(), "run_20260202_120000_nbswy3dp");
    }

    #[test]
    fn what_is_no_file_name_is_no_name() {
        for text in [
            "",
            "run_20260202_120000",
            "run_20260202_120000_",
            "run_20260202_120000_K3V7Q2MA",
            "run_20260202_120000_k3v7q2m1",
            "run_20260202_120000_k3v7q2maa",
            "run_20260230_120000_k3v7q2ma",
            "run_20260202_240000_k3v7q2ma",
            "run_20260202-120000_k3v7q2ma",
            "run_20260202_120000_../../et",
            "run_2026020é_120000_k3v7q2ma",
            " run_20260202_120000_k3v7q2ma",
            "run_20260202_120000_k3v7q2ma\n",
        ] {
            assert!(text.parse::<RunName>().is_err(), "{text}");
        }
        for text in [
            "", ".", "..", "a..b", "a/b", "a\\b", "A", "-a", "a-", "a.", ".a", "a b", "é", "a\0",
            "a\n",
        ] {
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
        fn every_name_reads_back_and_no_two_are_the_same(
            ms in 0_i64..253_402_300_800_000, one: [u8; 5], other: [u8; 5],
        ) {
            let at = Moment::from(windlass_kernel::Timestamp::from_unix_ms(ms).unwrap());
            let name = RunName::from_parts(at, one);
            prop_assert_eq!(name.as_str().len(), RUN_CHARS);
            prop_assert_eq!(name.as_str().parse(), Ok(name.clone()));
            prop_assert_eq!(one == other, name == RunName::from_parts(at, other));
        }
    }
}
