//! Makes commits and moves refs.

use super::error::GitCause;
use super::signing::Signing;
use super::{CommitId, Git, GitError, TreeId, id_of};
use crate::snapshot::SNAPSHOT_REFS;

/// The author or committer of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// A person or program.
    pub name: String,
    /// May be empty.
    pub email: String,
}

/// The result of moving a ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefUpdate {
    /// It was at the expected commit and was moved.
    Updated,
    /// It was at the new commit already.
    AlreadyThere,
    /// It is at another commit and was not moved.
    Moved {
        /// The commit it is at; `None` when it does not exist.
        actual: Option<CommitId>,
    },
}

impl Git {
    /// Returns the name and email of the user's settings; Windlass where there are none.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn identity(&self) -> Result<Signature, GitError> {
        let setting = |name: &str, default: &str| {
            let default = format!("--default={default}");
            let found = self
                .read("read the settings")
                .args(["config", &default, "--get", name])
                .output()?;
            Ok::<_, GitError>(String::from_utf8_lossy(&found).trim().to_owned())
        };
        let name = setting("user.name", "")?;
        let name = if name.is_empty() { "Windlass".to_owned() } else { name };
        Ok(Signature { name, email: setting("user.email", "")? })
    }

    /// Makes a commit object; no ref changes.
    ///
    /// The same arguments give the same commit unless it is signed, so that making it again after a crash is harmless.
    ///
    /// # Errors
    /// [`GitError`], also when a name or the message cannot be part of a commit.
    pub fn commit_tree(
        &self,
        tree: &TreeId,
        parents: &[CommitId],
        message: &str,
        author: &Signature,
        committer: &Signature,
        time_unix_s: u64,
    ) -> Result<CommitId, GitError> {
        self.commit_tree_signed_by(
            self.signing.as_deref(),
            tree,
            parents,
            message,
            [author, committer],
            time_unix_s,
        )
    }

    /// Makes a commit object with a signature, or without one.
    pub(super) fn commit_tree_signed_by(
        &self,
        signing: Option<&Signing>,
        tree: &TreeId,
        parents: &[CommitId],
        message: &str,
        [author, committer]: [&Signature; 2],
        time_unix_s: u64,
    ) -> Result<CommitId, GitError> {
        let operation = match signing {
            Some(_) => "make the signed commit that `commit.gpgSign` of your settings asks for",
            None => "make the commit",
        };
        for part in [&author.name, &author.email, &committer.name, &committer.email] {
            // Git would drop these characters silently, so that two names become one.
            if part.contains(|character: char| character.is_control() || "<>".contains(character))
                || part.trim() != part
            {
                return Err(GitError::refused(operation, format!("`{part}` cannot sign a commit")));
            }
        }
        if message.contains('\0') {
            return Err(GitError::refused(operation, "the message holds a NUL character"));
        }
        let date = format!("@{time_unix_s} +0000");
        let make = match signing {
            Some(signing) => signing.let_sign(self.write(operation)),
            None => self.write(operation),
        };
        let sign = if signing.is_some() { "--gpg-sign" } else { "--no-gpg-sign" };
        let mut make = make
            .env("GIT_AUTHOR_NAME", &author.name)
            .env("GIT_AUTHOR_EMAIL", &author.email)
            .env("GIT_AUTHOR_DATE", &date)
            .env("GIT_COMMITTER_NAME", &committer.name)
            .env("GIT_COMMITTER_EMAIL", &committer.email)
            .env("GIT_COMMITTER_DATE", &date)
            .args(["commit-tree", sign, tree.as_str(), "-F", "-"]);
        for parent in parents {
            make = make.args(["-p", parent.as_str()]);
        }
        id_of(operation, &make.stdin(message).output()?)
    }

    /// Moves a ref from the expected commit to a new one; `None` means that it must not exist yet.
    /// `name` is a full name (`refs/…`) or `HEAD`, which moves the current branch.
    ///
    /// # Errors
    /// [`GitError`], also when the ref is locked by another process.
    pub fn update_ref(
        &self,
        name: &str,
        new: &CommitId,
        expected: Option<&CommitId>,
    ) -> Result<RefUpdate, GitError> {
        let operation = "move the ref";
        if name != "HEAD" && !name.starts_with("refs/") {
            return Err(GitError::refused(operation, format!("`{name}` is no full name of a ref")));
        }
        self.move_ref(operation, &[name], new, expected)
    }

    /// Moves a detached head from the expected commit to a new one. A branch that is checked out meanwhile is not
    /// moved.
    ///
    /// # Errors
    /// [`GitError`], also when it is locked by another process.
    pub fn move_detached_head(
        &self,
        new: &CommitId,
        expected: &CommitId,
    ) -> Result<RefUpdate, GitError> {
        self.move_ref("move the head", &["--no-deref", "HEAD"], new, Some(expected))
    }

    /// Moves a ref; its name is the last of the words.
    fn move_ref(
        &self,
        operation: &'static str,
        words: &[&str],
        new: &CommitId,
        expected: Option<&CommitId>,
    ) -> Result<RefUpdate, GitError> {
        let name = words.last().copied().unwrap_or_default();
        let before = self.read_ref(name)?;
        if before.as_ref() == Some(new) {
            return Ok(RefUpdate::AlreadyThere);
        }
        if before.as_ref() != expected {
            return Ok(RefUpdate::Moved { actual: before });
        }
        let zeros = "0".repeat(new.as_str().len());
        let output = self
            .write(operation)
            .env("GIT_COMMITTER_NAME", "windlass")
            .env("GIT_COMMITTER_EMAIL", "")
            .args(["update-ref", "-m", "windlass"])
            .args(words)
            .arg(new.as_str())
            .arg(expected.map_or(zeros.as_str(), CommitId::as_str))
            .run()?;
        if output.code == Some(0) {
            return Ok(RefUpdate::Updated);
        }
        // Git compares and swaps; its message about a difference is not parsed, so read the ref again.
        let after = self.read_ref(name)?;
        if after.as_ref() == Some(new) {
            Ok(RefUpdate::AlreadyThere)
        } else if after.as_ref() == expected {
            Err(output.failure(operation, self.root()))
        } else {
            Ok(RefUpdate::Moved { actual: after })
        }
    }

    /// Keeps a commit that no branch has yet: git removes nothing that a ref names. A commit that the same name has
    /// kept before is not kept any longer.
    ///
    /// # Errors
    /// [`GitError`], also when there is no such commit.
    pub fn keep_commit(&self, name: &str, commit: &CommitId) -> Result<(), GitError> {
        let operation = "keep the commit";
        let reference = format!("{SNAPSHOT_REFS}{name}");
        let git = self.write(operation).args(["-c", "core.logAllRefUpdates=false"]);
        git.args(["update-ref", "--no-deref", &reference, commit.as_str()]).output()?;
        if self.commit_exists(commit)? {
            return Ok(());
        }
        // Git has removed it in that very moment. A ref to nothing would stop each later `git gc`.
        self.release_commit(name)?;
        let line = format!("nonexistent object {}", commit.as_str());
        Err(GitError::new(operation, GitCause::Exit { how: "failed".to_owned(), line }))
    }

    /// Ends what [`Git::keep_commit`] began; a name that keeps nothing is no error.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn release_commit(&self, name: &str) -> Result<(), GitError> {
        let reference = format!("{SNAPSHOT_REFS}{name}");
        let git = self.write("release the commit").args(["update-ref", "--no-deref", "-d"]);
        git.arg(&reference).output().map(drop)
    }

    /// Whether a commit exists, and its tree with it.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn commit_exists(&self, commit: &CommitId) -> Result<bool, GitError> {
        let tree = format!("{}^{{tree}}", commit.as_str());
        Ok(self.read("look for the commit").args(["cat-file", "-e", &tree]).run()?.code == Some(0))
    }

    fn read_ref(&self, name: &str) -> Result<Option<CommitId>, GitError> {
        self.commit_named("read the ref", name)
    }
}
