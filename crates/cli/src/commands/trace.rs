//! `windlass trace`, and the listing shared with `windlass call list`.

use serde_json::{Value, json};
use windlass_kernel::artifact::CLIENT_WORKSPACE;
use windlass_kernel::run::RunName;
use windlass_kernel::{Code, ExecutionState, Machine, State, TraceId};
use windlass_store::{Record, Store, TraceFilter, TraceState};

use crate::args::{CallList, Trace};
use crate::commands::{trace_id, trace_telemetry};
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, Style, sanitize};
use crate::project::Project;

/// The page size for entries.
const PAGE: usize = 1000;

/// Runs a subcommand of `trace`.
pub fn run(project: &Project, command: &Trace, output: &Output) -> CommandResult {
    match command {
        Trace::List(options) => list(project, options, None, output),
        Trace::Show { id, telemetry: true } => {
            trace_telemetry::show(project, trace_or_run(project, id)?, output)
        }
        Trace::Show { id, telemetry: false } => show(project, trace_or_run(project, id)?, output),
        Trace::Log { id, artifacts, after } => {
            log(project, trace_or_run(project, id)?, *artifacts, *after, output)
        }
    }
}

/// The trace with an id, or of the run with a name.
fn trace_or_run(project: &Project, text: &str) -> Result<TraceId, Failure> {
    match text.parse::<RunName>() {
        Ok(_) => Ok(project.runs()?.find(text)?),
        Err(_) => trace_id(text),
    }
}

fn open(project: &Project) -> Result<impl Store, Failure> {
    project.store_to_read(&project.settings()?)
}

/// Lists traces, or only those of one kind.
pub fn list(
    project: &Project,
    options: &CallList,
    only: Option<Machine>,
    output: &Output,
) -> CommandResult {
    let store = open(project)?;
    let state: Option<State> = match &options.state {
        Some(name) => {
            Some(name.to_uppercase().parse().map_err(|_: windlass_kernel::UnknownName| {
                Failure::new(Code::RequestInvalid, format!("`{name}` is not a state"))
                    .hint("a call is PENDING, AUTHORIZED, EXECUTING, COMPLETED, FAILED or DENIED")
            })?)
        }
        None => None,
    };
    let mut filter = TraceFilter {
        open_only: options.open || options.held,
        state,
        before: options.before.as_deref().map(trace_id).transpose()?,
        // One more than is listed, to know whether there are more.
        limit: options.limit.saturating_add(1).min(100_000),
    };
    let mut rows = Vec::new();
    let mut more = false;
    loop {
        let page = store.list_traces(&filter)?;
        let full = page.len() == filter.limit;
        filter.before = page.last().map(|state| state.head.trace_id);
        for state in page {
            let live = store.is_held(&state)?;
            let other = |only| state.head.state.is_some_and(|state| state.machine() != only);
            if only.is_some_and(other) || (options.held && !waits(&store, &state, live)) {
                continue;
            }
            if rows.len() == options.limit {
                more = true;
                break;
            }
            rows.push((state, live));
        }
        if more || !full {
            break;
        }
    }
    if options.ids && !output.json {
        for (state, _) in &rows {
            output.line(&state.head.trace_id.to_string());
        }
        return Ok(0);
    }
    if output.json {
        let rows: Vec<Value> = rows
            .iter()
            .map(|(state, live)| {
                let mut value = describe(&store, state, *live);
                if let Some(map) = value.as_object_mut() {
                    map.insert("tool".to_owned(), json!(tool_of(&store, state.head.trace_id)));
                }
                value
            })
            .collect();
        output.value(&rows)?;
        return Ok(0);
    }
    let last = rows.last().map(|(state, _)| state.head.trace_id);
    let rows: Vec<_> = rows.iter().map(|(state, live)| row(&store, state, *live)).collect();
    output.table(&["TRACE", "STATE", "ENTRIES", "TOOL", ""], &rows);
    if let (true, Some(last)) = (more, last) {
        output.note(&format!("there are older ones; list them with `--before {last}`"));
    }
    Ok(0)
}

/// The tool that a call's request names, or the pattern of a grant.
fn tool_of(store: &dyn Store, id: TraceId) -> Option<String> {
    let request = first_body(store, id)?;
    let name = |name: &str| request.pointer(name).and_then(Value::as_str).map(sanitize);
    if let Some(pattern) = name("/event/terms/tool") {
        return Some(pattern);
    }
    Some(format!("{}/{}", name("/proposal/tool_server")?, name("/proposal/tool_name")?))
}

/// Whether a trace waits for a person. A call that a coding agent makes itself waits for the agent's report.
fn waits(store: &dyn Store, state: &TraceState, live: bool) -> bool {
    let may =
        matches!(state.head.state, Some(State::Pending | State::Executing | State::Checkpoint));
    !live && may && !is_handed_over(store, state)
}

