//! The pages. They are whole without scripts; a small script keeps them up to date.

mod backlog;
mod call;
mod call_list;
mod chart;
mod checkpoints;
mod diff;
mod enter;
mod entries;
mod examined;
mod grants;
mod graph;
mod health;
mod hold;
mod inbox;
mod key;
mod layout;
mod notifications;
mod parts;
mod policy;
mod run;
mod runs;
mod sessions;
mod several;
mod spend;
mod transcript;
mod waterfall;

use axum::http::StatusCode;
use serde_json::Value;

use crate::access::{Role, Visitor};
use crate::act::{self, Decision, EffectAnswer, Rollback, SendBack, Way, Why};
use crate::api::Method;
use crate::calls;
use crate::dashboard::{Context, LinkUse};
use crate::problem::Problem;
use crate::read;
use crate::start::{self, NewRun, StartedRun};
use layout::{Refused, run_address};

pub(crate) use enter::{enter, leave};
pub(crate) use layout::encode;

/// What a page answers.
pub(crate) enum Answer {
    /// A page.
    Page(String),
    /// Another page is to be shown.
    GoTo(String),
}

/// A page.
pub(crate) struct PageRoute {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) role: Role,
    pub(crate) by_link: LinkUse,
    pub(crate) serve: fn(&Context<'_>) -> Result<Answer, Problem>,
}

const fn page(path: &'static str, serve: fn(&Context<'_>) -> Result<Answer, Problem>) -> PageRoute {
    PageRoute { method: Method::Get, path, role: Role::Viewer, by_link: LinkUse::Refused, serve }
}

const fn form(
    path: &'static str,
    role: Role,
    serve: fn(&Context<'_>) -> Result<Answer, Problem>,
) -> PageRoute {
    PageRoute { method: Method::Post, path, role, by_link: LinkUse::Refused, serve }
}

/// The same page, for operators only.
const fn operators(page: PageRoute) -> PageRoute {
    PageRoute { role: Role::Operator, ..page }
}

/// The same page, which somebody who came for one hold may use for that hold.
const fn of_hold(page: PageRoute) -> PageRoute {
    PageRoute { by_link: LinkUse::OfItsHold, ..page }
}

/// The pages, a table for each file that has its own.
const TABLES: &[&[PageRoute]] = &[
    PAGES,
    backlog::PAGES,
    call_list::PAGES,
    entries::PAGES,
    grants::PAGES,
    notifications::PAGES,
    policy::PAGES,
    sessions::PAGES,
    spend::PAGES,
];

/// All pages.
pub(crate) fn routes() -> impl Iterator<Item = &'static PageRoute> {
    TABLES.iter().flat_map(|table| table.iter())
}

