//! Takes over what a command did to `.git` in the cell.
//!
//! In the cell, the git directory is an overlay: the real one below, read-only, and a private folder
//! above it, to which everything is written. When the command has ended, what is in that folder is
//! checked, and what is valid is applied to the repository. What decides how git behaves (settings, hooks,
//! attributes, links to other directories) is never applied, nor is a change of Windlass's own refs.
//!
//! INVARIANT: an error before the refs are set leaves the repository as it was, but for objects that
//! nothing refers to yet. Each later step replaces one thing at once, so a crash leaves a valid repository,
//! and taking over again completes it.

mod apply;
mod files;
mod index;
mod layers;
mod logs;
mod objects;
mod operation;
mod own_files;
mod refs;
mod tips;
mod verify;
mod worktrees;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use windlass_kernel::Code;

use self::files::{Class, FileChange, Owner, classify, digest_of, git_dir};
pub(in crate::git) use self::layers::read_file;
use self::layers::{Found, Kind, Layers, UpperEntry};
use self::logs::LogMark;
use self::refs::{
    OWN_LOGS, RefChange, RefValue, Refs, head_of, may_lead_to, read_refs, refs_after,
};
pub use self::tips::tips;
use self::tips::{heads, tips_of};
use self::worktrees::NewWorktree;
use super::error::GitCause;
use super::{Access, GitError, Invocation};

/// The refs that make git show another object than is there. No command may change them, nor those of snapshots, which
/// it does not even see.
const REPLACE_REFS: &str = "refs/replace/";
const OPERATION: &str = "take over the changes of git";
/// How often the objects of a command are imported when some are missing afterwards.
const IMPORT_ATTEMPTS: u32 = 3;
/// How long a lock of somebody else is waited for, and how often it is looked at.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(20);
/// The size limit of `HEAD`.
const HEAD_BYTES_MAX: u64 = 4096;

/// A take-over that was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakeOverError {
    /// What the command left behind is not valid; nothing was taken over.
    #[error("the command left `{}` in the git directory damaged: {why}", path.display())]
    Damaged {
        /// The path below the git directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Something else changed the same ref or file during the command; nothing was taken over.
    #[error("`{0}` of the repository was changed while the command ran, which changed it too")]
    Conflict(String),
    /// Another git process holds a lock and did not release it; nothing was taken over.
    #[error("another git process holds the lock `{0}` of the repository")]
    Locked(String),
    /// A file could not be read or written.
    #[error("cannot take over `{}`: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        cause: String,
    },
    /// A git command failed.
    #[error(transparent)]
    Git(#[from] GitError),
}

impl TakeOverError {
    /// The stable code under which this leaves the process.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Damaged { .. } => Code::GitDamaged,
            Self::Conflict(_) | Self::Locked(_) => Code::GitConflict,
            Self::File { .. } => Code::FileUnwritable,
            Self::Git(error) => error.code(),
        }
    }

    fn damaged(path: &Path, why: &str) -> Self {
        Self::Damaged { path: path.to_owned(), why: windlass_cell::one_line(why) }
    }

    fn file(path: &Path, error: &io::Error) -> Self {
        Self::File { path: path.to_owned(), cause: error.to_string() }
    }

    /// The error of git that means that objects are not valid.
    fn invalid_objects(error: GitError) -> Self {
        let objects = Path::new("objects");
        if let GitCause::Exit { line, .. } = &error.cause {
            Self::damaged(objects, line)
        } else if matches!(error.cause, GitCause::TooLarge(_)) {
            Self::damaged(objects, "there are too many")
        } else {
            Self::Git(error)
        }
    }
}

/// The refs and files of a repository before a command runs. It can be stored, so that a take-over can be
/// continued after a crash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    refs: Refs,
    /// The current commits of the work trees, by the names of their git directories.
    heads: BTreeMap<String, RefValue>,
    /// The digests of plain files; of an index, that of what it says.
    files: BTreeMap<String, String>,
    /// The marks of logs.
    logs: BTreeMap<String, LogMark>,
    /// Whether the command may reach other repositories.
    #[serde(default)]
    reaches_others: bool,
}

/// What was taken over. Paths are relative to the git directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// Refs and files that were changed.
    pub taken: Vec<String>,
    /// Files of the command that were left out, such as locks.
    pub ignored: Vec<String>,
    /// Changes of the command that no command may make. They were left out.
    pub protected: Vec<String>,
}

/// One take-over.
struct TakeOver<'a> {
    common: &'a Path,
    upper: &'a Path,
    workspace: &'a Path,
    /// The number of hex digits of an id.
    digits: usize,
}

