//! From a judge's answer to what is recorded of it.

use serde_json::json;
use windlass_formats::core::{
    CheckResult, CriticAnswer, CriticVerdict, CustodietAnswer, CustodietVerdict, FrameworkAnswer,
    HydratorAnswer, QaAnswer, QaCheck, QaChecks, QaVerdict,
};
use windlass_sessions::core::{CoreNote, Finding, Judge, PlanStep, Workflow};

/// Reads an answer strictly. `workflow` gives the selected workflow.
pub fn read(
    judge: Judge,
    id: &str,
    text: &str,
    gates: &[String],
    workflow: impl FnOnce(&str) -> Result<Workflow, String>,
) -> Result<CoreNote, String> {
    let id = id.to_owned();
    match judge {
        Judge::PromptHydrator => {
            let answer = HydratorAnswer::read(text).map_err(|error| error.to_string())?;
            planned(id, answer, workflow)
        }
        Judge::Critic => {
            let answer = CriticAnswer::read(text).map_err(|error| error.to_string())?;
            let findings = answer.findings.iter().map(|one| Finding {
                about: one.check.as_str().to_owned(),
                text: one.problem.clone(),
            });
            if answer.verdict == CriticVerdict::Proceed && !answer.findings.is_empty() {
                return Err("it says PROCEED, but has findings".to_owned());
            }
            let verdict = match answer.verdict {
                CriticVerdict::Proceed => "PROCEED",
                CriticVerdict::Revise => "REVISE",
                CriticVerdict::Halt => "HALT",
            };
            Ok(CoreNote::Criticised {
                id,
                verdict: verdict.to_owned(),
                reason: answer.reason,
                findings: findings.collect(),
                criteria: answer.acceptance_criteria,
            })
        }
        Judge::Custodiet => {
            let answer = CustodietAnswer::read(text).map_err(|error| error.to_string())?;
            let verdict = match answer.verdict {
                CustodietVerdict::Ok => "OK",
                CustodietVerdict::Warn => "WARN",
                CustodietVerdict::Block => "BLOCK",
            };
            let (issue, principle, correction) = match answer.violation {
                Some(found) => (found.issue, found.principle, found.correction),
                None => Default::default(),
            };
            let (verdict, reason) = (verdict.to_owned(), answer.reason);
            Ok(CoreNote::Audited { id, verdict, reason, issue, principle, correction })
        }
        Judge::QaVerifier => {
            let answer = QaAnswer::read(text).map_err(|error| error.to_string())?;
            if answer.verdict == QaVerdict::Verified
                && let Some(gate) = gates.iter().find(|gate| !is_met(gate, &answer.checks))
            {
                return Err(format!(
                    "it says VERIFIED, but its checks do not show that the gate `{gate}` is met"
                ));
            }
            let verdict = match answer.verdict {
                QaVerdict::Verified => "VERIFIED",
                QaVerdict::Issues => "ISSUES",
            };
            let issues = answer.issues.iter().map(|one| Finding {
                about: format!("{} {}", one.severity.as_str(), one.dimension.as_str()),
                text: one.problem.clone(),
            });
            let (verdict, reason) = (verdict.to_owned(), answer.reason.clone());
            Ok(CoreNote::Verified { id, verdict, reason, issues: issues.collect(), tree: None })
        }
        Judge::Framework => {
            let answer = FrameworkAnswer::read(text).map_err(|error| error.to_string())?;
            let improvements = answer
                .improvements
                .iter()
                .map(|one| Finding { about: one.title.clone(), text: one.description.clone() });
            Ok(CoreNote::Reflected {
                id,
                reflection: answer.reflection.render(),
                outcome: answer.reflection.outcome.as_str().to_owned(),
                learnings: answer.learnings.clone(),
                improvements: improvements.collect(),
            })
        }
    }
}

/// Whether the checks of a verification show that a gate of the workflow is met. Other gates are met in other ways.
fn is_met(gate: &str, checks: &QaChecks) -> bool {
    let passed = |check: &QaCheck| check.result == CheckResult::Passed;
    match gate {
        "tdd" | "tests_pass" | "no_regression" | "reproducible_test" => passed(&checks.tests),
        "functionality" => passed(&checks.intent),
        "quality" => passed(&checks.errors),
        "completeness" | "verified" | "all_items_processed" => passed(&checks.criteria),
        _ => true,
    }
}

/// A plan has the steps of its workflow, in their order; others may stand between them.
fn planned(
    id: String,
    answer: HydratorAnswer,
    workflow: impl FnOnce(&str) -> Result<Workflow, String>,
) -> Result<CoreNote, String> {
    let mut seen = std::collections::BTreeSet::new();
    if let Some(twice) = answer.plan.iter().find(|item| !seen.insert(item.step.as_str())) {
        return Err(format!("`plan` has the step `{}` twice", twice.step));
    }
    if answer.complexity.as_str() == "blocked-human" && answer.path.as_str() == "EXECUTE" {
        return Err("`path` is EXECUTE although `complexity` is blocked-human".to_owned());
    }
    let selected = workflow(&answer.workflow)?;
    let mut needed = selected.steps.iter().peekable();
    for item in &answer.plan {
        if needed.peek().is_some_and(|step| step.id == item.step) {
            needed.next();
        }
    }
    if let Some(missing) = needed.next() {
        return Err(format!(
            "`plan` lacks the step `{}` of the workflow `{}`, or has it out of order",
            missing.id, answer.workflow
        ));
    }
    let steps =
        answer.plan.iter().map(|item| PlanStep { id: item.step.clone(), text: item.text.clone() });
    Ok(CoreNote::Planned {
        id,
        intent: answer.intent.clone(),
        workflow: answer.workflow.clone(),
        gates: selected.gates,
        criteria: answer.acceptance_criteria.clone(),
        steps: steps.collect(),
        details: json!({
            "complexity": answer.complexity.as_str(),
            "context": answer.context,
            "path": answer.path.as_str(),
            "scope": answer.scope.as_str(),
            "summary": answer.summary,
        }),
    })
}
