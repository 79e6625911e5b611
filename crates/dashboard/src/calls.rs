//! Calls: those that wait for a person outside of runs, and single ones in full.

use std::sync::Arc;

use serde_json::Value;
use windlass_kernel::{Code, Machine, TraceId, Uuid7};
use windlass_views::{WantedTraces, list_traces};
use zeroize::Zeroizing;

use crate::access::Role;
use crate::act::{Decision, Way, object, operand};
use crate::dashboard::Context;
use crate::problem::Problem;
use crate::project::{Command, Project};

/// The most calls that are listed.
const CALLS_MAX: usize = 200;

/// The newest calls of a project.
///
/// # Errors
/// [`Problem`] if the journal cannot be read, or there is no such call.
pub fn list(context: &Context<'_>) -> Result<Value, Problem> {
    context.require_all()?;
    let before = context.field("before").map(|before| {
        let invalid = |_| Problem::new(Code::RequestInvalid, "`before`: this is no call");
        before.parse::<Uuid7>().map(TraceId).map_err(invalid)
    });
    let wanted = WantedTraces { before: before.transpose()?, ..NEWEST };
    Ok(Value::Array(listed(context.project()?, wanted)?))
}

/// The newest calls.
const NEWEST: WantedTraces = WantedTraces {
    machine: Some(Machine::Call),
    state: None,
    open_only: false,
    waiting_only: false,
    before: None,
    limit: CALLS_MAX,
};

fn listed(project: &Arc<dyn Project>, wanted: WantedTraces) -> Result<Vec<Value>, Problem> {
    let store = project.store()?;
    let (found, _) = list_traces(store.as_ref(), wanted)?;
    Ok(found.iter().map(|one| one.describe_in_list(store.as_ref())).collect())
}

/// The calls of all projects that wait for a person, with the ids of their projects.
///
/// # Errors
/// [`Problem`] if a journal cannot be read.
pub fn all_waiting(projects: &[Arc<dyn Project>]) -> Result<Vec<(&str, Value)>, Problem> {
    let mut all = Vec::new();
    for project in projects {
        let waiting = listed(project, WantedTraces { waiting_only: true, ..NEWEST })?;
        all.extend(waiting.into_iter().map(|call| (project.id(), call)));
    }
    Ok(all)
}

/// One call in full: request, decision, effect.
///
/// # Errors
/// The error of the command.
pub fn look(context: &Context<'_>) -> Result<Value, Problem> {
    context.require_all()?;
    let call = context.part("call")?;
    context.project()?.command(operand(Command::new(["call", "show"]), call))
}

/// Decides about a call that waits. An approved one runs at once.
///
/// # Errors
/// The error of the command.
pub fn decide(context: &Context<'_>, way: Way, decision: Decision) -> Result<Value, Problem> {
    context.require(Role::Approver)?;
    context.require_all()?;
    let word = if way == Way::Approve { "approve" } else { "deny" };
    let mut command = Command::new(["call", word])
        .option("by", &context.visitor.name)
        .option("reason", &decision.reason)
        .passphrase(decision.passphrase.map(Zeroizing::new));
    // A denial starts nothing, whatever was shown.
    if way == Way::Approve {
        command = command.option("shown", &decision.shown);
    }
    if let (Way::Approve, Some(arguments)) = (way, decision.arguments.as_deref())
        && !arguments.is_empty()
    {
        command = command.option("args", object(arguments)?);
    }
    context.project()?.command(operand(command, context.part("call")?))
}
