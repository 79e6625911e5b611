//! Folds rollbacks: restores the state that a run had at one of its checkpoints.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::checkpoint::{CheckpointKind, CheckpointRecord, CheckpointSide, KeptEnd, Rollback};
use super::payload::Change;
use super::state::{AttemptStage, Ended, JudgedBy, PhaseState, PhaseStatus, Run, SentBack};
use crate::CheckpointId;

/// The history that a rollback needs: the entries at which phases were settled or reset, facts were
/// added, the run was sent back, and the run was rolled back. Nothing is ever removed, so a run can also
/// be rolled forward to a later checkpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct History {
    phases: BTreeMap<usize, Vec<(u64, Arc<PhaseState>)>>,
    facts: Vec<(u64, BTreeMap<String, String>)>,
    sent_back: Vec<((usize, JudgedBy), SentBack)>,
    /// The newest commit of the run's branch after each entry that moved it.
    commits: Vec<(u64, String)>,
    /// The entry of each rollback, and the entry of its target checkpoint.
    rollbacks: Vec<(u64, u64)>,
}

/// The ranges of entries that lead to an entry; the entries that were rolled back are between them.
struct Lineage(Vec<RangeInclusive<u64>>);

impl Lineage {
    fn contains(&self, sequence_number: u64) -> bool {
        self.0.iter().any(|range| range.contains(&sequence_number))
    }
}

impl History {
    /// Adds the state of a phase that was settled or reset.
    fn add_phase(&mut self, position: usize, sequence_number: u64, state: &PhaseState) {
        let states = self.phases.entry(position).or_default();
        states.push((sequence_number, Arc::new(state.clone())));
    }

    /// Adds facts.
    pub(super) fn add_facts(&mut self, sequence_number: u64, facts: &BTreeMap<String, String>) {
        self.facts.push((sequence_number, facts.clone()));
    }

    /// Adds that the run's branch has a new commit.
    pub(super) fn add_commit(&mut self, sequence_number: u64, commit: &str) {
        self.commits.push((sequence_number, commit.to_owned()));
    }

    /// Adds that a check or gate sent the run back.
    pub(super) fn add_sent_back(&mut self, from: (usize, JudgedBy), sent: SentBack) {
        self.sent_back.push((from, sent));
    }

    /// Returns the ranges of entries that lead to the entry `upto`.
    fn lineage(&self, upto: u64) -> Lineage {
        let mut upto = upto;
        let mut ranges = Vec::new();
        for (rollback, source) in self.rollbacks.iter().rev().copied() {
            if rollback <= upto {
                ranges.push(rollback..=upto);
                upto = source;
            }
        }
        ranges.push(0..=upto);
        Lineage(ranges)
    }

    fn phase(&self, position: usize, lineage: &Lineage) -> Option<&PhaseState> {
        let states = self.phases.get(&position)?;
        let then = states.iter().rev().find(|(sequence, _)| lineage.contains(*sequence));
        then.map(|(_, state)| state.as_ref())
    }

    fn facts(&self, lineage: &Lineage) -> BTreeMap<String, String> {
        let stated = self.facts.iter().filter(|(sequence, _)| lineage.contains(*sequence));
        stated.flat_map(|(_, facts)| facts.clone()).collect()
    }

    fn sent_back(&self, lineage: &Lineage) -> BTreeMap<(usize, JudgedBy), Vec<SentBack>> {
        let mut all: BTreeMap<_, Vec<SentBack>> = BTreeMap::new();
        for (from, sent) in
            self.sent_back.iter().filter(|(_, sent)| lineage.contains(sent.sequence_number))
        {
            all.entry(*from).or_default().push(*sent);
        }
        all
    }
}

impl Run {
    /// The rollback whose workspace is not restored yet.
    #[must_use]
    pub fn pending_rollback(&self) -> Option<&Rollback> {
        self.rollback.as_deref()
    }

    /// The sequence number of the entry before the pending rollback: its name.
    #[must_use]
    pub const fn rollback_number(&self) -> u64 {
        self.rollback_at
    }

    /// The end that the run keeps although its files are put back, if they are or were just now.
    #[must_use]
    pub fn kept_end(&self) -> Option<&KeptEnd> {
        let rollback = self.rollback.as_deref();
        let last = self.last_rollback.as_deref().filter(|_| self.paused && self.ended.is_none());
        rollback.or(last)?.ends.as_ref()
    }

