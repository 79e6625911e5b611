//! The checkpoints of a run: the list, two of them side by side, and a rollback with its preview first.

use maud::{Markup, html};
use serde_json::Value;

use super::Answer;
use super::diff;
use super::layout::{Page, encode, run_address};
use crate::access::Role;
use crate::act;
use crate::dashboard::{Context, now};
use crate::model::RunDetail;
use crate::problem::Problem;
use crate::read;

/// The address of the run's page.
fn address(context: &Context<'_>) -> Result<String, Problem> {
    Ok(run_address(context.project()?.id(), context.part("run")?))
}

/// The items of an array, by name.
fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A text of an object, by name.
fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn page(context: &Context<'_>, title: &str, body: Markup) -> Answer {
    let page = Page { title, at: "runs", visitor: Some(context.visitor), live_after: None, body };
    Answer::Page(page.render())
}

fn crumbs(context: &Context<'_>, here: &str) -> Result<Markup, Problem> {
    let run = address(context)?;
    let name = context.part("run")?;
    Ok(html! {
        p.crumbs {
            a href="/runs" { "Runs" } " / " a href=(run) { code { (name) } } " / "
            a href=(format!("{run}/checkpoints")) { "Checkpoints" }
            @if !here.is_empty() { " / " (here) }
        }
    })
}

/// The list.
pub(super) fn list(context: &Context<'_>) -> Result<Answer, Problem> {
    let listed = act::checkpoints(context)?;
    let checkpoints = listed.as_array().map(Vec::as_slice).unwrap_or_default();
    let run = address(context)?;
    let last = checkpoints.len().saturating_sub(1);
    let choice = |name: &'static str, chosen: usize| {
        html! {
            select name=(name) {
                @for (at, one) in checkpoints.iter().enumerate() {
                    option value=(text(one, "name")) selected[at == chosen] { (text(one, "name")) }
                }
            }
        }
    };
    let body = html! {
        (crumbs(context, "")?)
        h1 { "Checkpoints" }
        @if checkpoints.is_empty() {
            div.empty { p { "This run has no checkpoints yet." } }
        } @else {
            form.filters method="get" action=(format!("{run}/compare")) {
                label { "From" (choice("from", 0)) }
                label { "To" (choice("to", last)) }
                button.primary type="submit" { "Compare" }
            }
            div.scroll tabindex="0" role="group" aria-label="Table" { table.stacks {
                thead { tr { th { "Checkpoint" } th { "State" } th { "Made" } th { "Files" } th { "" } } }
                tbody { @for one in checkpoints { (row(context, one, &run)) } }
            } }
        }
    };
    Ok(page(context, "Checkpoints", body))
}

fn row(context: &Context<'_>, one: &Value, run: &str) -> Markup {
    let name = text(one, "name");
    let is_gone = one.get("purged").and_then(Value::as_bool).unwrap_or_default();
    html! {
        tr {
            td { (name) div.faint { code { (text(one, "id")) } } }
            td data-label="State" { (text(one, "kind")) @if is_gone { div.faint { "its files are deleted" } } }
            td data-label="Made" { (text(one, "created_at")) }
            td.number data-label="Files" { (files_in(one)) }
            td {
                @if context.visitor.role >= Role::Operator && !is_gone {
                    a.button href=(format!("{run}/rollback?checkpoint={}", encode(name))) { "Roll back…" }
                }
            }
        }
    }
}

/// How many files a checkpoint has, in words.
fn files_in(one: &Value) -> String {
    match one.get("artifact_count").and_then(Value::as_u64) {
        Some(1) => "1 file".to_owned(),
        count => format!("{} files", count.unwrap_or_default()),
    }
}

/// Two checkpoints side by side.
pub(super) fn compare(context: &Context<'_>) -> Result<Answer, Problem> {
    let found = act::compare(context)?;
    let (from, to) =
        (context.field("from").unwrap_or_default(), context.field("to").unwrap_or_default());
    let body = html! {
        (crumbs(context, "compared")?)
        h1 { (from) " and " (to) }
        (changes("State", found.get("state"), from, to))
        (changes("Used", found.get("usage"), from, to))
        section {
            h2 { "Files" }
            @if items(&found, "files").is_empty() { p.faint { "No file differs." } }
            (files(items(&found, "files")))
            @if !text(&found, "diff").is_empty() { (diff::side_by_side(text(&found, "diff"))) }
            @if found.get("diff_truncated") == Some(&Value::Bool(true)) {
                p.faint { "The diff is longer than what is shown; " code { "windlass checkpoint diff" } " has all of it." }
            }
        }
    };
    Ok(page(context, "Compared", body))
}

