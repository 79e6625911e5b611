//! What events say of judges and skills, and what the agent is told of an answer.

use serde_json::Value;
use windlass_hooks::ToolUse;
use windlass_kernel::Digest;

use super::judge::Judge;
use super::note::CoreNote;
use super::state::{CoreState, Running};
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

/// The text that a judge answered with, if the client's report is one of this judge with the prompt that it was given.
pub(super) fn answer_text(result: &Value, running: &Running) -> Result<String, String> {
    require_same(result, running)?;
    let text = |key: &str| result.get(key).and_then(Value::as_str);
    if let Some(status) = text("status").filter(|status| *status != "completed") {
        return Err(format!("it ended as `{status}`"));
    }
    said(result)
}

/// The id of a judge that works in the background, as the client reports it.
pub(super) fn launched(result: &Value, running: &Running) -> Option<String> {
    let status = result.get("status").and_then(Value::as_str);
    if status != Some("async_launched") || require_same(result, running).is_err() {
        return None;
    }
    result.get("agentId")?.as_str().map(str::to_owned)
}

/// Fails unless a report is about this judge, with the prompt that it was given.
fn require_same(result: &Value, running: &Running) -> Result<(), String> {
    let text = |key: &str| result.get(key).and_then(Value::as_str);
    let is_other = |kind: &str| Judge::named(kind) != Some(running.judge);
    if text("agentType").is_some_and(is_other) {
        return Err("another agent answered".to_owned());
    }
    if text("prompt").is_some_and(|prompt| Digest::of(prompt.as_bytes()) != running.prompt_digest) {
        return Err("it was given another prompt".to_owned());
    }
    Ok(())
}

/// What a report says that the judge said.
fn said(result: &Value) -> Result<String, String> {
    let said = match result.get("content").unwrap_or(result) {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            // The client's own notes stand before and behind what the agent said.
            let count = |key: &str| {
                let count = result.get(key).and_then(Value::as_u64).unwrap_or_default();
                usize::try_from(count).unwrap_or(usize::MAX)
            };
            let own = parts.len().saturating_sub(count("harnessTailCount"));
            let own = parts.get(count("harnessNoteCount")..own).unwrap_or_default();
            let texts = own.iter().map(|part| match part.get("type").and_then(Value::as_str) {
                Some("text") => part.get("text").and_then(Value::as_str),
                Some(_) | None => None,
            });
            let texts =
                texts.collect::<Option<Vec<_>>>().ok_or("it answered with more than text")?;
            texts.join("\n")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    };
    if said.trim().is_empty() { Err("it gave no answer".to_owned()) } else { Ok(said) }
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
        | CoreNote::JudgeLaunched { .. }
        | CoreNote::Step { .. }
        | CoreNote::SkillUsed { .. }
        | CoreNote::BlockCleared { .. }
        | CoreNote::StopRefused { .. }
        | CoreNote::Began { .. }
        | CoreNote::WorkChanged { .. }
        | CoreNote::Delivered { .. }
        | CoreNote::InsightsWritten { .. }
        | CoreNote::TranscriptWritten { .. }
        | CoreNote::Closing(_)
        | CoreNote::Closed { .. }
        | CoreNote::Unclosed { .. } => String::new(),
    }
}

impl CoreState {
    /// A judge's note, or its refusal if the judge worked for an earlier prompt or plan.
    #[must_use]
    pub fn unless_outdated(&self, running: &Running, id: String, note: CoreNote) -> CoreNote {
        match self.outdates(running) {
            Some(reason) => {
                CoreNote::AnswerRefused { judge: running.judge, id, reason: reason.to_owned() }
            }
            None => note,
        }
    }
}
