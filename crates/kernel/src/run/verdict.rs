//! Folds verdicts: an attempt continues, or the run is sent back.

use std::collections::BTreeSet;

use serde_json::Value;

use super::plan::{CheckTiming, Effect, PhaseCondition};
use super::state::{
    AttemptStage, JudgedBy, PendingVerdict, PhaseState, PhaseStatus, Run, SentBack,
};
use crate::Digest;

impl Run {
    pub(super) fn checked(
        &mut self,
        position: usize,
        check: &str,
        verdict: &str,
        reason: &str,
        findings: &Value,
    ) -> Result<(), String> {
        let place = self
            .phase(position)
            .and_then(|(phase, _)| phase.checks.iter().position(|other| other.id == check))
            .ok_or_else(|| format!("there is no check `{check}`"))?;
        let next = |state: &PhaseState| matches!(state.stage, AttemptStage::Before(next) | AttemptStage::After(next) if next == place);
        if !self.phases.get(position).is_some_and(next) || !self.index.at_work.contains(&position) {
            return Err(format!("check `{check}` is not the next one"));
        }
        let pending = PendingVerdict {
            judged_by: JudgedBy::Check(place),
            verdict: verdict.to_owned(),
            reason: reason.to_owned(),
            findings: findings.clone(),
        };
        self.judge(position, pending);
        Ok(())
    }

    /// Stores a verdict until its effect is recorded; `Continue` is applied at once.
    fn judge(&mut self, position: usize, pending: PendingVerdict) {
        let effect = self.phase(position).and_then(|(phase, _)| Self::effect(phase, &pending));
        if effect == Some(&Effect::Continue) {
            self.pass(position, pending.judged_by);
        } else {
            self.change(position, |state| state.pending_verdict = Some(pending));
        }
    }

    /// Continues the attempt after a check or the gate.
    pub(super) fn pass(&mut self, position: usize, source: JudgedBy) {
        self.change(position, |state| {
            state.pending_verdict = None;
            match (source, state.stage) {
                (JudgedBy::Check(place), AttemptStage::Before(_)) => {
                    state.stage = AttemptStage::Before(place + 1)
                }
                (JudgedBy::Check(place), AttemptStage::After(_)) => {
                    state.stage = AttemptStage::After(place + 1)
                }
                (JudgedBy::Gate, _) => state.status = PhaseStatus::Complete,
                (
                    JudgedBy::Check(_),
                    AttemptStage::Work | AttemptStage::Merge | AttemptStage::Gate,
                )
                | (JudgedBy::Failure, _) => {}
            }
        });
        self.advance(position);
    }

    /// Moves an attempt to its next stage that needs something to be done.
    pub(super) fn advance(&mut self, position: usize) {
        let Some((phase, state)) = self.phase(position) else { return };
        if state.status != PhaseStatus::Running || state.pending_verdict.is_some() {
            return;
        }
        let next_check = |from: usize, when: CheckTiming| {
            let mut checks = phase.checks.iter().enumerate().skip(from);
            checks.find(|(_, check)| check.at == when).map(|(place, _)| place)
        };
        let stage = match state.stage {
            AttemptStage::Before(from) => next_check(from, CheckTiming::Before)
                .map_or(AttemptStage::Work, AttemptStage::Before),
            AttemptStage::After(from) => {
                next_check(from, CheckTiming::After).map_or(AttemptStage::Gate, AttemptStage::After)
            }
            AttemptStage::Work | AttemptStage::Merge | AttemptStage::Gate => return,
        };
        self.change(position, |state| state.stage = stage);
        if stage == AttemptStage::Gate {
            self.reach_gate(position);
        }
    }

    fn reach_gate(&mut self, position: usize) {
        let Some((phase, state)) = self.phase(position) else { return };
        if phase.gate.is_none() {
            self.change(position, |state| state.status = PhaseStatus::Complete);
            return;
        }
        let answer = state.done.as_ref().map_or(&Value::Null, |done| &done.answer);
        let text =
            |key: &str| answer.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let pending = PendingVerdict {
            judged_by: JudgedBy::Gate,
            verdict: text("verdict"),
            reason: text("reason"),
            findings: answer.get("findings").cloned().unwrap_or(Value::Null),
        };
        self.judge(position, pending);
    }

    pub(super) fn send_back(
        &mut self,
        phase: &str,
        source: &str,
        verdict: &str,
        to: &str,
        count: u32,
        fingerprint: Option<Digest>,
    ) -> Result<(), String> {
        let (position, target) = (self.phase_index(phase)?, self.phase_index(to)?);
        let pending = self.phases.get(position).and_then(|state| state.pending_verdict.clone());
        let pending = pending.ok_or_else(|| format!("phase `{phase}` has no pending verdict"))?;
        if !self.index.at_work.is_empty() {
            return Err("work is still in progress".to_owned());
        }
        if !self.sends_back(position, &pending, source, verdict, to, count) {
            return Err(format!(
                "the verdict on phase `{phase}` does not send the run back this way"
            ));
        }
        let intervention =
            self.phase(target).is_some_and(|(phase, _)| phase.when == PhaseCondition::Intervention);
        // All phases that depend on a redone phase are redone.
        let mut again = BTreeSet::from([target]);
        if intervention {
            again.insert(position);
        }
        self.with_followers(again).into_iter().for_each(|place| self.reset(place));
        if intervention {
            self.change(position, |state| state.after = Some(target));
        }
        self.change(target, |state| {
            state.forced = intervention;
            state.findings = pending.findings;
        });
        for place in [target, position] {
            self.add_to_history(place);
        }
        let sequence_number = self.head.sequence_number.saturating_add(1);
        let sent = SentBack { sequence_number, to: target, fingerprint };
        self.sent_back.entry((position, pending.judged_by)).or_default().push(sent);
        if self.plan().is_some_and(|plan| plan.checkpoints) {
            self.history.add_sent_back((position, pending.judged_by), sent);
        }
        Ok(())
    }

    /// Whether a verdict sends the run back exactly as recorded.
    fn sends_back(
        &self,
        position: usize,
        pending: &PendingVerdict,
        source: &str,
        verdict: &str,
        to: &str,
        count: u32,
    ) -> bool {
        let Some((phase, _)) = self.phase(position) else { return false };
        let Some(effect) = Self::effect(phase, pending) else { return false };
        let to_there = match self.resolved(position, pending.judged_by, effect) {
            Effect::Redo { phase, .. } | Effect::Intervene { phase, .. } => phase == to,
            Effect::Block | Effect::Continue | Effect::Hold { .. } | Effect::Stop { .. } => false,
        };
        to_there
            && Self::source_name(phase, pending.judged_by) == source
            && pending.verdict == verdict
            && self.next_count(position, pending.judged_by) == count
    }

    /// Makes a phase pending again. A pending phase stays unchanged.
    pub(super) fn reset(&mut self, position: usize) {
        self.change(position, |state| {
            if state.status == PhaseStatus::Pending {
                return;
            }
            let (attempt, done) = (state.attempt, state.done.take());
            // An intervention that did not succeed is still required.
            let (forced, after) =
                if state.settled() { (false, None) } else { (state.forced, state.after) };
            *state = PhaseState { attempt, done, forced, after, ..PhaseState::default() };
        });
        self.add_to_history(position);
    }
}
