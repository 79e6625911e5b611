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
        return refused(reason).into_reply(None);
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
        Err(error @ FilesError::Io { .. })
            if !job.foreseen.is_some_and(|change| files.is_unmade(change)) && tool.writes() =>
        {
            // It may be in its place without being durable.
            let failure = CallFailure::failed(error.to_string());
            CallFailure { certainty: Certainty::Unknown, ..failure }.into_reply(None)
        }
        // An earlier dispatch may have made the change, and somebody else another one after it.
        Err(error @ FilesError::Changed(_)) if tool.writes() => {
            CallFailure::failed(error.to_string()).into_reply(None)
        }
        Err(error) => refused(error.to_string()).into_reply(None),
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
    Ok((tool, files.map_err(|error| refused(error.to_string()))?))
}

/// A call that changed nothing.
fn refused(message: String) -> CallFailure {
    CallFailure { certainty: Certainty::DidNotRun, ..CallFailure::failed(message) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use windlass_kernel::{RiskLevel, ToolCallId, Uuid7};

    use super::*;
    use crate::{Connect as _, Connectors, Limits, Target};

    /// Performs a call as a gateway does; something may happen to the files in between.
    fn call(root: &Path, tool: &str, args: &Value, meanwhile: impl FnOnce()) -> Reply {
        let left_out = FilesLeftOut::new(|_| false);
        let target = Target::Files { root: root.to_owned(), left_out };
        let connectors = Connectors::new();
        let foreseen = connectors.foresee(&target, tool, args);
        meanwhile();
        connectors.perform(&Job {
            target: &target,
            tool,
            args,
            class: RiskLevel::Write,
            tool_call_id: ToolCallId(Uuid7::from_parts(1, [3; 10])),
            idempotency_key: None,
            limits: Limits { timeout: Duration::from_secs(5), output_bytes_max: 10_000 },
            confinement: None,
            foreseen: foreseen.as_ref(),
        })
    }

    #[test]
    fn wrong_arguments_have_no_effect() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.txt");
        let change = || std::fs::write(&file, "two").unwrap();
        std::fs::write(&file, "one").unwrap();
        let edit = json!({ "path": "a.txt", "edits": [{ "old": "one", "new": "three" }] });
        for reply in [
            call(folder.path(), "write", &json!({ "path": "a.txt", "content": "new" }), || {}),
            call(folder.path(), "read", &json!({ "path": "nothing" }), || {}),
            call(folder.path(), "write", &json!({ "wrong": 1 }), || {}),
        ] {
            let Reply::Failure { certainty, .. } = reply else { panic!("{reply:?}") };
            assert_eq!(certainty, Certainty::DidNotRun);
        }
        // Whoever changed it may have done so after an earlier dispatch.
        let reply = call(folder.path(), "edit", &edit, change);
        assert!(matches!(reply, Reply::Failure { certainty: Certainty::Ran, .. }), "{reply:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "two");
        assert!(matches!(
            call(
                folder.path(),
                "edit",
                &json!({ "path": "a.txt",
            "edits": [{ "old": "two", "new": "three" }] }),
                || {}
            ),
            Reply::Success { .. }
        ));
    }
}
