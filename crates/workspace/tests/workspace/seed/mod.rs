//! The seed of a property test, printed so that a test that fails names it.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use proptest::test_runner::{Config, RngSeed};

/// The variable in which proptest looks for a seed.
const VARIABLE: &str = "PROPTEST_RNG_SEED";

/// A configuration with one part in so many of the usual cases.
#[expect(clippy::print_stdout, reason = "the output of a test is shown when it fails")]
pub fn config(divisor: u32) -> Config {
    let default = Config::default();
    let seed = match default.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => RandomState::new().build_hasher().finish(),
    };
    println!("to repeat it: {VARIABLE}={seed}");
    Config {
        cases: default.cases / divisor,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        ..default
    }
}
