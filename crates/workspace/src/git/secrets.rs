//! Files that usually hold secrets, in the index and in the work tree.

use std::collections::BTreeSet;

use super::{Git, GitError};
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
        let git = self.read(operation).args(["ls-tree", "-r", "-z", "--name-only", "--full-tree"]);
        // Before the first commit there are none.
        let committed = git.args(["HEAD", "--"]).args(&staged).run()?.stdout;
        let committed: BTreeSet<&[u8]> = committed.split(|byte| *byte == 0).collect();
        staged.retain(|path| !committed.contains(path.as_bytes()));
        if !staged.is_empty() {
            let git =
                self.write(operation).args(["update-index", "--force-remove", "-z", "--stdin"]);
            git.stdin(staged.join("\0").into_bytes()).output()?;
        }
        Ok(staged)
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
