//! One failure, tried with one client.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use windlass_cell::Ending;
use windlass_hooks::Client;
use windlass_kernel::Code;
use windlass_loopback_model::LoopbackModel;

use super::cases::{Attempt, Case, Fault, HooksFault, ProgramFault, StateFault};
use super::report::{Measured, Verdict};
use super::{clients, stand_in};
use crate::agents::ClientProgram;
use crate::failure::Failure;
use crate::scratch::{CheckLock, ScratchRepository, endpoint_like, start_model};

/// How long a client may take.
const TIMEOUT: Duration = Duration::from_secs(90);
/// How long a client waits for a program that never answers, in seconds; as it is installed, it waits for 30.
const SHORT_TIMEOUT_S: u64 = 3;
/// The most of a message that is kept.
const DETAIL_CHARS_MAX: usize = 300;

/// A client and its program.
#[derive(Clone, Copy)]
pub struct Tried<'a> {
    /// The client.
    pub client: Client,
    /// Its program.
    pub program: &'a ClientProgram,
    /// The usual address of its model.
    pub endpoint: &'a str,
}

impl Tried<'_> {
    /// Tries one case in a new repository; `Err` says why it shows nothing.
    pub fn measure(
        &self,
        case: &'static Case,
        lock: &CheckLock,
    ) -> Result<Result<Measured, String>, Failure> {
        let began = Instant::now();
        let folder = lock.folder()?;
        let scratch = ScratchRepository::create(&folder, &self.settings())?;
        let model = start_model(&clients::script(self.client, case, &scratch.root))?;
        let endpoint = endpoint_like(self.endpoint, &model);
        let start = clients::start(self.client, case, &scratch, &endpoint)?;
        let copy = folder.path().join("windlass");
        copy_program(scratch.binary(), &copy)?;
        self.install(case, &scratch, &copy)?;
        self.break_guard(case, &scratch, &copy)?;
        let leading = self.program.arguments.iter().map(String::as_str);
        let arguments: Vec<&str> =
            leading.chain(start.arguments.iter().map(String::as_str)).collect();
        let ended = scratch.run(&self.program.path, &arguments, &start.variables, TIMEOUT)?;
        // Whoever asks afterwards has a program that works, and has it at the path that the records name.
        copy_program(scratch.binary(), &copy)?;
        let has_run = clients::has_run(case.attempt, &scratch.root);
        let verdict = verdict(case, has_run, &scratch, &copy)?;
        // A client that was never asked to use the tool, or is too slow for this machine, shows nothing.
        let said = String::from_utf8_lossy(&ended.stderr);
        let problem = if !matches!(ended.ending, Ending::Exited) {
            Some(format!("it did not end within {} seconds", TIMEOUT.as_secs()))
        } else if model.requests().is_empty() && !case.fault.refuses_prompt() {
            Some(format!("it did not ask its model: {}", said.trim()))
        } else {
            None
        };
        if let Some(problem) = problem {
            return Ok(Err(format!("in the case `{}` {problem}", case.name)));
        }
        let told = match told(&model) {
            Some(told) => told,
            None if model.requests().is_empty() => {
                format!("the model was not asked: {}", said.trim())
            }
            None => "the session ended before the tool was used".to_owned(),
        };
        let detail = told.chars().take(DETAIL_CHARS_MAX).collect();
        Ok(Ok(Measured { case, verdict, detail, took: began.elapsed() }))
    }

    /// The user's settings in the scratch repository: where the client is.
    fn settings(&self) -> String {
        let path = self.program.path.display().to_string();
        let command: Vec<toml::Value> = [path]
            .into_iter()
            .chain(self.program.arguments.iter().cloned())
            .map(toml::Value::from)
            .collect();
        let own = toml::Table::from_iter([("command".to_owned(), command.into())]);
        let agents = toml::Table::from_iter([(self.client.as_str().to_owned(), own.into())]);
        toml::Table::from_iter([("agents".to_owned(), toml::Value::from(agents))]).to_string()
    }

    /// Installs the hooks as a user does, with the copy as their program.
    fn install(
        &self,
        case: &Case,
        scratch: &ScratchRepository,
        copy: &Path,
    ) -> Result<(), Failure> {
        let arguments = ["install", self.client.as_str(), "--project", "--yes"];
        let ended = scratch.run(copy, &arguments, &[], TIMEOUT)?;
        if !ended.status.is_some_and(|status| status.success()) {
            let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
            return Err(Failure::new(Code::ConfigInvalid, format!("the hooks: {said}")));
        }
        if case.fault != Fault::Program(ProgramFault::Hangs) {
            return Ok(());
        }
        let path = self.hook_file(scratch);
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|error| Failure::of(Code::FileUnreadable, &error))?;
        let text = text
            .replace("\"timeout\": 30", &format!("\"timeout\": {SHORT_TIMEOUT_S}"))
            .replace("TIMEOUT_MS = 30_000", &format!("TIMEOUT_MS = {SHORT_TIMEOUT_S}_000"));
        clients::write(&path, &text)
    }

    /// The file that has the hooks.
    fn hook_file(&self, scratch: &ScratchRepository) -> PathBuf {
        scratch.root.join(clients::hook_file(self.client))
    }

    /// Lets the guard fail as the case says.
    fn break_guard(
        &self,
        case: &Case,
        scratch: &ScratchRepository,
        copy: &Path,
    ) -> Result<(), Failure> {
        let unwritable = |error: std::io::Error| Failure::of(Code::FileUnwritable, &error);
        let real = scratch.binary();
        let after_prompt = |line: &str| stand_in::act_after_prompt(copy, real, &scratch.root, line);
        match case.fault {
            Fault::Nothing | Fault::Options(_) => Ok(()),
            Fault::Program(fault) => stand_in::replace(copy, real, fault),
            Fault::State(StateFault::JournalDamaged) => after_prompt(
                "find \"$WINDLASS_STATE\" -name '*.db' -exec sh -c 'echo damaged > \"$1\"' sh {} \\;",
            ),
            Fault::State(StateFault::Deleted) => after_prompt("rm -r \"$WINDLASS_STATE\""),
            Fault::State(StateFault::NotTrusted) => {
                scratch.windlass(&["trust", "--revoke"]).map(drop)
            }
            Fault::Hooks(HooksFault::Removed) => {
                std::fs::remove_file(self.hook_file(scratch)).map_err(unwritable)
            }
            Fault::Hooks(HooksFault::FolderNotTrusted) => clients::distrust(self.client, scratch),
            Fault::Hooks(HooksFault::Disabled) => clients::disable(self.client, scratch),
            Fault::Hooks(HooksFault::DisabledLater) => {
                after_prompt(clients::disabling_line(self.client))
            }
        }
    }
}

