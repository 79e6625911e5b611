//! What waits to be written to the tracker, for later sessions of the project.
//!
//! The journal has it, too, and a session that goes on writes its own. These files are for those that do not: blocked
//! or ended ones, and runs.

use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use windlass_sessions::core::{CoreNote, CoreState};
use windlass_work::Tracker;

use super::{documents, tracking};
use crate::failure::Failure;
use crate::people::user_name;
use crate::project::Project;

/// The folder in the state folder.
const FOLDER: &str = "deliveries";
/// How long is waited for others who write to the tracker, and how long at a time.
const WAITED_MAX: Duration = Duration::from_secs(1);
const WAITED_AT_A_TIME: Duration = Duration::from_millis(20);
/// The most sessions whose deliveries are made at once.
const SESSIONS_MAX: usize = 20;

/// What waits of one session or run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Waiting {
    run: String,
    /// Only what a delivery needs of it.
    state: CoreState,
}

/// The deliveries of a project that wait.
pub struct DeliveryQueue {
    folder: PathBuf,
}

impl DeliveryQueue {
    /// The deliveries of a project.
    ///
    /// # Errors
    /// [`Failure`] if it has no state folder.
    pub fn of(project: &Project) -> Result<Self, Failure> {
        Ok(Self { folder: project.state()?.join(FOLDER) })
    }

    /// Keeps others from writing to the tracker until it is dropped; `None` if somebody does: then what waits is written
    /// another time.
    pub fn lock(&self) -> Option<File> {
        std::fs::create_dir_all(&self.folder).ok()?;
        let path = self.folder.join("lock");
        let file = OpenOptions::new().create(true).append(true).open(path).ok()?;
        file.try_lock().ok()?;
        Some(file)
    }

    /// As [`Self::lock`], but waits for others, who do not take long.
    pub fn wait_for_lock(&self) -> Option<File> {
        let begun = Instant::now();
        loop {
            match self.lock() {
                None if begun.elapsed() < WAITED_MAX => std::thread::sleep(WAITED_AT_A_TIME),
                locked => return locked,
            }
        }
    }

    /// Keeps what waits of a session or run, and forgets it if nothing does.
    ///
    /// # Errors
    /// Why it could not be kept.
    pub fn keep(&self, run: &str, state: &CoreState) -> Result<(), String> {
        let path = self.folder.join(format!("{run}.json"));
        if state.undelivered.is_empty() {
            return match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(error.to_string())
                }
                Ok(()) | Err(_) => Ok(()),
            };
        }
        let state = CoreState {
            prompt: state.prompt,
            items: state.items.clone(),
            undelivered: state.undelivered.clone(),
            ..CoreState::default()
        };
        let waiting = Waiting { run: run.to_owned(), state };
        let bytes = serde_json::to_vec(&waiting).map_err(|error| error.to_string())?;
        documents::write(&path, &bytes)
    }

    /// What waits of other sessions and runs, oldest first: their names begin with their times.
    fn others(&self, own: &str) -> Vec<Waiting> {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return Vec::new() };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        let read = |path: &PathBuf| -> Option<Waiting> {
            serde_json::from_slice(&std::fs::read(path).ok()?).ok()
        };
        let found = paths.iter().filter_map(read).filter(|one| one.run != own);
        found.take(SESSIONS_MAX).collect()
    }

    /// Writes what waits of other sessions and runs to the tracker, up to the first that must wait longer.
    pub fn deliver_others<'a>(
        &self,
        own: &str,
        tracker: impl FnOnce() -> Result<Box<dyn Tracker + 'a>, String>,
    ) {
        if self.others(own).is_empty() {
            return;
        }
        let (Some(_lock), Ok(tracker)) = (self.lock(), tracker()) else { return };
        // Somebody may have written some of it before we had the lock.
        for Waiting { run, mut state } in self.others(own) {
            let notes = tracking::deliver(tracker.as_ref(), &run, &user_name(), &state);
            for note in &notes {
                if let CoreNote::Delivered { key, item } = note {
                    state.undelivered.retain(|one| one.key != *key);
                    state.items.insert(key.clone(), item.clone());
                }
            }
            let is_done = state.undelivered.is_empty();
            // What could not be forgotten is found in the tracker by its label, and not written twice.
            drop(self.keep(&run, &state));
            if !is_done {
                return;
            }
        }
    }
}
