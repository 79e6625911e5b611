//! `windlass hook`: answers one event of a coding agent. Whatever fails is a refusal.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use windlass_hooks::{
    Answer, Client, EVENT_BYTES_MAX, EventKind, HookEvent, HookOutput, refuse_unreadable, render,
};
use windlass_kernel::Code;
use windlass_kernel::run::SESSION_BUILTIN;
use windlass_loops::{KnownNames, LoopFile};
use windlass_runtime::SystemClock;
use windlass_sessions::core::Core;
use windlass_sessions::{Guard, HoldAnswer, NewSession, OnUnguarded, SessionError, Sessions};

use crate::args::Hook;
use crate::commands::cell;
use crate::config::Unguarded;
use crate::core_session::ProjectCore;
use crate::failure::Failure;
use crate::part::Part;
use crate::people::user_name;
use crate::project::Project;
use crate::refused_events;
use crate::session_loop;
use crate::session_surroundings::{ProjectSurroundings, text_of};

/// The loop whose runs are sessions.
const LOOP: &str = include_str!("../session.md");
/// How long an answer may take; the clients are told to wait longer.
const DEADLINE: Duration = Duration::from_secs(20);
/// How much longer it may take when an agent is about to stop: then the core loop closes its work.
const CLOSING: Duration = Duration::from_secs(540);

/// Whether an answer was given; there is one.
static ANSWERED: AtomicBool = AtomicBool::new(false);
/// Whether an agent is about to stop. One that may not goes on, and Codex lets it do so for ever: it is never refused.
static STOPS: AtomicBool = AtomicBool::new(false);

/// Whether the work of a session may be closed.
static CLOSES: AtomicBool = AtomicBool::new(false);

/// Reads an event from standard input, judges and records it, and answers. Returns the exit code.
pub fn run(named: Option<&Path>, options: &Hook) -> u8 {
    let client = options.client.map(crate::args::HookClient::client);
    let refuse = move |reason: &str| refuse_unreadable(client, reason);
    let watched = std::thread::Builder::new().name("deadline".to_owned()).spawn(move || {
        std::thread::sleep(DEADLINE);
        if CLOSES.load(Ordering::SeqCst) {
            std::thread::sleep(CLOSING);
        }
        if let Some(code) = give(&refuse("Windlass took too long to decide")) {
            std::process::exit(code.into());
        }
    });
    let output = match watched {
        Err(error) => refuse(&format!("Windlass cannot watch its own deadline: {error}")),
        Ok(_) => match catch_unwind(AssertUnwindSafe(|| answer(named, client))) {
            Ok(Ok(output)) => output,
            Ok(Err(failure)) => refuse(&failure.summary()),
            Err(_) => refuse("a bug in Windlass"),
        },
    };
    // Without an answer of ours the deadline gives one and ends the process.
    give(&output).unwrap_or_else(|| {
        loop {
            std::thread::sleep(DEADLINE);
        }
    })
}

/// Prints an answer if none was given, and returns its exit code. An answer that cannot be printed is a refusal.
fn give(output: &HookOutput) -> Option<u8> {
    if ANSWERED.swap(true, Ordering::SeqCst) {
        return None;
    }
    let printed = || {
        std::io::stderr().write_all(output.stderr.as_bytes())?;
        let mut stdout = std::io::stdout();
        stdout.write_all(output.stdout.as_bytes())?;
        stdout.flush()
    };
    let code = if printed().is_ok() { output.exit_code } else { 2 };
    Some(if code == 2 && STOPS.load(Ordering::SeqCst) { 1 } else { code })
}

fn answer(named: Option<&Path>, client: Option<Client>) -> Result<HookOutput, Failure> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(EVENT_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    std::io::stdin()
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::of(Code::FileUnreadable, &error))?;
    let answered = answer_to(&bytes, named, client);
    if let Err(failure) = &answered {
        refused_events::note(client, &bytes, &failure.summary());
    }
    answered
}

fn answer_to(
    bytes: &[u8],
    named: Option<&Path>,
    client: Option<Client>,
) -> Result<HookOutput, Failure> {
    let event = HookEvent::parse(bytes, client).map_err(|error| {
        STOPS.store(names_a_stop(bytes), Ordering::SeqCst);
        Failure::of(Code::RequestInvalid, &error)
    })?;
    STOPS.store(
        matches!(event.kind, EventKind::Stopped { .. } | EventKind::SubagentStopped { .. }),
        Ordering::SeqCst,
    );
    judge(named, &event)
}

