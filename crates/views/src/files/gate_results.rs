//! The results of gates in a terminal packet.

use serde_json::Value;
use windlass_formats::GateResult;
use windlass_kernel::run::plan::Phase;
use windlass_kernel::run::{Hold, JudgedBy, PendingVerdict, PhaseState};

use super::run_view::shortened;

/// The result of a phase's gate, if it has one now.
pub(super) fn gate_result(phase: &Phase, state: &PhaseState, complete: bool) -> Option<GateResult> {
    let gate = phase.gate.as_ref()?;
    let refused =
        state.pending_verdict.as_ref().filter(|pending| pending.judged_by == JudgedBy::Gate);
    let reason = match (refused, complete) {
        (Some(pending), _) => reason_text(&pending.verdict, &pending.reason),
        (None, true) => {
            let answer = state.done.as_ref().map(|done| &done.answer);
            let text =
                |key: &str| answer.and_then(|answer| answer.get(key)?.as_str()).unwrap_or_default();
            let people = answer.and_then(approvers);
            reason_text(people.as_deref().unwrap_or(text("verdict")), text("reason"))
        }
        (None, false) => return None,
    };
    let (name, phase) = (gate.id.clone(), phase.id.clone());
    Some(GateResult { name, pass: refused.is_none(), phase, reason })
}

/// The verdict of the people who did a phase, with their names; `None` if nobody did.
pub(super) fn approvers(answer: &Value) -> Option<String> {
    let people = answer.get("people")?.as_array()?;
    let names: Vec<&str> = people.iter().filter_map(|one| one.get("by")?.as_str()).collect();
    let verdict = answer.get("verdict")?.as_str()?;
    (!names.is_empty()).then(|| format!("{verdict} by {}", names.join(", ")))
}

/// The result of a judgement that people waived.
pub(super) fn waived_result(
    phase: &Phase,
    pending: &PendingVerdict,
    hold: &Hold,
) -> Option<GateResult> {
    let name = match pending.judged_by {
        JudgedBy::Check(at) => phase.checks.get(at)?.id.clone(),
        JudgedBy::Gate => phase.gate.as_ref()?.id.clone(),
        // A failure is not waived; the phase runs again.
        JudgedBy::Failure => return None,
    };
    let people: Vec<String> =
        hold.votes.iter().map(|(vote, _)| format!("{}: {}", vote.by.name, vote.reason)).collect();
    let reason = shortened(&format!("let pass by {}", people.join("; ")));
    Some(GateResult { name, pass: true, phase: phase.id.clone(), reason })
}

/// A verdict and its reason as one text.
pub(super) fn reason_text(verdict: &str, reason: &str) -> String {
    match (verdict, reason) {
        ("", reason) => shortened(reason),
        (verdict, "") => shortened(verdict),
        (verdict, reason) => shortened(&format!("{verdict}: {reason}")),
    }
}
