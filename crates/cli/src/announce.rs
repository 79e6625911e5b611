//! Says what a run does while it does it.

use windlass_engine::RunObservers;
use windlass_journal::{Observer, ObserverError, Origin, Step};
use windlass_kernel::TraceId;
use windlass_kernel::run::plan::RunOutcome;
use windlass_kernel::run::{Event, Run, RunEvent};

use crate::output::{Ink, Output, plain};

/// Prints the steps of runs to standard error.
pub struct Announcer {
    /// Where to print.
    pub output: Output,
}

impl RunObservers for Announcer {
    fn observe(&self, _: TraceId) -> Box<dyn Observer<Run>> {
        Box::new(Lines { output: self.output, lines: Vec::new() })
    }
}

/// The lines of events that are not durable yet.
struct Lines {
    output: Output,
    lines: Vec<String>,
}

impl Observer<Run> for Lines {
    fn before(&mut self, _: &Run, _: &RunEvent) {}

    fn after(&mut self, step: &Step<'_, Run>) {
        if step.origin == Origin::Appended && !self.output.json {
            let paint = |text: &str, ink| self.output.paint_note(text, ink);
            self.lines.extend(line(&step.artifact.event, &paint));
        }
    }

    fn durable(&mut self, _: &Run) -> Result<(), ObserverError> {
        self.lines.drain(..).for_each(|line| self.output.note(&line));
        Ok(())
    }
}

/// An event in a line; `None` where it is of no interest to a person.
pub fn line(event: &Event, paint: &dyn Fn(&str, Ink) -> String) -> Option<String> {
    Some(match event {
        Event::Started(started) => format!(
            "{} {}: {}",
            paint("run", Ink::Bold),
            started.run_id,
            plain(&started.plan.title)
        ),
        Event::PhaseStarted { phase, attempt } if *attempt > 1 => {
            format!("  {} {} (try {attempt})", paint("…", Ink::Faint), plain(phase))
        }
        Event::PhaseStarted { phase, .. } => {
            format!("  {} {}", paint("…", Ink::Faint), plain(phase))
        }
        Event::PhaseDone { phase, done, .. } => {
            let (mark, ink) =
                if done.failure.is_some() { ("✗", Ink::Bad) } else { ("✓", Ink::Good) };
            let calls = match done.calls.len() {
                0 => String::new(),
                1 => ", 1 call".to_owned(),
                count => format!(", {count} calls"),
            };
            let summary = if done.summary.is_empty() {
                String::new()
            } else {
                format!(": {}", plain(&done.summary))
            };
            format!(
                "  {} {} ({} ms{calls}){summary}",
                paint(mark, ink),
                plain(phase),
                done.duration_ms
            )
        }
        Event::PhaseSkipped { phase, reason } => {
            format!("  {} {} skipped: {}", paint("-", Ink::Faint), plain(phase), plain(reason))
        }
        Event::Checked { phase, check, verdict, reason, .. } => format!(
            "  {} {}, {}: {} {}",
            paint("·", Ink::Faint),
            plain(phase),
            plain(check),
            plain(verdict),
            plain(reason)
        ),
        Event::Reviewed { phase, reviewer, verdict, reason, .. } => format!(
            "  {} {}, {}: {} {}",
            paint("·", Ink::Faint),
            plain(phase),
            plain(reviewer),
            plain(verdict),
            plain(reason)
        ),
        Event::Merged { phase, .. } => {
            format!("  {} {} merged", paint("⑂", Ink::Faint), plain(phase))
        }
        Event::Conflicted { phase, paths, .. } => format!(
            "  {} {} does not fit: {}",
            paint("✗", Ink::Bad),
            plain(phase),
            plain(&paths.join(", "))
        ),
        Event::RollbackBegun(rollback) => format!(
            "{} by {}: {}",
            paint("taken back", Ink::Warn),
            plain(&rollback.by),
            plain(&rollback.reason)
        ),
        Event::SentBack { phase, verdict, to, count, .. } => format!(
            "  {} {}: {}; back to {} ({count})",
            paint("↩", Ink::Warn),
            plain(phase),
            plain(verdict),
            plain(to)
        ),
        Event::Warned { resource, used, limit } => format!(
            "  {} {} of {limit} {} are used",
            paint("!", Ink::Warn),
            used,
            resource.as_str()
        ),
        Event::Held(held) => format!(
            "{} at {}: {} [{}]",
            paint("on hold", Ink::Warn),
            plain(&held.phase),
            plain(&held.question),
            held.trigger.as_str()
        ),
        Event::Restarted { by } => {
            format!("{} by {} where the journal ends", paint("taken up", Ink::Bold), plain(by))
        }
        Event::Resumed { by } => format!("{} by {}", paint("resumed", Ink::Bold), plain(by)),
        Event::Ended { outcome, reason, detail } => {
            let good = *outcome == RunOutcome::Pass;
            let word = paint(outcome.as_str(), if good { Ink::Good } else { Ink::Bad });
            let detail =
                if detail.is_empty() { String::new() } else { format!(": {}", plain(detail)) };
            format!("{word} {}{detail}", plain(reason))
        }
        Event::Begun {}
        | Event::Continued {}
        | Event::InvocationStarted { .. }
        | Event::InvocationEnded { .. }
        | Event::Waiting { .. }
        | Event::Voted(_)
        | Event::Checkpointed(_)
        | Event::MergePrepared { .. }
        | Event::RolledBack { .. }
        | Event::CommitPrepared { .. }
        | Event::Noted { .. } => return None,
    })
}
