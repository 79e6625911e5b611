//! `windlass trace`, and the listing shared with `windlass call list`.

use serde_json::{Value, json};
use windlass_journal::JournalError;
use windlass_kernel::{Code, Machine, State, TraceId};
use windlass_store::{Record, Store};
use windlass_views::{ListedTrace, WantedTraces, list_traces};

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

/// The trace with an id, or of the run that is called so: by its name, a beginning, its hold, or `last`.
fn trace_or_run(project: &Project, text: &str) -> Result<TraceId, Failure> {
    let invalid = match trace_id(text) {
        Ok(id) => return Ok(id),
        Err(invalid) => invalid,
    };
    match project.runs()?.find(text) {
        Ok(id) => Ok(id),
        // What is not even the beginning of a run's name is meant as an id.
        Err(JournalError::NoSuchRun { .. }) if !text.starts_with("run_") => Err(invalid),
        Err(error) => Err(error.into()),
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
    let wanted = WantedTraces {
        machine: only,
        state,
        open_only: options.open,
        waiting_only: options.held,
        before: options.before.as_deref().map(trace_id).transpose()?,
        limit: options.limit,
    };
    let (rows, more) = list_traces(&store, wanted)?;
    note_unreadable(store.count()?.unreadable, output);
    if options.ids && !output.json {
        for one in &rows {
            output.line(&one.state.head.trace_id.to_string());
        }
        return Ok(0);
    }
    if output.json {
        let rows: Vec<Value> = rows.iter().map(|one| one.describe_in_list(&store)).collect();
        output.value(&rows)?;
        return Ok(0);
    }
    let last = rows.last().map(|one| one.state.head.trace_id);
    let rows: Vec<_> = rows.iter().map(|one| row(&store, one)).collect();
    output.table(&["TRACE", "STATE", "ENTRIES", "TOOL", ""], &rows);
    if let (true, Some(last)) = (more, last) {
        output.note(&format!("there are older ones; list them with `--before {last}`"));
    }
    Ok(0)
}

/// Says how many traces a list leaves out because they are damaged.
pub fn note_unreadable(count: u64, output: &Output) {
    let what = match count {
        0 => return,
        1 => "1 trace cannot be read and is not listed".to_owned(),
        count => format!("{count} traces cannot be read and are not listed"),
    };
    output.note(&format!("{what}; `windlass verify` says which"));
}

fn row(store: &dyn Store, one: &ListedTrace) -> Vec<(String, Option<Style>)> {
    let state = &one.state;
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
    let remark = match (one.is_live, one.waits_for_person(store)) {
        (true, _) => "in use",
        (false, true) => "waits for a person",
        (false, false) if one.waits_for_report(store) => "not reported yet",
        (false, false) => "",
    };
    vec![
        (state.head.trace_id.to_string(), None),
        (current.to_string(), Some(style)),
        (state.head.sequence_number.to_string(), None),
        (sanitize(&one.tool(store).unwrap_or_default()), None),
        (remark.to_owned(), Some(Style::Faint)),
    ]
}

fn show(project: &Project, id: TraceId, output: &Output) -> CommandResult {
    let store = open(project)?;
    let state = store.load_state(id)?;
    let live = store.is_held(&state)?;
    let replay_point = store.load_latest_replay_point(id)?;
    if output.json {
        let listed = ListedTrace { state, is_live: live };
        let mut value = listed.describe(&store);
        if let Some(map) = value.as_object_mut() {
            map.insert("execution_state".to_owned(), json!(listed.execution_state()));
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
