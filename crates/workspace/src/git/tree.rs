//! The work tree as a tree object, and its difference to a base.
//!
//! INVARIANT: the user's index is neither read nor written here. A temporary index is filled from the
//! current commit, so flags in the user's index (`assume-unchanged`) hide nothing. The status of files in it is our own, of
//! the last time that this process has read them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use windlass_kernel::is_git_name;

use super::error::GitCause;
use super::filters::{Conversions, Files, OnFilter};
use super::index_folder::IndexFolder;
use super::known::{self, KnownIndex};
use super::private::PrivateDir;
use super::{
    Access, CommitId, Git, GitError, Invocation, TreeId, Treeish, id_of, path_of, split_once,
};
use crate::hidden_files::{hidden_now, is_secret_file};

const OPERATION: &str = "write the work tree as a tree";
/// How many files are read again at each call, though they may be as in the current commit.
const READ_AGAIN_MAX: usize = 100;

/// How a work tree differs from a base.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiffStat {
    /// The changed files, in git's order. A renamed file counts twice: as removed and as added.
    pub files: Vec<FileChange>,
    /// Lines added, all files together.
    pub added: u64,
    /// Lines removed, all files together.
    pub removed: u64,
}

/// A changed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// Relative to the top.
    pub path: PathBuf,
    /// How much of it changed.
    pub lines: LineChange,
}

/// How much of a file changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineChange {
    /// It has lines.
    Text {
        /// Lines added.
        added: u64,
        /// Lines removed.
        removed: u64,
    },
    /// It is binary: a NUL byte is near its start.
    Binary,
}

impl Git {
    /// Writes the work tree as a tree object: new files included, ignored ones not, nor files that usually hold secrets and that
    /// the current commit does not have. Outside of this folder the files are those of the current commit. The user's index is
    /// left alone.
    ///
    /// # Errors
    /// [`GitError`], also in a sparse work tree, and when a file needs a filter that is not allowed.
    pub fn tree_of_worktree(&self) -> Result<TreeId, GitError> {
        let (top, head) = self.top_and_head(OPERATION)?;
        // The common directory stays the same.
        let top = Self { within: self.below(&top), root: top, ..self.clone() };
        let known = known::take_index(top.root());
        match top.tree_with(head.as_ref(), known.as_ref()) {
            // What is known may be the cause, or objects that were pruned since.
            Err(GitError { cause: GitCause::Exit { .. }, .. }) if known.is_some() => {
                top.tree_with(head.as_ref(), None)
            }
            result => result,
        }
    }

    /// Writes the work tree as a tree, with what is known of it.
    fn tree_with(
        &self,
        head: Option<&CommitId>,
        known: Option<&KnownIndex>,
    ) -> Result<TreeId, GitError> {
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let folder = IndexFolder::new(OPERATION)?;
        let index = folder.index();
        let git = |words: &[&str]| {
            let git = self.write(OPERATION).args(["-c", "index.version=2"]).args(words);
            git.env("GIT_INDEX_FILE", &index).output()
        };
        let fail = |error: io::Error| GitError::new(OPERATION, GitCause::File(error.to_string()));
        // Reads the entries of a commit; those that are the same keep the status of their files.
        let read_tree = |head: &CommitId| git(&["read-tree", "-i", "-m", head.as_str()]).map(drop);
        match (head, known) {
            (Some(head), Some(known)) => {
                fs::write(&index, &known.bytes).map_err(fail)?;
                if known.head != *head {
                    read_tree(head)?;
                }
            }
            (Some(head), None) => drop(git(&["read-tree", head.as_str()])?),
            (None, _) => {}
        }
        let files = Files::Worktree(Some(&index));
        let conversions = self.conversions(OPERATION, files, OnFilter::Refuse)?;
        let fingerprint = conversions.fingerprint.clone();
        if known.is_some_and(|known| fingerprint.as_ref() != Some(&known.conversions)) {
            return self.tree_with(head, None);
        }
        let changed = self.update_index(OPERATION, &index, &conversions)?;
        let tree: TreeId = id_of(OPERATION, &git(&["write-tree"])?)?;
        if known.is_some() && !self.has_object(&tree)? {
            return self.tree_with(head, None);
        }
        let (Some(head), Some(conversions)) = (head, fingerprint) else { return Ok(tree) };
        let is_current = |known: &&KnownIndex| known.head == *head && changed <= READ_AGAIN_MAX;
        let current = known.filter(is_current);
        let kept = match current {
            Some(known) => Some(known.bytes.clone()),
            // Without it the next one reads everything.
            None => read_tree(head).ok().and_then(|()| {
                let mut bytes = fs::read(&index).ok()?;
                known::forget_recent(&mut bytes, tree.as_str().len(), began).map(|()| bytes)
            }),
        };
        if let Some(bytes) = kept {
            let kept = KnownIndex { head: head.clone(), conversions, bytes };
            known::keep_index(self.root(), kept, current.is_none());
        }
        Ok(tree)
    }

