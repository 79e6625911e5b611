//! Which events may follow in which state, whatever their content.

use super::event::Event;
use super::plan::{RunOutcome, Trigger};
use super::state::Run;
use crate::State;

impl Run {
    /// Refuses events that may not come before a due checkpoint, before the end of a rollback, or before
    /// a person has answered the hold after a rollback.
    pub(super) fn check_order(&self, event: &Event) -> Result<(), String> {
        // A run that was not continued after its hold needs no checkpoint, and must be able to end.
        let fails = matches!(event, Event::Ended { outcome, .. } if *outcome != RunOutcome::Pass);
        let gives_up = fails && self.head.state == Some(State::Resumed);
        let may_precede =
            matches!(event, Event::Checkpointed(_) | Event::Continued {} | Event::RollbackBegun(_));
        if self.due_checkpoint.is_some() && !may_precede && !gives_up {
            return Err("a checkpoint is due".to_owned());
        }
        let restores = matches!(event, Event::RolledBack { .. } | Event::Restarted { .. });
        // A run whose workspace cannot be restored must be able to end.
        if self.rollback.is_some() && !restores && !fails {
            return Err("a rollback is in progress".to_owned());
        }
        if self.rollback.is_none() && self.paused && !is_allowed_while_paused(event) {
            return Err("the run is paused after a rollback".to_owned());
        }
        Ok(())
    }
}

/// Whether an event may follow the state `before`.
pub(super) const fn may_follow(event: &Event, before: Option<State>) -> bool {
    match event {
        Event::Started(_) => before.is_none(),
        Event::Begun {} => matches!(before, Some(State::Init)),
        Event::Continued {} => matches!(before, Some(State::Resumed)),
        Event::Voted(_) | Event::Revoked(_) | Event::Resumed { .. } => {
            matches!(before, Some(State::Checkpoint))
        }
        Event::Ended { .. } => matches!(
            before,
            Some(State::Init | State::Running | State::Checkpoint | State::Resumed)
        ),
        // A person may roll back a run on hold, and one that has ended.
        Event::RollbackBegun(_) => matches!(
            before,
            Some(State::Running | State::Checkpoint | State::Resumed | State::Terminal)
        ),
        // A run that ends on hold records its last notes on hold.
        Event::Noted { .. } => matches!(before, Some(State::Running | State::Checkpoint)),
        Event::Integration(_) => matches!(before, Some(State::Terminal)),
        Event::Setup(_)
        | Event::PhaseStarted { .. }
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

/// Whether an event is allowed in a run that was rolled back and waits for a person.
fn is_allowed_while_paused(event: &Event) -> bool {
    match event {
        Event::Held(held) => {
            matches!(held.trigger, Trigger::RolledBack | Trigger::RestartRequested)
        }
        Event::Ended { outcome, .. } => *outcome != RunOutcome::Pass,
        Event::Checkpointed(_)
        | Event::RollbackBegun(_)
        | Event::Voted(_)
        | Event::Revoked(_)
        | Event::Resumed { .. }
        | Event::Continued {}
        | Event::Restarted { .. }
        | Event::Noted { .. } => true,
        Event::Started(_)
        | Event::Begun {}
        | Event::Setup(_)
        | Event::Integration(_)
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

/// Whether the time before the event does not count as working time: the process was dead, or may have been.
pub(super) fn ends_idle_time(event: &Event) -> bool {
    matches!(event, Event::Restarted { .. } | Event::Ended { .. } | Event::RollbackBegun(_))
        || matches!(event, Event::Held(held) if held.trigger == Trigger::RestartRequested)
}