/// The pages of runs, holds and calls.
const PAGES: &[PageRoute] = &[
    page("/", inbox::show),
    page("/runs", runs::show),
    operators(page("/new", runs::new)),
    page("/journal", health::show),
    page("/runs/{project}/{run}", run::show),
    page("/runs/{project}/{run}/transcripts/{phase}", transcript::show),
    page("/runs/{project}/{run}/checkpoints", checkpoints::list),
    page("/runs/{project}/{run}/compare", checkpoints::compare),
    operators(page("/runs/{project}/{run}/rollback", checkpoints::preview)),
    of_hold(page("/holds/{project}/{run}", hold::show)),
    page("/calls/{project}/{call}", call::show),
    form("/calls/{project}/{call}/approve", Role::Approver, |context| {
        decide_call(context, Way::Approve)
    }),
    form("/calls/{project}/{call}/deny", Role::Approver, |context| {
        decide_call(context, Way::Reject)
    }),
    form("/new/{project}", Role::Operator, |context| {
        let field = |name: &str| context.field(name).map(str::to_owned);
        let new = NewRun {
            task: field("task").unwrap_or_default(),
            loop_id: field("loop"),
            agent: field("agent"),
            worktree: field("worktree").is_some(),
            once: field("once"),
        };
        started(context, &start::start(context, &new)?)
    }),
    of_hold(form("/holds/{project}/{run}/approve", Role::Approver, |context| {
        decide(context, Way::Approve)
    })),
    of_hold(form("/holds/{project}/{run}/reject", Role::Approver, |context| {
        decide(context, Way::Reject)
    })),
    of_hold(form("/holds/{project}/{run}/answer", Role::Approver, |context| {
        decide(context, Way::Approve)
    })),
    of_hold(form("/holds/{project}/{run}/send-back", Role::Approver, |context| {
        let field = |name: &str| context.field(name).map(str::to_owned);
        let back = SendBack {
            shown: field("shown").unwrap_or_default(),
            reason: field("reason").unwrap_or_default(),
            findings: lines(context.field("findings")),
            to: field("to"),
            passphrase: field("passphrase"),
        };
        let decided = act::send_back(context, back)?;
        resume_if_wanted(context, &decided)?;
        Ok(after_decision(context))
    })),
    form("/inbox", Role::Approver, several::decide),
    form("/runs/{project}/{run}/rollback", Role::Operator, |context| {
        let rollback = Rollback {
            checkpoint: context.field("checkpoint").unwrap_or_default().to_owned(),
            reason: context.field("reason").unwrap_or_default().to_owned(),
            force: context.field("force").is_some(),
        };
        act::roll_back(context, &rollback)?;
        Ok(to_run(context))
    }),
    form("/verify/{project}", Role::Viewer, health::verify),
    form("/runs/{project}/{run}/resume", Role::Operator, |context| {
        act::resume(context)?;
        Ok(to_run(context))
    }),
    form("/runs/{project}/{run}/stop", Role::Operator, |context| {
        let reason = context.field("reason").unwrap_or_default().to_owned();
        act::stop(context, &Why { reason })?;
        Ok(to_run(context))
    }),
    form("/runs/{project}/{run}/clear-stop", Role::Operator, |context| {
        act::clear_stop(context)?;
        Ok(to_run(context))
    }),
    form("/runs/{project}/{run}/cancel", Role::Operator, |context| {
        let reason = context.field("reason").unwrap_or_default().to_owned();
        act::cancel(context, &Why { reason })?;
        Ok(to_run(context))
    }),
];

/// The files of the pages: path, type, content.
pub(crate) const ASSETS: &[(&str, &str, &[u8])] = &[
    ("/assets/style.css", "text/css; charset=utf-8", include_bytes!("../../assets/style.css")),
    ("/assets/live.js", "text/javascript; charset=utf-8", include_bytes!("../../assets/live.js")),
    (
        "/assets/comment.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../../assets/comment.js"),
    ),
    ("/assets/icon.svg", "image/svg+xml", include_bytes!("../../assets/icon.svg")),
    (
        "/assets/manifest.webmanifest",
        "application/manifest+json",
        include_bytes!("../../assets/manifest.webmanifest"),
    ),
];

/// The decision that a form has.
fn decision(context: &Context<'_>) -> Result<Decision, Problem> {
    let field = |name: &str| context.field(name).map(str::to_owned);
    Ok(Decision {
        effect: context.field("effect").map(EffectAnswer::named).transpose()?,
        shown: field("shown").unwrap_or_default(),
        reason: field("reason").unwrap_or_default(),
        conditions: lines(context.field("conditions")),
        arguments: field("arguments")
            .filter(|edited| !is_same_json(edited, context.field("asked"))),
        passphrase: field("passphrase"),
    })
}

/// Leads to a run that was started, or to all of them if it is not recorded yet.
fn started(context: &Context<'_>, started: &StartedRun) -> Result<Answer, Problem> {
    let run = || Ok::<_, Problem>(run_address(context.project()?.id(), &started.run));
    Ok(Answer::GoTo(if started.recorded { run()? } else { "/runs".to_owned() }))
}

/// Whether the arguments of a call are those that it was asked with.
fn is_same_json(edited: &str, asked: Option<&str>) -> bool {
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    asked.and_then(read).is_some_and(|asked| read(edited) == Some(asked))
}

