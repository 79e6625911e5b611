//! The user's repository, through the system's `git` command (2.36 or newer).
//!
//! Every invocation has a clean environment, fetches nothing, never prompts, and is limited in time and
//! output. Names of files are bytes, not text.
//!
//! INVARIANT: no program that a repository names is ever started: no hook, filter, merge or diff
//! driver, file-system monitor, and none that a submodule or a nested repository names. A file that
//! needs a filter driver refuses the operation, unless the user's settings allow that driver.

mod attributes;
mod brought;
mod commit;
mod error;
mod filters;
mod hooks;
mod id;
mod index_folder;
mod invoke;
mod known;
mod log_changes;
mod lost_object;
mod merge;
mod named;
mod own_change;
mod pinned;
mod private;
mod program;
mod remote;
mod replace;
mod secrets;
mod signing;
mod status;
mod takeover;
mod tree;
mod user_index;
mod worktree;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use self::signing::Signing;

pub use brought::{BlobContents, BroughtFile, CommittedFile, REMOVED};
pub use commit::{RefUpdate, Signature};
pub use error::{GitCause, GitError};
pub use hooks::Hook;
pub use id::{CommitId, ObjectIdError, TreeId, Treeish};
pub(crate) use invoke::{Access, Invocation};
pub use known::keep_indexes_in;
pub use lost_object::{names_lost_object, while_objects_vanish};
pub use merge::CommitMerge;
pub use pinned::{PinnedKind, PinnedPath, check_pinned_place, require_pinned_unchanged};
pub(crate) use private::quoted;
pub use program::{GitSettings, SYSTEM_FOLDERS, configure_git, find_helper};
pub use remote::{Pushed, Rebased, Upstream};
pub use status::{DIRTY_PATHS_MAX, WorktreeStatus};
pub use takeover::{Baseline, TakeOverError, TakenOver, take_over, take_over_in_steps, tips};
pub use tree::{DiffStat, FileChange, LineChange};
pub use worktree::{OnChanges, Worktree};

/// A repository, by a folder in it.
#[derive(Clone, Debug)]
pub struct Git {
    root: PathBuf,
    /// The allowed filter drivers; `None` for those of the process.
    filters: Option<Arc<BTreeSet<String>>>,
    /// Untracked files that do not count, relative to the top.
    omitted: Arc<BTreeSet<Vec<u8>>>,
    /// The folder that counts, relative to the top and with a slash at its end; empty if all do.
    within: Vec<u8>,
    /// How commits are signed, if they are.
    signing: Option<Arc<Signing>>,
    /// The directory that all work trees share, once it is known.
    common: Arc<OnceLock<PathBuf>>,
}

