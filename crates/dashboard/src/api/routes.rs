//! The routes, and what serves them.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use windlass_kernel::{Code, TraceId};

use super::{Route, get, of_hold, post, schema, to_value};
use crate::access::Role;
use crate::act::{self, Decision, Rollback, SendBack, Way, Why};
use crate::calls;
use crate::dashboard::{Context, now};
use crate::model::{ProjectItem, RunDetail, RunItem, UnusableProject};
use crate::problem::Problem;
use crate::read::{self, HoldsPage, PAGE_MAX, Wanted};
use crate::start::{self, NewRun, StartedRun};
use crate::timeline::{self, Timeline};

/// A page of runs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunsPage {
    /// The runs, newest first.
    pub runs: Vec<RunItem>,
    /// The cursor of the next page; `null` at the end.
    pub next: Option<String>,
    /// The projects that cannot be used; nothing of them is listed.
    pub unusable: Vec<UnusableProject>,
}

pub(super) const CURSOR: (&str, &str) =
    ("cursor", "where the page begins: `next` of the page before");
pub(super) const LIMIT: (&str, &str) =
    ("limit", "at most so many; 50 if it is absent, at most 200");

/// What became of a request that goes on after its answer.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Accepted {
    /// Always true: what is refused is a problem.
    pub accepted: bool,
}

/// The routes of runs, holds and calls.
pub(super) const ROUTES: &[Route] = &[
    get("/api/v1/projects", "The projects", &[], Some(schema::<Vec<ProjectItem>>), projects),
    get(
        "/api/v1/runs",
        "Runs and sessions, newest first",
        &[
            ("project", "only those of this project"),
            ("state", "only those in this state"),
            ("text", "only those whose name, loop or task has this text"),
            CURSOR,
            LIMIT,
        ],
        Some(schema::<RunsPage>),
        runs,
    ),
    post(
        "/api/v1/projects/{project}/runs",
        "Start a run",
        Role::Operator,
        Some(schema::<NewRun>),
        Some(schema::<StartedRun>),
        |context| to_value(&start::start(context, &context.body()?)?),
    ),
    get(
        "/api/v1/projects/{project}/runs/{run}",
        "A run in full",
        &[],
        Some(schema::<RunDetail>),
        run,
    ),
    post(
        "/api/v1/projects/{project}/runs/{run}/resume",
        "Let a run go on",
        Role::Operator,
        None,
        Some(schema::<Accepted>),
        |context| act::resume(context).and_then(|()| accepted()),
    ),
    post(
        "/api/v1/projects/{project}/runs/{run}/stop",
        "Stop a run: one at work ends before its next step, one that waits cannot go on",
        Role::Operator,
        Some(schema::<Why>),
        None,
        |context| act::stop(context, &context.body()?),
    ),
    post(
        "/api/v1/projects/{project}/runs/{run}/clear-stop",
        "Lift the stop of a run",
        Role::Operator,
        None,
        None,
        act::clear_stop,
    ),
    post(
        "/api/v1/projects/{project}/runs/{run}/cancel",
        "Give a run up",
        Role::Operator,
        Some(schema::<Why>),
        None,
        |context| act::cancel(context, &context.body()?),
    ),
    get(
        "/api/v1/projects/{project}/runs/{run}/checkpoints",
        "The checkpoints of a run, oldest first",
        &[],
        None,
        act::checkpoints,
    ),
    get(
        "/api/v1/projects/{project}/runs/{run}/compare",
        "Compare two checkpoints of a run: state, usage, files, hunks",
        &[("from", "the name of the first one"), ("to", "the name of the second one")],
        None,
        act::compare,
    ),
    get(
        "/api/v1/projects/{project}/runs/{run}/rollback",
        "What a rollback to a checkpoint would do",
        &[("checkpoint", "the name of the checkpoint")],
        None,
        act::preview_rollback,
    ),
    post(
        "/api/v1/projects/{project}/runs/{run}/rollback",
        "Roll a run back to a checkpoint: its state and its files together",
        Role::Operator,
        Some(schema::<Rollback>),
        None,
        |context| act::roll_back(context, &context.body()?),
    ),
    get(
        "/api/v1/holds",
        "All runs that wait for a person, the oldest runs first",
        &[CURSOR, LIMIT],
        Some(schema::<HoldsPage>),
        holds,
    ),
    of_hold(get(
        "/api/v1/projects/{project}/holds/{run}",
        "What a hold shows: evidence, call, diff, answers so far",
        &[("since", "also what changed since this `tree`, which an earlier answer had")],
        None,
        |context| match context.field("since") {
            // Any tree can be named, also one that the holder of a link was not shown.
            Some(since) => context.require_all().and_then(|()| act::look(context, Some(since))),
            None => act::look(context, None),
        },
    )),
    of_hold(post(
        "/api/v1/projects/{project}/holds/{run}/approve",
        "Approve what a hold shows; the reason answers a question",
        Role::Approver,
        Some(schema::<Decision>),
        None,
        |context| act::decide(context, Way::Approve, context.body()?),
    )),
    of_hold(post(
        "/api/v1/projects/{project}/holds/{run}/answer",
        "Answer the question of a hold: the reason is the answer",
        Role::Approver,
        Some(schema::<Decision>),
        None,
        |context| act::decide(context, Way::Approve, context.body()?),
    )),
    of_hold(post(
        "/api/v1/projects/{project}/holds/{run}/reject",
        "Reject what a hold shows",
        Role::Approver,
        Some(schema::<Decision>),
        None,
        |context| act::decide(context, Way::Reject, context.body()?),
    )),
    of_hold(post(
        "/api/v1/projects/{project}/holds/{run}/send-back",
        "Send the run back: an earlier phase is done again, and its agent reads the findings",
        Role::Approver,
        Some(schema::<SendBack>),
        None,
        |context| act::send_back(context, context.body()?),
    )),
    get(
        "/api/v1/projects/{project}/runs/{run}/timeline",
        "When a run worked and when it waited, and every agent and program that it started",
        &[],
        Some(schema::<Timeline>),
        |context| {
            context.require_all()?;
            to_value(&timeline::read(context.project()?.as_ref(), context.part("run")?)?)
        },
    ),
    get(
        "/api/v1/projects/{project}/runs/{run}/transcripts/{phase}",
        "What the agents of a phase said and did, in all attempts, line by line",
        &[],
        None,
        act::transcript,
    ),
    get(
        "/api/v1/projects/{project}/calls",
        "Calls, newest first",
        &[("before", "only those older than this call, the last of the page before")],
        None,
        calls::list,
    ),
    get(
        "/api/v1/projects/{project}/calls/{call}",
        "A call in full: request, decision, effect",
        &[],
        None,
        calls::look,
    ),
    post(
        "/api/v1/projects/{project}/calls/{call}/approve",
        "Approve a call that waits: it runs",
        Role::Approver,
        Some(schema::<Decision>),
        None,
        |context| calls::decide(context, Way::Approve, context.body()?),
    ),
    post(
        "/api/v1/projects/{project}/calls/{call}/deny",
        "Deny a call that waits",
        Role::Approver,
        Some(schema::<Decision>),
        None,
        |context| calls::decide(context, Way::Reject, context.body()?),
    ),
    post(
        "/api/v1/projects/{project}/verify",
        "Verify the whole journal",
        Role::Viewer,
        None,
        None,
        act::verify,
    ),
];

