//! The cell of one command, from its start to its end.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use windlass_broker::BrokerRules;
use windlass_cell::{Cell, Confined, GitPaths};
use windlass_gate::Held;
use windlass_workspace::{Baseline, Git, take_over};

use crate::Certainty;
use crate::cache_changes::CacheChanges;
use crate::cache_settings::CacheSettings;
use crate::call_failure::CallFailure;
use crate::pinned::ShownFiles;
use crate::sandbox::open_work_folder;
use crate::workspace_watch::WorkspaceWatch;

/// A cell for one command.
#[derive(Debug)]
pub(crate) struct OpenCell {
    pub launcher: PathBuf,
    pub cell: Cell,
    pub git: Option<GitChanges>,
    /// The files that it does not show, relative to the top of the repository.
    pub hidden: Vec<String>,
    pub drops_git_changes: bool,
    pub watch: Option<WorkspaceWatch>,
    pub rules: BrokerRules,
    pub variables: Vec<(&'static str, String)>,
    pub _shown: ShownFiles,
    pub caches: CacheChanges,
    pub cache_settings: CacheSettings,
}

/// The changes of a command in a git directory, which are taken over when it has ended.
#[derive(Debug)]
pub(crate) struct GitChanges {
    pub folder: TempDir,
    pub git: GitPaths,
    pub workspace: PathBuf,
    /// The refs and files before the command.
    pub before: Baseline,
}

impl GitChanges {
    /// The folders for them, below one of ours.
    pub fn new(
        parent: &Path,
        git: GitPaths,
        workspace: &Path,
        reaches_others: bool,
    ) -> Result<Self, CallFailure> {
        let cannot = |path: &Path, error: &std::io::Error| {
            CallFailure::sandbox(format!("cannot create a folder in `{}`: {error}", path.display()))
        };
        let folder =
            TempDir::with_prefix_in("git-", parent).map_err(|error| cannot(parent, &error))?;
        let before = Baseline::read(&git.common, &git.top)
            .map_err(|error| CallFailure::git(Certainty::DidNotRun, &error))?
            .reaching_others(reaches_others);
        let changes = Self { folder, git, workspace: workspace.to_owned(), before };
        for folder in [changes.upper(), changes.work()] {
            std::fs::create_dir(&folder).map_err(|error| cannot(&folder, &error))?;
        }
        let shown = changes.before.show_in(&changes.upper());
        shown.map_err(|error| CallFailure::git(Certainty::DidNotRun, &error))?;
        Ok(changes)
    }

    pub fn upper(&self) -> PathBuf {
        self.folder.path().join("upper")
    }

    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Keeps the index as it was if the command has written another one; returns where it would be.
    fn keep_index(&self) -> Option<PathBuf> {
        let below = self.git.directory.strip_prefix(&self.git.common).ok()?.join("index");
        self.upper().join(&below).symlink_metadata().ok()?;
        let kept = self.folder.path().join("index");
        // Without one, nothing was staged.
        let _ = std::fs::copy(self.git.common.join(below), &kept);
        Some(kept)
    }

    /// Stages what was held back as it was staged before: the next commit of a person would have it.
    fn unstage(&self, held: &[Held], index: &Path) -> Result<(), CallFailure> {
        let prefix = self.workspace.strip_prefix(&self.git.top).unwrap_or(Path::new(""));
        let path = |held: &Held| Some(prefix.join(held.path.as_path()).to_str()?.to_owned());
        let paths: Vec<String> = held.iter().filter_map(path).collect();
        let staged = Git::new(&self.git.top).stage_as_in(index.exists().then_some(index), &paths);
        staged.map_err(|error| CallFailure::internal(Certainty::Unknown, error.to_string()))
    }
}

impl OpenCell {
    /// Fails if a server has changed what no command may since it was last looked at.
    pub fn require_unchanged(&self) -> Result<(), CallFailure> {
        let held = self.watch.as_ref().map_or(Ok(Vec::new()), WorkspaceWatch::look)?;
        if held.is_empty() { Ok(()) } else { Err(CallFailure::protected(&texts(&held))) }
    }

    /// When a server has ended: holds back what it left, and tells whoever starts the next command.
    pub fn close_unheard(&self) {
        if let Some(watch) = &self.watch {
            watch.look_and_tell_later();
            watch.close();
        }
    }

    /// Takes over what the command changed in the git directory, and holds back what it may not leave, whatever went wrong.
    pub fn close(self) -> Result<(), CallFailure> {
        let dropped = self.caches.drop_settings(&self.cache_settings, &self.cell.mounts);
        let changes = self.git.as_ref().filter(|_| !self.drops_git_changes);
        let index = changes.map(GitChanges::keep_index);
        let taken = changes.map(|changes| {
            take_over(&changes.git.common, &changes.upper(), &changes.git.top, &changes.before)
                .map_err(|error| CallFailure::git(Certainty::Unknown, &error))
        });
        let taken = taken.transpose();
        let mut unseen = Vec::new();
        let held = self.watch.as_ref().map(|watch| {
            if matches!(&taken, Ok(Some(taken)) if taken.taken.is_empty()) {
                watch.made_no_commit();
            }
            let held = watch.look();
            watch.close();
            let committed = watch.unseen().into_iter();
            unseen.extend(committed.map(|path| format!("{path} (committed without being seen)")));
            held
        });
        let mut protected = unseen;
        let unstaged = match (&held, changes, index.flatten()) {
            (Some(Ok(held)), Some(changes), Some(index)) => changes.unstage(held, &index),
            (_, _, _) => Ok(()),
        };
        if let Some(taken) = taken? {
            protected.extend(self.unstage(&taken.taken)?);
            protected.extend(taken.protected.into_iter().map(|path| format!(".git/{path}")));
        }
        protected.extend(texts(&held.transpose()?.unwrap_or_default()));
        unstaged?;
        protected.extend(dropped.map_err(|why| CallFailure::internal(Certainty::Unknown, why))?);
        match protected.is_empty() {
            true => Ok(()),
            false => Err(CallFailure::protected(&protected)),
        }
    }

    /// Takes out of the index what the command has staged without seeing it: the next commit of a person would have the real file.
    fn unstage(&self, taken: &[String]) -> Result<Vec<String>, CallFailure> {
        let Some(changes) = &self.git else { return Ok(Vec::new()) };
        if !taken.iter().any(|name| name == "index" || name.ends_with("/index")) {
            return Ok(Vec::new());
        }
        let unstaged = Git::new(&changes.git.top).unstage_uncommitted(&self.hidden);
        let unstaged = unstaged
            .map_err(|error| CallFailure::internal(Certainty::Unknown, error.to_string()))?;
        Ok(unstaged.into_iter().map(|path| format!("{path} (staged without being seen)")).collect())
    }

    /// Variables for the command.
    pub fn variables(&self) -> &[(&'static str, String)] {
        &self.variables
    }

    /// What the broker lets through.
    pub const fn rules(&self) -> &BrokerRules {
        &self.rules
    }

    /// Where the command is started.
    pub fn confined(&self) -> Confined<'_> {
        Confined { launcher: &self.launcher, cell: &self.cell }
    }
}

impl Drop for GitChanges {
    fn drop(&mut self) {
        open_work_folder(&self.work());
    }
}

fn texts(held: &[Held]) -> Vec<String> {
    held.iter().map(Held::to_string).collect()
}
