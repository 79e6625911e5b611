//! The fold of rollbacks: what a run was at one of its checkpoints.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::checkpoint::{CheckpointKind, CheckpointRecord, CheckpointSide, Rollback};
use super::payload::Change;
use super::state::{AttemptStage, JudgedBy, PhaseState, PhaseStatus, Run, SentBack};
use crate::CheckpointId;

/// What a run must remember to be taken back: the entries at which its phases came to an end or were
/// to be done again, at which facts were stated and the run was sent back, and at which it was itself
/// taken back. Nothing is ever taken out, so a run can be taken forward again too.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Past {
    phases: BTreeMap<usize, Vec<(u64, Arc<PhaseState>)>>,
    facts: Vec<(u64, BTreeMap<String, String>)>,
    sent_back: Vec<((usize, JudgedBy), SentBack)>,
    /// The entry of each rollback, and that of the checkpoint to which it led.
    turns: Vec<(u64, u64)>,
}

/// The stretches of entries that led to one of them; what was taken back lies between.
struct Line(Vec<RangeInclusive<u64>>);

impl Line {
    fn has(&self, sequence_number: u64) -> bool {
        self.0.iter().any(|stretch| stretch.contains(&sequence_number))
    }
}

impl Past {
    /// A phase has come to its end, or is to be done again.
    fn remember(&mut self, at: usize, sequence_number: u64, state: &PhaseState) {
        let states = self.phases.entry(at).or_default();
        states.push((sequence_number, Arc::new(state.clone())));
    }

    /// Facts were stated.
    pub(super) fn stated(&mut self, sequence_number: u64, facts: &BTreeMap<String, String>) {
        self.facts.push((sequence_number, facts.clone()));
    }

    /// A judgement has sent the run back.
    pub(super) fn sent(&mut self, from: (usize, JudgedBy), sent: SentBack) {
        self.sent_back.push((from, sent));
    }

    /// The entries that led to one.
    fn line(&self, upto: u64) -> Line {
        let mut upto = upto;
        let mut line = Vec::new();
        for (turn, source) in self.turns.iter().rev().copied() {
            if turn <= upto {
                line.push(turn..=upto);
                upto = source;
            }
        }
        line.push(0..=upto);
        Line(line)
    }

    fn phase(&self, at: usize, line: &Line) -> Option<&PhaseState> {
        let states = self.phases.get(&at)?;
        let then = states.iter().rev().find(|(sequence, _)| line.has(*sequence));
        then.map(|(_, state)| state.as_ref())
    }

    fn facts(&self, line: &Line) -> BTreeMap<String, String> {
        let stated = self.facts.iter().filter(|(sequence, _)| line.has(*sequence));
        stated.flat_map(|(_, facts)| facts.clone()).collect()
    }

    fn sent_back(&self, line: &Line) -> BTreeMap<(usize, JudgedBy), Vec<SentBack>> {
        let mut all: BTreeMap<_, Vec<SentBack>> = BTreeMap::new();
        for (from, sent) in self.sent_back.iter().filter(|(_, sent)| line.has(sent.sequence_number))
        {
            all.entry(*from).or_default().push(*sent);
        }
        all
    }
}

impl Run {
    /// The rollback whose files are still to be restored.
    #[must_use]
    pub fn pending_rollback(&self) -> Option<&Rollback> {
        self.rollback.as_deref()
    }

    /// Keeps how a phase stands now, if this run can be taken back.
    pub(super) fn remember(&mut self, at: usize) {
        let now = self.head.sequence_number.saturating_add(1);
        let checkpoints = self.started.as_ref().is_some_and(|started| started.plan.checkpoints);
        if let Some(state) = self.phases.get(at).filter(|_| checkpoints) {
            self.past.remember(at, now, state);
        }
    }

    /// Whether a person has begun to take the run back, and has not said yet that it goes on.
    #[must_use]
    pub const fn is_rolling_back(&self) -> bool {
        self.rollback.is_some() || self.paused
    }

    /// The phases that were not done at a checkpoint and have been begun, by name.
    #[must_use]
    pub fn archived_by(&self, checkpoint: &CheckpointRecord) -> Vec<String> {
        let line = self.past.line(checkpoint.sequence_number);
        let origin = self.origin(checkpoint);
        let gone = |at: usize, state: &PhaseState| {
            let kept = self.past.phase(at, &line).is_some_and(PhaseState::settled)
                || (at == origin.phase && restores_end(origin));
            state.attempt > 0 && !kept
        };
        let phases = self.all_phases().enumerate();
        phases
            .filter(|(at, (_, state))| gone(*at, state))
            .map(|(_, (phase, _))| phase.id.clone())
            .collect()
    }

