//! What a plan must hold to, so that a run of it can always go on or end.

use std::collections::BTreeSet;

use super::consensus::{APPROVED, CONDITIONAL, REJECTED};
use super::index::{Graph, Seen};
use super::plan::{
    BudgetedResource, Check, Doer, Effect, PHASES_MAX, Phase, PhaseCondition, Plan, Reviewer,
    RunOutcome, Trigger,
};

impl Graph {
    /// Takes a plan apart.
    ///
    /// # Errors
    /// In words, why no run can follow it.
    pub(super) fn of(plan: &Plan) -> Result<Self, String> {
        if plan.phases.is_empty() || plan.phases.len() > PHASES_MAX {
            return Err(format!("a plan has 1 to {PHASES_MAX} phases"));
        }
        if plan.hold.approvals == 0 {
            return Err("a hold needs at least one person".to_owned());
        }
        if let Some(resource) = BudgetedResource::ALL
            .into_iter()
            .find(|resource| plan.budget.limit(*resource) == Some(0))
        {
            return Err(format!("a budget of no {} lets nothing be done", resource.as_str()));
        }
        if !plan.checkpoints && plan.phases.iter().any(|phase| phase.branch) {
            return Err("a branch begins and ends with a checkpoint".to_owned());
        }
        let mut graph = Self::default();
        let builtins: BTreeSet<&str> = plan.builtins().collect();
        graph.builtins = builtins.into_iter().map(str::to_owned).collect();
        for (at, phase) in plan.phases.iter().enumerate() {
            graph.add(at, phase)?;
        }
        let mut seen = Seen::default();
        for (at, phase) in plan.phases.iter().enumerate() {
            let verdicts = phase.checks.iter().map(|check| &check.verdicts);
            for effect in verdicts
                .chain(phase.gate.iter().map(|gate| &gate.verdicts))
                .flat_map(|all| all.values())
            {
                graph.check_effect(plan, at, effect, &mut seen)?;
            }
        }
        Ok(graph)
    }

    fn add(&mut self, at: usize, phase: &Phase) -> Result<(), String> {
        let id = &phase.id;
        let mut needs = Vec::with_capacity(phase.needs.len());
        for need in &phase.needs {
            // INVARIANT: a plan's phases come after those they need.
            let need = self.names.get(need).copied();
            needs.push(need.ok_or_else(|| format!("phase `{id}` comes too early"))?);
        }
        if self.names.insert(id.clone(), at).is_some() {
            return Err(format!("two phases are called `{id}`"));
        }
        if matches!(phase.doer, Doer::Person { approvals: 0, .. }) {
            return Err(format!("phase `{id}` needs at least one person"));
        }
        if phase.branch && !matches!(phase.doer, Doer::Agent { .. } | Doer::Command { .. }) {
            return Err(format!("phase `{id}` is a branch, and nothing writes in it"));
        }
        check_consensus(phase)?;
        let same = |check: &Check, other: &Check| check.id == other.id;
        for (place, check) in phase.checks.iter().enumerate() {
            if phase.checks.iter().skip(place + 1).any(|other| same(check, other)) {
                return Err(format!("two checks of phase `{id}` are called `{}`", check.id));
            }
            if matches!(check.doer, Doer::Person { .. } | Doer::Consensus { .. }) {
                return Err(format!("check `{}` of phase `{id}` is made by a person", check.id));
            }
        }
        for need in &needs {
            if let Some(followers) = self.followers.get_mut(*need) {
                followers.push(at);
            }
        }
        self.needs.push(needs);
        self.followers.push(Vec::new());
        Ok(())
    }

    fn check_effect(
        &self,
        plan: &Plan,
        at: usize,
        effect: &Effect,
        seen: &mut Seen,
    ) -> Result<(), String> {
        let target = |name: &String| {
            let place = self.names.get(name).copied();
            let found = place.and_then(|place| Some((place, plan.phases.get(place)?)));
            found.ok_or_else(|| format!("there is no phase `{name}` to go to"))
        };
        match effect {
            Effect::Block | Effect::Continue => Ok(()),
            Effect::Hold { approvals, trigger } => match (approvals, trigger) {
                (Some(0), _) => Err("a hold needs at least one person".to_owned()),
                (_, Trigger::EscalationRequested | Trigger::WaiverRequested) => Ok(()),
                (
                    _,
                    Trigger::BudgetExhausted
                    | Trigger::CallApproval
                    | Trigger::ConsensusRequested
                    | Trigger::MergeConflict
                    | Trigger::PersonRequested
                    | Trigger::RestartRequested
                    | Trigger::RolledBack
                    | Trigger::UncertainEffect,
                ) => Err(format!("a verdict cannot cause a hold for {}", trigger.as_str())),
            },
            Effect::Intervene { phase, then } => {
                let (place, planned) = target(phase)?;
                if planned.when != PhaseCondition::Intervention {
                    return Err(format!("phase `{phase}` is no intervention"));
                }
                // It would wait for the phase that waits for it.
                if self.follows(place, at, seen) {
                    return Err(format!("intervention `{phase}` follows from what it mends"));
                }
                self.check_effect(plan, at, then, seen)
            }
            Effect::Redo { phase, then, .. } => {
                let (place, planned) = target(phase)?;
                if planned.when == PhaseCondition::Intervention {
                    return Err(format!("phase `{phase}` is only done on intervention"));
                }
                if !self.follows(at, place, seen) {
                    return Err(format!("phase `{phase}` does not lead to what sends back to it"));
                }
                self.check_effect(plan, at, then, seen)
            }
            Effect::Stop { outcome: RunOutcome::Pass, .. } => {
                Err("a run passes only when all of it is done".to_owned())
            }
            Effect::Stop { .. } => Ok(()),
        }
    }
}

/// Those who must agree are there, each once, and the gate knows what they can say.
fn check_consensus(phase: &Phase) -> Result<(), String> {
    let Doer::Consensus { quorum, reviewers, .. } = &phase.doer else { return Ok(()) };
    let id = &phase.id;
    let names: BTreeSet<&str> = reviewers.iter().map(Reviewer::name).collect();
    // Nobody can answer under a name that says nothing.
    if names.len() != reviewers.len() || names.iter().any(|name| name.trim().is_empty()) {
        return Err(format!("the reviewers of phase `{id}` have no different names"));
    }
    let most = u32::try_from(reviewers.len()).unwrap_or(u32::MAX);
    if *quorum == 0 || *quorum > most {
        return Err(format!("the quorum of phase `{id}` is not between 1 and {most}"));
    }
    let gate = phase.gate.as_ref();
    let known = |verdict: &str| gate.is_some_and(|gate| gate.verdicts.contains_key(verdict));
    match [APPROVED, CONDITIONAL, REJECTED].into_iter().find(|verdict| !known(verdict)) {
        Some(verdict) => Err(format!("the gate of phase `{id}` does not know `{verdict}`")),
        None => Ok(()),
    }
}
