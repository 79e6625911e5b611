//! The stage `browser`: the dashboard in Debian's browser.

use std::path::Path;

use anyhow::Result;

use crate::{cargo, memory, packages, tools};

/// The tests that need a browser, for cargo-nextest.
pub const TESTS: &str = "binary_id(windlass::cli) & test(/^browser::/)";

/// Installs the browser where that is possible, and runs the tests that need it.
///
/// # Errors
/// If a test fails, or the browser is missing.
pub fn check(root: &Path) -> Result<()> {
    tools::require_browser()?;
    packages::install(root, "browser", |_| Ok(()))?;
    let mut command = if tools::has_nextest() {
        let mut command = cargo::nextest(root);
        command.args(["-E", TESTS]);
        command
    } else {
        cargo::checked(root, &["test", "--workspace", "--test", "cli", "browser::"])
    };
    // A browser or a package that is missing now is a failure.
    command.env("WINDLASS_TEST_BROWSER", root.join("target").join("browser"));
    cargo::run(&mut memory::with_temporary_folder(command))
}