/// Whether an event that cannot be read says that an agent is about to stop.
fn names_a_stop(bytes: &[u8]) -> bool {
    let event: serde_json::Value = serde_json::from_slice(bytes).unwrap_or_default();
    let name = event.get("hook_event_name").and_then(serde_json::Value::as_str);
    matches!(name, Some("Stop" | "SubagentStop"))
}

fn judge(named: Option<&Path>, event: &HookEvent) -> Result<HookOutput, Failure> {
    let project = Project::of_session(named, Path::new(&event.cwd))?;
    let is_core = event.client == Client::Claude && session_loop::holds_for(&project)?;
    let part = if is_core { Part::Whole } else { Part::Policy };
    let files = project.files_of(part)?;
    let mut config = Project::config(&files)?;
    config.bound_for_hooks();
    // It is not freed: the process ends at once.
    let supervisor = ManuallyDrop::new(Arc::new(project.supervisor(part, &files)?.for_clients()));
    let policy_hash = supervisor.set().hash();
    let store: Arc<dyn windlass_store::Store> = Arc::new(project.store_for_event(&config)?);
    let (judge, recorder) = (Arc::clone(&supervisor), Arc::clone(&store));
    let gateway = project.client_gateway(part, &files, &config, judge, recorder)?;
    let sessions = sessions_of(&project, Arc::clone(&store))?;
    let root = text_of(project.real_workspace()?)?;
    let binary = cell::program(&supervisor)?;
    let surroundings = ProjectSurroundings {
        project: &project,
        supervisor: &supervisor,
        store: &store,
        root: &root,
    };
    let core_surroundings = ProjectCore {
        project: &project,
        files: &files,
        config: &config,
        supervisor: &supervisor,
        store: &store,
        root: &root,
        cell: binary.as_deref(),
    };
    let core_settings = config.core.settings();
    CLOSES.store(is_core && matches!(event.kind, EventKind::Stopped { .. }), Ordering::SeqCst);
    let core =
        is_core.then_some(Core { settings: &core_settings, surroundings: &core_surroundings });
    let guard = Guard {
        core,
        gateway: &gateway,
        sessions: &sessions,
        project: &text_of(project.real_root()?)?,
        root: &root,
        policy_hash,
        cell: binary.as_deref(),
        limits: config.calls.limits(),
        on_hold: on_hold(event),
        on_unguarded: match config.sessions.unguarded {
            Unguarded::Tell => OnUnguarded::Tell,
            Unguarded::Block => OnUnguarded::Block,
        },
        surroundings: &surroundings,
    };
    let new = || {
        let builtins = BTreeSet::from([SESSION_BUILTIN.to_owned()]);
        let known = KnownNames { agents: &BTreeSet::new(), builtins: &builtins };
        let file = LoopFile::parse("session.md", LOOP.as_bytes(), &known).map_err(|error| {
            let failure = Failure::from(error);
            SessionError::New { code: failure.code(), reason: failure.summary() }
        })?;
        Ok(NewSession {
            plan: file.plan,
            loop_digest: file.digest,
            policy_hash,
            by: user_name(),
            folder: event.cwd.clone(),
            model: event.model.clone(),
        })
    };
    let answer = guard.handle(event, new).map_err(|error| Failure::of(error.code(), &error))?;
    // A refusal that was decided is meant, and the loop counts them; a failure is not.
    if is_core && matches!(answer, Answer::Deny { .. }) {
        STOPS.store(false, Ordering::SeqCst);
    }
    Ok(render(event.client, &event.name, &answer))
}

/// The sessions of a project.
pub fn sessions_of(
    project: &Project,
    store: Arc<dyn windlass_store::Store>,
) -> Result<Sessions, Failure> {
    Ok(Sessions::new(store, Arc::new(SystemClock), sessions_folder(project)?))
}

/// The folder of the files that name the runs of sessions.
pub fn sessions_folder(project: &Project) -> Result<PathBuf, Failure> {
    Ok(project.state()?.join("sessions"))
}

/// What a client is answered about a call that waits for a person. Only Claude Code has a prompt that neither the agent
/// nor a permission mode skips, and only with a person at its terminal; without one it pauses.
fn on_hold(event: &HookEvent) -> HoldAnswer {
    let asks = matches!(
        event.permission_mode.as_deref(),
        None | Some("default" | "acceptEdits" | "auto" | "plan" | "bypassPermissions")
    );
    let entry = std::env::var("CLAUDE_CODE_ENTRYPOINT").ok();
    match (event.client, entry.as_deref()) {
        (Client::Claude, Some("cli")) if asks => HoldAnswer::Prompt,
        (Client::Claude, Some("sdk-cli")) => HoldAnswer::Defer,
        (Client::Claude | Client::Codex | Client::Gemini | Client::OpenCode, _) => {
            HoldAnswer::Refuse
        }
    }
}
