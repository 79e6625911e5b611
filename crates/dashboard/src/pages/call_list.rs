//! The list of calls.

use maud::{Markup, html};

use super::call::call_address;
use super::layout::{run_address, time};
use super::parts::{choice, older, project_choice, project_name, rendered, unusable};
use super::{Answer, PageRoute, page};
use crate::call_list::{self, CallFilter, CallRow, DECISIONS, STATES, decision_name};
use crate::dashboard::Context;
use crate::paging::Paging;
use crate::problem::Problem;

/// The pages.
pub(super) const PAGES: &[PageRoute] = &[page("/calls", show)];

fn show(context: &Context<'_>) -> Result<Answer, Problem> {
    context.require_all()?;
    let filter = CallFilter::of(context)?;
    let found = call_list::list(context, &filter, Paging::of(context)?)?;
    let states = STATES.map(|state| {
        let name = state.as_str().to_lowercase();
        (name.clone(), name)
    });
    let decisions =
        DECISIONS.map(|one| (decision_name(one), decision_word(&decision_name(one)).to_owned()));
    let has_project = context.projects.len() > 1;
    let columns = Columns { has_origin: true, has_project };
    let body = html! {
        h1 { "Calls" }
        (unusable(context))
        form.filters method="get" action="/calls" role="search" {
            label { "Tool" input type="search" name="tool" value=[context.field("tool")] placeholder="shell/run"; }
            (choice(context, "Decision", "decision", &decisions))
            (choice(context, "State", "state", &states))
            @if let Some(rule) = context.field("rule") {
                label { "Rule" input type="text" name="rule" value=(rule); }
            }
            @if let Some(run) = context.field("run") {
                label { "Run" input type="text" name="run" value=(run); }
            }
            (project_choice(context, true))
            button type="submit" { "Show" }
        }
        section #calls data-part {
            @if found.items.is_empty() {
                div.empty {
                    @if found.next.is_some() {
                        p { "None among the calls that were looked at." }
                    } @else {
                        p { "There are no such calls." }
                        p.faint { "Runs, guarded sessions and " code { "windlass call run" } " make them." }
                    }
                }
            } @else { (table(context, &found.items, columns)) }
            @if let Some(next) = found.next {
                (older(context, "/calls", &next.to_string(), &["tool", "decision", "state", "rule", "run", "project"], "Older calls"))
            }
        }
    };
    Ok(rendered(context, "Calls", "calls", true, body))
}

/// Which columns a table of calls has besides those that all have.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    /// Where calls come from: run, agent and phase.
    pub(super) has_origin: bool,
    /// The project.
    pub(super) has_project: bool,
}

/// Calls as a table.
pub(super) fn table(context: &Context<'_>, calls: &[CallRow], columns: Columns) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Table" { table.stacks {
            thead { tr { th { "Call" } th { "Decision" } th { "State" } @if columns.has_origin { th { "From" } } th { "When" } @if columns.has_project { th { "Project" } } } }
            tbody { @for call in calls { (row(context, call, columns)) } }
        } }
    }
}

fn row(context: &Context<'_>, call: &CallRow, columns: Columns) -> Markup {
    html! {
        tr {
            td {
                a href=(call_address(&call.project, &call.call)) {
                    @if call.tool.is_empty() { (call.call) } @else { (call.tool) }
                }
                @if !call.summary.is_empty() { div { code.wrap { (call.summary) } @if call.edited { span.faint { " approved with other arguments" } } } }
            }
            td {
                (decision_badge(call))
                @if let Some(by) = &call.decided_by { div.faint { "by " (by) } }
                @if !call.rules.is_empty() {
                    div.faint { @for (at, rule) in call.rules.iter().enumerate() {
                        @if at > 0 { ", " } code { (rule) }
                    } }
                }
            }
            td { span class=(format!("badge call-{}", call.state)) { (state_word(call)) } }
            @if columns.has_origin {
                td {
                    @if let Some(run) = &call.run { a href=(run_address(&call.project, run)) { code { (run) } } }
                    @let who: Vec<&str> = [&call.agent, &call.phase].into_iter().flatten().map(String::as_str).collect();
                    @if !who.is_empty() { div.faint { (who.join(" · ")) } }
                }
            }
            td { (time(call.requested_at)) }
            @if columns.has_project { td { (project_name(context, &call.project)) } }
        }
    }
}

/// The decision about a call, in colour and in words.
pub(super) fn decision_badge(call: &CallRow) -> Markup {
    html! {
        @match &call.decision {
            Some(decision) => span class=(format!("badge decision-{decision}")) { (decision_word(decision)) },
            None => span.faint { "not decided" },
        }
    }
}

/// The word for a decision.
pub(super) fn decision_word(decision: &str) -> &str {
    match decision {
        "approve" => "allowed",
        "deny" => "denied",
        "needs_approval" => "asked",
        other => other,
    }
}

fn state_word(call: &CallRow) -> &str {
    match (call.state.as_str(), call.decision.as_deref()) {
        ("pending", Some("needs_approval")) => "waits for a person",
        ("authorized", _) if call.by_client => "may be made once",
        ("executing", _) if call.by_client => "not reported yet",
        (state, _) => state,
    }
}
