//! What tests need and products do not: builders of plans and runs, a clock, fakes, a real MCP server
//! that counts what it executes, a world in memory in which gateways live and crash, and the way to
//! binaries that cargo builds beside the tests.
//!
//! It may use anything and is only ever a dev-dependency: it is never shipped.

use std::path::PathBuf;
use std::time::{Duration, Instant};

#[cfg(feature = "engine")]
pub mod engine;
#[cfg(feature = "gateway")]
pub mod gateway;
#[cfg(feature = "mcp-server")]
pub mod mcp_server;
#[cfg(feature = "plans")]
pub mod people;
#[cfg(feature = "plans")]
pub mod plans;
mod random;
#[cfg(feature = "gateway")]
mod run_writer;
mod skipped;
pub mod soak;
#[cfg(feature = "tamper")]
mod tamper;

pub use random::Random;
#[cfg(feature = "gateway")]
pub use run_writer::{RunWriter, recorded_events};
pub use skipped::skipped;
#[cfg(feature = "tamper")]
pub use tamper::tamper;

/// Adds the people whom a command line names after `--by`, with the command that `windlass` makes.
pub fn add_people(
    args: &[&str],
    state_root: &std::path::Path,
    windlass: impl Fn(&[&str]) -> std::process::Command,
) {
    for words in args.windows(2) {
        let [option, name] = words else { continue };
        let known = std::fs::read_to_string(state_root.join(".people/people.json"));
        let is_known = known.is_ok_and(|text| text.contains(&format!("\"name\":\"{name}\"")));
        if *option == "--by" && !is_known {
            // A name that is not valid is refused, which is then seen at the command itself.
            drop(windlass(&["people", "add", name]).output());
        }
    }
}

/// Waits for something that another process or thread must make true, for at most a minute.
///
/// # Panics
/// When it does not become true in time.
#[track_caller]
pub fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Finds an example that cargo built in the same profile as the running test.
///
/// # Panics
/// When it is not there.
#[must_use]
#[expect(clippy::panic, reason = "a test cannot go on without it")]
pub fn example_binary(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap_or_default();
    let profile = tests.parent().and_then(std::path::Path::parent).unwrap_or(&tests);
    let path = profile.join("examples").join(name);
    if !path.is_file() {
        panic!("no example `{name}` at `{}`: build with `cargo build --examples`", path.display());
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "no example `missing`")]
    fn a_missing_example_is_named() {
        let _ = example_binary("missing");
    }
}
