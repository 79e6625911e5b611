//! What is logged of runs: ids, names, counts, codes and times, never what was asked or answered.

use std::time::Instant;

use tracing::{debug, enabled, info, warn};
use windlass_kernel::run::plan::OnRestart;
use windlass_kernel::run::{Event, Run, RunName};
use windlass_kernel::{State, TraceId};

use crate::error::EngineError;

/// The time since something began, if anybody wants to know.
pub(crate) struct Watch(Option<Instant>);

/// What is told of an event.
#[derive(Default)]
struct Told<'a> {
    phase: Option<&'a str>,
    attempt: Option<u32>,
    /// A check, an agent, an outcome: what the event is about beside the phase.
    what: Option<&'a str>,
    /// A verdict, a result, a reason in one word.
    code: Option<&'a str>,
    duration_ms: Option<u64>,
    calls: Option<usize>,
}

impl Watch {
    /// Begins to watch, if anything is logged.
    pub(crate) fn start() -> Self {
        Self(enabled!(tracing::Level::ERROR).then(Instant::now))
    }

    fn ms(&self) -> Option<u64> {
        self.0.map(|start| u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Tells of events that have been appended, or of their refusal.
    pub(crate) fn append(&self, run: &Run, events: &[Event], error: Option<&EngineError>) {
        let Some(duration_ms) = self.ms() else { return };
        let trace_id = run.head.trace_id;
        let run_id = RunName::of(trace_id);
        if let Some(error) = error {
            let code = error.code().as_str();
            warn!(%run_id, %trace_id, code, duration_ms, "append refused");
            return;
        }
        let sequence_number = run.head.sequence_number;
        debug!(%run_id, %trace_id, entries = events.len(), sequence_number, duration_ms, "append");
        for event in events {
            let Told { phase, attempt, what, code, duration_ms, calls } = told(event);
            let kind = event.kind();
            info!(
                %run_id, %trace_id, kind, phase, attempt, what, code, calls, duration_ms,
                "run event"
            );
        }
    }

    /// Tells of a run that was taken up, or not.
    pub(crate) fn recovery(
        &self,
        trace_id: TraceId,
        result: &Result<Option<(OnRestart, Run)>, (OnRestart, EngineError)>,
    ) {
        let Some(duration_ms) = self.ms() else { return };
        let run_id = RunName::of(trace_id);
        match result {
            Ok(None) => {}
            Ok(Some((on_restart, run))) => {
                let state = run.head.state.map(State::as_str);
                info!(%run_id, %trace_id, ?on_restart, state, duration_ms, "run recovered");
            }
            Err((on_restart, error)) => {
                let code = error.code().as_str();
                warn!(%run_id, %trace_id, ?on_restart, code, duration_ms, "run not recovered");
            }
        }
    }
}

fn told(event: &Event) -> Told<'_> {
    match event {
        Event::PhaseStarted { phase, attempt } | Event::Waiting { phase, attempt, .. } => {
            Told { phase: Some(phase), attempt: Some(*attempt), ..Told::default() }
        }
        Event::PhaseSkipped { phase, .. } => Told { phase: Some(phase), ..Told::default() },
        Event::Checked { phase, attempt, check, verdict, duration_ms, .. } => Told {
            phase: Some(phase),
            attempt: Some(*attempt),
            what: Some(check),
            code: Some(verdict),
            duration_ms: Some(*duration_ms),
            calls: None,
        },
        Event::InvocationStarted { phase, attempt, agent, runner, .. } => Told {
            phase: Some(phase),
            attempt: Some(*attempt),
            what: Some(agent),
            code: Some(runner),
            ..Told::default()
        },
        Event::InvocationEnded { duration_ms, .. } => {
            Told { duration_ms: Some(*duration_ms), ..Told::default() }
        }
        Event::PhaseDone { phase, attempt, done } => Told {
            phase: Some(phase),
            attempt: Some(*attempt),
            what: None,
            code: done.failure.as_ref().map(|failure| failure.class.as_str()),
            duration_ms: Some(done.duration_ms),
            calls: Some(done.calls.len()),
        },
        Event::SentBack { phase, to, verdict, .. } => {
            Told { phase: Some(phase), what: Some(to), code: Some(verdict), ..Told::default() }
        }
        Event::Warned { resource, .. } => Told { what: Some(resource.as_str()), ..Told::default() },
        Event::Held(held) => Told {
            phase: Some(&held.phase),
            what: held.source.as_deref(),
            code: Some(held.trigger.as_str()),
            ..Told::default()
        },
        Event::Voted(vote) => Told { code: Some(vote.decision.as_str()), ..Told::default() },
        Event::Ended { outcome, reason, .. } => {
            Told { what: Some(outcome.as_str()), code: Some(reason), ..Told::default() }
        }
        Event::Started(started) => Told { what: Some(&started.plan.id), ..Told::default() },
        Event::Begun {}
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
        | Event::Noted { .. } => Told::default(),
    }
}
