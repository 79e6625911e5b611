//! A project of the dashboard. Commands run as processes of this program.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::Value;
use windlass_dashboard::{Command, Problem, Project as Served, StopItem, is_recorded};
use windlass_engine::{EngineError, StopSwitch};
use windlass_kernel::{Code, Digest, TraceId};
use windlass_runtime::{Clock as _, SystemClock};
use windlass_store::{Store, TraceFilter};
use windlass_workspace::{BlobError, BlobStore};

use crate::config::Config;
use crate::failure::Failure;
use crate::project::{DATABASE, Project};

/// How long a command may take.
const TIME_MAX: Duration = Duration::from_secs(120);
/// How long a command that goes on is watched for an error at once.
const FIRST_LOOK: Duration = Duration::from_secs(2);
/// How often it is looked whether a command has recorded its first entry.
const RECORD_LOOK: Duration = Duration::from_millis(20);
/// How often it is looked whether a journal that could not be read is mended.
const MENDED_LOOK: Duration = Duration::from_millis(500);
/// The exit code of a command whose work waits for a person.
const EXIT_ON_HOLD: i32 = 4;
/// The greatest exit code that says how work ended; those above are a fault of ours, a panic or a signal.
const EXIT_MAX: i32 = 5;
/// The most of a command's output that is read.
const OUTPUT_BYTES_MAX: u64 = 32 << 20;

/// A project that the dashboard shows.
pub struct ServedProject {
    id: String,
    name: String,
    project: Project,
    program: PathBuf,
    store: Mutex<Option<Opened>>,
    /// The configuration when its policy was last checked, and what was said of it.
    checked: Mutex<Option<(Configuration, Value)>>,
}

/// A journal that was opened, or could not be, and the file that it was opened from.
struct Opened {
    store: Result<Arc<dyn Store>, Problem>,
    file: Option<(u64, u64)>,
    at: Instant,
}

impl Opened {
    /// Whether it still tells how the journal is. One that could not be read may be mended at any time.
    fn is_current(&self, file: Option<(u64, u64)>) -> bool {
        self.file == file
            && match &self.store {
                Ok(store) => is_readable(store.as_ref()).is_ok(),
                Err(_) => self.at.elapsed() < MENDED_LOOK,
            }
    }
}

/// Fails if not even the newest trace of a journal can be read.
fn is_readable(store: &dyn Store) -> Result<(), Problem> {
    let newest = TraceFilter::all(1);
    store.list_traces(&newest).map(drop).map_err(|error| problem(&error.into()))
}

/// The files of a configuration, by name.
type Configuration = BTreeMap<String, Vec<u8>>;

impl ServedProject {
    /// Serves a project.
    pub fn new(project: Project) -> Result<Self, Failure> {
        let last = |path: &std::path::Path| {
            path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let id = last(project.state()?);
        let name = last(&project.root);
        let program =
            std::env::current_exe().map_err(|error| Failure::of(Code::Internal, &error))?;
        let (store, checked) = (Mutex::default(), Mutex::default());
        Ok(Self { id, name, project, program, store, checked })
    }

    /// Which file the journal is now.
    fn file(&self) -> Option<(u64, u64)> {
        let path = self.project.state().ok()?.join(DATABASE);
        path.metadata().ok().map(|found| (found.dev(), found.ino()))
    }

    /// Its folder.
    pub fn root(&self) -> &Path {
        &self.project.root
    }

    /// Fails if the folder of the project is gone.
    fn require_folder(&self) -> Result<(), Problem> {
        let root = &self.project.root;
        if root.is_dir() {
            return Ok(());
        }
        let message = format!("the folder `{}` is gone", root.display());
        Err(Problem::new(Code::ProjectMissing, message).hint("bring it back, or end this server"))
    }

    /// The settings of the project, as they are now.
    pub fn settings(&self) -> Result<Config, Failure> {
        self.project.settings()
    }

    /// Starts a command that may outlive the server.
    fn spawn(&self, command: &Command) -> Result<StartedCommand, Problem> {
        command.check()?;
        self.require_folder()?;
        let mut process = self.process(command);
        let errors = scratch()?;
        process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(handle(&errors)?);
        let child = process.spawn().map_err(|error| unstartable(&error))?;
        Ok(StartedCommand { child, errors })
    }

    fn process(&self, command: &Command) -> Process {
        let mut process = Process::new(&self.program);
        process.arg("-C").arg(&self.project.root).arg("--json").args(&command.arguments);
        process.current_dir(&self.project.root);
        // Ctrl-C at the terminal of the server does not reach what it has started.
        process.process_group(0);
        process
    }
}

/// A command that was started, and what it prints about errors.
struct StartedCommand {
    child: Child,
    errors: File,
}

impl StartedCommand {
    /// The result of a command that has ended in this way.
    fn result(mut self, status: ExitStatus) -> Result<(), Problem> {
        judge(status, &text_of(&mut self.errors)?, Output::Elsewhere)
    }

