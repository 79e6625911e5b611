//! Logs the events of runs: ids, names, counts, codes and times, but no questions or answers.

use tracing::{enabled, info};
use windlass_engine::RunObservers;
use windlass_journal::{Observer, ObserverError, Origin, Step};
use windlass_kernel::TraceId;
use windlass_kernel::run::{Event, Run, RunEvent, RunName};

/// Logs the events of runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventLog;

/// The logged fields of an event.
#[derive(Default)]
struct Fields<'a> {
    phase: Option<&'a str>,
    attempt: Option<u32>,
    /// The subject of the event beside the phase: a check, an agent, an outcome.
    what: Option<&'a str>,
    /// A verdict, a result or a reason as one word.
    code: Option<&'a str>,
    duration_ms: Option<u64>,
    calls: Option<usize>,
}

impl RunObservers for EventLog {
    fn observe(&self, _: TraceId) -> Box<dyn Observer<Run>> {
        Box::new(Pending(Vec::new()))
    }
}

/// The events that are not durable yet.
struct Pending(Vec<RunEvent>);

impl Observer<Run> for Pending {
    fn before(&mut self, _: &Run, _: &RunEvent) {}

    fn after(&mut self, step: &Step<'_, Run>) {
        if step.origin == Origin::Appended && enabled!(tracing::Level::INFO) {
            self.0.push(step.artifact.clone());
        }
    }

    fn durable(&mut self, run: &Run) -> Result<(), ObserverError> {
        let trace_id = run.head.trace_id;
        let run_id = RunName::of(trace_id);
        for RunEvent { event, .. } in self.0.drain(..) {
            let Fields { phase, attempt, what, code, duration_ms, calls } = fields(&event);
            let kind = event.kind();
            info!(
                %run_id, %trace_id, kind, phase, attempt, what, code, calls, duration_ms,
                "run event"
            );
        }
        Ok(())
    }
}

fn fields(event: &Event) -> Fields<'_> {
    match event {
        Event::PhaseStarted { phase, attempt } | Event::Waiting { phase, attempt, .. } => {
            Fields { phase: Some(phase), attempt: Some(*attempt), ..Fields::default() }
        }
        Event::PhaseSkipped { phase, .. } => Fields { phase: Some(phase), ..Fields::default() },
        Event::Checked { phase, attempt, check, verdict, duration_ms, .. } => Fields {
            phase: Some(phase),
            attempt: Some(*attempt),
            what: Some(check),
            code: Some(verdict),
            duration_ms: Some(*duration_ms),
            calls: None,
        },
        Event::InvocationStarted { phase, attempt, agent, runner, .. } => Fields {
            phase: Some(phase),
            attempt: Some(*attempt),
            what: Some(agent),
            code: Some(runner),
            ..Fields::default()
        },
        Event::InvocationEnded { duration_ms, .. } => {
            Fields { duration_ms: Some(*duration_ms), ..Fields::default() }
        }
        Event::PhaseDone { phase, attempt, done } => Fields {
            phase: Some(phase),
            attempt: Some(*attempt),
            what: None,
            code: done.failure.as_ref().map(|failure| failure.class.as_str()),
            duration_ms: Some(done.duration_ms),
            calls: Some(done.calls.len()),
        },
        Event::SentBack { phase, to, verdict, .. } => {
            Fields { phase: Some(phase), what: Some(to), code: Some(verdict), ..Fields::default() }
        }
        Event::Warned { resource, .. } => {
            Fields { what: Some(resource.as_str()), ..Fields::default() }
        }
        Event::Held(held) => Fields {
            phase: Some(&held.phase),
            what: held.source.as_deref(),
            code: Some(held.trigger.as_str()),
            ..Fields::default()
        },
        Event::Revoked(_) => Fields { code: Some("REVOKED"), ..Fields::default() },
        Event::Voted(vote) => Fields { code: Some(vote.decision.as_str()), ..Fields::default() },
        Event::Ended { outcome, reason, .. } => {
            Fields { what: Some(outcome.as_str()), code: Some(reason), ..Fields::default() }
        }
        Event::Started(started) => Fields { what: Some(&started.plan.id), ..Fields::default() },
        Event::Begun {}
        | Event::Setup(_)
        | Event::Integration(_)
        | Event::Resumed { .. }
        | Event::Continued {}
        | Event::Reviewed { .. }
        | Event::Checkpointed(_)
        | Event::MergePrepared { .. }
        | Event::Merged { .. }
        | Event::Conflicted { .. }
        | Event::RollbackBegun(_)
        | Event::RolledBack { .. }
        | Event::Restarted { .. }
        | Event::CommitPrepared { .. }
        | Event::Noted { .. } => Fields::default(),
    }
}
