//! Grants: those in force, who gave them and for what; giving one, and revoking one.

use maud::{Markup, html};

use super::call::call_address;
use super::key;
use super::layout::{encode, run_address, time};
use super::parts::{older, project_choice, project_name, rendered, unusable};
use super::{Answer, PageRoute, form, page};
use crate::access::Role;
use crate::dashboard::Context;
use crate::grants::{self, GrantItem, NewGrant, Revocation};
use crate::paging::{Paging, projects};
use crate::problem::Problem;

/// The pages.
pub(super) const PAGES: &[PageRoute] = &[
    page("/grants", show),
    page("/grants/{project}/{grant}", one),
    form("/grants/{project}", Role::Approver, |context| {
        grants::give(context, new(context)?)?;
        Ok(Answer::GoTo("/grants".to_owned()))
    }),
    form("/grants/{project}/{grant}/revoke", Role::Approver, |context| {
        let field = |name: &str| context.field(name).map(str::to_owned);
        let reason = field("reason").unwrap_or_default();
        grants::revoke(context, Revocation { reason, passphrase: field("passphrase") })?;
        Ok(Answer::GoTo(address(context.part("project")?, context.part("grant")?)))
    }),
];

fn address(project: &str, grant: &str) -> String {
    format!("/grants/{}/{}", encode(project), encode(grant))
}

/// The grant that the form has.
fn new(context: &Context<'_>) -> Result<NewGrant, Problem> {
    let field = |name: &str| context.field(name).map(|value| value.trim().to_owned());
    let times = field("times").map(|text| {
        text.parse().map_err(|_| {
            Problem::new(
                windlass_kernel::Code::RequestInvalid,
                "how often: a number from 1 to 1000",
            )
        })
    });
    Ok(NewGrant {
        tool: field("tool").unwrap_or_default(),
        command: field("command"),
        path: field("path"),
        run: field("run"),
        times: times.transpose()?,
        duration: field("for"),
        reason: field("reason").unwrap_or_default(),
        passphrase: context.field("passphrase").map(str::to_owned),
    })
}

fn show(context: &Context<'_>) -> Result<Answer, Problem> {
    context.require_all()?;
    let all = context.field("all").is_some();
    let found = grants::list(context, &projects(context), all, Paging::of(context)?)?;
    let several = context.projects.len() > 1;
    let body = html! {
        h1 { "Grants" }
        (unusable(context))
        p { "Calls that the policy would ask about, and that match a grant, run without a question. No grant outranks a denial, and a call that waits already is still decided by itself." }
        form.filters method="get" action="/grants" {
            (project_choice(context, true))
            label.check { input type="checkbox" name="all" value="yes" checked[all]; "also those that have ended" }
            button type="submit" { "Show" }
        }
        section #grants data-part {
            @if found.items.is_empty() {
                div.empty {
                    @if all { p { "There are no grants." } } @else { p { "No grant is in force." } }
                }
            } @else {
                div.scroll tabindex="0" role="group" aria-label="Table" { table.stacks {
                    thead { tr { th { "Status" } th { "For" } th { "Used" } th { "Until" } th { "Given by" } @if several { th { "Project" } } } }
                    tbody { @for grant in &found.items { (row(context, grant, several)) } }
                } }
            }
            @if let Some(next) = found.next {
                (older(context, "/grants", &next.to_string(), &["all", "project"], "Older grants"))
            }
        }
        @if context.visitor.role >= Role::Approver {
            h2 #give { "Give a grant" }
            @if let Some(missing) = key::missing(context) { (missing) } @else {
                @for project in context.projects { (giving(context, project.id(), project.name(), several)) }
            }
        }
    };
    Ok(rendered(context, "Grants", "grants", true, body))
}

fn badge(grant: &GrantItem) -> Markup {
    let word = match grant.status.as_str() {
        "open" => "in force",
        "used_up" => "used up",
        "void" => "void: its giver's key was revoked",
        other => other,
    };
    html! { span class=(format!("badge grant-{}", grant.status)) { (word) } }
}

