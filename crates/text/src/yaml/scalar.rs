//! The type of an unquoted scalar.

use super::{Scalars, Value};

/// Words that YAML 1.1 reads as booleans, in any case.
const BOOLEANS: [&str; 6] = ["yes", "no", "on", "off", "true", "false"];

/// The value, or the type that some readers would give it.
pub fn resolve(text: &str, scalars: Scalars) -> Result<Value, &'static str> {
    let is_strict = scalars == Scalars::Unambiguous;
    match text {
        "" | "~" | "null" => Ok(Value::Null),
        "true" => Ok(Value::Bool(true)),
        "false" => Ok(Value::Bool(false)),
        _ if is_decimal(text) => Ok(Value::Number(text.to_owned())),
        _ if !is_strict && has_exponent(text) => Ok(Value::Number(text.to_owned())),
        _ if is_strict && BOOLEANS.iter().any(|word| word.eq_ignore_ascii_case(text)) => {
            Err("true or false")
        }
        _ if is_strict && text.eq_ignore_ascii_case("null") => Err("nothing"),
        _ if is_number_to_some(text) => Err("a number"),
        _ => Ok(Value::Text(text.to_owned())),
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Digits without leading zeros, with an optional minus and decimals.
fn is_decimal(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    is_digits(whole) && is_digits(decimals) && (whole == "0" || !whole.starts_with('0'))
}

/// A decimal number with an exponent, as in JSON.
fn has_exponent(text: &str) -> bool {
    text.split_once(['e', 'E']).is_some_and(|(digits, exponent)| {
        is_decimal(digits) && is_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))
    })
}

/// Whether some reader takes it for a number: `1_000`, `0x1f`, `007`, `1e3`, `+5`, `.5`, `12:30`.
fn is_number_to_some(text: &str) -> bool {
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
    fn a_scalar_has_the_type_that_every_reader_gives_it() {
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
            let value = resolve(text, Scalars::Unambiguous);
            assert_eq!(value.map(|value| value.type_name()), Ok(name), "{text:?}");
        }
        for text in [
            "yes", "No", "ON", "off", "True", "FALSE", "Null", "007", "1_000", "0x1F", "0o7",
            "0b1", "1e3", "1.5E-3", "+5", ".5", "5.", ".inf", "-.INF", ".NaN", "12:30", "1:30:00",
        ] {
            assert!(resolve(text, Scalars::Unambiguous).is_err(), "{text:?}");
        }
    }
}
