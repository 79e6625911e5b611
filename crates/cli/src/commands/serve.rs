//! `windlass serve`: the dashboard.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_dashboard::{
    Access, AccessError, Dashboard, Hosts, Hub, Ledger, Looks, Once, Project as Served, Projects,
    Role, Scope, Secret, Server,
};
use windlass_kernel::{Code, Timestamp};
use windlass_runtime::{Clock as _, SystemClock};

use crate::args::{Serve, ServeCommand, ServePeople};
use crate::atomic;
use crate::commands::run::open_to_look;
use crate::dashboard::{Announcer, ServedProject, Worker};
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, sanitize};
use crate::people::{AccountPeople, user_name};
use crate::project::Project;
use crate::state::{StateRoot, cannot_write};
use crate::tls;

/// The folder of the people in the folder of all states, and the file of the user's own token in it.
const FOLDER: &str = ".dashboard";
const TOKEN: &str = "token";
/// The file with the address of the server that was started last.
const URL: &str = "url";
/// How long the link of a start can be used.
const LINK_MS: i64 = 10 * 60_000;

/// Serves the dashboard, or changes who may use it.
pub fn run(named: Option<&Path>, options: &Serve, output: &Output) -> CommandResult {
    // Whoever runs in a cell has nothing to look at.
    if let Some(inside) = windlass_cell::inside_a_cell() {
        return Err(
            Failure::new(Code::SandboxUnavailable, inside).hint("run Windlass outside of it")
        );
    }
    let folder = folder()?;
    let access = Access::open(&folder)?;
    match &options.command {
        None => serve(named, options, &access, &folder, output),
        Some(ServeCommand::Link { by, minutes, run }) => {
            let name = by.clone().unwrap_or_else(user_name);
            let scope = match run {
                None => Scope::All,
                Some(run) => scope_of(&Project::find(named)?, run, output)?,
            };
            let link =
                access.link(&name, scope, SystemClock.now(), i64::from(*minutes) * 60_000)?;
            print_link(&folder, &format!("/enter/{}", link.text()), output)
        }
        Some(ServeCommand::People(command)) => people(&access, command, output),
    }
}

/// The folder of the people.
pub fn folder() -> Result<PathBuf, Failure> {
    Ok(StateRoot::find()?.path().join(FOLDER))
}

/// What a run waits for now.
fn scope_of(project: &Project, name: &str, output: &Output) -> Result<Scope, Failure> {
    let runs = project.runs()?;
    let run = runs.read(runs.find(name)?)?;
    let Some(hold) = run.hold.as_ref().filter(|_| run.ended.is_none()) else {
        let message = format!("run `{}` does not wait for a decision", sanitize(name));
        return Err(Failure::new(Code::RunNotOnHold, message));
    };
    // With the files of a call as they are now.
    let shown = open_to_look(project, output)?.engine.hold_details(&run, hold, None)?.shown;
    let served = ServedProject::new(project.clone())?;
    let run = run.started.as_ref().map(|started| started.run_id.clone()).unwrap_or_default();
    Ok(Scope::Hold { project: served.id().to_owned(), run, shown })
}

/// Prints a link to the server that was started last, or its path if none runs.
fn print_link(folder: &Path, path: &str, output: &Output) -> CommandResult {
    let url = std::fs::read_to_string(folder.join(URL)).ok();
    let url = url.as_deref().map(str::trim).filter(|url| url.starts_with("http"));
    match (output.json, url) {
        (true, url) => output.value(&json!({ "path": path, "url": url }))?,
        (false, Some(url)) => {
            output.line(&format!("{url}{path}"));
            output.note("it can be used once");
        }
        (false, None) => {
            output.line(path);
            output.note("append it to the address of the dashboard; it can be used once");
        }
    }
    Ok(0)
}

