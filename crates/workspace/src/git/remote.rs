//! The repository that a branch is pushed to.
//!
//! Only these operations speak to other machines. What the repository's own settings could name as a program (an ssh
//! command, a credential helper) is not taken from them: those of the user and the system are.

use std::ffi::OsString;

use super::invoke::Invocation;
use super::merge::CommitMerge;
use super::{CommitId, Git, GitError, RefUpdate, Signature, TreeId, id_of, path_of};

/// The protocols that may be spoken.
const PROTOCOLS: &str = "https:ssh:file";
/// What is started at the other side, whatever the settings name.
const UPLOAD: &str = "--upload-pack=git-upload-pack";
/// The most commits that are put on top of those of others.
const COMMITS_MAX: usize = 1000;

/// The branch of another repository that a branch is pushed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// The name of the other repository.
    pub remote: String,
    /// Its branch, without `refs/heads/`.
    pub branch: String,
}

/// What became of commits that were to be put on top of those of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rebased {
    /// They are already there.
    Already,
    /// The last of them, which no branch has yet.
    Done(CommitId),
    /// They contradict each other in these files.
    Conflict(Vec<std::path::PathBuf>),
}

/// What became of a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The other repository has the commits.
    Done,
    /// It does not take them, for this reason.
    Refused(String),
}

