//! One failure, tried with one client.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use windlass_cell::Ending;
use windlass_hooks::{Binary, Client, Root, Scope, install, plan};
use windlass_kernel::Code;
use windlass_loopback_model::LoopbackModel;

use super::cases::{Attempt, Case, Fault, HooksFault, ProgramFault, StateFault};
use super::report::{Measured, Verdict};
use super::{clients, stand_in};
use crate::agents::ClientProgram;
use crate::failure::Failure;
use crate::scratch::{ScratchRepository, endpoint_like, start_model};

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
    /// Tries one case in a new repository.
    pub fn measure(&self, case: &'static Case) -> Result<Measured, Failure> {
        let began = Instant::now();
        let folder = tempfile::Builder::new().prefix("windlass-guards-").tempdir();
        let folder = folder.map_err(|error| Failure::of(Code::FileUnwritable, &error))?;
        let scratch = ScratchRepository::create(folder.path(), "")?;
        let model = start_model(&clients::script(self.client, case, &scratch.root))?;
        let endpoint = endpoint_like(self.endpoint, &model);
        let start = clients::start(self.client, case, &scratch, &endpoint)?;
        let place = folder.path().join("windlass");
        copy(scratch.binary(), &place)?;
        self.install(case, &scratch, &place)?;
        self.break_guard(case, &scratch, &place)?;
        let leading = self.program.arguments.iter().map(String::as_str);
        let arguments: Vec<&str> =
            leading.chain(start.arguments.iter().map(String::as_str)).collect();
        let ended = scratch.run(&self.program.path, &arguments, &start.variables, TIMEOUT)?;
        let has_run = scratch.root.join(clients::mark(case.attempt)).exists();
        let verdict = verdict(case, has_run, &scratch)?;
        let mut detail = told(&model);
        if !matches!(ended.ending, Ending::Exited) {
            detail = format!("the client did not end within {} seconds", TIMEOUT.as_secs());
        } else if model.requests().is_empty() {
            let stderr = String::from_utf8_lossy(&ended.stderr);
            detail = format!("the model was not asked: {}", stderr.trim());
        }
        let detail = detail.chars().take(DETAIL_CHARS_MAX).collect();
        Ok(Measured { case, verdict, detail, took: began.elapsed() })
    }

    /// Puts the hooks into the settings, with the copy as their program.
    fn install(
        &self,
        case: &Case,
        scratch: &ScratchRepository,
        place: &Path,
    ) -> Result<(), Failure> {
        let invalid = |error: &dyn std::error::Error| Failure::of(Code::ConfigInvalid, error);
        let binary = Binary::new(&place.display().to_string()).map_err(|error| invalid(&error))?;
        for path in self.hook_files(scratch, &binary) {
            let before = std::fs::read(&path.0).ok();
            let text = install(&path.1, before.as_deref()).map_err(|error| invalid(&error))?;
            let mut text = String::from_utf8_lossy(&text).into_owned();
            if case.fault == Fault::Program(ProgramFault::Hangs) {
                text = text
                    .replace("\"timeout\": 30", &format!("\"timeout\": {SHORT_TIMEOUT_S}"))
                    .replace("TIMEOUT_MS = 30_000", &format!("TIMEOUT_MS = {SHORT_TIMEOUT_S}_000"));
            }
            clients::write(&path.0, &text)?;
        }
        Ok(())
    }

    fn hook_files(
        &self,
        scratch: &ScratchRepository,
        binary: &Binary,
    ) -> Vec<(PathBuf, windlass_hooks::Content)> {
        let files = plan(self.client, Scope::Project, binary).into_iter();
        let path = |root: Root, path: &str| match root {
            Root::Project => scratch.root.join(path),
            Root::User { in_home, .. } => scratch.home.join(in_home).join(path),
        };
        files.map(|file| (path(file.root, file.path), file.content)).collect()
    }

    /// Lets the guard fail as the case says.
    fn break_guard(
        &self,
        case: &Case,
        scratch: &ScratchRepository,
        place: &Path,
    ) -> Result<(), Failure> {
        let unwritable = |error: std::io::Error| Failure::of(Code::FileUnwritable, &error);
        let binary = Binary::new(&place.display().to_string())
            .map_err(|error| Failure::of(Code::ConfigInvalid, &error))?;
        match case.fault {
            Fault::Nothing | Fault::Options(_) => Ok(()),
            Fault::Program(fault) => stand_in::replace(place, scratch.binary(), fault),
            Fault::State(StateFault::JournalDamaged) => damage_journal(scratch),
            Fault::State(StateFault::Deleted) => {
                std::fs::remove_dir_all(scratch.states()).map_err(unwritable)
            }
            Fault::State(StateFault::NotTrusted) => {
                scratch.windlass(&["trust", "--revoke"]).map(drop)
            }
            Fault::Hooks(HooksFault::Removed) => self
                .hook_files(scratch, &binary)
                .into_iter()
                .try_for_each(|(path, _)| std::fs::remove_file(path).map_err(unwritable)),
            Fault::Hooks(HooksFault::Disabled) => self.disable(scratch),
            Fault::Hooks(HooksFault::DisabledLater) => {
                let line = clients::disabling_line(self.client);
                stand_in::act_after_prompt(place, scratch.binary(), &scratch.root, line)
            }
        }
    }

    /// Switches the hooks off before the session.
    fn disable(&self, scratch: &ScratchRepository) -> Result<(), Failure> {
        match self.client {
            Client::Claude => clients::write(
                &scratch.root.join(".claude/settings.local.json"),
                "{\"disableAllHooks\":true}",
            ),
            // The hooks of Codex are not trusted, and those of Gemini CLI are switched off by its settings: neither
            // is done here.
            Client::Codex | Client::Gemini => Ok(()),
            Client::OpenCode => clients::write(
                &scratch.root.join(".opencode/plugin/windlass.js"),
                "throw new Error(\"this plugin is damaged\")\n",
            ),
        }
    }
}

