//! The summary of a run in a list. It is read from the first and the last entries, so that a run with
//! ten thousand phases does not slow down a list.

use serde::Deserialize;
use serde_json::Value;
use windlass_journal::{Check, JournalError, Reader, read_entry};
use windlass_kernel::run::{Ended, Event, Hold, PhaseStatus, Run, RunEvent};
use windlass_kernel::{Digest, Head, State, Timestamp, TraceId};
use windlass_store::{Record, Store};

/// The maximum number of last entries that are read before the whole run is.
const TAIL_ENTRIES_MAX: u64 = 64;

/// The summary of a run in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    /// The run's name.
    pub run_id: String,
    /// The loop.
    pub loop_id: String,
    /// The task.
    pub task: Value,
    /// The time of its start.
    pub started_at: Option<Timestamp>,
    /// The head of its trace.
    pub head: Head,
    /// The end, if it has ended.
    pub ended: Option<Ended>,
    /// The open hold; `None` if the run has ended.
    pub hold: Option<Hold>,
    /// The running phase, or the last one.
    pub phase: Option<String>,
    /// The client, if the run is a session of one.
    pub client: Option<String>,
}

/// The fields of a run's first event that the summary needs.
#[derive(Deserialize)]
struct FirstEvent {
    event: StartedFields,
}

#[derive(Deserialize)]
struct StartedFields {
    kind: String,
    options: Value,
    plan: PlanName,
    run_id: String,
    task: Value,
}

#[derive(Deserialize)]
struct PlanName {
    id: String,
}

/// The state of a run, as derived from its last events.
#[derive(Default)]
struct LastState {
    ended: Option<Ended>,
    hold: Option<Hold>,
    phase: Option<String>,
}

impl RunSummary {
    /// The summary of a run that has been read.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        let started = run.started.as_deref();
        let running = run.all_phases().find(|(_, state)| state.status == PhaseStatus::Running);
        Self {
            run_id: started.map(|started| started.run_id.clone()).unwrap_or_default(),
            loop_id: started.map(|started| started.plan.id.clone()).unwrap_or_default(),
            task: started.map(|started| started.task.clone()).unwrap_or_default(),
            started_at: run.started_at,
            head: run.head,
            ended: run.ended.clone(),
            hold: run.hold.clone().filter(|_| run.ended.is_none()),
            phase: running.map(|(phase, _)| phase.id.clone()),
            client: started.and_then(|started| client(&started.options)),
        }
    }
}

/// The client of a session, which its options name.
fn client(options: &Value) -> Option<String> {
    let session = options.get("session")?.as_str();
    session.and(options.get("client")?.as_str()).map(str::to_owned)
}

impl RunSummary {
    /// Reads the summary of a run from its first and last entries; reads the whole run only if these are
    /// not sufficient.
    ///
    /// # Errors
    /// [`JournalError`] if the entries that are read are corrupt.
    pub fn read(store: &dyn Store, head: &Head) -> Result<Self, JournalError> {
        match Self::from_ends(store, head)? {
            Some(summary) => Ok(summary),
            None => {
                let run = Reader::state_of(store, head.trace_id, Check::Verified)?;
                Ok(Self::of(&run))
            }
        }
    }

    fn from_ends(store: &dyn Store, head: &Head) -> Result<Option<Self>, JournalError> {
        let Some(first) = intact(store, head.trace_id, 1)? else { return Ok(None) };
        let begun = first.body.as_deref().map(serde_json::from_slice::<FirstEvent>);
        let Some(Ok(FirstEvent { event })) = begun else { return Ok(None) };
        let Some(last_state) = last_state(store, head)?.filter(|_| event.kind == "started") else {
            return Ok(None);
        };
        Ok(Some(Self {
            run_id: event.run_id,
            loop_id: event.plan.id,
            task: event.task,
            started_at: Some(first.entry.ts),
            head: *head,
            ended: last_state.ended,
            hold: last_state.hold,
            phase: last_state.phase,
            client: client(&event.options),
        }))
    }
}

/// The state of a run; `None` if its last events do not determine it, or are corrupt.
fn last_state(store: &dyn Store, head: &Head) -> Result<Option<LastState>, JournalError> {
    let last = head.sequence_number;
    let mut number = last;
    let mut expected: Option<Digest> = Some(head.entry_digest);
    let mut votes = Vec::new();
    while number > 1 && last - number < TAIL_ENTRIES_MAX {
        let Some(record) = intact(store, head.trace_id, number)? else { return Ok(None) };
        let linked = Some(record.entry.entry_digest) == expected;
        let body = record.body.as_deref().filter(|_| linked);
        let Some(Ok(read)) = body.map(RunEvent::read) else { return Ok(None) };
        let ts = record.entry.ts;
        match (read.event, head.state) {
            // These accompany other events and do not change the state.
            (Event::Noted { .. } | Event::Checkpointed(_), _) => {}
            (Event::Ended { outcome, reason, detail }, Some(State::Terminal)) => {
                let ended = Some(Ended { outcome, reason, detail, at: ts });
                return Ok(Some(LastState { ended, ..LastState::default() }));
            }
            // Who does not count among several is in the first event.
            (Event::Held(held), Some(State::Checkpoint))
                if held.approvals > 1 && held.reviewers.is_empty() =>
            {
                return Ok(None);
            }
            (Event::Held(held), Some(State::Checkpoint)) => {
                votes.reverse();
                let shown = record.entry.artifact_digest;
                let hold = Some(Hold::new(*held, shown, ts, votes));
                return Ok(Some(LastState { hold, ..LastState::default() }));
            }
            (Event::Voted(vote), Some(State::Checkpoint)) => votes.push((*vote, ts)),
            (Event::PhaseStarted { phase, .. }, Some(State::Running)) => {
                return Ok(Some(LastState { phase: Some(phase), ..LastState::default() }));
            }
            (
                Event::InvocationStarted { .. }
                | Event::InvocationEnded { .. }
                | Event::PhaseDone { .. }
                | Event::Checked { .. }
                | Event::Warned { .. }
                | Event::Waiting { .. }
                | Event::Continued {},
                Some(State::Running),
            ) => {}
            _ => return Ok(None),
        }
        expected = Some(record.entry.prev_entry_digest);
        number -= 1;
    }
    Ok(None)
}

/// Reads an entry; `None` if it is corrupt.
fn intact(
    store: &dyn Store,
    trace_id: TraceId,
    sequence_number: u64,
) -> Result<Option<Record>, JournalError> {
    match read_entry(store, trace_id, sequence_number) {
        Err(error) if error.is_damage() => Ok(None),
        read => read,
    }
}
