//! Gathers the facts of a task from the journal and the workspace.

use std::collections::BTreeSet;

use crate::{
    CONTEXT_INTENT, ContextFacts, Facts, IntentId, ObservedState, SandboxEvent, SandboxFacts,
};
use serde_json::Value;
use windlass_kernel::Digest;
use windlass_kernel::run::NoteKind;

use super::{Driver, observe, output, recorded};
use windlass_engine::EngineError;
use windlass_engine::executors::{BuiltinJob, task_strings};

/// The folders of the driver's own files and of git.
const ALWAYS_DENIED: [&str; 2] = [".windlass/", ".git/"];

impl Driver {
    /// Gathers the facts; unknown facts are `None`.
    pub(super) fn facts(&self, job: &BuiltinJob<'_>) -> Result<Facts, EngineError> {
        let run = job.recorder.run();
        let workspace = &job.assignment.workspace;
        let intent = recorded::intent(&run);
        let file = self.context_file(workspace)?;
        let assembled: Option<Digest> = recorded::answer_of(&run, "context")
            .and_then(|context| recorded::field(context, "digest"));
        let task = run.head.trace_id;
        let context = ContextFacts {
            is_present: file.digest.is_some(),
            is_valid: Some(file.is_valid),
            digest: file.digest,
            digest_assembled: assembled,
            was_asked: self.was_asked(task)?,
        };
        let sandbox = recorded::sandbox(&run).map(|recorded| SandboxFacts {
            recorded,
            observed: ObservedState {
                confined: self.confinement.is_confined(task),
                context: file.digest,
                intent: intent.clone(),
            },
        });
        let output = recorded::output(&run);
        let is_bootstrap = intent.as_ref().map(|intent| intent.as_str() == CONTEXT_INTENT);
        let well_formed = output.map(|output| {
            output::is_well_formed(output) && (is_bootstrap != Some(true) || file.is_valid)
        });
        let restored = recorded::notes(&run, NoteKind::Memory)
            .any(|body| recorded::str_field(body, "kind") == Some("restored"));
        let changed = observe::changed(job)?;
        let missing = |find: fn(&Value, &std::path::Path) -> Option<BTreeSet<String>>| {
            output.and_then(|output| find(output, workspace))
        };
        Ok(Facts {
            output_intent: output.and_then(|output| recorded::field::<IntentId>(output, "intent")),
            questions_open: match output {
                Some(output) => output::list(output, "/questions"),
                None => Some(Vec::new()),
            },
            selection: recorded::selection(&run),
            model_invoked: recorded::invocation(&run).and_then(|invocation| invocation.model),
            context: Some(context),
            memory_restored: Some(restored),
            sandbox,
            is_bootstrap,
            is_first_run: Some(recorded::has_event(&run, SandboxEvent::FirstRunInProject)),
            has_failed: Some(recorded::has_event(&run, SandboxEvent::Failure)),
            paths_changed: changed.map(|changed| changed.into_keys().collect()),
            paths_allowed: allowed(job),
            paths_denied: denied(job),
            usage: recorded::usage(&run),
            next_call: recorded::next_call(&run, job.assignment.attempt),
            telemetry_writable: None,
            output_well_formed: well_formed,
            claimed_paths_missing: missing(output::paths_missing),
            claimed_symbols_missing: missing(output::symbols_missing),
            claimed_citations_missing: missing(output::citations_missing),
            output_keys_declared: recorded::answer_of(&run, "delegate")
                .and_then(|delegated| output::list(delegated, "/declares"))
                .map(|keys| keys.into_iter().collect()),
            output_keys: output
                .and_then(Value::as_object)
                .map(|object| object.keys().cloned().collect()),
            verification: recorded::verification(&run),
            intent,
        })
    }
}

/// The paths that the task may change, in the driver's form; all paths if it has no list.
pub(super) fn allowed(job: &BuiltinJob<'_>) -> Option<BTreeSet<String>> {
    let paths = task_strings(job.task(), "/constraints/allowed_paths").ok()?;
    if paths.is_empty() {
        return Some(BTreeSet::from([".".to_owned()]));
    }
    // A folder allows all files in it. A pattern matches nothing here, and so allows nothing.
    let both = |path: &str| [path.to_owned(), format!("{}/", path.trim_end_matches('/'))];
    Some(paths.into_iter().flat_map(both).collect())
}

/// The paths that the task must not change; `None` if one of them is a pattern.
pub(super) fn denied(job: &BuiltinJob<'_>) -> Option<BTreeSet<String>> {
    let paths = task_strings(job.task(), "/constraints/denied_paths").ok()?;
    if paths.iter().any(|path| path.contains(['*', '?', '[', '{'])) {
        return None;
    }
    Some(ALWAYS_DENIED.into_iter().chain(paths).map(str::to_owned).collect())
}
