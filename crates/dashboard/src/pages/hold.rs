//! A hold: what it asks, all that one needs to know, and the ways to decide.

use maud::{Markup, html};
use serde_json::Value;

use super::Answer;
use super::call::grant_link;
use super::diff;
use super::key;
use super::layout::{Page, badge, hold_address, run_address, time};
use super::run::bar;
use crate::access::{Role, Scope};
use crate::act;
use crate::dashboard::{Context, now};
use crate::looks::Seen;
use crate::model::{RunDetail, RunState};
use crate::problem::Problem;
use crate::read;

pub(super) fn show(context: &Context<'_>) -> Result<Answer, Problem> {
    let (project, name) = (context.project()?, context.part("run")?);
    context.require_scope(project.id(), name)?;
    let (run, is_live) = read::run(project.as_ref(), name)?;
    let detail = RunDetail::of(project.id(), &run, is_live, now());
    let item = &detail.item;
    let all = context.visitor.scope == Scope::All;
    let Some(hold) = &item.hold else {
        let body = html! {
            h1 { "Decided" }
            div.card {
                p { "This run does not wait any more. " (badge(item.state)) }
                @if all { p { a.button href=(run_address(&item.project, &item.run)) { "Show the run" } } }
            }
        };
        let page = Page {
            title: "Decided",
            at: "inbox",
            visitor: Some(context.visitor),
            is_live: false,
            body,
        };
        return Ok(Answer::Page(page.render()));
    };
    let (seen, since) = look(context, &format!("{}/{}", item.project, item.run))?;
    // What is decided on is what the command shows: it names its digest.
    let shown = seen.get("shown").and_then(Value::as_str).unwrap_or(&hold.shown);
    let body = html! {
        @if all { p.crumbs { a href="/" { "Inbox" } " / " a href=(run_address(&item.project, &item.run)) { code { (item.run) } } } }
        h1 { (hold.question) }
        div.row {
            (badge(item.state))
            span.faint title=(hold.trigger) { (hold.why) ", in " (hold.phase) }
            span.faint { "since " (time(Some(hold.since))) }
            @if hold.expires_at.is_some() { span.faint { "expires " (time(hold.expires_at)) } }
        }
        p { strong { "Task: " } (item.task) }
        @if !hold.reviewers.is_empty() { p { strong { "Asked: " } (hold.reviewers.join(", ")) } }
        (votes(&seen, hold.approvals_needed))
        (used(&detail))
        (checklist(&seen))
        (call(&seen))
        @if let Some(call) = seen.get("call").filter(|call| !call.is_null()) {
            @if all && context.visitor.role >= Role::Approver {
                @let tool = call.get("tool").and_then(Value::as_str).unwrap_or_default();
                (grant_link(context, tool, call.get("args").unwrap_or(&Value::Null), &item.run))
            }
        }
        (evidence(&seen))
        (news(&seen, since.as_ref()))
        (changes(&seen))
        @if item.state == RunState::OnHold && context.visitor.role >= Role::Approver {
            (forms(context, &detail, &seen, shown))
        } @else {
            p.card { "Your role is " (context.visitor.role.as_str()) ", so you can look, but not decide." }
        }
    };
    let page = Page {
        title: &hold.question,
        at: "inbox",
        visitor: Some(context.visitor),
        is_live: false,
        body,
    };
    Ok(Answer::Page(page.render()))
}

fn votes(seen: &Value, needed: u32) -> Markup {
    let votes = seen.get("votes").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = |vote: &Value, name: &str| -> String {
        vote.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    html! {
        @if needed > 1 || !votes.is_empty() {
            section {
                h2 { "Answers so far" }
                @if votes.is_empty() { p.faint { "None of " (needed) }}
                ul { @for vote in votes {
                    li { strong { (text(vote, "by")) } " " (text(vote, "decision")) ": " (text(vote, "reason"))
                        span.faint { " " (text(vote, "at")) }
                        @if let Some(to) = vote.pointer("/send_back/to").and_then(Value::as_str) { " back to " code { (to) } } }
                } }
            }
        }
    }
}

/// What the run has used so far, and who worked on it.
fn used(detail: &RunDetail) -> Markup {
    let agents: Vec<&str> = detail.agents.keys().map(String::as_str).collect();
    html! {
        details #used {
            summary { "Used so far" @if !agents.is_empty() { " by " (agents.join(", ")) } }
            dl.budgets { @for budget in &detail.budgets { (bar(budget)) } }
        }
    }
}

