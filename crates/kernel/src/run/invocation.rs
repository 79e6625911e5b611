//! Folds the invocations of agents and programs.

use super::payload::Usage;
use super::plan::{CheckTiming, Doer};
use super::state::Run;

/// How deep subagents may start subagents: those of the agent of a phase, and those of its subagents.
pub const SUBAGENT_DEPTH_MAX: usize = 2;

impl Run {
    /// Folds the start of an agent or a program.
    pub(super) fn start_invocation(
        &mut self,
        phase: &str,
        attempt: u32,
        number: u64,
        agent: &str,
    ) -> Result<(), String> {
        let position = self.running_attempt(phase, attempt)?;
        if number != self.invocations.saturating_add(1) {
            return Err(format!("invocation {number} is not the next one"));
        }
        let (open, audited) = self.phases.get(position).map_or((false, false), |state| {
            (state.open_invocation.is_some(), state.open_audit.is_some())
        });
        let is_audit = open && !audited && self.audits(position, agent);
        if open && !is_audit || !self.index.at_work.contains(&position) {
            return Err(format!(
                "phase `{phase}` has no work in progress, or another invocation is open"
            ));
        }
        self.invocations = number;
        self.index.open.insert(number, position);
        if is_audit {
            self.change(position, |state| {
                state.open_audit = Some((number, agent.to_owned()));
                state.agents.entry(agent.to_owned()).or_default();
            });
            return Ok(());
        }
        self.change(position, |state| {
            state.open_invocation = Some(number);
            state.open_agent = Some(agent.to_owned());
            state.agents.entry(agent.to_owned()).or_default();
            state.uncertain = false;
        });
        Ok(())
    }

    /// Folds the start of a subagent: the invocation that asked for it is open, and is not itself at the last depth.
    pub(super) fn start_subagent(
        &mut self,
        phase: &str,
        attempt: u32,
        number: u64,
        agent: &str,
        parent: u64,
    ) -> Result<(), String> {
        let position = self.running_attempt(phase, attempt)?;
        if number != self.invocations.saturating_add(1) {
            return Err(format!("invocation {number} is not the next one"));
        }
        let depth = self.phases.get(position).and_then(|state| {
            let mut depth = 1_usize;
            let mut above = parent;
            while let Some((next, _)) = state.open_subagents.get(&above) {
                (depth, above) = (depth + 1, *next);
            }
            (state.open_invocation == Some(above)).then_some(depth)
        });
        match depth {
            Some(depth) if depth <= SUBAGENT_DEPTH_MAX => {}
            Some(_) => return Err(format!("subagents are at most {SUBAGENT_DEPTH_MAX} deep")),
            None => {
                return Err(format!("phase `{phase}` has no open invocation {parent}"));
            }
        }
        self.invocations = number;
        self.index.open.insert(number, position);
        self.change(position, |state| {
            state.open_subagents.insert(number, (parent, agent.to_owned()));
            state.agents.entry(agent.to_owned()).or_default();
        });
        Ok(())
    }

    /// Whether an agent audits the work of a phase while it is done.
    fn audits(&self, position: usize, agent: &str) -> bool {
        let is_by = |doer: &Doer| matches!(doer, Doer::Agent { agent: own, .. } if own == agent);
        let mut checks = self.phase(position).into_iter().flat_map(|(phase, _)| &phase.checks);
        checks.any(|check| matches!(check.at, CheckTiming::During { .. }) && is_by(&check.doer))
    }

    /// Folds the end of an agent or a program.
    pub(super) fn end_invocation(&mut self, invocation: u64, usage: Usage) -> Result<(), String> {
        let position = self.index.open.remove(&invocation).ok_or("no such invocation is open")?;
        self.add_usage(usage);
        let mut by = None;
        self.change(position, |state| {
            state.invoked = state.invoked.plus(usage);
            let audit = state.open_audit.take_if(|(number, _)| *number == invocation);
            let beside = audit.or_else(|| state.open_subagents.remove(&invocation));
            by = match beside {
                Some((_, agent)) => Some(agent),
                None => {
                    state.open_invocation = None;
                    state.open_agent.take()
                }
            };
            if let Some(agent) = &by {
                let used = state.agents.entry(agent.clone()).or_default();
                *used = used.plus(usage);
            }
        });
        if let Some(agent) = by {
            let used = self.agents.entry(agent).or_default();
            *used = used.plus(usage);
        }
        Ok(())
    }
}
