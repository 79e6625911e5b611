//! Runs a command as a job and makes a reply of its result.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use serde_json::{Map, Value, json};

use windlass_cell::{Ending, Excess, Finished, Limits, OnSignal, Program, describe_exit};

use crate::call_failure::CallFailure;
use crate::command_output::{self, KEPT_BYTES_MAX, MARGIN_BYTES, Outputs};
use crate::network::CommandNetwork;
use crate::open_cell::OpenCell;
use crate::{Certainty, Confinement, Reply, Sandbox};

/// A command to run.
pub(crate) struct Command<'a> {
    pub argv: &'a [String],
    pub stdin: Option<&'a str>,
    pub env: &'a BTreeMap<String, String>,
    pub cwd: &'a Path,
    pub limits: Limits,
    /// Keeps outputs beyond the limit; without, they fail the command.
    pub outputs: Option<&'a dyn Outputs>,
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
            let mut network = CommandNetwork::new(cell.rules());
            let finished = start(command, Some((&cell, &mut network)));
            let network = network.finish();
            match (finished, cell.close()) {
                (Ok(finished), closed) => Ok((finished, network, closed.err())),
                (Err(_), Err(failure)) | (Err(failure), Ok(())) => Err(failure),
            }
        }
    };
    match run() {
        Ok((finished, network, None)) => reply(command, finished).with("network", network),
        // It ran to its end, but what it did cannot be accepted.
        Ok((finished, network, Some(failure))) => {
            failure.into_reply(Some(result(command, finished))).with("network", network)
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
    let (limits, excess) = match command.outputs {
        None => (command.limits, Excess::End),
        Some(_) => {
            let output_bytes_max =
                KEPT_BYTES_MAX.max(command.limits.output_bytes_max) + MARGIN_BYTES;
            (Limits { output_bytes_max, ..command.limits }, Excess::Drop)
        }
    };
    let mut program = Program {
        argv: command.argv.iter().map(OsStr::new).collect(),
        stdin: command.stdin.map(str::as_bytes),
        env: added.chain(own).collect(),
        cwd: command.cwd,
        limits,
        excess,
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

fn reply(command: &Command<'_>, finished: Finished) -> Reply {
    let status = finished.status;
    match finished.ending {
        Ending::TooLarge(name) => {
            let limit = command.limits.output_bytes_max;
            let message = format!("the command wrote more than {limit} bytes to its {name}");
            CallFailure::too_large(Certainty::Unknown, message).into_reply(None)
        }
        Ending::TimedOut => CallFailure::timeout(
            Certainty::Unknown,
            command.limits.timeout,
            "the command did not end",
        )
        .into_reply(Some(result(command, finished))),
        Ending::Limit(limit) => {
            CallFailure::limit_of(limit, "command").into_reply(Some(result(command, finished)))
        }
        Ending::Interrupted => {
            CallFailure::interrupted(Certainty::Unknown).into_reply(Some(result(command, finished)))
        }
        Ending::Exited => match status {
            Some(status) if status.success() => {
                Reply::Success { result: result(command, finished) }
            }
            Some(status) => {
                let how = describe_exit(status);
                CallFailure::failed(format!("the command {how}"))
                    .into_reply(Some(result(command, finished)))
            }
            None => CallFailure::internal(Certainty::Unknown, "the command's exit was lost")
                .into_reply(Some(result(command, finished))),
        },
    }
}

fn result(command: &Command<'_>, finished: Finished) -> Value {
    let Command { limits, outputs, .. } = *command;
    let recorded =
        |bytes, dropped| command_output::recorded(bytes, dropped, limits.output_bytes_max, outputs);
    let stdout = recorded(finished.stdout, finished.stdout_dropped);
    let stderr = recorded(finished.stderr, finished.stderr_dropped);
    let mut result = json!({
        "exit_code": finished.status.and_then(|status| status.code()),
        "signal": finished.status.and_then(|status| status.signal()),
        "stdout": stdout.text,
        "stderr": stderr.text,
    });
    let lossy = (stdout.lossy || stderr.lossy).then_some(Value::Bool(true));
    let cut: Map<String, Value> = [("stdout", stdout.cut), ("stderr", stderr.cut)]
        .into_iter()
        .filter_map(|(name, cut)| Some((name.to_owned(), cut?)))
        .collect();
    let cut = (!cut.is_empty()).then_some(Value::Object(cut));
    if let Value::Object(map) = &mut result {
        let more = [("lossy", lossy), ("cut", cut)].into_iter();
        map.extend(more.filter_map(|(name, value)| Some((name.to_owned(), value?))));
    }
    result
}
