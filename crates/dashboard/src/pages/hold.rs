//! A hold: what it asks, all that one needs to know, and the ways to decide.

use maud::{Markup, html};
use serde_json::Value;
use windlass_kernel::is_same_name;

use super::Answer;
use super::call::grant_link;
use super::diff;
use super::examined::examined;
use super::key;
use super::layout::{Page, badge, button, encode, hold_address, run_address, time};
use super::parts::{escaped, pretty};
use super::run::bar;
use crate::access::{Role, Scope};
use crate::act;
use crate::dashboard::{Context, now};
use crate::looks::Seen;
use crate::model::{HoldItem, RunDetail, RunItem, RunState};
use crate::problem::Problem;
use crate::read;
use crate::timeline::{self, Timeline};

/// The most files that a warning names.
const NAMED_MAX: usize = 20;

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
            live_after: None,
            body,
        };
        return Ok(Answer::Page(page.render()));
    };
    let timeline = timeline::read(project.as_ref(), name)?;
    let (seen, since) = look(context, &format!("{}/{}", item.project, item.run))?;
    // What is decided on is what the command shows: it names its digest.
    let shown = seen.get("shown").and_then(Value::as_str).unwrap_or(&hold.shown);
    let body = html! {
        @if all { p.crumbs { a href="/" { "Inbox" } " / " a href=(run_address(&item.project, &item.run)) { code { (item.run) } } } }
        h1 { (hold.question) }
        div.row {
            (badge(item.state))
            span.faint title=(hold.trigger) { (hold.why) ", in " (hold.phase) }
            span.faint { "asked " (time(Some(hold.since))) }
            @if hold.expires_at.is_some() { span.faint { "expires " (time(hold.expires_at)) } }
        }
        p { a.button href="#decide" { "To the decision" } }
        p { strong { "Task: " } (item.task) span.faint { " started " (time(item.started_at)) " by " (detail.by) } }
        @if !hold.reviewers.is_empty() { p { strong { "Asked: " } (hold.reviewers.join(", ")) } }
        (votes(&seen, hold.approvals_needed))
        (done(&detail, hold))
        (decided(&timeline, hold))
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
        (ends_by_policy(&seen))
        (stopped(context, item)?)
        (changed_since(&seen))
        (news(&seen, since.as_ref()))
        (changes(&seen))
        @if item.state == RunState::OnHold && context.visitor.role >= Role::Approver {
            (forms(context, &detail, &seen, shown))
        } @else { (no_forms(context, item)) }
    };
    let body = html! {
        p #moved .banner role="status" hidden data-entries=(item.entries) { "Something has happened in this run since this page was loaded. " a href=(hold_address(&item.project, &item.run)) { "Load it again" } " before you decide." }
        (body)
    };
    let page = Page {
        title: &hold.question,
        at: "inbox",
        visitor: Some(context.visitor),
        live_after: Some(context.newest_event),
        body,
    };
    Ok(Answer::Page(page.render()))
}

/// Why nothing can be decided, and what can be done instead.
fn no_forms(context: &Context<'_>, item: &RunItem) -> Markup {
    let goes_on = format!("{}/resume", run_address(&item.project, &item.run));
    let operates = context.visitor.role >= Role::Operator && context.visitor.scope == Scope::All;
    html! {
        div #decide .card {
            @match item.state {
                RunState::Answered => {
                    p { "This has been answered. The run has not gone on yet." }
                    @if operates { (button(&goes_on, "Let the run go on", "primary")) }
                }
                RunState::Expired => p { "The time to answer is over: the run ends as soon as somebody looks at it with a command, or lets it go on." },
                RunState::OnHold
                | RunState::Running
                | RunState::Interrupted
                | RunState::Open
                | RunState::Passed
                | RunState::Failed
                | RunState::Damaged => {
                    p { "Your role is " (context.visitor.role.as_str()) ", so you can look, but not decide." }
                }
            }
        }
    }
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
                        @if let Some(to) = vote.pointer("/send_back/to").and_then(Value::as_str) { " back to " code { (to) } }
                        @for condition in strings(vote.get("conditions")) { div { "if " (condition) } }
                        @for finding in strings(vote.pointer("/send_back/findings")) { div { (finding) } } }
                } }
            }
        }
    }
}

