//! Packages of npm that tests need: those of a folder `xtask/NAME`, with versions and digests in its list.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::cargo;

/// The version of Schemathesis that tests the API.
const SCHEMATHESIS: &str = "4.32.5";

/// The list of packages with their versions and digests, written without the address of a registry.
const LOCK: &str = "package-lock.json";

/// Installs the packages of `xtask/NAME` into the user's cache, unless they are there, and links `target/NAME` to them.
/// `finish` completes a new installation.
///
/// # Errors
/// If they cannot be installed.
pub fn install(root: &Path, name: &str, finish: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let source = root.join("xtask").join(name);
    let folder = cache(name)?.join(digest(&source.join(LOCK))?);
    if !folder.exists() {
        // Complete folders only: what is interrupted has another name.
        let unfinished = folder.with_extension("unfinished");
        if unfinished.exists() {
            std::fs::remove_dir_all(&unfinished).context("remove an interrupted installation")?;
        }
        install_into(&unfinished, &source)?;
        finish(&unfinished)?;
        std::fs::rename(&unfinished, &folder).context("name what is installed")?;
    }
    let link = root.join("target").join(name);
    std::fs::create_dir_all(root.join("target")).context("create `target`")?;
    if std::fs::read_link(&link).is_ok() {
        std::fs::remove_file(&link).context("remove the link to other packages")?;
    }
    std::os::unix::fs::symlink(&folder, &link)
        .with_context(|| format!("link `target/{name}` to the packages"))
}

/// Installs Schemathesis into the user's cache, unless it is there; returns the program.
///
/// # Errors
/// If it cannot be installed.
pub fn schemathesis() -> Result<PathBuf> {
    let folder = cache("schemathesis")?.join(SCHEMATHESIS);
    let program = folder.join("bin").join("st");
    if !program.exists() {
        // Programs of a virtual environment name its folder, so it is made where it stays.
        if folder.exists() {
            std::fs::remove_dir_all(&folder).context("remove an interrupted installation")?;
        }
        cargo::run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        let package = format!("schemathesis=={SCHEMATHESIS}");
        let pip = folder.join("bin").join("pip");
        // The program comes last, after all that it needs.
        cargo::run(Command::new(pip).args(["install", "--quiet", &package]))?;
    }
    Ok(program)
}

fn install_into(folder: &Path, source: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).context("create the folder of the packages")?;
    for file in ["package.json", LOCK] {
        std::fs::copy(source.join(file), folder.join(file))
            .with_context(|| format!("copy `{file}`"))?;
    }
    // Not `npm ci`: it refuses a list that lacks the packages for other systems, which not every
    // registry has. What is in the list is installed as it says, by version and digest.
    let options = ["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"];
    cargo::run(Command::new("npm").args(options).current_dir(folder))
}

/// Where installed packages are kept from one clone to the next.
pub fn cache(name: &str) -> Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let caches = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let caches = caches.context("neither `XDG_CACHE_HOME` nor `HOME` is set")?;
    Ok(caches.join(format!("windlass-{name}")))
}

/// The digest of a file, by git, which is there anyway.
///
/// # Errors
/// If git cannot read it.
pub fn digest(file: &Path) -> Result<String> {
    let output = Command::new("git").arg("hash-object").arg(file).output().context("run `git`")?;
    let digest = String::from_utf8(output.stdout).context("read what `git hash-object` printed")?;
    let digest = digest.trim();
    ensure!(output.status.success() && !digest.is_empty(), "`git hash-object` failed");
    Ok(digest.to_owned())
}
