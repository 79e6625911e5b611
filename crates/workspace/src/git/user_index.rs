//! The user's index after a commit.
//!
//! INVARIANT: what git writes by itself is what the user gets: flags, version and checksum are those of a new index.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use super::error::GitCause;
use super::filters::{Conversions, Files, OnFilter};
use super::index_folder::IndexFolder;
use super::known::{self, KnownIndex};
use super::own_change::{Differences, Item, Sides};
use super::replace::replace;
use super::{CommitId, Git, GitError, TreeId, Treeish, split_once};

const OPERATION: &str = "bring the index up to date";

impl Git {
    /// Sets the user's index to a commit, after that commit became the current one; no file of the work
    /// tree changes. Other staged changes are no longer staged.
    ///
    /// The index is a new one: what is in the old one (flags of entries, another part of a split index,
    /// extensions) is neither read nor kept, so that a command can leave nothing there that stops this.
    ///
    /// # Errors
    /// [`GitError`], also when another process has locked the index.
    pub fn reset_index(&self, commit: &CommitId) -> Result<(), GitError> {
        self.reset_index_with(&commit.clone().into(), &[])
    }

    /// Sets the user's index to a commit, as [`Git::reset_index`] does, but files that differed between the commit
    /// `base` and the files `began` before a run, and that its commit does not change, stay staged or flagged as they
    /// are. A content that is staged stays so only if it is that of the file at that time.
    ///
    /// # Errors
    /// [`GitError`], also when another process has locked the index.
    pub fn reset_index_of_run(
        &self,
        commit: &CommitId,
        parent: &CommitId,
        base: &CommitId,
        began: &TreeId,
    ) -> Result<(), GitError> {
        self.stage(&self.tree_of(commit)?, Some((parent, base, began)))
    }

    /// Sets the user's index to a tree, as [`Git::reset_index_of_run`] does for a commit.
    ///
    /// # Errors
    /// [`GitError`], also when another process has locked the index.
    pub fn stage(
        &self,
        tree: &TreeId,
        before: Option<(&CommitId, &CommitId, &TreeId)>,
    ) -> Result<(), GitError> {
        let tree = Treeish::from(tree.clone());
        let Some((parent, base, began)) = before else {
            return self.reset_index_with(&tree, &[]);
        };
        let mut theirs = self.differences(&base.clone().into(), &began.clone().into())?;
        let own = self.differences(&parent.clone().into(), &tree)?;
        theirs.retain(|path, _| !own.contains_key(path));
        let listed = self.listed_index()?;
        self.reset_index_with(&tree, &marks(&listed, &theirs))
    }

    /// The entries of the user's index, each with its flags; nothing if it cannot be read, since it is made anew.
    pub(super) fn listed_index(&self) -> Result<Vec<u8>, GitError> {
        let top = self.at(self.top_for(OPERATION)?);
        let listed = top.read(OPERATION).args(["ls-files", "-v", "-s", "-z"]).run()?;
        Ok(if listed.code == Some(0) { listed.stdout } else { Vec::new() })
    }

    fn reset_index_with(&self, commit: &Treeish, marks: &[Mark]) -> Result<(), GitError> {
        let questions: [&[&str]; 3] =
            [&["--show-toplevel"], &["--git-common-dir"], &["--git-path", "index"]];
        let [top, common, path] = self.paths(OPERATION, questions)?;
        let top = self.at_known(top, common);
        let known = known::take_index(top.root());
        let bytes = match top.index_of_known(commit, known)? {
            Some(bytes) => bytes,
            None => top.index_of(commit)?,
        };
        let bytes = top.marked(bytes, marks)?;
        replace(&path, &bytes).map_err(|error| {
            if error.kind() != io::ErrorKind::AlreadyExists {
                return fail(&error);
            }
            let lock = format!("`{}.lock` exists", path.display());
            GitError::new(OPERATION, GitCause::Locked(lock))
        })
    }

