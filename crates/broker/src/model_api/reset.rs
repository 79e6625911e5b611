//! When a limit ends: the forms in which services say it. All results are seconds since 1970.

use windlass_kernel::Timestamp;

type Headers<'a> = &'a [(&'a str, &'a [u8])];

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Numbers from here on are times, smaller ones are lengths; from `MILLISECONDS_FROM` on they are in
/// milliseconds.
const TIMES_FROM: f64 = 1e9;
const MILLISECONDS_FROM: f64 = 1e12;

/// When the client may ask again, from `retry-after` in its forms.
pub(super) fn retry_after(headers: Headers<'_>, now: u64) -> Option<u64> {
    let milliseconds = text(headers, "retry-after-ms").and_then(|value| number(&value));
    if let Some(milliseconds) = milliseconds {
        return Some(later(now, milliseconds / 1000.0));
    }
    moment(&text(headers, "retry-after")?, now)
}

/// When the limits of the headers are reset: the last of those that are used up, or else the first.
pub(super) fn limit_reset(headers: Headers<'_>, now: u64) -> Option<u64> {
    let mut resets = Vec::new();
    for (name, _) in headers {
        let (limit, used_up) = if let Some(limit) = name.strip_prefix("x-ratelimit-reset") {
            (limit, text(headers, &format!("x-ratelimit-remaining{limit}")).as_deref() == Some("0"))
        } else if let Some(limit) = name.strip_suffix("-reset") {
            let remaining = text(headers, &format!("{limit}-remaining"));
            let status = text(headers, &format!("{limit}-status"));
            (limit, remaining.as_deref() == Some("0") || status.as_deref() == Some("rejected"))
        } else {
            continue;
        };
        let of_limits = name.contains("ratelimit") && !limit.contains("overage");
        if let Some(at) = text(headers, name).filter(|_| of_limits).and_then(|at| moment(&at, now))
        {
            resets.push((at, used_up));
        }
    }
    let used_up = resets.iter().filter(|(_, used_up)| *used_up).map(|(at, _)| *at).max();
    used_up.or_else(|| resets.iter().map(|(at, _)| *at).min())
}

/// A time in any of its forms: seconds, a time, a date of HTTP or RFC 3339, or a length such as `6m0s`.
pub(super) fn moment(text: &str, now: u64) -> Option<u64> {
    if let Some(number) = number(text) {
        return Some(if number >= MILLISECONDS_FROM {
            whole(number / 1000.0)
        } else if number >= TIMES_FROM {
            whole(number)
        } else {
            later(now, number)
        });
    }
    http_date(text)
        .or_else(|| rfc3339(text))
        .or_else(|| length(text).map(|seconds| later(now, seconds)))
}

/// The length at the beginning of a text, in seconds: `11.05s`, `20ms`, `1h2m3s`.
pub(super) fn length(text: &str) -> Option<f64> {
    let mut rest = text.trim_start();
    let mut seconds = None;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, unit) = rest.split_at_checked(digits)?;
        let Some(number) = self::number(number) else { return seconds };
        let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];
        let (name, factor) = units.into_iter().find(|(name, _)| unit.starts_with(name))?;
        seconds = Some(number.mul_add(factor, seconds.unwrap_or(0.0)));
        rest = unit.strip_prefix(name)?;
    }
}

fn text(headers: Headers<'_>, name: &str) -> Option<String> {
    let (_, value) = headers.iter().find(|(found, _)| *found == name)?;
    Some(std::str::from_utf8(value).ok()?.trim().to_owned())
}

/// A plain decimal number.
fn number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|number: &f64| plain && number.is_finite())
}

fn later(now: u64, seconds: f64) -> u64 {
    now.saturating_add(whole(seconds))
}

