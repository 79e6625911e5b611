//! What a session's guard asks of a project.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use windlass_engine::{GitSnapshotStore, SnapshotStore as _, StopSwitch};
use windlass_hooks::{Client, EventKind, HookEvent};
use windlass_journal::{JournalError, RunFilter, Runs};
use windlass_kernel::{Code, RiskLevel, TraceId};
use windlass_policy::Connector;
use windlass_runtime::PolicySupervisor;
use windlass_sessions::{CLIENT_SERVER, Session, SessionError, Surroundings, Unguarded};
use windlass_store::Store;
use windlass_views::RunSummary;

use crate::failure::Failure;
use crate::installed;
use crate::project::Project;
use crate::session_transcripts::{self, Histories, TranscriptCheck};
use crate::setup::SNAPSHOTS;

/// A project as the guard of a session sees it.
pub struct ProjectSurroundings<'a> {
    /// The project.
    pub project: &'a Project,
    /// Its policy.
    pub supervisor: &'a PolicySupervisor,
    /// Its journal.
    pub store: &'a Arc<dyn Store>,
    /// The folder that is worked in.
    pub root: &'a str,
}

/// The most sessions that are looked through.
const SESSIONS_MAX: usize = 10_000;

impl Project {
    /// The snapshots of the folder that is worked in.
    pub fn snapshots(&self) -> Result<GitSnapshotStore, Failure> {
        let state = self.state()?;
        let (private, blobs) = (state.join(SNAPSHOTS), state.join("blobs"));
        Ok(GitSnapshotStore::new(self.workspace().to_owned(), private, blobs))
    }
}

impl Surroundings for ProjectSurroundings<'_> {
    fn class(&self, server: &str, tool: &str) -> Option<RiskLevel> {
        self.supervisor.set().registry().find(server, tool).map(|(_, tool)| tool.class)
    }

    fn is_own_server(&self, server: &str) -> bool {
        let mut servers = self.supervisor.set().registry().tools().map(|(server, _)| server);
        let found = servers.find(|one| one.name == server);
        found.is_some_and(|server| match server.connector {
            Connector::Command | Connector::Files | Connector::Person | Connector::Agent => true,
            Connector::McpStdio { .. } | Connector::McpHttp { .. } => false,
            Connector::Client => server.name == CLIENT_SERVER,
        })
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
        event: &HookEvent,
        session: &Session<'_>,
    ) -> Result<Vec<Unguarded>, SessionError> {
        let Ok(state) = self.project.state() else { return Ok(Vec::new()) };
        let check = TranscriptCheck { supervisor: self.supervisor, root: self.root, state };
        let runs = Runs::new(Arc::clone(self.store));
        let mut found = Vec::new();
        // Sessions that no hook told of are looked for when one begins.
        if let EventKind::SessionStarted { .. } = event.kind {
            let since = watched_since(self.project, event.client, &runs)?;
            let histories = Histories::new(&runs, None);
            let search = session_transcripts::find(event.client, Path::new(self.root), since);
            for other in search.found.values() {
                found.extend(check.unguarded(event.client, other, &histories)?);
            }
            // Whatever an earlier session was told is not told again.
            if !found.is_empty() {
                let noted = histories.noted()?;
                found.retain(|one| !noted.contains(one));
            }
            return Ok(found);
        }
        let own = match event.client {
            Client::Claude | Client::Codex | Client::Gemini => {
                let path = event.transcript.as_deref().map(Path::new);
                path.and_then(|path| session_transcripts::read(event.client, path, &event.session))
            }
            Client::OpenCode => {
                let since = watched_since(self.project, event.client, &runs)?;
                let mut search = session_transcripts::find_in_database(&event.session, since);
                search.found.remove(&event.session)
            }
        };
        if let Some(own) = own {
            let histories = Histories::new(&runs, Some(session.run));
            found.extend(check.unguarded(event.client, &own, &histories)?);
        }
        Ok(found)
    }

    fn hooks_problem(&self, event: &HookEvent, file: Option<&str>) -> Option<String> {
        let user = Project::of_user();
        let states = [Some(self.project), user.as_ref()].into_iter().flatten();
        let states = states.filter_map(|project| project.state().ok());
        let root = Path::new(self.root);
        let mut own = states.filter_map(|state| installed::problem_of(state, event.client, root));
        own.next().or_else(|| installed::switched_off(event.client, Path::new(file?)))
    }
}

/// The runs of all sessions in a journal.
pub fn sessions_in(runs: &Runs) -> Result<Vec<TraceId>, JournalError> {
    let filter = RunFilter { open_only: false, state: None, limit: SESSIONS_MAX };
    let mut found = Vec::new();
    for one in runs.list(&filter)? {
        match RunSummary::read(runs.store(), &one.trace.head) {
            Ok(summary) if summary.client.is_some() => found.push(one.trace.head.trace_id),
            Ok(_) => {}
            // `verify` reports it.
            Err(error) if error.is_damage() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Since when the sessions of a client are to be guarded: since its hooks were installed, or its first session here.
pub fn watched_since(
    project: &Project,
    client: Client,
    runs: &Runs,
) -> Result<SystemTime, JournalError> {
    if let Some(installed) = project.state().ok().and_then(|state| installed::since(state, client))
    {
        return Ok(installed);
    }
    for run in sessions_in(runs)?.into_iter().rev() {
        let summary = RunSummary::read(runs.store(), &runs.store().load_state(run)?.head)?;
        if summary.client.as_deref() == Some(client.as_str()) {
            let began = summary.started_at.map_or(0, |at| at.unix_ms());
            let began = Duration::from_millis(u64::try_from(began).unwrap_or_default());
            return Ok(SystemTime::UNIX_EPOCH + began);
        }
    }
    Ok(SystemTime::now())
}

/// A path as text. Clients name folders without links, so that is what it is asked for.
pub fn text_of(path: &Path) -> Result<String, Failure> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| Failure::new(Code::FileUnreadable, "the path of the project is not UTF-8"))
}
