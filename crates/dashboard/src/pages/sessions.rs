//! Guarded sessions of coding agents: the list, and one in full.

use maud::{Markup, html};

use super::call_list;
use super::layout::{badge, button, encode, run_address, time};
use super::parts::{choice, older, project_choice, project_name, rendered, unusable};
use super::{Answer, PageRoute, page};
use crate::access::Role;
use crate::call_list::{DECISIONS, decision_name};
use crate::dashboard::Context;
use crate::model::RunState;
use crate::problem::Problem;
use crate::sessions::{self, SessionDetail};

/// The pages.
pub(super) const PAGES: &[PageRoute] =
    &[page("/sessions", show), page("/sessions/{project}/{session}", one)];

/// The columns of its own calls.
const OWN: call_list::Columns = call_list::Columns { has_origin: false, has_project: false };

/// The states that a session can be in.
const STATES: [RunState; 5] =
    [RunState::Open, RunState::Running, RunState::OnHold, RunState::Passed, RunState::Failed];

fn address(project: &str, session: &str) -> String {
    format!("/sessions/{}/{}", encode(project), encode(session))
}

/// The words for the end of a session, which is no test that can be passed.
fn word(state: RunState) -> &'static str {
    match state {
        RunState::Passed => "ended",
        RunState::Failed => "ended, work not closed",
        RunState::Running
        | RunState::OnHold
        | RunState::Answered
        | RunState::Expired
        | RunState::Interrupted
        | RunState::Open
        | RunState::Damaged => state.word(),
    }
}

fn show(context: &Context<'_>) -> Result<Answer, Problem> {
    let found = sessions::list(context)?;
    let several = context.projects.len() > 1;
    let states = STATES.map(|state| (state.as_str().to_owned(), word(state).to_owned()));
    let body = html! {
        h1 { "Sessions" }
        (unusable(context))
        form.filters method="get" action="/sessions" role="search" {
            label { "Search" input type="search" name="text" value=[context.field("text")] placeholder="name"; }
            (choice(context, "State", "state", &states))
            (project_choice(context, true))
            button type="submit" { "Show" }
        }
        section #sessions data-part {
            @if found.sessions.is_empty() {
                div.empty {
                    p { "There are no such sessions." }
                    p.faint { "Guard those of a coding agent: " code { "windlass install claude" } }
                }
            } @else {
                div.scroll tabindex="0" role="group" aria-label="Table" { table.stacks {
                    thead { tr { th { "State" } th { "Session" } th { "Client" } th { "Folder" } th { "Began" } th { "Record" } @if several { th { "Project" } } } }
                    tbody { @for item in &found.sessions {
                        tr {
                            td { span class=(format!("badge state-{}", item.state.as_str())) { (word(item.state)) } }
                            td {
                                a href=(address(&item.project, &item.run)) { code { (item.run) } }
                            }
                            td { (item.client.as_deref().unwrap_or_default()) }
                            td { code.wrap { (item.folder.as_deref().unwrap_or_default()) } }
                            td { (time(item.started_at)) }
                            td.number { (item.entries) " entries" }
                            @if several { td { (project_name(context, &item.project)) } }
                        }
                    } }
                } }
            }
            @if let Some(next) = &found.next {
                (older(context, "/sessions", next, &["text", "state", "project"], "Older sessions"))
            }
        }
    };
    Ok(rendered(context, "Sessions", "sessions", true, body))
}