    /// Adds the current state of a phase to the history, if this run has checkpoints.
    pub(super) fn add_to_history(&mut self, position: usize) {
        let now = self.head.sequence_number.saturating_add(1);
        let checkpoints = self.started.as_ref().is_some_and(|started| started.plan.checkpoints);
        if let Some(state) = self.phases.get(position).filter(|_| checkpoints) {
            self.history.add_phase(position, now, state);
        }
    }

    /// Whether a rollback is in progress, or waits for a person to let the run continue.
    #[must_use]
    pub const fn is_rolling_back(&self) -> bool {
        self.rollback.is_some() || self.paused
    }

    /// The ids of the phases that were started and were not settled at a checkpoint.
    #[must_use]
    pub fn archived_by(&self, checkpoint: &CheckpointRecord) -> Vec<String> {
        let lineage = self.history.lineage(checkpoint.sequence_number);
        let origin = self.origin(checkpoint);
        let gone = |position: usize, state: &PhaseState| {
            let kept = self.history.phase(position, &lineage).is_some_and(PhaseState::settled)
                || (position == origin.phase && keeps_result(origin));
            state.attempt > 0 && !kept
        };
        let phases = self.all_phases().enumerate();
        phases
            .filter(|(position, (_, state))| gone(*position, state))
            .map(|(_, (phase, _))| phase.id.clone())
            .collect()
    }

    /// The newest commit of the run's branch at a checkpoint, if the run had made one.
    #[must_use]
    pub fn commit_then(&self, checkpoint: &CheckpointRecord) -> Option<&str> {
        let lineage = self.history.lineage(checkpoint.sequence_number);
        let mut commits = self.history.commits.iter().rev();
        commits.find(|(sequence, _)| lineage.contains(*sequence)).map(|(_, commit)| commit.as_str())
    }

    /// The checkpoint whose state a checkpoint has: for that of a rollback, the target of the rollback.
    fn origin<'a>(&'a self, checkpoint: &'a CheckpointRecord) -> &'a CheckpointRecord {
        let mut checkpoint = checkpoint;
        while checkpoint.kind == CheckpointKind::Rollback
            && let Some(source) = checkpoint.parent.and_then(|parent| self.checkpoint(parent))
        {
            checkpoint = source;
        }
        checkpoint
    }

