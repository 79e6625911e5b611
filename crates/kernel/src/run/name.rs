//! The name of a run: `run_20260202_120000_1a2b3c4d`, derived from its trace id.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::{Timestamp, TraceId, Uuid7};

/// The name of a run: the second of its start and eight hex digits of its trace id.
///
/// It is a function of the trace id, so a run can be found by name without an index of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunName {
    second: i64,
    tail: [u8; 4],
}

/// Text that is not the name of a run.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("a run's name has the form run_20260202_120000_1a2b3c4d")]
pub struct RunNameError;

/// The last second of the year 9999.
const SECOND_MAX: i64 = 253_402_300_799;
/// The largest time that an id holds.
const UNIX_MS_MAX: u64 = (1 << 48) - 1;

/// The random end of an id is its last 62 bits; the name shows the last 32.
const TAIL: std::ops::Range<usize> = 12..16;

impl RunName {
    /// The name of the run with this trace.
    #[must_use]
    pub fn of(trace_id: TraceId) -> Self {
        let bytes = trace_id.0.as_bytes();
        let [a, b, c, d, e, f, ..] = *bytes;
        let unix_ms = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        // An id can contain times beyond the last valid date; they are clamped to the last second.
        let second = i64::try_from(unix_ms / 1000).unwrap_or(SECOND_MAX).min(SECOND_MAX);
        let tail = bytes.get(TAIL).and_then(|tail| tail.try_into().ok()).unwrap_or_default();
        Self { second, tail }
    }

    /// Whether the run with this trace has this name.
    #[must_use]
    pub fn names(&self, trace_id: TraceId) -> bool {
        Self::of(trace_id) == *self
    }

    /// An upper bound of the ids of the traces with this name.
    #[must_use]
    pub const fn upper_bound(&self) -> TraceId {
        if self.second == SECOND_MAX {
            return TraceId(Uuid7::from_parts(UNIX_MS_MAX, [0xff; 10]));
        }
        TraceId(Uuid7::from_parts((self.second.unsigned_abs() + 1) * 1000, [0; 10]))
    }

    /// A lower bound of the ids of the traces with this name.
    #[must_use]
    pub const fn lower_bound(&self) -> TraceId {
        TraceId(Uuid7::from_parts(self.second.unsigned_abs() * 1000, [0; 10]))
    }
}

impl fmt::Display for RunName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ts = Timestamp::from_unix_ms(self.second.saturating_mul(1000));
        let text = ts.unwrap_or(Timestamp::EPOCH).text();
        let part = |range: std::ops::Range<usize>| {
            text.get(range).and_then(|part| std::str::from_utf8(part).ok()).unwrap_or_default()
        };
        let [year, month, day] = [0..4, 5..7, 8..10].map(part);
        let [hour, minute, second] = [11..13, 14..16, 17..19].map(part);
        let tail = u32::from_be_bytes(self.tail);
        write!(formatter, "run_{year}{month}{day}_{hour}{minute}{second}_{tail:08x}")
    }
}

impl FromStr for RunName {
    type Err = RunNameError;

    fn from_str(text: &str) -> Result<Self, RunNameError> {
        let rest = text.strip_prefix("run_").ok_or(RunNameError)?;
        let (date, rest) = rest.split_once('_').ok_or(RunNameError)?;
        let (time, tail) = rest.split_once('_').ok_or(RunNameError)?;
        let digits = |text: &str, count: usize| {
            text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if !digits(date, 8) || !digits(time, 6) || tail.len() != 8 || !tail.bytes().all(hex) {
            return Err(RunNameError);
        }
        let part = |text: &str, at: usize| text.get(at..at + 2).unwrap_or_default().to_owned();
        let ts = format!(
            "{}-{}-{}T{}:{}:{}.000Z",
            date.get(..4).unwrap_or_default(),
            part(date, 4),
            part(date, 6),
            part(time, 0),
            part(time, 2),
            part(time, 4),
        );
        let ts: Timestamp = ts.parse().map_err(|_| RunNameError)?;
        if ts.unix_ms() < 0 {
            return Err(RunNameError);
        }
        let tail = u32::from_str_radix(tail, 16).map_err(|_| RunNameError)?.to_be_bytes();
        let name = Self { second: ts.unix_ms() / 1000, tail };
        // A date that does not exist must not be accepted as another one.
        if name.to_string() == text { Ok(name) } else { Err(RunNameError) }
    }
}
