//! How a close is recorded, and what the tracker is told.

use serde_json::json;

use super::guard::Core;
use super::note::CoreNote;
use super::settings::CoreSettings;
use super::surroundings::{CloseReport, SessionFacts};
use crate::error::SessionError;
use crate::sessions::Session;

impl Session<'_> {
    /// Writes to the tracker what waits to be written, and records what was.
    ///
    /// # Errors
    /// [`SessionError`] if the session cannot be read or it cannot be recorded.
    pub fn deliver(&self, core: Core<'_>, facts: SessionFacts<'_>) -> Result<(), SessionError> {
        let waiting = || self.core(core.settings, |now| Ok((Vec::new(), now.state.clone())));
        if waiting()?.undelivered.is_empty() {
            return Ok(());
        }
        // Two processes would write the same things.
        let _lock = self.lock_deliveries()?;
        self.flush()?;
        let notes = core.surroundings.deliver(facts, &waiting()?);
        self.core(core.settings, |_| Ok((notes, ())))
    }

    /// Records how a close went. A conflict with what others have pushed puts the session on hold.
    ///
    /// # Errors
    /// [`SessionError`] if it cannot be recorded.
    pub fn record_close(
        &self,
        settings: &CoreSettings,
        report: &CloseReport,
    ) -> Result<(), SessionError> {
        let mut notes: Vec<CoreNote> =
            report.steps.iter().cloned().map(CoreNote::Closing).collect();
        if report.succeeded() {
            notes.push(CoreNote::Closed { commit: report.commit.clone() });
        }
        self.core(settings, |_| Ok((notes, ())))?;
        if report.conflict.is_empty() {
            return Ok(());
        }
        let question = format!(
            "others have pushed changes of the same lines in {}: resolve it (`git pull --rebase`) and approve to have \
             the session closed; a rejection ends the session without a push",
            report.conflict.join(", ")
        );
        self.hold_for_conflict(&question, json!({ "paths": report.conflict }))
    }
}