    fn has_object(&self, tree: &TreeId) -> Result<bool, GitError> {
        let found = self.read(OPERATION).args(["cat-file", "-e", tree.as_str()]).run()?;
        Ok(found.code == Some(0))
    }

    /// The top of the work tree, and the current commit, which an unborn branch does not have.
    fn top_and_head(
        &self,
        operation: &'static str,
    ) -> Result<(PathBuf, Option<CommitId>), GitError> {
        let output = self
            .read(operation)
            .args(["rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir"])
            .args(["--quiet", "--verify", "HEAD^{commit}"])
            .run()?;
        let has_head = match output.code {
            Some(0) => true,
            Some(1) => false,
            Some(_) | None => return Err(output.failure(operation, self.root())),
        };
        let mut lines: Vec<&[u8]> = output.stdout.split(|byte| *byte == b'\n').collect();
        let end = lines.pop();
        let head = if has_head { lines.pop() } else { None };
        match lines.as_slice() {
            [top, common] if end == Some(&[][..]) && is_absolute(top) && is_absolute(common) => {
                // It stays the same as long as the repository is where it is.
                drop(self.common.set(path_of(common)));
                let head = head.map(|line| id_of(operation, &[line, b"\n"].concat()));
                Ok((path_of(top), head.transpose()?))
            }
            // A path may have line breaks: each is asked for alone.
            _ => Ok((self.top_for(operation)?, self.commit_named(operation, "HEAD")?)),
        }
    }

    /// Brings an index up to date with the work tree. `git add` would read the status of nested
    /// repositories, which runs programs that their settings name. Returns how many files of the index were read.
    fn update_index(
        &self,
        operation: &'static str,
        index: &Path,
        conversions: &Conversions,
    ) -> Result<usize, GitError> {
        let Conversions { settings, untracked, is_sparse, .. } = conversions;
        if *is_sparse {
            return Err(GitError::new(operation, GitCause::Sparse));
        }
        let git = |access| {
            let git = Invocation::new(operation, self.root(), access);
            // Whatever the user's settings say, all of a file's status counts.
            let git = git.args(["-c", "core.trustctime=true", "-c", "core.checkStat=default"]);
            git.settings(settings).env("GIT_INDEX_FILE", index).reading_files()
        };
        let changed = git(Access::Read)
            .args(["diff-files", "--raw", "-z", "--no-renames", "--ignore-submodules=dirty"])
            .output()?;
        let (mut removed, mut present) = (Vec::new(), Vec::new());
        let mut hidden = None;
        let mut fields = changed.split(|byte| *byte == 0).filter(|field| !field.is_empty());
        let mut count = 0;
        while let Some(facts) = fields.next() {
            let unexpected = || GitError::unexpected(operation, &changed);
            let path = fields.next().ok_or_else(unexpected)?;
            if !self.counts(path) {
                continue;
            }
            let status = facts.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
            let is_gone = status == b"D";
            if !is_gone && is_secret_file(path) {
                // The commit has it, but commands may not see what it is now.
                let found = match hidden.take() {
                    Some(found) => found,
                    None => hidden_now(self.root())
                        .map_err(|why| GitError::new(operation, GitCause::File(why)))?,
                };
                let is_hidden = found.contains(path);
                hidden = Some(found);
                if is_hidden {
                    continue;
                }
            }
            let list = if is_gone { &mut removed } else { &mut present };
            list.extend_from_slice(path);
            list.push(0);
            count += 1;
        }
        let counts = |path: &&Vec<u8>| {
            self.counts(path) && !self.omitted.contains(*path) && !is_secret_file(path)
        };
        for path in untracked.iter().filter(counts) {
            let path = path.as_slice();
            // A nested repository has a slash at its end. Without a commit nothing of it would be recorded.
            let nested = path.strip_suffix(b"/");
            if let Some(nested) = nested
                && self.at(self.root().join(path_of(nested))).head()?.is_none()
            {
                let name = String::from_utf8_lossy(nested);
                let why = format!(
                    "`{name}` is a repository without a commit, of which git records nothing; remove it, or its `.git`"
                );
                return Err(GitError::new(operation, GitCause::Unrecordable(why)));
            }
            let path = nested.unwrap_or(path);
            let text = String::from_utf8_lossy(path);
            // Git would leave it out with a warning, and nobody would see the file again.
            if text.split('/').any(is_git_name) {
                let why = format!(
                    "git does not record `{text}`, which stands for `.git` elsewhere; remove it"
                );
                return Err(GitError::new(operation, GitCause::Unrecordable(why)));
            }
            present.extend_from_slice(path);
            present.push(0);
        }
        let update = |options: &[&str], paths: Vec<u8>| {
            if paths.is_empty() {
                return Ok(());
            }
            let git = git(Access::Write).arg("update-index").args(options);
            git.args(["-z", "--stdin"]).stdin(paths).output().map(drop)
        };
        update(&["--force-remove"], removed)?;
        update(&["--add", "--remove", "--replace"], present)?;
        Ok(count)
    }

