//! Routes of what can be looked at besides runs: calls, traces, sessions, policy, grants, backlog, spend.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::routes::{CURSOR, LIMIT};
use super::{Route, get, kept, post, schema, to_value};
use crate::access::Role;
use crate::backlog::{self, BacklogItem, StartTask};
use crate::call_list::{self, CallFilter, CallsPage};
use crate::dashboard::{Context, now};
use crate::entries::{self, EntriesPage, EntryDetail, TraceItem, TracesPage};
use crate::grants::{self, GrantItem, GrantsPage, NewGrant, Revocation};
use crate::model::{PhaseItem, RunDetail};
use crate::paging::Paging;
use crate::policy::{self, Explanation, PolicyDetail};
use crate::problem::Problem;
use crate::read;
use crate::sessions::{self, SessionDetail, SessionsPage};
use crate::spend::{self, Spend};
use crate::start::StartedRun;

/// The fields of pages.
const PROJECT: (&str, &str) = ("project", "only those of this project");
const TOOL: (&str, &str) = ("tool", "only those of tools whose names have this text");
const STATE: (&str, &str) = (
    "state",
    "only those in this state: pending, authorized, executing, completed, failed or denied",
);
const DECISION: (&str, &str) =
    ("decision", "only those whose newest decision is this: approve, deny or needs_approval");
const RULE: (&str, &str) = ("rule", "only those that this rule matched");
const RUN: (&str, &str) = ("run", "only those of this run or session");
const AFTER: (&str, &str) = ("after", "the number of the entry after which the page begins");
const ENTRIES: (&str, &str) = ("limit", "at most so many; 100 if it is absent, at most 500");

/// The backlog of a project.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BacklogAnswer {
    /// The tasks, in the order of their lines; `null` if there is no backlog.
    pub items: Option<Vec<BacklogItem>>,
}

