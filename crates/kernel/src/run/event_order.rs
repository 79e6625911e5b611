//! Whether an event can be recorded at all, whatever it says.

use super::event::Event;
use super::plan::{RunOutcome, Trigger};
use super::state::Run;
use crate::State;

impl Run {
    /// Refuses what may not come before a checkpoint that is owed, before a rollback has ended, or
    /// before a person has said that the run goes on.
    pub(super) fn is_due(&self, event: &Event) -> Result<(), String> {
        // Nothing is kept of a run that has not gone on, and it must be possible to end it.
        let gives_up = matches!(event, Event::Ended { outcome, .. } if *outcome != RunOutcome::Pass)
            && self.head.state == Some(State::Resumed);
        let keeps =
            matches!(event, Event::Checkpointed(_) | Event::Continued {} | Event::RollbackBegun(_));
        if self.due_checkpoint.is_some() && !keeps && !gives_up {
            return Err("a checkpoint is owed".to_owned());
        }
        let restores = matches!(event, Event::RolledBack { .. } | Event::Restarted { .. });
        if self.rollback.is_some() && !restores {
            return Err("a rollback is under way".to_owned());
        }
        if self.rollback.is_none() && self.paused && !leaves_paused(event) {
            return Err("nobody has said that it goes on".to_owned());
        }
        Ok(())
    }
}

/// Whether an event can follow in a run that stands where it stands.
pub(super) const fn may_follow(event: &Event, before: Option<State>) -> bool {
    match event {
        Event::Started(_) => before.is_none(),
        Event::Begun {} => matches!(before, Some(State::Init)),
        Event::Continued {} => matches!(before, Some(State::Resumed)),
        Event::Voted(_) | Event::Resumed { .. } => matches!(before, Some(State::Checkpoint)),
        Event::Ended { .. } => matches!(
            before,
            Some(State::Init | State::Running | State::Checkpoint | State::Resumed)
        ),
        // A person may take back a run that waits, and one that has ended.
        Event::RollbackBegun(_) => matches!(
            before,
            Some(State::Running | State::Checkpoint | State::Resumed | State::Terminal)
        ),
        // A run that ends on hold has its last notes made there.
        Event::Noted { .. } => matches!(before, Some(State::Running | State::Checkpoint)),
        Event::PhaseStarted { .. }
        | Event::PhaseSkipped { .. }
        | Event::Checked { .. }
        | Event::InvocationStarted { .. }
        | Event::InvocationEnded { .. }
        | Event::PhaseDone { .. }
        | Event::Reviewed { .. }
        | Event::Checkpointed(_)
        | Event::MergePrepared { .. }
        | Event::Merged { .. }
        | Event::Conflicted { .. }
        | Event::RolledBack { .. }
        | Event::Waiting { .. }
        | Event::SentBack { .. }
        | Event::Warned { .. }
        | Event::Held(_)
        | Event::Restarted { .. }
        | Event::CommitPrepared { .. } => matches!(before, Some(State::Running)),
    }
}

/// Whether an event can be recorded of a run that was taken back and waits for a person.
fn leaves_paused(event: &Event) -> bool {
    match event {
        Event::Held(held) => {
            matches!(held.trigger, Trigger::RolledBack | Trigger::RestartRequested)
        }
        Event::Ended { outcome, .. } => *outcome != RunOutcome::Pass,
        Event::Checkpointed(_)
        | Event::RollbackBegun(_)
        | Event::Voted(_)
        | Event::Resumed { .. }
        | Event::Continued {}
        | Event::Restarted { .. }
        | Event::Noted { .. } => true,
        Event::Started(_)
        | Event::Begun {}
        | Event::PhaseStarted { .. }
        | Event::PhaseSkipped { .. }
        | Event::Checked { .. }
        | Event::InvocationStarted { .. }
        | Event::InvocationEnded { .. }
        | Event::PhaseDone { .. }
        | Event::Reviewed { .. }
        | Event::MergePrepared { .. }
        | Event::Merged { .. }
        | Event::Conflicted { .. }
        | Event::RolledBack { .. }
        | Event::Waiting { .. }
        | Event::SentBack { .. }
        | Event::Warned { .. }
        | Event::CommitPrepared { .. } => false,
    }
}

/// Whether no work was done before the event: its process had died, or may have.
pub(super) fn is_pause(event: &Event) -> bool {
    matches!(event, Event::Restarted { .. } | Event::Ended { .. } | Event::RollbackBegun(_))
        || matches!(event, Event::Held(held) if held.trigger == Trigger::RestartRequested)
}