fn checklist(seen: &Value) -> Markup {
    let items = seen.pointer("/held/checklist").and_then(Value::as_array);
    let items: Vec<&str> = items.into_iter().flatten().filter_map(Value::as_str).collect();
    html! {
        @if !items.is_empty() {
            section { h2 { "To check" } ul { @for item in items { li { (item) } } } }
        }
    }
}

fn call(seen: &Value) -> Markup {
    let Some(call) = seen.get("call").filter(|call| !call.is_null()) else { return html! {} };
    let text = |name: &str| call.get(name).and_then(Value::as_str).unwrap_or_default();
    html! {
        section #call {
            h2 { "The call" }
            dl.facts {
                dt { "tool" } dd { code { (text("tool")) } }
                @if !text("intent").is_empty() { dt { "intent" } dd { (text("intent")) } }
                @if !text("agent").is_empty() { dt { "agent" } dd { (text("agent")) } }
            }
            pre { (pretty(call.get("args").unwrap_or(&Value::Null))) }
        }
    }
}

fn evidence(seen: &Value) -> Markup {
    let evidence = seen.pointer("/held/evidence").filter(|evidence| !evidence.is_null());
    html! {
        @if let Some(evidence) = evidence {
            section #evidence { h2 { "Evidence" } (facts(evidence)) }
        }
    }
}

/// What the hold shows, and the visitor's last look at other files of this run. The last look of all is that one,
/// unless nothing has changed since.
fn look(context: &Context<'_>, run: &str) -> Result<(Value, Option<Seen>), Problem> {
    let (person, looks) = (&context.visitor.name, &context.dashboard.looks);
    // A tree that git has removed cannot be compared any more.
    let compared = |since: Option<&Seen>| match since.map(|since| &since.tree) {
        Some(tree) => act::look(context, Some(tree)).or_else(|_| act::look(context, None)),
        None => act::look(context, None),
    };
    let newest = looks.newest(person, run);
    let seen = compared(newest.as_ref())?;
    let Some(tree) = seen.get("tree").and_then(Value::as_str) else { return Ok((seen, None)) };
    let since = looks.since(person, run, tree);
    looks.remember(person, run, tree, now());
    if since == newest || since.is_none() {
        return Ok((seen, since));
    }
    Ok((compared(since.as_ref())?, since))
}

/// What changed since the visitor's last look.
fn news(seen: &Value, since: Option<&Seen>) -> Markup {
    let text = seen.get("since").and_then(Value::as_str);
    html! {
        @if let (Some(text), Some(since)) = (text, since) {
            section #since {
                h2 { "Since your last look, " (time(Some(since.at))) }
                @if text.is_empty() { p.faint { "The files are as they were." } } @else { (diff::show(text)) }
            }
        }
    }
}

fn changes(seen: &Value) -> Markup {
    let text = seen.get("diff").and_then(Value::as_str).filter(|text| !text.is_empty());
    html! {
        @if let Some(text) = text {
            section #diff {
                h2 { "The work so far" }
                p.faint.scripted hidden { "Choose the number of a line to comment on it; the comment goes to the agent if you send the run back." }
                (diff::show(text))
            }
        }
    }
}

