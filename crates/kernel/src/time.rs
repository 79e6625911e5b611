//! Timestamps, whose only text form is `YYYY-MM-DDTHH:MM:SS.mmmZ`.

use thiserror::Error;

use crate::text_form::text_form;

/// A time in milliseconds since 1970, between the years 0000 and 9999.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// Text that is not a timestamp, or a number outside its range.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("a timestamp has the form 2026-01-31T23:59:59.000Z")]
pub struct TimestampError;

const DAY_MS: i64 = 86_400_000;
/// 0000-01-01 and 9999-12-31, as days since 1970-01-01.
const DAYS: std::ops::RangeInclusive<i64> = -719_528..=2_932_896;

impl Timestamp {
    /// 1970-01-01T00:00:00.000Z.
    pub const EPOCH: Self = Self(0);

    /// Creates a timestamp from milliseconds since 1970-01-01T00:00:00Z.
    ///
    /// # Errors
    /// [`TimestampError`] outside the years 0000 to 9999.
    pub const fn from_unix_ms(unix_ms: i64) -> Result<Self, TimestampError> {
        let days = unix_ms.div_euclid(DAY_MS);
        if days >= *DAYS.start() && days <= *DAYS.end() {
            Ok(Self(unix_ms))
        } else {
            Err(TimestampError)
        }
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn unix_ms(self) -> i64 {
        self.0
    }

    /// Returns the 24 characters of the text form.
    #[must_use]
    pub fn text(self) -> [u8; 24] {
        let (year, month, day) = civil(self.0.div_euclid(DAY_MS));
        let ms = small(self.0.rem_euclid(DAY_MS));
        let (seconds, thousandths) = (ms / 1000, ms % 1000);
        let [y0, y1] = digits(year / 100);
        let [y2, y3] = digits(year % 100);
        let [m0, m1] = digits(month);
        let [d0, d1] = digits(day);
        let [h0, h1] = digits(seconds / 3600);
        let [n0, n1] = digits(seconds / 60 % 60);
        let [s0, s1] = digits(seconds % 60);
        let [_, t0] = digits(thousandths / 100);
        let [t1, t2] = digits(thousandths % 100);
        [
            y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1, b'T', h0, h1, b':', n0, n1, b':', s0, s1,
            b'.', t0, t1, t2, b'Z',
        ]
    }
}

/// The two decimal digits of a number below 100.
const fn digits(number: u32) -> [u8; 2] {
    [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]
}

/// Converts a number that is known to fit: 32-bit arithmetic is faster.
fn small(number: i64) -> u32 {
    u32::try_from(number).unwrap_or_default()
}

/// Year, month and day of a day counted from 1970-01-01 (proleptic Gregorian), within [`DAYS`].
fn civil(days: i64) -> (u32, u32, u32) {
    // Counted from 1 March of the year -400, so that nothing is negative and leap days come last.
    let shifted = small(days + 719_468 + 146_097);
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_shifted + 2) / 5 + 1;
    let month = if month_shifted < 10 { month_shifted + 3 } else { month_shifted - 9 };
    (year_of_era + era * 400 + u32::from(month <= 2) - 400, month, day)
}

/// The inverse of [`civil`].
const fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_shifted = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_shifted + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

impl Timestamp {
    /// Parses the text form.
    fn parse(bytes: &[u8]) -> Result<Self, TimestampError> {
        if bytes.len() != 24 {
            return Err(TimestampError);
        }
        let number = |at: usize, width: usize| -> Result<i64, TimestampError> {
            let digits = bytes.get(at..at + width).ok_or(TimestampError)?;
            digits.iter().try_fold(0, |sum, digit| match digit {
                b'0'..=b'9' => Ok(sum * 10 + i64::from(digit - b'0')),
                _ => Err(TimestampError),
            })
        };
        let days = days_from_civil(number(0, 4)?, number(5, 2)?, number(8, 2)?);
        let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
        let ms = ((hour * 60 + minute) * 60 + second) * 1000 + number(20, 3)?;
        let timestamp = Self::from_unix_ms(days * DAY_MS + ms)?;
        // The text form differs if a date, time or separator was not valid.
        if timestamp.text() == bytes { Ok(timestamp) } else { Err(TimestampError) }
    }
}

text_form! {
    Timestamp, TimestampError, |timestamp| timestamp.text(),
    "UTC time with milliseconds.",
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z$"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_times() {
        for (unix_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_770_000_000_123, "2026-02-02T02:40:00.123Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (-62_167_219_200_000, "0000-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(Timestamp::from_unix_ms(unix_ms).unwrap().to_string(), text);
            assert_eq!(text.parse::<Timestamp>().unwrap().unix_ms(), unix_ms);
        }
        assert_eq!(Timestamp::from_unix_ms(253_402_300_800_000), Err(TimestampError));
    }

    #[test]
    fn other_forms_are_refused() {
        for text in [
            "2026-02-30T00:00:00.000Z",
            "2026-02-02T24:00:00.000Z",
            "2026-02-02T23:59:60.000Z",
            "2026-02-02T02:40:00Z",
            "2026-02-02 02:40:00.123Z",
            "2026-02-02T02:40:00.123+",
            "2026-13-01T00:00:00.000Z",
            "2026-00-01T00:00:00.000Z",
            "+026-02-02T02:40:00.123Z",
        ] {
            assert_eq!(text.parse::<Timestamp>(), Err(TimestampError), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_millisecond_round_trips(ms in -62_167_219_200_000_i64..253_402_300_800_000) {
            let timestamp = Timestamp::from_unix_ms(ms).unwrap();
            prop_assert_eq!(timestamp.to_string().parse(), Ok(timestamp));
        }
    }
}