    /// Writes an index that holds a tree, to a new file.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn write_index(&self, tree: &TreeId, index: &Path) -> Result<(), GitError> {
        let git = self.write("write an index").args(["read-tree", tree.as_str()]);
        git.env("GIT_INDEX_FILE", index).output().map(drop)
    }

    /// Reads the tree of a commit.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn tree_of(&self, commit: &CommitId) -> Result<TreeId, GitError> {
        let operation = "read the tree of the commit";
        let tree = format!("{}^{{tree}}", commit.as_str());
        id_of(operation, &self.read(operation).args(["rev-parse", "--verify", &tree]).output()?)
    }

    /// Writes the empty tree: the base before the first commit.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn empty_tree(&self) -> Result<TreeId, GitError> {
        let operation = "write the empty tree";
        let make = self.write(operation).args(["hash-object", "-t", "tree", "-w", "--stdin"]);
        id_of(operation, &make.stdin([]).output()?)
    }

    /// The objects without the repository's settings and attributes; the digits are those of an id.
    pub(super) fn objects(
        &self,
        operation: &'static str,
        digits: usize,
    ) -> Result<PrivateDir, GitError> {
        let objects = self.common_dir()?.join("objects");
        let folder = PrivateDir::new(operation, objects, digits)?;
        Ok(match known::objects() {
            Some(snapshots) => folder.with_alternates(snapshots),
            None => folder,
        })
    }

    /// Counts the changes of a tree against a base.
    ///
    /// The repository's attributes are ignored, so that no file can declare itself binary.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn diff_to(&self, base: &Treeish, tree: &TreeId) -> Result<DiffStat, GitError> {
        let operation = "count the changes";
        let bytes = self
            .objects(operation, tree.as_str().len())?
            .git(operation, Access::Read)
            .reading_files()
            .args(["diff-tree", "-r", "-z", "--numstat", "--no-renames", "--no-ext-diff"])
            .args(["--no-textconv", "--ignore-submodules=none", base.as_str(), tree.as_str()])
            .output()?;
        read_numstat(&bytes).ok_or_else(|| GitError::unexpected(operation, &bytes))
    }

    /// The changes of a tree against a base, as a patch for people. Files that are not text are only named; one that
    /// was renamed is shown as such.
    ///
    /// # Errors
    /// [`GitError`].
    pub fn patch_to(&self, base: &Treeish, tree: &TreeId) -> Result<String, GitError> {
        let operation = "show the changes";
        let bytes = self
            .objects(operation, tree.as_str().len())?
            .git(operation, Access::Read)
            .args(["diff-tree", "-r", "-p", "--no-color", "--find-renames", "--no-ext-diff"])
            .args(["--no-textconv", "--ignore-submodules=none", base.as_str(), tree.as_str()])
            .output()?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn is_absolute(path: &[u8]) -> bool {
    path.starts_with(b"/")
}

/// Reads `added TAB removed TAB path NUL` records; a binary file has `-` for both counts.
fn read_numstat(bytes: &[u8]) -> Option<DiffStat> {
    let mut stat = DiffStat::default();
    if bytes.is_empty() {
        return Some(stat);
    }
    for record in bytes.strip_suffix(b"\0")?.split(|byte| *byte == 0) {
        let (added, rest) = split_once(record, b'\t')?;
        let (removed, path) = split_once(rest, b'\t')?;
        let lines = if (added, removed) == (b"-", b"-") {
            LineChange::Binary
        } else {
            let count = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u64>().ok();
            let (added, removed) = (count(added)?, count(removed)?);
            stat.added = stat.added.checked_add(added)?;
            stat.removed = stat.removed.checked_add(removed)?;
            LineChange::Text { added, removed }
        };
        if path.is_empty() {
            return None;
        }
        stat.files.push(FileChange { path: path_of(path), lines });
    }
    Some(stat)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Gives a known index the status that it has some seconds after the last change.
    pub fn age(top: &Path, known: &mut KnownIndex) {
        let index = top.join(".git/aged");
        fs::write(&index, &known.bytes).unwrap();
        let mut git = std::process::Command::new("git");
        git.current_dir(top).env("GIT_INDEX_FILE", &index);
        git.args(["-c", "index.version=2", "update-index", "-q", "--refresh"]);
        assert!(matches!(git.status().unwrap().code(), Some(0 | 1)));
        known.bytes = fs::read(&index).unwrap();
    }

    /// The number of files that are opened in a folder during an action.
    pub fn opened(folder: &Path, act: impl FnOnce()) -> usize {
        use rustix::fs::inotify;
        let events = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&events, folder, inotify::WatchFlags::OPEN).unwrap();
        act();
        let mut buffer = [std::mem::MaybeUninit::uninit(); 16 * 1024];
        let mut reader = inotify::Reader::new(&events, &mut buffer);
        let mut count = 0;
        while let Ok(event) = reader.next() {
            let is_folder = event.events().contains(inotify::ReadFlags::ISDIR);
            let named = event.file_name().is_some_and(|name| name.to_bytes().starts_with(b"file"));
            count += usize::from(named && !is_folder);
        }
        count
    }

    #[test]
    fn only_what_has_changed_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let git = |words: &[&str]| {
            let mut git = std::process::Command::new("git");
            git.current_dir(&top).args(["-c", "user.name=a", "-c", "user.email=a"]);
            assert!(git.args(words).status().unwrap().success(), "{words:?}");
        };
        git(&["init", "-q"]);
        for number in 0..30 {
            let path = top.join(format!("file-{number}"));
            fs::write(&path, format!("{number}\n")).unwrap();
            // Git reads a file that is as new as its index.
            fs::File::open(&path).unwrap().set_modified(UNIX_EPOCH).unwrap();
        }
        git(&["add", "-A"]);
        git(&["commit", "-q", "-m", "one"]);
        let ours = Git::new(&top);
        let mut first = None;
        assert!(opened(&top, || first = ours.tree_of_worktree().ok()) >= 30);
        assert!(first.is_some());
        // All of it has just changed.
        assert!(opened(&top, || assert_eq!(ours.tree_of_worktree().ok(), first)) >= 30);
        // As it will be in some seconds.
        let mut known = known::take_index(&top).unwrap();
        age(&top, &mut known);
        let opened_with = |known: &KnownIndex| {
            let head = known.head.clone();
            let mut tree = None;
            let count = opened(&top, || tree = ours.tree_with(Some(&head), Some(known)).ok());
            (tree.unwrap(), count)
        };
        let (tree, count) = opened_with(&known);
        assert_eq!((Some(tree), count), (first.clone(), 0));
        fs::write(top.join("file-7"), "changed\n").unwrap();
        fs::write(top.join("file-new"), "new\n").unwrap();
        let (tree, count) = opened_with(&known);
        // Git opens each of the two some times, more often if they are as new as an index.
        assert!((2..=10).contains(&count), "{count}");
        known::take_index(&top);
        assert_eq!(ours.tree_of_worktree().unwrap(), tree);
        assert_ne!(Some(tree), first);
        // Of another commit, only the files that differ in it are read.
        git(&["add", "-A"]);
        git(&["commit", "-q", "-m", "two"]);
        let head = ours.head().unwrap().unwrap();
        let mut tree = None;
        let count = opened(&top, || tree = ours.tree_with(Some(&head), Some(&known)).ok());
        assert!((2..=10).contains(&count), "{count}");
        assert_eq!(tree, ours.tree_of(&head).ok());
    }

    #[test]
    fn numstat_is_read_or_refused() {
        let text = |added, removed| LineChange::Text { added, removed };
        let change = |path: &[u8], lines| FileChange { path: path_of(path), lines };
        let expected = DiffStat {
            files: vec![change(b"a\tb\n\xff", text(3, 4)), change(b"x", LineChange::Binary)],
            added: 3,
            removed: 4,
        };
        assert_eq!(read_numstat(b"3\t4\ta\tb\n\xff\0-\t-\tx\0"), Some(expected));
        assert_eq!(read_numstat(b""), Some(DiffStat::default()));
        for bad in [&b"1\t2\ta"[..], b"\0", b"1\t2\0", b"1\t2\t\0", b"-\t2\ta\0", b"x\t2\ta\0"] {
            assert_eq!(read_numstat(bad), None, "{:?}", String::from_utf8_lossy(bad));
        }
    }
}
