//! `windlass watch`: follows the runs of other processes through the journal.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use windlass_kernel::run::{Run, RunName};
use windlass_kernel::{Code, TraceId};
use windlass_views::{Follower, RecordedEvent, Watcher};

use crate::args::Watch;
use crate::commands::run::open_to_read;
use crate::commands::status::{self, phase_line};
use crate::commands::transcript::{Tail, transcripts};
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, Style, sanitize};
use crate::progress::line;
use crate::project::Project;
use crate::setup::RunSetup;

/// The minimum time between two polls of the journal.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The pause after a poll is at least this many times as long as the poll.
const BACKOFF_FACTOR: u32 = 10;

/// Follows one run or all of them.
pub fn run(project: &Project, options: &Watch, output: &Output) -> CommandResult {
    let stop = Interrupt::new()?;
    let setup = open_to_read(project, None, output)?;
    match &options.run {
        Some(name) => {
            let trace_id = setup.engine.find(name)?;
            let tail = Tail::new(&transcripts(project)?, &RunName::of(trace_id).to_string());
            one(&setup, trace_id, options.follow, tail, &stop, output)
        }
        None => all(&setup, options.follow, &stop, output),
    }
}

/// Whether SIGINT or SIGTERM was received.
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

    /// Waits until the next poll; returns whether to continue.
    fn pause(&self, looked: Duration, output: &Output) -> bool {
        let until = Instant::now() + POLL_INTERVAL.max(looked * BACKOFF_FACTOR);
        loop {
            if self.0.load(Ordering::Relaxed) || output.is_closed() {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(POLL_INTERVAL));
        }
    }
}

fn one(
    setup: &RunSetup,
    trace_id: TraceId,
    follow: bool,
    mut tail: Tail,
    stop: &Interrupt,
    output: &Output,
) -> CommandResult {
    let view = (!output.json && std::io::stdout().is_terminal()).then(PhaseView::new);
    let store = setup.store.as_ref();
    let mut follower = Follower::new(trace_id);
    loop {
        let began = Instant::now();
        // Checked first: if the process is dead, everything it recorded is visible to the read below.
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
        if !output.json {
            let said = tail.poll(output);
            match &view {
                Some(view) => view.print_above(&said),
                None => said.iter().for_each(|line| output.line(line)),
            }
        }
        if let Some(view) = &view {
            view.draw(run, output);
        }
        let waits = run.hold.is_some() && run.ended.is_none();
        let dead = !live && !waits && run.head.sequence_number == before;
        if run.ended.is_some() || (!follow && (waits || dead)) {
            if dead && run.ended.is_none() && !output.json {
                output.note("no process is working on the run; restart it with `windlass recover`");
            }
            return Ok(status::exit(run));
        }
        if !stop.pause(began.elapsed(), output) {
            return Ok(0);
        }
    }
}

fn all(setup: &RunSetup, follow: bool, stop: &Interrupt, output: &Output) -> CommandResult {
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
        // Another run may have started just after one ended: poll once more.
        rounds = if polled.active > 0 { 0 } else { rounds + 1 };
        if !follow && rounds > 1 {
            if !output.json {
                output.note("no run is active; use --follow to wait for the next one");
            }
            return Ok(0);
        }
        if !stop.pause(began.elapsed(), output) {
            return Ok(0);
        }
    }
}

/// Whether lines start with the run id.
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
    if let Some(line) = line(step.event, &|text, style| output.paint(text, style)) {
        match prefix {
            Prefix::None => output.line(&line),
            Prefix::Run => output.line(&format!("{}  {line}", output.paint(&name, Style::Faint))),
        }
    }
    Ok(())
}

/// A list of a run's phases, redrawn in place.
struct PhaseView(ProgressBar);

impl PhaseView {
    fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// Prints lines that stay, above the list.
    fn print_above(&self, lines: &[String]) {
        lines.iter().for_each(|line| self.0.println(line));
    }

    fn draw(&self, run: &Run, output: &Output) {
        let text = lines(run, output).join("\n");
        if self.0.message() != text {
            self.0.set_message(text);
        }
    }
}

impl Drop for PhaseView {
    fn drop(&mut self) {
        // Leave the last state on the screen.
        self.0.abandon();
    }
}

fn lines(run: &Run, output: &Output) -> Vec<String> {
    let Some(started) = run.started.as_deref() else { return Vec::new() };
    let title = sanitize(&started.plan.title);
    let mut lines = vec![format!("{} {title}", output.paint(&started.run_id, Style::Bold))];
    lines.extend(run.all_phases().map(|(phase, state)| phase_line(phase, state, output)));
    lines.push(match (&run.ended, &run.hold) {
        (Some(ended), _) => format!("{} {}", ended.outcome.as_str(), sanitize(&ended.reason)),
        (None, Some(hold)) => {
            format!("{}: {}", output.paint("on hold", Style::Warn), sanitize(&hold.held.question))
        }
        (None, None) => format!("{} tokens", run.spent.tokens),
    });
    lines
}
