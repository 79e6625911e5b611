//! What people do from the dashboard: each is one command of Windlass, in the name of the visitor.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use windlass_kernel::run::plan::Plan;
use windlass_kernel::{Code, State};
use zeroize::Zeroizing;

use crate::access::{Role, Scope};
use crate::dashboard::Context;
use crate::problem::Problem;
use crate::project::Command;
use crate::read;

/// A person's decision about a hold.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// The digest of what the person was shown; a decision about anything else is refused.
    pub shown: String,
    /// Why.
    pub reason: String,
    /// The conditions of an approval.
    #[serde(default)]
    pub conditions: Vec<String>,
    /// Other arguments for the call on hold, as JSON.
    #[serde(default)]
    pub arguments: Option<String>,
    /// What became of a call that was interrupted. An approval of such a call must say it.
    #[serde(default)]
    pub effect: Option<EffectAnswer>,
    /// The passphrase of the person's key, if it has one.
    #[serde(default)]
    pub passphrase: Option<String>,
}

/// What a person says became of a call that was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EffectAnswer {
    /// It ran.
    Ran,
    /// It did not run: it is made now.
    NotRun,
    /// It failed, or nobody knows.
    Failed,
}

impl EffectAnswer {
    /// The one of this name.
    ///
    /// # Errors
    /// [`Problem`] if there is none.
    pub fn named(name: &str) -> Result<Self, Problem> {
        match name {
            "ran" => Ok(Self::Ran),
            "not_run" => Ok(Self::NotRun),
            "failed" => Ok(Self::Failed),
            _ => {
                let message = "`effect` is `ran`, `not_run` or `failed`";
                Err(Problem::new(Code::RequestInvalid, message))
            }
        }
    }
}

/// What a person who rejects wants done again.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendBack {
    /// The digest of what the person was shown; a decision about anything else is refused.
    pub shown: String,
    /// Why.
    pub reason: String,
    /// What is to be done better, such as `src/lib.rs:12: handle the error`.
    #[serde(default)]
    pub findings: Vec<String>,
    /// The phase that is done again; without it, the one whose work is asked about.
    #[serde(default)]
    pub to: Option<String>,
    /// The passphrase of the person's key, if it has one.
    #[serde(default)]
    pub passphrase: Option<String>,
}

/// Why something is done.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Why {
    /// The reason.
    pub reason: String,
}

/// A rollback.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rollback {
    /// The name of the checkpoint.
    pub checkpoint: String,
    /// Why.
    pub reason: String,
    /// Whether changes that people made since are saved and put aside.
    #[serde(default)]
    pub force: bool,
}

/// Which way a person decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Approves.
    Approve,
    /// Rejects.
    Reject,
}

/// Records a decision about the hold of a run. The run is not resumed by it.
///
/// # Errors
/// The error of the command, or a decision about something that the visitor's link is not for.
pub fn decide(context: &Context<'_>, way: Way, decision: Decision) -> Result<Value, Problem> {
    let run = context.part("run")?;
    context.require(Role::Approver)?;
    require_shown(context, run, &decision.shown)?;
    require_approval(way, decision.effect)?;
    if way == Way::Approve && decision.effect.is_none() {
        require_no_interruption(context, run)?;
    }
    let word = if way == Way::Approve { "approve" } else { "reject" };
    let mut command = Command::new(["queue", word])
        .option("by", &context.visitor.name)
        .option("reason", &decision.reason)
        .option("shown", &decision.shown)
        .passphrase(decision.passphrase.map(Zeroizing::new));
    if way == Way::Approve {
        for condition in &decision.conditions {
            command = command.option("condition", condition);
        }
        if let Some(arguments) = decision.arguments.as_deref().filter(|text| !text.is_empty()) {
            command = command.option("args", object(arguments)?);
        }
        command = command
            .flag("ran", decision.effect == Some(EffectAnswer::Ran))
            .flag("failed", decision.effect == Some(EffectAnswer::Failed));
    }
    context.project()?.command(operand(command, run))
}

/// Lets a run go on.
///
/// # Errors
/// The error of the command, if it ends at once.
pub fn resume(context: &Context<'_>) -> Result<(), Problem> {
    let run = context.part("run")?;
    context.require(Role::Operator)?;
    context.require_all()?;
    let project = context.project()?;
    // A session goes on in its client; its close is what waited.
    let is_session = read::run(project.as_ref(), run)?.0.plan().is_some_and(Plan::is_session);
    let words: &[&str] = if is_session { &["session", "close"] } else { &["resume"] };
    project.start(operand(Command::new(words.iter().copied()), run))
}

