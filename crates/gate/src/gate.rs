//! A workspace around a command.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use windlass_beneath::Folder;
use windlass_kernel::Digest;

use crate::doubts::Doubts;
use crate::history::{History, Tips};
use crate::hold::{Held, hold, put_back_rest};
use crate::judge::{Allowed, Judge};
use crate::mark::Mark;
use crate::record::{Record, Running};
use crate::rel_path::RelPath;
use crate::rules::Rules;
use crate::scan::{Scan, Scope};
use crate::seen::Seen;

/// Why a workspace cannot be looked at.
#[derive(Debug, thiserror::Error)]
#[error("`{}` cannot be compared with what it was: {error}", workspace.display())]
pub struct GateError {
    workspace: PathBuf,
    error: io::Error,
}

/// How often it is looked again after something was moved away.
const ROUNDS_MAX: usize = 5;

/// One workspace.
#[derive(Clone, Debug)]
pub struct Gate {
    workspace: PathBuf,
    record: Record,
    rules: Arc<Rules>,
    scope: Scope,
}

/// A command that is running.
#[derive(Debug)]
pub struct Watch {
    gate: Gate,
    allowed: Allowed,
    running: Running,
    /// Whether it has certainly made no commit.
    made_none: AtomicBool,
}

/// What was found out by a comparison.
struct Compared {
    held: Vec<Held>,
    /// Whether nothing is left that may not be.
    is_whole: bool,
    /// Why it cannot be told what commits of commands have brought. Then it must be compared again.
    unknown: Option<io::Error>,
}

impl Gate {
    /// Prepares for a workspace, whose state is kept in `place`, a folder that no cell shows.
    ///
    /// # Errors
    /// [`GateError`].
    pub fn new(
        place: &Path,
        workspace: &Path,
        rules: &Arc<Rules>,
        scope: Scope,
    ) -> Result<Self, GateError> {
        let record = Record::open(place, workspace, rules)
            .map_err(|error| GateError { workspace: workspace.to_owned(), error })?;
        Ok(Self { workspace: workspace.to_owned(), record, rules: Arc::clone(rules), scope })
    }

    /// The files of the workspace that rules are about, as they were accepted last, or the folders that they are about as a
    /// whole, by device and inode.
    fn places(&self) -> BTreeMap<RelPath, (u64, u64)> {
        let Some(seen) = self.record.seen() else { return BTreeMap::new() };
        let files = seen.marks.iter().filter(|(path, mark)| {
            matches!(mark, Mark::File { .. }) && seen.targets.rule(&self.rules, path).is_some()
        });
        let whole = |path: &RelPath| path.above().find(|folder| self.rules.is_about_all_of(folder));
        let places = files.map(|(path, _)| whole(path).unwrap_or_else(|| path.clone()));
        places.filter_map(|path| Some((path.clone(), seen.inode(&path)?))).collect()
    }

    /// Before a command: writes down what is there. What a command left whose Windlass was killed is held back first. Lines
    /// about that, and about what was held back when nobody was there to be told, are returned. With `seal`, at most so many of the
    /// files that rules are about are said to be read-only in its cell.
    ///
    /// # Errors
    /// [`GateError`].
    pub fn watch(
        &self,
        allowed: Allowed,
        seal: Option<usize>,
        history: &dyn History,
    ) -> Result<(Watch, Vec<String>), GateError> {
        self.told(|| {
            let _lock = self.record.lock()?;
            let mut told = self.settle_siblings(history)?;
            told.extend(self.settle_locked(history)?);
            self.record.sweep()?;
            let mut allowed = allowed;
            if let Some(most) = seal {
                allowed.sealed = self.places().into_iter().take(most).collect();
            }
            let running = self.record.start(&allowed)?;
            let made_none = AtomicBool::new(false);
            Ok((Watch { gate: self.clone(), allowed, running, made_none }, told))
        })
    }

    /// Holds back what a command left whose Windlass was killed.
    ///
    /// # Errors
    /// [`GateError`].
    pub fn settle(&self, history: &dyn History) -> Result<Vec<String>, GateError> {
        self.told(|| {
            let _lock = self.record.lock()?;
            self.settle_locked(history)
        })
    }

    /// What commands under other rules left is held against those.
    fn settle_siblings(&self, history: &dyn History) -> io::Result<Vec<String>> {
        let mut told = Vec::new();
        for record in self.record.siblings()? {
            if record.others(None)?.died.is_empty() {
                continue;
            }
            if let Some((_, rules)) = record.subject() {
                let sibling = Self { record, rules: Arc::new(rules), ..self.clone() };
                told.extend(sibling.settle_locked(history)?);
            }
        }
        Ok(told)
    }

