//! The reviews of those who must agree, as agents are asked for them.

use std::collections::BTreeMap;

use windlass_kernel::run::plan::{Check, CheckTiming, Doer, Effect, Phase, Reviewer};
use windlass_kernel::run::{APPROVED, CONDITIONAL, REJECTED, Run};

/// What an agent is told to answer.
const ANSWER: &str = "Answer with `verdict`: `approved`, `approved_with_conditions` (then `conditions` \
lists them) or `rejected` (then `findings` lists what is to be done better), and `reason`.";

/// The name of a reviewer.
pub(crate) fn reviewer_of(phase: &Phase, reviewer: usize) -> Option<String> {
    let Doer::Consensus { reviewers, .. } = &phase.doer else { return None };
    reviewers.get(reviewer).map(|reviewer| reviewer.name().to_owned())
}

/// An agent's review, as a check that it makes.
pub(crate) fn review_of(run: &Run, phase: &Phase, reviewer: usize) -> Option<Check> {
    let Doer::Consensus { checklist, question, reviewers, .. } = &phase.doer else { return None };
    let Reviewer::Agent { agent, prompt } = reviewers.get(reviewer)? else { return None };
    let mut words = vec![question.clone()];
    words.extend(prompt.clone());
    if !checklist.is_empty() {
        let items: Vec<String> = checklist.iter().map(|item| format!("- {item}")).collect();
        words.push(format!("Look at each of these:\n{}", items.join("\n")));
    }
    words.push(format!("What there is to go by: {}", run.evidence(phase)));
    words.push(ANSWER.to_owned());
    let verdicts = [APPROVED, CONDITIONAL, REJECTED].map(|one| (one.to_owned(), Effect::Continue));
    Some(Check {
        at: CheckTiming::After,
        doer: Doer::Agent { agent: agent.clone(), prompt: Some(words.join("\n\n")) },
        id: agent.clone(),
        verdicts: BTreeMap::from(verdicts),
    })
}