    /// An index with marks.
    fn marked(&self, bytes: Vec<u8>, marks: &[Mark]) -> Result<Vec<u8>, GitError> {
        if marks.is_empty() {
            return Ok(bytes);
        }
        let folder = IndexFolder::new(OPERATION)?;
        let index = folder.index();
        fs::write(&index, &bytes).map_err(|error| fail(&error))?;
        for (option, is_marked) in [
            ("--index-info", (|mark: &Mark| mark.staged.is_some()) as fn(&Mark) -> bool),
            ("--assume-unchanged", |mark| mark.is_assumed_unchanged),
            ("--skip-worktree", |mark| mark.is_skipped),
        ] {
            let mut lines = Vec::new();
            for mark in marks.iter().filter(|mark| is_marked(mark)) {
                let staged = mark.staged.as_deref().filter(|_| option == "--index-info");
                lines.extend_from_slice(staged.unwrap_or(&mark.path));
                lines.push(0);
            }
            if !lines.is_empty() {
                let git = self.write(OPERATION).env("GIT_INDEX_FILE", &index).arg("update-index");
                let stdin = if option == "--index-info" { None } else { Some("--stdin") };
                git.args(["-z", option]).args(stdin).stdin(lines).output()?;
            }
        }
        fs::read(&index).map_err(|error| fail(&error))
    }

    /// The index of a commit; all files are read.
    fn index_of(&self, commit: &Treeish) -> Result<Vec<u8>, GitError> {
        let folder = IndexFolder::new(OPERATION)?;
        let index = folder.index();
        let read = self.write(OPERATION).args(["read-tree", commit.as_str()]);
        read.env("GIT_INDEX_FILE", &index).output()?;
        // One whose filter is disabled is only listed as different.
        let files = Files::Worktree(Some(&index));
        let conversions = self.conversions(OPERATION, files, OnFilter::Disable)?;
        self.refresh(&index, &conversions, &[])
    }

    /// The index of a commit, made from a known one: only files that have changed since are read. `None` if it does
    /// not apply.
    fn index_of_known(
        &self,
        commit: &Treeish,
        known: Option<KnownIndex>,
    ) -> Result<Option<Vec<u8>>, GitError> {
        let Some(known) = known else { return Ok(None) };
        let folder = IndexFolder::new(OPERATION)?;
        let index = folder.index();
        let make = || {
            fs::write(&index, &known.bytes).map_err(|error| fail(&error))?;
            // The entries that are the same keep the status of their files.
            let read = self.write(OPERATION).args(["-c", "index.version=2", "read-tree"]);
            let read = read.args(["-i", "-m", commit.as_str()]);
            read.env("GIT_INDEX_FILE", &index).output()?;
            let files = Files::Worktree(Some(&index));
            let conversions = self.conversions(OPERATION, files, OnFilter::Disable)?;
            // Git keeps the version of an index that it reads.
            match (&conversions.fingerprint, &conversions.index_version) {
                (Some(now), Some(version)) if *now == known.conversions => {
                    let version = ["--index-version", version];
                    self.refresh(&index, &conversions, &version).map(Some)
                }
                _ => Ok(None),
            }
        };
        match make() {
            Ok(Some(bytes)) => {
                known::keep_index(self.root(), known, false);
                Ok(Some(bytes))
            }
            // What is known may be the cause.
            Err(GitError { cause: GitCause::Exit { .. } | GitCause::Unexpected(_), .. }) => {
                Ok(None)
            }
            result => result,
        }
    }

    /// Reads the files of an index that may have changed.
    fn refresh(
        &self,
        index: &Path,
        conversions: &Conversions,
        options: &[&str],
    ) -> Result<Vec<u8>, GitError> {
        // Whatever the user's settings say, all of a file's status counts.
        let git = self.write(OPERATION).args(["-c", "core.trustctime=true"]);
        let git = git.args(["-c", "core.checkStat=default", "update-index"]).args(options);
        let git = git.args(["-q", "--refresh"]).env("GIT_INDEX_FILE", index);
        // Lists files that differ, with status 1, which is no error here.
        let refresh = git.settings(&conversions.settings).reading_files().run()?;
        if !matches!(refresh.code, Some(0 | 1)) {
            return Err(refresh.failure(OPERATION, self.root()));
        }
        fs::read(index).map_err(|error| fail(&error))
    }
}

/// What an index says of a path beside its commit.
struct Mark {
    path: Vec<u8>,
    /// The record of what is staged: mode, object, path.
    staged: Option<Vec<u8>>,
    is_assumed_unchanged: bool,
    is_skipped: bool,
}