impl Git {
    /// The branch that the current branch is pushed to, if its settings name one.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn upstream(&self) -> Result<Option<Upstream>, GitError> {
        let Some(branch) = self.branch()? else { return Ok(None) };
        let setting = |key: &str| -> Result<Option<String>, GitError> {
            let name = format!("branch.{branch}.{key}");
            let output = self.read("read the settings").args(["config", "--get", &name]).run()?;
            let value = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            Ok(Some(value).filter(|value| output.code == Some(0) && is_plain(value)))
        };
        let Some(remote) = setting("remote")? else { return self.only_remote(&branch) };
        let target = setting("merge")?;
        let target = target.and_then(|name| name.strip_prefix("refs/heads/").map(str::to_owned));
        Ok(Some(Upstream { remote, branch: target.unwrap_or(branch) }))
    }

    /// The branch of the same name in the only other repository.
    fn only_remote(&self, branch: &str) -> Result<Option<Upstream>, GitError> {
        let bytes = self.read("list the remotes").arg("remote").output()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let names: Vec<&str> = text.lines().filter(|name| is_plain(name)).collect();
        Ok(match names.as_slice() {
            [one] => Some(Upstream { remote: (*one).to_owned(), branch: branch.to_owned() }),
            _ => None,
        })
    }

    /// The commit that a ref of this repository is at; `None` if there is no such ref.
    ///
    /// # Errors
    /// [`GitError`], also if it is no full name of a ref.
    pub fn commit_at(&self, name: &str) -> Result<Option<CommitId>, GitError> {
        let operation = "read the ref";
        if !name.starts_with("refs/") {
            return Err(GitError::refused(operation, format!("`{name}` is no full name of a ref")));
        }
        self.commit_named(operation, name)
    }

    /// Whether the repository has a commit of this name.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn has_commit(&self, name: &str) -> Result<bool, GitError> {
        Ok(is_hex(name) && self.commit_named("find the commit", name)?.is_some())
    }

    /// Whether a commit of this name is another one or among its ancestors.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn is_in(&self, name: &str, tip: &CommitId) -> Result<bool, GitError> {
        let operation = "find the commit";
        if !is_hex(name) {
            return Ok(false);
        }
        match self.commit_named(operation, name)? {
            Some(commit) => Ok(commit == *tip || self.is_ancestor(&commit, tip)?),
            None => Ok(false),
        }
    }

    /// What the repository is in the middle of, if anything.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn unfinished(&self) -> Result<Option<&'static str>, GitError> {
        let operation = "find the repository";
        let bytes = self
            .read(operation)
            .args(["rev-parse", "--path-format=absolute", "--git-dir"])
            .output()?;
        let folder = match bytes.strip_suffix(b"\n") {
            Some(path) if path.starts_with(b"/") => path_of(path),
            Some(_) | None => return Err(GitError::unexpected(operation, &bytes)),
        };
        let signs = [
            ("MERGE_HEAD", "merge"),
            ("CHERRY_PICK_HEAD", "cherry-pick"),
            ("REVERT_HEAD", "revert"),
            ("rebase-merge", "rebase"),
            ("rebase-apply", "rebase"),
            ("BISECT_LOG", "bisection"),
        ];
        Ok(signs.iter().find(|(name, _)| folder.join(name).exists()).map(|(_, what)| *what))
    }

    /// The commit that the other repository's branch is at; `None` if it has no such branch.
    ///
    /// # Errors
    /// [`GitError`], also if it cannot be reached.
    pub fn remote_tip(&self, upstream: &Upstream) -> Result<Option<CommitId>, GitError> {
        let operation = "ask the remote for its branch";
        self.require_elsewhere(operation, upstream)?;
        let name = format!("refs/heads/{}", upstream.branch);
        let bytes = self
            .speaking(self.read(operation))?
            .args(["ls-remote", "--refs", UPLOAD, "--", &upstream.remote, &name])
            .output()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let line = text.lines().find(|line| line.split('\t').nth(1) == Some(name.as_str()));
        let id = line.and_then(|line| line.split('\t').next());
        id.map(|id| id_of(operation, format!("{id}\n").as_bytes())).transpose()
    }

    /// Gets the commits of the other repository's branch; no branch or tag here is changed.
    ///
    /// # Errors
    /// [`GitError`], also if it cannot be reached.
    pub fn fetch(&self, upstream: &Upstream) -> Result<(), GitError> {
        self.require_elsewhere("fetch from the remote", upstream)?;
        let source = format!("refs/heads/{}", upstream.branch);
        let target = format!("+{source}:refs/remotes/{}/{}", upstream.remote, upstream.branch);
        self.speaking(self.write("fetch from the remote"))?
            .args(["fetch", "--no-tags", "--no-write-fetch-head", "--no-auto-gc", "--quiet"])
            .args([UPLOAD, "--", &upstream.remote, &target])
            .output()
            .map(|_| ())
    }

    /// Makes the commits of the current branch again on top of another commit. One whose changes are there already is
    /// left out. The branch and the work tree stay as they are, so that nothing is to be undone if nobody takes them.
    ///
    /// # Errors
    /// [`GitError`], also if there are merges among them.
    pub fn rebased_onto(&self, onto: &CommitId) -> Result<Rebased, GitError> {
        let operation = "put the commits on top of those of others";
        let Some(head) = self.head()? else { return Ok(Rebased::Already) };
        if head == *onto || self.is_ancestor(onto, &head)? {
            return Ok(Rebased::Already);
        }
        let range = format!("{}..{}", onto.as_str(), head.as_str());
        let count = COMMITS_MAX.saturating_add(1).to_string();
        let bytes = self
            .read(operation)
            .args(["rev-list", "--reverse", "--parents", "--topo-order", "-n", &count, &range])
            .output()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if text.lines().count() > COMMITS_MAX {
            return Err(GitError::refused(operation, "there are too many of them"));
        }
        let mut tip = onto.clone();
        for line in text.lines() {
            let ids: Vec<&str> = line.split(' ').collect();
            let [id, parent] = ids.as_slice() else {
                return Err(GitError::refused(operation, "there are merges among them"));
            };
            let named = |id: &str| id_of(operation, format!("{id}\n").as_bytes());
            let (commit, parent): (CommitId, CommitId) = (named(id)?, named(parent)?);
            // As if the tip were made from the same parent: then only what the commit changed is merged.
            let (tree, us) = (self.tree_of(&tip)?, self.identity()?);
            let parents = std::slice::from_ref(&parent);
            let beside = self.commit_tree_signed_by(None, &tree, parents, "", [&us, &us], 0)?;
            match self.merge_commits(&beside, &commit)? {
                CommitMerge::Conflict(paths) => return Ok(Rebased::Conflict(paths)),
                // Empty ones of the user stay.
                CommitMerge::Clean(same)
                    if same == tree && self.tree_of(&parent)? != self.tree_of(&commit)? => {}
                CommitMerge::Clean(tree) => tip = self.commit_again(&commit, &tree, &tip)?,
            }
        }
        Ok(Rebased::Done(tip))
    }

    /// Checks that [`Git::move_branch_to`] would lose nothing in the work tree.
    ///
    /// # Errors
    /// [`GitError`] names what is in the way.
    pub fn check_move_to(&self, head: &CommitId, to: &CommitId) -> Result<(), GitError> {
        self.check_advance(&self.top_level()?, head, to)
    }

    /// Brings the work tree and the current branch from their commit to another one.
    ///
    /// # Errors
    /// [`GitError`], also if the work tree has changes that would be lost, or the branch has moved.
    pub fn move_branch_to(&self, head: &CommitId, to: &CommitId) -> Result<(), GitError> {
        let top = self.top_level()?;
        self.check_advance(&top, head, to)?;
        self.advance(&top, head, to)?;
        match self.update_ref("HEAD", to, Some(head))? {
            RefUpdate::Updated | RefUpdate::AlreadyThere => Ok(()),
            RefUpdate::Moved { .. } => {
                Err(GitError::refused("move the branch", "the branch has moved"))
            }
        }
    }

    /// Makes a commit with the message and author of another one.
    fn commit_again(
        &self,
        commit: &CommitId,
        tree: &TreeId,
        parent: &CommitId,
    ) -> Result<CommitId, GitError> {
        let operation = "read the commit";
        let bytes = self
            .read(operation)
            .args(["log", "-1", "--no-show-signature", "--format=%an%x00%ae%x00%at%x00%B"])
            .arg(commit.as_str())
            .output()?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut fields = text.splitn(4, '\0');
        let mut field = || fields.next().ok_or_else(|| GitError::unexpected(operation, &bytes));
        let author =
            Signature { name: field()?.trim().to_owned(), email: field()?.trim().to_owned() };
        let time = field()?.parse().map_err(|_| GitError::unexpected(operation, &bytes))?;
        let message = format!("{}\n", field()?.trim_end());
        let parents = std::slice::from_ref(parent);
        self.commit_tree(tree, parents, &message, &author, &self.identity()?, time)
    }

    /// Pushes a commit to the other repository's branch. Never by force: commits of others are never lost.
    ///
    /// # Errors
    /// [`GitError`], also if it cannot be reached.
    pub fn push(&self, upstream: &Upstream, commit: &CommitId) -> Result<Pushed, GitError> {
        let operation = "push to the remote";
        self.require_elsewhere(operation, upstream)?;
        let target = format!("{}:refs/heads/{}", commit.as_str(), upstream.branch);
        let output = self
            .speaking(self.write(operation))?
            .args(["push", "--porcelain", "--no-verify", "--no-follow-tags"])
            .args([
                "--recurse-submodules=no",
                "--receive-pack=git-receive-pack",
                "--",
                &upstream.remote,
                &target,
            ])
            .run()?;
        if output.code == Some(0) {
            return Ok(Pushed::Done);
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        match text.lines().find(|line| line.starts_with('!')) {
            Some(line) => {
                let reason = line.rsplit('\t').next().unwrap_or(line);
                Ok(Pushed::Refused(reason.trim().to_owned()))
            }
            None => Err(output.failure(operation, self.root())),
        }
    }

    /// Refuses a repository in the work tree: its hooks and settings, which a command may have written, would run outside of
    /// every cell.
    fn require_elsewhere(
        &self,
        operation: &'static str,
        upstream: &Upstream,
    ) -> Result<(), GitError> {
        let top = self.top_for(operation)?;
        for direction in [&["--push", "--all"][..], &["--all"]] {
            let git = self.read(operation).args(["remote", "get-url"]).args(direction);
            let output = git.args(["--", &upstream.remote]).run()?;
            // What is no name of a remote is a location itself.
            let urls = match output.code {
                Some(0) => String::from_utf8_lossy(&output.stdout).into_owned(),
                _ => upstream.remote.clone(),
            };
            let inside = urls.lines().find(|url| {
                let path = url.strip_prefix("file://").unwrap_or(url);
                let place = top.join(path).canonicalize();
                place.is_ok_and(|place| place.starts_with(&top))
            });
            if let Some(url) = inside {
                let why = format!(
                    "the remote `{url}` lies in the work tree, where agents may write its hooks"
                );
                return Err(GitError::refused(operation, why));
            }
        }
        Ok(())
    }

    /// An invocation that may reach the other repository.
    fn speaking<'a>(&self, invocation: Invocation<'a>) -> Result<Invocation<'a>, GitError> {
        let setting = |name: &str, value: &OsString| {
            let mut setting = OsString::from(name);
            setting.push("=");
            setting.push(value);
            setting
        };
        let ssh = self.of_user("core.sshCommand")?.pop().unwrap_or_else(|| "ssh".into());
        let mut settings = vec![setting("core.sshCommand", &ssh)];
        for helper in self.of_user("credential.helper")? {
            settings.push(setting("credential.helper", &helper));
        }
        let mut invocation = invocation.speaking(PROTOCOLS, &settings);
        for name in ["SSH_AUTH_SOCK", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"] {
            if let Some(value) = std::env::var_os(name) {
                invocation = invocation.env(name, value);
            }
        }
        Ok(invocation)
    }

    /// The values of a setting in the files of the user and the system.
    pub(super) fn of_user(&self, name: &str) -> Result<Vec<OsString>, GitError> {
        let mut found = Vec::new();
        for scope in ["--system", "--global"] {
            let output = self
                .read("read the settings")
                .args(["config", scope, "-z", "--get-all", name])
                .run()?;
            let values = output.stdout.split(|byte| *byte == 0).filter(|value| !value.is_empty());
            found.extend(values.map(|value| path_of(value).into_os_string()));
        }
        Ok(found)
    }
}

/// Whether a name cannot be taken for an option or a location.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('-')
        && !name.chars().any(|one| one.is_control() || one == ' ')
}

fn is_hex(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
