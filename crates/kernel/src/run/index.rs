//! What is to be known of all phases without looking at each: who is at work, who stops the run, who
//! is ready.
//!
//! It follows from the states of the phases alone. Only [`Run::change`] changes a phase's state, so
//! the two cannot drift apart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::consensus::next_agent;
use super::plan::{Doer, Phase, PhaseCondition};
use super::state::{AttemptStage, PhaseState, PhaseStatus, Run};

/// The plan's graph, by places in the plan.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Graph {
    pub(super) names: BTreeMap<String, usize>,
    pub(super) needs: Vec<Vec<usize>>,
    pub(super) followers: Vec<Vec<usize>>,
    /// The builtins that its phases and their checks use.
    pub(super) builtins: BTreeSet<String>,
}

/// The phases by what they ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) graph: Arc<Graph>,
    /// For each phase, how many of those it needs are not settled.
    unmet: Vec<usize>,
    /// Phases of which something is to be done outside.
    pub(super) at_work: BTreeSet<usize>,
    /// Phases at which the run stops, goes back or ends.
    pub(super) stops: BTreeSet<usize>,
    /// Phases that may be started or skipped.
    pub(super) ready: BTreeSet<usize>,
    /// How many phases are not settled.
    pub(super) unsettled: usize,
    /// Invocations that have not ended, with their phases.
    pub(super) open: BTreeMap<u64, usize>,
}

impl Index {
    /// The index of a run of which no phase has begun.
    pub(super) fn of(graph: Graph) -> Self {
        let unmet: Vec<usize> = graph.needs.iter().map(Vec::len).collect();
        let none = |(at, count): (usize, &usize)| (*count == 0).then_some(at);
        let ready = unmet.iter().enumerate().filter_map(none).collect();
        let unsettled = unmet.len();
        Self { graph: Arc::new(graph), unmet, ready, unsettled, ..Self::default() }
    }
}

impl Graph {
    /// Whether one phase is another, or comes after it because it needs it.
    pub(super) fn follows(&self, at: usize, from: usize, seen: &mut Seen) -> bool {
        seen.round += 1;
        seen.marks.resize(self.needs.len(), 0);
        let mut open = vec![at];
        while let Some(place) = open.pop() {
            if place == from {
                return true;
            }
            // What comes before `from` in the plan cannot need it.
            let Some(mark) = seen.marks.get_mut(place) else { continue };
            if place < from || *mark == seen.round {
                continue;
            }
            *mark = seen.round;
            open.extend(self.needs.get(place).into_iter().flatten());
        }
        false
    }
}

/// Which places a search has been at; kept between searches.
#[derive(Debug, Default)]
pub(super) struct Seen {
    marks: Vec<usize>,
    round: usize,
}

/// What a phase asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Idle,
    Works,
    Stops,
}

fn standing(phase: &Phase, state: &PhaseState) -> Standing {
    if state.pending_verdict.is_some() {
        return Standing::Stops;
    }
    if state.status != PhaseStatus::Running {
        return Standing::Idle;
    }
    let person = matches!(phase.doer, Doer::Person { .. }) && state.stage == AttemptStage::Work;
    let people = matches!(phase.doer, Doer::Consensus { .. })
        && state.stage == AttemptStage::Work
        && next_agent(phase, state).is_none();
    let person = person || people || state.branch.conflict.is_some();
    if person || state.waiting.is_some() || needs_confirmation(phase, state) {
        Standing::Stops
    } else {
        Standing::Works
    }
}

/// Whether it is not known how a program ended that may not just be started again.
pub(super) fn needs_confirmation(phase: &Phase, state: &PhaseState) -> bool {
    let doer = match state.stage {
        AttemptStage::Before(at) | AttemptStage::After(at) => {
            phase.checks.get(at).map(|check| &check.doer)
        }
        AttemptStage::Work | AttemptStage::Merge | AttemptStage::Gate => Some(&phase.doer),
    };
    state.uncertain && matches!(doer, Some(Doer::Command { repeatable: false, .. }))
}

impl Run {
    /// Changes the state of a phase and whatever follows from it.
    ///
    /// INVARIANT: nothing else changes the state of a phase.
    pub(super) fn change(&mut self, at: usize, how: impl FnOnce(&mut PhaseState)) {
        let Some(state) = self.phases.get_mut(at) else { return };
        let settled_before = state.settled();
        how(state);
        let settled = state.settled();
        self.place(at);
        if settled == settled_before {
            return;
        }
        self.remember(at);
        let graph = Arc::clone(&self.index.graph);
        if settled {
            self.index.unsettled = self.index.unsettled.saturating_sub(1);
        } else {
            self.index.unsettled += 1;
        }
        for follower in graph.followers.get(at).into_iter().flatten() {
            if let Some(count) = self.index.unmet.get_mut(*follower) {
                *count = if settled { count.saturating_sub(1) } else { *count + 1 };
            }
            self.place(*follower);
        }
        // Whether it was done or turned out not to be needed, nobody waits for it any more.
        let intervenes =
            self.phase(at).is_some_and(|(phase, _)| phase.when == PhaseCondition::Intervention);
        if intervenes {
            let waits = |state: &PhaseState| state.after == Some(at);
            let waiting: Vec<usize> = (0..self.phases.len())
                .filter(|place| self.phases.get(*place).is_some_and(waits))
                .collect();
            waiting.into_iter().for_each(|place| self.place(place));
        }
    }

    /// Puts a phase where it belongs in the index.
    fn place(&mut self, at: usize) {
        let started = self.started.clone();
        let phase = started.as_ref().and_then(|started| started.plan.phases.get(at));
        let (Some(phase), Some(state)) = (phase, self.phases.get(at)) else { return };
        let standing = standing(phase, state);
        let ready = state.status == PhaseStatus::Pending && self.is_ready(at);
        for (set, member) in [
            (&mut self.index.at_work, standing == Standing::Works),
            (&mut self.index.stops, standing == Standing::Stops),
            (&mut self.index.ready, ready),
        ] {
            if member {
                set.insert(at);
            } else {
                set.remove(&at);
            }
        }
    }

    /// Whether all that a phase needs is there.
    fn is_ready(&self, at: usize) -> bool {
        let settled = |at: &usize| self.phases.get(*at).is_some_and(PhaseState::settled);
        let after = self.phases.get(at).and_then(|state| state.after);
        self.index.unmet.get(at) == Some(&0) && after.iter().all(settled)
    }

    /// Whether a phase is to be done when its turn comes.
    pub(super) fn is_wanted(&self, phase: &Phase, state: &PhaseState) -> bool {
        match &phase.when {
            PhaseCondition::Always => true,
            PhaseCondition::Fact { fact, one_of } => {
                self.facts.get(fact).is_some_and(|value| one_of.contains(value))
            }
            PhaseCondition::Intervention => state.forced,
        }
    }
}
