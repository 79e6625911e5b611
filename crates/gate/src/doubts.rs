//! Doubts about what commits of commands have brought: by committing and checking out no command gets around a rule.

use std::collections::BTreeSet;
use std::io;

use crate::history::{Asked, History, Tips};
use crate::record::Record;
use crate::rel_path::RelPath;

/// What commits of commands have brought.
pub struct Doubts {
    all: BTreeSet<String>,
    /// What was not known before.
    new: BTreeSet<String>,
    unknown: Option<io::Error>,
}

impl Doubts {
    /// Finds out what commits have brought that are there now and were not before the commands that were not judged yet, and
    /// writes it down before anything is compared.
    pub fn of(
        record: &Record,
        is_asked: &dyn Fn(&RelPath) -> bool,
        tips: &BTreeSet<Tips>,
        history: &dyn History,
    ) -> io::Result<Self> {
        let mut doubts = Self { all: BTreeSet::new(), new: BTreeSet::new(), unknown: None };
        match record.doubted() {
            Ok(known) => doubts.all = known,
            Err(error) => doubts.unknown = Some(error),
        }
        for tips in tips {
            match history.brought(tips, is_asked) {
                Ok(brought) => doubts.new.extend(brought),
                Err(error) => doubts.unknown = Some(error),
            }
        }
        doubts.new = &doubts.new - &doubts.all;
        if !doubts.new.is_empty() && doubts.unknown.is_none() {
            doubts.all.extend(doubts.new.iter().cloned());
            record.doubt(&doubts.all)?;
        }
        Ok(doubts)
    }

    pub const fn brought(&self) -> &BTreeSet<String> {
        &self.new
    }

    /// Why it cannot be told.
    pub fn unknown(self) -> Option<io::Error> {
        self.unknown
    }

    /// Those of these paths at which there is what the current commit has, without what is doubted.
    pub fn without(&self, history: &dyn History, asked: &[Asked<'_>]) -> BTreeSet<RelPath> {
        match self.unknown {
            None => history.committed(asked, &self.all),
            Some(_) => BTreeSet::new(),
        }
    }

    /// What is in the workspace was accepted there: a commit of it brings nothing new.
    pub fn lift(&mut self, record: &Record, accepted: &BTreeSet<String>) -> io::Result<()> {
        if accepted.is_empty() || self.unknown.is_some() {
            return Ok(());
        }
        self.all.retain(|name| !accepted.contains(name));
        record.doubt(&self.all)
    }
}
