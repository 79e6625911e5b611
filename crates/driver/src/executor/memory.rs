//! Phase 9: saves the memory of the task and writes the memory file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::{Memory, Outcome, SaveRequest};
use serde_json::{Value, json};
use windlass_kernel::run::{NoteKind, Run};
use windlass_kernel::{Code, Digest};

use super::{Driver, answer, recorded, task_id, to_value};
use windlass_engine::EngineError;
use windlass_engine::WorkResult;
use windlass_engine::executors::BuiltinJob;
use windlass_journal::JournalError;

/// Saves the output's `memory`: first in the journal, then in the file.
pub(super) fn perform(driver: &Driver, job: &BuiltinJob<'_>) -> Result<WorkResult, EngineError> {
    let run = job.recorder.run();
    let halt = |reason: String| Ok(answer(Outcome::Halt, reason, json!({})));
    let Some(intent) = recorded::intent(&run) else {
        return halt("the intent is not known".to_owned());
    };
    let output = recorded::output(&run).and_then(|output| output.get("memory"));
    let entries: BTreeMap<String, Value> = match output {
        None => BTreeMap::new(),
        Some(Value::Object(entries)) => {
            entries.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
        }
        Some(_) => return halt("the output's `memory` is not an object".to_owned()),
    };
    if entries.is_empty() {
        return Ok(answer(Outcome::Pass, "", json!({ "summary": "there is nothing to save" })));
    }
    let restored: Option<Digest> = recorded::notes(&run, NoteKind::Memory)
        .find(|body| recorded::str_field(body, "kind") == Some("restored"))
        .and_then(|body| recorded::field(body, "digest"));
    let Some(restored) = restored else {
        return halt("the memory was not restored in this task".to_owned());
    };
    let mut memory = match load(driver, &run)? {
        Ok(memory) => memory,
        Err(reason) => return halt(reason),
    };
    let request = SaveRequest {
        restored,
        intent,
        task_id: task_id(&run),
        ts: job.clock.now(),
        verification: recorded::verification(&run).unwrap_or(Outcome::Halt),
        entries,
    };
    let version = match memory.save(driver.config(), request) {
        Ok(version) => version.clone(),
        Err(error) => {
            let reason = format!("[{}] {error}", error.code());
            return Ok(answer(error.outcome(), reason, json!({})));
        }
    };
    let number = version.version;
    job.recorder.note(
        NoteKind::Memory,
        json!({
            "kind": "saved",
            "project": driver.settings.project_id,
            "version": to_value(&version)?,
        }),
    )?;
    write_file(driver, &memory)?;
    let more = json!({ "summary": format!("version {number} is saved"), "version": number });
    Ok(answer(Outcome::Pass, "", more))
}

fn path(driver: &Driver) -> PathBuf {
    driver.settings.memory.join(format!("{}.jsonl", driver.settings.project_id))
}

/// Loads the project's memory from the journal. A file that is behind is completed; a file that differs
/// is an error, since someone has changed it.
pub(super) fn load(driver: &Driver, run: &Run) -> Result<Result<Memory, String>, EngineError> {
    let memory = match driver.recorded_memory(run)? {
        Ok(memory) => memory,
        Err(error) => return Ok(Err(format!("[{}] {error}", error.code()))),
    };
    let path = path(driver);
    let file = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            let path = path.display();
            let code = Code::FileUnreadable;
            return Ok(Err(format!("[{code}] `{path}` cannot be read: {error}")));
        }
    };
    let bytes = bytes(&memory, run)?;
    if file == bytes {
        return Ok(Ok(memory));
    }
    if bytes.starts_with(&file) {
        write_file(driver, &memory)?;
        return Ok(Ok(memory));
    }
    Ok(Err(format!(
        "[{}] `{}` differs from the journal; move it away, and it is written again",
        Code::StateChecksumMismatch,
        path.display()
    )))
}

fn bytes(memory: &Memory, run: &Run) -> Result<Vec<u8>, EngineError> {
    let trace_id = run.head.trace_id;
    memory
        .to_bytes()
        .map_err(|source| EngineError::Journal(JournalError::NotCanonical { trace_id, source }))
}

/// Writes the file atomically.
fn write_file(driver: &Driver, memory: &Memory) -> Result<(), EngineError> {
    let path = path(driver);
    let temporary = path.with_extension("jsonl.new");
    let unwritable = |source| EngineError::Unwritable { path: path.display().to_string(), source };
    let bytes = memory.to_bytes().map_err(|error| EngineError::Invalid {
        code: error.code(),
        message: "the memory cannot be written".to_owned(),
        hint: None,
    })?;
    std::fs::create_dir_all(&driver.settings.memory).map_err(unwritable)?;
    std::fs::write(&temporary, bytes).map_err(unwritable)?;
    std::fs::rename(&temporary, &path).map_err(unwritable)
}
