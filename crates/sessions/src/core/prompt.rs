//! The prompts that judges are given, whatever the agent wanted to ask them.

use super::judge::Judge;
use super::note::Finding;
use super::state::{CoreState, PlanState, QaState};
use super::surroundings::JudgeMaterial;

/// Whether a prompt is not a person's: the client tells its agent of something, or a timer or program entered it.
#[must_use]
pub fn is_notice(prompt: &str, source: Option<&str>) -> bool {
    let begins = ["<agent-notification", "<task-notification", "<system-reminder"];
    let is_told = begins.iter().any(|start| prompt.trim_start().starts_with(start));
    is_told || !matches!(source, None | Some("user" | "sdk"))
}

/// Why a prompt needs no plan, if it needs none: it is a command, or has the person's escape.
#[must_use]
pub fn is_skipped(prompt: &str) -> Option<&'static str> {
    let text = prompt.trim_start();
    if text.starts_with('/') || text.starts_with("# /") {
        Some("it is a command")
    } else if text.starts_with('.') {
        Some("the user asked for no plan with a leading `.`")
    } else {
        None
    }
}

/// The prompt of a judge.
#[must_use]
pub fn judge_prompt(judge: Judge, state: &CoreState, material: &JudgeMaterial) -> String {
    let mut text = String::new();
    let mut part = |title: &str, body: &str| {
        if !body.trim().is_empty() {
            for line in ["## ", title, "\n\n", body.trim(), "\n\n"] {
                text.push_str(line);
            }
        }
    };
    if judge == Judge::PromptHydrator {
        part("Context", &material.context);
        if let PlanState::Due { findings } = &state.plan {
            part("What the critic found wrong with the last plan", &list(findings));
        }
    } else {
        part("The user's prompt", &state.prompt_text);
        if let Some(plan) = state.work_plan() {
            part("Intent", &plan.intent);
            part("Workflow", &format!("{} (gates: {})", plan.workflow, plan.gates.join(", ")));
            part("Acceptance criteria", &lines(plan.criteria.iter().map(String::as_str)));
            let steps = plan
                .steps
                .iter()
                .map(|(step, status)| format!("{} [{}] {}", step.id, status.as_str(), step.text));
            part("Plan", &lines(steps.collect::<Vec<_>>().iter().map(String::as_str)));
        }
    }
    match judge {
        Judge::PromptHydrator | Judge::Critic => {}
        Judge::Custodiet => {
            part("Axioms", &material.axioms);
            part("The last uses of tools, oldest first", &material.calls);
            part("Changed files", &material.work);
        }
        Judge::QaVerifier => {
            if let QaState::Issues { issues } = &state.qa {
                part("What was found the last time", &list(issues));
            }
            part("State of the work", &material.work);
            part("The last uses of tools, oldest first", &material.calls);
        }
        Judge::Framework => {
            let judges = state.judges.iter().map(|(judge, last)| {
                format!("{}: {}", judge.as_str(), last.said.as_deref().unwrap_or("no answer"))
            });
            part(
                "What the judges said",
                &lines(judges.collect::<Vec<_>>().iter().map(String::as_str)),
            );
            part("Earlier reflections", &material.reflections);
            part("Transcript", &material.transcript);
            part("State of the work", &material.work);
        }
    }
    text.push_str("Answer as your instructions say: one JSON object and nothing else.\n");
    text
}

fn list(findings: &[Finding]) -> String {
    let lines = findings.iter().map(|one| format!("- {}: {}", one.about, one.text));
    lines.collect::<Vec<_>>().join("\n")
}

fn lines<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.map(|text| format!("- {text}")).collect::<Vec<_>>().join("\n")
}