/// Whether a coding agent makes the call itself and has not reported it.
fn is_handed_over(store: &dyn Store, state: &TraceState) -> bool {
    let workspace = || {
        let request = first_body(store, state.head.trace_id)?;
        request.pointer("/proposal/workspace").and_then(Value::as_str).map(str::to_owned)
    };
    state.head.state == Some(State::Executing) && workspace().as_deref() == Some(CLIENT_WORKSPACE)
}

fn first_body(store: &dyn Store, id: TraceId) -> Option<Value> {
    let first = store.list_log_entries(id, 0, 1).ok()?.into_iter().next()?;
    serde_json::from_slice(&first.body?).ok()
}

fn describe(store: &dyn Store, state: &TraceState, live: bool) -> Value {
    let mut value =
        serde_json::to_value(ExecutionState::of(&state.head, state.plan_id)).unwrap_or_default();
    if let Some(map) = value.as_object_mut() {
        map.insert("in_use".to_owned(), json!(live));
        map.insert("waits_for_a_person".to_owned(), json!(waits(store, state, live)));
        map.insert("waits_for_a_report".to_owned(), json!(is_handed_over(store, state)));
    }
    value
}

fn row(store: &dyn Store, state: &TraceState, live: bool) -> Vec<(String, Option<Style>)> {
    let current = state.head.state.unwrap_or(State::Pending);
    let style = match current {
        State::Completed | State::Terminal | State::Settled => Style::Good,
        State::Failed | State::Denied => Style::Bad,
        State::Pending
        | State::Authorized
        | State::Executing
        | State::Init
        | State::Running
        | State::Checkpoint
        | State::Resumed
        | State::Granted
        | State::Withdrawn
        | State::Due => Style::Warn,
    };
    let remark = match (live, waits(store, state, live)) {
        (true, _) => "in use",
        (false, true) => "waits for a person",
        (false, false) if is_handed_over(store, state) => "not reported yet",
        (false, false) => "",
    };
    vec![
        (state.head.trace_id.to_string(), None),
        (current.to_string(), Some(style)),
        (state.head.sequence_number.to_string(), None),
        (tool_of(store, state.head.trace_id).unwrap_or_default(), None),
        (remark.to_owned(), Some(Style::Faint)),
    ]
}

fn show(project: &Project, id: TraceId, output: &Output) -> CommandResult {
    let store = open(project)?;
    let state = store.load_state(id)?;
    let live = store.is_held(&state)?;
    let replay_point = store.load_latest_replay_point(id)?;
    if output.json {
        let mut value = describe(&store, &state, live);
        if let Some(map) = value.as_object_mut() {
            map.insert("fence".to_owned(), json!(state.fence));
            map.insert("checkpoint".to_owned(), json!(replay_point));
        }
        output.value(&value)?;
        return Ok(0);
    }
    let current = state.head.state.unwrap_or(State::Pending);
    let kind = match current.machine() {
        Machine::Call => "call",
        Machine::Run => "run",
        Machine::Grant => "grant",
        Machine::Notification => "notification",
    };
    output.line(&format!("{} {kind} {id}", output.paint(current.as_str(), Style::Bold)));
    output.line(&format!("  plan        {}", state.plan_id));
    output.line(&format!("  entries     {}", state.head.sequence_number));
    output.line(&format!("  last entry  {}", state.head.entry_digest));
    if let Some(point) = replay_point {
        output.line(&format!(
            "  replay from entry {}, {}",
            point.checkpoint_sequence_number, point.checkpoint_digest
        ));
    }
    output.line(&format!("  in use      {}", if live { "by a live process" } else { "no" }));
    Ok(0)
}

fn log(
    project: &Project,
    id: TraceId,
    artifacts: bool,
    after: u64,
    output: &Output,
) -> CommandResult {
    let store = open(project)?;
    store.load_state(id)?;
    let mut after = after;
    loop {
        let page = store.list_log_entries(id, after, PAGE)?;
        for record in &page {
            after = record.entry.sequence_number;
            print_entry(record, artifacts, output)?;
        }
        if page.len() < PAGE || output.is_closed() {
            return Ok(0);
        }
    }
}

fn print_entry(record: &Record, artifacts: bool, output: &Output) -> Result<(), Failure> {
    let entry = &record.entry;
    let body: Option<Value> =
        record.body.as_deref().and_then(|body| serde_json::from_slice(body).ok());
    if output.json {
        if artifacts {
            return output.value(&json!({ "entry": entry, "artifact": body }));
        }
        return output.value(entry);
    }
    output.line(&format!(
        "{:>3}  {}  {} -> {}  {}",
        entry.sequence_number,
        entry.ts,
        entry.from_state,
        output.paint(entry.to_state.as_str(), Style::Bold),
        entry.artifact_type,
    ));
    output.line(&output.paint(&format!("     entry {}", entry.entry_digest), Style::Faint));
    if artifacts {
        match body {
            Some(body) => {
                let text = serde_json::to_string_pretty(&body).unwrap_or_default();
                for line in text.lines() {
                    output.line(&format!("     {}", sanitize(line)));
                }
            }
            None => output.line("     its artifact was purged"),
        }
    }
    Ok(())
}
