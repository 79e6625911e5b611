//! One run: its phases as a picture and as a list, what it used, what can be done with it.

use maud::{Markup, html};

use super::Answer;
use super::call::call_address;
use super::graph::draw;
use super::layout::{Page, badge, button, encode, hold_address, run_address, time, words};
use super::parts::dollars;
use super::waterfall;
use crate::access::Role;
use crate::dashboard::{Context, now};
use crate::model::{BudgetItem, PhaseItem, RunDetail, RunItem, RunState};
use crate::problem::Problem;
use crate::read;
use crate::timeline::{self, Timeline};

pub(super) fn show(context: &Context<'_>) -> Result<Answer, Problem> {
    context.require_all()?;
    let (project, name) = (context.project()?, context.part("run")?);
    let (run, is_live) = read::run(project.as_ref(), name)?;
    let detail = RunDetail::of(project.id(), &run, is_live, now());
    let item = &detail.item;
    let timeline = timeline::read(project.as_ref(), name)?;
    // Nothing works on a run that was interrupted.
    let until = if item.state == RunState::Interrupted { run.last_at } else { None };
    let until = until.unwrap_or_else(now);
    let stopped = project.stopped(&item.run)?;
    let waits = item.hold.as_ref().filter(|_| item.state != RunState::Answered);
    let held = waits.map(|hold| hold.phase.as_str());
    let address = run_address(&item.project, &item.run);
    let operates = context.visitor.role >= Role::Operator;
    let title = if item.task.is_empty() { item.run.as_str() } else { item.task.as_str() };
    let body = html! {
        p.crumbs { a href="/runs" { "Runs" } " / " code { (item.run) } }
        h1 { (title) }
        section #summary data-part {
            div.row {
                (badge(item.state))
                span.faint { (detail.title) }
                span.faint { "started " (time(item.started_at)) " by " (detail.by) }
                @if item.ended_at.is_some() { span.faint { "ended " (time(item.ended_at)) } }
            }
            @if item.state == RunState::Answered {
                div.card {
                    h2 { "Answered" }
                    p { "The run has not gone on yet." }
                    div.row {
                        @if operates { (button(&format!("{address}/resume"), "Let the run go on", "primary")) }
                        a.button href=(hold_address(&item.project, &item.run)) { "Show what was asked" }
                    }
                }
            } @else if let Some(hold) = &item.hold {
                div.card.warn {
                    h2 { (hold.question) }
                    p.faint title=(hold.trigger) { (hold.why) ", in " (hold.phase) ", asked " (time(Some(hold.since))) }
                    a.button.primary href=(hold_address(&item.project, &item.run)) { "Look and decide" }
                }
            }
            @if detail.has_ended() {
                p { strong { (item.reason.as_deref().unwrap_or_default()) }
                    @if let Some(text) = detail.detail.as_deref().filter(|text| !text.is_empty()) { ": " (text) } }
            }
            @if let Some(stop) = stopped.as_ref().filter(|_| !detail.has_ended()) {
                div.card.warn { p { strong { (stop.by) } " has stopped " @if stop.all { "everything here" } @else { "this run" } ": " (stop.reason) } }
            }
            @if let Some(commit) = &detail.commit { p { "Commit " code { (commit) } } }
            (left_over(&detail))
        }
        section #graph data-part { (draw(&detail.phases, held)) }
        section #timeline data-part { h2 { "Working and waiting" } (waterfall::show(&timeline, until)) }
        section #phases data-part {
            h2 { "Phases" }
            div.scroll tabindex="0" role="group" aria-label="Table" { table.stacks {
                thead { tr { th { "Phase" } th { "Status" } th { "By" } th { "Time" } th { "Result" } } }
                tbody { @for phase in &detail.phases { (row(&item.project, phase, held == Some(phase.id.as_str()))) } }
            } }
        }
        (decisions(&timeline))
        (invocations(item, &timeline))
        section #used data-part {
            h2 { "Used" }
            dl.budgets { @for budget in &detail.budgets { (bar(budget)) } }
            @if !detail.agents.is_empty() {
                div.scroll tabindex="0" role="group" aria-label="Table" { table {
                    thead { tr { th { "Agent or program" } th { "Tokens" } th { "Cost" } } }
                    tbody {
                        @for (name, usage) in &detail.agents {
                            tr { td { (name) } td.number { (usage.tokens) } td.number { (dollars(usage.cost_micros)) } }
                        }
                    }
                } }
            }
        }
        section #record data-part {
            h2 { "Record" }
            div.row {
                a.button href=(format!("{address}/checkpoints")) { "Checkpoints" }
                a.button href=(format!("{address}/entries")) { "Entries" }
                @if let Some((from, to)) = &detail.span {
                    a.button href=(format!("{address}/compare?from={}&to={}", encode(from), encode(to))) { "What it changed" }
                }
                a.button href=(format!("/calls?project={}&run={}", encode(&item.project), encode(&item.run))) { "All calls" }
            }
            @if !detail.changed_files.is_empty() {
                details { summary { "Changed files: " (detail.changed_files.len()) }
                    ul { @for file in &detail.changed_files { li { code { (file) } } } } }
            }
            p { (item.entries) " entries, verified as read; the newest has the digest " code.wrap { (detail.head) } }
            @if !detail.facts.is_empty() {
                dl.facts { @for (name, value) in &detail.facts { dt { (name) } dd { (value) } } }
            }
        }
        (actions(context, &detail, stopped.is_some()))
    };
    let page = Page {
        title,
        at: "runs",
        visitor: Some(context.visitor),
        live_after: (!detail.has_ended()).then_some(context.newest_event),
        body,
    };
    Ok(Answer::Page(page.render()))
}

