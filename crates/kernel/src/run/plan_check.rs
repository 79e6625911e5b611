//! Checks a plan, so that a run of it can always continue or end.

use std::collections::BTreeSet;

use super::consensus::{APPROVED, CONDITIONAL, REJECTED};
use super::index::{Graph, Visited};
use super::pinned::check_pinned;
use super::plan::{
    BudgetedResource, Check, Doer, Effect, PHASES_MAX, Phase, PhaseCondition, Plan, Reviewer,
    RunOutcome, Trigger,
};

impl Graph {
    /// Checks a plan and returns its graph.
    ///
    /// # Errors
    /// The reason why the plan is invalid.
    pub(super) fn of(plan: &Plan) -> Result<Self, String> {
        if plan.phases.is_empty() || plan.phases.len() > PHASES_MAX {
            return Err(format!("a plan has 1 to {PHASES_MAX} phases"));
        }
        if plan.hold.approvals == 0 {
            return Err("a hold needs at least one approval".to_owned());
        }
        if let Some(resource) = BudgetedResource::ALL
            .into_iter()
            .find(|resource| plan.budget.limit(*resource) == Some(0))
        {
            return Err(format!(
                "the budget of {} is zero, so no phase could start",
                resource.as_str()
            ));
        }
        if !plan.checkpoints && plan.phases.iter().any(|phase| phase.branch) {
            return Err("a plan with branches needs checkpoints".to_owned());
        }
        let rules = plan.governance.gates.iter().chain(&plan.governance.compliance);
        for rule in rules {
            check_pinned(rule.evidence.pinned())?;
        }
        let mut graph = Self::default();
        let builtins: BTreeSet<&str> = plan.builtins().collect();
        graph.builtins = builtins.into_iter().map(str::to_owned).collect();
        for (position, phase) in plan.phases.iter().enumerate() {
            graph.add(position, phase)?;
        }
        let mut visited = Visited::default();
        for (position, phase) in plan.phases.iter().enumerate() {
            let verdicts = phase.checks.iter().map(|check| &check.verdicts);
            for effect in verdicts
                .chain(phase.gate.iter().map(|gate| &gate.verdicts))
                .flat_map(|all| all.values())
            {
                graph.check_effect(plan, position, effect, &mut visited)?;
            }
        }
        Ok(graph)
    }

    fn add(&mut self, position: usize, phase: &Phase) -> Result<(), String> {
        let id = &phase.id;
        let mut needs = Vec::with_capacity(phase.needs.len());
        for need in &phase.needs {
            // INVARIANT: a plan's phases come after those they need.
            let need = self.names.get(need).copied();
            needs.push(
                need.ok_or_else(|| format!("phase `{id}` is listed before a phase that it needs"))?,
            );
        }
        if self.names.insert(id.clone(), position).is_some() {
            return Err(format!("two phases have the id `{id}`"));
        }
        if matches!(phase.doer, Doer::Person { approvals: 0, .. }) {
            return Err(format!("phase `{id}` needs at least one approval"));
        }
        if phase.branch && !matches!(phase.doer, Doer::Agent { .. } | Doer::Command { .. }) {
            return Err(format!("phase `{id}` is a branch, but its executor writes no files"));
        }
        check_consensus(phase)?;
        let same = |check: &Check, other: &Check| check.id == other.id;
        for (place, check) in phase.checks.iter().enumerate() {
            if phase.checks.iter().skip(place + 1).any(|other| same(check, other)) {
                return Err(format!("two checks of phase `{id}` have the id `{}`", check.id));
            }
            if matches!(check.doer, Doer::Person { .. } | Doer::Consensus { .. }) {
                return Err(format!(
                    "check `{}` of phase `{id}` is done by a person or reviewers",
                    check.id
                ));
            }
            if check.pinned.is_some() && !matches!(check.doer, Doer::Command { .. }) {
                return Err(format!(
                    "check `{}` of phase `{id}` has pinned files, but no command",
                    check.id
                ));
            }
            check_pinned(check.pinned.as_deref())?;
        }
        for need in &needs {
            if let Some(followers) = self.followers.get_mut(*need) {
                followers.push(position);
            }
        }
        self.needs.push(needs);
        self.followers.push(Vec::new());
        Ok(())
    }