/// The answer to a request that goes on.
pub(super) fn accepted() -> Result<Value, Problem> {
    to_value(&Accepted { accepted: true })
}

fn projects(context: &Context<'_>) -> Result<Value, Problem> {
    context.require_all()?;
    let all = context.projects.iter();
    let items = all.map(|one| ProjectItem {
        id: one.id().to_owned(),
        name: one.name().to_owned(),
        unusable: one.ready().err().map(|problem| UnusableProject::of(one.as_ref(), &problem)),
    });
    to_value(&items.collect::<Vec<_>>())
}

/// Which runs a request asks for.
///
/// # Errors
/// [`Problem`] for a wrong cursor or limit.
pub(crate) fn wanted(context: &Context<'_>) -> Result<Wanted, Problem> {
    let text = |name: &str| context.field(name).map(str::to_owned);
    Ok(Wanted {
        project: text("project"),
        state: text("state"),
        text: text("text"),
        sessions_only: false,
        before: cursor(context)?,
        limit: limit(context)?,
    })
}

/// Where a page begins.
///
/// # Errors
/// [`Problem`] for what is no cursor.
pub(crate) fn cursor(context: &Context<'_>) -> Result<Option<TraceId>, Problem> {
    let invalid = |_| Problem::new(Code::RequestInvalid, "`cursor`: it is not one of this server");
    context.field("cursor").map(|cursor| cursor.parse().map_err(invalid)).transpose()
}

/// How many a page has.
fn limit(context: &Context<'_>) -> Result<usize, Problem> {
    match context.field("limit").map(str::parse::<usize>) {
        None => Ok(50),
        Some(Ok(limit)) if (1..=PAGE_MAX).contains(&limit) => Ok(limit),
        Some(Ok(_) | Err(_)) => {
            let message = format!("`limit`: it is a number from 1 to {PAGE_MAX}");
            Err(Problem::new(Code::RequestInvalid, message))
        }
    }
}

fn runs(context: &Context<'_>) -> Result<Value, Problem> {
    context.require_all()?;
    let page = read::list(context, &wanted(context)?, now())?;
    let next = page.next.map(|next| next.to_string());
    to_value(&RunsPage { runs: page.runs, next, unusable: context.unusable() })
}

fn run(context: &Context<'_>) -> Result<Value, Problem> {
    context.require_all()?;
    let (project, name) = (context.project()?, context.part("run")?);
    let (run, is_live) = read::run(project.as_ref(), name)?;
    to_value(&RunDetail::of(project.id(), &run, is_live, now()))
}

fn holds(context: &Context<'_>) -> Result<Value, Problem> {
    context.require_all()?;
    let page = read::waiting(context, now(), cursor(context)?, limit(context)?)?;
    to_value(&page)
}
