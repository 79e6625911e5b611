//! Finding sessions in the journal.

use serde_json::Value;
use windlass_hooks::Client;
use windlass_journal::{RunFilter, Runs};
use windlass_kernel::run::Run;
use windlass_kernel::{Code, TraceId};
use windlass_sessions::{SessionName, named_run};
use windlass_views::RunSummary;

use crate::commands::hook::sessions_folder;
use crate::failure::Failure;
use crate::project::Project;

/// The most sessions that are looked through.
const SESSIONS_MAX: usize = 10_000;

/// A session of the journal.
pub struct Found {
    /// Its run.
    pub run: Run,
    /// The client.
    pub client: Client,
    /// The client's id of it.
    pub id: String,
    /// The folder in which the client works.
    pub folder: String,
}

impl Found {
    fn of(run: Run) -> Option<Self> {
        let started = run.started.as_ref().filter(|started| started.plan.is_session())?;
        let option = |name: &str| started.options.get(name).and_then(Value::as_str);
        let client = option("client").and_then(Client::named)?;
        let id = option("session")?.to_owned();
        let folder = started.task.get("folder").and_then(Value::as_str).unwrap_or_default();
        let folder = folder.to_owned();
        Some(Self { client, id, folder, run })
    }

    /// The trace of the run.
    pub const fn trace_id(&self) -> TraceId {
        self.run.head.trace_id
    }

    /// The name of the run.
    pub fn name(&self) -> String {
        self.run.started.as_ref().map(|started| started.run_id.clone()).unwrap_or_default()
    }

    /// The name by which its files are found.
    pub fn session_name(&self) -> SessionName<'_> {
        SessionName { client: self.client, id: &self.id }
    }
}

/// The newest sessions.
pub fn newest(runs: &Runs, open_only: bool, limit: usize) -> Result<Vec<RunSummary>, Failure> {
    let filter = RunFilter { open_only, state: None, limit: SESSIONS_MAX };
    let mut found = Vec::new();
    for one in runs.list(&filter)? {
        if found.len() == limit {
            break;
        }
        match RunSummary::read(runs.store(), &one.trace.head) {
            Ok(summary) if summary.client.is_some() => found.push(summary),
            Ok(_) => {}
            // A corrupt run does not hide the others; `verify` reports it.
            Err(error) if error.is_damage() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

/// Finds a session by the name of its run or the client's id; the newest open one if none is named.
pub fn find(project: &Project, runs: &Runs, named: Option<&str>) -> Result<Found, Failure> {
    let missing = |message: String| {
        Failure::new(Code::RunNotFound, message).hint("`windlass session list` lists them")
    };
    let trace_id = match named {
        None => match newest(runs, true, 1)?.first() {
            Some(summary) => summary.head.trace_id,
            None => return Err(missing("there is no open session".to_owned())),
        },
        Some(name) => match runs.find(name) {
            Ok(trace_id) => trace_id,
            Err(error) => {
                let of = |trace_id| runs.read(trace_id).ok().and_then(Found::of);
                let folder = sessions_folder(project)?;
                let named = Client::ALL.into_iter().filter_map(|client| {
                    let run = named_run(&folder, SessionName { client, id: name })?;
                    of(run).filter(|found| found.id == name)
                });
                // Two clients may have the same id.
                if let Some(found) = named.max_by_key(Found::trace_id) {
                    return Ok(found);
                }
                // Its file may be gone.
                let all = newest(runs, false, SESSIONS_MAX)?;
                let is_it = |summary: &RunSummary| {
                    of(summary.head.trace_id).is_some_and(|found| found.id == name)
                };
                match all.iter().find(|summary| is_it(summary)) {
                    Some(summary) => summary.head.trace_id,
                    None => return Err(error.into()),
                }
            }
        },
    };
    let run = runs.read(trace_id)?;
    let name = named.unwrap_or_default();
    Found::of(run).ok_or_else(|| missing(format!("run `{name}` is not a session of a client")))
}
