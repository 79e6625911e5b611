//! What a session's guard asks of a project.

use std::path::Path;

use windlass_engine::{GitSnapshotStore, SnapshotStore as _, StopSwitch};
use windlass_hooks::HookEvent;
use windlass_kernel::{Code, RiskLevel};
use windlass_runtime::PolicySupervisor;
use windlass_sessions::{Session, SessionError, Surroundings, Unguarded};

use crate::failure::Failure;
use crate::project::Project;

/// A project as the guard of a session sees it.
pub struct ProjectSurroundings<'a> {
    /// The project.
    pub project: &'a Project,
    /// Its policy.
    pub supervisor: &'a PolicySupervisor,
}

impl Project {
    /// The snapshots of the folder that is worked in.
    pub fn snapshots(&self) -> Result<GitSnapshotStore, Failure> {
        let state = self.state()?;
        let (private, blobs) = (state.join("snapshots.git"), state.join("blobs"));
        Ok(GitSnapshotStore::new(self.workspace().to_owned(), private, blobs))
    }
}

impl Surroundings for ProjectSurroundings<'_> {
    fn class(&self, server: &str, tool: &str) -> Option<RiskLevel> {
        self.supervisor.set().registry().find(server, tool).map(|(_, tool)| tool.class)
    }

    fn redacted(&self, text: &str) -> String {
        self.supervisor.redactor().redacted(text)
    }

    fn stopped(&self, run: &str) -> Option<String> {
        let folder = match self.project.stop_folder() {
            Ok(folder) => folder,
            Err(failure) => return Some(failure.summary()),
        };
        let request = StopSwitch::new(folder).requested(Some(run))?;
        Some(format!("stopped by {}: {}", request.by, request.reason))
    }

    fn keep_files(&self, name: &str) -> Result<String, String> {
        let snapshots = self.project.snapshots().map_err(|failure| failure.summary())?;
        let kept = snapshots
            .lock_for_storing()
            .and_then(|_lock| snapshots.capture(self.project.workspace(), name));
        kept.map(|tree| tree.to_string()).map_err(|error| error.to_string())
    }

    fn unguarded(
        &self,
        _event: &HookEvent,
        _session: &Session<'_>,
    ) -> Result<Vec<Unguarded>, SessionError> {
        Ok(Vec::new())
    }

    fn hooks_problem(&self, _event: &HookEvent, _file: Option<&str>) -> Option<String> {
        None
    }
}

/// A path as text.
pub fn text_of(path: &Path) -> Result<String, Failure> {
    let path = path.canonicalize().map_err(|error| crate::input::unreadable(path, &error))?;
    path.into_os_string()
        .into_string()
        .map_err(|_| Failure::new(Code::FileUnreadable, "the path of the project is not UTF-8"))
}
