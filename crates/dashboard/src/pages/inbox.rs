//! The inbox: all that waits for a person.

use maud::{Markup, html};

use super::Answer;
use super::call::call_address;
use super::layout::{Page, badge, button, encode, hold_address, run_address, time};
use super::parts::{project_name, unusable};
use crate::access::Role;
use crate::api::cursor;
use crate::call_list::CallRow;
use crate::calls;
use crate::dashboard::{Context, now};
use crate::keys::Key;
use crate::model::{RunItem, RunState};
use crate::problem::Problem;
use crate::read;

/// The most holds of one page.
const HOLDS: usize = 100;

pub(super) fn show(context: &Context<'_>) -> Result<Answer, Problem> {
    context.require_all()?;
    let page = read::waiting(context, now(), cursor(context)?, HOLDS)?;
    let waiting = page.holds;
    let calls = calls::all_waiting(context)?;
    let open = waiting.iter().filter(|item| item.state == RunState::OnHold).count();
    let decides = context.visitor.role >= Role::Approver && context.key() != Key::Missing;
    let chooses = open > 1 && decides;
    let waits = waiting.len() + calls.len();
    let title = if waits > 0 { format!("Inbox ({waits})") } else { "Inbox".to_owned() };
    let body = html! {
        h1 { "Inbox" }
        (unusable(context))
        (note(context))
        section #choose data-part {
            @if chooses {
                div.row {
                    a.button href="#several" { "Decide several at once" }
                    label.check.needs-scripts { input type="checkbox" data-all="several"; "choose all" }
                }
            }
        }
        section #inbox data-part aria-live="polite" {
            @if waits > 1 { p.faint { (waits) @if page.next.is_some() { " of the oldest runs" } " wait" } }
            @if waiting.is_empty() && calls.is_empty() {
                div.empty {
                    p { "Nothing waits for you." }
                    p.faint { "Runs that need a decision, an answer or a new budget appear here by themselves." }
                }
            }
            ul.cards {
                @for item in &waiting { (card(context, item, chooses)) }
                @for call in &calls { (call_card(context, call)) }
            }
        }
        @if let Some(next) = &page.next { p { a.button href=(format!("/?cursor={}", encode(next))) { "Newer runs" } } }
        section #chosen data-part { @if chooses { (super::several::form(context)) } }
    };
    let page = Page {
        title: &title,
        at: "inbox",
        visitor: Some(context.visitor),
        live_after: Some(context.newest_event),
        body,
    };
    Ok(Answer::Page(page.render()))
}

fn card(context: &Context<'_>, item: &RunItem, chooses: bool) -> Markup {
    let operates = context.visitor.role >= Role::Operator;
    let several = context.projects.len() > 1;
    let goes_on = format!("{}/resume", run_address(&item.project, &item.run));
    let is_answered = item.state == RunState::Answered;
    let address = hold_address(&item.project, &item.run);
    html! {
        li.card {
            div.row {
                @if let Some(hold) = item.hold.as_ref().filter(|_| chooses && item.state == RunState::OnHold) {
                    label.check { input type="checkbox" form="several" name="hold" value=(format!("{} {} {}", item.project, item.run, hold.shown)); span.away { "choose " (item.run) } }
                }
                (badge(item.state))
                @if let Some(hold) = &item.hold {
                    span.faint title=(hold.trigger) { (hold.why) ", in " (hold.phase) }
                    span.faint { "asked " (time(Some(hold.since))) }
                    @if hold.expires_at.is_some() { span.faint { "expires " (time(hold.expires_at)) } }
                    @if hold.approvals_needed > 1 {
                        span.faint { (hold.approvals) " of " (hold.approvals_needed) " approvals" }
                    }
                }
                @if let Some(reason) = &item.reason { span.faint { (reason) } }
            }
            h2 { a href=(address) { (item.hold.as_ref().map_or("Damaged record", |hold| hold.question.as_str())) } }
            p { (item.task) }
            div.row {
                @if is_answered && operates { (button(&goes_on, "Let the run go on", "primary")) }
                @if is_answered { a.button href=(address) { "Look" } } @else { (look(context, &address)) }
                code.faint { (item.run) }
                @if several { span.faint { (project_name(context, &item.project)) } }
            }
        }
    }
}

/// What was decided just now, several at once.
fn note(context: &Context<'_>) -> Markup {
    let decided = context.field("decided").and_then(|count| count.parse::<u16>().ok());
    html! {
        @if let Some(count) = decided { p.card.good role="status" { (count) " of " (count) " decided" } }
    }
}

/// The way to what waits.
fn look(context: &Context<'_>, address: &str) -> Markup {
    let decides = context.visitor.role >= Role::Approver;
    html! { a.button.primary href=(address) { @if decides { "Look and decide" } @else { "Look" } } }
}

/// A call that waits, of a session or of a client of the MCP server.
fn call_card(context: &Context<'_>, call: &CallRow) -> Markup {
    let several = context.projects.len() > 1;
    let address = call_address(&call.project, &call.call);
    html! {
        li.card {
            div.row {
                span.badge.state-on_hold { "waits for you" }
                span.faint { "a call" @if let Some(run) = &call.run { " of " code { (run) } } @if let Some(agent) = &call.agent { " by " (agent) } }
                span.faint { "asked " (time(call.requested_at)) }
            }
            h2 { a href=(address) { "May " code { (call.tool) } " run?" } }
            p { code.wrap { (call.summary) } }
            div.row {
                (look(context, &address))
                code.faint { (call.call) }
                @if several { span.faint { (project_name(context, &call.project)) } }
            }
        }
    }
}