    fn check_effect(
        &self,
        plan: &Plan,
        position: usize,
        effect: &Effect,
        visited: &mut Visited,
    ) -> Result<(), String> {
        let target = |name: &String| {
            let place = self.names.get(name).copied();
            let found = place.and_then(|place| Some((place, plan.phases.get(place)?)));
            found.ok_or_else(|| format!("there is no phase `{name}`"))
        };
        match effect {
            Effect::Block | Effect::Continue => Ok(()),
            Effect::Hold { approvals, trigger } => match (approvals, trigger) {
                (Some(0), _) => Err("a hold needs at least one approval".to_owned()),
                (_, Trigger::EscalationRequested | Trigger::WaiverRequested) => Ok(()),
                (
                    _,
                    Trigger::AgentUnavailable
                    | Trigger::BudgetExhausted
                    | Trigger::CallApproval
                    | Trigger::ConsensusRequested
                    | Trigger::MergeConflict
                    | Trigger::PersonRequested
                    | Trigger::RestartRequested
                    | Trigger::RolledBack
                    | Trigger::SetupFailed
                    | Trigger::UncertainEffect,
                ) => Err(format!(
                    "a verdict cannot cause a hold with the trigger {}",
                    trigger.as_str()
                )),
            },
            Effect::Intervene { phase, then } => {
                let (place, planned) = target(phase)?;
                if planned.when != PhaseCondition::Intervention {
                    return Err(format!("phase `{phase}` is not an intervention"));
                }
                // Each of the two phases would wait for the other.
                if self.follows(place, position, visited) {
                    return Err(format!(
                        "intervention `{phase}` depends on the phase that it intervenes in"
                    ));
                }
                self.check_effect(plan, position, then, visited)
            }
            Effect::Redo { phase, then, .. } => {
                let (place, planned) = target(phase)?;
                if planned.when == PhaseCondition::Intervention {
                    return Err(format!(
                        "phase `{phase}` is an intervention, which cannot be redone"
                    ));
                }
                if !self.follows(position, place, visited) {
                    return Err(format!(
                        "phase `{phase}` does not come before the phase that is sent back to it"
                    ));
                }
                self.check_effect(plan, position, then, visited)
            }
            Effect::Stop { outcome: RunOutcome::Pass, .. } => {
                Err("a verdict cannot end a run with PASS".to_owned())
            }
            Effect::Stop { .. } => Ok(()),
        }
    }
}

/// Checks that reviewers have distinct names, the quorum is possible, and the gate knows all verdicts.
fn check_consensus(phase: &Phase) -> Result<(), String> {
    let Doer::Consensus { quorum, reviewers, .. } = &phase.doer else { return Ok(()) };
    let id = &phase.id;
    let names: BTreeSet<&str> = reviewers.iter().map(Reviewer::name).collect();
    // Nobody can answer under an empty name.
    if names.len() != reviewers.len() || names.iter().any(|name| name.trim().is_empty()) {
        return Err(format!("the reviewers of phase `{id}` need distinct, non-empty names"));
    }
    let quorum_max = u32::try_from(reviewers.len()).unwrap_or(u32::MAX);
    if *quorum == 0 || *quorum > quorum_max {
        return Err(format!("the quorum of phase `{id}` is not between 1 and {quorum_max}"));
    }
    let gate = phase.gate.as_ref();
    let known = |verdict: &str| gate.is_some_and(|gate| gate.verdicts.contains_key(verdict));
    match [APPROVED, CONDITIONAL, REJECTED].into_iter().find(|verdict| !known(verdict)) {
        Some(verdict) => {
            Err(format!("the gate of phase `{id}` does not handle the verdict `{verdict}`"))
        }
        None => Ok(()),
    }
}