/// What differs, side by side.
fn changes(title: &str, changed: Option<&Value>, from: &str, to: &str) -> Markup {
    let Some(fields) = changed.and_then(Value::as_object).filter(|fields| !fields.is_empty())
    else {
        return html! {};
    };
    let side = |field: &Value, name: &str| match field.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| item.as_str().unwrap_or_default())
            .collect::<Vec<_>>()
            .join(", "),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    html! {
        section {
            h2 { (title) }
            div.scroll tabindex="0" role="group" aria-label="Table" { table.compared {
                thead { tr { th { "" } th { (from) } th { (to) } } }
                tbody {
                    @for (name, field) in fields {
                        tr { th scope="row" { (name.replace('_', " ")) } td { (side(field, "from")) } td { (side(field, "to")) } }
                    }
                }
            } }
        }
    }
}

fn files(files: &[Value]) -> Markup {
    html! {
        ul { @for file in files { li { (text(file, "change")) " " code { (text(file, "path")) } } } }
    }
}

/// What a rollback would do, and the form that does it.
pub(super) fn preview(context: &Context<'_>) -> Result<Answer, Problem> {
    context.require(Role::Operator)?;
    let plan = act::preview_rollback(context)?;
    let name = context.field("checkpoint").unwrap_or_default();
    let names =
        |list: &str| -> Vec<&str> { items(&plan, list).iter().filter_map(Value::as_str).collect() };
    let (run, is_live) = read::run(context.project()?.as_ref(), context.part("run")?)?;
    let detail = RunDetail::of(context.project()?.id(), &run, is_live, now());
    let newest = detail.span.map(|(_, newest)| newest);
    let (changed, phases) = (names("changed_by_people"), names("archived_phases"));
    let body = html! {
        (crumbs(context, "roll back")?)
        h1 { "Roll back to " (name) }
        section.card {
            h2 { "What it would do" }
            @if !text(&plan, "ended").is_empty() {
                p { "The run has ended (" (text(&plan, "ended")) "). The rollback opens it again, and it waits until somebody lets it go on." }
            }
            @if !text(&plan, "commit").is_empty() {
                p { "Its commit " code { (text(&plan, "commit")) } " stays in its branch." }
            }
            @if phases.is_empty() { p { "No phase is done again." } }
            @else { p { "These phases are put aside and done again: " strong { (phases.join(", ")) } } }
            @if items(&plan, "files").is_empty() { p { "No file changes." } }
            (files(items(&plan, "files")))
            @if let Some(newest) = newest.filter(|newest| newest != name) {
                p { a href=(format!("{}/compare?from={}&to={}", address(context)?, encode(&newest), encode(name))) { "Compare with the newest checkpoint" } }
            }
            @if !changed.is_empty() {
                p { strong { "Changed by people since: " } (changed.join(", ")) ". They are saved first." }
                @if let Some(phase) = plan.get("unfinished_phase").and_then(Value::as_str) {
                    p { "Phase " strong { (phase) } " is not done: what it changed cannot be told from what people changed." }
                }
            }
            @for path in names("left_alone") {
                p { code { (path) } " is not the run’s and stays as it is." }
            }
            @for path in names("nested") {
                p { code { (path) } " is a repository of its own: its files, and changes in it, stay as they are." }
            }
        }
        form.card.stack method="post" action=(format!("{}/rollback", address(context)?)) {
            input type="hidden" name="checkpoint" value=(name);
            label { "Why" input type="text" name="reason" required maxlength="2000"; }
            @if !changed.is_empty() {
                label.check { input type="checkbox" name="force" value="yes" required; "put the changes of people aside" }
            }
            div.row { button.bad type="submit" { "Roll back" } a.button href=(format!("{}/checkpoints", address(context)?)) { "Do nothing" } }
        }
    };
    Ok(page(context, "Roll back", body))
}
