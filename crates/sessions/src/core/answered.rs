//! What events say of judges and skills, and what the agent is told of an answer.

use serde_json::Value;
use windlass_hooks::ToolUse;

use super::judge::Judge;
use super::note::CoreNote;
use crate::tool_use::{Mapped, MappedUse};

/// The judge that a use of a tool starts, if it does.
pub(crate) fn judge_of(tool_use: &ToolUse) -> Option<Judge> {
    if !matches!(tool_use.name.as_str(), "Agent" | "Task") {
        return None;
    }
    Judge::named(tool_use.input.get("subagent_type")?.as_str()?)
}

/// The skill or command that a use of a tool starts.
pub(super) fn skill_of(mapped: &MappedUse) -> Option<String> {
    let Mapped::Calls(calls) = &mapped.calls else { return None };
    let call = calls.iter().find(|call| matches!(call.tool.as_str(), "skill" | "slash-command"))?;
    let name =
        ["skill", "command", "name"].into_iter().find_map(|key| call.args.get(key)?.as_str());
    Some(name.unwrap_or(&call.tool).to_owned())
}

/// The text that a subagent answered with.
pub(super) fn answer_text(result: &Value) -> Option<String> {
    let content = result.get("content").unwrap_or(result);
    let text = match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
    };
    (!text.trim().is_empty()).then_some(text)
}

/// What the agent is told of a judge's answer.
pub(super) fn told_of(note: &CoreNote) -> String {
    match note {
        CoreNote::AnswerRefused { judge, reason, .. } => {
            format!("The answer of {} cannot be used: {reason}. Start it again.", judge.as_str())
        }
        CoreNote::Planned { intent, workflow, criteria, steps, .. } => {
            let steps = steps
                .iter()
                .enumerate()
                .map(|(at, step)| format!("{}. [{}] {}", at + 1, step.id, step.text));
            format!(
                "Plan recorded: {intent}\nWorkflow: {workflow}\nAcceptance criteria: {}\nSteps:\n{}",
                criteria.join("; "),
                steps.collect::<Vec<_>>().join("\n")
            )
        }
        CoreNote::Criticised { verdict, reason, .. } => {
            format!("The critic says {verdict}: {reason}")
        }
        CoreNote::Audited { verdict, reason, correction, .. } => {
            format!("The audit says {verdict}: {reason} {correction}")
        }
        CoreNote::Verified { verdict, reason, issues, .. } => {
            let issues = issues.iter().map(|one| format!("\n- {}: {}", one.about, one.text));
            format!("The verifier says {verdict}: {reason}{}", issues.collect::<String>())
        }
        CoreNote::Reflected { outcome, .. } => format!("The reflection is recorded: {outcome}."),
        CoreNote::PromptTaken { .. }
        | CoreNote::JudgeStarted { .. }
        | CoreNote::Step { .. }
        | CoreNote::SkillUsed { .. }
        | CoreNote::BlockCleared { .. }
        | CoreNote::StopRefused { .. }
        | CoreNote::Delivered { .. }
        | CoreNote::InsightsWritten { .. }
        | CoreNote::Closing(_)
        | CoreNote::Closed { .. }
        | CoreNote::Unclosed { .. } => String::new(),
    }
}
