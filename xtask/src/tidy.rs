//! `cargo xtask tidy`: the rules that no compiler checks.

mod error_pages;
mod layers;
mod named_tests;
mod sources;
mod traits;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::cargo;

/// Checks the whole repository and reports all problems at once.
///
/// # Errors
/// If a rule is broken, or the repository cannot be read.
pub fn run(root: &Path) -> Result<()> {
    let metadata = cargo::metadata(root, &["--no-deps"])?;
    let mut problems = layers::problems(&metadata);
    let mut traits = traits::Check::default();
    let mut tests = named_tests::Check::default();
    for path in files(root)? {
        // A file may be deleted but not yet committed, or it is not text.
        let Ok(text) = std::fs::read_to_string(root.join(&path)) else { continue };
        problems.extend(sources::problems(&path, &text));
        traits.add(&path, &text);
        tests.add(&path, &text);
    }
    problems.extend(traits.problems());
    problems.extend(tests.problems());
    for path in layers::crate_roots(&metadata) {
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("read `{}`", path.display()))?;
        problems.extend(sources::missing_header(path.strip_prefix(root).unwrap_or(&path), &text));
    }
    problems.extend(error_pages::problems(&error_pages::codes(root)?, &error_pages::read(root)?));
    for problem in &problems {
        eprintln!("tidy: {problem}");
    }
    if !problems.is_empty() {
        bail!("{} problem(s) to tidy", problems.len());
    }
    Ok(())
}

/// The repository's files: those that git tracks or would track or, without git, all.
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
