//! A workspace around a command.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_beneath::Folder;

use crate::hold::{Held, hold};
use crate::judge::{Allowed, Committed, findings};
use crate::mark::Mark;
use crate::record::{Record, Running};
use crate::rel_path::RelPath;
use crate::rules::Rules;
use crate::scan::{Scan, Scope, Seen};

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
    /// whole.
    fn places(&self) -> BTreeSet<String> {
        let Some(seen) = self.record.seen() else { return BTreeSet::new() };
        let files = seen.marks.iter().filter(|(path, mark)| {
            matches!(mark, Mark::File { .. }) && self.rules.of(&path.text()).is_some()
        });
        let whole = |path: &RelPath| path.above().find(|folder| self.rules.is_about_all_of(folder));
        files.map(|(path, _)| whole(path).unwrap_or_else(|| path.clone()).text()).collect()
    }

    /// What commits of commands have brought that no person has seen.
    #[must_use]
    pub fn doubted(&self) -> BTreeSet<String> {
        self.record.doubted()
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
        committed: &Committed<'_>,
    ) -> Result<(Watch, Vec<String>), GateError> {
        self.told(|| {
            let _lock = self.record.lock()?;
            let mut told = self.settle_siblings(committed)?;
            told.extend(self.settle_locked(committed)?);
            self.record.sweep()?;
            let mut allowed = allowed;
            if let Some(most) = seal {
                allowed.sealed = self.places().into_iter().take(most).collect();
            }
            let running = self.record.start(&allowed)?;
            Ok((Watch { gate: self.clone(), allowed, running }, told))
        })
    }

    /// Holds back what a command left whose Windlass was killed.
    ///
    /// # Errors
    /// [`GateError`].
    pub fn settle(&self, committed: &Committed<'_>) -> Result<Vec<String>, GateError> {
        self.told(|| {
            let _lock = self.record.lock()?;
            self.settle_locked(committed)
        })
    }

    /// What commands under other rules left is held against those.
    fn settle_siblings(&self, committed: &Committed<'_>) -> io::Result<Vec<String>> {
        let mut told = Vec::new();
        for record in self.record.siblings()? {
            if record.others(None)?.died.is_empty() {
                continue;
            }
            if let Some((_, rules)) = record.subject() {
                let sibling = Self { record, rules: Arc::new(rules), ..self.clone() };
                told.extend(sibling.settle_locked(committed)?);
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

    /// Accepts a file as it is now: a tool of ours has written it, as a person or the policy allowed.
    ///
    /// # Errors
    /// [`GateError`].
    pub fn accept(place: &Path, workspace: &Path, path: &Path) -> Result<(), GateError> {
        let path = RelPath::from(path);
        let accept = || {
            let root = Folder::open(workspace)?;
            for record in Record::of(place, workspace)? {
                let Some((_, rules)) =
                    record.subject().filter(|(_, rules)| rules.of(&path.text()).is_some())
                else {
                    continue;
                };
                let _lock = record.lock()?;
                let Some(mut seen) = record.seen() else { continue };
                let scope = Scope { closed: Vec::new(), passed: Vec::new(), shown: Vec::new() };
                let mut scan = Scan {
                    root: &root,
                    workspace,
                    rules: &rules,
                    scope: &scope,
                    before: None,
                    keep: &mut |digest, bytes| record.keep(&digest, bytes),
                };
                match scan.one(&path)? {
                    Some(mark) => seen.marks.insert(path.clone(), mark),
                    None => seen.marks.remove(&path),
                };
                record.accept(&seen)?;
            }
            Ok(())
        };
        accept().map_err(|error: io::Error| GateError { workspace: workspace.to_owned(), error })
    }

    fn settle_locked(&self, committed: &Committed<'_>) -> io::Result<Vec<String>> {
        let others = self.record.others(None)?;
        let mut told = self.record.to_tell();
        if !others.died.is_empty() {
            let died = others.died.iter().map(|(_, allowed)| allowed);
            let allowed = together(died.chain(&others.running));
            let held = self.compare(&allowed, committed)?;
            told.extend(held.iter().map(Held::to_string));
        } else if !others.running.is_empty()
            && others.running.iter().all(|one| !one.sealed.is_empty())
        {
            // What changed beside servers was changed by people, but for what no server may have made either.
            let held = self.compare(&together(others.running.iter()), committed)?;
            told.extend(held.iter().map(Held::to_string));
        } else if others.running.is_empty() {
            // Nobody but people has been here since.
            let before = self.record.seen();
            let seen = self.scan(before.as_ref())?;
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
    fn compare(&self, allowed: &Allowed, committed: &Committed<'_>) -> io::Result<Vec<Held>> {
        self.compare_fully(allowed, committed).map(|(held, _)| held)
    }

    /// As [`Gate::compare`], and whether nothing is left that may not be.
    fn compare_fully(
        &self,
        allowed: &Allowed,
        committed: &Committed<'_>,
    ) -> io::Result<(Vec<Held>, bool)> {
        let before = self.record.seen();
        let mut after = self.scan(before.as_ref())?;
        // Without a state that can be understood there is nothing to compare with.
        let Some(before) = before else {
            self.record.accept(&after)?;
            return Ok((Vec::new(), true));
        };
        let root = Folder::open(&self.workspace)?;
        let mut all: Vec<Held> = Vec::new();
        // Another command may write again what is moved away: what is accepted was judged.
        for _ in 0..ROUNDS_MAX {
            let found = findings(&before, &after, &self.rules, allowed, committed);
            let held = hold(&root, &self.workspace, &self.record, &found)?;
            let is_changed = held.iter().any(|one| one.kept.is_some() || one.is_back);
            let is_left = held.iter().any(|one| one.is_left);
            all.extend(
                held.into_iter()
                    .filter(|one| {
                        one.kept.is_some() || one.is_back || one.is_left || is_new(&all, one)
                    })
                    .collect::<Vec<_>>(),
            );
            if is_left {
                return Ok((all, false));
            }
            if !is_changed {
                if after != before {
                    self.record.accept(&after)?;
                }
                return Ok((all, true));
            }
            after = self.scan(Some(&after))?;
        }
        Ok((all, false))
    }

    fn scan(&self, before: Option<&Seen>) -> io::Result<Seen> {
        let root = Folder::open(&self.workspace)?;
        let scan = Scan {
            root: &root,
            workspace: &self.workspace,
            rules: &self.rules,
            scope: &self.scope,
            before,
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
        self.allowed.sealed.iter().map(|path| self.gate.workspace.join(path)).collect()
    }

    /// What commits of commands have brought that no person has seen, by the names of [`Watch::doubt`].
    #[must_use]
    pub fn doubted(&self) -> BTreeSet<String> {
        self.gate.record.doubted()
    }

    /// Remembers what commits of commands have brought. A later command could otherwise have git write it into the workspace.
    ///
    /// # Errors
    /// [`GateError`].
    pub fn doubt(&self, doubted: &BTreeSet<String>) -> Result<(), GateError> {
        self.gate.told(|| self.gate.record.doubt(doubted))
    }

    /// The workspace.
    #[must_use]
    pub fn workspace(&self) -> &Path {
        &self.gate.workspace
    }

    /// The rules about files.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.gate.rules
    }

    /// As [`Watch::look`], when nobody is there to be told: whoever starts the next command is.
    ///
    /// # Errors
    /// [`GateError`].
    pub fn look_and_tell_later(&self, committed: &Committed<'_>) -> Result<(), GateError> {
        let held = self.look(committed)?;
        self.gate.told(|| self.gate.record.tell_later(&held))
    }

    /// While it goes on, or when it has ended: holds back what may not be left.
    ///
    /// # Errors
    /// [`GateError`]; what the command left is looked at again before the next one.
    pub fn look(&self, committed: &Committed<'_>) -> Result<Vec<Held>, GateError> {
        let Self { gate, allowed, running } = self;
        gate.told(|| {
            let _lock = gate.record.lock()?;
            let others = gate.record.others(Some(running))?;
            let allowed = together(others.running.iter().chain([allowed]));
            running.judged(false);
            let (held, is_whole) = gate.compare_fully(&allowed, committed)?;
            running.judged(is_whole);
            Ok(held)
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
    Allowed {
        // What one of them may write can have been written by that one.
        sealed: sealed.fold(first, |all, one| all.intersection(&one).cloned().collect()),
        paths: all.flat_map(|allowed| allowed.paths.iter().cloned()).collect(),
    }
}
