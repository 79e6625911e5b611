//! `windlass hook`: answers one event of a coding agent. Whatever fails is a refusal.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use windlass_hooks::{Client, EVENT_BYTES_MAX, HookEvent, HookOutput, refuse_unreadable, render};
use windlass_kernel::Code;
use windlass_kernel::run::SESSION_BUILTIN;
use windlass_loops::{KnownNames, LoopFile};
use windlass_runtime::SystemClock;
use windlass_sessions::{Guard, NewSession, Sessions};

use crate::args::Hook;
use crate::failure::Failure;
use crate::people::user_name;
use crate::project::Project;

/// The loop whose runs are sessions.
const LOOP: &str = include_str!("../session.md");
/// The folder of sessions in the state folder.
const FOLDER: &str = "sessions";
/// How long an answer may take; the clients are told to wait longer.
const DEADLINE: Duration = Duration::from_secs(20);

/// Whether an answer was given; there is one.
static ANSWERED: AtomicBool = AtomicBool::new(false);

/// Reads an event from standard input, judges and records it, and answers. Returns the exit code.
pub fn run(named: Option<&Path>, options: &Hook) -> u8 {
    let client = options.client.map(crate::args::HookClient::client);
    let refuse = move |reason: &str| refuse_unreadable(client, reason);
    let watched = std::thread::Builder::new().name("deadline".to_owned()).spawn(move || {
        std::thread::sleep(DEADLINE);
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
    Some(if printed().is_ok() { output.exit_code } else { 2 })
}

fn answer(named: Option<&Path>, client: Option<Client>) -> Result<HookOutput, Failure> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(EVENT_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    std::io::stdin()
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::of(Code::FileUnreadable, &error))?;
    let event = HookEvent::parse(&bytes, client)
        .map_err(|error| Failure::of(Code::RequestInvalid, &error))?;
    let project = match named {
        Some(_) => Project::find(named)?,
        None => Project::nearest(Path::new(&event.cwd))?,
    };
    let files = project.files()?;
    let supervisor = project.supervisor(&files)?;
    let (set, redactor) = (supervisor.set().clone(), supervisor.redactor());
    let policy_hash = set.hash();
    let store = Arc::new(project.store(&Project::config(&files)?)?);
    let gateway = project.client_gateway(&files, supervisor)?;
    let sessions = Sessions::new(store, Arc::new(SystemClock), project.state()?.join(FOLDER));
    let root = project
        .root
        .canonicalize()
        .map_err(|error| crate::input::unreadable(&project.root, &error))?;
    let root = root.to_str().ok_or_else(|| {
        Failure::new(Code::FileUnreadable, "the path of the project is not UTF-8")
    })?;
    let guard = Guard {
        gateway: &gateway,
        sessions: &sessions,
        root,
        class: &|server, tool| set.registry().find(server, tool).map(|(_, tool)| tool.class),
        redact: &|text| redactor.redacted(text),
    };
    let builtins = BTreeSet::from([SESSION_BUILTIN.to_owned()]);
    let known = KnownNames { agents: &BTreeSet::new(), builtins: &builtins };
    let file = LoopFile::parse("session.md", LOOP.as_bytes(), &known)?;
    let answer = guard
        .handle(&event, || NewSession {
            plan: file.plan,
            loop_digest: file.digest,
            policy_hash,
            by: user_name(),
            folder: event.cwd.clone(),
            model: event.model.clone(),
        })
        .map_err(|error| Failure::of(error.code(), &error))?;
    Ok(render(event.client, &event.name, &answer))
}