fn people(access: &Access, command: &ServePeople, output: &Output) -> CommandResult {
    match command {
        ServePeople::List => {
            let people = access.people()?;
            if output.json {
                let values: Vec<Value> = people
                    .iter()
                    .map(|one| json!({ "name": one.name, "role": one.role, "created_at": one.created_at }))
                    .collect();
                output.value(&values)?;
            } else {
                let rows: Vec<_> = people
                    .iter()
                    .map(|one| {
                        let role = one.role.as_str().to_owned();
                        vec![
                            (one.name.clone(), None),
                            (role, None),
                            (one.created_at.to_string(), None),
                        ]
                    })
                    .collect();
                output.table(&["NAME", "ROLE", "SINCE"], &rows);
            }
        }
        ServePeople::Add { name, role } => {
            let token = access.add(name, (*role).into(), SystemClock.now())?;
            match output.json {
                true => output.value(&json!({ "name": name, "token": token.text() }))?,
                false => {
                    output.line(token.text());
                    output.note(&format!(
                        "the token of {name}, shown once; for a browser: windlass serve link --by {name}"
                    ));
                }
            }
        }
        ServePeople::Remove { name } => {
            access.remove(name)?;
            match output.json {
                true => output.value(&json!({ "removed": name }))?,
                false => output.line(&format!("{} is out", sanitize(name))),
            }
        }
    }
    Ok(0)
}

fn serve(
    named: Option<&Path>,
    options: &Serve,
    access: &Access,
    folder: &Path,
    output: &Output,
) -> CommandResult {
    let mut signal = windlass_cell::signal_pipe().map_err(|error| {
        Failure::new(Code::Internal, format!("signals cannot be handled: {error}"))
    })?;
    let projects = projects(named, options.all)?;
    let unusable = |reason: String| {
        Failure::new(
            Code::RequestInvalid,
            format!("cannot serve at `{}`: {reason}", options.listen),
        )
        .hint("name a free address of this machine, such as --listen 127.0.0.1:7879")
    };
    let listener =
        TcpListener::bind(&options.listen).map_err(|error| unusable(error.to_string()))?;
    let address = listener.local_addr().map_err(|error| unusable(error.to_string()))?;
    let tls = match (&options.certificate, &options.private_key) {
        (Some(certificate), Some(key)) => Some(tls::server_config(certificate, key)?),
        (None, _) | (_, None) => None,
    };
    require_safe(address, tls.is_some(), options.without_tls)?;
    let name = owner(access, folder, SystemClock.now())?;
    let link = access.link(&name, Scope::All, SystemClock.now(), LINK_MS)?;
    let served: Vec<Arc<dyn Served>> =
        projects.iter().map(|project| Arc::clone(project) as Arc<dyn Served>).collect();
    let spend = Ledger::start(&served);
    let served = Arc::new(Projects::new(served));
    let boot = Secret::new().map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
    let boot: String = boot.text().chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    let internal = |error: std::io::Error| Failure::of(Code::Internal, &error);
    let hub = Hub::start(Arc::clone(&served), boot).map_err(internal)?;
    let hosts = Hosts::new(address, &options.host, tls.is_some());
    let scheme = if tls.is_some() { "https" } else { "http" };
    let (looks, once) = (Looks::open(access.folder()), Once::open(access.folder()));
    let keys = Box::new(AccountPeople::open()?);
    let access = access.clone();
    let dashboard =
        Dashboard { projects: Arc::clone(&served), access, hosts, hub, looks, keys, spend, once };
    let server = Server::start(listener, dashboard, tls).map_err(internal)?;
    let shown = options.host.first().cloned().unwrap_or_else(|| address.to_string());
    let url = format!("{scheme}://{shown}");
    let enter = format!("{url}/enter/{}", link.text());
    // It is only told by `serve link`: a server that cannot note it works all the same.
    let noted = folder.join(URL);
    drop(atomic::write(&noted, format!("{url}\n").as_bytes()));
    match output.json {
        true => output.value(&json!({ "url": url, "link": enter }))?,
        false => output.line(&enter),
    }
    Announcer::start(projects.clone(), *output).map_err(internal)?;
    let mut known: BTreeSet<PathBuf> =
        projects.iter().map(|project| project.root().to_owned()).collect();
    let mut worker = options.work.then(|| Worker::new(projects));
    if worker.is_none() && !options.all {
        // Ends when a signal comes.
        drop(signal.read(&mut [0]));
    }
    while (worker.is_some() || options.all) && !has_signal(&signal, Worker::pause())? {
        if options.all {
            for project in new_projects(&mut known)? {
                output.note(&format!("a new project: {}", project.name()));
                Announcer::start(vec![Arc::clone(&project)], *output).map_err(internal)?;
                served.add(Arc::clone(&project) as Arc<dyn Served>);
                worker.iter_mut().for_each(|worker| worker.add(Arc::clone(&project)));
            }
        }
        if let Some(worker) = &mut worker {
            worker.look(output);
        }
    }
    drop(server);
    // Another server may have been started since.
    if std::fs::read_to_string(&noted).is_ok_and(|text| text.trim() == url) {
        drop(std::fs::remove_file(&noted));
    }
    Ok(0)
}

