//! All calls, newest first: what was asked, what was decided and by which rules.

use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use windlass_journal::{Check, Reader, Runs};
use windlass_kernel::artifact::{Artifact, CLIENT_WORKSPACE, DecidedBy, Decision};
use windlass_kernel::run::RunName;
use windlass_kernel::{Call, Code, Machine, PlanId, State, Timestamp, TraceId};
use windlass_store::{Store, TraceState};

use crate::dashboard::Context;
use crate::model::UnusableProject;
use crate::paging::{Among, Look, Page, Paging, merge, projects, scan};
use crate::problem::Problem;

/// The most characters of the arguments that a list shows.
const SUMMARY_CHARS_MAX: usize = 200;

/// A call in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CallRow {
    /// The project.
    pub project: String,
    /// Its trace.
    pub call: String,
    /// The tool, as `server/tool`.
    pub tool: String,
    /// The main argument with which it was approved, shortened.
    pub summary: String,
    /// Whether a person approved it with other arguments than it was asked for.
    pub edited: bool,
    /// The state of the call, such as `completed`; `damaged` if its record is.
    pub state: String,
    /// The decision: `approve`, `deny`, or `needs_approval` while a person is asked; `null` before there is one.
    pub decision: Option<String>,
    /// Who decided: `policy`, `grant`, `prompt`, or the names of people.
    pub decided_by: Option<String>,
    /// The rules that decided; empty if a person or a grant did.
    pub rules: Vec<String>,
    /// The reason of the decision.
    pub reason: Option<String>,
    /// The run or session that made it.
    pub run: Option<String>,
    /// The agent.
    pub agent: Option<String>,
    /// The phase.
    pub phase: Option<String>,
    /// Whether a coding agent makes the call itself.
    pub by_client: bool,
    /// When it was requested.
    #[schemars(with = "Option<String>")]
    pub requested_at: Option<Timestamp>,
}

/// A page of calls.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CallsPage {
    /// The calls, newest first.
    pub calls: Vec<CallRow>,
    /// The cursor of the next page; `null` at the end.
    pub next: Option<String>,
    /// The projects that cannot be used; nothing of them is listed.
    pub unusable: Vec<UnusableProject>,
}

/// Which calls to list.
#[derive(Clone, Debug, Default)]
pub struct CallFilter {
    /// Only those of tools whose names have this text.
    pub tool: Option<String>,
    /// Only those in this state.
    pub state: Option<State>,
    /// Only those whose newest decision is this.
    pub decision: Option<Decision>,
    /// Only those that one of these rules matched.
    pub rule: Option<String>,
    /// Only those of this run.
    pub run: Option<TraceId>,
}

/// The states of calls.
pub const STATES: [State; 6] = [
    State::Pending,
    State::Authorized,
    State::Executing,
    State::Completed,
    State::Failed,
    State::Denied,
];

/// The decisions about calls.
pub const DECISIONS: [Decision; 3] = [Decision::Approve, Decision::Deny, Decision::NeedsApproval];

/// The run of this name, in the project that is chosen, or in any.
fn run_named(context: &Context<'_>, name: &str) -> Result<TraceId, Problem> {
    let mut missing = Problem::not_found(format!("there is no run `{name}`"));
    for project in projects(context) {
        let Some(store) = context.tolerate(project, project.store())? else { continue };
        match Runs::new(store).find(name) {
            Ok(trace_id) => return Ok(trace_id),
            Err(error) => missing = error.into(),
        }
    }
    Err(missing)
}

/// The name of a decision in the API.
#[must_use]
pub fn decision_name(decision: Decision) -> String {
    decision.as_str().to_lowercase()
}

