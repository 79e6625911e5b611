//! The queue of holds, and the answers to them.

use windlass_journal::{JournalError, RunFilter, Runs};
use windlass_kernel::run::plan::Trigger;
use windlass_kernel::run::{Event, Hold, Resolution, Run, RunName, Vote, VoteDecision};
use windlass_kernel::{Code, Digest, State, TraceId};

use crate::engine::{Engine, refuse_ended, run_name};
use crate::error::EngineError;

/// The maximum length of a person's name and of a reason.
pub(crate) const NAME_BYTES_MAX: usize = 128;
pub(crate) const REASON_BYTES_MAX: usize = 4096;
/// The maximum number of conditions of one approval.
const CONDITIONS_MAX: usize = 50;

/// A run that waits for a person.
#[derive(Clone, Debug)]
pub struct WaitingRun {
    /// The run's trace.
    pub trace_id: TraceId,
    /// The run.
    pub run: Run,
    /// The open hold.
    pub hold: Hold,
}

/// The open holds.
#[derive(Debug, Default)]
pub struct HoldQueue {
    /// The oldest waiting runs, oldest first.
    pub waiting: Vec<WaitingRun>,
    /// The number of all waiting runs.
    pub count: usize,
    /// Those among the oldest whose traces are corrupt.
    pub damaged: Vec<(RunName, JournalError)>,
}

/// The result of an answer.
#[derive(Clone, Debug)]
pub struct AnswerResult {
    /// The run after the answer.
    pub run: Run,
    /// The resolution of the hold by all answers so far.
    pub resolution: Resolution,
}

impl HoldQueue {
    /// Reads the open holds, oldest first, at most `limit`, and counts all of them. A corrupt trace does
    /// not hide the others.
    ///
    /// # Errors
    /// [`JournalError`] if the store cannot be read.
    pub fn read(runs: &Runs, limit: usize) -> Result<Self, JournalError> {
        let filter =
            RunFilter { open_only: true, state: Some(State::Checkpoint), limit: usize::MAX };
        let found = runs.list(&filter)?;
        let mut queue = Self { count: found.len(), ..Self::default() };
        // The list is newest first; only the returned runs are read.
        for one in found.iter().rev().take(limit) {
            let trace_id = one.trace.head.trace_id;
            let run = match runs.read(trace_id) {
                Ok(run) => run,
                Err(error) if error.is_damage() => {
                    queue.damaged.push((one.name, error));
                    continue;
                }
                Err(error) => return Err(error),
            };
            if let Some(hold) = run.hold.clone() {
                queue.waiting.push(WaitingRun { trace_id, run, hold });
            }
        }
        queue.waiting.sort_by_key(|one| one.hold.since);
        Ok(queue)
    }
}

impl Engine {
    /// Records a person's answer to the hold that they were shown, with conditions if there are any.
    /// Each person answers once.
    ///
    /// # Errors
    /// [`EngineError`]: nothing is recorded, except that an expired hold ends its run.
    pub fn answer(
        &self,
        trace_id: TraceId,
        decision: VoteDecision,
        by: &str,
        reason: &str,
        shown: Option<Digest>,
        conditions: &[String],
    ) -> Result<AnswerResult, EngineError> {
        let by = by.trim();
        for condition in conditions {
            check("condition", condition, REASON_BYTES_MAX, "what must be true")?;
        }
        if decision == VoteDecision::Rejected && !conditions.is_empty() {
            return Err(invalid("a rejection has a reason, not conditions".to_owned()));
        }
        if conditions.len() > CONDITIONS_MAX {
            return Err(invalid(format!("an approval has at most {CONDITIONS_MAX} conditions")));
        }
        check("name", by, NAME_BYTES_MAX, "who decides")?;
        if by.contains('\n') {
            return Err(invalid("the name must be one line".to_owned()));
        }
        check("reason", reason, REASON_BYTES_MAX, "why")?;
        let mut recorder = self.open(trace_id)?;
        refuse_ended(recorder.run())?;
        let run = run_name(recorder.run());
        let Some(hold) = recorder.run().hold.clone() else {
            return Err(EngineError::NotOnHold { run });
        };
        match hold.resolution() {
            Resolution::Open => {}
            Resolution::Approved => {
                return Err(EngineError::AlreadyResolved { run, decision: "APPROVED" });
            }
            Resolution::Rejected => {
                return Err(EngineError::AlreadyResolved { run, decision: "REJECTED" });
            }
        }
        if hold.is_expired(self.recording.clock.now()) {
            self.expire(&mut recorder)?;
        }
        if shown.is_some_and(|shown| shown != hold.shown) {
            return Err(EngineError::Stale { run });
        }
        let reviewers = &hold.held.reviewers;
        if !reviewers.is_empty() && !reviewers.iter().any(|one| one == by) {
            let message =
                format!("`{by}` is not asked; the reviewers are: {}", reviewers.join(", "));
            return Err(invalid(message));
        }
        if !conditions.is_empty() && hold.held.trigger != Trigger::ConsensusRequested {
            return Err(invalid("only the approval of a reviewer can have conditions".to_owned()));
        }
        if hold.votes.iter().any(|(vote, _)| vote.by == by) {
            return Err(EngineError::SamePerson { run, by: by.to_owned() });
        }
        let vote = Vote {
            by: by.to_owned(),
            conditions: conditions.to_vec(),
            decision,
            reason: reason.to_owned(),
            shown: hold.shown,
        };
        recorder.append(vec![Event::Voted(vote)])?;
        let resolution = recorder
            .run()
            .hold
            .as_ref()
            .map_or(Resolution::Open, windlass_kernel::run::Hold::resolution);
        if resolution == Resolution::Rejected && !recorder.run().rejection_is_a_verdict(&hold.held)
        {
            self.end_rejected(&mut recorder)?;
        }
        Ok(AnswerResult { run: recorder.run().clone(), resolution })
    }
}

fn check(what: &str, text: &str, bytes_max: usize, meaning: &str) -> Result<(), EngineError> {
    let control = text.chars().any(|one| one.is_control() && one != '\n');
    if !text.trim().is_empty() && text.len() <= bytes_max && !control {
        return Ok(());
    }
    Err(invalid(format!(
        "the {what} must be 1 to {bytes_max} bytes of plain text and say {meaning}"
    )))
}

const fn invalid(message: String) -> EngineError {
    EngineError::Invalid { code: Code::RequestInvalid, message, hint: None }
}
