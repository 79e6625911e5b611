//! Notifications of a project: its receivers, and who sends.

mod links;
mod settings;
mod start;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::sync::Arc;

use windlass_dashboard::Project as _;
use windlass_kernel::Timestamp;
use windlass_notify::{NotifyError, Outbox, ProjectName, Receiver};
use windlass_redact::Redactor;
use windlass_runtime::{Clock as _, SystemClock, redactor_of};
use windlass_store::Store;

pub use settings::{Receivers, ServeSettings, check};
pub use start::{NotifyingObservers, start};

use self::links::DashboardLinks;
use crate::commands::serve;
use crate::dashboard::ServedProject;
use crate::failure::Failure;
use crate::part::Part;
use crate::project::Project;
use crate::setup::environment;
use crate::trust;
use crate::user_config::UserConfig;

/// What sending needs.
pub struct Notifier {
    /// The journal.
    pub store: Arc<dyn Store>,
    receivers: Vec<Receiver>,
    redactor: Arc<Redactor>,
    project: ProjectName,
    links: DashboardLinks,
    /// Locked by the process that waits for what has to be sent again.
    waiting: PathBuf,
    configured_at: Timestamp,
}

/// The right to wait for what has to be sent again: one process of a project has it.
pub struct Waiting {
    _file: File,
}

impl Notifier {
    /// Opens a project to send. Only if the user trusts its settings: they name addresses and programs.
    pub fn open(project: &Project) -> Result<Self, Failure> {
        let files = project.files()?;
        project.require_trust(&files)?;
        let config = Project::config(&files)?;
        let secrets = UserConfig::load()?.named_secrets();
        let set = project.policy(Part::Whole, &files)?;
        let redactor = Arc::new(redactor_of(&set, environment(), &secrets));
        crate::secrets::hide(&redactor);
        let values: BTreeMap<String, String> = secrets.available().collect();
        // Not in the project, where agents write: a command does not find a file of theirs by chance.
        let folder = project.state()?.to_owned();
        let receivers =
            config.notify.iter().map(|(name, one)| one.receiver(name, &folder, &values)).collect();
        let served = ServedProject::new(project.clone())?;
        let (id, name) = (served.id().to_owned(), served.name().to_owned());
        let links = DashboardLinks {
            address: config.serve.address.clone(),
            folder: serve::folder()?,
            project: id.clone(),
        };
        let store: Arc<dyn Store> = Arc::new(project.store(&config)?);
        let waiting = folder.join("locks").join("notify");
        // Nobody was told anything by these settings before the user trusted them.
        let configured_at = trust::when(&folder).unwrap_or_else(|| SystemClock.now());
        let project = ProjectName { id, name };
        Ok(Self { store, receivers, redactor, project, links, waiting, configured_at })
    }

    /// The notifications.
    pub fn outbox(&self) -> Outbox<'_> {
        Outbox {
            store: Arc::clone(&self.store),
            receivers: &self.receivers,
            redactor: &self.redactor,
            clock: &SystemClock,
            project: &self.project,
            links: &self.links,
            configured_at: self.configured_at,
        }
    }

    /// Takes the right to wait; `None` if another process has it, or it cannot be had.
    pub fn wait(&self) -> Option<Waiting> {
        std::fs::create_dir_all(self.waiting.parent()?).ok()?;
        let file = OpenOptions::new().create(true).append(true).open(&self.waiting).ok()?;
        file.try_lock().ok()?;
        Some(Waiting { _file: file })
    }

    /// Whether there is anybody to tell.
    pub fn has_receivers(&self) -> bool {
        !self.receivers.is_empty()
    }
}

impl From<NotifyError> for Failure {
    fn from(error: NotifyError) -> Self {
        let hint = match &error {
            NotifyError::Journal(_) => None,
            NotifyError::NoReceiver { .. } => Some("`windlass notify list` lists the receivers"),
            NotifyError::IsDue { .. } => Some("`windlass notify send` sends what is due"),
        };
        let failure = Self::of(error.code(), &error);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}