/// Gives a run up.
///
/// # Errors
/// The error of the command.
pub fn cancel(context: &Context<'_>, why: &Why) -> Result<Value, Problem> {
    let run = context.part("run")?;
    context.require(Role::Operator)?;
    context.require_all()?;
    let command =
        Command::new(["cancel"]).option("by", &context.visitor.name).option("reason", &why.reason);
    context.project()?.command(operand(command, run))
}

/// Stops a run: one at work ends before its next step, one that waits cannot go on.
///
/// # Errors
/// The error of the command.
pub fn stop(context: &Context<'_>, why: &Why) -> Result<Value, Problem> {
    let run = context.part("run")?;
    context.require(Role::Operator)?;
    context.require_all()?;
    let command =
        Command::new(["stop"]).option("by", &context.visitor.name).option("reason", &why.reason);
    context.project()?.command(operand(command, run))
}

/// Lifts the stop of a run.
///
/// # Errors
/// The error of the command.
pub fn clear_stop(context: &Context<'_>) -> Result<Value, Problem> {
    let run = context.part("run")?;
    context.require(Role::Operator)?;
    context.require_all()?;
    context.project()?.command(operand(Command::new(["stop"]).flag("clear", true), run))
}

/// What a hold shows: evidence, call, diff, answers so far; and what changed since a tree that the visitor has seen.
///
/// # Errors
/// The error of the command.
pub fn look(context: &Context<'_>, since: Option<&str>) -> Result<Value, Problem> {
    let run = context.part("run")?;
    context.require_scope(context.project()?.id(), run)?;
    let mut command = Command::new(["queue", "show"]);
    if let Some(since) = since {
        command = command.option("since", since);
    }
    let seen = context.project()?.command(operand(command, run))?;
    // A link shows what it was made for, and nothing that came after it.
    if let Some(shown) = seen.get("shown").and_then(Value::as_str) {
        require_shown(context, run, shown)?;
    }
    Ok(seen)
}

/// Sends a run back from its hold: an earlier phase is done again, with the findings.
///
/// # Errors
/// The error of the command, or a decision about something that the visitor's link is not for.
pub fn send_back(context: &Context<'_>, back: SendBack) -> Result<Value, Problem> {
    let run = context.part("run")?;
    context.require(Role::Approver)?;
    require_shown(context, run, &back.shown)?;
    let mut command = Command::new(["queue", "send-back"])
        .option("by", &context.visitor.name)
        .option("reason", &back.reason)
        .option("shown", &back.shown)
        .passphrase(back.passphrase.map(Zeroizing::new));
    if let Some(to) = back.to.as_deref().filter(|to| !to.is_empty()) {
        command = command.option("to", to);
    }
    for finding in &back.findings {
        command = command.option("finding", finding);
    }
    context.project()?.command(operand(command, run))
}

/// Fails if a run asks about a call that was interrupted: an approval that does not say what became of it would make
/// the call again.
fn require_no_interruption(context: &Context<'_>, run: &str) -> Result<(), Problem> {
    let project = context.project()?;
    let (run, _) = read::run(project.as_ref(), run)?;
    let Some(call) = run.hold.as_ref().and_then(|hold| hold.held.call) else { return Ok(()) };
    if project.store()?.load_state(call)?.head.state == Some(State::Executing) {
        let message = "the call was interrupted: say whether it ran, did not run, or failed";
        return Err(Problem::new(Code::RequestInvalid, message)
            .hint("open the hold and choose, or send `effect`"));
    }
    Ok(())
}

/// Fails if a rejection says what became of a call: then the call is settled, and not rejected.
///
/// # Errors
/// [`Problem`] if it does.
pub(crate) fn require_approval(way: Way, effect: Option<EffectAnswer>) -> Result<(), Problem> {
    if way == Way::Reject && effect.is_some() {
        let message = "`effect` says what became of a call, which is part of an approval";
        return Err(Problem::new(Code::RequestInvalid, message));
    }
    Ok(())
}

