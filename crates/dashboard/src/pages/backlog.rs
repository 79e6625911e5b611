//! The backlog: what is next, what waits for what, and a button that starts a task.

use maud::{Markup, html};

use super::layout::{encode, run_address};
use super::parts::{agent_choice, agent_names, project_choice, rendered};
use super::{Answer, PageRoute, form, page, started};
use crate::access::Role;
use crate::backlog::{self, BacklogItem, StartTask};
use crate::dashboard::Context;
use crate::paging::chosen;
use crate::problem::Problem;

/// The pages.
pub(super) const PAGES: &[PageRoute] = &[
    page("/backlog", show),
    form("/backlog/{project}/start", Role::Operator, |context| {
        let field = |name: &str| context.field(name).map(str::to_owned);
        let task = StartTask {
            digest: field("digest").unwrap_or_default(),
            loop_id: field("loop"),
            agent: field("agent"),
            worktree: field("worktree").is_some(),
        };
        started(context, &backlog::start(context, &task)?)
    }),
];

/// The headings, in the order in which tasks are taken: state, title.
const GROUPS: [(&str, &str); 6] = [
    ("next", "Next"),
    ("under way", "Under way"),
    ("open", "Open"),
    ("blocked", "Waiting"),
    ("passed", "Passed, not marked yet"),
    ("done", "Done"),
];

fn show(context: &Context<'_>) -> Result<Answer, Problem> {
    context.require_all()?;
    let project = chosen(context)?;
    let items = backlog::list(context, project.as_ref())?;
    let body = html! {
        h1 { "Backlog" }
        (agent_names())
        @if context.projects.len() > 1 {
            form.filters method="get" action="/backlog" { (project_choice(context, false)) button type="submit" { "Show" } }
        }
        @match &items {
            None => div.empty {
                p { (project.name()) " has no backlog." }
                p.faint { "It is the file " code { "BACKLOG.md" } ": lines such as " code { "- [ ] **Title** — DoD: when it is done — Owner: name" } " below " code { "### P0" } " to " code { "### P3" } "." }
            },
            Some(items) if items.is_empty() => div.empty { p { "There are no tasks." } },
            Some(items) => { @for (state, title) in GROUPS { (group(context, project.id(), items, state, title)) } }
        }
    };
    Ok(rendered(context, "Backlog", "backlog", false, body))
}

fn group(
    context: &Context<'_>,
    project: &str,
    items: &[BacklogItem],
    state: &str,
    title: &str,
) -> Markup {
    let mut found: Vec<&BacklogItem> = items.iter().filter(|item| item.state == state).collect();
    // The sort is stable: lines of one priority keep their order.
    found.sort_by(|one, other| one.priority.cmp(&other.priority));
    let cards = html! { ul.cards { @for item in &found { (card(context, project, item)) } } };
    html! {
        @if !found.is_empty() {
            section {
                // What is over is there, and out of the way.
                @if state == "done" { details { summary { (found.len()) " done" } (cards) } }
                @else { h2 { (title) } (cards) }
            }
        }
    }
}

fn card(context: &Context<'_>, project: &str, item: &BacklogItem) -> Markup {
    let can_start = matches!(item.state.as_str(), "next" | "open");
    html! {
        li.card {
            div.row { span.badge { (item.priority) } strong { (item.title) } }
            dl.facts {
                @if let Some(dod) = &item.dod { dt { "done when" } dd { (dod) } }
                @if let Some(owner) = &item.owner { dt { "owner" } dd { (owner) } }
                @if let Some(more) = &item.context { dt { "context" } dd { (more) } }
                @if !item.waits_for.is_empty() { dt { "waits for" } dd { (item.waits_for.join(", ")) } }
                @if let Some(run) = &item.run { dt { "run" } dd { a href=(run_address(project, run)) { code { (run) } } } }
                dt { "line" } dd { (item.line) }
            }
            @if can_start && context.visitor.role >= Role::Operator {
                details { summary.button { "Start this" }
                    form.stack method="post" action=(format!("/backlog/{}/start", encode(project))) {
                        input type="hidden" name="digest" value=(item.digest);
                        label { "Loop" input type="text" name="loop" placeholder="spine" maxlength="100"; }
                        (agent_choice())
                        label.check { input type="checkbox" name="worktree" value="yes"; "in a work tree of its own" }
                        div.row { button.primary type="submit" { "Start" } }
                    }
                }
            }
        }
    }
}
