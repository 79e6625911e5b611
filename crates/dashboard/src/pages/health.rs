//! The journals: whether they are intact.

use maud::html;
use serde_json::Value;
use windlass_kernel::run::RunName;
use windlass_kernel::{TraceId, Uuid7};

use super::Answer;
use super::layout::{Page, button, encode};
use super::parts::unusable_project;
use crate::act;
use crate::dashboard::Context;
use crate::model::UnusableProject;
use crate::problem::Problem;

/// The projects, each with a button that verifies its journal.
pub(super) fn show(context: &Context<'_>) -> Result<Answer, Problem> {
    context.require_all()?;
    let body = html! {
        h1 { "Journal" }
        p { "Every page verifies what it reads. This verifies everything: all entries, artifacts, links and keys." }
        @for project in context.projects {
            section.card {
                h2 { (project.name()) }
                @if let Err(problem) = project.ready() {
                    (unusable_project(&UnusableProject::of(project.as_ref(), &problem)))
                }
                (button(&format!("/verify/{}", encode(project.id())), "Verify now", "primary"))
            }
        }
    };
    let page = Page {
        title: "Journal",
        at: "journal",
        visitor: Some(context.visitor),
        live_after: None,
        body,
    };
    Ok(Answer::Page(page.render()))
}

/// Verifies a journal and shows the result.
pub(super) fn verify(context: &Context<'_>) -> Result<Answer, Problem> {
    let found = act::verify(context)?;
    let number = |name: &str| found.get(name).and_then(Value::as_u64);
    let list = |name: &str| -> &[Value] {
        found.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    };
    let texts = |name| list(name).iter().filter_map(Value::as_str).collect::<Vec<_>>();
    let text = |value: &Value, pointer: &str| -> String {
        value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let (problems, damage, unknown) = (list("problems"), texts("damage"), texts("unknown_signers"));
    let is_intact = found.get("chain_valid") == Some(&Value::Bool(true));
    let body = html! {
        p.crumbs { a href="/journal" { "Journal" } }
        h1 { (context.project()?.name()) }
        div class=(if is_intact { "card good" } else { "card bad" }) role="status" {
            h2 { @if is_intact { "Intact" } @else { "Not intact" } }
            @if let (Some(traces), Some(entries)) = (number("traces"), number("entries")) {
                p { (traces) " traces, " (entries) " entries" }
            }
        }
        @if !problems.is_empty() || !damage.is_empty() {
            section {
                h2 { "What is damaged" }
                ul {
                    @for one in problems { li {
                        (text(one, "/message")) " " code { (text(one, "/finding/error_code")) }
                        div.faint { "trace " code.wrap { (text(one, "/trace_id")) }
                            @if let Ok(id) = text(one, "/trace_id").parse::<Uuid7>() { ", if it is a run " code { (RunName::of(TraceId(id)).to_string()) } } }
                    } }
                    @for one in damage { li { (one) } }
                }
                p { "Everything else can be used. A backup has what was here before: " code { "windlass store backup" } " makes one, and docs/guides/recovery.md says how to go back to it." }
            }
        }
        @if !unknown.is_empty() {
            section.card.bad {
                h2 { "Signed by somebody who is not known" }
                ul { @for one in unknown { li { (one) } } }
            }
        }
    };
    let page = Page {
        title: "Journal",
        at: "journal",
        visitor: Some(context.visitor),
        live_after: None,
        body,
    };
    Ok(Answer::Page(page.render()))
}
