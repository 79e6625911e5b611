//! Several decisions at once, with one reason. Each names what was shown, and each is a decision of its own.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::Value;

use super::Answer;
use super::layout::{Page, hold_address};
use crate::access::Role;
use crate::act::{self, Decision, Way};
use crate::dashboard::Context;
use crate::problem::Problem;

/// The most that are decided at once.
const HOLDS_MAX: usize = 50;

/// The form below the inbox; its checkboxes are in the list.
pub(super) fn form(context: &Context<'_>) -> Markup {
    html! {
        form #several .card.stack method="post" action="/inbox" {
            h2 { "Decide about all that you chose" }
            label { "Why" input type="text" name="reason" required maxlength="4000"; }
            (super::key::fields(context))
            @if context.visitor.role >= Role::Operator {
                label.check { input type="checkbox" name="resume" value="yes" checked; "then let the runs go on" }
            }
            div.row {
                button.good type="submit" name="way" value="approve" { "Approve all of them" }
                button.bad type="submit" name="way" value="reject" { "Reject all of them" }
            }
        }
    }
}

/// Decides about each, and tells what became of each.
pub(super) fn decide(context: &Context<'_>) -> Result<Answer, Problem> {
    context.require_all()?;
    let invalid = |message: &str| Problem::new(windlass_kernel::Code::RequestInvalid, message);
    let way = match context.field("way") {
        Some("approve") => Way::Approve,
        Some("reject") => Way::Reject,
        Some(_) | None => return Err(invalid("`way` is `approve` or `reject`")),
    };
    let chosen = super::lines(context.field("hold"));
    if chosen.is_empty() {
        return Err(invalid("nothing was chosen").hint("go back and choose what you decide about"));
    }
    if chosen.len() > HOLDS_MAX {
        return Err(invalid("too many were chosen").hint("decide about at most 50 at once"));
    }
    let mut choices = Vec::new();
    for one in &chosen {
        let parts: Vec<&str> = one.split(' ').collect();
        let [project, run, shown] = parts.as_slice() else {
            return Err(invalid("a choice names a project, a run and a digest"));
        };
        choices.push((*project, *run, *shown));
    }
    let decided: Vec<_> = choices
        .into_iter()
        .map(|(project, run, shown)| {
            let path = path_of(project, run);
            (project, run, decide_one(&at(context, &path), shown, way))
        })
        .collect();
    // Each run is watched for a moment after its start: all of them at once.
    let told: Vec<_> = std::thread::scope(|scope| {
        let resumed = decided.into_iter().map(|(project, run, decided)| {
            let go_on = move || {
                let path = path_of(project, run);
                decided.map(|decided| super::resume_if_wanted(&at(context, &path), &decided).err())
            };
            (project, run, scope.spawn(go_on))
        });
        let resumed: Vec<_> = resumed.collect();
        let lost = || Problem::new(windlass_kernel::Code::Internal, "it could not go on");
        let failed = |_| Ok(Some(lost()));
        let ended = resumed
            .into_iter()
            .map(|(project, run, thread)| (project, run, thread.join().unwrap_or_else(failed)));
        ended.collect()
    });
    let done = told.iter().filter(|(_, _, result)| result.is_ok()).count();
    // A page that is loaded again sends nothing again.
    if told.iter().all(|(_, _, result)| matches!(result, Ok(None))) {
        return Ok(Answer::GoTo(format!("/?decided={done}")));
    }
    let body = html! {
        h1 { (done) " of " (told.len()) " decided" }
        ul.cards { @for (project, run, result) in &told {
            @let (is_good, is_bad) = (matches!(result, Ok(None)), result.is_err());
            li.card.good[is_good].bad[is_bad].warn[!is_good && !is_bad] {
                a href=(hold_address(project, run)) { code { (run) } }
                @match result {
                    Ok(None) => p { "decided" },
                    Ok(Some(problem)) => p { (problem.message) " " code { (problem.code) } },
                    Err(problem) => p { (problem.message) " " code { (problem.code) } },
                }
            }
        } }
        p { a.button href="/" { "Back to the inbox" } }
    };
    let page = Page {
        title: "Decided",
        at: "inbox",
        visitor: Some(context.visitor),
        live_after: None,
        body,
    };
    Ok(Answer::Page(page.render()))
}

fn path_of(project: &str, run: &str) -> BTreeMap<String, String> {
    let parts = [("project", project), ("run", run)];
    parts.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The request as if it were about one run.
const fn at<'a>(context: &Context<'a>, path: &'a BTreeMap<String, String>) -> Context<'a> {
    Context { path, ..*context }
}

fn decide_one(context: &Context<'_>, shown: &str, way: Way) -> Result<Value, Problem> {
    let field = |name: &str| context.field(name).map(str::to_owned);
    let decision = Decision {
        shown: shown.to_owned(),
        reason: field("reason").unwrap_or_default(),
        passphrase: field("passphrase"),
        ..Decision::default()
    };
    act::decide(context, way, decision)
}
