//! Reading runs from the journals of projects: lists by pages, newest first, and single runs.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use windlass_journal::{Check, Reader, Runs};
use windlass_kernel::run::{Run, RunName};
use windlass_kernel::{Machine, State, Timestamp, TraceId};
use windlass_store::{Store, TraceFilter, TraceState};
use windlass_views::RunSummary;

use crate::dashboard::Context;
use crate::model::{RunItem, RunState, UnusableProject};
use crate::problem::Problem;
use crate::project::Project;

/// The most runs of one page.
pub const PAGE_MAX: usize = 200;
/// The most runs that are looked through for one page of a search.
const SEARCH_MAX: usize = 400;
/// The traces that are listed at once.
const TRACES: usize = 256;

/// Which runs to list.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Only those of this project.
    pub project: Option<String>,
    /// Only those in this state.
    pub state: Option<String>,
    /// Only those whose name, loop or task has this text.
    pub text: Option<String>,
    /// Only sessions of coding agents.
    pub sessions_only: bool,
    /// Only those that are older than this one.
    pub before: Option<TraceId>,
    /// At most so many.
    pub limit: usize,
}

/// A page of runs.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The runs, newest first.
    pub runs: Vec<RunItem>,
    /// Where the next page begins; `None` if there is no more.
    pub next: Option<TraceId>,
}

/// Lists runs of projects, newest first.
///
/// # Errors
/// [`Problem`] if a journal cannot be read. A damaged run is listed as such.
pub fn list(context: &Context<'_>, wanted: &Wanted, now: Timestamp) -> Result<Page, Problem> {
    let projects = context.usable();
    let chosen = projects
        .iter()
        .filter(|one| wanted.project.as_deref().is_none_or(|wanted| wanted == one.id()));
    let mut sources = Vec::new();
    for project in chosen {
        let store = context.tolerate(project, project.store())?;
        sources.extend(store.map(|store| (project, store)));
    }
    let mut page = Page::default();
    let mut before = wanted.before;
    let mut looked = 0;
    let limit = wanted.limit.clamp(1, PAGE_MAX);
    let kinds = Kinds::of(wanted.state.as_deref());
    loop {
        let mut found = Vec::new();
        for (project, store) in &sources {
            let traces = newest(store.as_ref(), kinds, before, limit + 1);
            let traces = context.tolerate(project, traces)?.into_iter().flatten();
            found.extend(traces.map(|trace| (*project, Arc::clone(store), trace)));
        }
        sources.retain(|(project, _)| context.problem_of(project.id()).is_none());
        found.sort_by_key(|(_, _, trace)| std::cmp::Reverse(trace.head.trace_id));
        let more = found.len() > limit;
        found.truncate(limit);
        for (project, store, trace) in &found {
            if page.runs.len() == limit || looked == SEARCH_MAX {
                page.next = before;
                return Ok(page);
            }
            looked += 1;
            before = Some(trace.head.trace_id);
            let item = item_of(project.id(), store.as_ref(), trace, now);
            let item = context.tolerate(project, item)?;
            page.runs.extend(item.filter(|item| matches(item, wanted)));
        }
        if !more {
            return Ok(page);
        }
    }
}

/// Which runs are listed, as far as the store knows without reading them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kinds {
    /// Those that have not ended.
    Open,
    /// Those that have ended.
    Ended,
    /// All.
    Both,
}

impl Kinds {
    /// Those that can be in a state.
    fn of(state: Option<&str>) -> Self {
        const OPEN: [RunState; 5] = [
            RunState::Running,
            RunState::OnHold,
            RunState::Answered,
            RunState::Interrupted,
            RunState::Open,
        ];
        const ENDED: [RunState; 2] = [RunState::Passed, RunState::Failed];
        let is_among = |states: &[RunState]| states.iter().any(|one| Some(one.as_str()) == state);
        match (is_among(&OPEN), is_among(&ENDED)) {
            (true, _) => Self::Open,
            (_, true) => Self::Ended,
            (false, false) => Self::Both,
        }
    }
}

/// The newest runs of a store that are older than one.
fn newest(
    store: &dyn Store,
    kinds: Kinds,
    before: Option<TraceId>,
    limit: usize,
) -> Result<Vec<TraceState>, Problem> {
    let (open_only, state) = match kinds {
        Kinds::Open => (true, None),
        Kinds::Ended => (false, Some(State::Terminal)),
        Kinds::Both => (false, None),
    };
    let machine = Some(Machine::Run);
    let filter = TraceFilter { open_only, state, machine, before, ..TraceFilter::all(limit) };
    Ok(store.list_traces(&filter)?)
}