impl Git {
    /// Names the folder; git is not started yet.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            filters: None,
            omitted: Arc::default(),
            within: Vec::new(),
            signing: None,
            common: Arc::default(),
        }
    }

    /// Allows these filter drivers instead of those that [`configure_git`] has set.
    #[must_use]
    pub fn with_filters(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.filters = Some(Arc::new(names.into_iter().collect()));
        self
    }

    /// Leaves these untracked files out of trees and of the status, whether they are ignored or not. Their
    /// paths are relative to the top.
    #[must_use]
    pub fn omitting(mut self, paths: impl IntoIterator<Item = String>) -> Self {
        self.omitted = Arc::new(paths.into_iter().map(String::into_bytes).collect());
        self
    }

    /// The same settings for another folder.
    fn at(&self, root: impl Into<PathBuf>) -> Self {
        // It may be in another repository.
        Self { root: root.into(), within: Vec::new(), common: Arc::default(), ..self.clone() }
    }

    /// The folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn read(&self, operation: &'static str) -> Invocation<'_> {
        Invocation::new(operation, &self.root, Access::Read)
    }

    fn write(&self, operation: &'static str) -> Invocation<'_> {
        Invocation::new(operation, &self.root, Access::Write)
    }

    /// Finds the top of the work tree.
    ///
    /// # Errors
    /// [`GitError`], also outside a repository and in a bare one.
    pub fn top_level(&self) -> Result<PathBuf, GitError> {
        self.top_for("find the work tree")
    }

    /// The top of the work tree, for an operation.
    fn top_for(&self, operation: &'static str) -> Result<PathBuf, GitError> {
        let [top] = self.paths(operation, [&["--show-toplevel"]])?;
        Ok(top)
    }

    /// The same settings at the top of the work tree, with the common directory.
    fn at_top(&self, operation: &'static str) -> Result<Self, GitError> {
        let [top, common] = self.paths(operation, [&["--show-toplevel"], &["--git-common-dir"]])?;
        Ok(self.at_known(top, common))
    }

    /// The same settings for another folder whose common directory is known.
    fn at_known(&self, root: PathBuf, common: PathBuf) -> Self {
        let within = self.below(&root);
        Self { root, within, common: Arc::new(OnceLock::from(common)), ..self.clone() }
    }

    /// This folder below the top of the work tree, as [`Git::within`] has it.
    fn below(&self, top: &Path) -> Vec<u8> {
        let real = self.root.canonicalize().unwrap_or_else(|_| self.root.clone());
        let below = real.strip_prefix(top).unwrap_or(Path::new("")).as_os_str().as_bytes();
        if below.is_empty() { Vec::new() } else { [below, b"/"].concat() }
    }

    /// Whether a path counts: it lies in this folder of the repository. Its name is relative to the top.
    fn counts(&self, path: &[u8]) -> bool {
        path.starts_with(&self.within)
    }

    /// Asks for absolute paths: each question is a list of words. One process answers all of them, unless a path has
    /// line breaks.
    fn paths<const N: usize>(
        &self,
        operation: &'static str,
        questions: [&[&str]; N],
    ) -> Result<[PathBuf; N], GitError> {
        let ask = |words: &[&str]| {
            let git = self.read(operation).args(["rev-parse", "--path-format=absolute"]);
            git.args(words).output()
        };
        let bytes = ask(&questions.concat())?;
        let lines = bytes.strip_suffix(b"\n").unwrap_or(&bytes).split(|byte| *byte == b'\n');
        let lines: Vec<&[u8]> = lines.collect();
        if let Ok(lines) = <[&[u8]; N]>::try_from(lines)
            && lines.iter().all(|line| line.starts_with(b"/"))
        {
            return Ok(lines.map(path_of));
        }
        let mut found = Vec::new();
        for words in questions {
            let bytes = ask(words)?;
            match bytes.strip_suffix(b"\n") {
                Some(path) if path.starts_with(b"/") => found.push(path_of(path)),
                Some(_) | None => return Err(GitError::unexpected(operation, &bytes)),
            }
        }
        found.try_into().map_err(|_| GitError::unexpected(operation, &bytes))
    }

    /// Reads the current commit; an unborn branch has none.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn head(&self) -> Result<Option<CommitId>, GitError> {
        self.commit_named("read the current commit", "HEAD")
    }

    /// Reads the branch that is checked out, without `refs/heads/`; a detached head is on none.
    ///
    /// # Errors
    /// [`GitError`], also when the name is not UTF-8.
    pub fn branch(&self) -> Result<Option<String>, GitError> {
        let operation = "read the current branch";
        let output = self.read(operation).args(["symbolic-ref", "-q", "HEAD"]).run()?;
        match output.code {
            Some(0) => {
                let name = invoke::single_line(&output.stdout)
                    .ok_or_else(|| GitError::unexpected(operation, &output.stdout))?;
                Ok(Some(name.strip_prefix("refs/heads/").unwrap_or(&name).to_owned()))
            }
            Some(1) => Ok(None),
            Some(_) | None => Err(output.failure(operation, &self.root)),
        }
    }

    fn commit_named(
        &self,
        operation: &'static str,
        revision: &str,
    ) -> Result<Option<CommitId>, GitError> {
        let output = self
            .read(operation)
            .args(["rev-parse", "--verify", "--quiet"])
            .arg(format!("{revision}^{{commit}}"))
            .run()?;
        match output.code {
            Some(0) => id_of(operation, &output.stdout).map(Some),
            Some(1) => Ok(None),
            Some(_) | None => Err(output.failure(operation, &self.root)),
        }
    }

    /// What git ignores at a path and below it; a folder that is ignored as a whole stands for its content.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn ignored(&self, path: &str) -> Result<Vec<String>, GitError> {
        let operation = "list ignored files";
        let listed = self
            .read(operation)
            .args(["--literal-pathspecs", "ls-files", "-z", "--others", "--ignored"])
            .args(["--exclude-standard", "--directory", "--", path])
            .output()?;
        let paths = listed.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        let text = |path: &[u8]| String::from_utf8_lossy(path).trim_end_matches('/').to_owned();
        Ok(paths.map(text).collect())
    }

    /// The files that differ between the present commit and a revision, relative to the top; none if
    /// either does not exist.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn changed_since(&self, revision: &str) -> Result<Vec<String>, GitError> {
        let operation = "compare two commits";
        let Some(other) = self.named_in_a_line(operation, revision) else { return Ok(Vec::new()) };
        let Some(head) = self.head()? else { return Ok(Vec::new()) };
        let listed = self
            .read(operation)
            .args(["diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff"])
            .args([head.as_str(), other.as_str(), "--"])
            .output()?;
        let mut bytes = listed;
        // The third parent of a stash has no parents and holds the files that were not tracked.
        let third = format!("{}^3", other.as_str());
        if let Some(untracked) = self.named_in_a_line(operation, &third)
            && self.named_in_a_line(operation, &format!("{third}^")).is_none()
        {
            let tree = ["ls-tree", "-r", "-z", "--name-only", untracked.as_str()];
            bytes.extend(self.read(operation).args(tree).output()?);
        }
        let paths = bytes.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        Ok(paths.map(|path| String::from_utf8_lossy(path).into_owned()).collect())
    }

    /// The commit that a word of a line names, if it names one.
    fn named_in_a_line(&self, operation: &'static str, revision: &str) -> Option<CommitId> {
        if revision.is_empty() || revision.starts_with('-') {
            return None;
        }
        // Behind `:/text` nothing can be added, so the object comes first.
        let named = self.read(operation).args(["rev-parse", "--verify", "--quiet", revision]);
        let named = named.run().ok().filter(|output| output.code == Some(0))?;
        let object = invoke::single_line(&named.stdout)?;
        self.commit_named(operation, &object).ok().flatten()
    }

    /// The paths among these that git tracks; they are relative to this folder.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn tracked(&self, paths: &[String]) -> Result<Vec<String>, GitError> {
        let operation = "list tracked files";
        let mut tracked = Vec::new();
        for paths in portions(paths) {
            let listed =
                self.read(operation).args(["ls-files", "-z", "--"]).args(paths).output()?;
            let paths = listed.split(|byte| *byte == 0).filter(|path| !path.is_empty());
            tracked.extend(paths.map(|path| String::from_utf8_lossy(path).into_owned()));
        }
        Ok(tracked)
    }

    /// The files among these whose very content git tracks under their path; the paths are relative to this
    /// folder. Flags in the index make no difference.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn tracked_as_they_are(&self, paths: &[String]) -> Result<Vec<String>, GitError> {
        let operation = "compare tracked files";
        // Each path is a line for git.
        let full = |path: &String| self.root.join(path).into_os_string().into_vec();
        let paths: Vec<&String> =
            paths.iter().filter(|path| !full(path).contains(&b'\n')).collect();
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let mut listed = Vec::new();
        for paths in portions(&paths) {
            let git = self.read(operation).args(["ls-files", "-s", "-z", "--"]);
            listed.extend(git.args(paths.iter().copied()).output()?);
        }
        let mut staged = BTreeMap::new();
        for record in listed.split(|byte| *byte == 0) {
            // Mode, object and stage, before the path.
            if let Some((facts, path)) = split_once(record, b'\t')
                && let [_, id, b"0"] =
                    facts.split(|byte| *byte == b' ').collect::<Vec<_>>().as_slice()
            {
                staged.insert(path.to_vec(), id.to_vec());
            }
        }
        let paths: Vec<&String> =
            paths.into_iter().filter(|path| staged.contains_key(path.as_bytes())).collect();
        // Git takes them as relative to the top.
        let mut lines = Vec::new();
        for path in &paths {
            lines.append(&mut full(path));
            lines.push(b'\n');
        }
        let hashed = self.read(operation).args(["hash-object", "--no-filters", "--stdin-paths"]);
        let hashed = hashed.reading_files().stdin(lines).output()?;
        let ids = hashed.split(|byte| *byte == b'\n').filter(|id| !id.is_empty());
        let same = paths.iter().zip(ids).filter(|(path, id)| {
            staged.get(path.as_bytes()).is_some_and(|staged| staged.as_slice() == *id)
        });
        Ok(same.map(|(path, _)| (*path).clone()).collect())
    }
}

/// The most bytes of paths that one process is given as arguments.
const PATHS_BYTES_MAX: usize = 256 * 1024;

/// These paths in portions that one process takes as arguments.
fn portions<T: AsRef<str>>(paths: &[T]) -> Vec<&[T]> {
    let (mut portions, mut from, mut bytes) = (Vec::new(), 0, 0);
    for (at, path) in paths.iter().enumerate() {
        // Each needs a pointer besides.
        let length = path.as_ref().len() + 16;
        if bytes + length > PATHS_BYTES_MAX && at > from {
            portions.extend(paths.get(from..at));
            (from, bytes) = (at, 0);
        }
        bytes += length;
    }
    portions.extend(paths.get(from..).filter(|rest| !rest.is_empty()));
    portions
}

pub(crate) fn id_of<T: std::str::FromStr>(
    operation: &'static str,
    bytes: &[u8],
) -> Result<T, GitError> {
    invoke::single_line(bytes)
        .and_then(|line| line.parse().ok())
        .ok_or_else(|| GitError::unexpected(operation, bytes))
}

pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

pub(crate) fn os(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

pub(crate) fn split_once(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let index = bytes.iter().position(|byte| *byte == at)?;
    Some((bytes.get(..index)?, bytes.get(index + 1..)?))
}
