//! Calls: those that wait for a person outside of runs, and single ones in full.

use std::sync::Arc;

use serde_json::Value;
use windlass_kernel::Code;
use zeroize::Zeroizing;

use crate::access::Role;
use crate::act::{Decision, Way, object, operand};
use crate::dashboard::Context;
use crate::problem::Problem;
use crate::project::{Command, Project};

/// The most projects that are asked at once.
const AT_ONCE: usize = 8;
/// The most calls that are listed.
const CALLS_MAX: &str = "200";

/// The newest calls of a project.
///
/// # Errors
/// The error of the command.
pub fn list(context: &Context<'_>) -> Result<Value, Problem> {
    context.require_all()?;
    let mut command = Command::new(["call", "list"]).option("limit", CALLS_MAX);
    if let Some(before) = context.field("before") {
        command = command.option("before", before);
    }
    context.project()?.command(command)
}

/// The calls of a project that wait for a person.
///
/// # Errors
/// The error of the command.
fn waiting(project: &Arc<dyn Project>) -> Result<Vec<Value>, Problem> {
    let command = Command::new(["call", "list"]).flag("held", true).option("limit", CALLS_MAX);
    let Value::Array(calls) = project.command(command)? else {
        return Err(Problem::new(Code::Internal, "the list of calls cannot be read"));
    };
    Ok(calls)
}

/// The calls of all projects that wait for a person, with the ids of their projects. Some projects are asked at once.
///
/// # Errors
/// The error of a command.
pub fn all_waiting(projects: &[Arc<dyn Project>]) -> Result<Vec<(&str, Value)>, Problem> {
    let mut all = Vec::new();
    for some in projects.chunks(AT_ONCE) {
        let found: Vec<_> = std::thread::scope(|scope| {
            let asked: Vec<_> =
                some.iter().map(|project| (project, scope.spawn(|| waiting(project)))).collect();
            let failed = |_| Err(Problem::new(Code::Internal, "the list of calls failed"));
            asked
                .into_iter()
                .map(|(project, thread)| (project.id(), thread.join().unwrap_or_else(failed)))
                .collect()
        });
        for (project, calls) in found {
            all.extend(calls?.into_iter().map(|call| (project, call)));
        }
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