/// Fails if the visitor's link is not for this hold, or not for what it shows now.
fn require_shown(context: &Context<'_>, run: &str, decided: &str) -> Result<(), Problem> {
    context.require_scope(context.project()?.id(), run)?;
    match &context.visitor.scope {
        Scope::Hold { shown, .. } if shown.to_string() != decided => {
            let message = "your link is for what was shown when it was made, and that has changed";
            Err(Problem::new(Code::RequestInvalid, message)
                .status(axum::http::StatusCode::FORBIDDEN)
                .hint("ask for a new link"))
        }
        Scope::Hold { .. } | Scope::All => Ok(()),
    }
}

/// What the agents of a phase said and did, line by line.
///
/// # Errors
/// The error of the command.
pub fn transcript(context: &Context<'_>) -> Result<Value, Problem> {
    context.require_all()?;
    let command = Command::new(["status"]).option("transcript", context.part("phase")?);
    let value = context.project()?.command(operand(command, context.part("run")?))?;
    // One line is printed as it is.
    Ok(match value {
        Value::Object(_) => Value::Array(vec![value]),
        Value::String(_) => Value::Array(Vec::new()),
        Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) => value,
    })
}

/// The checkpoints of a run.
///
/// # Errors
/// The error of the command.
pub fn checkpoints(context: &Context<'_>) -> Result<Value, Problem> {
    let run = context.part("run")?;
    context.require_all()?;
    context.project()?.command(operand(Command::new(["checkpoint", "list"]), run))
}

/// A checkpoint in full.
///
/// # Errors
/// The error of the command.
pub fn checkpoint_document(context: &Context<'_>) -> Result<Value, Problem> {
    context.require_all()?;
    let name = checkpoint(context, Some(context.part("checkpoint")?))?;
    context.project()?.command(operand(Command::new(["checkpoint", "show"]), &name))
}

/// The difference of the two checkpoints that the fields `from` and `to` name.
///
/// # Errors
/// The error of the command.
pub fn compare(context: &Context<'_>) -> Result<Value, Problem> {
    context.require_all()?;
    let command = Command::new(["checkpoint", "diff"]);
    let mut command = operand(command, &checkpoint(context, context.field("from"))?);
    command.arguments.push(checkpoint(context, context.field("to"))?);
    context.project()?.command(command)
}

/// What a rollback to the checkpoint of the field `checkpoint` would do.
///
/// # Errors
/// The error of the command.
pub fn preview_rollback(context: &Context<'_>) -> Result<Value, Problem> {
    context.require_all()?;
    let command = Command::new(["checkpoint", "rollback"]).flag("dry-run", true);
    let name = checkpoint(context, context.field("checkpoint"))?;
    context.project()?.command(operand(command, &name))
}

/// Rolls a run back.
///
/// # Errors
/// The error of the command.
pub fn roll_back(context: &Context<'_>, rollback: &Rollback) -> Result<Value, Problem> {
    context.require(Role::Operator)?;
    context.require_all()?;
    let command = Command::new(["checkpoint", "rollback"])
        .option("by", &context.visitor.name)
        .option("reason", &rollback.reason)
        .flag("force", rollback.force);
    let name = checkpoint(context, Some(&rollback.checkpoint))?;
    context.project()?.command(operand(command, &name))
}

/// Verifies the whole journal.
///
/// # Errors
/// The error of the command.
pub fn verify(context: &Context<'_>) -> Result<Value, Problem> {
    context.require_all()?;
    context.project()?.command(Command::new(["verify"]))
}

/// The full name of a checkpoint of the run in the path.
fn checkpoint(context: &Context<'_>, name: Option<&str>) -> Result<String, Problem> {
    let name = name.unwrap_or_default();
    if name.is_empty() || name.contains('/') {
        return Err(Problem::new(Code::RequestInvalid, "name a checkpoint of this run"));
    }
    Ok(format!("{}/{name}", context.part("run")?))
}

/// Adds an operand, which is never taken for an option.
pub(crate) fn operand(mut command: Command, operand: &str) -> Command {
    command.arguments.push("--".to_owned());
    command.arguments.push(operand.to_owned());
    command
}

/// Arguments as an object in JSON. A command takes other texts for the names of files.
pub(crate) fn object(text: &str) -> Result<&str, Problem> {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(_)) => Ok(text.trim()),
        Ok(_) | Err(_) => {
            Err(Problem::new(Code::RequestInvalid, "the arguments of a call are one JSON object"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_never_the_name_of_a_file() {
        assert_eq!(object(" {\"a\": 1} ").unwrap(), "{\"a\": 1}");
        for text in ["@/etc/passwd", "-", "[]", "1", "{", ""] {
            assert!(object(text).is_err(), "{text}");
        }
    }
}
