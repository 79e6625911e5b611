//! `serve --work`: takes up runs that became ready.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_dashboard::{Command, Problem, Project as _};
use windlass_journal::Runs;
use windlass_kernel::State;
use windlass_kernel::run::plan::Trigger;
use windlass_kernel::run::{Resolution, RunName};
use windlass_kernel::{Code, Timestamp, TraceId};
use windlass_runtime::{Clock as _, SystemClock};
use windlass_store::TraceFilter;
use windlass_views::RunSummary;

use super::ServedProject;
use crate::output::Output;

/// How often runs are looked at.
const PAUSE: Duration = Duration::from_secs(2);
/// A run that was taken up is left alone for this long, in case it fails at once.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// The most runs on hold that are looked at in one project.
const RUNS_MAX: usize = 10_000;

/// Takes up runs that became ready.
pub struct Worker {
    projects: Vec<Arc<ServedProject>>,
    taken: BTreeMap<TraceId, Instant>,
}

impl Worker {
    /// Works for these projects.
    pub fn new(projects: Vec<Arc<ServedProject>>) -> Self {
        Self { projects, taken: BTreeMap::new() }
    }

    /// Works for this project, too.
    pub fn add(&mut self, project: Arc<ServedProject>) {
        self.projects.push(project);
    }

    /// How long to wait before the next look.
    pub const fn pause() -> Duration {
        PAUSE
    }

    /// Looks once, and takes up what is ready.
    pub fn look(&mut self, output: &Output) {
        self.taken.retain(|_, since| since.elapsed() < AGAIN_AFTER);
        for project in self.projects.clone() {
            match find_due(&project, SystemClock.now()) {
                Ok(due) => {
                    due.expired.into_iter().for_each(|run| self.end(&project, run, output));
                    due.ready.into_iter().for_each(|run| self.take(&project, run, output));
                }
                Err(problem) => output.note(&format!("{}: {}", project.name(), problem.message)),
            }
        }
    }

    /// Ends a run whose hold nobody has answered in time: whoever looks at it does so.
    fn end(&mut self, project: &ServedProject, run: TraceId, output: &Output) {
        if self.taken.contains_key(&run) {
            return;
        }
        self.taken.insert(run, Instant::now());
        let name = RunName::of(run).to_string();
        output.note(&format!("{}: {name} has waited too long", project.name()));
        if let Err(problem) = project.command(Command::new(["queue", "show", "--", &name])) {
            output.note(&format!("{name}: {} [{}]", problem.message, problem.code));
        }
    }

    fn take(&mut self, project: &ServedProject, run: TraceId, output: &Output) {
        if self.taken.contains_key(&run) {
            return;
        }
        self.taken.insert(run, Instant::now());
        let name = RunName::of(run).to_string();
        output.note(&format!("{}: going on with {name}", project.name()));
        let command = Command::new(["resume", "--", &name]);
        if let Err(problem) = project.start(command) {
            // Another run works in the same folder: it is this one's turn when that has ended.
            if problem.code == Code::RunConcurrent.as_str() {
                self.taken.remove(&run);
            }
            output.note(&format!("{name}: {} [{}]", problem.message, problem.code));
        }
    }
}

/// The runs of a project about which something is to be done.
#[derive(Default)]
struct Due {
    /// Those that can go on: enough people have answered, or the time has come that they waited for.
    ready: Vec<TraceId>,
    /// Those whose holds nobody has answered in time.
    expired: Vec<TraceId>,
}

fn find_due(project: &ServedProject, now: Timestamp) -> Result<Due, Problem> {
    let store = project.store()?;
    let state = Some(State::Checkpoint);
    let filter = TraceFilter { state, ..TraceFilter::open(RUNS_MAX) };
    let runs = Runs::new(Arc::clone(&store));
    let mut due = Due::default();
    for trace in store.list_traces(&filter)? {
        if store.is_held(&trace)? {
            continue;
        }
        // One that cannot be read does not hinder the others; pages show it.
        let Ok(summary) = RunSummary::read(store.as_ref(), &trace.head) else { continue };
        let Some(hold) = &summary.hold else { continue };
        if hold.resolution() == Resolution::Open && hold.is_expired(now) {
            due.expired.push(trace.head.trace_id);
            continue;
        }
        // A session goes on in its client.
        if summary.client.is_some() {
            continue;
        }
        let is_answered = hold.resolution() != Resolution::Open;
        // When an agent can be asked again is known from the whole run only.
        let is_due = || {
            let waits = hold.held.trigger == Trigger::AgentUnavailable;
            let run = waits.then(|| runs.read(trace.head.trace_id).ok()).flatten();
            run.and_then(|run| run.due()).is_some_and(|due| due <= now)
        };
        if is_answered || is_due() {
            due.ready.push(trace.head.trace_id);
        }
    }
    Ok(due)
}
