//! Rules of the house that no compiler checks.

mod layers;
mod pages;
mod sources;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

/// Checks the whole repository and lists everything that is wrong at once.
///
/// # Errors
/// When a rule is broken, or the repository cannot be read.
pub fn run(root: &Path) -> Result<()> {
    let metadata = metadata(root)?;
    let mut problems = layers::edges(&metadata);
    problems.extend(layers::purity(&metadata));
    for path in files(root)? {
        // What is deleted but not yet committed is gone; what is not text is not ours to read.
        let Ok(text) = std::fs::read_to_string(root.join(&path)) else { continue };
        problems.extend(sources::problems(&path, &text));
    }
    for path in layers::crate_roots(&metadata) {
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("read `{}`", path.display()))?;
        problems.extend(sources::opening(path.strip_prefix(root).unwrap_or(&path), &text));
    }
    problems.extend(pages::problems(&pages::read(root)?));
    if problems.is_empty() {
        return Ok(());
    }
    for problem in &problems {
        eprintln!("tidy: {problem}");
    }
    bail!("{} thing(s) to tidy", problems.len())
}

fn metadata(root: &Path) -> Result<Value> {
    let output = Command::new(crate::cargo())
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(root)
        .output()
        .context("run `cargo metadata`")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`cargo metadata` failed: {errors}");
    serde_json::from_slice(&output.stdout).context("read what `cargo metadata` says")
}

/// The repository's files: what git tracks or would, or without git whatever is there.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output();
    if let Ok(output) = listed
        && output.status.success()
    {
        let names = String::from_utf8_lossy(&output.stdout);
        return Ok(names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect());
    }
    let mut found = Vec::new();
    walk(root, Path::new(""), &mut found)?;
    Ok(found)
}

fn walk(root: &Path, below: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let folder = root.join(below);
    let entries =
        std::fs::read_dir(&folder).with_context(|| format!("list `{}`", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let path = below.join(&name);
        if entry.file_type()?.is_dir() {
            if name != "target" && name != ".git" && name != "node_modules" {
                walk(root, &path, found)?;
            }
        } else {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_repository_is_listed_with_and_without_git() {
        let root = crate::root();
        let mut walked = Vec::new();
        super::walk(&root, std::path::Path::new(""), &mut walked).unwrap();
        let here = std::path::PathBuf::from("xtask/src/tidy.rs");
        assert!(walked.contains(&here));
        assert!(super::files(&root).unwrap().contains(&here));
    }
}
