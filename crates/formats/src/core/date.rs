//! Days, written `YYYY-MM-DD`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;
use windlass_kernel::Timestamp;

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;
/// Days from a Thursday to the next; 1 January 1970 was a Thursday.
const WEEK_DAYS: i64 = 7;

/// A day in UTC, written `2026-01-13`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(Timestamp);

/// Text that is not such a day.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("a date must have the form 2026-01-31")]
pub struct DateError;

impl Date {
    /// The days since 1 January 1970.
    const fn number(self) -> i64 {
        self.0.unix_ms().div_euclid(DAY_MS)
    }

    /// The day without hyphens: `20260113`.
    #[must_use]
    pub fn compact(self) -> String {
        self.to_string().replace('-', "")
    }

    /// The week of ISO 8601, from Monday to Sunday: `2026-W03`.
    #[must_use]
    pub fn week(self) -> String {
        // A week belongs to the year that has its Thursday.
        let weekday = (self.number() + 3).rem_euclid(WEEK_DAYS);
        let thursday = self.number() - weekday + 3;
        let year = Timestamp::from_unix_ms(thursday * DAY_MS).map_or(self, Date::from);
        let year = year.to_string().chars().take(4).collect::<String>();
        let first = format!("{year}-01-01").parse().map_or(thursday, Self::number);
        format!("{year}-W{:02}", (thursday - first).div_euclid(WEEK_DAYS) + 1)
    }
}

impl From<Timestamp> for Date {
    /// The day in UTC.
    fn from(timestamp: Timestamp) -> Self {
        let midnight = timestamp.unix_ms().div_euclid(DAY_MS) * DAY_MS;
        Self(Timestamp::from_unix_ms(midnight).unwrap_or(timestamp))
    }
}

impl fmt::Display for Date {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.text();
        let day = text.get(..10).unwrap_or_default();
        formatter.write_str(std::str::from_utf8(day).unwrap_or_default())
    }
}

impl fmt::Debug for Date {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl FromStr for Date {
    type Err = DateError;

    fn from_str(text: &str) -> Result<Self, DateError> {
        format!("{text}T00:00:00.000Z").parse().map(Self).map_err(|_| DateError)
    }
}

impl Serialize for Date {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Date {
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
        let date: Date = "2026-01-13".parse().unwrap();
        assert_eq!((date.to_string(), date.compact()), ("2026-01-13".into(), "20260113".into()));
        for text in
            ["", "2026-1-13", "2026-02-30", "20260113", "2026-01-13T00:00:00", " 2026-01-13"]
        {
            assert_eq!(text.parse::<Date>(), Err(DateError), "{text}");
        }
    }

    #[test]
    fn weeks_are_those_of_iso_8601() {
        for (date, week) in [
            ("2026-01-13", "2026-W03"),
            ("2026-01-01", "2026-W01"),
            ("2027-01-01", "2026-W53"),
            ("2027-01-03", "2026-W53"),
            ("2027-01-04", "2027-W01"),
            ("2024-12-30", "2025-W01"),
            ("2021-01-03", "2020-W53"),
            ("1970-01-01", "1970-W01"),
            ("1969-12-28", "1969-W52"),
        ] {
            assert_eq!(date.parse::<Date>().unwrap().week(), week, "{date}");
        }
    }

    proptest! {
        #[test]
        fn a_day_round_trips_and_contains_its_times(
            ms in -62_000_000_000_000_i64..253_402_300_800_000,
        ) {
            let timestamp = Timestamp::from_unix_ms(ms).unwrap();
            let date = Date::from(timestamp);
            prop_assert_eq!(date.to_string().parse(), Ok(date));
            prop_assert!((0..DAY_MS).contains(&(ms - date.0.unix_ms())));
        }
    }
}