fn row(project: &str, phase: &PhaseItem, is_held: bool) -> Markup {
    let result = phase.failure.as_deref().or(phase.summary.as_deref()).unwrap_or_default();
    html! {
        tr {
            td {
                (phase.title.as_deref().unwrap_or(&phase.id))
                @if phase.title.is_some() { div.faint { code { (phase.id) } } }
            }
            td {
                @if is_held { span.badge.status-held { "waits for you" } }
                @else { span class=(format!("badge status-{}", phase.status)) { (phase.status) } }
                @if phase.attempt > 1 { div.faint { "attempt " (phase.attempt) } }
            }
            td data-label="By" { (phase.doer) }
            td.number data-label="Time" { @if let Some(ms) = phase.duration_ms { (words(ms)) } @else if phase.started_at.is_some() { "began " (time(phase.started_at)) } }
            td {
                @if let Some(verdict) = &phase.verdict { strong { (verdict) } " " }
                (result)
                @if !phase.calls.is_empty() {
                    details {
                        summary { (phase.calls.len()) @if phase.calls.len() == 1 { " call" } @else { " calls" } }
                        ul { @for call in &phase.calls {
                            li { a href=(call_address(project, &call.call)) { (call.tool) } " " span.faint { (call.state.to_lowercase()) } }
                        } }
                    }
                }
            }
        }
    }
}

/// Where the work of an ended run is, and what to do with it.
fn left_over(detail: &RunDetail) -> Markup {
    let run = &detail.item.run;
    let has_changes = !detail.changed_files.is_empty();
    html! {
        @if detail.has_ended() && detail.item.client.is_none() {
            @if let Some(folder) = &detail.worktree {
                p { "Its work tree was " code.wrap { (folder) } ". " code { "windlass close " (run) " --merge" } " merges its branch and removes the folder, " code { "windlass close " (run) } " only removes it." }
            } @else if has_changes && detail.item.state == RunState::Failed {
                p { "What it changed stays in the project until somebody puts it back: " code { "windlass close " (run) " --restore" } }
            }
        }
    }
}

/// What people have decided, in the order in which they did.
fn decisions(timeline: &Timeline) -> Markup {
    html! {
        section #decisions data-part {
            @if !timeline.decisions.is_empty() {
                h2 { "Decisions" }
                div.scroll tabindex="0" role="group" aria-label="Table" { table.stacks {
                    thead { tr { th { "Who" } th { "What" } th { "Phase" } th { "When" } th { "Why" } } }
                    tbody { @for one in &timeline.decisions { tr {
                        td { strong { (one.by) } }
                        td data-label="What" { (one.decision) @if let Some(to) = &one.to { " to " code { (to) } } @if one.edited { ", with other arguments" } }
                        td data-label="Phase" { (one.phase) }
                        td data-label="When" { (time(Some(one.at))) }
                        td data-label="Why" {
                            (one.reason)
                            @if !one.texts.is_empty() { ul { @for text in &one.texts { li { (text) } } } }
                        }
                    } } }
                } }
            }
        }
    }
}

