//! The events of a run that spans show.

use windlass_kernel::run::{Event, WaitsFor};

use super::{AttributeValue, Attributes};

/// Describes an event: the phase whose span shows it (`None` for the span of the run), its name and its
/// attributes. Returns `None` if spans do not show it.
pub(super) fn describe(event: &Event) -> Option<(Option<&str>, &'static str, Attributes)> {
    let (phase, name, attributes) = match event {
        Event::Checked { phase, check, verdict, .. } => (
            Some(phase),
            "check",
            Attributes::from([
                ("windlass.check", check.as_str().into()),
                ("windlass.verdict", verdict.as_str().into()),
            ]),
        ),
        Event::SentBack { phase, source, verdict, to, count, .. } => (
            Some(phase),
            "redo",
            Attributes::from([
                ("windlass.source", source.as_str().into()),
                ("windlass.verdict", verdict.as_str().into()),
                ("windlass.to", to.as_str().into()),
                ("windlass.count", u64::from(*count).into()),
            ]),
        ),
        Event::Held(held) => (
            None,
            "hold",
            Attributes::from([
                ("windlass.phase", held.phase.as_str().into()),
                ("windlass.trigger", held.trigger.as_str().into()),
                ("windlass.number", u64::from(held.number).into()),
            ]),
        ),
        Event::Revoked(_) => (None, "vote revoked", Attributes::new()),
        Event::Voted(vote) => {
            (None, "vote", Attributes::from([("windlass.decision", vote.decision.as_str().into())]))
        }
        Event::PhaseSkipped { phase, .. } => {
            (None, "skip", Attributes::from([("windlass.phase", phase.as_str().into())]))
        }
        Event::Warned { resource, used, limit } => (
            None,
            "budget",
            Attributes::from([
                ("windlass.resource", resource.as_str().into()),
                ("windlass.used", (*used).into()),
                ("windlass.limit", (*limit).into()),
            ]),
        ),
        Event::Reviewed { phase, reviewer, verdict, .. } => (
            Some(phase),
            "review",
            Attributes::from([
                ("windlass.reviewer", reviewer.as_str().into()),
                ("windlass.verdict", verdict.as_str().into()),
            ]),
        ),
        Event::Conflicted { phase, .. } => (Some(phase), "conflict", Attributes::new()),
        Event::Merged { phase, .. } => (Some(phase), "merge", Attributes::new()),
        Event::RollbackBegun(rollback) => (
            None,
            "rollback",
            Attributes::from([(
                "windlass.checkpoint",
                AttributeValue::Text(rollback.checkpoint.to_string()),
            )]),
        ),
        Event::Resumed { .. } => (None, "resume", Attributes::new()),
        Event::Restarted { .. } => (None, "restart", Attributes::new()),
        Event::Waiting { phase, waits_for, .. } => {
            let attributes = match waits_for {
                WaitsFor::Call { call } => {
                    Attributes::from([("windlass.call", AttributeValue::Text(call.to_string()))])
                }
                WaitsFor::Agent { .. } | WaitsFor::Budget { .. } => Attributes::new(),
            };
            (Some(phase), "wait", attributes)
        }
        Event::Started(_)
        | Event::Begun {}
        | Event::Setup(_)
        | Event::Integration(_)
        | Event::PhaseStarted { .. }
        | Event::InvocationStarted { .. }
        | Event::InvocationEnded { .. }
        | Event::PhaseDone { .. }
        | Event::Checkpointed(_)
        | Event::MergePrepared { .. }
        | Event::RolledBack { .. }
        | Event::Continued {}
        | Event::CommitPrepared { .. }
        | Event::Noted { .. }
        | Event::Ended { .. } => return None,
    };
    Some((phase.map(String::as_str), name, attributes))
}
