//! Runs a command as a job and makes a reply of its result.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use serde_json::{Value, json};

use windlass_cell::{Ending, Finished, Limits, OnSignal, Program, describe_exit};

use crate::call_failure::CallFailure;
use crate::network::CommandNetwork;
use crate::sandbox::OpenCell;
use crate::{Certainty, Confinement, Reply, Sandbox};

/// A command to run.
pub(crate) struct Command<'a> {
    pub argv: &'a [String],
    pub stdin: Option<&'a str>,
    pub env: &'a BTreeMap<String, String>,
    pub cwd: &'a Path,
    pub limits: Limits,
}

/// Runs the program and waits for it.
pub(crate) fn perform(
    command: &Command<'_>,
    confinement: Option<&Confinement>,
    sandbox: Option<&Sandbox>,
) -> Reply {
    let run = || match (confinement, sandbox) {
        (None, _) => start(command, None).map(|finished| (finished, None, None)),
        (Some(_), None) => Err(CallFailure::sandbox("there is no sandbox for the command")),
        (Some(confinement), Some(sandbox)) => {
            let cell = sandbox.open(confinement)?;
            let (mut network, before) = (CommandNetwork::new(cell.rules()), cell.protected());
            let finished = start(command, Some((&cell, &mut network)));
            let network = network.finish();
            match (finished, cell.close(&before)) {
                (Ok(finished), closed) => Ok((finished, network, closed.err())),
                (Err(_), Err(failure)) | (Err(failure), Ok(())) => Err(failure),
            }
        }
    };
    match run() {
        Ok((finished, network, None)) => reply(command.limits, finished).with("network", network),
        // It ran to its end, but what it did cannot be accepted.
        Ok((finished, network, Some(failure))) => {
            failure.into_reply(Some(result(finished.status, finished))).with("network", network)
        }
        Err(failure) => failure.into_reply(None),
    }
}

fn start(
    command: &Command<'_>,
    confined: Option<(&OpenCell, &mut CommandNetwork)>,
) -> Result<Finished, CallFailure> {
    let variables: Vec<(&str, String)> =
        confined.as_ref().map_or_else(Vec::new, |(cell, network)| {
            cell.variables().iter().cloned().chain(network.variables()).collect()
        });
    let own = command.env.iter().map(|(name, value)| (name.as_ref(), value.as_ref()));
    let added = variables.iter().map(|(name, value)| (name.as_ref(), value.as_ref()));
    let mut program = Program {
        argv: command.argv.iter().map(OsStr::new).collect(),
        stdin: command.stdin.map(str::as_bytes),
        env: added.chain(own).collect(),
        cwd: command.cwd,
        limits: command.limits,
        confined: None,
        on_signal: OnSignal::End,
    };
    Ok(match confined {
        None => windlass_cell::run(&program)?,
        Some((cell, network)) => {
            program.confined = Some(cell.confined());
            windlass_cell::run_with_broker(&program, &mut |listener| network.serve(listener))?
        }
    })
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
        Ending::Limit(limit) => {
            CallFailure::limit_of(limit, "command").into_reply(Some(result(status, finished)))
        }
        Ending::Interrupted => {
            CallFailure::interrupted(Certainty::Unknown).into_reply(Some(result(status, finished)))
        }
        Ending::Exited => match status {
            Some(status) if status.success() => {
                Reply::Success { result: result(Some(status), finished) }
            }
            Some(status) => {
                let how = describe_exit(status);
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
