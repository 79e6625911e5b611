//! An executor that does what it is told, counts what it does, and looks into the journal while it does it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use windlass_engine::{
    Assignment, Completion, EngineError, PhaseExecutor, PhaseRecorder, Subject, Verdict, WorkResult,
};
use windlass_kernel::run::plan::Doer;
use windlass_kernel::run::{Event, Failure, InvocationResult, PhaseResult, Usage};
use windlass_testkit::engine::FakeRepository;
use windlass_testkit::plans;

use crate::crash::Life;
use crate::world::World;

/// What comes of a piece of work.
#[derive(Clone, Debug)]
pub enum Act {
    /// It ends with this answer.
    Answer(Value),
    /// It fails.
    Fail(&'static str),
    /// A check says this.
    Say(&'static str),
    /// It panics.
    Panic,
    /// Something could not be recorded.
    Halt,
}

/// Which piece of work: phase, check or nothing, try.
pub type Piece = (String, Option<String>, u32);

/// What is said about each piece of work; whatever is not mentioned goes well.
pub type Oracle = dyn Fn(&Piece) -> Act + Send + Sync;

/// Something that was done outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    /// What.
    pub piece: Piece,
    /// Whether it may be done again when nobody knows how it ended.
    pub repeatable: bool,
}

/// What the executor did, and what it saw that must not be.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// All that was done, in order.
    pub deeds: Vec<Deed>,
    /// Things that must not be.
    pub faults: Vec<String>,
}

/// The executor of one process.
pub struct FakeExecutor {
    pub world: World,
    pub life: Arc<Life>,
    pub oracle: Arc<Oracle>,
    /// Called while the work is under way.
    pub during: Arc<dyn Fn(&Piece) + Send + Sync>,
}

/// What goes well, with every gate and check of `plans` content.
pub fn well(piece: &Piece) -> Act {
    match &piece.1 {
        Some(_) => Act::Say("pass"),
        None => Act::Answer(json!({"verdict": "approved", "phase": piece.0, "attempt": piece.2})),
    }
}

/// An oracle with exceptions, by `phase` or `phase/check` and try.
pub fn except(list: &[(&str, u32, Act)]) -> Arc<Oracle> {
    let table: BTreeMap<(String, u32), Act> = list
        .iter()
        .map(|(name, attempt, act)| (((*name).to_owned(), *attempt), act.clone()))
        .collect();
    Arc::new(move |piece: &Piece| {
        let name = match &piece.1 {
            Some(check) => format!("{}/{check}", piece.0),
            None => piece.0.clone(),
        };
        table.get(&(name, piece.2)).cloned().unwrap_or_else(|| well(piece))
    })
}

pub fn piece(assignment: &Assignment) -> Piece {
    let check = match &assignment.subject {
        Subject::Work => None,
        Subject::Check(check) => Some(check.id.clone()),
    };
    (assignment.phase.id.clone(), check, assignment.attempt)
}

pub fn done(answer: Value) -> PhaseResult {
    PhaseResult { change: Some(FakeRepository::change()), ..plans::done(answer) }
}

impl FakeExecutor {
    /// Looks into the durable journal at the moment of the effect.
    fn look(&self, piece: &Piece, invoked: bool) -> Option<String> {
        let events = self.world.later_events();
        let (phase, check, attempt) = piece;
        let mut started = false;
        let mut open = false;
        for event in events {
            match event {
                Event::PhaseStarted { phase: one, attempt: number } if one == *phase => {
                    started = number == *attempt;
                }
                Event::PhaseDone { phase: one, attempt: number, .. }
                    if check.is_none() && one == *phase && number == *attempt =>
                {
                    return Some(format!("{piece:?} is on record as done and is done again"));
                }
                Event::Checked { phase: one, attempt: number, check: name, .. }
                    if Some(&name) == check.as_ref() && one == *phase && number == *attempt =>
                {
                    return Some(format!("{piece:?} is on record as made and is made again"));
                }
                Event::InvocationStarted { phase: one, .. } if one == *phase => open = true,
                _ => {}
            }
        }
        if !started || (invoked && !open) {
            return Some(format!("{piece:?} is done before it is on record"));
        }
        None
    }
}

fn dead() -> EngineError {
    EngineError::from(windlass_store::StoreError::Unavailable {
        operation: "live",
        source: "the process is dead".into(),
    })
}

impl PhaseExecutor for FakeExecutor {
    fn perform(
        &self,
        assignment: &Assignment,
        recorder: &PhaseRecorder<'_>,
    ) -> Result<WorkResult<Completion>, EngineError> {
        let piece = piece(assignment);
        let doer = match &assignment.subject {
            Subject::Work => &assignment.phase.doer,
            Subject::Check(check) => &check.doer,
        };
        let (invoked, repeatable) = match doer {
            Doer::Builtin { .. } | Doer::Consensus { .. } | Doer::Person { .. } => (false, true),
            Doer::Agent { .. } => (true, true),
            Doer::Command { repeatable, .. } => (true, *repeatable),
        };
        let invocation = match invoked {
            true => Some(recorder.invocation_started(assignment, "someone", "fake", None)?),
            false => None,
        };
        (self.during)(&piece);
        if !self.life.point() {
            return Err(dead());
        }
        let fault = self.look(&piece, invoked);
        let mut log = self.world.log.lock().unwrap();
        log.faults.extend(fault);
        log.deeds.push(Deed { piece: piece.clone(), repeatable });
        drop(log);
        if !self.life.point() {
            return Err(dead());
        }
        let act = (self.oracle)(&piece);
        if matches!(act, Act::Panic) {
            // Unlike a panic this says nothing on its way.
            std::panic::resume_unwind(Box::new("the executor was told to panic"));
        }
        if let Some(invocation) = invocation {
            let result = InvocationResult::Success;
            recorder.invocation_ended(invocation, result, Usage::default(), 5, "");
        }
        Ok(WorkResult::Finished(match act {
            Act::Answer(answer) => Completion::Done(Box::new(done(answer))),
            Act::Fail(class) => {
                let reason = "it went wrong".to_owned();
                let failure = Some(Failure { class: class.to_owned(), reason });
                Completion::Done(Box::new(PhaseResult { failure, ..done(json!({})) }))
            }
            Act::Say(verdict) => Completion::Judged(Verdict {
                conditions: Vec::new(),
                verdict: verdict.to_owned(),
                reason: "so it is".to_owned(),
                findings: json!(["a finding"]),
                usage: Usage::default(),
                duration_ms: 1,
            }),
            Act::Panic | Act::Halt => return Err(dead()),
        }))
    }
}

/// A log that several processes write.
pub type SharedLog = Arc<Mutex<Log>>;