fn item_of(
    project: &str,
    store: &dyn Store,
    trace: &TraceState,
    now: Timestamp,
) -> Result<RunItem, Problem> {
    let is_live = store.is_held(trace)?;
    match RunSummary::read(store, &trace.head) {
        Ok(summary) => Ok(RunItem::of(project, &summary, is_live, now)),
        // A damaged run does not hide the others.
        Err(error) if error.is_damage() => Ok(RunItem {
            project: project.to_owned(),
            run: RunName::of(trace.head.trace_id).to_string(),
            loop_id: String::new(),
            task: String::new(),
            state: RunState::Damaged,
            started_at: None,
            ended_at: None,
            phase: None,
            reason: Some(error.code().as_str().to_owned()),
            client: None,
            folder: None,
            hold: None,
            entries: trace.head.sequence_number,
        }),
        Err(error) => Err(error.into()),
    }
}

fn matches(item: &RunItem, wanted: &Wanted) -> bool {
    let state = wanted.state.as_deref().is_none_or(|state| state == item.state.as_str());
    let text = wanted.text.as_deref().is_none_or(|text| {
        let text = text.to_lowercase();
        [&item.run, &item.loop_id, &item.task].iter().any(|one| one.to_lowercase().contains(&text))
    });
    state && text && (item.client.is_some() || !wanted.sessions_only)
}

/// A page of the runs on hold.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct HoldsPage {
    /// The runs, the oldest first.
    pub holds: Vec<RunItem>,
    /// The cursor of the next page; `null` at the end.
    pub next: Option<String>,
    /// The projects that cannot be used; nothing of them is listed.
    pub unusable: Vec<UnusableProject>,
}

/// The runs on hold that began after the one that a cursor names, the oldest first. Only those of the page are read.
///
/// # Errors
/// [`Problem`] if a journal cannot be read.
pub fn waiting(
    context: &Context<'_>,
    now: Timestamp,
    after: Option<TraceId>,
    limit: usize,
) -> Result<HoldsPage, Problem> {
    let projects = context.usable();
    let mut found = Vec::new();
    for project in &projects {
        let held = project.store().and_then(|store| {
            let held = on_hold(store.as_ref(), after)?;
            Ok((store, held))
        });
        let Some((store, held)) = context.tolerate(project, held)? else { continue };
        found.extend(held.into_iter().map(|trace| (project, Arc::clone(&store), trace)));
    }
    found.sort_by_key(|(_, _, trace)| trace.head.trace_id);
    let more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().map(|(_, _, trace)| trace.head.trace_id);
    let mut holds = Vec::new();
    for (project, store, trace) in &found {
        let item = item_of(project.id(), store.as_ref(), trace, now);
        holds.extend(context.tolerate(project, item)?);
    }
    let next = last.filter(|_| more).map(|last| last.to_string());
    Ok(HoldsPage { holds, next, unusable: context.unusable() })
}

/// The runs on hold of a store that began after one.
fn on_hold(store: &dyn Store, after: Option<TraceId>) -> Result<Vec<TraceState>, Problem> {
    let state = Some(State::Checkpoint);
    let mut filter = TraceFilter { state, not_before: after, ..TraceFilter::open(TRACES) };
    let mut found = Vec::new();
    loop {
        let listed = store.list_traces(&filter)?;
        let is_wanted = |trace: &&TraceState| Some(trace.head.trace_id) > after;
        found.extend(listed.iter().filter(is_wanted));
        if listed.len() < TRACES {
            return Ok(found);
        }
        filter.before = listed.last().map(|trace| trace.head.trace_id);
    }
}

/// Reads one run, verified, and whether a process is at work on it.
///
/// # Errors
/// [`Problem`] if there is none, or it fails verification.
pub fn run(project: &dyn Project, name: &str) -> Result<(Run, bool), Problem> {
    let store = project.store()?;
    let trace_id = Runs::new(Arc::clone(&store)).find(name)?;
    let is_live = store.is_held(&store.load_state(trace_id)?)?;
    let run = Reader::state_of(store.as_ref(), trace_id, Check::Verified)?;
    Ok((run, is_live))
}