/// The phases that have begun, each with what came of it.
fn done(detail: &RunDetail, hold: &HoldItem) -> Markup {
    let begun: Vec<_> = detail.phases.iter().filter(|phase| phase.attempt > 0).collect();
    html! {
        @if !begun.is_empty() {
            section #done {
                h2 { "Done so far" }
                dl.facts { @for phase in begun {
                    dt { (phase.id) }
                    dd {
                        @match &phase.verdict {
                            Some(verdict) => strong { (verdict) },
                            None if phase.id == hold.phase => strong { "waits" },
                            None => strong { (phase.status) },
                        }
                        @if let Some(text) = phase.failure.as_ref().or(phase.summary.as_ref()) { " " span.plain { (text) } }
                        span.faint { " " (phase.doer) @if phase.attempt > 1 { ", attempt " (phase.attempt) } }
                    }
                } }
            }
        }
    }
}

/// What people decided about earlier holds of the run.
fn decided(timeline: &Timeline, hold: &HoldItem) -> Markup {
    let before: Vec<_> = timeline.decisions.iter().filter(|one| one.at < hold.since).collect();
    html! {
        @if !before.is_empty() {
            section #decided {
                h2 { "Decided before" }
                ul { @for one in before { li {
                    strong { (one.by) } " " (one.decision) @if let Some(to) = &one.to { " to " code { (to) } } ": " (one.reason)
                    span.faint { " " (one.phase) ", " (time(Some(one.at))) }
                    @if !one.texts.is_empty() { ul { @for text in &one.texts { li { (text) } } } }
                } } }
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
    let items: Vec<&str> = strings(seen.pointer("/held/checklist")).collect();
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
            (examined(call))
        }
    }
}

fn evidence(seen: &Value) -> Markup {
    // That of a call repeats what is shown of it.
    let has_call = seen.get("call").is_some_and(|call| !call.is_null());
    let evidence = seen.pointer("/held/evidence");
    let evidence = evidence.filter(|evidence| !evidence.is_null() && !has_call);
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

/// The files that somebody has changed after the run stopped.
fn changed_since(seen: &Value) -> Markup {
    let names: Vec<&str> = strings(seen.get("changed_since")).collect();
    html! {
        @if !names.is_empty() {
            section #changed .card.warn {
                h2 { "Not as the run left it" }
                @if seen.get("must_be_unchanged") == Some(&Value::Bool(true)) {
                    p { "Somebody has changed these files since the run stopped. Your decision is about the work without those changes, and the run goes on only when the files are as it left them, or after a rollback." }
                } @else {
                    p { "Somebody has changed these files since the run stopped. The run goes on with them as they are when it does." }
                }
                ul { @for name in names.iter().take(NAMED_MAX) { li { code { (name) } } } }
                @if names.len() > NAMED_MAX { p.faint { "and " (names.len() - NAMED_MAX) " more" } }
            }
        }
    }
}

/// What is not shown of the work, because it is too long.
fn not_shown(context: &Context<'_>, detail: &RunDetail, seen: &Value) -> Markup {
    let names: Vec<&str> = strings(seen.get("not_shown_in_full")).collect();
    let compare = detail.span.as_ref().filter(|_| context.visitor.scope == Scope::All);
    let run = run_address(&detail.item.project, &detail.item.run);
    html! {
        @if !names.is_empty() {
            div #not-shown .card.bad {
                p { strong { "Not all of the work is shown above: it is too long. " } "You decide about all of it. Not shown in full:" }
                ul { @for name in names.iter().take(NAMED_MAX) { li { code.wrap { (name) } } } }
                @if names.len() > NAMED_MAX { p { "and " (names.len() - NAMED_MAX) " more" } }
                @if let Some((from, to)) = compare {
                    p { a href=(format!("{run}/compare?from={}&to={}", encode(from), encode(to))) { "Compare its first and last checkpoints" } " shows more." }
                }
            }
        }
    }
}

