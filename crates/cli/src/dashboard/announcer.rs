//! Notifications while the dashboard is served: when something is due, `notify send` is started.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_dashboard::{Command, Problem, Project as _};
use windlass_notify::{Lookout, Receiver, is_due};
use windlass_runtime::{Clock as _, SystemClock};

use super::ServedProject;
use crate::output::{Output, sanitize};

/// How often journals are looked at.
const PAUSE: Duration = Duration::from_secs(2);
/// After an error a project is left alone for this long.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Starts the sending of notifications.
pub struct Announcer {
    project: Arc<ServedProject>,
    lookout: Lookout,
    resting: Option<Instant>,
}

impl Announcer {
    /// Looks at these projects in a thread of its own, until the process ends. The thread holds nothing that could be
    /// lost: what it starts goes on by itself.
    pub fn start(projects: Vec<Arc<ServedProject>>, output: Output) -> std::io::Result<()> {
        let mut all: Vec<Self> = projects
            .into_iter()
            .map(|project| Self { project, lookout: Lookout::default(), resting: None })
            .collect();
        let thread = std::thread::Builder::new().name("windlass-notify".to_owned());
        thread.spawn(move || {
            loop {
                for one in &mut all {
                    one.look(output);
                }
                std::thread::sleep(PAUSE);
            }
        })?;
        Ok(())
    }

    fn look(&mut self, output: Output) {
        if self.resting.is_some_and(|since| since.elapsed() < AGAIN_AFTER) {
            return;
        }
        self.resting = None;
        if let Err(problem) = self.try_look() {
            let (name, why) = (self.project.name(), sanitize(&problem.message));
            output.note(&format!("{name}: notifications: {why} [{}]", problem.code));
            self.resting = Some(Instant::now());
        }
    }

    fn try_look(&mut self) -> Result<(), Problem> {
        let settings = self.project.settings();
        let settings =
            settings.map_err(|failure| Problem::new(failure.code(), failure.summary()))?;
        if settings.notify.is_empty() {
            return Ok(());
        }
        let receivers: Vec<Receiver> =
            settings.notify.iter().map(|(name, one)| one.outline(name)).collect();
        let (store, now) = (self.project.store()?, SystemClock.now());
        let subjects = self.lookout.look(store.as_ref(), now, &[])?;
        if is_due(store.as_ref(), &receivers, &subjects, now)? {
            // Whatever is not recorded by that process is found again.
            self.lookout.forget();
            self.project.start(Command::new(["notify", "send"]))?;
        }
        Ok(())
    }
}