    /// Lets it go on. Nobody waits for it any more, but its end must be noted by its parent.
    fn leave(mut self) -> Result<(), Problem> {
        let waits = std::thread::Builder::new().name("windlass-child".to_owned());
        let waits = waits.spawn(move || drop(self.child.wait()));
        waits.map(drop).map_err(|error| Problem::new(Code::Internal, error.to_string()))
    }
}

/// An error of ours as a problem.
fn problem(failure: &Failure) -> Problem {
    let told = Problem::new(failure.code(), failure.message());
    match failure.advice() {
        Some(advice) => told.hint(advice),
        None => told,
    }
}

impl Served for ServedProject {
    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn store(&self) -> Result<Arc<dyn Store>, Problem> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        // A journal that was restored from a backup is another file.
        let file = self.file();
        if let Some(opened) = store.as_ref().filter(|opened| opened.is_current(file)) {
            return opened.store.clone();
        }
        *store = None;
        let settings = self.project.settings().map_err(|failure| problem(&failure))?;
        let opened = self.project.store_to_read(&settings).map_err(|failure| problem(&failure));
        let opened = opened.and_then(|opened| {
            is_readable(&opened)?;
            Ok(Arc::new(opened) as Arc<dyn Store>)
        });
        *store = Some(Opened { store: opened.clone(), file: self.file(), at: Instant::now() });
        opened
    }

    fn reopen(&self) {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        // What could not be opened is tried again by itself.
        if store.as_ref().is_some_and(|opened| opened.store.is_ok()) {
            *store = None;
        }
    }

    fn policy(&self) -> Result<Value, Problem> {
        let files = self.project.files().map_err(|failure| problem(&failure))?;
        let lock = || self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, checked)) = lock().as_ref().filter(|(then, _)| *then == files) {
            return Ok(checked.clone());
        }
        let checked = self.command(Command::new(["policy", "check"]))?;
        // What was changed meanwhile is checked again the next time.
        *lock() = Some((files, checked.clone()));
        Ok(checked)
    }

    fn ready(&self) -> Result<(), Problem> {
        self.require_folder()?;
        self.project.settings().map_err(|failure| problem(&failure))?;
        self.store().map(drop)
    }

    fn content(&self, digest: Digest, bytes_max: u64) -> Result<Vec<u8>, Problem> {
        let refused = |error: &BlobError| Problem::new(error.code(), error.to_string());
        let folder = self.project.state().map_err(|failure| problem(&failure))?.join("blobs");
        if !folder.exists() {
            return Err(refused(&BlobError::Missing { digest }));
        }
        let blobs = BlobStore::open(folder).map_err(|error| refused(&error))?;
        let length = blobs.len(&digest).map_err(|error| refused(&error))?;
        if length > bytes_max {
            let message = format!("the content has {length} bytes, and {bytes_max} are sent");
            return Err(Problem::new(Code::DocSizeExceeded, message)
                .hint("`windlass export RUN` writes a bundle that has it"));
        }
        let mut bytes = Vec::new();
        blobs.copy_to(&digest, &mut bytes).map_err(|error| refused(&error))?;
        Ok(bytes)
    }

    fn stopped(&self, run: &str) -> Result<Option<StopItem>, Problem> {
        let folder = self.project.stop_folder().map_err(|failure| problem(&failure))?;
        match StopSwitch::new(folder).check(Some(run)) {
            Ok(()) => Ok(None),
            Err(EngineError::Stopped { by, reason, run }) => {
                Ok(Some(StopItem { by, reason, all: run.is_none() }))
            }
            Err(error) => Err(Problem::new(error.code(), error.to_string())),
        }
    }

    fn command(&self, command: Command) -> Result<Value, Problem> {
        command.check()?;
        self.require_folder()?;
        let mut process = self.process(&command);
        let (mut output, mut errors) = (scratch()?, scratch()?);
        process.stdin(if command.input.is_some() { Stdio::piped() } else { Stdio::null() });
        process.stdout(handle(&output)?).stderr(handle(&errors)?);
        let mut child = process.spawn().map_err(|error| unstartable(&error))?;
        if let (Some(input), Some(mut stdin)) = (&command.input, child.stdin.take()) {
            // A command that does not read it has ended with an error, which is told below.
            drop(stdin.write_all(input.as_bytes()));
        }
        let Some(status) = wait(&mut child, TIME_MAX)? else {
            drop(child.kill());
            drop(child.wait());
            return Err(Problem::new(Code::Internal, "the command took too long"));
        };
        let text = text_of(&mut output)?;
        let printed = if text.trim().is_empty() { Output::Nothing } else { Output::Something };
        judge(status, &text_of(&mut errors)?, printed)?;
        // Some commands print a document for each line.
        let lines = || text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>();
        let value = serde_json::from_str(&text).or_else(|_| lines().map(Value::Array));
        Ok(value.unwrap_or(Value::String(text)))
    }

    fn start(&self, command: Command) -> Result<(), Problem> {
        let mut started = self.spawn(&command)?;
        match wait(&mut started.child, FIRST_LOOK)? {
            Some(status) => started.result(status),
            None => started.leave(),
        }
    }

    fn new_trace_id(&self) -> TraceId {
        TraceId(SystemClock.new_id())
    }

    fn start_trace(&self, trace: TraceId, command: Command) -> Result<bool, Problem> {
        let store = self.store()?;
        let mut started = self.spawn(&command)?;
        let began = Instant::now();
        loop {
            let ended = wait(&mut started.child, RECORD_LOOK)?;
            if is_recorded(store.as_ref(), trace)? {
                return started.leave().map(|()| true);
            }
            if let Some(status) = ended {
                return started.result(status).map(|()| false);
            }
            if began.elapsed() > FIRST_LOOK {
                return started.leave().map(|()| false);
            }
        }
    }
}