/// Waits for a signal; whether one came.
fn has_signal(signal: &std::io::PipeReader, time: std::time::Duration) -> Result<bool, Failure> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(signal, PollFlags::IN)];
    let timeout =
        Timespec::try_from(time).map_err(|_| Failure::new(Code::Internal, "no such time"))?;
    match poll(&mut fds, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(Failure::new(Code::Internal, format!("cannot wait: {error}"))),
    }
}

/// The projects that are shown.
fn projects(named: Option<&Path>, all: bool) -> Result<Vec<Arc<ServedProject>>, Failure> {
    if !all {
        return Ok(vec![Arc::new(ServedProject::new(Project::find(named)?)?)]);
    }
    let mut projects = Vec::new();
    for path in project_folders()? {
        projects.push(Arc::new(ServedProject::new(Project::find(Some(&path))?)?));
    }
    if projects.is_empty() {
        return Err(Failure::new(Code::ProjectMissing, "this account has no projects"));
    }
    Ok(projects)
}

/// The folders of all projects of the account.
fn project_folders() -> Result<Vec<PathBuf>, Failure> {
    let mut folders = Vec::new();
    for folder in StateRoot::find()?.folders()? {
        // The state of a project that was removed or moved is listed by `windlass state list`.
        let Ok(record) = folder.record() else { continue };
        if record.is_there() {
            folders.push(PathBuf::from(&record.path));
        }
    }
    Ok(folders)
}

/// The projects of the account that are not known yet, by their folders.
fn new_projects(known: &mut BTreeSet<PathBuf>) -> Result<Vec<Arc<ServedProject>>, Failure> {
    let mut new = Vec::new();
    for path in project_folders()? {
        if known.contains(&path) {
            continue;
        }
        // One whose settings cannot be read is looked at again.
        let Ok(found) = Project::find(Some(&path)).and_then(ServedProject::new) else { continue };
        // It may be a known one by another path.
        let is_new = !known.contains(found.root());
        known.extend([path, found.root().to_owned()]);
        if is_new {
            new.push(Arc::new(found));
        }
    }
    Ok(new)
}

/// Fails if the server could be reached from elsewhere without encryption.
fn require_safe(address: SocketAddr, is_tls: bool, without_tls: bool) -> Result<(), Failure> {
    if address.ip().is_loopback() || is_tls || without_tls {
        return Ok(());
    }
    let message =
        format!("`{address}` can be reached from other machines, and nothing would be encrypted");
    Err(Failure::new(Code::RequestInvalid, message).hint(
        "add --certificate and --private-key, or --without-tls if something in front of the server encrypts",
    ))
}

/// The user's own name in the list of people, who is added at the first start; the token is kept in a file for programs.
fn owner(access: &Access, folder: &Path, now: Timestamp) -> Result<String, Failure> {
    let name = user_name();
    match access.add(&name, Role::Operator, now) {
        Ok(token) => {
            let path = folder.join(TOKEN);
            let written = atomic::write(&path, format!("{}\n", token.text()).as_bytes());
            written.map_err(|error| cannot_write(&path, &error))?;
            Ok(name)
        }
        Err(AccessError::Exists { .. }) => Ok(name),
        Err(error) => Err(error.into()),
    }
}

impl From<AccessError> for Failure {
    fn from(error: AccessError) -> Self {
        let unknown = matches!(error, AccessError::Unknown { .. });
        let failure = Self::of(error.code(), &error);
        match unknown {
            true => failure.hint("`windlass serve people list` lists the names"),
            false => failure,
        }
    }
}