impl CallFilter {
    /// The filter that the fields `tool`, `state`, `decision`, `rule` and `run` name.
    ///
    /// # Errors
    /// [`Problem`] for a state, decision or run that there is not.
    pub fn of(context: &Context<'_>) -> Result<Self, Problem> {
        let invalid = |name: &str, all: Vec<String>| {
            let message = format!("`{name}`: it is one of {}", all.join(", "));
            Problem::new(Code::RequestInvalid, message)
        };
        let named = |name: &str| context.field(name).map(str::to_lowercase);
        let state = named("state").map(|wanted| {
            let found = STATES.into_iter().find(|one| one.as_str().to_lowercase() == wanted);
            let all = || STATES.iter().map(|one| one.as_str().to_lowercase()).collect();
            found.ok_or_else(|| invalid("state", all()))
        });
        let decision = named("decision").map(|wanted| {
            let found = DECISIONS.into_iter().find(|one| decision_name(*one) == wanted);
            let all = || DECISIONS.into_iter().map(decision_name).collect();
            found.ok_or_else(|| invalid("decision", all()))
        });
        Ok(Self {
            tool: named("tool"),
            state: state.transpose()?,
            decision: decision.transpose()?,
            rule: context.field("rule").map(str::to_owned),
            run: context.field("run").map(|name| run_named(context, name)).transpose()?,
        })
    }

    /// Whether the head of a trace is that of a wanted call.
    fn admits(&self, trace: &TraceState) -> bool {
        let state = trace.head.state;
        state.is_some_and(|state| state.machine() == Machine::Call)
            && self.state.is_none_or(|wanted| state == Some(wanted))
            && self.run.is_none_or(|run| trace.plan_id.0 == run.0)
    }

    fn matches(&self, row: &CallRow) -> bool {
        let decision = self.decision.map(decision_name);
        self.tool.as_deref().is_none_or(|tool| row.tool.to_lowercase().contains(tool))
            && decision.is_none_or(|decision| row.decision.as_ref() == Some(&decision))
            && self.rule.as_ref().is_none_or(|rule| row.rules.contains(rule))
    }

    /// Which traces can be those of wanted calls.
    fn among(&self) -> Among {
        let plan_id = self.run.map(|run| PlanId(run.0));
        Among { state: self.state, machine: Some(Machine::Call), plan_id, ..Among::default() }
    }
}

/// Lists calls of the projects that a request names.
///
/// # Errors
/// [`Problem`] if a journal cannot be read.
pub fn list(
    context: &Context<'_>,
    filter: &CallFilter,
    paging: Paging,
) -> Result<Page<CallRow>, Problem> {
    let mut found = Vec::new();
    for project in projects(context) {
        let scanned = project.store().and_then(|store| {
            let mut look = |trace: &TraceState| look(project.id(), store.as_ref(), filter, trace);
            scan(store.as_ref(), filter.among(), paging, &mut look)
        });
        found.extend(context.tolerate(project, scanned)?);
    }
    Ok(merge(found, paging.limit))
}

/// Lists calls of one project.
///
/// # Errors
/// [`Problem`] if the journal cannot be read.
pub fn list_in(
    project: &str,
    store: &dyn Store,
    filter: &CallFilter,
    paging: Paging,
) -> Result<Page<CallRow>, Problem> {
    let mut look = |trace: &TraceState| look(project, store, filter, trace);
    let found = scan(store, filter.among(), paging, &mut look)?;
    Ok(merge(vec![found], paging.limit))
}

fn look(
    project: &str,
    store: &dyn Store,
    filter: &CallFilter,
    trace: &TraceState,
) -> Result<Look<CallRow>, Problem> {
    if !filter.admits(trace) {
        return Ok(Look::Passed);
    }
    let row = read(project, store, trace)?;
    Ok(if filter.matches(&row) { Look::Wanted(row) } else { Look::Read })
}

