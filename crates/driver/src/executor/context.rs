//! Phase 2: what the task needs to know: the project's context file and its memory.

use crate::{CONTEXT_INTENT, FailureClass, Outcome, Response, SandboxEvent as Happening};
use serde_json::{Value, json};
use windlass_kernel::run::NoteKind;

use super::observe::ContextFile;
use super::{Driver, answer, memory, recorded};
use windlass_engine::EngineError;
use windlass_engine::WorkResult;
use windlass_engine::executors::Job;

/// Looks at the context file, and restores the memory for the intents that need it.
pub(super) fn perform(driver: &Driver, job: &Job<'_>) -> Result<WorkResult, EngineError> {
    let config = driver.config();
    let run = job.recorder.run();
    let Some(intent) = recorded::intent(&run) else {
        return Ok(answer(Outcome::Halt, "the intent is not known", json!({})));
    };
    let Some(declared) = config.intent(&intent) else {
        let reason = format!("there is no intent `{intent}`");
        return Ok(answer(Outcome::Halt, reason, json!({})));
    };
    let file = driver.context_file(&job.assignment.workspace)?;
    note(driver, job, &file)?;
    let name = config.context_file();
    let usable = file.digest.is_some() && file.is_valid;
    if declared.project_bound && !usable {
        let what = if file.digest.is_some() { "is not valid" } else { "is missing" };
        let response = config.response(Response::InsufficientContext);
        let (outcome, more) = if driver.was_asked(run.head.trace_id)? {
            (Outcome::Halt, ", and the person was asked before")
        } else {
            (config.outcome(FailureClass::MissingInformation), "")
        };
        let reason = format!(
            "{response} the context file `{name}` {what}{more}; a task of the intent \
             `{CONTEXT_INTENT}` makes one"
        );
        return Ok(answer(outcome, reason, json!({ "asked": true })));
    }
    let mut more = json!({
        "summary": if usable { "the context file is valid" } else { "there is no context file" },
        "digest": file.digest,
        "bytes": file.bytes,
        "context_file": name,
    });
    let mut keep = |key: &str, value: Value| {
        if let Some(object) = more.as_object_mut() {
            object.insert(key.to_owned(), value);
        }
    };
    if usable {
        keep("asked", json!(false));
    }
    if declared.restore_required {
        let memory = match memory::load(driver, &run)? {
            Ok(memory) => memory,
            Err(reason) => return Ok(answer(Outcome::Halt, reason, json!({}))),
        };
        let view = memory.restore();
        let body = json!({
            "kind": "restored",
            "project": driver.settings.project_id,
            "version": view.version,
            "digest": view.digest,
        });
        job.recorder.note(NoteKind::Memory, body)?;
        keep("memory", json!({ "version": view.version, "entries": view.entries }));
    }
    Ok(answer(Outcome::Pass, "", more))
}

fn note(driver: &Driver, job: &Job<'_>, file: &ContextFile) -> Result<(), EngineError> {
    let (happening, why) = match (file.digest, file.is_valid) {
        (None, _) => (Happening::ContextMissing, "there is no context file"),
        (Some(_), true) => (Happening::ContextValidated, "the context file is valid"),
        (Some(_), false) => (Happening::ContextChanged, "the context file is not valid"),
    };
    let digest = file.digest;
    driver.change_sandbox(job, happening, |recorded| recorded.context = digest, why)?;
    Ok(())
}
