//! Taking a run up again: after a person's answer, or after its process died.

use windlass_kernel::run::plan::{OnRestart, Requirement, RunOutcome, Trigger};
use windlass_kernel::run::{Event, Held, Hold, Resolution, Run};
use windlass_kernel::{State, Timestamp, TraceId};
use windlass_runtime::{Answer, GatewayError, Voice};

use crate::book::Book;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::queue::{NAME_BYTES_MAX, REASON_BYTES_MAX};

/// More than a call ever has.
const CALL_ENTRIES_MAX: usize = 64;

impl Engine {
    /// Takes a run up again and takes it as far as it goes.
    ///
    /// Of a run on hold these are checked, in this order: the repository, the hold's packet, the
    /// policy, the answer. Phases that are complete are not done again.
    ///
    /// # Errors
    /// [`EngineError`]; the run is unchanged unless the error says that it has ended.
    pub fn resume(&self, trace_id: TraceId) -> Result<Run, EngineError> {
        let seen = self.read(trace_id)?;
        let run_id = name(&seen);
        self.stop.check(Some(&run_id))?;
        if seen.ended.is_some() {
            // Its process may have died before the files that show its end were written.
            self.projector.show(&seen, &[])?;
        }
        refuse_ended(&seen)?;
        let plan = seen.plan().cloned();
        let own = seen.started.as_ref().is_some_and(|started| started.worktree.is_some());
        let _locks = match &plan {
            Some(plan) => self.lock_for(plan, own)?,
            None => Vec::new(),
        };
        let mut book = self.open(trace_id)?;
        refuse_ended(book.run())?;
        if book.run().is_being_taken_back() && book.run().head.state == Some(State::Running) {
            // A person has asked for it: it comes to its end whatever else is to be said.
            let run = self.finish_rollback(book)?;
            if run.hold.is_some() {
                return Ok(run);
            }
            book = self.open(trace_id)?;
        }
        match book.run().head.state {
            Some(State::Checkpoint) => self.take_up_hold(&mut book)?,
            Some(_) | None => self.take_up_interrupted(&mut book)?,
        }
        self.show(&book)?;
        self.drive(book)
    }

    fn take_up_hold(&self, book: &mut Book) -> Result<(), EngineError> {
        let run = book.snapshot();
        let run_id = name(&run);
        let Some(hold) = &run.hold else {
            return Err(EngineError::NotOnHold { run: run_id });
        };
        let requires_clean =
            run.plan().is_some_and(|plan| plan.require.contains(&Requirement::CleanRepo));
        if requires_clean {
            self.place.require_as_left(&self.workspace(&run), &run)?;
        }
        self.projector.check_hold(&run)?;
        self.require_policy(book)?;
        if hold.is_expired(self.source.now()) {
            return self.expire(book);
        }
        match hold.resolution() {
            Resolution::Open => {
                Err(EngineError::Unresolved { run: run_id, question: hold.held.question.clone() })
            }
            Resolution::Rejected if !run.rejection_is_a_verdict(&hold.held) => {
                self.end_rejected(book)?;
                let ended = EngineError::Ended {
                    run: run_id,
                    outcome: RunOutcome::Blocked.as_str(),
                    reason: REJECTED.to_owned(),
                };
                Err(ended)
            }
            Resolution::Approved | Resolution::Rejected => {
                self.decide_call(&run, hold, Answer::Approve)?;
                let by = self.settings.by.clone();
                book.append(vec![Event::Resumed { by }])
            }
        }
    }