/// Reads a call, verified as far as it goes. A damaged one is listed as such.
pub(crate) fn read(
    project: &str,
    store: &dyn Store,
    trace: &TraceState,
) -> Result<CallRow, Problem> {
    let mut rules: Vec<String> = Vec::new();
    let mut reader = Reader::<Call>::new(trace.head.trace_id, Check::Prefix);
    let done = reader.for_each(store, &mut |step| {
        if let Artifact::Decision(decision) = step.artifact {
            for rule in rules_of(&decision.decided_by) {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
        ControlFlow::Continue(())
    });
    let is_damaged = match done {
        Ok(()) => false,
        // A damaged call does not hide the others.
        Err(error) if error.is_damage() => true,
        Err(error) => return Err(error.into()),
    };
    let call = reader.into_state();
    let request = call.request.as_ref().map(|(request, _)| request);
    let decision = call.decision.as_ref().map(|(decision, _)| decision);
    let edited = decision.and_then(|decision| edited_args(&decision.decided_by));
    let args = edited.or_else(|| request.map(|one| &one.proposal.args));
    let state = trace.head.state.filter(|_| !is_damaged);
    // A question is no entry: a call that nobody works on and nobody has decided is one that a person is asked about.
    let is_asked = decision.is_none() && state == Some(State::Pending) && !store.is_held(trace)?;
    let asked = is_asked.then_some(Decision::NeedsApproval);
    Ok(CallRow {
        project: project.to_owned(),
        call: trace.head.trace_id.to_string(),
        tool: request
            .map(|one| format!("{}/{}", one.proposal.tool_server, one.proposal.tool_name))
            .unwrap_or_default(),
        summary: args.map(summary).unwrap_or_default(),
        edited: edited.is_some(),
        state: state.map_or_else(|| "damaged".to_owned(), |state| state.as_str().to_lowercase()),
        decision: decision.map(|one| one.decision).or(asked).map(decision_name),
        decided_by: decision.map(|one| decider(&one.decided_by)),
        rules,
        reason: decision.map(|one| one.rationale.clone()),
        run: request.and_then(|one| one.run).map(|run| RunName::of(run).to_string()),
        agent: request.and_then(|one| one.agent.clone()),
        phase: request.and_then(|one| one.phase.clone()),
        by_client: request.is_some_and(|one| one.proposal.workspace == CLIENT_WORKSPACE),
        requested_at: request.map(|one| one.ts),
    })
}

/// The rules that a decision names.
fn rules_of(by: &DecidedBy) -> &[String] {
    match by {
        DecidedBy::Policy { rules } | DecidedBy::Prompt { rules, .. } => rules,
        DecidedBy::Person { .. } | DecidedBy::Grant { .. } => &[],
    }
}

/// The arguments that a person put in place of those of the call.
fn edited_args(by: &DecidedBy) -> Option<&Value> {
    match by {
        DecidedBy::Person { edit, .. } => edit.as_ref().map(|edit| &edit.args),
        DecidedBy::Policy { .. } | DecidedBy::Grant { .. } | DecidedBy::Prompt { .. } => None,
    }
}

/// Who decided, in words.
fn decider(by: &DecidedBy) -> String {
    match by {
        DecidedBy::Policy { .. } => "policy".to_owned(),
        DecidedBy::Person { decider, .. } => decider.names(),
        DecidedBy::Grant { name, .. } => format!("grant of {name}"),
        DecidedBy::Prompt { client, .. } => format!("prompt of {client}"),
    }
}

/// The main argument of a call, shortened.
pub(crate) fn summary(args: &Value) -> String {
    let main = ["line", "path", "pattern", "url", "question", "task"];
    let main = main.iter().find_map(|name| args.get(name)?.as_str());
    let text = main.map_or_else(|| args.to_string(), str::to_owned);
    short(&text, SUMMARY_CHARS_MAX)
}

/// A text in one line, at most so many characters of it.
pub(crate) fn short(text: &str, chars: usize) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((at, _)) = line.char_indices().nth(chars) {
        line.truncate(at);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_main_argument_is_shown_in_one_short_line() {
        assert_eq!(summary(&json!({ "line": "a\n  b", "other": 1 })), "a b");
        assert_eq!(summary(&json!({ "x": 1 })), "{\"x\":1}");
        assert_eq!(short("äöü", 2), "äö…");
        assert_eq!(short("äöü", 3), "äöü");
    }
}