/// All changes, checked as far as it is possible without their objects.
struct Plan {
    refs: Vec<RefChange>,
    heads: Vec<(String, RefValue)>,
    files: Vec<FileChange>,
    new_worktrees: Vec<NewWorktree>,
    removed_worktrees: Vec<String>,
    report: TakenOver,
}

impl Baseline {
    /// Reads the state of a repository. `common` is the git directory that all work trees share, and
    /// `workspace` the top of the work tree in which the command will run.
    ///
    /// # Errors
    /// [`TakeOverError`], also when the repository stores its refs in a way that cannot be taken over.
    pub fn read(common: &Path, workspace: &Path) -> Result<Self, TakeOverError> {
        let (common, workspace) = (canonical(common)?, canonical(workspace)?);
        if common.join("reftable").is_dir() {
            let why = "refs that are stored as `reftable` are not supported";
            return Err(GitError::refused(OPERATION, why).into());
        }
        let digits = digits_of(&common)?;
        let owners = worktrees::owners(&common, &workspace)?;
        let layers = Layers { upper: None, lower: common };
        let heads = heads(&layers, owners.keys(), digits);
        let (mut files, mut logs) = (BTreeMap::new(), BTreeMap::new());
        // Before the refs: what is added to a log later is known by its mark.
        for path in files::plain_files(&layers, &owners)?.into_keys() {
            let (name, path) = (path.to_string_lossy().into_owned(), path.as_path());
            let full = layers.lower.join(path);
            if logs::is_log(path) {
                logs.extend(LogMark::of(&full).map(|mark| (name, mark)));
            } else if files::is_compared(path) {
                files.extend(files::state_of(&full, digits).map(|state| (name, state)));
            }
        }
        let refs = read_refs(&layers.lower, digits)?;
        Ok(Self { refs, heads, files, logs, reaches_others: false })
    }

    /// Says that the command may reach other repositories: only then it can know something new of their branches.
    #[must_use]
    pub const fn reaching_others(mut self, reaches_others: bool) -> Self {
        self.reaches_others = reaches_others;
        self
    }

    /// The objects that refs and current commits were.
    #[must_use]
    pub fn tips(&self) -> BTreeSet<String> {
        tips_of(&self.refs, &self.heads)
    }

    /// Prepares the upper folder of the overlay, which is empty: the command sees these refs, whatever others do to them
    /// meanwhile.
    ///
    /// # Errors
    /// [`TakeOverError::File`], also when the file system of the folder has no extended attributes.
    pub fn show_in(&self, upper: &Path) -> Result<(), TakeOverError> {
        refs::show(&self.refs, upper).map_err(|error| TakeOverError::file(upper, &error))?;
        refs::hide(upper, Path::new(OWN_LOGS));
        for id in self.files.keys().filter_map(|name| name.strip_suffix("index")) {
            for name in ["index", "HEAD"] {
                refs::hide_lock(upper, &Path::new(id).join(name));
            }
        }
        Ok(())
    }
}

/// Takes over what a command did to a git directory, of which `upper` is the upper folder of the overlay, which
/// [`Baseline::show_in`] has prepared.
/// No process may use the overlay any more.
///
/// # Errors
/// [`TakeOverError`]: with [`TakeOverError::Damaged`] and [`TakeOverError::Conflict`] nothing was taken over.
pub fn take_over(
    common: &Path,
    upper: &Path,
    workspace: &Path,
    base: &Baseline,
) -> Result<TakenOver, TakeOverError> {
    take_over_in_steps(common, upper, workspace, base, &mut |_| Ok(()))
}

/// As [`take_over`]; `before_step` is called before every change of the repository, and an error of it ends
/// the take-over at that point, as a crash would.
#[doc(hidden)]
pub fn take_over_in_steps(
    common: &Path,
    upper: &Path,
    workspace: &Path,
    base: &Baseline,
    before_step: &mut dyn FnMut(&str) -> Result<(), TakeOverError>,
) -> Result<TakenOver, TakeOverError> {
    let (common, workspace) = (canonical(common)?, canonical(workspace)?);
    let upper = canonical(upper)?;
    let digits = digits_of(&common)?;
    let take_over = TakeOver { common: &common, upper: &upper, workspace: &workspace, digits };
    let layers = Layers { upper: Some(upper.clone()), lower: common.clone() };
    let entries = layers.upper_entries()?;
    let began = Instant::now();
    let plan = loop {
        match take_over.plan(&layers, &entries, base) {
            // A git of the user holds a lock, most often for a moment.
            Err(TakeOverError::Locked(_)) if began.elapsed() < LOCK_WAIT => {
                std::thread::sleep(LOCK_PAUSE);
            }
            planned => break planned?,
        }
    };
    before_step("objects")?;
    let mut attempt = 1;
    loop {
        take_over.import_objects(&entries)?;
        match take_over.verify(&layers, &plan, base) {
            Ok(()) => break,
            // Somebody may have pruned objects that the repository had until now, and the command has, too.
            Err(TakeOverError::Damaged { .. }) if attempt < IMPORT_ATTEMPTS => attempt += 1,
            Err(error) => return Err(error),
        }
    }
    take_over.apply(&plan, before_step)?;
    Ok(plan.report)
}

