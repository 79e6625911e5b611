//! What text without quotes stands for.

use super::Value;

/// What YAML 1.1 reads as true or false, beside what everyone does.
const DOUBTFUL: [&str; 6] = ["yes", "no", "on", "off", "true", "false"];

/// The value, or what some readers would take it for.
pub fn value(text: &str) -> Result<Value, &'static str> {
    match text {
        "" | "~" | "null" => Ok(Value::Null),
        "true" => Ok(Value::Bool(true)),
        "false" => Ok(Value::Bool(false)),
        _ if is_number(text) => Ok(Value::Number(text.to_owned())),
        _ if DOUBTFUL.iter().any(|word| word.eq_ignore_ascii_case(text)) => Err("true or false"),
        _ if text.eq_ignore_ascii_case("null") => Err("nothing"),
        _ if is_almost_number(text) => Err("a number"),
        _ => Ok(Value::Text(text.to_owned())),
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Digits without leading zeros, with an optional minus and decimals.
fn is_number(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    is_digits(whole) && is_digits(decimals) && (whole == "0" || !whole.starts_with('0'))
}

/// Whether another reader could see a number: `1_000`, `0x1f`, `007`, `1e3`, `+5`, `.5`, `12:30`.
fn is_almost_number(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text).to_ascii_lowercase();
    if matches!(text.as_str(), ".inf" | ".nan") {
        return true;
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            return digits.chars().all(|digit| digit == '_' || digit.is_digit(radix));
        }
    }
    let starts = text.trim_start_matches('.').starts_with(|first: char| first.is_ascii_digit());
    let plain = text.replace('_', "");
    let is_time = plain.contains(':') && plain.split(':').all(is_digits);
    starts && (is_time || plain.parse::<f64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_what_every_reader_takes_it_for() {
        for (text, name) in [
            ("", "nothing"),
            ("~", "nothing"),
            ("true", "true or false"),
            ("0", "a number"),
            ("-12.50", "a number"),
            ("abc", "text"),
            ("1.2.3", "text"),
            ("24h", "text"),
            ("-", "text"),
            ("...", "text"),
            ("nano", "text"),
            ("inf", "text"),
            ("y", "text"),
            ("a:b", "text"),
        ] {
            assert_eq!(value(text).map(|value| value.named()), Ok(name), "{text:?}");
        }
        for text in [
            "yes", "No", "ON", "off", "True", "FALSE", "Null", "007", "1_000", "0x1F", "0o7",
            "0b1", "1e3", "1.5E-3", "+5", ".5", "5.", ".inf", "-.INF", ".NaN", "12:30", "1:30:00",
        ] {
            assert!(value(text).is_err(), "{text:?}");
        }
    }
}