/// A file without a name for the output of a command, which outlives this process if the command does.
fn scratch() -> Result<File, Problem> {
    tempfile::tempfile().map_err(|error| unstartable(&error))
}

fn handle(file: &File) -> Result<Stdio, Problem> {
    file.try_clone().map(Stdio::from).map_err(|error| unstartable(&error))
}

fn unstartable(error: &std::io::Error) -> Problem {
    Problem::new(Code::Internal, format!("the command cannot be started: {error}"))
}

/// What a command has printed besides errors.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    /// It was not kept.
    Elsewhere,
    /// Nothing.
    Nothing,
    /// Something.
    Something,
}

/// Fails unless a command has ended as one does that was done: by itself, and, if not with success, with a word about
/// the reason. What was killed may have recorded anything or nothing.
fn judge(status: ExitStatus, errors: &str, output: Output) -> Result<(), Problem> {
    if let Some(problem) = Problem::printed(errors) {
        return Err(problem);
    }
    let is_explained = match (status.code(), output) {
        (Some(0 | EXIT_ON_HOLD), _) => true,
        (Some(code), Output::Something | Output::Elsewhere) => code <= EXIT_MAX,
        (Some(_), Output::Nothing) | (None, _) => false,
    };
    if is_explained {
        return Ok(());
    }
    let message = format!("the command {} and told nothing", windlass_cell::describe_exit(status));
    Err(Problem::new(Code::Internal, message)
        .hint("look whether it was done before you do it again: it may have been recorded"))
}

/// Waits for the end of a process; `None` if it goes on.
fn wait(child: &mut Child, time: Duration) -> Result<Option<ExitStatus>, Problem> {
    let started = Instant::now();
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let id = id.ok_or_else(|| Problem::new(Code::Internal, "the command has no process"))?;
    let ends = pidfd_open(id, PidfdFlags::empty()).map_err(|error| unstartable(&error.into()))?;
    loop {
        let ended = child.try_wait().map_err(|error| unstartable(&error))?;
        if ended.is_some() {
            return Ok(ended);
        }
        let Some(left) = time.checked_sub(started.elapsed()).filter(|left| !left.is_zero()) else {
            return Ok(None);
        };
        let left =
            Timespec::try_from(left).map_err(|error| unstartable(&std::io::Error::other(error)))?;
        match poll(&mut [PollFd::new(&ends, PollFlags::IN)], Some(&left)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(unstartable(&error.into())),
        }
    }
}

fn text_of(file: &mut File) -> Result<String, Problem> {
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes));
    read.map_err(|error| unstartable(&error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn only_a_command_that_ended_by_itself_was_done() {
        let exited = |code: i32| ExitStatus::from_raw(code << 8);
        let killed = ExitStatus::from_raw(9);
        let error = r#"{"error":{"code":"HOLD_STALE","message":"it is stale"}}"#;
        for output in [Output::Nothing, Output::Something, Output::Elsewhere] {
            assert!(judge(exited(0), "", output).is_ok());
            assert!(judge(exited(4), "", output).is_ok());
            assert_eq!(judge(exited(1), error, output).unwrap_err().code, "HOLD_STALE");
            for status in [killed, ExitStatus::from_raw(15), exited(70), exited(101), exited(137)] {
                let problem = judge(status, "warning: not an error\n", output).unwrap_err();
                assert_eq!(problem.code, "INTERNAL", "{status}");
                assert!(problem.status.is_server_error());
            }
        }
        // Such as a journal that is corrupt, or a run that failed: told in the output, or in the journal.
        assert!(judge(exited(5), "", Output::Something).is_ok());
        assert!(judge(exited(1), "", Output::Elsewhere).is_ok());
        assert!(judge(exited(1), "", Output::Nothing).is_err());
    }
}
