//! The fold of verdicts: letting a try go on, or sending the run back.

use serde_json::Value;

use super::plan::{At, Effect, When};
use super::state::{Judged, PhaseState, PhaseStatus, Run, Source, Stage};
use crate::Digest;

impl Run {
    pub(super) fn checked(
        &mut self,
        phase: &str,
        attempt: u32,
        check: &str,
        verdict: &str,
        reason: &str,
        findings: &Value,
    ) -> Result<(), String> {
        let (at, _) = self.state_of(phase)?;
        let place = self
            .plan()
            .and_then(|plan| plan.phases.get(at))
            .and_then(|phase| phase.checks.iter().position(|other| other.id == check))
            .ok_or_else(|| format!("there is no check `{check}`"))?;
        let state = self.trying(phase, attempt)?;
        if !matches!(state.stage, Stage::Before(next) | Stage::After(next) if next == place)
            || state.judged.is_some()
        {
            return Err(format!("check `{check}` is not the next one"));
        }
        let judged = Judged {
            source: Source::Check(place),
            verdict: verdict.to_owned(),
            reason: reason.to_owned(),
            findings: findings.clone(),
        };
        self.judge(at, judged);
        Ok(())
    }

    /// Keeps a verdict until its effect is recorded, unless it just lets the run go on.
    fn judge(&mut self, at: usize, judged: Judged) {
        let plan = self.started.clone();
        let phase = plan.as_ref().and_then(|started| started.plan.phases.get(at));
        let goes_on =
            phase.and_then(|phase| Self::effect(phase, &judged)) == Some(&Effect::Continue);
        let Some(state) = self.phases.get_mut(at) else { return };
        if !goes_on {
            state.judged = Some(judged);
            return;
        }
        self.pass(at, judged.source);
    }

    /// Leaves a judgement behind.
    pub(super) fn pass(&mut self, at: usize, source: Source) {
        let Some(state) = self.phases.get_mut(at) else { return };
        state.judged = None;
        match (source, state.stage) {
            (Source::Check(place), Stage::Before(_)) => state.stage = Stage::Before(place + 1),
            (Source::Check(place), Stage::After(_)) => state.stage = Stage::After(place + 1),
            (Source::Gate, _) => state.status = PhaseStatus::Complete,
            (Source::Check(_), Stage::Work | Stage::Gate) | (Source::Failure, _) => {}
        }
        self.advance(at);
    }

    /// Moves a try past what does not concern it, as far as nothing is to be done.
    pub(super) fn advance(&mut self, at: usize) {
        let plan = self.started.clone();
        let Some(phase) = plan.as_ref().and_then(|started| started.plan.phases.get(at)) else {
            return;
        };
        let Some(state) = self.phases.get_mut(at) else { return };
        if state.status != PhaseStatus::Running || state.judged.is_some() {
            return;
        }
        let next_check = |from: usize, when: At| {
            phase.checks.iter().enumerate().skip(from).find(|(_, check)| check.at == when)
        };
        match state.stage {
            Stage::Before(from) => {
                state.stage = next_check(from, At::Before)
                    .map_or(Stage::Work, |(place, _)| Stage::Before(place));
            }
            Stage::Work => {}
            Stage::After(from) => match next_check(from, At::After) {
                Some((place, _)) => state.stage = Stage::After(place),
                None => {
                    state.stage = Stage::Gate;
                    self.reach_gate(at);
                }
            },
            Stage::Gate => {}
        }
    }

    fn reach_gate(&mut self, at: usize) {
        let Some((phase, state)) = self.phase(at) else { return };
        if phase.gate.is_none() {
            if let Some(state) = self.phases.get_mut(at) {
                state.status = PhaseStatus::Complete;
            }
            return;
        }
        let answer = state.done.as_ref().map_or(&Value::Null, |done| &done.answer);
        let text =
            |key: &str| answer.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let judged = Judged {
            source: Source::Gate,
            verdict: text("verdict"),
            reason: text("reason"),
            findings: answer.get("findings").cloned().unwrap_or(Value::Null),
        };
        self.judge(at, judged);
    }

    pub(super) fn send_back(
        &mut self,
        phase: &str,
        source: &str,
        to: &str,
        fingerprint: Option<Digest>,
    ) -> Result<(), String> {
        let (at, state) = self.state_of(phase)?;
        let judged =
            state.judged.take().ok_or_else(|| format!("phase `{phase}` was not judged"))?;
        let (target, _) = self.state_of(to)?;
        let plan = self.started.clone();
        let intervention = plan
            .as_ref()
            .and_then(|started| started.plan.phases.get(target))
            .is_some_and(|phase| phase.when == When::Intervention);
        if intervention {
            self.reset(at);
            self.reset(target);
            if let Some(state) = self.phases.get_mut(at) {
                state.after = Some(target);
            }
            if let Some(state) = self.phases.get_mut(target) {
                state.forced = true;
            }
        } else {
            if target > at {
                return Err(format!("phase `{to}` comes after `{phase}`"));
            }
            let mut again = vec![false; self.phases.len()];
            for place in target..self.phases.len() {
                let needs = self.needs.get(place).map(Vec::as_slice).unwrap_or_default();
                let follows = place == target
                    || needs.iter().any(|need| again.get(*need).copied().unwrap_or_default());
                if let Some(slot) = again.get_mut(place) {
                    *slot = follows;
                }
                if follows {
                    self.reset(place);
                }
            }
            if again.get(at) != Some(&true) {
                return Err(format!("phase `{phase}` does not follow from `{to}`"));
            }
        }
        if let Some(state) = self.phases.get_mut(target) {
            state.findings = judged.findings;
        }
        self.sent_back.entry((at, source.to_owned())).or_default().push(fingerprint);
        Ok(())
    }

    pub(super) fn reset(&mut self, at: usize) {
        if let Some(state) = self.phases.get_mut(at) {
            let (attempt, done) = (state.attempt, state.done.take());
            *state = PhaseState { attempt, done, ..PhaseState::new() };
        }
    }
}