/// A copy of a program that can be replaced.
fn copy(program: &Path, place: &Path) -> Result<(), Failure> {
    // A link has the same bytes and takes no time; it is replaced, never changed.
    std::fs::hard_link(program, place)
        .or_else(|_| std::fs::copy(program, place).map(drop))
        .map_err(|error| Failure::of(Code::FileUnwritable, &error))
}

/// Overwrites the journals.
fn damage_journal(scratch: &ScratchRepository) -> Result<(), Failure> {
    let mut folders = vec![scratch.states()];
    let mut damaged = 0_u32;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "db") {
                clients::write(&path, "this is not a journal")?;
                damaged += 1;
            }
        }
    }
    match damaged {
        0 => Err(Failure::new(Code::Internal, "the scratch repository has no journal")),
        1.. => Ok(()),
    }
}

/// What became of the attempt.
fn verdict(case: &Case, has_run: bool, scratch: &ScratchRepository) -> Result<Verdict, Failure> {
    let healthy = case.fault == Fault::Nothing && case.attempt == Attempt::Allowed;
    Ok(match (has_run, healthy) {
        (true, true) if is_recorded(scratch)? => Verdict::Works,
        (true, _) if is_noticed(scratch)? => Verdict::Noticed,
        (true, _) => Verdict::Runs,
        (false, _) => Verdict::Stops,
    })
}

/// Whether the journal has a call that was reported back.
fn is_recorded(scratch: &ScratchRepository) -> Result<bool, Failure> {
    let listed = scratch.windlass(&["call", "list", "--json"])?;
    let calls: Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
    let mut calls = calls.as_array().into_iter().flatten();
    Ok(calls.any(|call| call.get("current_state").and_then(Value::as_str) == Some("COMPLETED")))
}

/// Whether Windlass finds afterwards that a tool was used without it.
fn is_noticed(_: &ScratchRepository) -> Result<bool, Failure> {
    Ok(false)
}

/// What the model was told of its last call.
fn told(model: &LoopbackModel) -> String {
    let requests = model.requests();
    let results = requests.iter().map(|request| &request.results).max_by_key(|all| all.len());
    let last = results.and_then(|results| results.last());
    last.map(|result| result.text.trim().to_owned()).unwrap_or_default()
}