impl TakeOver<'_> {
    fn plan(
        &self,
        layers: &Layers,
        entries: &[UpperEntry],
        base: &Baseline,
    ) -> Result<Plan, TakeOverError> {
        check_structure(layers, self.digits)?;
        let mut owners = worktrees::owners(self.common, self.workspace)?;
        let removed_worktrees = self.removed_worktrees(layers, &owners);
        for id in &removed_worktrees {
            owners.remove(id);
        }
        let mut protected = Vec::new();
        let lower = Layers { upper: None, lower: self.common.to_owned() };
        let now = read_refs(self.common, self.digits)?;
        let merged = refs_after(self.upper, self.digits)?;
        let heads = self.head_changes(layers, &lower, base, &owners, &merged)?;
        let mut refs =
            refs::changes(&base.refs, &now, &merged, base.reaches_others, &mut protected)?;
        let is_left_out = |(_, head): &&(String, RefValue)| {
            head.target().is_some_and(|target| protected.iter().any(|name| name == target))
        };
        if let Some((id, head)) = heads.iter().find(is_left_out) {
            // Its commits would be on no branch.
            let why = format!("its branch `{head}` has the name of a remote's branch");
            return Err(TakeOverError::damaged(&head_of(&git_dir(id)), &why));
        }
        // A branch that the user works on in another work tree.
        let busy: BTreeSet<String> = owners
            .iter()
            .filter(|(_, owner)| **owner == Owner::User)
            .filter_map(|(id, _)| head(&lower, id, self.digits)?.target().map(str::to_owned))
            .collect();
        refs.retain(|change| {
            let is_busy = busy.contains(&change.name);
            if is_busy {
                protected.push(change.name.clone());
            }
            !is_busy
        });
        for change in &refs {
            check_kind(change)?;
        }
        let (files, given_up) = files::changes(layers, base, &owners, self.digits)?;
        protected.extend(given_up.iter().map(|folder| format!("{}/", folder.display())));
        self.check_locks(&files, &heads)?;
        let new_worktrees = self.new_worktrees(layers, &owners, base, &mut protected)?;
        let mut report = TakenOver { protected, ..TakenOver::default() };
        for id in &removed_worktrees {
            owners.insert(id.clone(), Owner::Command);
        }
        report_left_out(entries, layers, &owners, &mut report);
        report.taken.extend(refs.iter().map(|change| change.name.clone()));
        let own = |id: &String| head_of(&git_dir(id)).to_string_lossy().into_owned();
        report.taken.extend(heads.iter().map(|(id, _)| own(id)));
        let file = |change: &FileChange| change.path.to_string_lossy().into_owned();
        report.taken.extend(files.iter().map(file));
        let new = new_worktrees.iter().map(|new| &new.id);
        report.taken.extend(new.chain(&removed_worktrees).map(|id| format!("worktrees/{id}")));
        for list in [&mut report.taken, &mut report.ignored, &mut report.protected] {
            list.sort();
            list.dedup();
        }
        Ok(Plan { refs, heads, files, new_worktrees, removed_worktrees, report })
    }

    /// Finds the current commits that the upper layer changes.
    fn head_changes(
        &self,
        layers: &Layers,
        lower: &Layers,
        base: &Baseline,
        owners: &BTreeMap<String, Owner>,
        merged: &Refs,
    ) -> Result<Vec<(String, RefValue)>, TakeOverError> {
        let mut changes = Vec::new();
        for (id, owner) in owners {
            if *owner == Owner::User {
                continue;
            }
            let path = head_of(&git_dir(id));
            let Some(after) = head(layers, id, self.digits) else {
                return Err(TakeOverError::damaged(&path, "it is missing or not valid"));
            };
            if let Some(branch) = after.target()
                && !merged.contains_key(branch)
                && (base.refs.contains_key(branch) || (merged.is_empty() && !base.refs.is_empty()))
            {
                let why = format!("its branch `{branch}` is gone");
                return Err(TakeOverError::damaged(&path, &why));
            }
            let (before, now) = (base.heads.get(id), head(lower, id, self.digits));
            if Some(&after) == before || Some(&after) == now.as_ref() {
                continue;
            }
            if now.as_ref() != before {
                return Err(TakeOverError::Conflict(path.to_string_lossy().into_owned()));
            }
            if let Some(target) = after.target()
                && !may_lead_to("HEAD", target)
            {
                let why = format!("it leads to `{target}`, which is no branch");
                return Err(TakeOverError::damaged(&path, &why));
            }
            changes.push((id.clone(), after));
        }
        Ok(changes)
    }
}

