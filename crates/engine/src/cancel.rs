//! Ends a run that nobody wants any more.

use std::time::{Duration, Instant};

use windlass_journal::JournalError;
use windlass_kernel::run::plan::{Plan, RunOutcome};
use windlass_kernel::run::{Event, Run};
use windlass_kernel::{Code, TraceId};

use crate::engine::{Engine, refuse_ended, run_name};
use crate::error::EngineError;
use crate::queue::check_person;
use crate::stop::StopRequest;

/// The reason with which a cancelled run ends.
const CANCELLED: &str = "cancelled";
/// How long a cancellation waits for the process that works on the run.
const WAIT: Duration = Duration::from_secs(10);
/// How often it looks.
const TICK: Duration = Duration::from_millis(50);

/// The result of a cancellation.
#[derive(Clone, Debug)]
pub enum Cancellation {
    /// The run has ended.
    Ended(Box<Run>),
    /// A process works on the run and ends it before its next effect.
    Requested(Box<Run>),
}

impl Engine {
    /// Ends a run that has not ended. Neither its repository nor its work tree nor its policy is looked at.
    /// A run that a process works on is ended by that process, before its next effect.
    ///
    /// # Errors
    /// [`EngineError`] if the run has ended, is a session, or cannot be written.
    pub fn cancel(
        &self,
        trace_id: TraceId,
        by: &str,
        reason: &str,
    ) -> Result<Cancellation, EngineError> {
        let by = by.trim();
        check_person(by, reason)?;
        let reason = self.redacted(reason);
        let seen = self.read(trace_id)?;
        refuse_ended(&seen)?;
        let run_id = run_name(&seen);
        if seen.plan().is_some_and(Plan::is_session) {
            let message = format!("run `{run_id}` is a session of a client");
            let hint = Some(format!("run `windlass session end {run_id}`"));
            return Err(EngineError::Invalid { code: Code::RequestInvalid, message, hint });
        }
        let request = StopRequest { by: by.to_owned(), reason, cancel: true };
        let began = Instant::now();
        let mut requested = false;
        loop {
            match self.open(trace_id) {
                // The process that worked on it has ended it.
                Ok(recorder) if recorder.run().ended.is_some() && requested => {
                    self.stop.clear(Some(&run_id))?;
                    return Ok(Cancellation::Ended(Box::new(recorder.run().clone())));
                }
                Ok(mut recorder) => {
                    refuse_ended(recorder.run())?;
                    self.withdraw_call(recorder.run(), &detail_of(&request))?;
                    recorder.append(vec![cancelled(&request)])?;
                    self.stop.clear(Some(&run_id))?;
                    return Ok(Cancellation::Ended(Box::new(recorder.run().clone())));
                }
                Err(EngineError::Journal(JournalError::Held(_))) => {}
                Err(error) => return Err(error),
            }
            if !requested {
                self.stop.request(Some(&run_id), &request)?;
                requested = true;
            }
            if began.elapsed() >= WAIT {
                return Ok(Cancellation::Requested(Box::new(self.read(trace_id)?)));
            }
            std::thread::sleep(TICK);
        }
    }
}

/// The end of a run that was stopped or cancelled.
pub(crate) fn end_by(request: &StopRequest) -> Event {
    if request.cancel {
        return cancelled(request);
    }
    let (outcome, reason) = (RunOutcome::Blocked, "kill_switch_active".to_owned());
    Event::Ended { outcome, reason, detail: detail_of(request) }
}

/// Who ends a run, and why.
pub(crate) fn detail_of(StopRequest { by, reason, cancel }: &StopRequest) -> String {
    let word = if *cancel { "cancelled" } else { "stopped" };
    format!("{word} by {by}: {reason}")
}

fn cancelled(request: &StopRequest) -> Event {
    let (outcome, reason) = (RunOutcome::Blocked, CANCELLED.to_owned());
    Event::Ended { outcome, reason, detail: detail_of(request) }
}