    /// Returns the checkpoint `to`, if the run can be rolled back to it.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub fn rollback_target(&self, to: CheckpointId) -> Result<&CheckpointRecord, String> {
        if self.rollback.is_some() {
            return Err("a rollback is in progress".to_owned());
        }
        self.checkpoint(to).ok_or_else(|| "the run has no such checkpoint".to_owned())
    }

    pub(super) fn begin_rollback(&mut self, rollback: &Rollback) -> Result<(), String> {
        let checkpoint = self.rollback_target(rollback.checkpoint)?;
        let tree = checkpoint.workspace.as_ref().map(|workspace| &workspace.tree);
        if tree != rollback.tree.as_ref() {
            return Err("the checkpoint has another workspace".to_owned());
        }
        if [&rollback.target, &rollback.snapshot].iter().any(|one| one.is_some() != tree.is_some())
        {
            return Err("its workspace is incomplete".to_owned());
        }
        if rollback.from != self.checkpoints.last().map(|checkpoint| checkpoint.id) {
            return Err("the newest checkpoint of the run is another one".to_owned());
        }
        if rollback.archived != self.archived_by(checkpoint) {
            return Err("it discards other phases".to_owned());
        }
        if rollback.by.trim().is_empty() {
            return Err("it has no name of a person".to_owned());
        }
        let keeps = |kept: &KeptEnd| {
            let now = self.ended.as_ref();
            now.is_some_and(|now| (now.outcome, &now.reason) == (kept.outcome, &kept.reason))
        };
        if rollback.ends.as_ref().is_some_and(|kept| rollback.resume || !keeps(kept)) {
            return Err("the run has not ended so".to_owned());
        }
        if let Some(commit) = &rollback.commit {
            self.left_by_interrupted_work(commit);
        }
        self.interrupted();
        self.due_checkpoint = None;
        self.hold = None;
        self.ended = None;
        self.rollback = Some(Arc::new(rollback.clone()));
        self.rollback_at = self.head.sequence_number;
        Ok(())
    }

    /// Sets the commit at which the branch is. A commit of the run that no branch has is given up.
    fn left_by_interrupted_work(&mut self, commit: &str) {
        let is_unpublished = self.commit.as_ref().is_some_and(|own| own.parent == commit);
        if is_unpublished && self.left_at.is_none() {
            self.commit = None;
            self.commit_at = None;
        }
        let base = self.started.as_ref().and_then(|started| started.base.as_ref());
        let is_base = base.is_some_and(|base| base.commit == commit);
        self.left_at = Some(commit.to_owned()).filter(|_| !is_base);
    }

    /// Ends the run. A rollback that was not completed is given up with it.
    pub(super) fn end_with(&mut self, ended: Ended) {
        self.ended = Some(ended);
        self.rollback = None;
    }

    pub(super) fn end_rollback(&mut self, change: Option<&Change>) -> Result<(), String> {
        let rollback = self.rollback.take().ok_or("no rollback is in progress")?;
        let checkpoint =
            self.checkpoint(rollback.checkpoint).cloned().ok_or("its checkpoint does not exist")?;
        let lineage = self.history.lineage(checkpoint.sequence_number);
        for position in 0..self.phases.len() {
            let then = self.history.phase(position, &lineage).cloned().unwrap_or_default();
            self.change(position, |state| {
                // The numbering of attempts continues: no two attempts have the same number.
                let attempt = state.attempt;
                *state = if then.settled() {
                    PhaseState { attempt, ..then }
                } else {
                    let PhaseState { findings, forced, after, .. } = then;
                    PhaseState { attempt, findings, forced, after, ..PhaseState::default() }
                };
            });
        }
        self.facts = self.history.facts(&lineage);
        self.sent_back = self.history.sent_back(&lineage);
        let now = self.head.sequence_number.saturating_add(1);
        self.history.rollbacks.push((now, checkpoint.sequence_number));
        let origin = self.origin(&checkpoint).clone();
        if keeps_result(&origin) {
            self.restore_end(&origin);
        }
        self.change = change.cloned();
        self.reviewed = change.map(|change| change.tree.clone());
        self.spent.changed_lines = change.map_or(0, |change| change.lines);
        self.tree.clone_from(&rollback.target);
        self.paused = !rollback.resume;
        self.last_rollback = Some(Arc::clone(&rollback));
        self.require_checkpoint(checkpoint.phase, CheckpointSide::Pre, CheckpointKind::Rollback);
        if let Some(due) = &mut self.due_checkpoint {
            due.parent = Some(checkpoint.id);
        }
        Ok(())
    }

    /// Restores the end of a phase's work, so that it is judged again.
    fn restore_end(&mut self, checkpoint: &CheckpointRecord) {
        let Some(end) = self.ends.get(&(checkpoint.phase, checkpoint.attempt)).cloned() else {
            return;
        };
        let merge = self.phase(checkpoint.phase).is_some_and(|(phase, _)| phase.branch);
        let fork = self.checkpoints.iter().rev().find(|other| {
            other.phase == checkpoint.phase
                && other.at == CheckpointSide::Pre
                && other.kind == CheckpointKind::Started
                && other.attempt == checkpoint.attempt
        });
        let fork = fork.filter(|_| merge).and_then(|checkpoint| checkpoint.workspace.as_ref());
        let fork = fork.map(|workspace| workspace.tree.clone());
        let theirs = checkpoint.workspace.as_ref().and_then(|workspace| workspace.branch.clone());
        self.change(checkpoint.phase, |state| {
            let (attempt, forced, after) = (state.attempt, state.forced, state.after);
            *state = PhaseState { attempt, forced, after, ..PhaseState::default() };
            state.status = PhaseStatus::Running;
            state.stage = if merge { AttemptStage::Merge } else { AttemptStage::After(0) };
            state.done.clone_from(&end.done);
            state.reviews.clone_from(&end.reviews);
            state.agents.clone_from(&end.agents);
            state.started_at = end.started_at;
            state.branch.fork = fork;
            state.branch.theirs = theirs;
        });
        self.advance(checkpoint.phase);
    }
}

/// Whether a rollback to a checkpoint keeps the result of its phase.
fn keeps_result(checkpoint: &CheckpointRecord) -> bool {
    checkpoint.at == CheckpointSide::Post
        && matches!(checkpoint.kind, CheckpointKind::Succeeded | CheckpointKind::Approved)
}