/// The entries of a listed index, each with its tag.
pub(super) fn entries(listed: &[u8]) -> BTreeMap<&[u8], (u8, Option<Item>)> {
    let mut entries = BTreeMap::new();
    for record in listed.split(|byte| *byte == 0) {
        // Tag, mode, object and stage, before the path.
        if let Some((facts, path)) = split_once(record, b'\t')
            && let [[tag], mode, id, b"0"] =
                facts.split(|byte| *byte == b' ').collect::<Vec<_>>().as_slice()
        {
            entries.insert(path, (*tag, Item::new(mode, id)));
        }
    }
    entries
}

/// Whether a tag says that git does not compare the file.
pub(super) const fn is_uncompared(tag: u8) -> bool {
    tag.eq_ignore_ascii_case(&b'S') || tag.is_ascii_lowercase()
}

/// What a listed index says of files that differed before a run.
fn marks(listed: &[u8], theirs: &Differences) -> Vec<Mark> {
    let entries = entries(listed);
    let mark = |(path, sides): (&Vec<u8>, &Sides)| {
        let (tag, item) = match entries.get(path.as_slice()) {
            Some((tag, item)) => (*tag, item.clone()),
            None if entries.is_empty() => return None,
            None => (b'H', None),
        };
        let staged = (item == sides.new).then(|| sides.record(path));
        let is_skipped = tag.eq_ignore_ascii_case(&b'S');
        let is_assumed_unchanged = tag.is_ascii_lowercase();
        let path = path.clone();
        (staged.is_some() || is_uncompared(tag)).then_some(Mark {
            path,
            staged,
            is_assumed_unchanged,
            is_skipped,
        })
    };
    theirs.iter().filter_map(mark).collect()
}