/// Rounds up: asking too early costs another refusal.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, and no number here is negative"
)]
fn whole(seconds: f64) -> u64 {
    seconds.ceil() as u64
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<u64> {
    let words: Vec<&str> = text.split(' ').collect();
    let [_, day, month, year, time, "GMT"] = words.as_slice() else { return None };
    let month = MONTHS.iter().position(|name| name == month)? + 1;
    seconds(&format!("{year}-{month:02}-{day}"), time)
}

/// `2026-01-31T23:59:59Z`, with or without a fraction; another zone is calculated.
fn rfc3339(text: &str) -> Option<u64> {
    let (date, rest) = text.split_once(['T', 't'])?;
    let (time, rest) = rest.split_at_checked(8)?;
    let zone = rest.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let at = seconds(date, time)?;
    if matches!(zone, "Z" | "z") {
        return Some(at);
    }
    let (sign, zone) = zone.split_at_checked(1)?;
    let (hours, minutes) = zone.split_once(':')?;
    let offset = hours.parse::<u64>().ok()?.checked_mul(60)?.checked_add(minutes.parse().ok()?)?;
    let offset = offset.checked_mul(60)?;
    if sign == "+" { at.checked_sub(offset) } else { at.checked_add(offset) }
}

fn seconds(date: &str, time: &str) -> Option<u64> {
    let at: Timestamp = format!("{date}T{time}.000Z").parse().ok()?;
    u64::try_from(at.unix_ms() / 1000).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000_000;

    #[test]
    fn times_have_many_forms() {
        for (text, expected) in [
            ("0", Some(NOW)),
            ("7", Some(NOW + 7)),
            ("1.2", Some(NOW + 2)),
            ("1700000000", Some(1_700_000_000)),
            ("1700000000500", Some(1_700_000_001)),
            ("6m0s", Some(NOW + 360)),
            ("1h2m3.5s", Some(NOW + 3724)),
            ("20ms", Some(NOW + 1)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("2026-02-02T02:40:00Z", Some(1_770_000_000)),
            ("2026-02-02T02:40:00.123456Z", Some(1_770_000_000)),
            ("2026-02-02T04:40:00+02:00", Some(1_770_000_000)),
            ("2026-02-02T00:10:00-02:30", Some(1_770_000_000)),
            ("-1", None),
            ("soon", None),
            ("5 apples", None),
            ("Sun, 06 Nov 1994 08:49:37 CET", None),
            ("2026-02-30T00:00:00Z", None),
            ("inf", None),
            ("", None),
        ] {
            assert_eq!(moment(text, NOW), expected, "{text}");
        }
        assert_eq!(moment(&"9".repeat(300), NOW), Some(u64::MAX));
    }

    #[test]
    fn the_limit_that_is_used_up_counts() {
        let reset = |headers: &[(&str, &str)]| {
            let headers: Vec<(&str, &[u8])> =
                headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
            limit_reset(&headers, NOW)
        };
        let requests = ("anthropic-ratelimit-requests-reset", "2026-02-02T02:40:00Z");
        let tokens = ("anthropic-ratelimit-tokens-reset", "2026-02-02T02:41:00Z");
        assert_eq!(reset(&[requests, tokens]), Some(1_770_000_000));
        let empty = ("anthropic-ratelimit-tokens-remaining", "0");
        assert_eq!(reset(&[requests, tokens, empty]), Some(1_770_000_060));
        let windows = [
            ("anthropic-ratelimit-unified-5h-reset", "1770000000"),
            ("anthropic-ratelimit-unified-7d-reset", "1770500000"),
            ("anthropic-ratelimit-unified-7d-status", "rejected"),
            ("anthropic-ratelimit-unified-overage-reset", "1790000000"),
        ];
        assert_eq!(reset(&windows), Some(1_770_500_000));
        let open = [
            ("x-ratelimit-reset-requests", "1s"),
            ("x-ratelimit-remaining-requests", "59"),
            ("x-ratelimit-reset-tokens", "6m0s"),
            ("x-ratelimit-remaining-tokens", "0"),
        ];
        assert_eq!(reset(&open), Some(NOW + 360));
        assert_eq!(reset(&[("x-ratelimit-reset", "1700000000000")]), Some(1_700_000_000));
        assert_eq!(reset(&[("x-password-reset", "5")]), None);
    }
}
