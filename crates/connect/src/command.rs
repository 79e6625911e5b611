//! Runs a command as a job and makes a reply of its result.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use serde_json::{Value, json};

use crate::call_failure::CallFailure;
use crate::confine::{LaunchReport, REPORT_BYTES_MAX, TOKEN_VARIABLE, Token};
use crate::process;
use crate::run::{self, Ending, Finished, Program};
use crate::{Certainty, Confinement, Launcher, Limits, Reply, SandboxSupport};

/// A command to run.
pub(crate) struct Command<'a> {
    pub argv: &'a [String],
    pub stdin: Option<&'a str>,
    pub env: &'a BTreeMap<String, String>,
    pub cwd: &'a Path,
    pub limits: Limits,
}

/// Runs the program and waits for it.
pub(crate) fn perform(command: &Command<'_>, confined: Option<Confined<'_>>) -> Reply {
    let run = || match confined {
        None => start(command, &[], None),
        Some(confined) => start_confined(command, confined),
    };
    match run() {
        Ok(finished) => reply(command.limits, finished),
        Err(failure) => failure.into_reply(None),
    }
}

/// The confinement of a command, and the launcher that applies it.
#[derive(Clone, Copy)]
pub(crate) struct Confined<'a> {
    pub confinement: &'a Confinement,
    /// Without a launcher a confined command is not run.
    pub launcher: Option<&'a Launcher>,
}

fn start(
    command: &Command<'_>,
    prefix: &[OsString],
    token: Option<&Token>,
) -> Result<Finished, CallFailure> {
    let own = command.argv.iter().map(OsStr::new);
    let mut env: Vec<(&OsStr, &OsStr)> =
        command.env.iter().map(|(name, value)| (name.as_ref(), value.as_ref())).collect();
    if let Some(token) = token {
        env.push((TOKEN_VARIABLE.as_ref(), token.as_str().as_ref()));
    }
    Ok(run::run(&Program {
        argv: prefix.iter().map(OsString::as_os_str).chain(own).collect(),
        stdin: command.stdin.map(str::as_bytes),
        env,
        cwd: command.cwd,
        limits: command.limits,
        stderr_extra_bytes: if token.is_some() { REPORT_BYTES_MAX } else { 0 },
    })?)
}

/// Runs the program through the launcher, and removes the launcher's report from its error stream.
fn start_confined(command: &Command<'_>, confined: Confined<'_>) -> Result<Finished, CallFailure> {
    if let Some(problem) = SandboxSupport::detect().problem() {
        return Err(CallFailure::sandbox(problem));
    }
    let Some(launcher) = confined.launcher else {
        return Err(CallFailure::sandbox("there is no launcher that could confine the command"));
    };
    if command.argv.first().is_none_or(String::is_empty) {
        return Err(CallFailure::unavailable(Certainty::DidNotRun, "the command is empty"));
    }
    let token = Token::fresh()
        .map_err(|error| CallFailure::sandbox(format!("there is no randomness: {error}")))?;
    let prefix = launcher.prefix(confined.confinement);
    let mut finished = start(command, &prefix, Some(&token)).map_err(|failure| {
        match failure.certainty {
            // The launcher could not be started, unless the command itself is at fault.
            Certainty::DidNotRun if !cannot_be_started(command) => {
                CallFailure::sandbox(failure.message)
            }
            Certainty::DidNotRun | Certainty::Ran | Certainty::Unknown => failure,
        }
    })?;
    match token.take_report(&mut finished.stderr) {
        LaunchReport::Started => {}
        LaunchReport::Refused(why) => return Err(CallFailure::sandbox(why)),
        LaunchReport::NoProgram(why) => {
            return Err(CallFailure::unavailable(Certainty::DidNotRun, why));
        }
        LaunchReport::Missing => {
            let stderr = String::from_utf8_lossy(&finished.stderr);
            let line = stderr.lines().next().unwrap_or("the launcher wrote nothing");
            return Err(CallFailure::sandbox(format!("the command could not be confined: {line}")));
        }
    }
    let too_long = finished.stderr.len() > command.limits.output_bytes_max;
    if too_long && finished.ending == Ending::Exited {
        finished.ending = Ending::TooLarge("stderr");
    }
    Ok(finished)
}

/// Whether no program could be started with these arguments or in this directory.
fn cannot_be_started(command: &Command<'_>) -> bool {
    !command.cwd.is_dir() || command.argv.iter().any(|word| word.contains('\0'))
}

fn reply(limits: Limits, finished: Finished) -> Reply {
    let status = finished.status;
    match finished.ending {
        Ending::TooLarge(name) => {
            let limit = limits.output_bytes_max;
            let message = format!("the command wrote more than {limit} bytes to its {name}");
            CallFailure::too_large(Certainty::Unknown, message).into_reply(None)
        }
        Ending::TimedOut => {
            CallFailure::timeout(Certainty::Unknown, limits.timeout, "the command did not end")
                .into_reply(Some(result(status, finished)))
        }
        Ending::Exited => match status {
            Some(status) if status.success() => {
                Reply::Success { result: result(Some(status), finished) }
            }
            Some(status) => {
                let how = process::describe_exit(status);
                CallFailure::failed(format!("the command {how}"))
                    .into_reply(Some(result(Some(status), finished)))
            }
            None => CallFailure::internal(Certainty::Unknown, "the command's exit was lost")
                .into_reply(Some(result(None, finished))),
        },
    }
}

fn result(status: Option<ExitStatus>, finished: Finished) -> Value {
    let (stdout, stdout_lossy) = text(finished.stdout);
    let (stderr, stderr_lossy) = text(finished.stderr);
    let mut result = json!({
        "exit_code": status.and_then(|status| status.code()),
        "signal": status.and_then(|status| status.signal()),
        "stdout": stdout,
        "stderr": stderr,
    });
    if (stdout_lossy || stderr_lossy)
        && let Some(map) = result.as_object_mut()
    {
        map.insert("lossy".to_owned(), Value::Bool(true));
    }
    result
}

/// Decodes output as UTF-8, and returns whether something could not be decoded.
fn text(bytes: Vec<u8>) -> (String, bool) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, false),
        Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
    }
}
