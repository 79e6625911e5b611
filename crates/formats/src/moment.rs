//! Timestamps as packets write them: whole seconds, `YYYY-MM-DDTHH:MM:SSZ`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;
use windlass_kernel::Timestamp;

/// A timestamp in whole seconds, written `2026-02-02T12:00:00Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Timestamp);

/// Text that is not such a timestamp.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("a time must have the form 2026-01-31T23:59:59Z")]
pub struct MomentError;

impl From<Timestamp> for Moment {
    /// Truncates the milliseconds, so that the result is never later.
    fn from(timestamp: Timestamp) -> Self {
        let whole = timestamp.unix_ms().div_euclid(1000) * 1000;
        Self(Timestamp::from_unix_ms(whole).unwrap_or(timestamp))
    }
}

impl Moment {
    /// The day, as `YYYY-MM-DD`.
    #[must_use]
    pub fn date(self) -> String {
        self.to_string().chars().take(10).collect()
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.text();
        let seconds = text.get(..19).unwrap_or_default();
        write!(formatter, "{}Z", std::str::from_utf8(seconds).unwrap_or_default())
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl FromStr for Moment {
    type Err = MomentError;

    fn from_str(text: &str) -> Result<Self, MomentError> {
        let seconds = text.strip_suffix('Z').ok_or(MomentError)?;
        format!("{seconds}.000Z").parse().map(Self).map_err(|_| MomentError)
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_one_form_is_read() {
        let moment: Moment = "2026-02-02T12:00:00Z".parse().unwrap();
        assert_eq!(moment.to_string(), "2026-02-02T12:00:00Z");
        assert_eq!(moment.date(), "2026-02-02");
        for text in [
            "",
            "Z",
            "2026-02-02T12:00:00",
            "2026-02-02T12:00:00.000Z",
            "2026-02-30T12:00:00Z",
            "2026-02-02T12:00:00+00:00",
            "2026-02-02 12:00:00Z",
            "2026-02-02T12:00:00.000Z.000Z",
        ] {
            assert_eq!(text.parse::<Moment>(), Err(MomentError), "{text}");
        }
    }

    proptest! {
        #[test]
        fn milliseconds_are_dropped_and_the_rest_round_trips(
            ms in -62_167_219_200_000_i64..253_402_300_800_000,
        ) {
            let timestamp = Timestamp::from_unix_ms(ms).unwrap();
            let moment = Moment::from(timestamp);
            prop_assert_eq!(moment.to_string().parse(), Ok(moment));
            prop_assert!(moment.0 <= timestamp);
            prop_assert!(ms - moment.0.unix_ms() < 1000);
        }
    }
}