/// The routes.
pub(super) const ROUTES: &[Route] = &[
    get(
        "/api/v1/calls",
        "Calls, newest first. A page may have fewer than there are: go on as long as `next` is not null",
        &[PROJECT, TOOL, STATE, DECISION, RULE, RUN, CURSOR, LIMIT],
        Some(schema::<CallsPage>),
        calls,
    ),
    get(
        "/api/v1/sessions",
        "Guarded sessions of coding agents, newest first",
        &[
            PROJECT,
            ("state", "only those in this state"),
            ("text", "only those whose name has this text"),
            CURSOR,
            LIMIT,
        ],
        Some(schema::<SessionsPage>),
        |context| to_value(&sessions::list(context)?),
    ),
    get(
        "/api/v1/projects/{project}/sessions/{session}",
        "A session in full: what was entered, what else happened, and a page of its calls",
        &[TOOL, STATE, DECISION, RULE, CURSOR, LIMIT],
        Some(schema::<SessionDetail>),
        |context| to_value(&sessions::one(context)?),
    ),
    get(
        "/api/v1/projects/{project}/runs/{run}/phases",
        "The phases of a run, in the order of its plan",
        &[],
        Some(schema::<Vec<PhaseItem>>),
        |context| to_value(&phases(context)?),
    ),
    get(
        "/api/v1/projects/{project}/runs/{run}/phases/{phase}",
        "A phase of a run",
        &[],
        Some(schema::<PhaseItem>),
        phase,
    ),
    get(
        "/api/v1/projects/{project}/runs/{run}/entries",
        "The entries of a run, oldest first, with the state of their chain",
        &[AFTER, ENTRIES],
        Some(schema::<EntriesPage>),
        |context| to_value(&entries::list(context, context.part("run")?)?),
    ),
    get(
        "/api/v1/projects/{project}/traces",
        "Traces, newest first: runs, calls and grants",
        &[CURSOR, LIMIT],
        Some(schema::<TracesPage>),
        |context| to_value(&entries::traces(context)?),
    ),
    get(
        "/api/v1/projects/{project}/traces/{trace}",
        "A trace, by its id or the name of its run",
        &[],
        Some(schema::<TraceItem>),
        |context| to_value(&entries::trace(context)?),
    ),
    get(
        "/api/v1/projects/{project}/traces/{trace}/entries",
        "The entries of a trace, oldest first, with the state of their chain",
        &[AFTER, ENTRIES],
        Some(schema::<EntriesPage>),
        |context| to_value(&entries::list(context, context.part("trace")?)?),
    ),
    kept(get(
        "/api/v1/projects/{project}/traces/{trace}/entries/{number}",
        "An entry in full, with its artifact. It never changes, unless its artifact is deleted",
        &[],
        Some(schema::<EntryDetail>),
        |context| to_value(&entries::one(context, context.part("trace")?)?),
    )),
    post(
        "/api/v1/projects/{project}/traces/{trace}/verify",
        "Verify a trace: every digest, every link, its recorded head",
        Role::Viewer,
        None,
        None,
        verify,
    ),
    get(
        "/api/v1/projects/{project}/grants",
        "Grants that can be used, newest first",
        &[
            (
                "all",
                "`yes`: also those that were revoked, are used up, have expired, or whose giver's key was revoked",
            ),
            CURSOR,
            LIMIT,
        ],
        Some(schema::<GrantsPage>),
        grants,
    ),
    post(
        "/api/v1/projects/{project}/grants",
        "Give a grant, signed for you",
        Role::Approver,
        Some(schema::<NewGrant>),
        None,
        |context| grants::give(context, context.body()?),
    ),
    get(
        "/api/v1/projects/{project}/grants/{grant}",
        "A grant with its uses",
        &[],
        Some(schema::<GrantItem>),
        |context| to_value(&grants::one(context)?),
    ),
    post(
        "/api/v1/projects/{project}/grants/{grant}/revoke",
        "Revoke a grant, signed for you",
        Role::Approver,
        Some(schema::<Revocation>),
        None,
        |context| grants::revoke(context, context.body()?),
    ),
    get(
        "/api/v1/projects/{project}/policy",
        "The rules of the policy, with what each decided lately, and the tools",
        &[],
        Some(schema::<PolicyDetail>),
        |context| to_value(&policy::look(context, context.project()?)?),
    ),
    get(
        "/api/v1/projects/{project}/policy/explain",
        "How a call is decided, and why",
        &[
            ("call", "the id of a call of the journal"),
            ("tool", "or the tool, as `server/tool`"),
            ("args", "its arguments, one JSON object"),
            ("agent", "the agent that asks"),
            ("phase", "the phase that it works in"),
        ],
        Some(schema::<Explanation>),
        |context| to_value(&policy::explain(context, context.project()?)?),
    ),
    get(
        "/api/v1/projects/{project}/backlog",
        "The tasks of the backlog",
        &[],
        Some(schema::<BacklogAnswer>),
        |context| {
            let items = backlog::list(context, context.project()?.as_ref())?;
            to_value(&BacklogAnswer { items })
        },
    ),
    post(
        "/api/v1/projects/{project}/backlog/start",
        "Start a task of the backlog",
        Role::Operator,
        Some(schema::<StartTask>),
        Some(schema::<StartedRun>),
        |context| to_value(&backlog::start(context, &context.body()?)?),
    ),
    get(
        "/api/v1/spend",
        "What runs have used, by day, run, agent and model",
        &[PROJECT, ("days", "the last 1, 7, 30 or 90 days; 30 if it is absent")],
        Some(schema::<Spend>),
        |context| to_value(&spend::report(context)?),
    ),
];

fn calls(context: &Context<'_>) -> Result<Value, Problem> {
    context.require_all()?;
    let page = call_list::list(context, &CallFilter::of(context)?, Paging::of(context)?)?;
    let next = page.next.map(|next| next.to_string());
    to_value(&CallsPage { calls: page.items, next, unusable: context.unusable() })
}

fn phases(context: &Context<'_>) -> Result<Vec<PhaseItem>, Problem> {
    context.require_all()?;
    let (project, name) = (context.project()?, context.part("run")?);
    let (run, is_live) = read::run(project.as_ref(), name)?;
    Ok(RunDetail::of(project.id(), &run, is_live, now()).phases)
}

fn phase(context: &Context<'_>) -> Result<Value, Problem> {
    let id = context.part("phase")?;
    let found = phases(context)?.into_iter().find(|phase| phase.id == id);
    let missing = || {
        let name = crate::dashboard::shown(id);
        Problem::not_found(format!("the run has no phase `{name}`"))
    };
    to_value(&found.ok_or_else(missing)?)
}

fn verify(context: &Context<'_>) -> Result<Value, Problem> {
    entries::verify(context, context.part("trace")?)
}

fn grants(context: &Context<'_>) -> Result<Value, Problem> {
    context.require_all()?;
    let all = context.field("all").is_some();
    // What cannot be read of the one project that is asked about is no empty list.
    let project = context.project()?;
    let page = grants::list(context, &[project], all, Paging::of(context)?)?;
    if let Some(problem) = context.problem_of(project.id()) {
        return Err(problem);
    }
    to_value(&GrantsPage { grants: page.items, next: page.next.map(|next| next.to_string()) })
}
