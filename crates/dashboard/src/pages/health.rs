//! The journals: whether they are intact.

use maud::html;
use serde_json::Value;

use super::Answer;
use super::layout::{Page, button, encode};
use crate::act;
use crate::dashboard::Context;
use crate::problem::Problem;

/// The projects, each with a button that verifies its journal.
pub(super) fn show(context: &Context<'_>) -> Result<Answer, Problem> {
    context.require_all()?;
    let body = html! {
        h1 { "Journal" }
        p { "Every page verifies what it reads. This verifies everything: all entries, artifacts, links and keys." }
        @for project in &context.dashboard.projects {
            section.card {
                h2 { (project.name()) }
                (button(&format!("/verify/{}", encode(project.id())), "Verify now", "primary"))
            }
        }
    };
    let page = Page {
        title: "Journal",
        at: "journal",
        visitor: Some(context.visitor),
        is_live: false,
        body,
    };
    Ok(Answer::Page(page.render()))
}

/// Verifies a journal and shows the result.
pub(super) fn verify(context: &Context<'_>) -> Result<Answer, Problem> {
    let found = act::verify(context)?;
    let number = |name: &str| found.get(name).and_then(Value::as_u64);
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
        @if !is_intact { pre { (serde_json::to_string_pretty(&found).unwrap_or_default()) } }
    };
    let page = Page {
        title: "Journal",
        at: "journal",
        visitor: Some(context.visitor),
        is_live: false,
        body,
    };
    Ok(Answer::Page(page.render()))
}