/// The agents and programs that were started.
fn invocations(item: &RunItem, timeline: &Timeline) -> Markup {
    let address = run_address(&item.project, &item.run);
    html! {
        section #invocations data-part {
            h2 { "Agents and programs" }
            @if timeline.invocations.is_empty() { p.faint { "None was started yet." } } @else {
                @if timeline.left_out > 0 { p.faint { "The newest are shown." } }
                div.scroll tabindex="0" role="group" aria-label="Table" { table.stacks {
                    thead { tr { th { "Nr." } th { "Phase" } th { "Who" } th { "Model" } th { "Tokens in, out" } th { "Cost" } th { "Time" } th { "Result" } } }
                    tbody { @for one in &timeline.invocations { tr {
                        td.number data-label="Nr." { (one.invocation) }
                        td data-label="Phase" { (one.phase) @if one.attempt > 1 { span.faint { " attempt " (one.attempt) } } }
                        td data-label="Who" { (one.agent) div.faint { (one.runner) @if let Some(parent) = one.parent { ", asked by " (parent) } } }
                        td data-label="Model" { (one.model.as_deref().unwrap_or("–")) }
                        td.number data-label="Tokens" { (one.input_tokens) ", " (one.output_tokens) @if one.unaccounted { span.faint { " not all counted" } } }
                        td.number data-label="Cost" { (dollars(one.cost_micros)) }
                        td.number data-label="Time" { @match one.duration_ms { Some(ms) => (words(ms)), None => (time(Some(one.started_at))) } }
                        td data-label="Result" {
                            (one.result.as_deref().unwrap_or("goes on"))
                            @if !one.note.is_empty() { ": " (one.note) }
                            @if one.transcript.is_some() || (one.result.is_none() && one.runner != "command") {
                                @let of = format!("{}.{}.{}", one.phase, one.attempt, one.agent);
                                div { a href=(format!("{address}/transcripts/{}?of={}", encode(&one.phase), encode(&of))) { "What was said" } }
                            }
                        }
                    } } }
                } }
            }
        }
    }
}

/// A resource: a bar if it is limited.
pub(super) fn bar(budget: &BudgetItem) -> Markup {
    let amount = |amount: u64| match budget.resource.as_str() {
        "cost_micros" => dollars(amount),
        "wall_ms" => words(amount),
        _ => amount.to_string(),
    };
    let name = match budget.resource.as_str() {
        "cost_micros" => "cost",
        "wall_ms" => "working time",
        "changed_lines" => "changed lines",
        other => other,
    };
    html! {
        dt { (name) }
        dd {
            @match budget.limit {
                Some(limit) => {
                    meter min="0" max=(limit.max(1)) value=(budget.used.min(limit)) high=(limit - limit / 5) aria-label=(name) {}
                    span { (amount(budget.used)) " of " (amount(limit)) }
                }
                None => span { (amount(budget.used)) },
            }
        }
    }
}

fn actions(context: &Context<'_>, detail: &RunDetail, is_stopped: bool) -> Markup {
    let address = run_address(&detail.item.project, &detail.item.run);
    let is_session = detail.item.client.is_some();
    if context.visitor.role < Role::Operator || detail.has_ended() || is_session {
        return html! {};
    }
    let resumes = detail.item.state == RunState::Interrupted;
    html! {
        section #actions data-part {
            h2 { "Actions" }
            div.row {
                @if resumes { (button(&format!("{address}/resume"), "Go on", "primary")) }
                @if is_stopped { (button(&format!("{address}/clear-stop"), "Lift the stop", "")) }
            }
            @if !is_stopped { details {
                summary { "Stop this run" }
                form.stack method="post" action=(format!("{address}/stop")) {
                    p.faint { "A run at work ends before its next step and cannot go on; one that waits is paused until the stop is lifted." }
                    label { "Why" input type="text" name="reason" required maxlength="2000"; }
                    div.row { button.bad type="submit" { "Stop" } }
                }
            } }
            details {
                summary { "Give this run up" }
                form.stack method="post" action=(format!("{address}/cancel")) {
                    label { "Why" input type="text" name="reason" required maxlength="2000"; }
                    div.row { button.bad type="submit" { "Give up" } }
                }
            }
        }
    }
}
