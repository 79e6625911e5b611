//! Starts the sending of what is due in a process of its own, so that nothing waits for a receiver.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use windlass_engine::RunObservers;
use windlass_journal::{Observer, ObserverError, Origin, Step};
use windlass_kernel::TraceId;
use windlass_kernel::run::{Event, Run, RunEvent};
use windlass_store::fault;

use super::settings::Receivers;

/// The most traces that are named to one process.
const TRACES_MAX: usize = 20;

/// Starts the sending in a project, if it has receivers. What cannot be started now is sent by whoever sends next.
pub fn start(root: &Path, receivers: &Receivers, traces: impl IntoIterator<Item = TraceId>) {
    if receivers.is_empty() {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let mut command = Command::new(program);
    command.arg("-C").arg(root).args(["notify", "send", "--wait"]);
    for trace_id in traces.into_iter().take(TRACES_MAX) {
        command.arg(format!("--trace={trace_id}"));
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Ctrl-C does not reach it, and a drill of ours is not one of it.
    command.process_group(0).env_remove(fault::VARIABLE);
    // A command that tells of something may lead to something to tell, which does not end with that command.
    command.env_remove("WINDLASS_NOTIFICATION");
    if let Ok(mut child) = command.spawn() {
        let waits = std::thread::Builder::new().name("windlass-child".to_owned());
        drop(waits.spawn(move || drop(child.wait())));
    }
}

/// Starts the sending when a run has ended or waits.
pub struct NotifyingObservers {
    /// The project's folder.
    pub root: PathBuf,
    /// The receivers.
    pub receivers: Receivers,
}

impl RunObservers for NotifyingObservers {
    fn observe(&self, _: TraceId) -> Box<dyn Observer<Run>> {
        let (root, receivers) = (self.root.clone(), self.receivers.clone());
        Box::new(NotifyingObserver { root, receivers, ready: false })
    }
}

struct NotifyingObserver {
    root: PathBuf,
    receivers: Receivers,
    ready: bool,
}

impl Observer<Run> for NotifyingObserver {
    fn before(&mut self, _: &Run, _: &RunEvent) {}

    fn after(&mut self, step: &Step<'_, Run>) {
        let event = &step.artifact.event;
        self.ready |= step.origin == Origin::Appended
            && matches!(event, Event::Held(_) | Event::Ended { .. });
    }

    fn durable(&mut self, run: &Run) -> Result<(), ObserverError> {
        if std::mem::take(&mut self.ready) {
            start(&self.root, &self.receivers, [run.head.trace_id]);
        }
        Ok(())
    }
}
