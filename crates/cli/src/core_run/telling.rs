//! What the tracker is told of a run.

use windlass_kernel::run::Run;
use windlass_sessions::core::{CoreNote, CoreState};

use super::{CoreRun, run_id};
use crate::core_session::deliveries::DeliveryQueue;
use crate::core_session::documents::begun;
use crate::core_session::tracking;
use crate::people::user_name;
use crate::work;

impl CoreRun {
    /// Writes to the tracker what a run has to tell it so far; what cannot be written now is kept for later.
    pub(super) fn deliver(&self, run: &Run, mut state: CoreState) -> Result<Vec<CoreNote>, String> {
        let run_id = run_id(run);
        let queue = DeliveryQueue::of(&self.project).map_err(|failure| failure.summary())?;
        let tracker =
            || work::tracker(&self.project, &self.config).map_err(|failure| failure.summary());
        let lock = queue.wait_for_lock();
        let delivered = match &lock {
            Some(_) => tracker()
                .map(|tracker| tracking::deliver(tracker.as_ref(), &run_id, &user_name(), &state)),
            None => Err("others write to the tracker now; what waits is written later".to_owned()),
        };
        let at = begun(run.head.trace_id);
        for note in delivered.iter().flatten() {
            state.apply(at, note, 0);
        }
        queue.keep(&run_id, &state)?;
        drop(lock);
        // A tracker that did not take ours does not take theirs.
        if state.undelivered.is_empty() {
            queue.deliver_others(&run_id, tracker);
        }
        delivered
    }
}