fn fail(error: &io::Error) -> GitError {
    GitError::new(OPERATION, GitCause::File(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;
    use std::time::UNIX_EPOCH;

    use tempfile::TempDir;

    use super::super::tree::tests::{age, opened};
    use super::super::{RefUpdate, Signature};
    use super::*;

    const FILES: usize = 30;

    struct World {
        _folder: TempDir,
        top: PathBuf,
        ours: Git,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let top = folder.path().canonicalize().unwrap();
            let world = Self { _folder: folder, ours: Git::new(&top), top };
            world.git(&["init", "-q"]);
            for number in 0..FILES {
                world.file(number, &format!("{number}\n"));
            }
            world.git(&["add", "-A"]);
            world.git(&["commit", "-q", "-m", "one"]);
            world
        }

        /// Git reads a file that is as new as its index.
        fn file(&self, number: usize, content: &str) {
            let path = self.top.join(format!("file-{number}"));
            fs::write(&path, content).unwrap();
            fs::File::open(&path).unwrap().set_modified(UNIX_EPOCH).unwrap();
        }

        fn git(&self, words: &[&str]) -> String {
            let mut git = Command::new("git");
            git.current_dir(&self.top).env("GIT_CONFIG_GLOBAL", "/dev/null");
            git.args(["-c", "user.name=a", "-c", "user.email=a"]).args(words);
            let done = git.output().unwrap();
            assert!(done.status.success(), "{words:?}: {done:?}");
            assert!(done.stderr.is_empty(), "{words:?}: {done:?}");
            String::from_utf8(done.stdout).unwrap()
        }

        /// What is known of the work tree, as it will be in some seconds.
        fn known(&self) -> KnownIndex {
            self.ours.tree_of_worktree().unwrap();
            let mut known = known::take_index(&self.top).unwrap();
            age(&self.top, &mut known);
            known
        }

        /// Commits two changed files and a new one.
        fn commit(&self) -> CommitId {
            for number in [7, 8, FILES] {
                self.file(number, "changed\n");
            }
            let tree = self.ours.tree_of_worktree().unwrap();
            let head = self.ours.head().unwrap().unwrap();
            let us = Signature { name: "a".to_owned(), email: String::new() };
            let commit =
                self.ours.commit_tree(&tree, std::slice::from_ref(&head), "two", &us, &us, 1);
            let commit = commit.unwrap();
            let moved = self.ours.update_ref("HEAD", &commit, Some(&head)).unwrap();
            assert_eq!(moved, RefUpdate::Updated);
            commit
        }

        /// Sets the index with what is known, and returns how many files were opened.
        fn reset(&self, commit: &CommitId, known: Option<&KnownIndex>) -> usize {
            drop(known::take_index(&self.top));
            if let Some(known) = known {
                known::keep_index(&self.top, known.clone(), false);
            }
            opened(&self.top, || self.ours.reset_index(commit).unwrap())
        }

        /// Checks the index as a whole and returns its version.
        fn check(&self, changed: &str) -> u8 {
            // It checks the checksum.
            self.git(&["fsck", "--strict", "--no-dangling"]);
            assert_eq!(self.git(&["diff", "--cached", "--name-only"]), "");
            // `H` is an entry without flags.
            assert!(self.git(&["ls-files", "-v"]).lines().all(|line| line.starts_with("H ")));
            assert_eq!(self.git(&["diff-files", "--name-only"]), changed);
            let bytes = fs::read(self.top.join(".git/index")).unwrap();
            assert_eq!(
                self.git(&["status", "--porcelain"]).lines().count(),
                changed.lines().count()
            );
            bytes[7]
        }
    }

    #[test]
    fn only_what_has_changed_since_is_read_for_the_index() {
        let world = World::new();
        let known = world.known();
        let commit = world.commit();
        assert!(world.reset(&commit, None) >= FILES);
        assert_eq!(world.check(""), 2);
        let anew = world.git(&["ls-files", "--debug", "-s"]);
        let count = world.reset(&commit, Some(&known));
        assert!((3..=15).contains(&count), "{count}");
        assert_eq!(world.check(""), 2);
        assert_eq!(world.git(&["ls-files", "--debug", "-s"]), anew);
        // It stays known, and the version is the one that git would choose.
        assert_eq!(known::take_index(&world.top), Some(known.clone()));
        for (setting, version) in [
            (["feature.manyFiles", "true"], 4),
            (["index.version", "3"], 2),
            (["index.version", "4"], 4),
            (["index.version", "04"], 4),
        ] {
            world.git(&[&["config"][..], &setting].concat());
            world.ours.tree_of_worktree().unwrap();
            let mut known = known::take_index(&world.top).unwrap();
            age(&world.top, &mut known);
            let count = world.reset(&commit, Some(&known));
            assert_eq!(count >= FILES, setting[1] == "04", "{setting:?}: {count}");
            assert_eq!(world.check(""), version, "{setting:?}");
            world.reset(&commit, None);
            assert_eq!(world.check(""), version, "{setting:?}");
        }
    }

    #[test]
    fn a_file_that_changed_after_it_became_known_is_seen() {
        let world = World::new();
        world.ours.tree_of_worktree().unwrap();
        let known = known::take_index(&world.top).unwrap();
        // The same size and time, perhaps within the second of the last look.
        world.file(3, "x\n");
        let head = world.ours.head().unwrap().unwrap();
        assert!(world.reset(&head, Some(&known)) >= FILES);
        world.check("file-3\n");
        world.file(3, "3\n");
        let known = world.known();
        world.file(3, "longer\n");
        assert!(world.reset(&head, Some(&known)) < FILES);
        world.check("file-3\n");
    }

    #[test]
    fn what_is_known_of_other_conversions_or_damaged_is_not_used() {
        let world = World::new();
        let known = world.known();
        let commit = world.commit();
        let other = |bytes: &[u8]| KnownIndex { bytes: bytes.to_vec(), ..known.clone() };
        for bad in [
            KnownIndex { conversions: "other".to_owned(), ..known.clone() },
            other(b""),
            other(b"what"),
        ] {
            let count = world.reset(&commit, Some(&bad));
            assert!(count >= FILES, "{}: {count}", bad.bytes.len());
            world.check("");
            assert_eq!(known::take_index(&world.top), None);
        }
        // Git reads what there is of an index that ends too early.
        let half = known.bytes.get(..known.bytes.len() / 2).unwrap();
        world.reset(&commit, Some(&other(half)));
        world.check("");
        world.git(&["config", "core.autocrlf", "input"]);
        assert!(world.reset(&commit, Some(&known)) >= FILES);
        world.check("");
    }
}
