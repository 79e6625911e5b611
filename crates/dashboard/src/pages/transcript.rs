//! What the agents of a phase said and did.

use maud::{Markup, html};
use serde_json::Value;

use super::Answer;
use super::layout::{Page, encode, run_address};
use super::parts::pretty;
use crate::act;
use crate::dashboard::Context;
use crate::problem::Problem;

/// The most lines of one page.
const LINES: usize = 500;

pub(super) fn show(context: &Context<'_>) -> Result<Answer, Problem> {
    let all = act::transcript(context)?;
    // Those of one attempt and agent, or all of the phase.
    let of = context.field("of").filter(|of| !of.is_empty());
    let is_wanted = |line: &&Value| of.is_none_or(|of| text(line, "transcript") == of);
    let all: Vec<&Value> =
        all.as_array().map(Vec::as_slice).unwrap_or_default().iter().filter(is_wanted).collect();
    let phase = context.part("phase")?;
    let run = run_address(context.project()?.id(), context.part("run")?);
    let from = context.field("from").and_then(|from| from.parse::<usize>().ok()).unwrap_or(0);
    let lines: Vec<&Value> = all.iter().copied().skip(from).take(LINES).collect();
    let here = |from: usize| match of {
        Some(of) => format!("?of={}&from={from}", encode(of)),
        None => format!("?from={from}"),
    };
    let mut parts: Vec<(&str, Vec<&Value>)> = Vec::new();
    for line in &lines {
        let name = text(line, "transcript");
        match parts.last_mut().filter(|(last, _)| *last == name) {
            Some((_, lines)) => lines.push(line),
            None => parts.push((name, vec![line])),
        }
    }
    let body = html! {
        p.crumbs {
            a href="/runs" { "Runs" } " / " a href=(run) { code { (context.part("run")?) } } " / "
            (phase)
            @if of.is_some() { " / " a href="?" { "all attempts" } }
        }
        h1 { "What was said in " (phase) }
        @if lines.is_empty() {
            div.empty { p { "No agent has said anything here." } }
        }
        @for (name, lines) in parts {
            section { h2 { (name) } @for line in lines { (row(line.get("line").unwrap_or(&Value::Null))) } }
        }
        div.row {
            @if from > 0 { a.button href=(here(from.saturating_sub(LINES))) { "Earlier" } }
            @if from + LINES < all.len() { a.button href=(here(from + LINES)) { "Later" } }
        }
    };
    let title = format!("What was said in {phase}");
    let page =
        Page { title: &title, at: "runs", visitor: Some(context.visitor), live_after: None, body };
    Ok(Answer::Page(page.render()))
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn row(line: &Value) -> Markup {
    let body = line.get("body").unwrap_or(&Value::Null);
    let kind = text(line, "kind");
    html! {
        div class=(format!("said {kind}")) {
            @match kind {
                "text" => p.plain { (text(body, "text")) },
                "call" => {
                    p { strong { "calls " code { (text(body, "tool")) } } }
                    @if let Some(args) = body.get("args") { pre { (pretty(args)) } }
                }
                "result" => {
                    details { summary { "result: " (text(body, "state")) } pre { (text(body, "text")) } }
                }
                other => p.faint { (other) ": " (body.to_string()) },
            }
        }
    }
}
