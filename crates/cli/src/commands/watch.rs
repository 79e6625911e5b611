//! `windlass watch`: runs of other processes, as they become durable.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use windlass_kernel::run::{PhaseStatus, Run, RunName};
use windlass_kernel::{Code, TraceId};
use windlass_views::{Follower, RecordedEvent, Watcher};

use crate::announce::line;
use crate::args::Watch;
use crate::commands::run::open;
use crate::commands::status;
use crate::failure::{Done, Failure};
use crate::output::{Ink, Output, plain};
use crate::project::Project;
use crate::setup::RunSetup;

/// How often the journal is looked at.
const PAUSE: Duration = Duration::from_millis(100);
/// A look that takes long is followed by a pause so many times as long.
const PATIENCE: u32 = 10;

/// Follows one run or all of them.
pub fn run(project: &Project, options: &Watch, output: &Output) -> Done {
    let stop = Interrupt::new()?;
    let setup = open(project, None, output)?;
    match &options.run {
        Some(name) => {
            let trace_id = setup.engine.find(name)?;
            one(&setup, trace_id, options.follow, &stop, output)
        }
        None => all(&setup, options.follow, &stop, output),
    }
}

/// Whether a person has had enough.
struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    fn new() -> Result<Self, Failure> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&flag))
                .map_err(|error| Failure::of(Code::Internal, &error))?;
        }
        Ok(Self(flag))
    }

    /// Waits until it is time to look again; tells whether to go on.
    fn pause(&self, looked: Duration, output: &Output) -> bool {
        let until = Instant::now() + PAUSE.max(looked * PATIENCE);
        loop {
            if self.0.load(Ordering::Relaxed) || output.is_closed() {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(PAUSE));
        }
    }
}

fn one(
    setup: &RunSetup,
    trace_id: TraceId,
    follow: bool,
    stop: &Interrupt,
    output: &Output,
) -> Done {
    let view = (!output.json && std::io::stdout().is_terminal()).then(View::new);
    let store = setup.store.as_ref();
    let mut follower = Follower::new(trace_id);
    loop {
        let began = Instant::now();
        // Asked first: whatever a process that is gone has recorded is there to be read then.
        let live = store.is_held(&store.load_state(trace_id)?)?;
        let before = follower.run().head.sequence_number;
        let mut failed = Ok(());
        follower.catch_up(store, &mut |_, step| {
            if view.is_none() && failed.is_ok() {
                failed = show(step, Prefix::None, output);
            }
        })?;
        failed?;
        let run = follower.run();
        if let Some(view) = &view {
            view.draw(run, output);
        }
        let waits = run.hold.is_some() && run.ended.is_none();
        let dead = !live && !waits && run.head.sequence_number == before;
        if run.ended.is_some() || (!follow && (waits || dead)) {
            if dead && run.ended.is_none() && !output.json {
                output.note("no process is at work on it: `windlass recover` takes it up");
            }
            return Ok(status::exit(run));
        }
        if !stop.pause(began.elapsed(), output) {
            return Ok(0);
        }
    }
}

fn all(setup: &RunSetup, follow: bool, stop: &Interrupt, output: &Output) -> Done {
    let store = setup.store.as_ref();
    let mut watcher = Watcher::new(store)?;
    let mut rounds = 0_u64;
    loop {
        let began = Instant::now();
        let mut failed = Ok(());
        let polled = watcher.poll(store, &mut |step| {
            if failed.is_ok() {
                failed = show(step, Prefix::Run, output);
            }
        })?;
        failed?;
        for (trace_id, error) in &polled.unreadable {
            let name = RunName::of(*trace_id);
            output.note(&format!("{name} cannot be followed: {error} [{}]", error.code()));
        }
        // One that has just ended may have been followed by another: it gets a second look.
        rounds = if polled.active > 0 { 0 } else { rounds + 1 };
        if !follow && rounds > 1 {
            if !output.json {
                output.note("no run is at work; --follow waits for the next one");
            }
            return Ok(0);
        }
        if !stop.pause(began.elapsed(), output) {
            return Ok(0);
        }
    }
}

/// Whether a line says whose it is.
#[derive(Clone, Copy)]
enum Prefix {
    None,
    Run,
}

fn show(step: RecordedEvent<'_>, prefix: Prefix, output: &Output) -> Result<(), Failure> {
    let name = RunName::of(step.trace_id).to_string();
    if output.json {
        return output.value(&json!({
            "run_id": name,
            "trace_id": step.trace_id,
            "sequence_number": step.sequence_number,
            "ts": step.ts,
            "kind": step.event.kind(),
            "event": step.event,
        }));
    }
    if let Some(line) = line(step.event, &|text, ink| output.paint(text, ink)) {
        match prefix {
            Prefix::None => output.line(&line),
            Prefix::Run => output.line(&format!("{}  {line}", output.paint(&name, Ink::Faint))),
        }
    }
    Ok(())
}

/// The phases of a run, drawn over themselves.
struct View(ProgressBar);

impl View {
    fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    fn draw(&self, run: &Run, output: &Output) {
        let text = lines(run, output).join("\n");
        if self.0.message() != text {
            self.0.set_message(text);
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // What was drawn stays.
        self.0.abandon();
    }
}

fn lines(run: &Run, output: &Output) -> Vec<String> {
    let Some(started) = run.started.as_deref() else { return Vec::new() };
    let title = plain(&started.plan.title);
    let mut lines = vec![format!("{} {title}", output.paint(&started.run_id, Ink::Bold))];
    for (phase, state) in run.all_phases() {
        let (mark, ink) = match state.status {
            PhaseStatus::Complete => ("✓", Ink::Good),
            PhaseStatus::Failed => ("✗", Ink::Bad),
            PhaseStatus::Running => ("…", Ink::Warn),
            PhaseStatus::Skipped => ("-", Ink::Faint),
            PhaseStatus::Pending => ("·", Ink::Faint),
        };
        let tries =
            if state.attempt > 1 { format!(" (try {})", state.attempt) } else { String::new() };
        let summary = state.done.as_ref().map(|done| plain(&done.summary)).unwrap_or_default();
        let line = format!("  {} {}{tries}  {summary}", output.paint(mark, ink), plain(&phase.id));
        lines.push(line.trim_end().to_owned());
    }
    lines.push(match (&run.ended, &run.hold) {
        (Some(ended), _) => format!("{} {}", ended.outcome.as_str(), plain(&ended.reason)),
        (None, Some(hold)) => {
            format!("{}: {}", output.paint("on hold", Ink::Warn), plain(&hold.held.question))
        }
        (None, None) => format!("{} tokens", run.spent.tokens),
    });
    lines
}
