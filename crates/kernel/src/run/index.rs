//! An index of the phases by status: in progress, stopping the run, ready.
//!
//! The index is derived from the states of the phases alone. Only [`Run::change`] changes the state of a
//! phase, so the two cannot diverge.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::consensus::next_agent;
use super::plan::{Doer, Phase, PhaseCondition};
use super::state::{AttemptStage, PhaseState, PhaseStatus, Run};

/// The graph of the plan; phases are indices in the plan.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Graph {
    pub(super) names: BTreeMap<String, usize>,
    pub(super) needs: Vec<Vec<usize>>,
    pub(super) followers: Vec<Vec<usize>>,
    /// The builtins that the phases and their checks use.
    pub(super) builtins: BTreeSet<String>,
}

/// The phases by status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) graph: Arc<Graph>,
    /// For each phase, the number of phases that it needs and that are not settled.
    unmet: Vec<usize>,
    /// Phases with work, a check, a review or a merge in progress.
    pub(super) at_work: BTreeSet<usize>,
    /// Phases at which the run goes on hold, goes back or ends.
    pub(super) stops: BTreeSet<usize>,
    /// Phases that may be started or skipped.
    pub(super) ready: BTreeSet<usize>,
    /// The number of phases that are not settled.
    pub(super) unsettled: usize,
    /// Open invocations, with their phases.
    pub(super) open: BTreeMap<u64, usize>,
}

impl Index {
    /// The index of a run before its first phase.
    pub(super) fn of(graph: Graph) -> Self {
        let unmet: Vec<usize> = graph.needs.iter().map(Vec::len).collect();
        let none = |(position, count): (usize, &usize)| (*count == 0).then_some(position);
        let ready = unmet.iter().enumerate().filter_map(none).collect();
        let unsettled = unmet.len();
        Self { graph: Arc::new(graph), unmet, ready, unsettled, ..Self::default() }
    }
}

impl Graph {
    /// Whether the phase `position` is `from` or depends on it.
    pub(super) fn follows(&self, position: usize, from: usize, visited: &mut Visited) -> bool {
        visited.round += 1;
        visited.marks.resize(self.needs.len(), 0);
        let mut open = vec![position];
        while let Some(place) = open.pop() {
            if place == from {
                return true;
            }
            // A phase before `from` in the plan cannot depend on it.
            let Some(mark) = visited.marks.get_mut(place) else { continue };
            if place < from || *mark == visited.round {
                continue;
            }
            *mark = visited.round;
            open.extend(self.needs.get(place).into_iter().flatten());
        }
        false
    }
}

/// The phases that a search has visited; reused between searches.
#[derive(Debug, Default)]
pub(super) struct Visited {
    marks: Vec<usize>,
    round: usize,
}

/// The status of a phase in the index.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Activity {
    Idle,
    Works,
    Stops,
}

fn activity(phase: &Phase, state: &PhaseState) -> Activity {
    if state.pending_verdict.is_some() {
        return Activity::Stops;
    }
    if state.status != PhaseStatus::Running {
        return Activity::Idle;
    }
    let person = matches!(phase.doer, Doer::Person { .. }) && state.stage == AttemptStage::Work;
    let people = matches!(phase.doer, Doer::Consensus { .. })
        && state.stage == AttemptStage::Work
        && next_agent(phase, state).is_none();
    let person = person || people || state.branch.conflict.is_some();
    if person || state.waiting.is_some() || needs_confirmation(phase, state) {
        Activity::Stops
    } else {
        Activity::Works
    }
}

/// Whether a person must confirm a repetition: a program that is not repeatable may have taken effect.
pub(super) fn needs_confirmation(phase: &Phase, state: &PhaseState) -> bool {
    let doer = match state.stage {
        AttemptStage::Before(position) | AttemptStage::After(position) => {
            phase.checks.get(position).map(|check| &check.doer)
        }
        AttemptStage::Work | AttemptStage::Merge | AttemptStage::Gate => Some(&phase.doer),
    };
    state.uncertain && matches!(doer, Some(Doer::Command { repeatable: false, .. }))
}

impl Run {
    /// Changes the state of a phase and updates the index.
    ///
    /// INVARIANT: nothing else changes the state of a phase.
    pub(super) fn change(&mut self, position: usize, how: impl FnOnce(&mut PhaseState)) {
        let Some(state) = self.phases.get_mut(position) else { return };
        let settled_before = state.settled();
        how(state);
        let settled = state.settled();
        self.update_index(position);
        if settled == settled_before {
            return;
        }
        self.add_to_history(position);
        let graph = Arc::clone(&self.index.graph);
        if settled {
            self.index.unsettled = self.index.unsettled.saturating_sub(1);
        } else {
            self.index.unsettled += 1;
        }
        for follower in graph.followers.get(position).into_iter().flatten() {
            if let Some(count) = self.index.unmet.get_mut(*follower) {
                *count = if settled { count.saturating_sub(1) } else { *count + 1 };
            }
            self.update_index(*follower);
        }
        // Phases that wait for a settled intervention may now be ready.
        let intervenes = self
            .phase(position)
            .is_some_and(|(phase, _)| phase.when == PhaseCondition::Intervention);
        if intervenes {
            let waits = |state: &PhaseState| state.after == Some(position);
            let waiting: Vec<usize> = (0..self.phases.len())
                .filter(|place| self.phases.get(*place).is_some_and(waits))
                .collect();
            waiting.into_iter().for_each(|place| self.update_index(place));
        }
    }

    /// Updates the index for a phase.
    fn update_index(&mut self, position: usize) {
        let started = self.started.clone();
        let phase = started.as_ref().and_then(|started| started.plan.phases.get(position));
        let (Some(phase), Some(state)) = (phase, self.phases.get(position)) else { return };
        let activity = activity(phase, state);
        let ready = state.status == PhaseStatus::Pending && self.is_ready(position);
        for (set, member) in [
            (&mut self.index.at_work, activity == Activity::Works),
            (&mut self.index.stops, activity == Activity::Stops),
            (&mut self.index.ready, ready),
        ] {
            if member {
                set.insert(position);
            } else {
                set.remove(&position);
            }
        }
    }

    /// Whether all phases that a phase needs are settled.
    fn is_ready(&self, position: usize) -> bool {
        let settled =
            |position: &usize| self.phases.get(*position).is_some_and(PhaseState::settled);
        let after = self.phases.get(position).and_then(|state| state.after);
        self.index.unmet.get(position) == Some(&0) && after.iter().all(settled)
    }

    /// Whether the condition of a phase is met.
    pub(super) fn condition_is_met(&self, phase: &Phase, state: &PhaseState) -> bool {
        match &phase.when {
            PhaseCondition::Always => true,
            PhaseCondition::Fact { fact, one_of } => {
                self.facts.get(fact).is_some_and(|value| one_of.contains(value))
            }
            PhaseCondition::Intervention => state.forced,
        }
    }
}
