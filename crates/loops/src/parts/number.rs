//! Numbers within limits; decimals are converted exactly.

use windlass_text::yaml::{Node, Value};

use crate::error::{Diagnostic, Problem, shown};
use crate::parts::fields::wrong;

/// The largest integer that canonical JSON represents exactly.
pub const SAFE_MAX: u64 = (1 << 53) - 1;

fn digits<'a>(node: &'a Node, key: &str) -> Result<&'a str, Diagnostic> {
    let Value::Number(text) = &node.value else { return Err(wrong(node, key, "a number")) };
    Ok(text)
}

/// A whole number from `min` to `max`.
pub fn whole(node: &Node, key: &'static str, min: u64, max: u64) -> Result<u64, Diagnostic> {
    let text = digits(node, key)?;
    if text.contains('.') {
        return Err(Problem::NotWhole { key, found: shown(text) }.at(node.position));
    }
    let number = text.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| {
        let range = format!("{min} to {max}");
        Problem::OutOfRange { key, range, found: shown(text) }.at(node.position)
    })
}

/// A whole number that fits 32 bits.
pub fn small(node: &Node, key: &'static str, max: u32) -> Result<u32, Diagnostic> {
    let number = whole(node, key, 1, u64::from(max))?;
    Ok(u32::try_from(number).unwrap_or(max))
}

/// How a decimal number in a file is converted to the integer that is recorded.
#[derive(Clone, Copy)]
pub struct Scale {
    /// How many decimals the number may have.
    pub decimals: u32,
    /// What 1 is recorded as; a multiple of `10^decimals`.
    pub factor: u64,
    /// The largest recorded number.
    pub max: u64,
}

/// A decimal number above zero, converted.
pub fn decimal(node: &Node, key: &'static str, scale: Scale) -> Result<u64, Diagnostic> {
    let text = digits(node, key)?;
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let fraction = decimals.trim_end_matches('0');
    if fraction.len() > scale.decimals as usize {
        let problem = Problem::Decimals { key, max: scale.decimals, found: shown(text) };
        return Err(problem.at(node.position));
    }
    let value = whole.parse::<u64>().ok().and_then(|whole| {
        let step = scale.factor / 10u64.pow(scale.decimals);
        let padded = format!("{fraction:0<width$}", width = scale.decimals as usize);
        let part = if padded.is_empty() { 0 } else { padded.parse::<u64>().ok()? };
        whole.checked_mul(scale.factor)?.checked_add(part.checked_mul(step)?)
    });
    value.filter(|value| (1..=scale.max).contains(value)).ok_or_else(|| {
        let range = format!("more than 0 and at most {}", scale.max / scale.factor);
        Problem::OutOfRange { key, range, found: shown(text) }.at(node.position)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_text::Position;

    const COST: Scale = Scale { decimals: 6, factor: 1_000_000, max: SAFE_MAX };
    const MINUTES: Scale = Scale { decimals: 3, factor: 60_000, max: SAFE_MAX };

    fn node(text: &str) -> Node {
        Node { position: Position::START, value: Value::Number(text.to_owned()) }
    }

    #[test]
    fn decimals_are_converted_exactly() {
        for (text, scale, expected) in [
            ("2.50", COST, 2_500_000),
            ("0.000001", COST, 1),
            ("0.1000000000", COST, 100_000),
            ("9007199254.740991", COST, SAFE_MAX),
            ("30", MINUTES, 1_800_000),
            ("0.5", MINUTES, 30_000),
            ("0.001", MINUTES, 60),
        ] {
            assert_eq!(decimal(&node(text), "x", scale).unwrap(), expected, "{text}");
        }
        for text in ["0", "0.0", "-1", "0.0000001", "9007199254.740992", "99999999999999999999"] {
            assert!(decimal(&node(text), "x", COST).is_err(), "{text}");
        }
    }
}
