//! Tests that cannot be made on this machine.

use std::io::Write as _;

/// Set by `cargo xtask check`: the file that lists what was skipped.
const VARIABLE: &str = "WINDLASS_SKIPPED";

/// Says that a test is skipped, and why. The caller returns; `cargo xtask check` prints how many there were.
#[expect(clippy::print_stderr, reason = "a test says why it does nothing")]
pub fn skipped(reason: &str) {
    let thread = std::thread::current();
    let line = format!("{}: {reason}\n", thread.name().unwrap_or("a test"));
    eprint!("skipped {line}");
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    // Without the file the test has said it all the same.
    drop(file.and_then(|mut file| file.write_all(line.as_bytes())));
}
