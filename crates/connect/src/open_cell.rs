//! The cell of one command, from its start to its end.

use std::path::PathBuf;

use tempfile::TempDir;
use windlass_broker::BrokerRules;
use windlass_cell::{Cell, Confined, GitPaths};
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
    /// The refs and files before the command.
    pub before: Baseline,
}

impl GitChanges {
    pub fn upper(&self) -> PathBuf {
        self.folder.path().join("upper")
    }

    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }
}

impl OpenCell {
    /// Fails if a server has changed what no command may since it was last looked at.
    pub fn require_unchanged(&self) -> Result<(), CallFailure> {
        let held = self.watch.as_ref().map_or(Ok(Vec::new()), |watch| watch.look(&[], None))?;
        if held.is_empty() { Ok(()) } else { Err(CallFailure::protected(&held)) }
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
        let taken = changes.map(|changes| {
            take_over(&changes.git.common, &changes.upper(), &changes.git.top, &changes.before)
                .map_err(|error| CallFailure::git(Certainty::Unknown, &error))
        });
        let taken = taken.transpose();
        let mut unseen = Vec::new();
        let held = self.watch.as_ref().map(|watch| {
            let brought = match (&taken, changes) {
                (Ok(Some(taken)), Some(changes)) if moved_refs(&taken.taken) => {
                    watch.brought(&changes.before)
                }
                (_, _) => Ok(Vec::new()),
            };
            let committed =
                brought.iter().flatten().filter(|file| self.hidden.contains(&file.path));
            unseen.extend(
                committed.map(|file| format!("{} (committed without being seen)", file.path)),
            );
            // Without knowing what is new nothing counts as committed before.
            let before = changes.map(|changes| &changes.before);
            let held = watch.look(brought.as_deref().unwrap_or_default(), before);
            watch.close();
            brought.and(held)
        });
        let mut protected = unseen;
        if let Some(taken) = taken? {
            protected.extend(self.unstage(&taken.taken)?);
            protected.extend(taken.protected.into_iter().map(|path| format!(".git/{path}")));
        }
        protected.extend(held.transpose()?.unwrap_or_default());
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

/// Whether refs or current commits are among what was taken over.
fn moved_refs(taken: &[String]) -> bool {
    taken.iter().any(|name| name.starts_with("refs/") || name == "HEAD" || name.ends_with("/HEAD"))
}