    /// Makes the call that people have approved, or gives up the one that they have rejected; one
    /// that was decided elsewhere is left as it is.
    fn decide_call(&self, run: &Run, hold: &Hold, answer: Answer) -> Result<(), EngineError> {
        let Held { trigger: Trigger::CallApproval, call: Some(call), .. } = &hold.held else {
            return Ok(());
        };
        // An approval is good for one dispatch: if this one was acted on before a crash, the phase
        // that makes the call finds out how it ended, or asks again.
        if self.last_dispatch(*call)?.is_some_and(|at| at >= hold.since) {
            return Ok(());
        }
        let gateway = self.workshop.gateway(&self.workspace(run))?;
        let people: Vec<&str> = hold.votes.iter().map(|(vote, _)| vote.by.as_str()).collect();
        let reasons: Vec<&str> = hold.votes.iter().map(|(vote, _)| vote.reason.as_str()).collect();
        let (mut by, mut reason) = (people.join(", "), reasons.join("; "));
        by.truncate(by.floor_char_boundary(NAME_BYTES_MAX));
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        let voice = Voice { by: &by, reason: &reason };
        match gateway.decide(*call, answer, voice) {
            // What policy does not allow even so is told to the phase that makes the call.
            Ok(_) | Err(GatewayError::AlreadyDecided { .. } | GatewayError::Refused { .. }) => {
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// When a call was handed over the last time, if it was.
    fn last_dispatch(&self, call: TraceId) -> Result<Option<Timestamp>, EngineError> {
        let entries = self.store.list_log_entries(call, 0, CALL_ENTRIES_MAX)?;
        let first = entries.iter().rev().find(|one| one.entry.to_state == State::Executing);
        let again = self.store.list_redispatches(call)?.last().map(|again| again.ts);
        Ok(again.or(first.map(|one| one.entry.ts)))
    }

    fn take_up_interrupted(&self, book: &mut Book) -> Result<(), EngineError> {
        self.require_policy(book)?;
        let on_restart = book.run().plan().map(|plan| plan.on_restart);
        if on_restart == Some(OnRestart::Terminate) {
            let run = name(book.run());
            self.terminate(book)?;
            let (outcome, reason) = (RunOutcome::Blocked.as_str(), TERMINATED.to_owned());
            return Err(EngineError::Ended { run, outcome, reason });
        }
        if matches!(book.run().head.state, Some(State::Running)) {
            let by = self.settings.by.clone();
            book.append(vec![Event::Restarted { by }])?;
        }
        Ok(())
    }

    /// Ends a run whose policy is not the one in force.
    fn require_policy(&self, book: &mut Book) -> Result<(), EngineError> {
        let recorded = book.run().started.as_ref().map(|started| started.policy_hash);
        if recorded == Some(self.settings.policy_hash) {
            return Ok(());
        }
        let run = name(book.run());
        self.end(book, POLICY_CHANGED, "the policy has changed since the run began")?;
        Err(EngineError::PolicyChanged { run })
    }

    /// Ends a run whose hold nobody answered in time.
    pub(crate) fn expire(&self, book: &mut Book) -> Result<(), EngineError> {
        let run = name(book.run());
        self.end(book, EXPIRED, "nobody answered the hold in time")?;
        Err(EngineError::Expired { run })
    }

    /// Ends a run whose hold was rejected.
    pub(crate) fn end_rejected(&self, book: &mut Book) -> Result<(), EngineError> {
        let run = book.snapshot();
        if let Some(hold) = &run.hold {
            self.decide_call(&run, hold, Answer::Deny)?;
        }
        let detail = book
            .run()
            .hold
            .as_ref()
            .and_then(|hold| hold.votes.last())
            .map_or_else(String::new, |(vote, _)| {
                format!("rejected by {}: {}", vote.by, vote.reason)
            });
        self.end(book, REJECTED, &detail)
    }

    /// Ends a run whose loop does not go on after a death.
    pub(crate) fn terminate(&self, book: &mut Book) -> Result<(), EngineError> {
        self.end(book, TERMINATED, "the run's process died, and the loop does not go on by itself")
    }

    fn end(&self, book: &mut Book, reason: &str, detail: &str) -> Result<(), EngineError> {
        let (reason, detail) = (reason.to_owned(), detail.to_owned());
        book.append(vec![Event::Ended { outcome: RunOutcome::Blocked, reason, detail }])?;
        self.show(book)
    }
}

/// The reasons of ends that the engine itself brings about.
const POLICY_CHANGED: &str = "POLICY_CHANGED_MID_RUN";
const REJECTED: &str = "checkpoint_rejected";
const EXPIRED: &str = "checkpoint_expired";
const TERMINATED: &str = "TERMINATED";

pub(crate) fn name(run: &Run) -> String {
    run.started.as_ref().map(|started| started.run_id.clone()).unwrap_or_default()
}

pub(crate) fn refuse_ended(run: &Run) -> Result<(), EngineError> {
    match &run.ended {
        Some(ended) => Err(EngineError::Ended {
            run: name(run),
            outcome: ended.outcome.as_str(),
            reason: ended.reason.clone(),
        }),
        None => Ok(()),
    }
}
