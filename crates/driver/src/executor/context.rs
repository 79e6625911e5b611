//! Phase 2: assembles the context: the project's context file and its memory.

use crate::{CONTEXT_INTENT, FailureClass, Outcome, Response, SandboxEvent};
use serde_json::{Value, json};
use windlass_kernel::run::NoteKind;

use super::observe::ContextFile;
use super::{Driver, answer, memory, recorded};
use windlass_engine::EngineError;
use windlass_engine::WorkResult;
use windlass_engine::executors::BuiltinJob;

/// Checks the context file, and restores the memory if the intent needs it.
pub(super) fn perform(driver: &Driver, job: &BuiltinJob<'_>) -> Result<WorkResult, EngineError> {
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
    record_context(driver, job, &file)?;
    let name = config.context_file();
    let usable = file.digest.is_some() && file.is_valid;
    if declared.project_bound && !usable {
        let state = if file.digest.is_some() { "is not valid" } else { "is missing" };
        let response = config.response(Response::InsufficientContext);
        let (outcome, more) = if driver.was_asked(run.head.trace_id)? {
            (Outcome::Halt, ", and the person was asked before")
        } else {
            (config.outcome(FailureClass::MissingInformation), "")
        };
        let reason = format!(
            "{response} the context file `{name}` {state}{more}; a task of the intent \
             `{CONTEXT_INTENT}` creates one"
        );
        return Ok(answer(outcome, reason, json!({ "asked": true })));
    }
    let mut more = json!({
        "summary": if usable { "the context file is valid" } else { "there is no context file" },
        "digest": file.digest,
        "bytes": file.bytes,
        "context_file": name,
    });
    let mut add = |key: &str, value: Value| {
        if let Some(object) = more.as_object_mut() {
            object.insert(key.to_owned(), value);
        }
    };
    if usable {
        add("asked", json!(false));
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
        add("memory", json!({ "version": view.version, "entries": view.entries }));
    }
    Ok(answer(Outcome::Pass, "", more))
}

fn record_context(
    driver: &Driver,
    job: &BuiltinJob<'_>,
    file: &ContextFile,
) -> Result<(), EngineError> {
    let (event, why) = match (file.digest, file.is_valid) {
        (None, _) => (SandboxEvent::ContextMissing, "there is no context file"),
        (Some(_), true) => (SandboxEvent::ContextValidated, "the context file is valid"),
        (Some(_), false) => (SandboxEvent::ContextChanged, "the context file is not valid"),
    };
    let digest = file.digest;
    driver.change_sandbox(job, event, |recorded| recorded.context = digest, why)?;
    Ok(())
}
