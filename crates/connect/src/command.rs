//! A command as a job: what came of it becomes a reply.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use serde_json::{Value, json};

use crate::process;
use crate::run::{self, End, Finished, Output, Run};
use crate::trouble::Trouble;
use crate::{Certainty, Limits, Reply};

/// A command to be run.
pub(crate) struct Command<'a> {
    pub argv: &'a [String],
    pub stdin: Option<&'a str>,
    pub env: &'a BTreeMap<String, String>,
    pub cwd: &'a Path,
    pub limits: Limits,
}

/// Runs the program and waits for it.
pub(crate) fn perform(command: &Command<'_>) -> Reply {
    let finished = run::run(&Run {
        argv: command.argv.iter().map(OsStr::new).collect(),
        stdin: command.stdin.map(str::as_bytes),
        env: command.env.iter().map(|(name, value)| (name.as_ref(), value.as_ref())).collect(),
        cwd: command.cwd,
        limits: command.limits,
        output: Output::Kept,
    });
    match finished {
        Ok(finished) => reply(command.limits, finished),
        Err(trouble) => trouble.into_reply(None),
    }
}

fn reply(limits: Limits, finished: Finished) -> Reply {
    let status = finished.status;
    match finished.end {
        End::TooLarge(name) => {
            let limit = limits.output_bytes_max;
            let message = format!("the command wrote more than {limit} bytes to its {name}");
            Trouble::too_large(Certainty::Unknown, message).into_reply(None)
        }
        End::TimedOut => {
            Trouble::timeout(Certainty::Unknown, limits.timeout, "the command did not end")
                .into_reply(Some(result(status, finished)))
        }
        End::Exited => match status {
            Some(status) if status.success() => {
                Reply::Success { result: result(Some(status), finished) }
            }
            Some(status) => {
                let how = process::describe_exit(status);
                Trouble::failed(format!("the command {how}"))
                    .into_reply(Some(result(Some(status), finished)))
            }
            None => Trouble::internal(Certainty::Unknown, "the command's exit was lost")
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

/// Decodes output, and tells whether something could not be decoded.
fn text(bytes: Vec<u8>) -> (String, bool) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, false),
        Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
    }
}
