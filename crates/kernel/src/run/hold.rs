//! The fold of holds: what a person's answer changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::event::{Decision, Done, Held, Usage};
use super::plan::Trigger;
use super::state::{Hold, PhaseStatus, Resolution, Run, Source, Stage};
use crate::{Digest, Timestamp};

impl Run {
    /// Whatever was under way when the process died may or may not have taken effect.
    pub(super) fn interrupted(&mut self) {
        for phase in &mut self.phases {
            phase.uncertain |= phase.open_invocation.take().is_some();
        }
    }

    pub(super) fn put_on_hold(
        &mut self,
        held: &Held,
        shown: Digest,
        ts: Timestamp,
    ) -> Result<(), String> {
        if held.number != self.holds + 1 {
            return Err(format!("hold {} is not the next one", held.number));
        }
        self.state_of(&held.phase)?;
        if held.trigger == Trigger::RestartRequested {
            self.interrupted();
        }
        self.holds = held.number;
        self.hold = Some(Hold { held: held.clone(), shown, since: ts, votes: Vec::new() });
        Ok(())
    }

    /// Applies a hold's answer.
    pub(super) fn resume(&mut self) -> Result<(), String> {
        let hold = self.hold.take().ok_or("the run is not on hold")?;
        let held = &hold.held;
        let decision = match hold.resolution() {
            Resolution::Open => return Err("the hold has not been answered".to_owned()),
            Resolution::Approved => Decision::Approved,
            Resolution::Rejected if self.rejection_is_a_verdict(held) => Decision::Rejected,
            Resolution::Rejected => return Err("the hold was rejected".to_owned()),
        };
        let (at, state) = self.state_of(&held.phase)?;
        match held.trigger {
            Trigger::BudgetExhausted => {
                if let Some(resource) = held.resource {
                    *self.granted.entry(resource).or_default() += 1;
                    self.warned.remove(&resource);
                }
            }
            Trigger::PersonRequested => self.person_answered(at, &hold, decision),
            Trigger::CallApproval | Trigger::RestartRequested => state.waiting = None,
            Trigger::UncertainEffect => state.uncertain = false,
            Trigger::EscalationRequested | Trigger::WaiverRequested => {
                match state.judged.take().map(|judged| judged.source) {
                    // What failed is tried again; what was judged is let pass.
                    Some(Source::Failure) => self.reset(at),
                    Some(source) => {
                        state.status = PhaseStatus::Running;
                        self.pass(at, source);
                    }
                    None => {}
                }
            }
        }
        Ok(())
    }

    fn person_answered(&mut self, at: usize, hold: &Hold, decision: Decision) {
        let people: Vec<Value> = hold
            .votes
            .iter()
            .map(|(vote, at)| json!({"by": vote.by, "at": at, "reason": vote.reason}))
            .collect();
        let verdict = match decision {
            Decision::Approved => "approved",
            Decision::Rejected => "rejected",
        };
        let reasons: Vec<&str> = hold.votes.iter().map(|(vote, _)| vote.reason.as_str()).collect();
        let reason = reasons.join("; ");
        let answer =
            json!({"verdict": verdict, "reason": reason, "findings": [reason], "people": people});
        let done = Done {
            answer,
            calls: Vec::new(),
            change: None,
            duration_ms: 0,
            facts: BTreeMap::new(),
            failure: None,
            outputs: BTreeMap::new(),
            summary: reason.clone(),
            usage: Usage::default(),
        };
        if let Some(state) = self.phases.get_mut(at) {
            state.done = Some(Arc::new(done));
            state.stage = Stage::After(0);
        }
        self.advance(at);
    }

    /// Whether a person's no is a verdict that the loop knows how to go on from.
    #[must_use]
    pub fn rejection_is_a_verdict(&self, held: &Held) -> bool {
        held.trigger == Trigger::PersonRequested
            && self
                .position(&held.phase)
                .and_then(|at| self.phase(at))
                .and_then(|(phase, _)| phase.gate.as_ref())
                .is_some_and(|gate| gate.verdicts.contains_key("rejected"))
    }
}
