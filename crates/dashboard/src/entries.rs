//! Traces and their entries, by pages; one entry in full.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use windlass_journal::{Runs, read_entry};
use windlass_kernel::run::RunName;
use windlass_kernel::{Code, Digest, Entry, Machine, Timestamp, TraceId};
use windlass_store::{Record, Store, TraceState};

use crate::act::operand;
use crate::call_list::short;
use crate::dashboard::{Context, shown};
use crate::paging::{Among, Look, Paging, merge, scan};
use crate::problem::Problem;
use crate::project::{Command, Project};

/// The most entries of one page.
const ENTRIES_MAX: usize = 500;
/// The entries of a page if nobody says so.
const ENTRIES: usize = 100;
/// The most characters of a summary.
const SUMMARY_CHARS_MAX: usize = 160;

/// A trace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TraceItem {
    /// The id.
    pub trace: String,
    /// `run`, `call`, `grant` or `notification`.
    pub kind: String,
    /// The name, if it is a run.
    pub run: Option<String>,
    /// The state.
    pub state: String,
    /// How many entries it has.
    pub entries: u64,
    /// The digest of the newest entry, as it is kept apart from the entries.
    pub head: String,
    /// Whether a process is at work on it.
    pub in_use: bool,
}

/// A page of traces.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TracesPage {
    /// The traces, newest first.
    pub traces: Vec<TraceItem>,
    /// The cursor of the next page; `null` at the end.
    pub next: Option<String>,
}

/// An entry in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EntryItem {
    /// Its number in the trace, from 1.
    pub number: u64,
    /// When it was recorded.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// What happened, such as `phase_started` or `action_request`.
    pub kind: String,
    /// What it says, in short.
    pub summary: String,
    /// The state afterwards.
    pub state: String,
    /// Its digest.
    pub digest: String,
    /// Whether the entry and its artifact have their digests, and it follows the entry before it.
    pub intact: bool,
    /// Whether its artifact was deleted.
    pub purged: bool,
}

/// A page of entries.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EntriesPage {
    /// The trace.
    pub trace: TraceItem,
    /// The entries, oldest first.
    pub entries: Vec<EntryItem>,
    /// Whether all of them are intact and, at the end of the trace, the last one is its head.
    pub intact: bool,
    /// The number after which the next page begins; `null` at the end.
    pub next: Option<u64>,
}

/// An entry in full.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EntryDetail {
    /// The entry as it is in the journal.
    pub entry: Entry,
    /// Its artifact; `null` if it was deleted.
    pub artifact: Value,
}

/// The trace that the path names, by its id or as a run.
///
/// # Errors
/// [`Problem`] if there is none.
pub fn find(project: &Arc<dyn Project>, name: &str) -> Result<(Arc<dyn Store>, TraceId), Problem> {
    let store = project.store()?;
    let id = match name.parse::<TraceId>() {
        Ok(id) => store.load_state(id)?.head.trace_id,
        Err(_) => Runs::new(Arc::clone(&store)).find(name)?,
    };
    Ok((store, id))
}

/// The traces of a project, newest first.
///
/// # Errors
/// [`Problem`] if the journal cannot be read.
pub fn traces(context: &Context<'_>) -> Result<TracesPage, Problem> {
    context.require_all()?;
    let paging = Paging::of(context)?;
    let store = context.project()?.store()?;
    let found = scan(store.as_ref(), Among::default(), paging, &mut |trace| {
        Ok(Look::Wanted(TraceItem::of(store.as_ref(), trace)?))
    })?;
    let page = merge(vec![found], paging.limit);
    Ok(TracesPage { traces: page.items, next: page.next.map(|next| next.to_string()) })
}

/// The trace in the path.
///
/// # Errors
/// [`Problem`] if there is none.
pub fn trace(context: &Context<'_>) -> Result<TraceItem, Problem> {
    context.require_all()?;
    let (store, id) = find(context.project()?, context.part("trace")?)?;
    TraceItem::of(store.as_ref(), &store.load_state(id)?)
}

/// The entries of the trace with a name, after the number in the field `after`.
///
/// # Errors
/// [`Problem`] if there is no such trace, or a field is wrong.
pub fn list(context: &Context<'_>, name: &str) -> Result<EntriesPage, Problem> {
    context.require_all()?;
    let number = |name: &str, wrong: &str| {
        let parsed = context.field(name).map(str::parse::<u64>).transpose();
        parsed.map_err(|_| Problem::new(Code::RequestInvalid, format!("`{name}`: {wrong}")))
    };
    let after = number("after", "it is the number of an entry")?.unwrap_or(0);
    let wrong = format!("it is a number from 1 to {ENTRIES_MAX}");
    let limit = match number("limit", &wrong)?.map(usize::try_from) {
        None => ENTRIES,
        Some(Ok(limit)) if (1..=ENTRIES_MAX).contains(&limit) => limit,
        Some(_) => return Err(Problem::new(Code::RequestInvalid, format!("`limit`: {wrong}"))),
    };
    let (store, id) = find(context.project()?, name)?;
    // The head first: entries that come meanwhile are on the next page.
    let head = store.load_state(id)?;
    // One before, to compare the first of the page with it.
    let first = after.saturating_sub(1);
    let room = limit + usize::from(after > 0);
    let records = store.list_log_entries(id, first, room)?;
    let mut previous = (after == 0).then_some(Digest::GENESIS);
    let mut expected = first;
    let mut entries = Vec::new();
    for record in &records {
        expected += 1;
        let entry = &record.entry;
        let follows = previous.is_none_or(|digest| digest == entry.prev_entry_digest)
            && entry.sequence_number == expected
            && entry.trace_id == id;
        previous = Some(entry.entry_digest);
        if entry.sequence_number > after {
            entries.push(EntryItem::of(record, follows));
        }
    }
    let last = records.last().map(|record| &record.entry);
    let is_end = last.is_none_or(|last| last.sequence_number >= head.head.sequence_number);
    let ends_well = match last {
        Some(last) if last.sequence_number == head.head.sequence_number => {
            last.entry_digest == head.head.entry_digest
        }
        // Fewer than there must be, or more since the head was read.
        Some(last) => last.sequence_number > head.head.sequence_number || records.len() == room,
        None => after >= head.head.sequence_number,
    };
    Ok(EntriesPage {
        trace: TraceItem::of(store.as_ref(), &head)?,
        intact: ends_well && entries.iter().all(|entry| entry.intact),
        next: last.map(|last| last.sequence_number).filter(|_| !is_end && records.len() == room),
        entries,
    })
}

