//! How much random work a test does: a fixed amount in `cargo xtask check`, and ever more of it, with
//! fresh seeds, in `cargo xtask soak`.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// The variable in which proptest looks for a seed.
const PROPERTY_SEED: &str = "PROPTEST_RNG_SEED";
/// Set by `cargo xtask soak`: `SCALE:SEED`.
const VARIABLE: &str = "WINDLASS_SOAK";

/// Returns how many rounds a test makes: `count`, times the scale of a soak.
#[must_use]
pub fn rounds(count: u32) -> u32 {
    given().map_or(count, |(scale, _)| count.saturating_mul(scale))
}

/// Returns the seed of a test: that of a soak, or `fixed`. A test names it when it fails.
#[must_use]
pub fn seed(fixed: u64) -> u64 {
    given().map_or(fixed, |(_, seed)| seed)
}

/// Returns the points at which a sweep breaks something off: all of them in a soak, one of every `of` in a check,
/// and others in the next check.
pub fn points(of: u32) -> impl Iterator<Item = u32> {
    let (first, step) = match given() {
        Some(_) => (0, 1),
        None => (property_seed() % u64::from(of.max(1)), of.max(1)),
    };
    let (first, step) = (u32::try_from(first).unwrap_or_default(), usize::try_from(step));
    (1 + first..).step_by(step.unwrap_or(1))
}

/// Returns what a check does of something that takes long: so many of all, and others in the next check; a soak does all.
/// Tests that give different numbers choose differently in one check.
#[must_use]
pub fn chosen<T: Clone>(all: &[T], count: usize, number: u64) -> Vec<T> {
    if given().is_some() {
        return all.to_vec();
    }
    let length = u64::try_from(all.len().max(1)).unwrap_or(u64::MAX);
    let first = property_seed().wrapping_add(number) % length;
    let first = usize::try_from(first).unwrap_or_default();
    all.iter().cycle().skip(first).take(count.min(all.len())).cloned().collect()
}

/// Whether this is a soak, which also does what takes as long as a time-out of minutes.
#[must_use]
pub fn is_on() -> bool {
    given().is_some()
}

/// Returns the seed of a property test: that of proptest's own variable, or a fresh one. It is printed, so
/// that a test that fails names it.
#[must_use]
#[expect(clippy::print_stdout, reason = "the output of a test is shown when it fails")]
pub fn property_seed() -> u64 {
    let given = std::env::var(PROPERTY_SEED).ok();
    let seed = given.map_or_else(
        || RandomState::new().build_hasher().finish(),
        |text| text.parse().unwrap_or_else(|_| wrong_seed(&text)),
    );
    println!("to repeat it: {PROPERTY_SEED}={seed}");
    seed
}

#[expect(clippy::panic, reason = "a test must not use another seed than the one that was given")]
fn wrong_seed(text: &str) -> ! {
    panic!("{PROPERTY_SEED} is `{text}`, not a number")
}

fn given() -> Option<(u32, u64)> {
    let text = std::env::var(VARIABLE).ok()?;
    Some(parse(&text).unwrap_or_else(|| wrong(&text)))
}

fn parse(text: &str) -> Option<(u32, u64)> {
    let (scale, seed) = text.split_once(':')?;
    Some((scale.parse().ok()?, seed.parse().ok()?))
}

#[expect(clippy::panic, reason = "a soak that tests nothing must not pass")]
fn wrong(text: &str) -> ! {
    panic!("{VARIABLE} is `{text}`, not `SCALE:SEED`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_has_one_of_so_many_points() {
        let some: Vec<u32> = points(3).take(3).collect();
        assert!((1..=3).contains(&some[0]), "{some:?}");
        assert_eq!([some[1], some[2]], [some[0] + 3, some[0] + 6]);
    }

    #[test]
    fn a_check_does_some_of_all_and_each_only_once() {
        let all = ["a", "b", "c", "d"];
        for number in 0..8 {
            let some = chosen(&all, 3, number);
            let different: std::collections::BTreeSet<_> = some.iter().collect();
            assert_eq!((some.len(), different.len()), (3, 3), "{some:?}");
        }
        assert_eq!(chosen(&all, 9, 0).len(), 4);
        assert_eq!(chosen(&[0; 0], 3, 0), [0; 0]);
    }

    #[test]
    fn the_variable_has_a_scale_and_a_seed() {
        assert_eq!(parse("3:18446744073709551615"), Some((3, u64::MAX)));
        for wrong in ["", "3", "3:", ":7", "x:7", "-1:7"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