    /// The checkpoint whose state one has: that of a rollback has the state it was taken back to.
    fn origin<'a>(&'a self, checkpoint: &'a CheckpointRecord) -> &'a CheckpointRecord {
        let mut checkpoint = checkpoint;
        while checkpoint.kind == CheckpointKind::Rollback
            && let Some(source) = checkpoint.parent.and_then(|parent| self.checkpoint(parent))
        {
            checkpoint = source;
        }
        checkpoint
    }

    /// What keeps a rollback to a checkpoint from being recorded, in words.
    ///
    /// # Errors
    /// The words.
    pub fn rollback_target(&self, to: CheckpointId) -> Result<&CheckpointRecord, String> {
        if self.rollback.is_some() {
            return Err("a rollback is under way".to_owned());
        }
        self.checkpoint(to).ok_or_else(|| "it is none of this run's checkpoints".to_owned())
    }

    pub(super) fn begin_rollback(&mut self, rollback: &Rollback) -> Result<(), String> {
        let checkpoint = self.rollback_target(rollback.checkpoint)?;
        let tree = checkpoint.workspace.as_ref().map(|workspace| &workspace.tree);
        if tree != rollback.tree.as_ref() {
            return Err("the checkpoint has another workspace".to_owned());
        }
        if [&rollback.target, &rollback.snapshot].iter().any(|one| one.is_some() != tree.is_some())
        {
            return Err("its workspace is not told".to_owned());
        }
        if rollback.from != self.checkpoints.last().map(|checkpoint| checkpoint.id) {
            return Err("the run was at another checkpoint".to_owned());
        }
        if rollback.archived != self.archived_by(checkpoint) {
            return Err("other phases are put aside by it".to_owned());
        }
        if rollback.by.trim().is_empty() {
            return Err("nobody has asked for it".to_owned());
        }
        self.interrupted();
        self.due_checkpoint = None;
        self.hold = None;
        self.ended = None;
        self.rollback = Some(Arc::new(rollback.clone()));
        Ok(())
    }

    pub(super) fn end_rollback(&mut self, change: Option<&Change>) -> Result<(), String> {
        let rollback = self.rollback.take().ok_or("no rollback is under way")?;
        let checkpoint =
            self.checkpoint(rollback.checkpoint).cloned().ok_or("its checkpoint is gone")?;
        let line = self.past.line(checkpoint.sequence_number);
        for at in 0..self.phases.len() {
            let then = self.past.phase(at, &line).cloned().unwrap_or_else(PhaseState::new);
            self.change(at, |state| {
                // Tries are numbered on: no two have the same number.
                let attempt = state.attempt;
                *state = if then.settled() {
                    PhaseState { attempt, ..then }
                } else {
                    let PhaseState { findings, forced, after, .. } = then;
                    PhaseState { attempt, findings, forced, after, ..PhaseState::new() }
                };
            });
        }
        self.facts = self.past.facts(&line);
        self.sent_back = self.past.sent_back(&line);
        let now = self.head.sequence_number.saturating_add(1);
        self.past.turns.push((now, checkpoint.sequence_number));
        let origin = self.origin(&checkpoint).clone();
        if restores_end(&origin) {
            self.restore_end(&origin);
        }
        self.change = change.cloned();
        self.spent.changed_lines = change.map_or(0, |change| change.lines);
        self.tree.clone_from(&rollback.target);
        self.paused = !rollback.resume;
        self.last_rollback = Some(Arc::clone(&rollback));
        self.require_checkpoint(checkpoint.phase, CheckpointSide::Pre, CheckpointKind::Rollback);
        if let Some(owed) = &mut self.due_checkpoint {
            owed.parent = Some(checkpoint.id);
        }
        Ok(())
    }

    /// A phase that had just ended is to be judged once more.
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
        let fork = fork.map(|kept| kept.tree.clone());
        let theirs = checkpoint.workspace.as_ref().and_then(|workspace| workspace.branch.clone());
        self.change(checkpoint.phase, |state| {
            let (attempt, forced, after) = (state.attempt, state.forced, state.after);
            *state = PhaseState { attempt, forced, after, ..PhaseState::new() };
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

/// Whether going back to a checkpoint leaves its phase done.
fn restores_end(checkpoint: &CheckpointRecord) -> bool {
    checkpoint.at == CheckpointSide::Post
        && matches!(checkpoint.kind, CheckpointKind::Succeeded | CheckpointKind::Approved)
}
