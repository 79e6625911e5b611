//! Files that usually hold secrets, in the index and in the work tree.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Git, GitError, portions, split_once};
use crate::hidden_files::is_secret_file;

impl Git {
    /// Takes those of these files out of the user's index that the current commit does not have, and returns them. The paths are
    /// relative to this folder, the top of the work tree.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn unstage_uncommitted(&self, paths: &[String]) -> Result<Vec<String>, GitError> {
        let operation = "take files out of the index";
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let mut staged = self.tracked(paths)?;
        if staged.is_empty() {
            return Ok(staged);
        }
        let mut committed = BTreeSet::new();
        for staged in portions(&staged) {
            let git = self.read(operation);
            let git = git.args(["ls-tree", "-r", "-z", "--name-only", "--full-tree", "HEAD", "--"]);
            // Before the first commit there are none.
            let listed = git.args(staged).run()?.stdout;
            committed.extend(listed.split(|byte| *byte == 0).map(<[u8]>::to_vec));
        }
        staged.retain(|path| !committed.contains(path.as_bytes()));
        if !staged.is_empty() {
            let git =
                self.write(operation).args(["update-index", "--force-remove", "-z", "--stdin"]);
            git.stdin(staged.join("\0").into_bytes()).output()?;
        }
        Ok(staged)
    }

    /// Gives these paths, and what is below them, the entries in the user's index that another index has, or none. The paths are
    /// relative to this folder, the top of the work tree.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn stage_as_in(&self, other: Option<&Path>, paths: &[String]) -> Result<(), GitError> {
        let operation = "put entries of the index back";
        for paths in portions(paths) {
            let list = || self.read(operation).args(["ls-files", "-s", "-z", "--"]).args(paths);
            let now = list().output()?;
            let before = match other {
                Some(other) => list().env("GIT_INDEX_FILE", other).output()?,
                None => Vec::new(),
            };
            if now == before {
                continue;
            }
            let mut lines = Vec::new();
            for entry in now.split(|byte| *byte == 0) {
                if let Some((facts, path)) = split_once(entry, b'\t') {
                    let digits = facts.split(|byte| *byte == b' ').nth(1).unwrap_or_default().len();
                    lines.extend([format!("0 {}\t", "0".repeat(digits)).as_bytes(), path].concat());
                    lines.push(0);
                }
            }
            lines.extend(before);
            let git = self.write(operation).args(["update-index", "-z", "--index-info"]);
            git.stdin(lines).output()?;
        }
        Ok(())
    }

    /// The untracked files of this folder that no tree has since they usually hold secrets, although git does not ignore them; relative to the top.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn left_out(&self) -> Result<Vec<String>, GitError> {
        let operation = "list untracked files";
        let top = self.at_top(operation)?;
        let listed = top.read(operation).args(["ls-files", "-z", "--others", "--exclude-standard"]);
        let listed = listed.output()?;
        let counts = |path: &&[u8]| top.counts(path) && !self.omitted.contains(*path);
        let paths = listed.split(|byte| *byte == 0).filter(counts);
        let secrets = paths.filter(|path| is_secret_file(path));
        Ok(secrets.map(|path| String::from_utf8_lossy(path).into_owned()).collect())
    }
}