/// One entry in full, verified by itself.
///
/// # Errors
/// [`Problem`] if there is none, or it fails verification.
pub fn one(context: &Context<'_>, name: &str) -> Result<EntryDetail, Problem> {
    context.require_all()?;
    let text = context.part("number")?;
    let missing = || Problem::not_found(format!("there is no entry `{}`", shown(text)));
    let number: u64 = text.parse().map_err(|_| missing())?;
    let (store, id) = find(context.project()?, name)?;
    let found = if number == 0 { None } else { read_entry(store.as_ref(), id, number)? };
    let Record { entry, body } = found.ok_or_else(missing)?;
    let artifact = body.as_deref().and_then(|body| serde_json::from_slice(body).ok());
    Ok(EntryDetail { entry, artifact: artifact.unwrap_or_default() })
}

/// Verifies the whole trace with a name.
///
/// # Errors
/// The error of the command, or there is no such trace.
pub fn verify(context: &Context<'_>, name: &str) -> Result<Value, Problem> {
    context.require_all()?;
    let project = context.project()?;
    let (_, id) = find(project, name)?;
    project.command(operand(Command::new(["verify"]), &id.to_string()))
}

impl TraceItem {
    /// A trace.
    ///
    /// # Errors
    /// [`Problem`] if the journal cannot be read.
    pub fn of(store: &dyn Store, trace: &TraceState) -> Result<Self, Problem> {
        let head = &trace.head;
        let machine = head.state.map(windlass_kernel::State::machine);
        let kind = match machine {
            Some(Machine::Run) => "run",
            Some(Machine::Grant) => "grant",
            Some(Machine::Notification) => "notification",
            Some(Machine::Call) | None => "call",
        };
        let is_run = machine == Some(Machine::Run);
        Ok(Self {
            trace: head.trace_id.to_string(),
            kind: kind.to_owned(),
            run: is_run.then(|| RunName::of(head.trace_id).to_string()),
            state: head.state.map(|state| state.as_str().to_lowercase()).unwrap_or_default(),
            entries: head.sequence_number,
            head: head.entry_digest.to_string(),
            in_use: store.is_held(trace)?,
        })
    }
}

impl EntryItem {
    fn of(record: &Record, follows: bool) -> Self {
        let Record { entry, body } = record;
        let own = entry.compute_digest(&mut Vec::with_capacity(1024)) == entry.entry_digest;
        let body = body.as_deref();
        let artifact = body.is_none_or(|body| Digest::of(body) == entry.artifact_digest);
        let value: Value =
            body.and_then(|body| serde_json::from_slice(body).ok()).unwrap_or_default();
        let event = value.get("event");
        let kind = event.and_then(|event| event.get("kind")).and_then(Value::as_str);
        Self {
            number: entry.sequence_number,
            at: entry.ts,
            kind: kind.unwrap_or(entry.artifact_type.as_str()).to_owned(),
            summary: summary(event.unwrap_or(&value)),
            state: entry.to_state.as_str().to_lowercase(),
            digest: entry.entry_digest.to_string(),
            intact: follows && own && artifact,
            purged: body.is_none(),
        }
    }
}

/// What an artifact says, in short: the fields that people look for, in this order.
fn summary(value: &Value) -> String {
    const FIELDS: [&str; 28] = [
        "/task/task",
        "/run_id",
        "/by/name",
        "/phase",
        "/check",
        "/reviewer",
        "/agent",
        "/model",
        "/result",
        "/tool_name",
        "/proposal/tool_server",
        "/proposal/tool_name",
        "/decision",
        "/outcome",
        "/verdict",
        "/to",
        "/what",
        "/body/note",
        "/body/event",
        "/body/core",
        "/trigger",
        "/question",
        "/done/summary",
        "/rationale",
        "/reason",
        "/note",
        "/commit",
        "/terms/tool",
    ];
    let texts = FIELDS.iter().filter_map(|name| value.pointer(name)?.as_str());
    let mut words: Vec<&str> = Vec::new();
    for text in texts.filter(|text| !text.is_empty()) {
        if !words.contains(&text) {
            words.push(text);
        }
    }
    let mut text = words.join(" · ");
    if let Some(attempt) = value.get("attempt").and_then(Value::as_u64).filter(|one| *one > 1) {
        text.push_str(&format!(" · attempt {attempt}"));
    }
    short(&text, SUMMARY_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_summary_names_what_people_look_for_once() {
        let event = json!({ "kind": "phase_done", "phase": "build", "attempt": 2,
            "done": { "summary": "all\nof it" }, "reason": "build" });
        assert_eq!(summary(&event), "build · all of it · attempt 2");
        assert_eq!(summary(&json!({})), "");
    }
}
