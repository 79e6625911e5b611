//! The fold of rollbacks: what a run was at one of its checkpoints.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cut::{CutAt, CutKind, CutNote, Rollback};
use super::parts::Change;
use super::state::{PhaseState, PhaseStatus, Run, Stage};
use crate::CheckpointId;

/// What a run must remember to be taken back: the entries at which its phases came to an end, or were
/// to be done again, and at which its facts changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Past {
    phases: BTreeMap<usize, Vec<(u64, Option<Arc<PhaseState>>)>>,
    facts: Vec<(u64, Arc<BTreeMap<String, String>>)>,
}

impl Past {
    /// A phase has come to its end, or is to be done again.
    pub(super) fn settled(&mut self, at: usize, sequence_number: u64, state: &PhaseState) {
        let state = state.settled().then(|| Arc::new(state.clone()));
        self.phases.entry(at).or_default().push((sequence_number, state));
    }

    /// Facts were stated.
    pub(super) fn stated(&mut self, sequence_number: u64, facts: &BTreeMap<String, String>) {
        self.facts.push((sequence_number, Arc::new(facts.clone())));
    }

    fn phase(&self, at: usize, upto: u64) -> Option<Arc<PhaseState>> {
        let states = self.phases.get(&at)?;
        let then = states.iter().rev().find(|(sequence, _)| *sequence <= upto);
        then.and_then(|(_, state)| state.clone())
    }

    fn facts(&self, upto: u64) -> BTreeMap<String, String> {
        let then = self.facts.iter().rev().find(|(sequence, _)| *sequence <= upto);
        then.map(|(_, facts)| facts.as_ref().clone()).unwrap_or_default()
    }
}

impl Run {
    /// The rollback whose files are still to be restored.
    #[must_use]
    pub fn rolling_back(&self) -> Option<&Rollback> {
        self.rollback.as_deref()
    }

    /// The phases that were not done at a checkpoint and have been begun since, by name.
    #[must_use]
    pub fn archived_by(&self, cut: &CutNote) -> Vec<String> {
        let begun = |state: &PhaseState| {
            state.status != PhaseStatus::Pending || state.done.is_some() || state.attempt > 0
        };
        let gone = |at: usize, state: &PhaseState| {
            let kept = self.past.phase(at, cut.sequence_number).is_some()
                || (at == cut.phase && restores_end(cut));
            begun(state) && !kept
        };
        let phases = self.all_phases().enumerate();
        phases
            .filter(|(at, (_, state))| gone(*at, state))
            .map(|(_, (phase, _))| phase.id.clone())
            .collect()
    }

    /// What keeps a rollback to a checkpoint from being recorded, in words.
    ///
    /// # Errors
    /// The words.
    pub fn may_roll_back(&self, to: CheckpointId) -> Result<&CutNote, String> {
        if self.rollback.is_some() {
            return Err("a rollback is under way".to_owned());
        }
        self.cut(to).ok_or_else(|| "it is none of this run's checkpoints".to_owned())
    }

    pub(super) fn begin_rollback(&mut self, rollback: &Rollback) -> Result<(), String> {
        let cut = self.may_roll_back(rollback.checkpoint)?;
        let tree = cut.workspace.as_ref().map(|workspace| &workspace.tree);
        if tree != rollback.tree.as_ref() {
            return Err("the checkpoint has another workspace".to_owned());
        }
        if [&rollback.target, &rollback.snapshot].iter().any(|one| one.is_some() != tree.is_some())
        {
            return Err("its workspace is not told".to_owned());
        }
        if rollback.from != self.cuts.last().map(|cut| cut.id) {
            return Err("the run was at another checkpoint".to_owned());
        }
        if rollback.archived != self.archived_by(cut) {
            return Err("other phases are put aside by it".to_owned());
        }
        if rollback.by.trim().is_empty() {
            return Err("nobody has asked for it".to_owned());
        }
        self.interrupted();
        self.owed = None;
        self.hold = None;
        self.ended = None;
        self.rollback = Some(Arc::new(rollback.clone()));
        Ok(())
    }

    pub(super) fn end_rollback(&mut self, change: Option<&Change>) -> Result<(), String> {
        let rollback = self.rollback.take().ok_or("no rollback is under way")?;
        let cut = self.cut(rollback.checkpoint).cloned().ok_or("its checkpoint is gone")?;
        let upto = cut.sequence_number;
        for at in 0..self.phases.len() {
            let then = self.past.phase(at, upto);
            let restored = then.as_deref().cloned().unwrap_or_else(PhaseState::new);
            self.change(at, |state| {
                // Tries are numbered on: no two have the same number.
                *state = PhaseState { attempt: state.attempt, ..restored };
            });
        }
        self.facts = self.past.facts(upto);
        for sent in self.sent_back.values_mut() {
            sent.retain(|sent| sent.sequence_number <= upto);
        }
        if restores_end(&cut) {
            self.restore_end(&cut);
        }
        self.change = change.cloned();
        self.spent.changed_lines = change.map_or(0, |change| change.lines);
        self.tree.clone_from(&rollback.target);
        self.paused = !rollback.resume;
        self.taken_back = Some(Arc::clone(&rollback));
        self.owe(cut.phase, CutAt::Pre, CutKind::Rollback);
        if let Some(owed) = &mut self.owed {
            owed.parent = Some(cut.id);
        }
        let now = self.head.sequence_number.saturating_add(1);
        self.past.stated(now, &self.facts);
        Ok(())
    }

    /// A phase that had just ended is to be judged once more.
    fn restore_end(&mut self, cut: &CutNote) {
        let ends = self.ends.get(&(cut.phase, cut.attempt)).cloned();
        let merge = self.phase(cut.phase).is_some_and(|(phase, _)| phase.branch);
        let fork = self.cuts.iter().rev().find(|other| {
            other.phase == cut.phase
                && other.at == CutAt::Pre
                && other.kind == CutKind::Started
                && other.attempt == cut.attempt
        });
        let fork = fork.and_then(|cut| cut.workspace.as_ref()).map(|kept| kept.tree.clone());
        let theirs = cut.workspace.as_ref().and_then(|workspace| workspace.branch.clone());
        self.change(cut.phase, |state| {
            let attempt = state.attempt;
            *state = PhaseState { attempt, done: ends, ..PhaseState::new() };
            state.status = PhaseStatus::Running;
            state.stage = if merge { Stage::Merge } else { Stage::After(0) };
            state.branch.fork = fork;
            state.branch.theirs = theirs;
        });
        self.advance(cut.phase);
    }
}

/// Whether going back to a checkpoint leaves its phase done.
fn restores_end(cut: &CutNote) -> bool {
    cut.at == CutAt::Post && matches!(cut.kind, CutKind::Succeeded | CutKind::Approved)
}