/// That no decision lets the run go on, because its policy has changed.
fn ends_by_policy(seen: &Value) -> Markup {
    html! {
        @if seen.get("policy_changed") == Some(&Value::Bool(true)) {
            p.card.bad { strong { "The policy has changed since the run began. " } "The run ends as soon as it is decided about or goes on, whatever the decision; put the files of the policy back before, if it is to go on." }
        }
    }
}

/// That somebody has stopped the run.
fn stopped(context: &Context<'_>, item: &RunItem) -> Result<Markup, Problem> {
    let operates = context.visitor.role >= Role::Operator && context.visitor.scope == Scope::All;
    let clear = format!("{}/clear-stop", run_address(&item.project, &item.run));
    Ok(match context.project()?.stopped(&item.run)? {
        None => html! {},
        Some(stop) => html! {
            div.card.warn {
                p { strong { (stop.by) } " has stopped " @if stop.all { "everything here" } @else { "this run" } ": " (stop.reason) }
                p { "It cannot go on before the stop is lifted." @if stop.all { " " code { "windlass stop --clear" } " lifts it." } }
                @if operates && !stop.all { (button(&clear, "Lift the stop", "")) }
            }
        },
    })
}

/// What changed since the visitor's last look.
fn news(seen: &Value, since: Option<&Seen>) -> Markup {
    let text = seen.get("since").and_then(Value::as_str);
    html! {
        @if let (Some(text), Some(since)) = (text, since) {
            section #since {
                h2 { "Since your last look, " (time(Some(since.at))) }
                @if text.is_empty() { p.faint { "The files are as they were." } } @else { (diff::show(text, "news")) }
            }
        }
    }
}

fn changes(seen: &Value) -> Markup {
    let text = seen.get("diff").and_then(Value::as_str).filter(|text| !text.is_empty());
    let change = seen.pointer("/held/change");
    let files = strings(change.and_then(|change| change.get("files"))).count();
    let lines = change.and_then(|change| change.get("lines")).and_then(Value::as_u64);
    html! {
        @if text.is_none() && files > 0 { p.card.warn { "The diff of the work cannot be made here." } }
        @if let Some(text) = text {
            section #diff {
                h2 { "The work so far" }
                @if let Some(lines) = lines.filter(|_| files > 0) {
                    p { (count(lines, "line")) " in " (count(u64::try_from(files).unwrap_or(u64::MAX), "file")) " changed" }
                }
                p.faint.scripted hidden { "Choose the number of a line to comment on it, with the mouse or with the arrow keys and Enter; the comment goes to the agent if you send the run back." }
                (diff::show(text, "file"))
            }
        }
    }
}

