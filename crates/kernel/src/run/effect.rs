//! The events that follow from a verdict.

use serde_json::json;

use super::event::Event;
use super::next::ended;
use super::plan::{Effect, Phase, RunOutcome};
use super::state::{JudgedBy, PendingVerdict, Run};
use crate::{Digest, canon};

impl Run {
    pub(super) fn effect_of(
        &self,
        position: usize,
        phase: &Phase,
        pending: &PendingVerdict,
    ) -> Event {
        match Self::effect(phase, pending) {
            Some(effect) => self.apply_effect(position, phase, pending, effect),
            None if pending.judged_by == JudgedBy::Failure => self.block(phase, pending),
            // Only verdicts that the loop declares are supported.
            None => ended(
                RunOutcome::Blocked,
                "unsupported_verdict",
                format!(
                    "`{}` of phase `{}` returned the verdict `{}`, which the loop does not declare",
                    Self::source_name(phase, pending.judged_by),
                    phase.id,
                    pending.verdict
                ),
            ),
        }
    }

    fn apply_effect(
        &self,
        position: usize,
        phase: &Phase,
        pending: &PendingVerdict,
        effect: &Effect,
    ) -> Event {
        let source = Self::source_name(phase, pending.judged_by);
        let send_back = |to: &str, fingerprint| Event::SentBack {
            phase: phase.id.clone(),
            source: source.clone(),
            verdict: pending.verdict.clone(),
            to: to.to_owned(),
            count: self.next_count(position, pending.judged_by),
            fingerprint,
        };
        match self.resolved(position, pending.judged_by, effect) {
            // `Continue` was applied together with the verdict; a failure cannot continue.
            Effect::Continue | Effect::Block => self.block(phase, pending),
            Effect::Stop { outcome, reason } => ended(*outcome, reason, pending.reason.clone()),
            Effect::Hold { approvals, trigger } => {
                let question = if pending.reason.is_empty() {
                    format!(
                        "`{source}` of phase `{}` returned the verdict `{}`",
                        phase.id, pending.verdict
                    )
                } else {
                    pending.reason.clone()
                };
                let mut held = self.held(position, *trigger, question);
                held.approvals = approvals.unwrap_or(held.approvals);
                held.source = Some(source.clone());
                held.evidence = json!({"verdict": pending.verdict, "findings": pending.findings, "sent_back": self.next_count(position, pending.judged_by) - 1});
                Event::Held(Box::new(held))
            }
            Effect::Intervene { phase: to, .. } => send_back(to, None),
            Effect::Redo { phase: to, .. } => {
                let fingerprint = self.fingerprint(to);
                let sent = self.sent_to(position, pending.judged_by, to);
                no_progress(&sent, fingerprint, phase).unwrap_or_else(|| send_back(to, fingerprint))
            }
        }
    }

    /// The effect after each exhausted effect is replaced by its `then`.
    pub(super) fn resolved<'a>(
        &self,
        position: usize,
        source: JudgedBy,
        effect: &'a Effect,
    ) -> &'a Effect {
        let mut effect = effect;
        loop {
            let (to, max, then) = match effect {
                Effect::Redo { max, phase, then } => (phase, *max, then),
                Effect::Intervene { phase, then } => (phase, 1, then),
                Effect::Block | Effect::Continue | Effect::Hold { .. } | Effect::Stop { .. } => {
                    return effect;
                }
            };
            if self.sent_to(position, source, to).len() < usize::try_from(max).unwrap_or(usize::MAX)
            {
                return effect;
            }
            effect = then;
        }
    }

    /// The fingerprints of the work each time that a check or gate sent the run back to one phase.
    fn sent_to(&self, position: usize, source: JudgedBy, to: &str) -> Vec<Option<Digest>> {
        let to = self.position(to);
        let sent = self.sent_back.get(&(position, source)).into_iter().flatten();
        sent.filter(|sent| Some(sent.to) == to).map(|sent| sent.fingerprint).collect()
    }

    /// The number of the next time that a check or gate sends the run back, from 1.
    pub(super) fn next_count(&self, position: usize, source: JudgedBy) -> u32 {
        let sent = self.sent_back.get(&(position, source)).map_or(0, Vec::len);
        u32::try_from(sent).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// The fingerprint of the work: the digest of the changed files or, if no file changed, of the answer.
    fn fingerprint(&self, from: &str) -> Option<Digest> {
        match &self.change {
            Some(change) if !change.files.is_empty() => Some(change.diff_digest),
            _ => {
                let position = self.position(from)?;
                let done = self.phases.get(position)?.done.as_ref()?;
                canon::digest(&done.answer).ok()
            }
        }
    }

    fn block(&self, phase: &Phase, pending: &PendingVerdict) -> Event {
        let reason = match pending.judged_by {
            JudgedBy::Failure => "mission_failed".to_owned(),
            JudgedBy::Gate | JudgedBy::Check(_) => {
                format!("{}_{}", Self::source_name(phase, pending.judged_by), pending.verdict)
            }
        };
        let detail = if pending.reason.is_empty() {
            format!("phase `{}`: {}", phase.id, pending.verdict)
        } else {
            format!("phase `{}`: {}", phase.id, pending.reason)
        };
        ended(RunOutcome::Blocked, &reason, detail)
    }
}

/// The end of a run whose redone work is the same as work that was sent back before.
fn no_progress(sent: &[Option<Digest>], now: Option<Digest>, phase: &Phase) -> Option<Event> {
    let now = now?;
    let detail = |what: &str| format!("phase `{}` sends the run back with {what}", phase.id);
    match sent {
        [.., last] if *last == Some(now) => Some(ended(
            RunOutcome::Blocked,
            "no_progress",
            detail("the same work as the last time"),
        )),
        [.., before, _] if *before == Some(now) => Some(ended(
            RunOutcome::Blocked,
            "oscillation_detected",
            detail("work that alternates between two states"),
        )),
        _ => None,
    }
}
