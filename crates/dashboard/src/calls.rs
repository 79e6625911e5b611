//! Calls: those that wait for a person outside of runs, and single ones in full.

use std::sync::Arc;

use serde_json::Value;
use windlass_kernel::{Code, Machine, State, TraceId, Uuid7};
use windlass_store::Store;
use windlass_views::{WantedTraces, list_traces};
use zeroize::Zeroizing;

use crate::access::Role;
use crate::act::{Decision, EffectAnswer, Way, object, operand, require_approval};
use crate::call_list::{self, CallRow};
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

/// The calls of all projects that wait for a person, without those about which their runs ask.
///
/// # Errors
/// [`Problem`] if a journal cannot be read.
pub fn all_waiting(context: &Context<'_>) -> Result<Vec<CallRow>, Problem> {
    let mut all = Vec::new();
    for project in &context.usable() {
        let waiting = context.tolerate(project, waiting(project.as_ref()))?;
        all.extend(waiting.into_iter().flatten());
    }
    Ok(all)
}

/// Those of one project.
fn waiting(project: &dyn Project) -> Result<Vec<CallRow>, Problem> {
    let store = project.store()?;
    let wanted = WantedTraces { waiting_only: true, ..NEWEST };
    let (waiting, _) = list_traces(store.as_ref(), wanted)?;
    let mut all = Vec::new();
    for one in waiting {
        let row = call_list::read(project.id(), store.as_ref(), &one.state)?;
        let run = TraceId(one.state.plan_id.0);
        if row.run.is_none() || !is_answered_by(store.as_ref(), run)? {
            all.push(row);
        }
    }
    Ok(all)
}

/// Whether people answer the calls of a run through it. Those of a run that has ended are settled by themselves.
///
/// # Errors
/// [`Problem`] if the run cannot be read.
pub fn is_answered_by(store: &dyn Store, run: TraceId) -> Result<bool, Problem> {
    Ok(store.load_state(run)?.head.state != Some(State::Terminal))
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
    require_approval(way, decision.effect)?;
    if let Some(effect) = decision.effect {
        let command = Command::new(["call", "settle"])
            .option("by", &context.visitor.name)
            .option("reason", &decision.reason)
            .flag("ran", effect == EffectAnswer::Ran)
            .flag("not-run", effect == EffectAnswer::NotRun)
            .flag("failed", effect == EffectAnswer::Failed)
            .option("shown", &decision.shown)
            .passphrase(decision.passphrase.map(Zeroizing::new));
        return context.project()?.command(operand(command, context.part("call")?));
    }
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
