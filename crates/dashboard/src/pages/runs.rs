//! The list of runs, and the form that starts one.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::Value;

use super::Answer;
use super::layout::{Page, badge, encode, run_address, time};
use super::parts::{agent_choice, agent_names, dollars, project_name, unusable};
use crate::access::{Role, Secret};
use crate::api::wanted;
use crate::dashboard::{Context, now};
use crate::model::RunState;
use crate::problem::Problem;
use crate::project::{Command, Project};
use crate::read::{self, Wanted};
use crate::spend::Amount;

/// The states that a list can be limited to.
const STATES: [RunState; 8] = [
    RunState::Running,
    RunState::OnHold,
    RunState::Answered,
    RunState::Interrupted,
    RunState::Open,
    RunState::Passed,
    RunState::Failed,
    RunState::Damaged,
];

pub(super) fn show(context: &Context<'_>) -> Result<Answer, Problem> {
    context.require_all()?;
    let wanted = wanted(context)?;
    let page = read::list(context, &wanted, now())?;
    let several = context.projects.len() > 1;
    let used: BTreeMap<&str, BTreeMap<String, Amount>> = context
        .projects
        .iter()
        .filter(|project| page.runs.iter().any(|item| item.project == project.id()))
        .map(|project| (project.id(), context.dashboard.spend.of_runs(project)))
        .collect();
    let spent = |project: &str, run: &str| match used.get(project).and_then(|runs| runs.get(run)) {
        Some(Amount { cost_micros, .. }) if *cost_micros > 0 => dollars(*cost_micros),
        Some(Amount { tokens, .. }) => format!("{tokens} tokens"),
        None => "–".to_owned(),
    };
    let body = html! {
        h1 { "Runs" }
        (unusable(context))
        (filters(context, &wanted, several))
        section #runs data-part {
            @if page.runs.is_empty() {
                div.empty {
                    p { "There are no such runs." }
                    @if page.next.is_none() {
                        p.faint { "Start one: " code { "windlass run \"describe the task\"" } }
                    }
                }
            } @else {
                div.scroll tabindex="0" role="group" aria-label="Table" {
                    table.stacks {
                        thead { tr {
                            th { "State" } th { "Task" } th { "Where" } th { "Loop" } th { "Spent" } th { "Started" }
                            @if several { th { "Project" } }
                        } }
                        tbody {
                            @for item in &page.runs {
                                tr {
                                    td { (badge(item.state)) }
                                    td {
                                        a href=(run_address(&item.project, &item.run)) {
                                            @if item.task.is_empty() { (item.run) } @else { (item.task) }
                                        }
                                        div.faint { code { (item.run) } }
                                    }
                                    td data-label="Where" { (item.reason.as_deref().or(item.phase.as_deref()).unwrap_or("–")) }
                                    td data-label="Loop" { (item.client.as_deref().unwrap_or(&item.loop_id)) }
                                    td.number data-label="Spent" { (spent(&item.project, &item.run)) }
                                    td data-label="Started" { (time(item.started_at)) }
                                    @if several { td data-label="Project" { (project_name(context, &item.project)) } }
                                }
                            }
                        }
                    }
                }
            }
            @if let Some(next) = page.next { (older(&wanted, &next.to_string())) }
        }
    };
    let page = Page {
        title: "Runs",
        at: "runs",
        visitor: Some(context.visitor),
        live_after: Some(context.newest_event),
        body,
    };
    Ok(Answer::Page(page.render()))
}

fn filters(context: &Context<'_>, wanted: &Wanted, several: bool) -> Markup {
    html! {
        form.filters method="get" action="/runs" role="search" {
            label { "Search" input type="search" name="text" value=[wanted.text.as_deref()]; }
            label { "State"
                select name="state" {
                    option value="" { "all" }
                    @for state in STATES {
                        option value=(state.as_str()) selected[wanted.state.as_deref() == Some(state.as_str())] {
                            (state.word())
                        }
                    }
                }
            }
            @if several {
                label { "Project"
                    select name="project" {
                        option value="" { "all" }
                        @for project in context.projects {
                            option value=(project.id()) selected[wanted.project.as_deref() == Some(project.id())] {
                                (project.name())
                            }
                        }
                    }
                }
            }
            button type="submit" { "Show" }
        }
    }
}

fn older(wanted: &Wanted, next: &str) -> Markup {
    let mut address = format!("/runs?cursor={next}");
    for (name, value) in
        [("project", &wanted.project), ("state", &wanted.state), ("text", &wanted.text)]
    {
        if let Some(value) = value {
            address.push_str(&format!("&{name}={}", encode(value)));
        }
    }
    html! { p { a.button href=(address) { "Older runs" } } }
}

/// The loops of a project.
fn loop_choice(project: &dyn Project) -> Markup {
    // A project whose loops cannot be listed says why when a run is started.
    let listed = project.command(Command::new(["loop", "list"])).unwrap_or_default();
    let loops = listed.as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |one: &Value, name: &str| -> String {
        one.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    html! {
        label { "Loop"
            select name="loop" {
                option value="" { "the default: spine" }
                @for one in loops.iter().filter(|one| text(one, "type") == "loop") {
                    option value=(text(one, "id")) { (text(one, "id")) ": " (text(one, "title")) }
                }
            }
        }
    }
}

/// The form that starts a run.
pub(super) fn new(context: &Context<'_>) -> Result<Answer, Problem> {
    context.require(Role::Operator)?;
    context.require_all()?;
    let body = html! {
        h1 { "New run" }
        (agent_names())
        @for project in context.projects {
            form.card.stack method="post" action=(format!("/new/{}", encode(project.id()))) {
                h2 { (project.name()) }
                label { "Task" textarea name="task" rows="4" required maxlength="20000" {} }
                (loop_choice(project.as_ref()))
                (agent_choice())
                label.check { input type="checkbox" name="worktree" value="yes"; "in a work tree of its own" }
                @if let Ok(once) = Secret::new() { input type="hidden" name="once" value=(once.text()); }
                div.row { button.primary type="submit" { "Start" } }
            }
        }
    };
    let page = Page {
        title: "New run",
        at: "new",
        visitor: Some(context.visitor),
        live_after: None,
        body,
    };
    Ok(Answer::Page(page.render()))
}
