//! Prints the progress of a run.

use windlass_engine::RunObservers;
use windlass_journal::{Observer, ObserverError, Origin, Step};
use windlass_kernel::TraceId;
use windlass_kernel::run::plan::RunOutcome;
use windlass_kernel::run::{Event, IntegrationStep, Run, RunEvent, SetupStep};

use crate::output::{Output, Style, sanitize};

/// Prints the steps of runs to standard error.
pub struct ProgressPrinter {
    /// The output to print to.
    pub output: Output,
}

impl RunObservers for ProgressPrinter {
    fn observe(&self, _: TraceId) -> Box<dyn Observer<Run>> {
        Box::new(PendingLines { output: self.output, lines: Vec::new() })
    }
}

/// The lines of events that are not durable yet.
struct PendingLines {
    output: Output,
    lines: Vec<String>,
}

impl Observer<Run> for PendingLines {
    fn before(&mut self, _: &Run, _: &RunEvent) {}

    fn after(&mut self, step: &Step<'_, Run>) {
        if step.origin == Origin::Appended && self.output.shows_progress() {
            let paint = |text: &str, style| self.output.paint_note(text, style);
            let event = &step.artifact.event;
            let title = title_of(step.state, event);
            self.lines.extend(line(event, &paint).map(|line| format!("{line}{title}")));
        }
    }

    fn durable(&mut self, _: &Run) -> Result<(), ObserverError> {
        self.lines.drain(..).for_each(|line| self.output.note(&line));
        Ok(())
    }
}

/// The title of a phase that has started, after a blank; empty if it has none.
fn title_of(run: &Run, event: &Event) -> String {
    let Event::PhaseStarted { phase, .. } = event else { return String::new() };
    let found = run.position(phase).and_then(|at| run.phase(at));
    let title = found.and_then(|(phase, _)| phase.title.as_deref());
    title.map(|title| format!(" {}", sanitize(title))).unwrap_or_default()
}

/// Formats a step of a setup as one line.
fn setup_line(step: &SetupStep, paint: &dyn Fn(&str, Style) -> String) -> Option<String> {
    match step {
        SetupStep::CommandStarted { argv, .. } => {
            Some(format!("  {} setup: {}", paint("…", Style::Faint), sanitize(&argv.join(" "))))
        }
        SetupStep::Started { files, .. } if !files.is_empty() => {
            Some(format!("  {} setup: copies {} files", paint("…", Style::Faint), files.len()))
        }
        SetupStep::Ended { failure: Some(failure) } => {
            Some(format!("  {} setup: {}", paint("✗", Style::Bad), sanitize(&failure.reason)))
        }
        SetupStep::Started { .. } | SetupStep::CommandEnded { .. } | SetupStep::Ended { .. } => {
            None
        }
    }
}

/// Formats a step of a merge as one line.
fn integration_line(step: &IntegrationStep, paint: &dyn Fn(&str, Style) -> String) -> String {
    let mark = paint("⑂", Style::Faint);
    match step {
        IntegrationStep::Prepared(prepared) => {
            format!("  {mark} merges into {}", sanitize(&prepared.into))
        }
        IntegrationStep::Done { commit } => format!("  {mark} merged: {}", sanitize(commit)),
        IntegrationStep::Conflicted { paths, .. } => {
            format!("  {} merge conflict: {}", paint("✗", Style::Bad), sanitize(&paths.join(", ")))
        }
    }
}