    /// The workspaces below a place in which commands were running whose Windlass was killed, or about which something is to
    /// be told. A command that starts there settles it.
    ///
    /// # Errors
    /// [`GateError`].
    pub fn unsettled(place: &Path) -> Result<Vec<(PathBuf, Arc<Rules>)>, GateError> {
        let find = || {
            let mut found = Vec::new();
            for record in Record::all(place)? {
                if (!record.others(None)?.died.is_empty() || !record.to_tell().is_empty())
                    && let Some((workspace, rules)) = record.subject()
                {
                    found.push((workspace, Arc::new(rules)));
                }
            }
            Ok(found)
        };
        find().map_err(|error: io::Error| GateError { workspace: place.to_owned(), error })
    }

    /// Accepts a file with these contents: a tool of ours has written them, as a person or the policy allowed.
    ///
    /// # Errors
    /// [`GateError`], also if something else is there now.
    pub fn accept(
        place: &Path,
        workspace: &Path,
        path: &Path,
        written: Digest,
    ) -> Result<(), GateError> {
        let path = RelPath::from(path);
        let accept = || {
            let root = Folder::open(workspace)?;
            for record in Record::of(place, workspace)? {
                let Some((_, rules)) = record.subject() else { continue };
                let _lock = record.lock()?;
                let Some(mut seen) = record.seen() else { continue };
                if seen.targets.rule(&rules, &path).is_none() {
                    continue;
                }
                let scope = Scope { closed: Vec::new(), passed: Vec::new(), shown: Vec::new() };
                let mut scan = Scan {
                    root: &root,
                    workspace,
                    rules: &rules,
                    scope: &scope,
                    before: None,
                    reads_all: true,
                    keep: &mut |digest, bytes| record.keep(&digest, bytes),
                };
                match scan.one(&path)? {
                    Some(mark) if matches!(mark, Mark::File { digest, .. } if digest == written) => {
                        seen.marks.insert(path.clone(), mark);
                    }
                    _ => return Err(io::Error::other(format!("`{path}` was changed again"))),
                }
                record.accept(&seen)?;
            }
            Ok(())
        };
        accept().map_err(|error: io::Error| GateError { workspace: workspace.to_owned(), error })
    }

    fn settle_locked(&self, history: &dyn History) -> io::Result<Vec<String>> {
        let others = self.record.others(None)?;
        let mut told = self.record.to_tell();
        let is_beside_servers =
            !others.running.is_empty() && others.running.iter().all(|one| !one.sealed.is_empty());
        if !others.died.is_empty() || is_beside_servers {
            // What changed beside servers was changed by people, but for what no server may have made either.
            if !others.died.is_empty() {
                put_back_rest(&self.top(None)?, &self.record)?;
            }
            let died = others.died.iter().map(|(_, allowed)| allowed);
            let allowed = together(died.chain(&others.running));
            let compared = self.compare(&allowed, &others.tips, history)?;
            if let Some(unknown) = compared.unknown {
                self.record.tell_later(&compared.held)?;
                return Err(unknown);
            }
            told.extend(compared.held.iter().map(Held::to_string));
        } else if others.running.is_empty() || self.record.seen().is_none() {
            // Nobody but people has been here since, or nobody whom these rules are about.
            let before = self.record.seen();
            let seen = self.scan(before.as_ref(), false)?;
            if before.as_ref() != Some(&seen) {
                self.record.accept(&seen)?;
            }
        }
        for (path, _) in &others.died {
            std::fs::remove_file(path)?;
        }
        self.record.told()?;
        Ok(told)
    }

    /// Holds back what may not be left, and accepts the rest.
    fn compare(
        &self,
        allowed: &Allowed,
        tips: &BTreeSet<Tips>,
        history: &dyn History,
    ) -> io::Result<Compared> {
        // Without a state that can be understood everything that rules are about is new.
        let before = self.record.seen().unwrap_or_else(|| Seen::nothing(&self.rules));
        let mut after = self.scan(Some(&before), true)?;
        let root = self.top(None)?;
        let (before, rules) = (&before, &*self.rules);
        let mut all =
            hold(&root, &self.record, &Judge { before, after: &after, rules, allowed }.specials())?;
        if !all.is_empty() {
            after = self.scan(Some(&after), false)?;
        }
        let is_asked = |path: &RelPath| {
            [before, &after].iter().any(|seen| seen.targets.rule(rules, path).is_some())
        };
        let mut doubts = Doubts::of(&self.record, &is_asked, tips, history)?;
        let mut is_whole = false;
        // Another command may write again what is moved away: what is accepted was judged.
        for _ in 0..ROUNDS_MAX {
            let judge = Judge { before, after: &after, rules, allowed };
            let found = judge.findings(&|asked| doubts.without(history, asked));
            let held = hold(&root, &self.record, &found)?;
            let is_changed = held.iter().any(|one| one.kept.is_some() || one.is_back);
            let is_left = held.iter().any(|one| one.is_left);
            for one in held {
                if one.kept.is_some() || one.is_back || one.is_left || is_new(&all, &one) {
                    all.push(one);
                }
            }
            is_whole = !is_left && !is_changed;
            if is_left || is_whole {
                break;
            }
            after = self.scan(Some(&after), false)?;
        }
        if is_whole {
            if after != *before {
                self.record.accept(&after)?;
            }
            doubts.lift(&self.record, &history.present(doubts.brought(), &after.marks))?;
        }
        Ok(Compared { held: all, is_whole, unknown: doubts.unknown() })
    }

