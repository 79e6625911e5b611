//! The policy: its rules, what each decided lately, and why a call is decided as it is.

use maud::{Markup, html};
use serde_json::Value;

use super::call::call_address;
use super::call_list::decision_word;
use super::layout::{encode, time};
use super::parts::{pretty, project_choice, rendered, text, texts};
use super::{Answer, PageRoute, page};
use crate::dashboard::Context;
use crate::paging::chosen;
use crate::policy::{self, Explanation, PolicyDetail, RuleItem};
use crate::problem::Problem;

/// The pages.
pub(super) const PAGES: &[PageRoute] = &[page("/policy", show), page("/policy/explain", explain)];

/// A verdict, in colour and in words.
fn verdict(word: &str) -> Markup {
    html! { span class=(format!("badge verdict-{word}")) { (word) } }
}

fn show(context: &Context<'_>) -> Result<Answer, Problem> {
    context.require_all()?;
    let project = chosen(context)?;
    let policy = policy::look(context, project)?;
    let body = html! {
        h1 { "Policy" }
        @if context.projects.len() > 1 {
            form.filters method="get" action="/policy" { (project_choice(context, false)) button type="submit" { "Show" } }
        }
        (question(context, project.id(), ""))
        section #rules {
            h2 { "Rules" }
            p.faint {
                "All rules that match a call count, and the strictest wins: deny over ask over allow. What no rule matches is denied. "
                "The counts are those of the newest " (policy.calls_looked_at) " calls"
                @if policy.calls_asked > 0 { "; " (policy.calls_asked) " of them were put to a person or covered by a grant, and count for no rule" }
                "."
            }
            div.scroll tabindex="0" role="group" aria-label="Table" { table.stacks {
                thead { tr { th { "Verdict" } th { "Rule" } th { "Lately" } th { "Stands in" } } }
                tbody { @for rule in &policy.rules { (row(project.id(), rule)) } }
            } }
        }
        (tools(&policy))
        p.faint { "Policy hash " code.wrap { (policy.policy_hash) } }
    };
    Ok(rendered(context, "Policy", "policy", false, body))
}

fn row(project: &str, rule: &RuleItem) -> Markup {
    html! {
        tr {
            td { (verdict(&rule.verdict)) }
            td { strong { (rule.id) } div { (rule.reason) } }
            td {
                @if rule.calls == 0 { span.faint { "no call" } }
                @else {
                    a href=(format!("/calls?rule={}&project={}", encode(&rule.id), encode(project))) {
                        (rule.calls) @if rule.calls == 1 { " call" } @else { " calls" }
                    }
                    @let counts: Vec<String> = rule.decisions.iter().map(|(name, count)| format!("{count} {}", decision_word(name))).collect();
                    div.faint { (counts.join(", ")) }
                    details { summary { "the newest" }
                        ul { @for call in &rule.newest {
                            li { a href=(call_address(&call.project, &call.call)) { (call.tool) } " " code.wrap { (call.summary) } " " (time(call.requested_at)) }
                        } }
                    }
                }
            }
            td { code.wrap { (rule.file) ":" (rule.line) } }
        }
    }
}

fn tools(policy: &PolicyDetail) -> Markup {
    html! {
        details {
            summary { (policy.tools.len()) " tools" }
            div.scroll tabindex="0" role="group" aria-label="Table" { table {
                thead { tr { th { "Tool" } th { "Class" } th { "Longest time" } } }
                tbody { @for tool in &policy.tools {
                    tr { td { code { (tool.tool) } } td { (tool.class.to_lowercase().replace('_', " ")) } td.number { (super::layout::words(tool.timeout_ms)) } }
                } }
            } }
        }
    }
}

/// The form that asks how a call is decided.
fn question(context: &Context<'_>, project: &str, args: &str) -> Markup {
    let args = context.field("args").unwrap_or(args);
    html! {
        section.card {
            h2 { "Explain a call" }
            form.stack method="get" action="/policy/explain" {
                input type="hidden" name="project" value=(project);
                div.columns {
                    label { "Tool" input type="text" name="tool" value=[context.field("tool")] placeholder="shell/run" maxlength="200"; }
                    label { "or the id of a call" input type="text" name="call" value=[context.field("call")] maxlength="100"; }
                }
                label { "Arguments, as JSON" textarea.code name="args" rows="3" maxlength="20000" placeholder="{\"line\": \"git push\"}" { (args) } }
                div.row { button.primary type="submit" { "Explain" } }
            }
        }
    }
}

fn explain(context: &Context<'_>) -> Result<Answer, Problem> {
    context.require_all()?;
    let project = chosen(context)?;
    let found = policy::explain(context, project)?;
    let judgement = &found.judgement;
    let word = text(judgement, "/verdict");
    let body = html! {
        p.crumbs { a href=(format!("/policy?project={}", encode(project.id()))) { "Policy" } " / explained" }
        h1 { (found.tool) }
        section class=(format!("card {}", colour(word))) role="status" {
            h2 { (verdict(word)) " " (outcome(word)) }
            p { (text(judgement, "/reason")) }
            @if !text(judgement, "/code").is_empty() { p.faint { code { (text(judgement, "/code")) } } }
        }
        (recorded(project.id(), &found))
        (rules(judgement))
        @for (title, pointer) in [("Commands", "/commands"), ("Paths", "/paths"), ("What could not be seen through", "/findings")] {
            @let all = texts(judgement, pointer);
            @if !all.is_empty() { section { h2 { (title) } ul { @for one in all { li { code.wrap { (one) } } } } } }
        }
        section { h2 { "Arguments" } pre tabindex="0" { (pretty(&found.args)) } }
        (question(context, project.id(), &found.args.to_string()))
    };
    Ok(rendered(context, "Explained", "policy", false, body))
}

fn colour(verdict: &str) -> &'static str {
    match verdict {
        "allow" => "good",
        "ask" => "warn",
        _ => "bad",
    }
}

fn outcome(verdict: &str) -> &'static str {
    match verdict {
        "allow" => "It runs without a question.",
        "ask" => "A person is asked, unless a grant covers it.",
        _ => "It does not run.",
    }
}

fn recorded(project: &str, found: &Explanation) -> Markup {
    html! {
        @if let Some(then) = &found.recorded {
            section.card {
                h2 { "When it was made" }
                p { strong { (decision_word(&then.decision)) } " · " (then.reason) }
                p.faint {
                    @if then.same_policy { "The policy was the one of today." } @else { "The policy was another one." }
                    " " a href=(call_address(project, &then.call)) { "The call" }
                }
            }
        }
    }
}

fn rules(judgement: &Value) -> Markup {
    let hits =
        judgement.get("rules").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    html! {
        section {
            h2 { "Rules that match" }
            @if hits.is_empty() { p.faint { "None." } }
            @else {
                div.scroll tabindex="0" role="group" aria-label="Table" { table.stacks {
                    thead { tr { th { "Verdict" } th { "Rule" } th { "Matches" } th { "Stands in" } } }
                    tbody { @for hit in hits {
                        tr {
                            td { (verdict(text(hit, "/verdict"))) }
                            td { strong { (text(hit, "/id")) } div { (text(hit, "/reason")) } }
                            td { code.wrap { (text(hit, "/on")) } }
                            td { code.wrap { (text(hit, "/file")) } }
                        }
                    } }
                } }
            }
        }
    }
}