/// The fields of an object that say something, each with its name.
fn facts(value: &Value) -> Markup {
    let Some(fields) = value.as_object() else { return html! { pre { (pretty(value)) } } };
    let says = |value: &Value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    };
    html! {
        dl.facts { @for (name, value) in fields.iter().filter(|(_, value)| says(value)) {
            dt { (name.replace('_', " ")) }
            dd { @match value {
                Value::String(text) => span.plain { (text) },
                Value::Array(items) if items.iter().all(Value::is_string) => {
                    ul { @for item in items.iter().filter_map(Value::as_str) { li { (item) } } }
                }
                Value::Array(_) | Value::Object(_) => pre { (pretty(value)) },
                Value::Null | Value::Bool(_) | Value::Number(_) => (value.to_string()),
            } }
        } }
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn forms(context: &Context<'_>, detail: &RunDetail, seen: &Value, shown: &str) -> Markup {
    if let Some(missing) = key::missing(context) {
        return missing;
    }
    let address = hold_address(&detail.item.project, &detail.item.run);
    let arguments = seen.pointer("/call/args").filter(|args| !args.is_null());
    let asks = seen.pointer("/call/tool").and_then(Value::as_str) == Some("ask/person")
        || detail.item.hold.as_ref().is_some_and(|hold| hold.trigger == "PERSON_REQUESTED");
    let targets = seen.get("redo_targets").and_then(Value::as_array);
    let targets: Vec<&str> = targets.into_iter().flatten().filter_map(Value::as_str).collect();
    let usual = seen.get("redo_default").and_then(Value::as_str);
    // Only the approval of a reviewer has conditions.
    let trigger = detail.item.hold.as_ref().map(|hold| hold.trigger.as_str());
    let takes_conditions = trigger == Some("CONSENSUS_REQUESTED");
    let operates = context.visitor.role >= Role::Operator && context.visitor.scope == Scope::All;
    let common = html! {
        input type="hidden" name="shown" value=(shown);
        (key::fields(context))
    };
    let goes_on = html! {
        @if operates {
            label.check { input type="checkbox" name="resume" value="yes" checked; "then let the run go on" }
        }
    };
    html! {
        section #decide {
            h2 { "Decide" }
            p.faint { "You decide as " strong { (context.visitor.name) } ", about exactly what is shown here: " code.wrap { (shown) } }
            div.columns {
                @if asks {
                    form.card.stack method="post" action=(format!("{address}/answer")) {
                        label { "Answer" textarea name="reason" rows="3" required maxlength="20000" {} }
                        (common) (goes_on)
                        div.row { button.primary type="submit" { "Answer" } }
                    }
                }
                form.card.stack method="post" action=(format!("{address}/approve")) {
                    label { "Why you approve" textarea name="reason" rows="2" required maxlength="20000" {} }
                    @if takes_conditions {
                        label { "Conditions, one a line" textarea name="conditions" rows="2" maxlength="20000" {} }
                    }
                    @if let Some(arguments) = arguments {
                        details { summary { "Edit the call before you approve it" }
                            label { "Arguments" textarea.code name="arguments" rows="8" maxlength="200000" placeholder=(pretty(arguments)) {} } }
                    }
                    (common) (goes_on)
                    div.row { button.good type="submit" { "Approve" } }
                }
                @if !targets.is_empty() {
                    form.card.stack method="post" action=(format!("{address}/send-back")) {
                        label { "What is to be done better" textarea name="reason" rows="2" required maxlength="4000" {} }
                        label { "Comments on lines, one a line: " code { "src/lib.rs:12: handle the error" }
                            textarea.code #findings name="findings" rows="4" maxlength="200000" {} }
                        label { "Do again, with all that follows"
                            select name="to" {
                                @for target in &targets { option value=(target) selected[usual == Some(target)] { (target) } }
                            }
                        }
                        (common) (goes_on)
                        div.row { button.primary type="submit" { "Send back" } }
                    }
                }
                form.card.stack method="post" action=(format!("{address}/reject")) {
                    label { "Why you reject, and what to do instead" textarea name="reason" rows="2" required maxlength="20000" {} }
                    (common) (goes_on)
                    p.faint { "The run ends, unless its loop says what follows." }
                    div.row { button.bad type="submit" { "Reject" } }
                }
            }
        }
    }
}
