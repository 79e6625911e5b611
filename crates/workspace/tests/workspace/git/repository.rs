//! A temporary repository, made with the plain `git` command.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use windlass_workspace::{CommitId, DiffStat, Git, Signature, Treeish, WorktreeStatus};

pub struct Repository {
    folder: TempDir,
}

/// A name that is not UTF-8.
pub fn hostile_names() -> [&'static OsStr; 6] {
    [
        OsStr::new("with space"),
        OsStr::new("new\nline\ttab"),
        OsStr::new("\"quoted\"\\"),
        OsStr::from_bytes(b"not \xff\xfe utf-8"),
        OsStr::new("-option"),
        OsStr::new(":(glob)**"),
    ]
}

pub fn somebody() -> Signature {
    Signature { name: "Some Body".to_owned(), email: "some@body.example".to_owned() }
}

impl Repository {
    /// Without a commit.
    pub fn unborn() -> Self {
        let repository = Self { folder: TempDir::new().unwrap() };
        fs::create_dir(repository.path()).unwrap();
        repository.git(&["init", "-q", "-b", "main"]);
        repository
    }

    /// With one commit of a file `a` of three lines.
    pub fn new() -> Self {
        let repository = Self::unborn();
        repository.file("a", "1\n2\n3\n");
        repository.commit();
        repository
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("repo")
    }

    /// A folder beside the repository.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub fn ours(&self) -> Git {
        Git::new(self.path())
    }

    pub fn file(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn commit(&self) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "x"]);
    }

    #[track_caller]
    pub fn git(&self, arguments: &[&str]) -> String {
        git_in(&self.path(), arguments)
    }

    #[track_caller]
    pub fn head(&self) -> CommitId {
        self.ours().head().unwrap().unwrap()
    }

    #[track_caller]
    pub fn assert_clean(&self) {
        assert_eq!(self.ours().status().unwrap(), WorktreeStatus::Clean);
        assert_eq!(self.git(&["status", "--porcelain"]), "");
    }

    /// Writes an executable hook of every kind that could run, each of which fails and creates a file.
    pub fn failing_hooks(&self) {
        for name in [
            "pre-commit",
            "post-checkout",
            "post-index-change",
            "reference-transaction",
            "commit-msg",
            "post-commit",
            "fsmonitor-watchman",
        ] {
            self.file(
                format!(".git/hooks/{name}"),
                format!("#!/bin/sh\ntouch {name}.ran\nexit 1\n"),
            );
            let hook = self.path().join(".git/hooks").join(name);
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(hook, mode).unwrap();
        }
    }
}

/// Counts the changes of the work tree against a base.
#[track_caller]
pub fn diff_stat(git: &Git, base: &Treeish) -> DiffStat {
    git.diff_to(base, &git.tree_of_worktree().unwrap()).unwrap()
}

#[track_caller]
pub fn git_in(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