/// The lines of a field that are not empty.
fn lines(text: Option<&str>) -> Vec<String> {
    let lines = text.unwrap_or_default().lines().map(str::trim);
    lines.filter(|one| !one.is_empty()).map(str::to_owned).collect()
}

fn decide(context: &Context<'_>, way: Way) -> Result<Answer, Problem> {
    let decided = act::decide(context, way, decision(context)?)?;
    resume_if_wanted(context, &decided)?;
    Ok(after_decision(context))
}

/// Lets a run go on that was decided about, if the form says so.
fn resume_if_wanted(context: &Context<'_>, decided: &Value) -> Result<(), Problem> {
    let may_resume = context.visitor.role >= Role::Operator && context.require_all().is_ok();
    let resumes = context.field("resume").is_some() && may_resume;
    // A rejection may end the run, and some decisions need more people.
    let is_over = decided.get("outcome").is_some_and(|outcome| !outcome.is_null());
    let is_resolved = decided.pointer("/hold/resolution").is_some_and(|word| !word.is_null());
    if !resumes || !is_resolved || is_over {
        return Ok(());
    }
    let Err(problem) = act::resume(context) else { return Ok(()) };
    // Somebody else may have let it go on, such as `serve --work`.
    let (run, is_live) = read::run(context.project()?.as_ref(), context.part("run")?)?;
    if is_live || run.hold.is_none() || run.ended.is_some() {
        return Ok(());
    }
    let message =
        format!("your decision is recorded, but the run does not go on: {}", problem.message);
    Err(Problem { message, ..problem })
}

fn decide_call(context: &Context<'_>, way: Way) -> Result<Answer, Problem> {
    calls::decide(context, way, decision(context)?)?;
    Ok(Answer::GoTo(call::call_address(context.part("project")?, context.part("call")?)))
}

/// Where somebody goes who has decided: to the run, or to what the link was for.
fn after_decision(context: &Context<'_>) -> Answer {
    match context.require_all() {
        Ok(()) => to_run(context),
        Err(_) => Answer::GoTo(address("holds", context)),
    }
}

fn to_run(context: &Context<'_>) -> Answer {
    Answer::GoTo(address("runs", context))
}

fn address(kind: &str, context: &Context<'_>) -> String {
    let part = |name: &str| context.part(name).map(layout::encode).unwrap_or_default();
    format!("/{kind}/{}/{}", part("project"), part("run"))
}

/// The page of a problem.
pub(crate) fn problem(problem: &Problem, visitor: Option<&Visitor>) -> String {
    layout::problem(problem, visitor, &Refused::default())
}

/// The page of a problem with a request for a page: it leads back, and keeps what was typed in.
pub(crate) fn refused(problem: &Problem, page: &PageRoute, context: &Context<'_>) -> String {
    let is_form = page.method == Method::Post;
    let part = |name: &str| context.part(name).ok();
    let back = match (part("run"), part("call")) {
        (Some(_), _) if page.path.starts_with("/holds/") => Some(address("holds", context)),
        (Some(_), _) => Some(address("runs", context)),
        (None, Some(call)) => Some(call::call_address(part("project").unwrap_or_default(), call)),
        (None, None) => is_form.then(|| "/".to_owned()),
    };
    // Such as a run that does not exist: its own page leads nowhere.
    let is_itself = page.path.split('/').filter(|part| !part.is_empty()).count() == 3 && !is_form;
    let texts = TYPED.iter().filter_map(|name| Some((*name, context.field(name)?)));
    let written = texts.filter(|(_, text)| is_form && !text.trim().is_empty()).collect();
    // What is damaged is shown entry by entry.
    let entries = (page.path == "/runs/{project}/{run}" && problem.status == StatusCode::CONFLICT)
        .then(|| format!("{}/entries", address("runs", context)));
    let refused = Refused { back: entries.or(back.filter(|_| !is_itself)), written };
    layout::problem(problem, Some(context.visitor), &refused)
}

/// The fields into which people write.
const TYPED: [&str; 5] = ["task", "reason", "findings", "conditions", "arguments"];