/// Formats an event as one line; `None` for events that are not shown.
pub fn line(event: &Event, paint: &dyn Fn(&str, Style) -> String) -> Option<String> {
    Some(match event {
        Event::Started(started) => format!(
            "{} {}: {}",
            paint("run", Style::Bold),
            started.run_id,
            sanitize(&started.plan.title)
        ),
        Event::Setup(step) => return setup_line(step, paint),
        Event::Integration(step) => integration_line(step, paint),
        Event::PhaseStarted { phase, attempt } if *attempt > 1 => {
            format!("  {} {} (attempt {attempt})", paint("…", Style::Faint), sanitize(phase))
        }
        Event::PhaseStarted { phase, .. } => {
            format!("  {} {}", paint("…", Style::Faint), sanitize(phase))
        }
        Event::PhaseDone { phase, done, .. } => {
            let (mark, style) =
                if done.failure.is_some() { ("✗", Style::Bad) } else { ("✓", Style::Good) };
            let calls = match done.calls.len() {
                0 => String::new(),
                1 => ", 1 call".to_owned(),
                count => format!(", {count} calls"),
            };
            let summary = if done.summary.is_empty() {
                String::new()
            } else {
                format!(": {}", sanitize(&done.summary))
            };
            format!(
                "  {} {} ({} ms{calls}){summary}",
                paint(mark, style),
                sanitize(phase),
                done.duration_ms
            )
        }
        Event::PhaseSkipped { phase, reason } => {
            format!(
                "  {} {} skipped: {}",
                paint("-", Style::Faint),
                sanitize(phase),
                sanitize(reason)
            )
        }
        Event::Checked { phase, check, verdict, reason, .. } => format!(
            "  {} {}, {}: {} {}",
            paint("·", Style::Faint),
            sanitize(phase),
            sanitize(check),
            sanitize(verdict),
            sanitize(reason)
        ),
        Event::Reviewed { phase, reviewer, verdict, reason, .. } => format!(
            "  {} {}, {}: {} {}",
            paint("·", Style::Faint),
            sanitize(phase),
            sanitize(reviewer),
            sanitize(verdict),
            sanitize(reason)
        ),
        Event::Merged { phase, .. } => {
            format!("  {} {} merged", paint("⑂", Style::Faint), sanitize(phase))
        }
        Event::Conflicted { phase, paths, .. } => format!(
            "  {} {} merge conflict: {}",
            paint("✗", Style::Bad),
            sanitize(phase),
            sanitize(&paths.join(", "))
        ),
        Event::RollbackBegun(rollback) => format!(
            "{} by {}: {}",
            paint("rolled back", Style::Warn),
            sanitize(&rollback.by),
            sanitize(&rollback.reason)
        ),
        Event::SentBack { phase, verdict, to, count, .. } => format!(
            "  {} {}: {}; back to {} ({count})",
            paint("↩", Style::Warn),
            sanitize(phase),
            sanitize(verdict),
            sanitize(to)
        ),
        Event::Warned { resource, used, limit } => {
            format!("  {} {} of {limit} {} used", paint("!", Style::Warn), used, resource.as_str())
        }
        Event::Held(held) => format!(
            "{} at {}: {} [{}]",
            paint("on hold", Style::Warn),
            sanitize(&held.phase),
            sanitize(&held.question),
            held.trigger.as_str()
        ),
        Event::Restarted { by } => {
            format!(
                "{} by {} from the end of the journal",
                paint("restarted", Style::Bold),
                sanitize(by)
            )
        }
        Event::Resumed { by, .. } => {
            format!("{} by {}", paint("resumed", Style::Bold), sanitize(by))
        }
        Event::Ended { outcome, reason, detail } => {
            let good = *outcome == RunOutcome::Pass;
            let word = paint(outcome.as_str(), if good { Style::Good } else { Style::Bad });
            let detail =
                if detail.is_empty() { String::new() } else { format!(": {}", sanitize(detail)) };
            format!("{word} {}{detail}", sanitize(reason))
        }
        Event::Begun {}
        | Event::Continued {}
        | Event::InvocationStarted { .. }
        | Event::InvocationEnded { .. }
        | Event::Waiting { .. }
        | Event::Voted(_)
        | Event::Revoked(_)
        | Event::Checkpointed(_)
        | Event::MergePrepared { .. }
        | Event::RolledBack { .. }
        | Event::CommitPrepared { .. }
        | Event::Noted { .. } => return None,
    })
}