    /// The workspace, open. Its owner is let in again if a command has shut it.
    fn top(&self, before: Option<&Seen>) -> io::Result<Folder> {
        let opened = Folder::open(&self.workspace);
        let top = RelPath::default();
        match (&opened, before.and_then(|before| before.inode(&top).zip(before.mode(&top)))) {
            (Err(error), Some((inode, mode)))
                if error.kind() == io::ErrorKind::PermissionDenied =>
            {
                let found = std::fs::symlink_metadata(&self.workspace)?;
                if (found.dev(), found.ino()) != inode {
                    return opened;
                }
                let mode = std::fs::Permissions::from_mode(mode);
                std::fs::set_permissions(&self.workspace, mode)?;
                Folder::open(&self.workspace)
            }
            (_, _) => opened,
        }
    }

    fn scan(&self, before: Option<&Seen>, reads_all: bool) -> io::Result<Seen> {
        let root = self.top(before)?;
        let scan = Scan {
            root: &root,
            workspace: &self.workspace,
            rules: &self.rules,
            scope: &self.scope,
            before,
            reads_all,
            keep: &mut |digest, bytes| self.record.keep(&digest, bytes),
        };
        scan.run()
    }

    fn told<T>(&self, act: impl FnOnce() -> io::Result<T>) -> Result<T, GateError> {
        act().map_err(|error| GateError { workspace: self.workspace.clone(), error })
    }
}

impl Watch {
    /// What its cell must show read-only, as it was said when it started.
    #[must_use]
    pub fn sealed(&self) -> Vec<PathBuf> {
        self.allowed.sealed.keys().map(|path| self.gate.workspace.join(path.as_path())).collect()
    }

    /// Says that it has certainly made no commit, and moved no ref.
    pub fn made_no_commit(&self) {
        self.made_none.store(true, Ordering::Relaxed);
    }

    /// As [`Watch::look`], when nobody is there to be told: whoever starts the next command is.
    ///
    /// # Errors
    /// [`GateError`].
    pub fn look_and_tell_later(&self, history: &dyn History) -> Result<(), GateError> {
        let held = self.look(history)?;
        self.gate.told(|| self.gate.record.tell_later(&held))
    }

    /// While it goes on, or when it has ended: holds back what may not be left.
    ///
    /// # Errors
    /// [`GateError`]; what the command left is looked at again before the next one.
    pub fn look(&self, history: &dyn History) -> Result<Vec<Held>, GateError> {
        let Self { gate, allowed, running, made_none } = self;
        gate.told(|| {
            let _lock = gate.record.lock()?;
            let others = gate.record.others(Some(running))?;
            let allowed = together(others.running.iter().chain([allowed]));
            let mut tips = others.tips;
            if !made_none.load(Ordering::Relaxed) {
                tips.extend(self.allowed.tips.clone());
            }
            running.judged(false);
            let compared = gate.compare(&allowed, &tips, history)?;
            if let Some(unknown) = compared.unknown {
                gate.record.tell_later(&compared.held)?;
                return Err(unknown);
            }
            running.judged(compared.is_whole);
            Ok(compared.held)
        })
    }
}

/// Whether a path was not told before.
fn is_new(told: &[Held], one: &Held) -> bool {
    told.iter().all(|other| other.path != one.path)
}

fn together<'a>(all: impl Iterator<Item = &'a Allowed> + Clone) -> Allowed {
    let mut sealed = all.clone().map(|allowed| allowed.sealed.clone());
    let first = sealed.next().unwrap_or_default();
    let both = |mut all: BTreeMap<_, _>, one: BTreeMap<_, _>| {
        all.retain(|path, inode| one.get(path) == Some(inode));
        all
    };
    Allowed {
        // What one of them may write can have been written by that one.
        sealed: sealed.fold(first, both),
        paths: all.flat_map(|allowed| allowed.paths.iter().cloned()).collect(),
        tips: None,
    }
}
