//! One call: what was asked, what was decided and why, what became of it.

use maud::{Markup, html};
use serde_json::Value;
use windlass_kernel::run::RunName;
use windlass_kernel::{TraceId, Uuid7};

use super::Answer;
use super::examined::examined;
use super::hold::effects;
use super::key;
use super::layout::{Page, encode, hold_address};
use super::parts::{escaped, pretty};
use crate::access::Role;
use crate::calls;
use crate::dashboard::Context;
use crate::problem::Problem;

/// The address of a call.
pub(super) fn call_address(project: &str, call: &str) -> String {
    format!("/calls/{}/{}", encode(project), encode(call))
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn show(context: &Context<'_>) -> Result<Answer, Problem> {
    let call = calls::look(context)?;
    let title = text(&call, "/tool");
    let args = call.pointer("/request/proposal/args").unwrap_or(&Value::Null);
    let hold = call.get("hold").filter(|hold| !hold.is_null());
    let project = context.part("project")?;
    let is_of_client = call.get("made_by_client") == Some(&Value::Bool(true));
    let run = hold.and_then(|hold| hold.pointer("/view/run")?.as_str()?.parse::<Uuid7>().ok());
    let run = match run.map(TraceId) {
        Some(run) if calls::is_answered_by(context.project()?.store()?.as_ref(), run)? => Some(run),
        Some(_) | None => None,
    };
    let run = run.map(|run| RunName::of(run).to_string());
    let body = html! {
        @if hold.is_some() {
            p #moved .banner role="status" hidden { "Something has happened to this call since this page was loaded. " a href=(call_address(project, context.part("call")?)) { "Load it again" } " before you decide." }
        }
        p.crumbs { "Call " code { (text(&call, "/trace_id")) } }
        h1 { (title) }
        div.row {
            span class=(format!("badge call-{}", text(&call, "/state"))) { (text(&call, "/state").to_lowercase()) }
            @if !text(&call, "/outcome").is_empty() { span.faint { (text(&call, "/outcome")) } }
            span.faint { (text(&call, "/request/ts")) }
        }
        section {
            h2 { "What was asked" }
            dl.facts {
                (fact("intent", text(&call, "/request/intent")))
                (fact("agent", text(&call, "/request/agent")))
                (fact("phase", text(&call, "/request/phase")))
                (fact("risk", text(&call, "/request/risk_level")))
                (fact("key", text(&call, "/idempotency_key")))
            }
            pre { (pretty(args)) }
            @if let Some(edited) = call.get("edited_args").filter(|args| !args.is_null()) {
                p { strong { "It was approved with these arguments instead:" } }
                pre { (pretty(edited)) }
            }
        }
        @if let Some(hold) = hold {
            section.card.warn {
                h2 { "It waits for a person" }
                p { (text(hold, "/reason")) }
                @if let Some(view) = hold.get("view") { (examined(view)) }
            }
            @if let Some(run) = run {
                p.card { "It is answered through its run. " a.button.primary href=(hold_address(project, &run)) { "Look and decide" } }
            } @else if context.visitor.role >= Role::Approver {
                (forms(context, hold, args, is_of_client)?)
                (grant_link(context, title, args, ""))
            }
        }
        @if let Some(decision) = call.get("decision").filter(|decision| !decision.is_null()) {
            section {
                h2 { "What was decided" }
                p { strong { (text(decision, "/decision")) } " · " (text(decision, "/rationale")) }
                p.faint { "by " (decider(decision)) }
            }
        }
        @if let Some(result) = call.get("result").filter(|result| !result.is_null()) {
            section { h2 { "What became of it" } pre { (pretty(result)) } }
        }
        @if let Some(error) = call.get("error").filter(|error| !error.is_null()) {
            section { h2 { "Why it failed" } pre { (pretty(error)) } }
        }
    };
    let live_after = hold.map(|_| context.newest_event);
    let page = Page { title, at: "inbox", visitor: Some(context.visitor), live_after, body };
    Ok(Answer::Page(page.render()))
}

/// Who decided: people by their names, a grant with its giver, or the rules of the policy.
fn decider(decision: &Value) -> String {
    let name = text(decision, "/decided_by/decider/name");
    let people = list(decision, "/decided_by/decider/names");
    let grant = text(decision, "/decided_by/grant");
    match (name, people.is_empty(), grant) {
        ("", true, "") => {
            let rules = list(decision, "/decided_by/rules").join(", ");
            format!("the policy: {rules}").trim_end_matches([':', ' ']).to_owned()
        }
        ("", true, grant) => {
            format!("{}, by the grant {grant}", text(decision, "/decided_by/name"))
        }
        ("", false, _) => people.join(", "),
        (name, ..) => name.to_owned(),
    }
}

fn list(value: &Value, pointer: &str) -> Vec<String> {
    let items = value.pointer(pointer).and_then(Value::as_array);
    let text = |item: &Value| item.as_str().map_or_else(|| item.to_string(), str::to_owned);
    items.map(|items| items.iter().map(text).collect()).unwrap_or_default()
}

fn fact(name: &str, value: &str) -> Markup {
    html! { @if !value.is_empty() { dt { (name) } dd { (value) } } }
}

/// A link to the form that grants calls like this one.
pub(super) fn grant_link(context: &Context<'_>, tool: &str, args: &Value, run: &str) -> Markup {
    let field = |name: &str| args.get(name).and_then(Value::as_str).unwrap_or_default();
    let fields = [
        ("project", context.part("project").unwrap_or_default()),
        ("tool", tool),
        ("command", field("line")),
        ("path", field("path")),
        ("run", run),
    ];
    let fields: Vec<String> = fields
        .into_iter()
        .filter(|(_, value)| !value.is_empty() && value.len() <= 1000)
        .map(|(name, value)| format!("{name}={}", encode(value)))
        .collect();
    html! { p { a href=(format!("/grants?{}#give", fields.join("&"))) { "Grant calls like this one" } } }
}

fn forms(
    context: &Context<'_>,
    hold: &Value,
    args: &Value,
    is_of_client: bool,
) -> Result<Markup, Problem> {
    if let Some(missing) = key::missing(context) {
        return Ok(missing);
    }
    let address = call_address(context.project()?.id(), context.part("call")?);
    let shown = text(hold, "/view/shown");
    let common = html! {
        input type="hidden" name="shown" value=(shown);
        (key::fields(context))
    };
    if text(hold, "/question") == "did_it_run" {
        return Ok(html! {
            section #decide {
                form.card.stack method="post" action=(format!("{address}/approve")) {
                    label { "How you know" textarea name="reason" rows="2" required maxlength="4000" {} }
                    (effects(hold.pointer("/view/run").is_none_or(Value::is_null)))
                    (common)
                    div.row { button.primary type="submit" { "Record it" } }
                }
            }
        });
    }
    Ok(html! {
        section #decide {
            p.faint { "You decide as " strong { (context.visitor.name) } ", about exactly what is shown here: " code.wrap { (shown) } }
            div.columns {
                form.card.stack method="post" action=(format!("{address}/approve")) {
                    label { "Why it may run" textarea name="reason" rows="2" required maxlength="4000" {} }
                    details { summary { "Edit the call before you approve it" }
                        label { "Arguments" textarea.code name="arguments" rows="8" maxlength="100000" { (pretty(args)) } }
                        input type="hidden" name="asked" value=(escaped(&args.to_string())); }
                    (common)
                    @if is_of_client { p.faint { "The agent makes this call itself: it is let through once, when the agent tries it again." } }
                    div.row { button.good type="submit" { @if is_of_client { "Approve" } @else { "Approve: it runs now" } } }
                }
                form.card.stack method="post" action=(format!("{address}/deny")) {
                    label { "Why not" textarea name="reason" rows="2" required maxlength="4000" {} }
                    (common)
                    div.row { button.bad type="submit" { "Deny" } }
                }
            }
        }
    })
}