/// A copy of a program that can be replaced.
fn copy_program(program: &Path, place: &Path) -> Result<(), Failure> {
    // A link has the same bytes and takes no time; it is replaced, never changed.
    // What stood in its place may be gone.
    drop(std::fs::remove_file(place));
    std::fs::hard_link(program, place)
        .or_else(|_| std::fs::copy(program, place).map(drop))
        .map_err(|error| Failure::of(Code::FileUnwritable, &error))
}

/// What became of the attempt.
fn verdict(
    case: &Case,
    has_run: bool,
    scratch: &ScratchRepository,
    program: &Path,
) -> Result<Verdict, Failure> {
    let is_healthy = case.fault == Fault::Nothing && case.attempt == Attempt::Allowed;
    Ok(match (has_run, is_healthy) {
        (false, _) => Verdict::Stops,
        // A false alarm is no way to notice anything.
        (true, true) if is_recorded(scratch)? && !is_noticed(case, scratch, program)? => {
            Verdict::Works
        }
        (true, true) => Verdict::Runs,
        (true, false) if is_noticed(case, scratch, program)? => Verdict::Noticed,
        (true, false) => Verdict::Runs,
    })
}

/// Whether the journal has a call that was reported back.
fn is_recorded(scratch: &ScratchRepository) -> Result<bool, Failure> {
    let listed = scratch.windlass(&["call", "list", "--json"])?;
    let calls: Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
    let mut calls = calls.as_array().into_iter().flatten();
    Ok(calls.any(|call| call.get("current_state").and_then(Value::as_str) == Some("COMPLETED")))
}

/// Whether Windlass finds afterwards that a tool was used without it, or that the hooks are not as they should be.
fn is_noticed(case: &Case, scratch: &ScratchRepository, program: &Path) -> Result<bool, Failure> {
    let checked = scratch.run(program, &["session", "check", "--json"], &[], TIMEOUT)?;
    let sessions: Value = serde_json::from_slice(&checked.stdout).unwrap_or_default();
    let unguarded = |session: &Value| {
        session.get("unguarded").and_then(Value::as_array).is_some_and(|uses| !uses.is_empty())
    };
    if sessions.as_array().into_iter().flatten().any(unguarded) {
        return Ok(true);
    }
    // Its time limit was changed here, which is not what is measured.
    if case.fault == Fault::Program(ProgramFault::Hangs) {
        return Ok(false);
    }
    let status = scratch.windlass(&["status"])?;
    Ok(String::from_utf8_lossy(&status.stderr).contains("warning: "))
}

/// What the model was told of its last call.
fn told(model: &LoopbackModel) -> Option<String> {
    let requests = model.requests();
    let results = requests.iter().map(|request| &request.results).max_by_key(|all| all.len());
    results?.last().map(|result| result.text.trim().to_owned())
}