fn one(context: &Context<'_>) -> Result<Answer, Problem> {
    let detail = sessions::one(context)?;
    let item = &detail.item;
    let client = item.client.as_deref().unwrap_or_default();
    let own = address(&item.project, &item.run);
    let decisions = DECISIONS
        .map(|one| (decision_name(one), call_list::decision_word(&decision_name(one)).to_owned()));
    let body = html! {
        p.crumbs { a href="/sessions" { "Sessions" } " / " code { (item.run) } }
        h1 { "Session of " (client) }
        section #summary data-part {
            div.row {
                @if detail.blocked.is_some() { span.badge.state-failed { "blocked" } }
                @else if matches!(item.state, RunState::Passed | RunState::Failed) { span class=(format!("badge state-{}", item.state.as_str())) { (word(item.state)) } }
                @else { (badge(item.state)) }
                span.faint { "began " (time(item.started_at)) }
                @if item.ended_at.is_some() { span.faint { "ended " (time(item.ended_at)) } }
            }
            @if let (Some(stop), None) = (&detail.stopped, item.ended_at) {
                div.card.warn {
                    h2 { "Its tools are stopped" }
                    p { (stop.reason) }
                    p.faint {
                        "By " (stop.by) ". Whatever its agent asks for is refused until "
                        code { "windlass stop " @if !stop.all { (item.run) " " } "--clear" } "."
                        @if stop.all { " Everything in the project is stopped." }
                    }
                }
            }
            @if let Some(block) = &detail.blocked {
                div.card.bad {
                    h2 { "An audit has stopped it" }
                    p { (block.issue) }
                    @if !block.correction.is_empty() { p { strong { "What would be right: " } (block.correction) } }
                    p.faint { (block.reason) " · since " (time(Some(block.since))) }
                }
            }
            @if !detail.unguarded.is_empty() {
                div.card.warn {
                    h2 { (detail.unguarded.len()) " uses of tools were not asked about" }
                    ul { @for one in &detail.unguarded { li { (one.tool) " " (time(Some(one.at))) } } }
                }
            }
            dl.facts {
                dt { "folder" } dd { code.wrap { (item.folder.as_deref().unwrap_or_default()) } }
                dt { "client's id" } dd { code.wrap { (detail.session) } }
                @if let Some(reason) = &item.reason { dt { "ended" } dd { (reason) } }
            }
        }
        (go_on(context, &detail))
        section {
            h2 { "What it asked, and what was decided" }
            form.filters method="get" action=(own) {
                label { "Tool" input type="search" name="tool" value=[context.field("tool")]; }
                (choice(context, "Decision", "decision", &decisions))
                button type="submit" { "Show" }
            }
        }
        section #calls data-part {
            @if detail.calls.is_empty() { p.faint { "No such calls." } }
            @else { (call_list::table(context, &detail.calls, OWN)) }
            @if let Some(next) = &detail.next { (older(context, &own, next, &["tool", "decision"], "Older calls")) }
        }
        section #happenings data-part {
            h2 { "What happened" }
            @if detail.happenings_left_out > 0 {
                p.faint { "The newest " (detail.happenings.len()) "; " (detail.happenings_left_out) " older ones are in the "
                    a href=(format!("{}/entries", run_address(&item.project, &item.run))) { "entries" } "." }
            }
            div.scroll tabindex="0" role="group" aria-label="Table" { table.stacks {
                thead { tr { th { "When" } th { "What" } th { "" } } }
                tbody { @for one in detail.happenings.iter().rev() {
                    tr { td { (time(Some(one.at))) } td { (one.kind) } td { (one.text) } }
                } }
            } }
        }
        p { a.button href=(format!("{}/entries", run_address(&item.project, &item.run))) { "Entries" } }
    };
    let title = format!("Session {}", item.run);
    Ok(rendered(context, &title, "sessions", item.ended_at.is_none(), body))
}

/// How to go on with a session.
fn go_on(context: &Context<'_>, detail: &SessionDetail) -> Markup {
    let item = &detail.item;
    if item.ended_at.is_some() {
        return html! {};
    }
    let run = run_address(&item.project, &item.run);
    html! {
        section.card {
            h2 { "How to go on" }
            ul {
                @if detail.blocked.is_some() {
                    li { "Let it go on: " code.wrap { "windlass session clear-block " (item.run) " --reason TEXT" } }
                }
                @if detail.calls.iter().any(|call| call.state == "pending") {
                    li { "A call waits for you: decide it on its page, and the same call is let through once when the agent tries again." }
                }
                @if detail.item.client.as_deref() == Some("claude") {
                    li { "In its folder: " code.wrap { "claude --resume " (detail.session) } }
                } @else { li { "In its client, in its folder." } }
                li { "Bring files back: " code.wrap { "windlass session rewind " (item.run) " --to 1 --dry-run" } }
                li { "If its client is gone: " code.wrap { "windlass session end " (item.run) " --reason TEXT" } }
            }
            @if context.visitor.role >= Role::Operator {
                div.row {
                    @match &detail.stopped {
                        None => (button(&format!("{run}/stop"), "Stop its tools", "")),
                        Some(stop) if !stop.all => (button(&format!("{run}/clear-stop"), "Lift the stop", "")),
                        Some(_) => {}
                    }
                }
            }
        }
    }
}
