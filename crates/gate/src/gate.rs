//! A workspace around a command.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_beneath::Folder;

use crate::hold::{Held, hold};
use crate::judge::{Allowed, Committed, findings};
use crate::record::{Record, Running};
use crate::rules::Rules;
use crate::scan::{Scan, Scope, Seen};

/// Why a workspace cannot be looked at.
#[derive(Debug, thiserror::Error)]
#[error("`{}` cannot be compared with what it was: {error}", workspace.display())]
pub struct GateError {
    workspace: PathBuf,
    error: io::Error,
}

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
        let record = Record::open(place, workspace)
            .map_err(|error| GateError { workspace: workspace.to_owned(), error })?;
        Ok(Self { workspace: workspace.to_owned(), record, rules: Arc::clone(rules), scope })
    }

    /// Before a command: writes down what is there. What a command left whose Windlass was killed is held back first, and
    /// returned.
    ///
    /// # Errors
    /// [`GateError`].
    pub fn watch(
        &self,
        allowed: Allowed,
        committed: &Committed<'_>,
    ) -> Result<(Watch, Vec<Held>), GateError> {
        self.told(|| {
            let _lock = self.record.lock()?;
            let held = self.settle_locked(committed)?;
            let running = self.record.start(&allowed)?;
            Ok((Watch { gate: self.clone(), allowed, running }, held))
        })
    }

    /// Holds back what a command left whose Windlass was killed.
    ///
    /// # Errors
    /// [`GateError`].
    pub fn settle(&self, committed: &Committed<'_>) -> Result<Vec<Held>, GateError> {
        self.told(|| {
            let _lock = self.record.lock()?;
            self.settle_locked(committed)
        })
    }

    fn settle_locked(&self, committed: &Committed<'_>) -> io::Result<Vec<Held>> {
        let others = self.record.others(None)?;
        let mut held = Vec::new();
        if !others.died.is_empty() {
            let died = others.died.iter().map(|(_, allowed)| allowed);
            let allowed = together(died.chain(&others.running));
            held = self.compare(&allowed, committed)?;
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
        Ok(held)
    }

    /// Holds back what may not be left, and accepts the rest.
    fn compare(&self, allowed: &Allowed, committed: &Committed<'_>) -> io::Result<Vec<Held>> {
        let before = self.record.seen();
        let after = self.scan(before.as_ref())?;
        // Without a state that can be understood there is nothing to compare with.
        let Some(before) = before else {
            self.record.accept(&after)?;
            return Ok(Vec::new());
        };
        let found = findings(&before, &after, &self.rules, allowed, committed);
        let root = Folder::open(&self.workspace)?;
        let held = hold(&root, &self.workspace, &self.record, &found)?;
        let accepted = match held.is_empty() {
            true => after,
            false => self.scan(Some(&after))?,
        };
        if accepted != before {
            self.record.accept(&accepted)?;
        }
        Ok(held)
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
            gate.compare(&allowed, committed)
        })
    }
}

fn together<'a>(all: impl Iterator<Item = &'a Allowed>) -> Allowed {
    Allowed(all.flat_map(|allowed| allowed.0.iter().cloned()).collect())
}
