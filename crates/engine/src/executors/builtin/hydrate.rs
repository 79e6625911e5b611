//! `hydrate`: reads the files that the task refers to.

use std::path::{Component, Path};

use serde_json::json;
use windlass_beneath::Folder;
use windlass_kernel::Digest;

use super::{Builtin, BuiltinJob, WorkResult, task_strings};
use crate::error::EngineError;

/// The maximum size of a file that a task may refer to.
const BYTES_MAX: u64 = 16 << 20;

/// Reads every file in `context_refs` of the task and returns their sizes and digests.
pub(super) struct Hydrate;

impl Builtin for Hydrate {
    fn perform(&self, job: &BuiltinJob<'_>) -> Result<WorkResult, EngineError> {
        let workspace = &job.assignment.workspace;
        let mut context = Vec::new();
        let references = match task_strings(job.task(), "/context_refs") {
            Ok(references) => references,
            Err(reason) => return Ok(WorkResult::failed("validation_error", reason)),
        };
        for reference in references {
            match read(workspace, reference) {
                Ok((bytes, digest)) => context.push(json!({
                    "path": reference, "bytes": bytes, "sha256": digest,
                })),
                Err(reason) => return Ok(WorkResult::failed("validation_error", reason)),
            }
        }
        let base = job.assignment.run.started.as_ref().and_then(|started| started.base.as_ref());
        Ok(WorkResult::answer(json!({
            "summary": match context.len() {
                1 => "1 reference of the task was read".to_owned(),
                many => format!("{many} references of the task were read"),
            },
            "base": base.map(|base| base.commit.clone()),
            "context": context,
        })))
    }
}

/// Reads a file inside the workspace.
fn read(workspace: &Path, reference: &str) -> Result<(u64, Digest), String> {
    let path = Path::new(reference);
    let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    if !inside || reference.is_empty() {
        return Err(format!("the reference `{reference}` is not a path inside the workspace"));
    }
    let unreadable =
        |error: std::io::Error| format!("the reference `{reference}` cannot be read: {error}");
    let real = workspace.join(path).canonicalize().map_err(unreadable)?;
    let root = workspace.canonicalize().map_err(unreadable)?;
    if !real.starts_with(&root) {
        return Err(format!("the reference `{reference}` is outside the workspace"));
    }
    let metadata = std::fs::metadata(&real).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(format!("the reference `{reference}` is not a file"));
    }
    // No link can have taken the place of a folder since.
    let bytes = Folder::read_real(&real, BYTES_MAX).map_err(|error| {
        if error.kind() == std::io::ErrorKind::FileTooLarge {
            format!("the reference `{reference}` is larger than {BYTES_MAX} bytes")
        } else {
            unreadable(error)
        }
    })?;
    Ok((u64::try_from(bytes.len()).unwrap_or(u64::MAX), Digest::of(&bytes)))
}
