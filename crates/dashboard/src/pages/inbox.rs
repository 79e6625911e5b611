//! The inbox: all that waits for a person.

use maud::{Markup, html};
use serde_json::Value;

use super::Answer;
use super::call::call_address;
use super::layout::{Page, badge, hold_address, time};
use super::parts::unusable;
use crate::access::Role;
use crate::calls;
use crate::dashboard::{Context, now};
use crate::keys::Key;
use crate::model::{RunItem, RunState};
use crate::problem::Problem;
use crate::read::{self, PAGE_MAX};

pub(super) fn show(context: &Context<'_>) -> Result<Answer, Problem> {
    context.require_all()?;
    let projects = context.usable();
    let waiting = read::waiting(&projects, now(), PAGE_MAX)?;
    let calls = calls::all_waiting(&projects)?;
    let several = context.dashboard.projects.len() > 1;
    let open = waiting.iter().filter(|item| item.state == RunState::OnHold).count();
    let decides = context.visitor.role >= Role::Approver && context.key() != Key::Missing;
    let chooses = open > 1 && decides;
    let body = html! {
        h1 { "Inbox" }
        (unusable(context))
        section #inbox data-part aria-live="polite" {
            @if waiting.is_empty() && calls.is_empty() {
                div.empty {
                    p { "Nothing waits for you." }
                    p.faint { "Runs that need a decision, an answer or a new budget appear here by themselves." }
                }
            }
            ul.cards {
                @for item in &waiting { (card(item, several, chooses)) }
                @for (project, call) in &calls { (call_card(project, call, several)) }
            }
        }
        @if chooses { (super::several::form(context)) }
    };
    let page =
        Page { title: "Inbox", at: "inbox", visitor: Some(context.visitor), is_live: true, body };
    Ok(Answer::Page(page.render()))
}

fn card(item: &RunItem, several: bool, chooses: bool) -> Markup {
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
                    span.faint { "since " (time(Some(hold.since))) }
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
                a.button.primary href=(address) { "Look and decide" }
                code.faint { (item.run) }
                @if several { span.faint { (item.project) } }
            }
        }
    }
}

/// A call that waits, of a session or of a client of the MCP server.
fn call_card(project: &str, call: &Value, several: bool) -> Markup {
    let text = |name: &str| call.get(name).and_then(Value::as_str).unwrap_or_default();
    let address = call_address(project, text("trace_id"));
    html! {
        li.card {
            div.row { span.badge.state-on_hold { "waits for you" } span.faint { "a call of its own" } }
            h2 { a href=(address) { "May " code { (text("tool")) } " run?" } }
            div.row {
                a.button.primary href=(address) { "Look and decide" }
                code.faint { (text("trace_id")) }
                @if several { span.faint { (project) } }
            }
        }
    }
}
