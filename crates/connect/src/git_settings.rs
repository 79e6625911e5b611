//! The settings of a repository as a cell shows them: without credentials.

use std::path::{Path, PathBuf};

use windlass_cell::{Access, GitPaths, Mount, has_secret};

use crate::call_failure::CallFailure;
use crate::pinned::ShownFiles;

/// The files of settings in a git directory.
const NAMES: [&str; 2] = ["config", "config.worktree"];
/// How deep folders of submodules are searched.
const MODULES_DEPTH_MAX: usize = 16;

impl ShownFiles {
    /// Shows the settings of a repository that hold credentials without these.
    pub fn without_credentials(
        &mut self,
        parent: &Path,
        git: &GitPaths,
    ) -> Result<(), CallFailure> {
        let mut folders = vec![git.common.clone(), git.directory.clone()];
        modules(&git.common.join("modules"), 0, &mut folders);
        folders.dedup();
        for path in folders.iter().flat_map(|folder| NAMES.map(|name| folder.join(name))) {
            let cannot = |error: &std::io::Error| {
                CallFailure::sandbox(format!("cannot read `{}`: {error}", path.display()))
            };
            if !path.symlink_metadata().is_ok_and(|found| found.is_file()) {
                continue;
            }
            let bytes = std::fs::read(&path).map_err(|error| cannot(&error))?;
            let text = String::from_utf8_lossy(&bytes);
            if !has_secret(&text) {
                continue;
            }
            let from = self.folder("settings-", parent)?.join("config");
            std::fs::write(&from, without_credentials(&text)).map_err(|error| cannot(&error))?;
            self.mounts.push(Mount::BindAt { from, path, access: Access::Read });
        }
        Ok(())
    }
}

fn modules(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    for directory in folders.map(|entry| entry.path()).filter(|_| depth < MODULES_DEPTH_MAX) {
        if directory.join("HEAD").symlink_metadata().is_ok() {
            modules(&directory.join("modules"), depth + 1, found);
            found.push(directory);
        } else {
            modules(&directory, depth + 1, found);
        }
    }
}

/// The text without lines that hold credentials, and addresses without their logins. A section whose head holds one is left out.
fn without_credentials(text: &str) -> String {
    let (mut shown, mut is_left_out) = (String::new(), false);
    let mut lines = text.lines();
    while let Some(first) = lines.next() {
        let mut line = first.to_owned();
        // A line that goes on is one with what follows.
        while line.ends_with('\\')
            && let Some(next) = lines.next()
        {
            line.pop();
            line.push_str(next);
        }
        if line.trim_start().starts_with('[') {
            is_left_out = has_secret(&line);
        }
        if is_left_out {
            continue;
        }
        let line = if has_secret(&line) { without_login(&line) } else { line };
        if !has_secret(&line) {
            shown.push_str(&line);
            shown.push('\n');
        }
    }
    shown
}

/// A line whose addresses have no logins.
fn without_login(line: &str) -> String {
    let mut parts = line.split("://");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|char: char| char == '/' || char == '"' || char.is_whitespace());
        let (host, rest) = part.split_at(end.unwrap_or(part.len()));
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        shown.push_str("://");
        shown.push_str(host);
        shown.push_str(rest);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_taken_out_and_the_rest_stays() {
        let text = "[core]\n\tbare = false\n[http \"https://x\"]\n\textraheader = AUTHORIZATION: \\\n  basic SECRET\n\
                    \tsslVerify = true\n[remote \"origin\"]\n\turl = https://me:SECRET@example.org/a.git\n\
                    \tfetch = +refs/heads/*:refs/remotes/origin/*\n[url \"https://SECRET@example.org/\"]\n\
                    \tinsteadOf = ex:\n[branch \"main\"]\n\tremote = origin\n";
        let shown = without_credentials(text);
        let expected = "[core]\n\tbare = false\n[http \"https://x\"]\n\tsslVerify = true\n[remote \"origin\"]\n\
                        \turl = https://example.org/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
                        [branch \"main\"]\n\tremote = origin\n";
        assert_eq!(shown, expected);
        assert_eq!(without_credentials("a = \\"), "a = \\\n");
    }
}
