//! The entries of a trace: the list with the state of its chain, and one entry in full.

use maud::{Markup, html};
use serde_json::Value;

use super::layout::{button, encode, run_address, time};
use super::parts::{pretty, rendered};
use super::{Answer, PageRoute, form, page};
use crate::access::Role;
use crate::dashboard::Context;
use crate::entries::{self, EntryItem, TraceItem};
use crate::problem::Problem;

/// The pages.
pub(super) const PAGES: &[PageRoute] = &[
    page("/runs/{project}/{run}/entries", list),
    page("/runs/{project}/{run}/entries/{number}", one),
    form("/runs/{project}/{run}/entries/verify", Role::Viewer, verify),
];

/// The address of the list.
fn address(context: &Context<'_>) -> Result<String, Problem> {
    Ok(format!("{}/entries", run_address(context.project()?.id(), context.part("run")?)))
}

fn crumbs(context: &Context<'_>, here: &str) -> Result<Markup, Problem> {
    let name = context.part("run")?;
    let run = run_address(context.project()?.id(), name);
    Ok(html! {
        p.crumbs {
            a href="/runs" { "Runs" } " / " a href=(run) { code { (name) } } " / "
            @if here.is_empty() { "Entries" } @else { a href=(address(context)?) { "Entries" } " / " (here) }
        }
    })
}

fn list(context: &Context<'_>) -> Result<Answer, Problem> {
    let page = entries::list(context, context.part("run")?)?;
    let own = address(context)?;
    let body = html! {
        (crumbs(context, "")?)
        h1 { "Entries" }
        (chain(&page.trace, page.intact))
        div.row { (button(&format!("{own}/verify"), "Verify this trace now", "primary")) }
        section #entries data-part {
            @if page.entries.is_empty() { div.empty { p { "There are no entries here." } } }
            @else {
                div.scroll tabindex="0" role="group" aria-label="Table" { table.stacks {
                    thead { tr { th { "No." } th { "What" } th { "Says" } th { "Recorded" } th { "Digest" } } }
                    tbody { @for entry in &page.entries { (row(entry, &own)) } }
                } }
            }
            div.row {
                @if context.field("after").is_some() { a.button href=(own) { "From the beginning" } }
                @if let Some(next) = page.next { a.button href=(format!("{own}?after={next}")) { "Later entries" } }
            }
        }
    };
    Ok(rendered(context, "Entries", "runs", true, body))
}

/// What is known of the chain.
fn chain(trace: &TraceItem, is_intact: bool) -> Markup {
    html! {
        section #chain data-part class=(if is_intact { "card good" } else { "card bad" }) {
            @if is_intact {
                p { strong { "The entries on this page are intact" } ": each has its digest and follows the one before." }
            } @else {
                p { strong { "The entries on this page are not intact" } ": not every one has its digest and follows the one before. " a href="/journal" { "Verify the journal" } " to see which." }
            }
            p.faint { (trace.entries) " entries; the newest has the digest " code.wrap { (trace.head) } }
        }
    }
}

fn row(entry: &EntryItem, own: &str) -> Markup {
    html! {
        tr {
            td.number { a href=(format!("{own}/{}", entry.number)) { (entry.number) } }
            td {
                span.badge { (entry.kind.replace('_', " ")) }
                @if !entry.intact { div { span.badge.state-damaged { "damaged" } } }
            }
            td { (entry.summary) @if entry.purged { span.faint { "its content was deleted" } } }
            td { (time(Some(entry.at))) }
            td { code.wrap title=(entry.digest) { (entry.digest.chars().take(16).collect::<String>()) "…" } }
        }
    }
}

fn one(context: &Context<'_>) -> Result<Answer, Problem> {
    let found = entries::one(context, context.part("run")?)?;
    let entry = &found.entry;
    let own = address(context)?;
    let number = entry.sequence_number;
    let (store, id) = entries::find(context.project()?, context.part("run")?)?;
    let count = store.load_state(id)?.head.sequence_number;
    let body = html! {
        (crumbs(context, &number.to_string())?)
        h1 { "Entry " (number) }
        dl.facts {
            dt { "recorded" } dd { (entry.ts) }
            dt { "state" } dd { (entry.from_state.as_str().to_lowercase()) " → " (entry.to_state.as_str().to_lowercase()) }
            dt { "content" } dd { (entry.artifact_type.as_str().replace('_', " ")) }
            dt { "digest" } dd { code.wrap { (entry.entry_digest) } }
            dt { "digest before" } dd { code.wrap { (entry.prev_entry_digest) } }
            dt { "content's digest" } dd { code.wrap { (entry.artifact_digest) } }
        }
        p.faint { "Verified by itself: its digest and that of its content are right." }
        h2 { "Content" }
        @if found.artifact == Value::Null { p { "Its content was deleted." } }
        @else { pre.long tabindex="0" { (pretty(&found.artifact)) } }
        nav.row aria-label="Entries" {
            @if number > 1 { a.button href=(format!("{own}/{}", number - 1)) { "Entry " (number - 1) } }
            @if number < count { a.button href=(format!("{own}/{}", number + 1)) { "Entry " (number + 1) } }
        }
    };
    Ok(rendered(context, &format!("Entry {number}"), "runs", false, body))
}

fn verify(context: &Context<'_>) -> Result<Answer, Problem> {
    let name = context.part("run")?;
    let found = entries::verify(context, name)?;
    let is_intact = found.get("chain_valid") == Some(&Value::Bool(true));
    let body = html! {
        (crumbs(context, "verified")?)
        h1 { "Verified" }
        div class=(if is_intact { "card good" } else { "card bad" }) role="status" {
            h2 { @if is_intact { "Intact" } @else { "Not intact" } }
            p { "Every digest, every link, every signature and the recorded head of " code { (name) } " were checked." }
        }
        @if !is_intact { pre tabindex="0" { (pretty(&found)) } }
        p { a.button href=(format!("/runs/{}/{}/entries", encode(context.project()?.id()), encode(name))) { "Back to the entries" } }
    };
    Ok(rendered(context, "Verified", "runs", false, body))
}
