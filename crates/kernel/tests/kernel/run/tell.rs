//! Renders events as lines for comparison.

use windlass_kernel::run::Event;

/// Renders an event as one line.
pub fn tell(event: &Event) -> String {
    match event {
        Event::PhaseStarted { phase, attempt } => format!("start {phase} {attempt}"),
        Event::PhaseSkipped { phase, reason } => format!("skip {phase}: {reason}"),
        Event::Checked { phase, attempt, check, verdict, .. } => {
            format!("checked {phase}/{check} {attempt} {verdict}")
        }
        Event::PhaseDone { phase, attempt, done } => match &done.failure {
            Some(failure) => format!("failed {phase} {attempt} {}", failure.class),
            None => format!("done {phase} {attempt}"),
        },
        Event::InvocationStarted { phase, invocation, .. } => {
            format!("invoke {phase} {invocation}")
        }
        Event::InvocationEnded { invocation, .. } => format!("invoked {invocation}"),
        Event::Waiting { phase, attempt, .. } => format!("waiting {phase} {attempt}"),
        Event::SentBack { phase, source, verdict, to, count, .. } => {
            format!("back {phase}/{source} {verdict} -> {to} {count}")
        }
        Event::Warned { resource, used, limit } => {
            format!("warned {} {used}/{limit}", resource.as_str())
        }
        Event::Held(held) => {
            let resource = held.resource.map_or(String::new(), |one| format!(" {}", one.as_str()));
            let (number, trigger, phase) = (held.number, held.trigger.as_str(), &held.phase);
            format!("held {number} {trigger}{resource} at {phase} for {}", held.approvals)
        }
        Event::Revoked(revoked) => format!("{} revoked", revoked.by.name),
        Event::Voted(vote) => format!("{} {}", vote.by.name, vote.decision.as_str()),
        Event::Reviewed { phase, attempt, reviewer, verdict, .. } => {
            format!("reviewed {phase}/{reviewer} {attempt} {verdict}")
        }
        Event::Checkpointed(checkpoint) => {
            let (at, version, kind) =
                (checkpoint.at.as_str(), checkpoint.version, checkpoint.kind.as_str());
            format!("{at}_{}_v{version} {kind}", checkpoint.phase)
        }
        Event::MergePrepared { phase, attempt, .. } => format!("merge {phase} {attempt}"),
        Event::Merged { phase, attempt, .. } => format!("merged {phase} {attempt}"),
        Event::Conflicted { phase, attempt, .. } => format!("conflict {phase} {attempt}"),
        Event::RollbackBegun(rollback) => format!("roll back by {}", rollback.by),
        Event::RolledBack { .. } => "rolled back".to_owned(),
        Event::Ended { outcome, reason, .. } => format!("ended {} {reason}", outcome.as_str()),
        Event::Started(_)
        | Event::Begun {}
        | Event::Resumed { .. }
        | Event::Continued {}
        | Event::Restarted { .. }
        | Event::CommitPrepared { .. }
        | Event::Setup(_)
        | Event::Integration(_)
        | Event::Noted { .. } => event.kind().to_owned(),
    }
}