/// The current commit of a git directory, if it is valid.
fn head(layers: &Layers, id: &str, digits: usize) -> Option<RefValue> {
    match layers.find(&head_of(&git_dir(id))) {
        Found::Upper(path, Kind::File { .. }) | Found::Lower(path, Kind::File { .. }) => {
            RefValue::parse(&read_file(&path, HEAD_BYTES_MAX).ok()?, digits)
        }
        Found::Upper(..) | Found::Lower(..) | Found::Absent => None,
    }
}

/// Refuses a git directory that lost what makes it one.
fn check_structure(layers: &Layers, digits: usize) -> Result<(), TakeOverError> {
    for name in ["objects", "refs"] {
        match layers.find(Path::new(name)) {
            Found::Upper(_, Kind::Folder { opaque }) if opaque == (name == "refs") => {}
            Found::Lower(_, Kind::Folder { .. }) if name == "objects" => {}
            Found::Upper(..) | Found::Lower(..) | Found::Absent => {
                return Err(TakeOverError::damaged(Path::new(name), "it was removed or replaced"));
            }
        }
    }
    match head(layers, "", digits) {
        Some(_) => Ok(()),
        None => Err(TakeOverError::damaged(Path::new("HEAD"), "it is missing or not valid")),
    }
}

/// Refuses a ref that became another kind of ref, or leads to one to which it may not.
fn check_kind(change: &RefChange) -> Result<(), TakeOverError> {
    let is_symbolic = |value: &RefValue| value.target().is_some();
    match (&change.before, &change.after) {
        (Some(before), Some(after)) if is_symbolic(before) != is_symbolic(after) => {
            Err(TakeOverError::damaged(Path::new(&change.name), "it became another kind of ref"))
        }
        (_, Some(after)) => match after.target().filter(|to| !may_lead_to(&change.name, to)) {
            Some(target) => {
                let why = format!("it leads to `{target}`");
                Err(TakeOverError::damaged(Path::new(&change.name), &why))
            }
            None => Ok(()),
        },
        (_, None) => Ok(()),
    }
}

/// Lists what is not taken over.
fn report_left_out(
    entries: &[UpperEntry],
    layers: &Layers,
    owners: &BTreeMap<String, Owner>,
    report: &mut TakenOver,
) {
    for entry in entries {
        let list = match classify(&entry.path, owners) {
            Class::Protected => &mut report.protected,
            Class::Ignored => &mut report.ignored,
            Class::Object | Class::Ref | Class::Head | Class::Plain | Class::Worktree => continue,
        };
        let lower = layers.lower.join(&entry.path);
        let changed = match entry.kind {
            Kind::File { .. } => {
                digest_of(&lower).is_none()
                    || layers.upper.as_ref().is_none_or(|upper| {
                        digest_of(&upper.join(&entry.path)) != digest_of(&lower)
                    })
            }
            Kind::Folder { opaque } => opaque && lower.symlink_metadata().is_ok(),
            // These are hidden from the start.
            Kind::Whiteout => {
                entry.path.extension().is_none_or(|end| end != "lock")
                    && entry.path != Path::new(OWN_LOGS)
            }
            Kind::Other => true,
        };
        if changed {
            list.push(entry.path.to_string_lossy().into_owned());
        }
    }
}

/// The number of hex digits of the repository's ids.
fn digits_of(common: &Path) -> Result<usize, GitError> {
    let format =
        repository_git(common, Access::Read).args(["rev-parse", "--show-object-format"]).line()?;
    match format.as_str() {
        "sha1" => Ok(40),
        "sha256" => Ok(64),
        _ => Err(GitError::unexpected(OPERATION, format.as_bytes())),
    }
}

/// A git invocation on the repository itself.
fn repository_git(common: &Path, access: Access) -> Invocation<'_> {
    Invocation::new(OPERATION, common, access).env("GIT_DIR", common)
}

fn canonical(path: &Path) -> Result<PathBuf, TakeOverError> {
    path.canonicalize().map_err(|error| TakeOverError::file(path, &error))
}
