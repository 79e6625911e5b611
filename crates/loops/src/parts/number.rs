//! Numbers within limits, decimals taken exactly.

use crate::error::{Fault, Problem, shown};
use crate::parts::shape::wrong;
use crate::yaml::{Node, Value};

/// The largest whole number that canonical JSON keeps.
pub const SAFE_MAX: u64 = (1 << 53) - 1;

fn digits<'a>(node: &'a Node, key: &str) -> Result<&'a str, Fault> {
    let Value::Number(text) = &node.value else { return Err(wrong(node, key, "a number")) };
    Ok(text)
}

/// A whole number from `least` to `most`.
pub fn whole(node: &Node, key: &'static str, least: u64, most: u64) -> Result<u64, Fault> {
    let text = digits(node, key)?;
    if text.contains('.') {
        return Err(Problem::NotWhole { key, found: shown(text) }.at(node.at));
    }
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| {
        let range = format!("{least} to {most}");
        Problem::OutOfRange { key, range, found: shown(text) }.at(node.at)
    })
}

/// A whole number that fits 32 bits.
pub fn small(node: &Node, key: &'static str, most: u32) -> Result<u32, Fault> {
    let number = whole(node, key, 1, u64::from(most))?;
    Ok(u32::try_from(number).unwrap_or(most))
}

/// What one unit of a decimal number is worth, and its limits.
#[derive(Clone, Copy)]
pub struct Unit {
    /// How many decimals the number may have.
    pub decimals: u32,
    /// What one is worth in the unit that is kept; a multiple of `10^decimals`.
    pub worth: u64,
    /// The most, in the unit that is kept.
    pub most: u64,
}

/// A decimal number above zero, in the unit that is kept.
pub fn decimal(node: &Node, key: &'static str, unit: Unit) -> Result<u64, Fault> {
    let text = digits(node, key)?;
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let fraction = decimals.trim_end_matches('0');
    if fraction.len() > unit.decimals as usize {
        let problem = Problem::Decimals { key, most: unit.decimals, found: shown(text) };
        return Err(problem.at(node.at));
    }
    let value = whole.parse::<u64>().ok().and_then(|whole| {
        let step = unit.worth / 10u64.pow(unit.decimals);
        let padded = format!("{fraction:0<width$}", width = unit.decimals as usize);
        let part = if padded.is_empty() { 0 } else { padded.parse::<u64>().ok()? };
        whole.checked_mul(unit.worth)?.checked_add(part.checked_mul(step)?)
    });
    value.filter(|value| (1..=unit.most).contains(value)).ok_or_else(|| {
        let range = format!("more than 0 and at most {}", unit.most / unit.worth);
        Problem::OutOfRange { key, range, found: shown(text) }.at(node.at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Place;

    const COST: Unit = Unit { decimals: 6, worth: 1_000_000, most: SAFE_MAX };
    const MINUTES: Unit = Unit { decimals: 3, worth: 60_000, most: SAFE_MAX };

    fn node(text: &str) -> Node {
        Node { at: Place { line: 1, column: 1 }, value: Value::Number(text.to_owned()) }
    }

    #[test]
    fn decimals_are_taken_exactly() {
        for (text, unit, expected) in [
            ("2.50", COST, 2_500_000),
            ("0.000001", COST, 1),
            ("0.1000000000", COST, 100_000),
            ("9007199254.740991", COST, SAFE_MAX),
            ("30", MINUTES, 1_800_000),
            ("0.5", MINUTES, 30_000),
            ("0.001", MINUTES, 60),
        ] {
            assert_eq!(decimal(&node(text), "x", unit).unwrap(), expected, "{text}");
        }
        for text in ["0", "0.0", "-1", "0.0000001", "9007199254.740992", "99999999999999999999"] {
            assert!(decimal(&node(text), "x", COST).is_err(), "{text}");
        }
    }
}