/// A number of things, in words.
fn count(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// The texts of a list.
fn strings(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
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

/// The choice of what became of a call that was interrupted. Nothing is chosen before somebody has looked. A call
/// of a run that has ended is not made any more.
pub(super) fn effects(may_be_made: bool) -> Markup {
    let ran = ("ran", "It ran: your word is recorded as its result");
    let failed = "It failed, or nobody knows: it is closed as failed";
    let choices: &[(&str, &str)] = if may_be_made {
        &[ran, ("not_run", "It did not run: it is made now"), ("failed", failed)]
    } else {
        &[ran, ("failed", "It failed, did not run, or nobody knows: it is closed as failed")]
    };
    html! {
        fieldset {
            legend { "What became of the call that was interrupted?" }
            @for (value, words) in choices {
                label.check { input type="radio" name="effect" value=(value) required; (words) }
            }
        }
    }
}

fn forms(context: &Context<'_>, detail: &RunDetail, seen: &Value, shown: &str) -> Markup {
    if let Some(missing) = key::missing(context) {
        return missing;
    }
    let address = hold_address(&detail.item.project, &detail.item.run);
    let arguments = seen.pointer("/call/args").filter(|args| !args.is_null());
    // Where a gate judges, an answer would count as an approval, whatever it says.
    let has_gate = detail.item.hold.as_ref().is_some_and(|hold| {
        detail.phases.iter().any(|phase| phase.id == hold.phase && phase.gate.is_some())
    });
    let asks = seen.pointer("/call/tool").and_then(Value::as_str) == Some("ask/person")
        || !has_gate
            && detail.item.hold.as_ref().is_some_and(|hold| hold.trigger == "PERSON_REQUESTED");
    let targets: Vec<&str> = strings(seen.get("redo_targets")).collect();
    let usual = seen.get("redo_default").and_then(Value::as_str);
    // Only the approval of a reviewer has conditions.
    let trigger = detail.item.hold.as_ref().map(|hold| hold.trigger.as_str());
    let is_excluded = detail.item.hold.as_ref().is_some_and(|hold| {
        hold.excluded.as_ref().is_some_and(|one| is_same_name(one, &context.visitor.name))
    });
    let is_uncertain = seen.pointer("/call/interrupted") == Some(&Value::Bool(true));
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
    // Which of the two it is, the loop says.
    let ends = html! {
        @if operates {
            label.check { input type="checkbox" name="resume" value="yes" checked; "then let the run end, or do what its loop says" }
        } @else { p.faint { "The run ends, unless its loop says what follows." } }
    };
    html! {
        section #decide {
            h2 { "Decide" }
            p.faint { "You decide as " strong { (context.visitor.name) } ", about exactly what is shown here: " code.wrap { (shown) } }
            (not_shown(context, detail, seen))
            @if is_excluded { p.card.warn { "You started this run, so your approval does not count: somebody else must approve. You can reject." } }
            div.columns {
                @if asks {
                    form.card.stack method="post" action=(format!("{address}/answer")) {
                        label { "Answer" textarea name="reason" rows="3" required maxlength="4000" {} }
                        p.faint { "The run goes on with your answer, whatever it says. To stop it, reject." }
                        (common) (goes_on)
                        div.row { button.primary type="submit" { "Answer" } }
                    }
                }
                form.card.stack method="post" action=(format!("{address}/approve")) {
                    label { "Why you approve" textarea name="reason" rows="2" required maxlength="4000" {} }
                    @if takes_conditions {
                        label { "Conditions, one a line" textarea name="conditions" rows="2" maxlength="20000" {} }
                    }
                    @if let Some(arguments) = arguments.filter(|_| !is_uncertain) {
                        details { summary { "Edit the call before you approve it" }
                            label { "Arguments" textarea.code name="arguments" rows="8" maxlength="100000" { (pretty(arguments)) } }
                            input type="hidden" name="asked" value=(escaped(&arguments.to_string())); }
                    }
                    @if is_uncertain { (effects(true)) }
                    (common) (goes_on)
                    div.row { button.good type="submit" { "Approve" } }
                }
                @if !targets.is_empty() {
                    form.card.stack method="post" action=(format!("{address}/send-back")) {
                        label { "What is to be done better" textarea name="reason" rows="2" required maxlength="4000" {} }
                        label { "Comments on lines, one a line: " code { "src/lib.rs:12: handle the error" }
                            textarea.code #findings name="findings" rows="4" maxlength="100000" {} }
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
                    label { "Why you reject, and what to do instead" textarea name="reason" rows="2" required maxlength="4000" {} }
                    (common) (ends)
                    div.row { button.bad type="submit" { "Reject" } }
                }
            }
        }
    }
}
