//! Several people who decide about one run at the same moment: each waits for their turn.

use std::time::{Duration, Instant};

use windlass_journal::JournalError;
use windlass_kernel::TraceId;
use windlass_kernel::run::{Hold, Resolution, Run};

use crate::engine::{Engine, refuse_ended, run_name};
use crate::error::EngineError;
use crate::run_recorder::RunRecorder;

/// How long an answer waits for the process that has the run.
const WAIT: Duration = Duration::from_secs(5);
/// How often it looks.
const TICK: Duration = Duration::from_millis(20);

impl Engine {
    /// Opens a run for an answer to its hold. If somebody else answers at this moment, the answer waits, and is judged by
    /// what they have recorded.
    pub(crate) fn open_to_answer(&self, trace_id: TraceId) -> Result<RunRecorder, EngineError> {
        self.open_in_turn(trace_id, &mut |run| {
            refuse_ended(run)?;
            open_hold(run).map(drop)
        })
    }

    /// Opens a run that another process may have for a moment. While it does, `check` says whether it is worth to wait.
    pub(crate) fn open_in_turn(
        &self,
        trace_id: TraceId,
        check: &mut dyn FnMut(&Run) -> Result<(), EngineError>,
    ) -> Result<RunRecorder, EngineError> {
        let began = Instant::now();
        loop {
            let held = match self.open(trace_id) {
                Err(error @ EngineError::Journal(JournalError::Held(_))) => error,
                opened => return opened,
            };
            check(&self.read(trace_id)?)?;
            if began.elapsed() >= WAIT {
                return Err(held);
            }
            std::thread::sleep(TICK);
        }
    }
}

/// The hold of a run that can still be answered.
pub(crate) fn open_hold(run: &Run) -> Result<Hold, EngineError> {
    let name = run_name(run);
    let Some(hold) = run.hold.clone() else {
        return Err(EngineError::NotOnHold { run: name });
    };
    let decision = match hold.resolution() {
        Resolution::Open => return Ok(hold),
        Resolution::Approved => "APPROVED",
        Resolution::Rejected => "REJECTED",
    };
    Err(EngineError::AlreadyResolved { run: name, decision })
}
