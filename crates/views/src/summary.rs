//! What a list shows of a run, read from its ends: a list must not take longer because one of its runs
//! has ten thousand phases.

use serde::Deserialize;
use serde_json::Value;
use windlass_journal::{Check, JournalError, Reader, read_entry};
use windlass_kernel::run::{Ended, Event, Hold, PhaseStatus, Run, RunEvent};
use windlass_kernel::{Digest, Head, State, Timestamp, TraceId};
use windlass_store::{Record, Store};

/// How far back from its end a run is read before all of it is.
const BACK_MAX: u64 = 64;

/// What a list shows of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    /// The run's name.
    pub run_id: String,
    /// The loop.
    pub loop_id: String,
    /// What is to be done.
    pub task: Value,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// Where its trace stands.
    pub head: Head,
    /// How it ended.
    pub ended: Option<Ended>,
    /// What it waits for; one that ended on hold has ended.
    pub hold: Option<Hold>,
    /// The phase that is under way, or was last.
    pub phase: Option<String>,
}

/// What is read of a run's first event.
#[derive(Deserialize)]
struct First {
    event: Opening,
}

#[derive(Deserialize)]
struct Opening {
    kind: String,
    plan: PlanName,
    run_id: String,
    task: Value,
}

#[derive(Deserialize)]
struct PlanName {
    id: String,
}

/// Where a run stands, as its last events tell.
#[derive(Default)]
struct Standing {
    ended: Option<Ended>,
    hold: Option<Hold>,
    phase: Option<String>,
}

impl RunSummary {
    /// What a list shows of a run that has been read.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        let started = run.started.as_deref();
        let at_work = run.all_phases().find(|(_, state)| state.status == PhaseStatus::Running);
        Self {
            run_id: started.map(|started| started.run_id.clone()).unwrap_or_default(),
            loop_id: started.map(|started| started.plan.id.clone()).unwrap_or_default(),
            task: started.map(|started| started.task.clone()).unwrap_or_default(),
            started_at: run.started_at,
            head: run.head,
            ended: run.ended.clone(),
            hold: run.hold.clone().filter(|_| run.ended.is_none()),
            phase: at_work.map(|(phase, _)| phase.id.clone()),
        }
    }
}

impl RunSummary {
    /// Reads what a list shows of a run: how it began, and how it ended, what it waits for or where
    /// it is. All of it is read only when its last events do not tell.
    ///
    /// # Errors
    /// [`JournalError`] when its trace does not hold together where it is looked at.
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
        let begun = first.body.as_deref().map(serde_json::from_slice::<First>);
        let Some(Ok(First { event })) = begun else { return Ok(None) };
        let Some(standing) = standing(store, head)?.filter(|_| event.kind == "started") else {
            return Ok(None);
        };
        Ok(Some(Self {
            run_id: event.run_id,
            loop_id: event.plan.id,
            task: event.task,
            started_at: Some(first.entry.ts),
            head: *head,
            ended: standing.ended,
            hold: standing.hold,
            phase: standing.phase,
        }))
    }
}

/// The end of a run; `None` when its last events do not show it, or are damaged.
fn standing(store: &dyn Store, head: &Head) -> Result<Option<Standing>, JournalError> {
    let last = head.sequence_number;
    let mut number = last;
    let mut expected: Option<Digest> = Some(head.entry_digest);
    let mut votes = Vec::new();
    while number > 1 && last - number < BACK_MAX {
        let Some(record) = intact(store, head.trace_id, number)? else { return Ok(None) };
        let linked = Some(record.entry.entry_digest) == expected;
        let body = record.body.as_deref().filter(|_| linked);
        let Some(Ok(read)) = body.map(RunEvent::read) else { return Ok(None) };
        let ts = record.entry.ts;
        match (read.event, head.state) {
            // These come with what happened and change nothing of it.
            (Event::Noted { .. } | Event::Checkpointed(_), _) => {}
            (Event::Ended { outcome, reason, detail }, Some(State::Terminal)) => {
                let ended = Some(Ended { outcome, reason, detail, at: ts });
                return Ok(Some(Standing { ended, ..Standing::default() }));
            }
            (Event::Held(held), Some(State::Checkpoint)) => {
                votes.reverse();
                let shown = record.entry.artifact_digest;
                let hold = Some(Hold { held: *held, shown, since: ts, votes });
                return Ok(Some(Standing { hold, ..Standing::default() }));
            }
            (Event::Voted(vote), Some(State::Checkpoint)) => votes.push((vote, ts)),
            (Event::PhaseStarted { phase, .. }, Some(State::Running)) => {
                return Ok(Some(Standing { phase: Some(phase), ..Standing::default() }));
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
/// An entry that is intact by itself; `None` otherwise.
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
