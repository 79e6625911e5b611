//! Notifications: what receivers were told, and what became of it.

use maud::{Markup, html};
use serde_json::Value;
use windlass_kernel::Timestamp;

use super::layout::{Page, button, encode, run_address, time};
use super::parts::unusable;
use super::{Answer, PageRoute, form, page};
use crate::access::Role;
use crate::api;
use crate::dashboard::Context;
use crate::problem::Problem;
use crate::project::Project;

/// The pages of notifications.
pub(super) const PAGES: &[PageRoute] = &[
    page("/notifications", show),
    form("/notifications/{project}/{notification}/again", Role::Operator, |context| {
        api::send_again(context)?;
        Ok(Answer::GoTo("/notifications".to_owned()))
    }),
    form("/receivers/{project}/{receiver}/test", Role::Operator, |context| {
        api::send_test(context)?;
        Ok(Answer::GoTo("/notifications".to_owned()))
    }),
];

fn show(context: &Context<'_>) -> Result<Answer, Problem> {
    context.require_all()?;
    let mut found = Vec::new();
    for project in context.usable() {
        let listed = context.tolerate(&project, api::notifications(project.as_ref()))?;
        found.extend(listed.map(|listed| (project, listed)));
    }
    let is_operator = context.visitor.role >= Role::Operator;
    let body = html! {
        h1 { "Notifications" }
        (unusable(context))
        @for (project, listed) in &found {
            section id=(format!("project-{}", project.id())) data-part {
                @if found.len() > 1 { h2 { (project.name()) } }
                (receivers(project.as_ref(), items(listed, "receivers"), is_operator))
                (deliveries(project.as_ref(), items(listed, "notifications"), is_operator))
            }
        }
    };
    let page = Page {
        title: "Notifications",
        at: "notifications",
        visitor: Some(context.visitor),
        live_after: Some(context.newest_event),
        body,
    };
    Ok(Answer::Page(page.render()))
}

fn receivers(project: &dyn Project, receivers: &[Value], is_operator: bool) -> Markup {
    html! {
        @if receivers.is_empty() {
            div.empty {
                p { "Nobody is told." }
                p.faint {
                    "Add a receiver to " code { ".windlass/config.toml" } ": a webhook or a command. "
                    code { "windlass notify --help" } " shows how."
                }
            }
        } @else {
            div.scroll tabindex="0" role="group" aria-label="Table" { table.stacks {
                thead { tr { th { "Receiver" } th { "To" } th { "Is told of" } th { "" } } }
                tbody {
                    @for one in receivers {
                        tr {
                            td { strong { (text(one, "name")) } }
                            td { code { (text(one, "way")) } }
                            td { (kinds(one)) }
                            td {
                                @if is_operator {
                                    (button(
                                        &format!("/receivers/{}/{}/test", encode(project.id()), encode(text(one, "name"))),
                                        "Send a test",
                                        "",
                                    ))
                                }
                            }
                        }
                    }
                }
            } }
        }
    }
}

fn deliveries(project: &dyn Project, found: &[Value], is_operator: bool) -> Markup {
    html! {
        h2 { "Deliveries" }
        @if found.is_empty() {
            div.empty { p { "Nothing was told yet." } }
        } @else {
            div.scroll tabindex="0" role="group" aria-label="Table" { table.stacks {
                thead { tr { th { "What" } th { "Receiver" } th { "State" } th { "When" } th { "" } } }
                tbody { @for one in found { (row(project, one, is_operator)) } }
            } }
        }
    }
}

fn row(project: &dyn Project, one: &Value, is_operator: bool) -> Markup {
    let run = text(one, "run");
    let state = text(one, "state");
    let is_settled = matches!(state, "delivered" | "given_up");
    let again =
        format!("/notifications/{}/{}/again", encode(project.id()), encode(text(one, "id")));
    html! {
        tr {
            td {
                (word(text(one, "kind"))) br;
                @if run.is_empty() { (text(one, "title")) }
                @else { a href=(run_address(project.id(), run)) { (text(one, "title")) } }
            }
            td { (text(one, "receiver")) }
            td { (state_of(one, state)) }
            td { (time(stamp(one, "created_at"))) }
            td { @if is_operator && is_settled { (button(&again, "Send again", "")) } }
        }
    }
}

/// The state of a delivery, in colour and in words.
fn state_of(one: &Value, state: &str) -> Markup {
    let failure = one.get("failure").filter(|failure| failure.is_object());
    let reason = failure.map(|failure| text(failure, "reason")).unwrap_or_default();
    let attempts = one.get("attempts").and_then(Value::as_u64).unwrap_or_default();
    let at = stamp(one, "state_at");
    let (class, name) = match state {
        "delivered" => ("passed", "delivered"),
        "given_up" => ("failed", "given up"),
        "attempting" => ("running", "being sent"),
        _ if failure.is_some() => ("on_hold", "failed, will be sent again"),
        _ => ("on_hold", "to be sent"),
    };
    html! {
        span class=(format!("badge state-{class}")) { (name) } " " span.faint {
            (time(at))
            @if attempts > 1 { " · " (attempts) " attempts" }
        }
        @if state != "delivered" && !reason.is_empty() { br; span.faint { (reason) } }
    }
}

/// What a receiver is told of.
fn kinds(receiver: &Value) -> String {
    let on = receiver.get("on").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    on.iter().filter_map(Value::as_str).map(word).collect::<Vec<_>>().join(", ")
}

/// A kind, in words.
fn word(kind: &str) -> &str {
    match kind {
        "hold_opened" => "a decision waits",
        "hold_expiring" => "a decision expires soon",
        "run_ended" => "a run has ended",
        "limit_reached" => "a limit is reached",
        "chain_broken" => "the journal is damaged",
        "test" => "a test",
        other => other,
    }
}

fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn stamp(value: &Value, name: &str) -> Option<Timestamp> {
    text(value, name).parse().ok()
}
