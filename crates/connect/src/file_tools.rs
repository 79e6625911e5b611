//! The file tools of Windlass itself, as a target of calls.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use windlass_files::{FileTool, Files, FilesError};
use windlass_kernel::artifact::FileChange;

use crate::call_failure::CallFailure;
use crate::{Certainty, FilesLeftOut, Job, Reply, Sandbox};

/// One write at a time: no other one of this process falls between the check of a file and its change.
static WRITING: Mutex<()> = Mutex::new(());

/// Performs a call of a file tool. A change happens only as it was foreseen and recorded.
pub(crate) fn perform(
    root: &Path,
    left_out: &FilesLeftOut,
    job: &Job<'_>,
    sandbox: Option<&Sandbox>,
) -> Reply {
    let (tool, files) = match open(root, job.tool, sandbox) {
        Ok((tool, files)) => (tool, files.leaving_out(Arc::clone(&left_out.0))),
        Err(failure) => return failure.into_reply(None),
    };
    let _writing = tool.writes().then(|| WRITING.lock().unwrap_or_else(PoisonError::into_inner));
    if tool.writes() && job.foreseen.is_none() {
        let reason = match files.foresee(tool, job.args) {
            Err(error) => error.to_string(),
            Ok(_) => "the file changed while the call was recorded; call it again".to_owned(),
        };
        return CallFailure::failed(reason).into_reply(None);
    }
    match files.perform(tool, job.args, job.foreseen, job.limits.output_bytes_max) {
        Ok(result) => {
            // A command that runs meanwhile must not be taken for who did it.
            let written = job.foreseen.filter(|_| tool.writes()).zip(sandbox);
            let accepted = written.map_or(Ok(()), |(change, sandbox)| {
                sandbox.accept(root, Path::new(&change.path), change.after)
            });
            match accepted {
                Ok(()) => Reply::Success { result },
                Err(failure) => failure.into_reply(Some(result)),
            }
        }
        Err(error) => failure(tool, &error).into_reply(None),
    }
}

/// What a call would make of a file.
pub(crate) fn foresee(
    root: &Path,
    tool: &str,
    args: &Value,
    sandbox: Option<&Sandbox>,
) -> Option<FileChange> {
    let (tool, files) = open(root, tool, sandbox).ok()?;
    // Why it cannot be foreseen is told when it is performed.
    files.foresee(tool, args).ok().flatten()
}

fn open(
    root: &Path,
    tool: &str,
    sandbox: Option<&Sandbox>,
) -> Result<(FileTool, Files), CallFailure> {
    let no_tool = || CallFailure::internal(Certainty::DidNotRun, format!("no file tool `{tool}`"));
    let tool = FileTool::parse(tool).ok_or_else(no_tool)?;
    let hidden = sandbox.map(|sandbox| sandbox.hidden(root)).transpose()?.unwrap_or_default();
    let files = Files::new(root, hidden);
    Ok((tool, files.map_err(|error| failure(tool, &error))?))
}

fn failure(tool: FileTool, error: &FilesError) -> CallFailure {
    let mut failure = CallFailure::failed(error.to_string());
    if let (true, FilesError::Changed(_) | FilesError::Io { .. }) = (tool.writes(), error) {
        // An earlier dispatch may have made the change, and somebody else another one after it.
        failure.certainty = Certainty::Unknown;
    }
    failure
}
