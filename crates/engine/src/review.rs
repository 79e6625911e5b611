//! The reviews of agents in a consensus phase.

use std::collections::BTreeMap;

use windlass_kernel::run::plan::{Check, CheckTiming, Doer, Effect, Phase, Reviewer};
use windlass_kernel::run::{APPROVED, CONDITIONAL, REJECTED, Run};

use crate::phase_executor::Verdict;

/// The instructions for the answer of a reviewing agent.
const ANSWER: &str = "Answer with `verdict`: `approved`, `approved_with_conditions` (then `conditions` \
lists them) or `rejected` (then `findings` lists what is to be done better), and `reason`.";

/// The name of a reviewer.
pub(crate) fn reviewer_of(phase: &Phase, reviewer: usize) -> Option<String> {
    let Doer::Consensus { reviewers, .. } = &phase.doer else { return None };
    reviewers.get(reviewer).map(|reviewer| reviewer.name().to_owned())
}

/// The review of an agent, as a check that it performs.
pub(crate) fn review_of(run: &Run, phase: &Phase, reviewer: usize) -> Option<Check> {
    let Doer::Consensus { checklist, question, reviewers, .. } = &phase.doer else { return None };
    let Reviewer::Agent { agent, prompt } = reviewers.get(reviewer)? else { return None };
    let mut words = vec![question.clone()];
    words.extend(prompt.clone());
    if !checklist.is_empty() {
        let items: Vec<String> = checklist.iter().map(|item| format!("- {item}")).collect();
        words.push(format!("Check each of these items:\n{}", items.join("\n")));
    }
    words.push(format!("Evidence: {}", run.evidence(phase)));
    words.push(ANSWER.to_owned());
    let verdicts = [APPROVED, CONDITIONAL, REJECTED].map(|one| (one.to_owned(), Effect::Continue));
    Some(Check {
        at: CheckTiming::After,
        doer: Doer::Agent { agent: agent.clone(), prompt: Some(words.join("\n\n")) },
        id: agent.clone(),
        pinned: None,
        verdicts: BTreeMap::from(verdicts),
    })
}

/// Rejects an approval with conditions that names none: nobody could tell whether they are met.
pub(crate) fn with_conditions(mut verdict: Verdict) -> Verdict {
    verdict.conditions.retain(|condition| !condition.trim().is_empty());
    if verdict.verdict == CONDITIONAL && verdict.conditions.is_empty() {
        verdict.verdict = REJECTED.to_owned();
        let reason = std::mem::take(&mut verdict.reason);
        verdict.reason = format!("`{CONDITIONAL}` without conditions counts as rejected: {reason}");
    }
    verdict
}