/// What a grant is for.
fn terms(grant: &GrantItem) -> Markup {
    html! {
        @if grant.everything { strong { "Everything" } " in one session, also what the policy denies" }
        @else { code.wrap { (grant.tool) } }
        @if let Some(glob) = &grant.command { div { "command " code.wrap { (glob) } } }
        @if let Some(glob) = &grant.path { div { "path " code.wrap { (glob) } } }
        @if let Some(run) = &grant.run { div { "only in " a href=(run_address(&grant.project, run)) { code { (run) } } } }
    }
}

fn row(context: &Context<'_>, grant: &GrantItem, several: bool) -> Markup {
    html! {
        tr {
            td { (badge(grant)) div { a href=(address(&grant.project, &grant.grant)) { "Look" @if grant.status == "open" { " or revoke" } } } }
            td { (terms(grant)) }
            td.number data-label="used" { (grant.used) " of " (grant.times) }
            td data-label="until" { (time(grant.until)) }
            td data-label="given by" {
                @if let Some(given) = &grant.granted { (given.by) ", " (time(Some(given.at))) div.faint { (given.reason) } }
            }
            @if several { td { (project_name(context, &grant.project)) } }
        }
    }
}

fn giving(context: &Context<'_>, project: &str, name: &str, several: bool) -> Markup {
    html! {
        form.card.stack method="post" action=(format!("/grants/{}", encode(project))) {
            @if several { h3 { (name) } }
            p.faint { "You sign it as " strong { (context.visitor.name) } ". A star stands for any text, as in " code { "git push *" } " or " code { "docs/**" } "." }
            div.columns {
                label { "Tool" input type="text" name="tool" required value=[context.field("tool")] maxlength="200" placeholder="shell/run"; }
                label { "Commands" input type="text" name="command" value=[context.field("command")] maxlength="4000" placeholder="git push *"; }
                label { "Paths" input type="text" name="path" value=[context.field("path")] maxlength="4000" placeholder="AGENTS.md"; }
                label { "Only in the run" input type="text" name="run" value=[context.field("run")] maxlength="100" placeholder="all runs"; }
                label { "How often" input type="number" name="times" min="1" max="1000" value="1"; }
                label { "How long" input type="text" name="for" maxlength="20" value="24h" pattern="[0-9]+[smhd]" title="such as 30m, 2h or 7d"; }
            }
            label { "Why" input type="text" name="reason" required maxlength="2000"; }
            (key::fields(context))
            div.row { button.primary type="submit" { "Give" } }
        }
    }
}

fn one(context: &Context<'_>) -> Result<Answer, Problem> {
    let grant = grants::one(context)?;
    let body = html! {
        p.crumbs { a href="/grants" { "Grants" } " / " code { (grant.grant) } }
        h1 { "Grant" }
        div.row { (badge(&grant)) span.faint { "used " (grant.used) " of " (grant.times) " times" } }
        section.card {
            (terms(&grant))
            dl.facts {
                dt { "until" } dd { (time(grant.until)) }
                @if let Some(given) = &grant.granted { dt { "given by" } dd { span { (given.by) ", " (time(Some(given.at))) ": " (given.reason) } } }
                @if let Some(revoked) = &grant.revoked { dt { "revoked by" } dd { span { (revoked.by) ", " (time(Some(revoked.at))) ": " (revoked.reason) } } }
            }
        }
        h2 { "Uses" }
        @if grant.uses.is_empty() { p.faint { "It was not used." } }
        @else {
            ul { @for one in grant.uses.iter().rev() {
                li { a href=(call_address(&grant.project, &one.call)) { code { (one.call) } } " " (time(Some(one.at))) }
            } }
        }
        @if matches!(grant.status.as_str(), "open" | "void") && context.visitor.role >= Role::Approver {
            h2 { "Revoke it" }
            form.card.stack method="post" action=(format!("{}/revoke", address(&grant.project, &grant.grant))) {
                p.faint { "You sign it as " strong { (context.visitor.name) } ". It cannot be used any more then" @if grant.status == "void" { ", also not if that key were accepted again" } "." }
                label { "Why" input type="text" name="reason" required maxlength="2000"; }
                (key::fields(context))
                div.row { button.bad type="submit" { "Revoke" } }
            }
        }
    };
    Ok(rendered(context, "Grant", "grants", false, body))
}
